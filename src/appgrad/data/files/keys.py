"""Keys of rows: one column of a table, text or numbers, that goes with the scores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from typing import Any

import numpy as np

from ...machine.arrays import Array
from ..plain_labels import plain_label
from ..row_labels import labels_in, together
from .file_labels import counts_rows, row_labels
from .headers import is_missing, is_text
from .listing import TEXT, files_of
from .parquet import pyarrow_parquet
from .parquet_labels import label_columns, texts_of
from .readers import explained, require_usable
from .selection import Selection, column_of, shown_names
from .text import Start, open_text, started, used_columns

# The name of row labels that have none: first cells of rows in files of R and pandas.
ROW_LABELS = "row-labels"


def keys_of(sources: Sequence[str], name: str, wanted: Sequence[Iterable[str] | None] = ()) -> Array:
    """The column of this name in the tables of all views; those that have it must agree.

    `wanted` are the columns of a fitted model for each source, by name: they tell a header from a row.
    `row-labels` are those of files as R and pandas write them, unless a column has that name.

    Examples
    --------
    >>> import tempfile, os
    >>> from appgrad.data.files.keys import keys_of
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "x.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("id,a\\nu7,0.5\\nu9,1.5\\n")
    ...     keys_of([path], "id").tolist()
    ['u7', 'u9']
    """
    found: dict[str, Array] = {}
    silent = set[str]()
    lacking: list[tuple[Selection, Array | None]] = []
    for source, columns in zip_longest(sources, wanted):
        asked = Selection.of(source, columns)
        paths, kind = files_of(asked.path)
        with explained(asked.path, kind):
            names = _names(paths[0], kind, asked)
            if names is not None and name in names:
                read = _text_column if kind in TEXT else _parquet_column
                keys = read(paths, name, asked)
                labels = [keys.astype(str).tolist()]
            elif name == ROW_LABELS and (texts := row_labels(asked)) is not None:
                keys, labels = _typed(list(chain.from_iterable(texts))), texts
            else:
                lacking.append((asked, names))
                continue
        found[asked.path] = keys
        # Numbers of rows say nothing beside names, nor do labels that need not be those of the other view.
        if name == ROW_LABELS and (asked.any_labels or _count(labels)):
            silent.add(asked.path)
    if not found:
        tables = "; ".join(_described(*table) for table in lacking)
        raise ValueError(f"there is no column {name!r} for --id: {tables}")
    found = {path: keys for path, keys in found.items() if path not in silent} or found
    (path, keys), *others = found.items()
    for other, same in others:
        _require_same(name, (path, keys), (other, same))
    return keys


def _described(asked: Selection, names: Array | None) -> str:
    """The columns that a table has, for errors."""
    if names is None:
        return f"{asked.path} has no column names"
    labels = "" if row_labels(asked) is None else f"; --id {ROW_LABELS} takes its row labels"
    return f"{asked.path} has {shown_names(names)}{labels}"


def column_in(source: str) -> Array | None:
    """The one column that a source chooses from tables, text or numbers; None of other kinds of files.

    Numbers are floats, with NaN where they are missing, unless all are whole.
    """
    asked = Selection.of(source)
    paths, kind = files_of(asked.path)
    require_usable(asked, kind)
    if kind not in (*TEXT, ".parquet"):
        return None
    with explained(asked.path, kind):
        if kind in TEXT:
            with open_text(paths[0]) as file:
                start = started(paths[0], file, asked)
                used, _ = used_columns(start, asked)
                found = _typed(_cells(start, _only(used) + start.labels))
        else:
            _, pq = pyarrow_parquet()
            schema = pq.read_schema(paths[0])
            labels = label_columns(schema)
            names = np.array([name for name in schema.names if name not in labels], dtype=object)
            index = asked.positions(len(names), names)
            name = names[_only(np.arange(len(names)) if index is None else index)]
            found = _parquet_column(paths, name, asked)
    if found.dtype.kind != "U" or any(map(is_text, found.tolist())):
        return found
    return np.array([np.nan if is_missing(cell) else float(cell) for cell in found.tolist()])


def _only(index: Array) -> int:
    """The only position among these."""
    if len(index) != 1:
        raise ValueError(f"there are {len(index)} columns: choose one with ::columns=")
    return int(index[0])


def _count(labels: list[list[str]]) -> bool:
    """True if labels count rows, in all or file by file."""
    found = together([labels_in(part) for part in labels])
    return found is not None and counts_rows(found)


def _require_same(name: str, x: tuple[str, Array], y: tuple[str, Array]) -> None:
    """Raise an error that names the first row whose key differs in another table."""
    (first, a), (second, b) = x, y
    if len(a) != len(b):
        raise ValueError(f"{second} has {len(b)} rows, {first} has {len(a)}: rows must be paired")
    if not _all_equal(a, b):
        row = next(i for i in range(len(a)) if not _all_equal(a[i : i + 1], b[i : i + 1]))
        raise ValueError(
            f"row {row} has {name} {a[row]!s} in {first} and {b[row]!s} in {second}: rows must be paired; "
            "sort both tables alike"
        )


def _all_equal(a: Array, b: Array) -> bool:
    """True if keys agree: numbers as numbers, times as times, and else as text, where 2.0 is 2."""
    number = all(keys.dtype.kind in "biuf" for keys in (a, b))
    if number or a.dtype.kind == b.dtype.kind == "M":
        return bool(np.array_equal(a, b, equal_nan=True))
    texts = ([plain_label(key) for key in keys.astype(str).tolist()] for keys in (a, b))
    return next(texts) == next(texts)


def _names(path: str, kind: str, asked: Selection) -> Array | None:
    """Names of all columns of a file, row labels of pandas too."""
    if kind in TEXT:
        with open_text(path) as file:
            return started(path, file, asked).names
    if kind != ".parquet":
        return None
    _, pq = pyarrow_parquet()
    return np.array(pq.read_schema(path).names, dtype=object)


def _text_column(paths: list[str], name: str, asked: Selection) -> Array:
    """The cells of a column."""
    with open_text(paths[0]) as file:
        start = started(paths[0], file, asked)
        return _typed(_cells(start, column_of(name, start.names) + start.labels))


def _cells(start: Start, column: int) -> list[str]:
    return [row[column] for row in start.rows(chain(start.known, start.rest))]


def _typed(cells: list[str]) -> Array:
    """Whole numbers if all cells are written as such (007 is not), text otherwise."""
    try:
        numbers = np.array(cells, dtype=np.int64)
    except (ValueError, OverflowError):
        return np.array(cells, dtype=str)
    return numbers if list(map(str, numbers.tolist())) == cells else np.array(cells, dtype=str)


def _parquet_column(paths: list[str], name: str, asked: Selection) -> Array:
    """A column of one or several parquet files; missing keys, and those of different kinds, become text."""
    pa, pq = pyarrow_parquet()
    parts = list[Any]()
    for path in paths:
        with pq.ParquetFile(path) as file:
            if name not in file.schema_arrow.names:
                raise ValueError(f"{os.path.basename(path)} has no column {name!r}")
            parts.append(file.read(columns=[name]).column(name))
    zones = any(pa.types.is_timestamp(part.type) and part.type.tz for part in parts)
    # NumPy would drop the zone of times.
    if not zones and not any(part.null_count for part in parts):
        values = [part.to_numpy() for part in parts]
        kinds = {array.dtype.kind for array in values}
        # Only plain types go into all kinds of files; files may have integers of different sizes.
        if kinds <= {"i", "u"} or (len(kinds) == 1 and kinds <= set("bfM")):
            both = np.concatenate(values)
            if both.dtype.kind in kinds:
                return both
    keys = [key for part in parts for key in texts_of(pa, part)]
    # A file with a missing number has floats where others have integers.
    return np.array(keys if len({part.type for part in parts}) == 1 else list(map(plain_label, keys)))
