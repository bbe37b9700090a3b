"""Row labels of files: those of two views must be the same, unless they only count rows."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Any

from ..display import shown
from ..plain_labels import plain_label
from ..row_labels import Labels
from .listing import TEXT, files_of
from .parquet import pyarrow_parquet
from .parquet_labels import label_texts
from .places import place_in_files
from .selection import Selection
from .text import open_text, started, used_columns

# What to do if rows are paired as they are.
AS_THEY_ARE = "If rows are paired by position, add '::row-labels=any' to one of the sources"


def require_same_rows(
    asked: tuple[Selection, Selection], labels: tuple[Labels | None, Labels | None], differ: Any = None
) -> None:
    """Raise if both sources have row labels, which differ and do not only count rows.

    `differ` says how, from the sources; by default they are read once more in this process.
    """
    x, y = labels
    if x is None or y is None or any(source.any_labels for source in asked):
        return
    if x[-2:] != y[-2:] and not counts_rows(x) and not counts_rows(y):
        raise ValueError((differ or difference)(*asked))


def counts_rows(labels: Labels) -> bool:
    """True if labels count rows from zero or one, in all or file by file."""
    return labels.restarts or labels.first in (0, 1)


def row_labels(asked: Selection) -> list[list[str]] | None:
    """All row labels of a source as text, file by file; None if it has none."""
    paths, kind = files_of(asked.path)
    if kind in TEXT:
        with open_text(paths[0]) as file:
            start = started(paths[0], file, asked)
            if not start.has_row_labels(used_columns(start, asked)[0]):
                return None
            return [list(map(start.label, start.rows(chain(start.known, start.rest))))]
    if kind != ".parquet":
        return None
    pa, pq = pyarrow_parquet()
    found = list[list[str]]()
    for path in paths:
        with pq.ParquetFile(path) as file:
            pieces = label_texts(pa, file)
            if pieces is None:
                return None
            found.append(list(chain.from_iterable(pieces)))
    return found


def difference(x: Selection, y: Selection) -> str:
    """How the row labels of two sources differ, and what to do."""
    a, b = (list(chain.from_iterable(row_labels(source) or [])) for source in (x, y))
    return f"rows of {x.path} and {y.path} have different labels: {_how(x, y, a, b)}. {AS_THEY_ARE}"


def _how(x: Selection, y: Selection, mine: list[str], other: list[str]) -> str:
    """How labels differ; they are shown as they are written, and compared in their plain form."""
    a, b = (list(map(plain_label, texts)) for texts in (mine, other))
    label, times = next(iter(Counter(b).most_common(1)), ("", 0))
    if times > 1:
        return (
            f"{_shown(other[b.index(label)])} occurs more than once in {y.path}, so that labels do "
            "not say which rows belong together; make them unique, then bring both files into the same order"
        )
    theirs = set(b)
    missing = [text for text, label in zip(mine, a, strict=True) if label not in theirs]
    if missing:
        return (
            f"{len(missing)} of {len(a)} labels of {x.path} are not in {y.path}, {_shown(missing[0])} for "
            "one; keep the rows of both, in the same order"
        )
    if len(a) == len(b):
        row = next(i for i, labels in enumerate(zip(a, b, strict=True)) if labels[0] != labels[1])
        return (
            f"they are in another order ({_place(x, row)} is {_shown(mine[row])} in {x.path}, "
            f"{_shown(other[row])} in {y.path}); bring both files into the same order"
        )
    return (
        f"{y.path} has rows that {x.path} does not have ({len(b)} and {len(a)}); keep the rows of both, in "
        "the same order"
    )


def _place(asked: Selection, row: int) -> str:
    paths, kind = files_of(asked.path)
    return place_in_files(tuple(paths), kind, row) if len(paths) > 1 else f"row {row}"


def _shown(label: str) -> str:
    return shown(repr(label), 60)
