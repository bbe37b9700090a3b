"""Progress of a command: a line on the terminal, drawn by rich and removed at the end, or lines of a log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from ..fitting import progress
from ..fitting.progress import Watch, nothing
from .log import LogLines
from .terminal import err


class RunColumn(ProgressColumn):
    """How far a task is, made anew whenever the line is drawn: the time left goes on between two reports."""

    def render(self, task: Task) -> Text:
        """The text of a task."""
        # A column each before and after the name and the time, which takes seven.
        return Text(task.fields["run"](err.width - len(task.description) - 7 - 3))


class RichLine:
    """A display with one task at a time."""

    def __init__(self, bar: Progress) -> None:
        self.bar = bar
        self.task: TaskID | None = None

    def begin(self, name: str) -> None:
        """Show a task in place of the last one."""
        if self.task is not None:
            self.bar.remove_task(self.task)
        self.task = self.bar.add_task(name, total=None, run=nothing)

    def show(self, text: progress.Text) -> None:
        """Show how far the task is."""
        assert self.task is not None
        self.bar.update(self.task, run=text)


@contextmanager
def progress_line(level: str | None = None, components: int | None = None) -> Iterator[Watch]:
    """Show progress on stderr; yields a `Watch`, which has a callback and counts rows.

    That is a line which is redrawn, on a terminal, or lines of the log if these are asked for by `level`.
    """
    if level is not None or not (err.is_terminal or err.is_jupyter):
        lines = LogLines()
        with lines.writing():
            yield Watch(lines, components)
        return
    columns = TextColumn("{task.description}"), TimeElapsedColumn(), RunColumn()
    with Progress(*columns, console=err, transient=True) as bar:
        yield Watch(RichLine(bar), components)
