"""Progress on the terminal, drawn by rich and removed at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import Progress, TaskID, TextColumn, TimeElapsedColumn

from ..fitting.progress import Watch
from .terminal import err


class RichLine:
    """A display with one task at a time."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.task: TaskID | None = None

    def begin(self, name: str) -> None:
        """Show a task in place of the last one."""
        if self.task is not None:
            self.bar.remove_task(self.task)
        self.task = self.bar.add_task(name, total=None, run="")

    def show(self, text: str) -> None:
        """Show how far the task is."""
        assert self.task is not None
        self.bar.update(self.task, run=text)


@contextmanager
def progress_line(show: bool = True) -> Iterator[Watch]:
    """Show a line of progress on a terminal; yields a `Watch`, which has a callback and counts rows."""
    bar = Progress(
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[run]}"),
        console=err,
        transient=True,
        disable=not (show and (err.is_terminal or err.is_jupyter)),
    )
    with bar:
        yield Watch(RichLine(bar))
