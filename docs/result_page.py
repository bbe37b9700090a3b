"""A page of paragraphs, tables and figures in markdown."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from appgrad.experiments.records import Record


class Page:
    """Lines of the page, and where records and figures are as seen from it."""

    def __init__(self, records: Path, figures: Path, page: Path) -> None:
        self.records, self.figures, self.page, self.lines = records, figures, page, []

    def say(self, *lines: str) -> None:
        """Add a paragraph."""
        self.lines += [*lines, ""]

    def table(self, heading: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        """Add a table."""
        heading = list(heading)
        self.say(
            "| " + " | ".join(heading) + " |",
            "|" + "---|" * len(heading),
            *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows),
        )

    def figure(self, name: str, text: str) -> None:
        """Add a figure, where it has been drawn."""
        if (self.figures / f"{name}.png").exists():
            self.say(f"![{text}]({self._seen(self.figures)}/{name}.png)")

    def made(self, header: Record, path: Path, command: str | None = None) -> None:
        """Add how a record came about; `command` repeats it today, if that is another one."""
        versions = ", ".join(f"{name} {version}" for name, version in header["versions"].items())
        link = f"[record]({self._seen(path)})"
        today = "" if command in (None, header["command"]) else f" (today `{command}`)"
        self.say(f"`{header['command']}`{today}, {header['date']}, {header['machine']}, {versions}; {link}.")

    def _seen(self, path: Path) -> str:
        return Path(os.path.relpath(path, self.page.parent)).as_posix()
