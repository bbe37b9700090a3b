"""Files as views: .npy (memory-mapped), .npz (dense or sparse), .csv, .tsv and .parquet."""

from __future__ import annotations

import csv
import gzip
import os
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
import scipy.sparse as sp

from .views import Array, ArrayViews, Matrix, canonical_csr

# How missing values are written: a first line with these and numbers is a row, not a header.
MISSING = {"na", "n/a", "nan", "null", "none", "-"}


class Table(NamedTuple):
    """A matrix as it stands in a file, with its column names if the file has any."""

    matrix: Matrix
    names: Array | None
    label: str


def open_views(x: str | os.PathLike[str], y: str | os.PathLike[str]) -> ArrayViews:
    """Views on two sources: `path`, `path::key` (npz array) or `path::columns=a,b,10-20`.

    Columns are names or positions counted from zero; a range includes both ends, a name with a comma
    stands in double quotes. The two views may be columns of the same file. `.npy` files stay on disk
    and are read block by block; others are loaded.

    Examples
    --------
    >>> import tempfile, os, numpy as np
    >>> from appgrad import CCA, open_views
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "both.npy")
    ...     np.save(path, np.random.default_rng(0).standard_normal((50, 5)))
    ...     views = open_views(f"{path}::columns=0-2", f"{path}::columns=3,4")
    ...     CCA(1).fit(views).canonical_correlations_.round(4)
    array([0.237])
    """
    tables = read_table(str(x)), read_table(str(y))
    return ArrayViews(
        tables[0].matrix,
        tables[1].matrix,
        names=(tables[0].names, tables[1].names),
        labels=(tables[0].label, tables[1].label),
    )


def read_table(source: str) -> Table:
    """The matrix that a source names, checked to be two-dimensional, numeric and not empty."""
    path, *selectors = source.split("::")
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: no such file")
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder; give a file")
    if os.path.getsize(path) == 0:
        raise ValueError(f"{path} is empty")
    columns = next((s.removeprefix("columns=") for s in selectors if s.startswith("columns=")), None)
    key = next((s for s in selectors if not s.startswith("columns=")), None)
    kind = "".join(Path(path).suffixes[-2:]) if path.endswith(".gz") else Path(path).suffix
    reader = READERS.get(kind.lower())
    if reader is None:
        raise ValueError(f"{path}: unknown kind of file; expected one of {', '.join(sorted(READERS))}")
    if key is not None and reader is not _read_npz:
        raise ValueError(f"{source}: only .npz has arrays to name; for columns use '::columns={key}'")
    try:
        matrix, names = reader(path, key, columns)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, csv.Error) as error:
        reason = " ".join(str(error).split())
        if "pickle" in reason:
            reason = "it is not such a file, or holds Python objects instead of numbers"
        if isinstance(error, UnicodeDecodeError):
            reason = "it is not UTF-8 text"
        raise ValueError(f"{path} cannot be read as {kind}: {reason}") from error
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{path} holds {matrix.dtype}, not real numbers")
    if 0 in matrix.shape:
        raise ValueError(f"{path} has {matrix.shape[0]} rows and {matrix.shape[1]} columns: nothing to fit")
    return Table(matrix, names, source)


def _positions(columns: str, p: int, names: Array | None = None) -> Array:
    """Positions of the columns named or numbered in a selection such as 'a,b,10-20'."""
    position = {} if names is None else {name: i for i, name in enumerate(names)}
    twice = set() if names is None else {name for name, count in Counter(names).items() if count > 1}
    index: list[int] = []
    for item in map(str.strip, next(csv.reader([columns], skipinitialspace=True), [])):
        first, _, last = item.partition("-")
        if item in twice:
            raise ValueError(f"two columns have the name {item!r}: choose by position")
        if item in position:
            index.append(position[item])
        elif first.isdigit() and (last.isdigit() or item.isdigit()):
            low, high = int(first), int(last or first)
            if not low <= high < p:
                raise ValueError(f"there are columns 0-{p - 1}; {item!r} asks for others")
            index.extend(range(low, high + 1))
        else:
            known = "none by name" if names is None else f"{', '.join(map(str, names[:8]))} ..."
            raise ValueError(f"there is no column {item!r}; there are {known}, and positions 0-{p - 1}")
    if not index:
        raise ValueError(f"no column is chosen by {columns!r}")
    return np.array(index)


def _selected(matrix: Matrix, columns: str | None) -> Matrix:
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2:
        raise ValueError(f"it holds an array of {matrix.ndim} dimensions; a view is rows x columns")
    if columns is None:
        return matrix
    index = _positions(columns, matrix.shape[1])
    # A range is cut without a copy, so that a memory-mapped file stays on disk.
    ranged = np.array_equal(index, np.arange(index[0], index[0] + len(index)))
    return matrix[:, index[0] : index[0] + len(index)] if ranged else matrix[:, index]


def _read_npy(path: str, key: str | None, columns: str | None) -> tuple[Matrix, None]:
    return _selected(np.load(path, mmap_mode="r", allow_pickle=False), columns), None


