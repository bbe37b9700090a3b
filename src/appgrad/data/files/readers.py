"""Files as views: .npy (memory-mapped), .npz, .csv, .tsv, .svm, .parquet, .h5 and .zarr."""

from __future__ import annotations

import csv
import glob
import lzma
import os
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ...machine.arrays import Array, Matrix
from ..arrays import ArrayViews
from ..finite import Place
from ..views import canonical_csr
from .hdf5_zarr import StoredRows, read_h5, read_zarr, some_columns
from .mapped import Stamps, stamp, views_of
from .parquet import read_parquet
from .places import place_in_files
from .spool import require_plausible
from .text import Choose, read_svm, read_text


class Table(NamedTuple):
    """A matrix as it stands in a file, with its column names if the file has any.

    `stamps` are those of the files that are read again in every pass. `place` says where a row is if there
    are several files.
    """

    matrix: Matrix
    names: Array | None
    label: str
    stamps: Stamps
    place: Place | None = None


def open_views(x: str | os.PathLike[str], y: str | os.PathLike[str]) -> ArrayViews:
    """Views on two sources, read in this process."""
    tables = read_table(str(x)), read_table(str(y))
    return views_of(
        tables[0].matrix,
        tables[1].matrix,
        names=(tables[0].names, tables[1].names),
        view_names=(tables[0].label, tables[1].label),
        stamps=tables[0].stamps | tables[1].stamps,
        places=(tables[0].place, tables[1].place),
    )


# Errors of libraries on files that are damaged or of another kind.
BROKEN = (
    *(OSError, ValueError, EOFError, LookupError, ArithmeticError, RuntimeError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, csv.Error, tokenize.TokenError),
)
# Endings of file names, by kind of file.
TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
SVM = (".svm", ".svm.gz", ".svmlight", ".svmlight.gz")
HDF5 = (".h5", ".hdf5")
KINDS = (*TEXT, *SVM, *HDF5, ".npy", ".npz", ".parquet", ".zarr")
# Kinds with named arrays, and kinds that may be many files.
KEYED, MANY = (".npz", *HDF5, ".zarr"), (*SVM, ".parquet")


def read_table(source: str) -> Table:
    """The matrix that a source names, checked to be two-dimensional, numeric and not empty."""
    path, key, columns = selected(source)
    paths, kind = files_of(path)
    require_key(source, key, kind)
    before = {p: stamp(p) for p in paths}
    with explained(path, kind):
        matrix, names = _read(paths, kind, key, chooser(columns))
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{path} holds {matrix.dtype}, not real numbers")
    if 0 in matrix.shape:
        raise ValueError(f"{path} has {matrix.shape[0]} rows and {matrix.shape[1]} columns: nothing to fit")
    changed = next((p for p in paths if stamp(p) != before[p]), None)
    if changed is not None:
        raise ValueError(f"{changed} was written to while it was read: open it again, when it is complete")
    stamps = before if kind in (".npy", ".zarr", *HDF5) else {}
    place = partial(place_in_files, tuple(paths), kind) if len(paths) > 1 else None
    return Table(matrix, names, source, stamps, place)


def selected(source: str) -> tuple[str, str | None, str | None]:
    """The path of a source, the array and the columns that it asks for."""
    path, *rest = source.split("::")
    columns = next((s.removeprefix("columns=") for s in rest if s.startswith("columns=")), None)
    return path, next((s for s in rest if not s.startswith("columns=")), None), columns


def require_key(source: str, key: str | None, kind: str) -> None:
    """Raise an error if an array is asked for by name in files without named arrays."""
    if key is not None and kind not in KEYED:
        raise ValueError(
            f"{source}: only .npz, .h5 and .zarr have arrays to name; for columns use '::columns={key}'"
        )


@contextmanager
def explained(path: str, kind: str) -> Iterator[None]:
    """Turn errors of readers into errors that name the file, and the kind it was taken for."""
    try:
        yield
    except BROKEN as error:
        reason = " ".join(str(error).split())
        if "pickle" in reason:
            reason = "it is not such a file, or holds Python objects instead of numbers"
        if isinstance(error, UnicodeDecodeError):
            reason = "it is not UTF-8 text"
        raise ValueError(f"{path} cannot be read as {kind}: {reason}") from error


