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
from typing import Any, TextIO

from ..version import __version__

try:
    import fcntl
except ImportError:  # Windows has no such locks.
    fcntl = None  # type: ignore[assignment]

Record = dict[str, Any]
# What another run of the same experiment measures otherwise: parts of records that are not compared.
TIMES = ("seconds", "measuring")


class Writer:
    """Appends records to a file, each as soon as it is known, the header before the first.

    `recorded` are the records of a run that was stopped: those that this run need not make again.
    """

    def __init__(self, path: Path, header: Record) -> None:
        self.path = path
        self.recorded = _recorded(path, header) if path.exists() else []
        self._header: list[Record] = [] if self.recorded else [header]
        self._file = _locked(path) if self.recorded else None

    @property
    def checkpoint(self) -> Path:
        """File for the state of a fit that takes long."""
        return self.path.with_suffix(".checkpoint")

    def found(self, **facts: Any) -> list[Record]:
        """Records of the stopped run that say all of these facts."""
        facts = as_written(facts)
        return [one for one in self.recorded if all(one.get(name, ...) == facts[name] for name in facts)]

    def add(self, **record: Any) -> Record:
        """Write one record; returns it as written, with floats rounded."""
        if self._file is None:
            # Opened with the first record: a run that fails before it leaves no file.
            self._file = _locked(self.path)
        self._file.write("".join(json.dumps(as_written(one)) + "\n" for one in (*self._header, record)))
        self._file.flush()
        self._header = []
        return as_written(record)

    def close(self) -> None:
        """Close the file, whether or not all is written."""
        if self._file is not None:
            self._file.close()

    def declare(self, facts: Record, **rest: Any) -> None:
        """Write a record, unless the stopped run has one of these facts: then the rest must be the same."""
        found, new = self.found(**facts), as_written(facts | rest)
        if not found:
            self.add(**new)
        for old in found:
            about = ", ".join(str(value) for value in facts.values())
            _require_same(self.path, old, new, f" of {about}")


@contextmanager
def writing(path: Path, **header: Any) -> Iterator[Writer]:
    """Yield a writer of records, which replace an older file once all are written.

    Records of a run that was stopped stay beside it, in a file that ends in .part. A run with the same header
    goes on from there; another one is refused.
    """
    if path.parent.exists() and not path.parent.is_dir():
        raise NotADirectoryError(f"{path.parent} is a file: expected a folder for records")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    writer = Writer(part, {"kind": "run", **header, **environment()})
    try:
        yield writer
    finally:
        writer.close()
    part.replace(path)


def _locked(path: Path) -> TextIO:
    """The file, open for appending by this run alone: two that write would spoil its records."""
    file = path.open("a", encoding="utf-8", newline="\n")
    try:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise ValueError(
            f"{path} is being written by another run: wait for it, or use another folder"
        ) from error
    return file


def _recorded(path: Path, header: Record) -> list[Record]:
    """The records of a run that was stopped, header included; a last line that is not whole is cut off."""
    with _locked(path) as file:
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        try:
            records = [dict(json.loads(line)) for line in whole.splitlines()]
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is damaged ({error}): remove it to start anew") from error
        if records:
            _require_same(path, _flat(records[0]), _flat(as_written(header)), "")
        file.truncate(len(whole))
    return records


def _flat(header: Record) -> Record:
    """A header without its date, each version under a name of its own."""
    versions = {f"version of {name}": value for name, value in header.get("versions", {}).items()}
    return {name: value for name, value in header.items() if name not in ("date", "versions")} | versions


def _require_same(part: Path, old: Record, new: Record, what: str) -> None:
    """Raise if two records differ in more than times."""
    for name in dict.fromkeys([*new, *old]):
        if name not in TIMES and old.get(name) != new.get(name):
            raise ValueError(
                f"{part} is of another run: {name}{what} was {old.get(name)!r}, and is {new.get(name)!r}; "
                "remove that file to start anew, or write to another folder"
            )


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


def as_written(record: Record) -> Record:
    """The record as a file gives it back: floats rounded to six digits, for more would be noise."""
    return dict(json.loads(json.dumps({name: _short(value) for name, value in record.items()})))


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


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
