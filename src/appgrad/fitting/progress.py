"""Progress of a run: a log, or one line on stderr, driven by callbacks and counted rows."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Protocol

import numpy as np

from ..data.derived import CountedViews
from ..data.views import Views
from ..machine.readable import duration
from ..solvers.problem import Progress

logger = logging.getLogger("appgrad")
Callback = Callable[[Progress], Any]
# Seconds between two updates of a line: faster ones cannot be read.
EVERY = 0.1


class Display(Protocol):
    """A line of text on a screen."""

    def begin(self, name: str) -> None:
        """Show that a task begins."""

    def show(self, text: str) -> None:
        """Show how far the task is."""


class PlainLine:
    """One line on stderr, redrawn after a carriage return."""

    def __init__(self) -> None:
        self.name, self.start = "", time.perf_counter()
        self.drawn, self.width = -EVERY, 0

    def begin(self, name: str) -> None:
        """Show that a task begins."""
        self.name, self.start, self.drawn = name, time.perf_counter(), -EVERY
        self.show("")

    def show(self, text: str) -> None:
        """Show how far the task is, and for how long it has run."""
        now = time.perf_counter()
        if now - self.drawn < EVERY:
            return
        self.drawn = now
        self._write(f"{self.name} {timedelta(seconds=int(now - self.start))} {text}".rstrip())

    def clear(self) -> None:
        """Leave an empty line, with the cursor at its beginning."""
        self._write("")
        sys.stderr.write("\r")
        sys.stderr.flush()

    def _write(self, line: str) -> None:
        # A line as wide as the terminal would wrap, and could not be redrawn. Blanks cover the last line:
        # some displays know a carriage return but no escape codes.
        line = line[: _columns() - 1]
        sys.stderr.write("\r" + line.ljust(self.width))
        sys.stderr.flush()
        self.width = len(line)


class Watch:
    """A display that counts rows and follows iterations: `count` takes rows, `step` is a callback."""

    def __init__(self, display: Display) -> None:
        self.display, self.captured = display, ""
        self.n: int | None = None
        self.rows, self.start = 0, 0.0
        # When the last estimate of the time left was made, and what it was.
        self.estimate: tuple[float, float | None] = 0.0, None

    def begin(self, name: str, n: int | None = None) -> None:
        """Show a new task and start its clock; a pass has `n` rows, None if there are no passes."""
        self.display.begin(name)
        self.captured, self.estimate = "", (0.0, None)
        self.n, self.rows, self.start = n, 0, time.perf_counter()

    def views(self, name: str, views: Views) -> Views:
        """Begin a task, and return the views with their rows counted on the display."""
        self.begin(name, views.n_samples)
        return CountedViews(views, self.count)

    def count(self, rows: int) -> None:
        """Show how many rows have been delivered so far."""
        self.rows, now = rows, time.perf_counter()
        (at, left), spent = self.estimate, now - self.start
        parts = [f"{rows:,} rows" if self.n is None else f"{rows / self.n:.1f} passes"]
        if spent >= 1:
            parts.append(f"{rows / spent:,.0f} rows/s")
        parts.append(self.captured)
        if left is not None and left - (now - at) >= 0.1:
            parts.append(f"{duration(left - (now - at))} left")
        self.display.show(", ".join(filter(None, parts)))

    def step(self, progress: Progress) -> None:
        """Show where a run stands; this is a callback."""
        self.captured = "" if np.isnan(progress.tcc) else f"captured {progress.tcc:.4f}"
        self.estimate = time.perf_counter(), progress.left
        self.count(progress.rows if self.n is None else self.rows)


@contextmanager
def followed(
    name: str, verbose: int, callback: Callback | None, views: CountedViews | None = None
) -> Iterator[Callback | None]:
    """Yield a callback that also logs (verbose=1) or draws a line on stderr (2, in a terminal or Jupyter)."""
    if not verbose or verbose < 0:
        yield callback
        return
    if verbose < 2 or not _can_draw():
        yield logged(callback, passes=views is not None)
        return
    line = PlainLine()
    watch = Watch(line)
    watch.begin(name, None if views is None else views.n_samples)
    if views is not None:
        views.on_rows = watch.count

    def both(progress: Progress) -> Any:
        watch.step(progress)
        return None if callback is None else callback(progress)

    try:
        yield both
    finally:
        line.clear()


def _can_draw() -> bool:
    """True if stderr is a terminal or a cell of Jupyter."""
    # There is no stderr in programs without a console.
    return sys.stderr is not None and (
        sys.stderr.isatty() or type(sys.stderr).__module__.startswith("ipykernel.")
    )


def _columns() -> int:
    """Width of the terminal; 80 where it has none, as in Jupyter."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def logged(callback: Callback | None, passes: bool = True) -> Callback:
    """Return a callback that also logs progress, once a second at most; a stream has no `passes`."""
    last = 0.0

    def log(progress: Progress) -> Any:
        nonlocal last
        if progress.event is not None or progress.seconds - last >= 1:
            last = progress.seconds
            known = "" if np.isnan(progress.tcc) else f": captured correlation {progress.tcc:.4f}"
            left = "" if progress.left is None else f", about {progress.left:.0f} s left"
            event = "" if progress.event is None else f" ({progress.event})"
            where = f"iteration {progress.iteration}, {progress.passes:.1f} passes"
            logger.info(
                "%s, %d rows, %.0f rows/s, %.1f s%s",
                where if passes else f"batch {progress.iteration}",
                progress.rows,
                progress.rows / max(progress.seconds, 1e-9),
                progress.seconds,
                known + left + event,
            )
        return None if callback is None else callback(progress)

    return log