def chooser(columns: str | None) -> Choose:
    """Function from the number and names of columns to the positions of those asked for."""
    return lambda p, names: None if columns is None else _positions(columns, p, names)


def source_files(source: str) -> list[str]:
    """The files that a source is read from; empty if there are none."""
    try:
        return files_of(source.split("::")[0])[0]
    except (OSError, ValueError):
        return []


def files_of(path: str) -> tuple[list[str], str]:
    """The files that a source stands for, in order, and their kind."""
    if path.rstrip("/").endswith(".zarr") and os.path.isdir(path):
        return [path], ".zarr"
    if os.path.isdir(path):
        found = [os.path.join(path, name) for name in sorted(os.listdir(path))]
        found = [name for name in found if _kind(name) in MANY]
        if not found:
            raise IsADirectoryError(f"{path} is a folder without {', '.join(MANY)} files; give a file")
    elif os.path.exists(path):
        found = [path]
    elif glob.has_magic(path):
        found = sorted(glob.glob(path))
        if not found:
            raise FileNotFoundError(f"{path}: no such files")
    else:
        raise FileNotFoundError(f"{path}: no such file")
    kinds = {_kind(name) for name in found}
    kind = kinds.pop()
    if kinds:
        raise ValueError(f"{path} holds files of different kinds: {', '.join(sorted({kind, *kinds}))}")
    if kind not in KINDS:
        raise ValueError(f"{path}: unknown kind of file; expected one of {', '.join(sorted(KINDS))}")
    if len(found) > 1 and kind not in MANY:
        raise ValueError(f"{path}: {len(found)} files; only {', '.join(MANY)} may be several")
    for name in found:
        if os.path.getsize(name) == 0:
            raise ValueError(f"{name} is empty")
    return found, kind


def _kind(path: str) -> str:
    suffixes = Path(path).suffixes[-2:] if path.endswith(".gz") else Path(path).suffixes[-1:]
    return "".join(suffixes).lower()


def _read(paths: list[str], kind: str, key: str | None, choose: Choose) -> tuple[Matrix, Array | None]:
    if kind in TEXT:
        return read_text(paths[0], choose)
    if kind in SVM:
        return read_svm(paths, choose)
    if kind == ".parquet":
        return read_parquet(paths, choose)
    if kind == ".npy":
        return _selected(np.load(paths[0], mmap_mode="r", allow_pickle=False), choose), None
    if kind == ".npz":
        return _selected(_read_npz(paths[0], key), choose), None
    stored = read_zarr(paths[0], key) if kind == ".zarr" else read_h5(paths[0], key)
    index = choose(stored.shape[1], None)
    return (stored if index is None else some_columns(stored, index)), None


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


def _selected(matrix: Matrix, choose: Choose) -> Matrix:
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2:
        raise ValueError(f"it holds an array of {matrix.ndim} dimensions; a view is rows x columns")
    index = choose(matrix.shape[1], None)
    if index is None:
        return matrix
    # A range is cut without a copy, so that a memory-mapped file stays on disk.
    ranged = np.array_equal(index, np.arange(index[0], index[0] + len(index)))
    if ranged:
        return matrix[:, index[0] : index[0] + len(index)]
    if isinstance(matrix, np.memmap):
        mapped = matrix
        stored = StoredRows(mapped.shape, mapped.dtype, lambda start, stop: np.asarray(mapped[start:stop]))
        return some_columns(stored, index)
    return matrix[:, index]


def _read_npz(path: str, key: str | None) -> Matrix:
    with open(path, "rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not hasattr(archive, "files"):
            raise ValueError("it holds a single array: rename it to .npy")
        names = archive.files
        require_plausible(archive.zip)
        if key is None and {"format", "shape", "data"} <= set(names):
            file.seek(0)
            return canonical_csr(sp.load_npz(file))
        if not names:
            raise ValueError("it holds no arrays")
        if key is None and len(names) != 1:
            raise ValueError(f"it holds the arrays {', '.join(names)}: choose one, as in {path}::{names[0]}")
        if key is not None and key not in names:
            raise ValueError(f"it has no array {key!r}; it has {', '.join(names)}")
        return archive[names[0] if key is None else key]
