"""Records of an experiment: a header (date, versions, command), then one line of JSON for each point."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..version import __version__

Record = dict[str, Any]


class Writer:
    """Appends records to a file, each as soon as it is known, the header before the first."""

    def __init__(self, path: Path, header: Record) -> None:
        self._path = path
        self._header: Record | None = header

    def add(self, **record: Any) -> None:
        """Write one record."""
        # Opened with the first record: a run that fails before it leaves the file of an earlier run alone.
        found = [record] if self._header is None else [self._header, record]
        with self._path.open("a" if self._header is None else "w") as file:
            for one in found:
                file.write(json.dumps({name: _short(value) for name, value in one.items()}) + "\n")
        self._header = None


@contextmanager
def writing(path: Path, **header: Any) -> Iterator[Writer]:
    """Yield a writer of records, which replace an older file once all are written.

    Records of a run that ended early stay beside it, in a file that ends in .part.
    """
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(f"{path.parent} is a file: expected a folder for records")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    yield Writer(part, {"kind": "run", **header, **environment()})
    part.replace(path)


def read(path: Path) -> tuple[Record, list[Record]]:
    """The header and the records of a file."""
    header, *records = [json.loads(line) for line in path.read_text().splitlines()]
    return header, records


def environment() -> Record:
    """Date, versions and machine of a record."""
    packages = ("numpy", "scipy", "scikit-learn")
    return {
        "date": date.today().isoformat(),
        "versions": {"appgrad": __version__, "python": platform.python_version()}
        | {name: version(name) for name in packages},
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def _short(value: Any) -> Any:
    """The value, a float rounded to six digits: more would be noise."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    return value


def sets(records: Iterable[Record]) -> list[str]:
    """The data sets of some records, in order."""
    return list(dict.fromkeys(record["set"] for record in records if "set" in record))


def slug(name: str) -> str:
    """The name of a data set as part of a file name."""
    return name.lower().replace(",", "").replace(" ", "_")


def curves_of(records: Iterable[Record]) -> dict[str, list[list[Record]]]:
    """Points by method and seed, in order."""
    found: dict[str, dict[int, list[Record]]] = {}
    for record in records:
        if record["kind"] == "point":
            found.setdefault(record["method"], {}).setdefault(record["seed"], []).append(record)
    return {method: list(seeds.values()) for method, seeds in found.items()}