def _read_npz(path: str, key: str | None, columns: str | None) -> tuple[Matrix, None]:
    with open(path, "rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not hasattr(archive, "files"):
            raise ValueError("it holds a single array: rename it to .npy")
        names = archive.files
        if key is None and {"format", "shape", "data"} <= set(names):
            file.seek(0)
            return _selected(canonical_csr(sp.load_npz(file)), columns), None
        if not names:
            raise ValueError("it holds no arrays")
        if key is None and len(names) != 1:
            raise ValueError(f"it holds the arrays {', '.join(names)}: choose one, as in {path}::{names[0]}")
        if key is not None and key not in names:
            raise ValueError(f"it has no array {key!r}; it has {', '.join(names)}")
        return _selected(archive[names[0] if key is None else key], columns), None


def _read_text(path: str, key: str | None, columns: str | None) -> tuple[Matrix, Array | None]:
    """Numbers separated by commas or tabs, with or without a line of column names."""
    delimiter = "\t" if ".tsv" in Path(path).suffixes else ","
    with open_text(path) as file:
        lines = csv.reader(file, delimiter=delimiter)
        first, second = next(lines, []), next(lines, [])
        header_lines = lines.line_num if not second else lines.line_num - 1
    header = _is_header(first, second, path)
    names = np.array([cell.strip() for cell in first], dtype=object) if header else None
    index = np.arange(len(first)) if columns is None else _positions(columns, len(first), names)
    if columns is None and names is not None and names[0] == "" and len(names) > 1:
        warnings.warn(f"{path}: the first column has no name: taken as row labels and left out", stacklevel=4)
        index = index[1:]
    with open_text(path) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loadtxt: input contained no data", UserWarning)
        try:
            matrix = np.loadtxt(
                _even_lines(file, delimiter, len(first)),
                delimiter=delimiter,
                skiprows=header_lines if header else 0,
                usecols=None if len(index) == len(first) and columns is None else index.tolist(),
                quotechar='"',
                ndmin=2,
                comments=None,
            )
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            raise ValueError(_explained(str(error), names, first)) from error
    if names is not None and matrix.size and matrix.shape[1] != len(index):
        raise ValueError(f"{len(names)} column names for {matrix.shape[1]} columns")
    return matrix, None if names is None else names[index]


def _even_lines(lines: Iterable[str], delimiter: str, cells: int) -> Iterator[str]:
    """The lines, as long as each has as many cells as the first; numpy would not look at all of them."""
    for number, line in enumerate(lines, 1):
        if '"' not in line and line.strip() and line.count(delimiter) + 1 != cells:
            raise ValueError(
                f"line {number} has {line.count(delimiter) + 1} cells, the first line has {cells}"
            )
        yield line


def _is_header(first: list[str], second: list[str], path: str) -> bool:
    """Whether the first line holds names: not all numbers, or the numbers 0, 1, 2 ... of the columns."""
    cells = [cell.strip() for cell in first]
    if any(cell and not _is_number(cell) and cell.lower() not in MISSING for cell in cells):
        return True
    named = cells[1:] if cells[:1] == [""] else cells
    if len(named) > 1 and named == [str(j) for j in range(len(named))]:
        return True
    fractions = any(_is_number(cell) and not cell.strip().lstrip("+-").isdigit() for cell in second)
    if fractions and len(set(first)) == len(first) > 1 and all(cell.strip().isdigit() for cell in first):
        warnings.warn(
            f"{path}: the first line holds whole numbers only and was read as data; if these are column "
            "names, put a letter in front of them",
            stacklevel=5,
        )
    return False


def _explained(message: str, names: Array | None, first: list[str]) -> str:
    """numpy's message about a cell, with the row and column counted from zero, as everywhere else."""
    found = re.search(r"could not convert string (.*) to float64 at row (\d+), column (\d+)", message)
    if found is None:
        return message.split(";")[0]
    cell, row, column = found[1], int(found[2]), int(found[3]) - 1
    if len(first) == 1 and ";" in first[0]:
        return "cells are separated by semicolons; expected commas (.csv) or tabs (.tsv)"
    name = "" if names is None or column >= len(names) else f" ({names[column]!r})"
    return (
        f"{cell} in row {row}, column {column}{name} is not a number: fill missing values, and leave text "
        "columns out by choosing the others, as in '::columns=1-5' or '::columns=age,height'"
    )


def open_text(path: str) -> TextIO:
    """A text file, unzipped on the way if its name ends in .gz."""
    opener: Any = gzip.open if path.endswith(".gz") else open
    file: TextIO = opener(path, "rt", encoding="utf-8-sig")
    return file


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_parquet(path: str, key: str | None, columns: str | None) -> tuple[Matrix, Array]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("reading .parquet needs pyarrow: pip install 'appgrad[files]'") from error
    schema = pq.read_schema(path)
    # pandas stores the row labels of a frame as columns of their own.
    labels = {c for c in (schema.pandas_metadata or {}).get("index_columns", []) if isinstance(c, str)}
    names = np.array([name for name in schema.names if name not in labels], dtype=object)
    if len(set(names)) < len(names):
        raise ValueError("it has two columns of the same name")
    names = names if columns is None else names[_positions(columns, len(names), names)]
    text = [name for name in names if not _is_numeric(pa, schema.field(name).type)]
    if text:
        raise ValueError(f"column {text[0]!r} is not numeric: leave it out with '::columns=...'")
    table = pq.read_table(path, columns=list(names))
    parts = [column.to_numpy() for column in table.columns]
    return np.column_stack(parts) if parts else np.empty((len(table), 0)), names


def _is_numeric(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


READERS = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".csv": _read_text,
    ".csv.gz": _read_text,
    ".tsv": _read_text,
    ".tsv.gz": _read_text,
    ".parquet": _read_parquet,
}
