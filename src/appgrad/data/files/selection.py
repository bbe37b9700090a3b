"""Sources in words: a path, and which array, header and columns of it are meant."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import NamedTuple, Self

import numpy as np

from ...machine.arrays import Array

# What may follow '::', with a value.
OPTIONS = ("columns", "header", "parts", "row-labels")
# Names of columns that an error shows.
SHOWN = 8


class Selection(NamedTuple):
    """A source: `path::key`, `path::columns=a,b,10-20`, `path::header=yes`, in any combination.

    `any_parts` says that its files need not be those of the other view (`path::parts=any`), `any_labels` that
    its row labels need not be (`path::row-labels=any`). `wanted` are the columns of a fitted model, which are
    picked by name if there are names.
    """

    path: str
    key: str | None = None
    columns: str | None = None
    header: bool | None = None
    any_parts: bool = False
    wanted: tuple[str, ...] | None = None
    any_labels: bool = False

    @classmethod
    def of(cls, source: str, wanted: Iterable[str] | None = None) -> Self:
        """The parts of a source; names in double quotes may hold commas and '::'."""
        path, mark, rest = source.partition("::")
        found: dict[str, str] = {}
        for part in _split(rest) if mark else []:
            name, _, value = part.partition("=")
            name, value = (name, value) if name in OPTIONS and "=" in part else ("key", part)
            if name in found:
                raise ValueError(f"{source}: '::{part}' is one {name} too many")
            found[name] = value
        _items(found.get("columns", ""), source)
        header = found.get("header")
        if header not in (None, "yes", "no"):
            raise ValueError(f"{source}: '::header={header}' is neither '::header=yes' nor '::header=no'")
        for name in ("parts", "row-labels"):
            if found.get(name, "any") != "any":
                raise ValueError(f"{source}: '::{name}=' can only be '::{name}=any'")
        return cls(
            path,
            found.get("key"),
            found.get("columns"),
            None if header is None else header == "yes",
            "parts" in found,
            None if wanted is None else tuple(wanted),
            "row-labels" in found,
        )

    def by_position(self, p: int, names: Array | None) -> str | None:
        """A warning if p columns are taken for those of a model by position, and nobody said so."""
        said = self.columns is not None or self.header is False
        # Another number of columns is an error later on.
        if self.wanted is None or names is not None or said or p != len(self.wanted):
            return None
        return f"the model has column names, {self.path} has none: its columns are taken by position"

    def positions(
        self, p: int, names: Array | None = None, numeric: Callable[[], Array] | None = None
    ) -> Array | None:
        """Positions of the columns asked for among p columns; None for all of them as they stand.

        `numeric` says which columns hold numbers; all do without it.
        """
        index, every = None, self.columns == "numeric" and names is None and numeric is None
        if self.columns is not None and not every:
            index = _positions(self.columns, p, names, numeric)
        if self.wanted is None or names is None:
            return index
        known = names if index is None else names[index]
        if list(known) == list(self.wanted):
            return index
        chosen = _by_name(self.wanted, known)
        return chosen if index is None else index[chosen]


def column_of(name: str, names: Array | None) -> int:
    """The position of the column of this name."""
    if names is None:
        raise ValueError(f"its columns have no names: there is no column {name!r}")
    found = np.flatnonzero(names == name)
    if len(found) != 1:
        how = "two columns have" if len(found) else "no column has"
        raise ValueError(f"{how} the name {name!r}; there are {shown_names(names)}")
    return int(found[0])


def _split(text: str) -> list[str]:
    """Parts of a text between '::', but for those in double quotes."""
    return re.split(r'::(?=(?:[^"]*"[^"]*")*[^"]*$)', text)


def shown_names(names: Array) -> str:
    """The first few names, for errors."""
    more = " ..." if len(names) > SHOWN else ""
    return f"{', '.join(map(_shown_name, names[:SHOWN]))}{more}"


def _shown_name(name: object) -> str:
    """A name as it is written in a selection: in double quotes if it holds commas or '::'."""
    text = str(name)
    return f'"{text}"' if "," in text or "::" in text else text or "(no name)"


def _by_name(wanted: tuple[str, ...], names: Array) -> Array:
    """Positions of the columns of a model among columns with these names."""
    position = {name: i for i, name in enumerate(names)}
    missing = [name for name in wanted if name not in position]
    if missing:
        others = f" and {len(missing) - 1} others" if len(missing) > 1 else ""
        raise ValueError(
            f"it has no column {missing[0]!r}{others}, which the model was fitted to; it has "
            f"{shown_names(names)}"
        )
    counts = Counter(names)
    twice = next((name for name in wanted if counts[name] > 1), None)
    if twice is not None:
        raise ValueError(f"two columns have the name {twice!r}: choose by position")
    return np.array([position[name] for name in wanted])


def _positions(columns: str, p: int, names: Array | None, numeric: Callable[[], Array] | None) -> Array:
    """Positions of the columns in a selection such as 'a,b,10-20,web_*' or 'numeric'."""
    counts = Counter([] if names is None else names)
    index: list[int] = []
    for item in _items(columns):
        first, _, last = item.partition("-")
        if counts[item] > 1:
            raise ValueError(f"two columns have the name {item!r}: choose by position")
        if names is not None and counts[item]:
            index.append(column_of(item, names))
        elif first.isdecimal() and (last.isdecimal() or item.isdecimal()):
            low, high = int(first), int(last or first)
            if not low <= high < p:
                raise ValueError(f"there are columns 0-{p - 1}; {item!r} asks for others")
            index.extend(range(low, high + 1))
        elif found := _matching(item, p, names, numeric):
            index.extend(j for j in found if j not in set(index))
        else:
            known = "none by name" if names is None else f"{shown_names(names)}"
            raise ValueError(f"there is no column {item!r}; there are {known}, and positions 0-{p - 1}")
    if not index:
        raise ValueError(f"no column is chosen by {columns!r}")
    return np.array(index)


def _items(columns: str, source: str = "") -> list[str]:
    """The names and positions in a selection; a double quote that is not closed is an error."""
    if not columns:
        return []
    # In quotes that are not closed, the word that is added would be part of a name.
    *items, last = next(csv.reader([f"{columns},end"], skipinitialspace=True))
    if last != "end":
        raise ValueError(f"{source}: a double quote in '::columns={columns}' is not closed")
    return [item.strip() for item in items]


def _matching(item: str, p: int, names: Array | None, numeric: Callable[[], Array] | None) -> list[int]:
    """Positions of the columns that hold numbers, or whose names match a pattern."""
    if item == "numeric":
        found: list[int] = list(range(p)) if numeric is None else np.flatnonzero(numeric()).tolist()
        if not found:
            raise ValueError("no column holds numbers")
        return found
    if names is None or not any(c in item for c in "*?["):
        return []
    return [j for j, name in enumerate(names) if fnmatchcase(name, item)]
