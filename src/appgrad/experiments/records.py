"""Records of an experiment: a header (date, versions, command), then one JSON object a line for a point."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

from ..version import __version__

Record = dict[str, Any]


class Writer:
    """Appends records to a file, each as soon as it is known."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def add(self, **record: Any) -> None:
        """Write one record."""
        self._file.write(json.dumps({name: _short(value) for name, value in record.items()}) + "\n")
        self._file.flush()


@contextmanager
def writing(path: Path, **header: Any) -> Iterator[Writer]:
    """A writer of records that take the place of an older file once all are there.

    What was written by a run that ended early stays beside it, in a file that ends in .part.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("w") as file:
        writer = Writer(file)
        writer.add(kind="run", **header, **environment())
        yield writer
    part.replace(path)


def read(path: Path) -> tuple[Record, list[Record]]:
    """The header and the records of a file."""
    header, *records = [json.loads(line) for line in path.read_text().splitlines()]
    return header, records


def environment() -> Record:
    """When and with what a record was made."""
    packages = ("numpy", "scipy", "scikit-learn")
    return {
        "date": date.today().isoformat(),
        "versions": {"appgrad": __version__, "python": platform.python_version()}
        | {name: version(name) for name in packages},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def _short(value: Any) -> Any:
    """Numbers of six digits: more would be noise."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value
