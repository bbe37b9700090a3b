"""Files that are parts of a view: their order, and whether those of two views belong together."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

# Names made up by writers, such as UUIDs: they order nothing.
MADE_UP = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,}", re.IGNORECASE)


class PartFile(NamedTuple):
    """A file of several, and how many rows it has."""

    path: str
    rows: int


def in_order(paths: Sequence[str]) -> list[str]:
    """Paths in natural order, folder by folder: part-2 and part-02 come before part-10."""
    return sorted(paths, key=lambda path: [_natural(name) for name in path.split(os.sep)])


def _natural(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """A key by which numbers in names count as numbers; equal ones are ordered as they are written."""
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part], name


def require_same_parts(x: Sequence[PartFile], y: Sequence[PartFile]) -> None:
    """Raise unless the files of two views pair up, where both views have several.

    Files of the same place must have as many rows, and the same numbers in their names, as far as names of
    both views can be compared.
    """
    if len(x) < 2 or len(y) < 2 or [part.path for part in x] == [part.path for part in y]:
        return
    advice = "give both views the same parts, or add '::parts=any' to pair rows across files, in their order"
    mine, theirs = _numbers([part.path for part in x]), _numbers([part.path for part in y])
    if mine is not None and theirs is not None and len(mine[0]) == len(theirs[0]):
        for a, b, first, second in zip(x, y, mine, theirs, strict=False):
            if first != second:
                raise ValueError(
                    f"{b.path} would be paired with {a.path}, and the numbers in their names differ "
                    f"({_listed(second)} and {_listed(first)}): {advice}"
                )
    for a, b in zip(x, y, strict=False):
        if a.rows != b.rows:
            raise ValueError(
                f"{b.path} has {b.rows} rows, {a.path} has {a.rows}: rows are paired file by file; {advice}"
            )
    if len(x) != len(y):
        alone = x[len(y)] if len(x) > len(y) else y[len(x)]
        raise ValueError(f"{alone.path} has no file to be paired with: {len(x)} files and {len(y)}; {advice}")


def _numbers(paths: Sequence[str]) -> list[tuple[int, ...]] | None:
    """The numbers in names that tell files apart; None if names have different numbers of them.

    Numbers that are the same in all names, such as a year or a version, are left out.
    """
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])
    names = [MADE_UP.sub("", os.path.relpath(path, folder or ".")) for path in paths]
    found = [tuple(map(int, re.findall(r"[0-9]+", name))) for name in names]
    if len({len(numbers) for numbers in found}) > 1:
        return None
    telling = [j for j, column in enumerate(zip(*found, strict=True)) if len(set(column)) > 1]
    return [tuple(numbers[j] for j in telling) for numbers in found] if telling else None


def _listed(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
