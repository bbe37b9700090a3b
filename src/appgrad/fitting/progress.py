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
# Function from the number of characters there is room for to a text of at most as many.
Text = Callable[[int], str]


class Display(Protocol):
    """A line of text on a screen."""

    def begin(self, name: str) -> None:
        """Show that a task begins."""

    def show(self, text: Text) -> None:
        """Show how far the task is; the text is that of the time when it is called for."""


class PlainLine:
    """One line on stderr, redrawn after a carriage return."""

    def __init__(self) -> None:
        self.name, self.start = "", time.perf_counter()
        self.drawn, self.width = -EVERY, 0

    def begin(self, name: str) -> None:
        """Show that a task begins."""
        self.name, self.start, self.drawn = name, time.perf_counter(), -EVERY
        self.show(nothing)

    def show(self, text: Text) -> None:
        """Show how far the task is, and for how long it has run."""
        now = time.perf_counter()
        if now - self.drawn < EVERY:
            return
        self.drawn = now
        line = f"{self.name} {timedelta(seconds=int(now - self.start))} "
        self._write((line + text(_columns() - 1 - len(line))).rstrip())

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
    """A display that counts rows and follows iterations: `count` takes rows, `step` is a callback.

    `components` is how many components are asked for, None if unknown.
    """

    def __init__(self, display: Display, components: int | None = None) -> None:
        self.display, self.components, self.captured = display, components, ""
        self.n: int | None = None
        self.rows, self.start, self.counted = 0, 0.0, 0.0
        # Rows that the run counts and this display does not: those before a run that resumes.
        self.before = 0
        # When the last estimates of the time left were made, and what they were.
        self.estimated = 0.0
        self.left: float | None = None
        self.at_most: float | None = None

    def begin(self, name: str, n: int | None = None) -> None:
        """Show a new task and start its clock; a pass has `n` rows, None if there are no passes."""
        self.captured, self.left, self.at_most = "", None, None
        self.n, self.rows, self.before, self.start = n, 0, 0, time.perf_counter()
        self.display.begin(name)

    def views(self, name: str, views: Views) -> Views:
        """Begin a task, and return the views with their rows counted on the display."""
        self.begin(name, views.n_samples)
        return CountedViews(views, self.count)

    def count(self, rows: int) -> None:
        """Show how many rows have been delivered so far."""
        self.rows, self.counted = rows, time.perf_counter()
        self.display.show(self.text)

    def step(self, progress: Progress) -> None:
        """Show where a run stands; this is a callback."""
        self.captured = captured(progress, self.components)
        self.estimated, self.left, self.at_most = time.perf_counter(), progress.left, progress.at_most
        if self.n is not None:
            self.before = round(progress.passes * self.n) - self.rows
        logger.debug("iteration %d, %.1f passes, %s", progress.iteration, progress.passes, self.captured)
        self.count(progress.rows if self.n is None else self.rows)

    def share(self, done: int, asked: int, things: str) -> None:
        """Show how many of the things asked for are done, and the time left."""
        spent = time.perf_counter() - self.start
        known = f"{done:,} of {asked:,} {things}", time_left(spent * (asked - done) / max(done, 1), None)
        self.display.show(lambda room: ", ".join(filter(None, known)))

    def text(self, room: int) -> str:
        """How far the task is by now; where room is short, without rows a second, then without rows."""
        spent, ago = self.counted - self.start, time.perf_counter() - self.estimated
        count = (
            f"{self.rows:,} rows" if self.n is None else f"{(self.rows + self.before) / self.n:.1f} passes"
        )
        rate = f"{self.rows / spent:,.0f} rows/s" if spent >= 1 else ""
        known = self.captured, time_left(self.left, self.at_most, ago)
        texts = [", ".join(filter(None, parts)) for parts in ((count, *known, rate), (count, *known), known)]
        return next((text for text in texts if len(text) <= room), texts[-1])


def nothing(room: int) -> str:
    """The text of a task that has just begun."""
    return ""


def captured(progress: Progress, components: int | None) -> str:
    """The sum of all correlations found so far, and how large it can be; empty if unknown."""
    if np.isnan(progress.tcc):
        return ""
    most = "" if components is None else f" of at most {components}"
    return f"total correlation {progress.tcc:.4f}{most}"


def time_left(left: float | None, at_most: float | None, ago: float = 0.0) -> str:
    """The time left, by estimates made so many seconds ago; empty if unknown."""
    for word, seconds in (("about", left), ("at most", at_most)):
        if seconds is not None:
            # An estimate that has run out says nothing any more.
            return f"{word} {duration(seconds - ago)} left" if seconds - ago >= 0.1 else ""
    return ""


@contextmanager
def followed(
    name: str,
    verbose: int,
    callback: Callback | None,
    views: CountedViews | None = None,
    components: int | None = None,
) -> Iterator[Callback | None]:
    """Yield a callback that also logs (verbose=1) or draws a line on stderr (2, in a terminal or Jupyter)."""
    if not verbose or verbose < 0:
        yield callback
        return
    if verbose < 2 or not _can_draw():
        yield logged(callback, passes=views is not None, components=components)
        return
    line = PlainLine()
    watch = Watch(line, components)
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


@contextmanager
def counted(name: str, things: str, verbose: int) -> Iterator[Callable[[int, int], Any] | None]:
    """Yield a function of how many things are done and asked for, that logs (1) or draws a line (2)."""
    if not verbose or verbose < 0:
        yield None
        return
    if verbose < 2 or not _can_draw():
        last = time.perf_counter()

        def log(done: int, asked: int) -> None:
            nonlocal last
            if done == asked or time.perf_counter() - last >= 1:
                last = time.perf_counter()
                logger.info("%s: %d of %d %s", name, done, asked, things)

        yield log
        return
    line = PlainLine()
    watch = Watch(line)
    watch.begin(name)
    try:
        yield lambda done, asked: watch.share(done, asked, things)
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


def logged(callback: Callback | None, passes: bool = True, components: int | None = None) -> Callback:
    """Return a callback that also logs progress, once a second at most; a stream has no `passes`."""
    last = 0.0

    def log(progress: Progress) -> Any:
        nonlocal last
        if progress.event is not None or progress.seconds - last >= 1:
            last = progress.seconds
            parts = captured(progress, components), time_left(progress.left, progress.at_most)
            known = "".join(f", {part}" for part in parts if part)
            event = "" if progress.event is None else f" ({progress.event})"
            where = f"iteration {progress.iteration}, {progress.passes:.1f} passes"
            logger.info(
                "%s, %d rows, %.0f rows/s, %.1f s%s",
                where if passes else f"batch {progress.iteration}",
                progress.rows,
                progress.rows / max(progress.seconds, 1e-9),
                progress.seconds,
                known + event,
            )
        return None if callback is None else callback(progress)

    return log
