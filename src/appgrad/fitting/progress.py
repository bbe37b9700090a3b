"""Where a run stands: in a log, or as a line on the terminal."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import TaskID, TextColumn, TimeElapsedColumn

from ..data.derived import CountedViews
from ..data.views import Views
from ..solvers.problem import Progress
from .plan import duration

logger = logging.getLogger("appgrad")
err = Console(stderr=True, emoji=False)
Callback = Callable[[Progress], Any]


class Watch:
    """A line on the terminal that counts rows, and follows a run of iterations."""

    def __init__(self, bar: Bar) -> None:
        self.bar, self.captured = bar, ""
        self.task: TaskID | None = None
        self.n: int | None = None
        self.rows, self.start = 0, 0.0
        # When the last estimate of the time left was made, and what it was.
        self.estimate: tuple[float, float | None] = 0.0, None

    def begin(self, name: str, n: int | None = None) -> None:
        """Show what is being done, and since when; `n` rows are a pass, where there are passes."""
        if self.task is not None:
            self.bar.remove_task(self.task)
        self.task, self.captured, self.estimate = self.bar.add_task(name, total=None, run=""), "", (0.0, None)
        self.n, self.rows, self.start = n, 0, time.perf_counter()

    def views(self, name: str, views: Views) -> Views:
        """The same views, counted."""
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
        assert self.task is not None
        self.bar.update(self.task, run=", ".join(filter(None, parts)))

    def step(self, progress: Progress) -> None:
        """Note where a run stands: a callback."""
        self.captured = "" if np.isnan(progress.tcc) else f"captured {progress.tcc:.4f}"
        self.estimate = time.perf_counter(), progress.left
        self.count(progress.rows if self.n is None else self.rows)


@contextmanager
def line(show: bool = True) -> Iterator[Watch]:
    """A line of progress on the terminal, gone when it ends."""
    bar = Bar(
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[run]}"),
        console=err,
        transient=True,
        disable=not (show and _can_draw()),
    )
    with bar:
        yield Watch(bar)


@contextmanager
def followed(
    name: str, verbose: int, callback: Callback | None, views: CountedViews | None = None
) -> Iterator[Callback | None]:
    """The callback of a run, with a log (verbose=1) or a line on the terminal (2, where there is one)."""
    if not verbose or verbose < 0:
        yield callback
        return
    if verbose < 2 or not _can_draw():
        yield logged(callback, passes=views is not None)
        return
    with line() as watch:
        watch.begin(name, None if views is None else views.n_samples)
        if views is not None:
            views.on_rows = watch.count

        def both(progress: Progress) -> Any:
            watch.step(progress)
            return None if callback is None else callback(progress)

        yield both


def _can_draw() -> bool:
    return err.is_terminal or err.is_jupyter


def logged(callback: Callback | None, passes: bool = True) -> Callback:
    """A callback that also logs where the run stands, once a second at most; a stream has no `passes`."""
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
