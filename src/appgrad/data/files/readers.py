"""Files as views: .npy (memory-mapped), .npz, .csv, .tsv, .svm, .parquet, .h5 and .zarr."""

from __future__ import annotations

import csv
import lzma
import os
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from typing import NamedTuple

import numpy as np

from ...machine.arrays import Array, Matrix
from ..arrays import ArrayViews
from ..finite import Place
from ..row_labels import Labels
from .file_labels import require_same_rows
from .hdf5_zarr import StoredRows, read_h5, read_zarr, some_columns
from .listing import HDF5, KEYED, SVM, TEXT, files_of
from .mapped import Stamps, stamp, views_of
from .notes import Note, add_notes, noted, notes_of, texts
from .npz import read_npy, read_npz
from .parquet import read_parquet
from .parts import PartFile, require_same_parts
from .places import place_in_files
from .selection import OPTIONS, Selection
from .svm import read_svm
from .text import read_text


class Table(NamedTuple):
    """A matrix as it stands in a file, with its column names if the file has any.

    `stamps` are those of the files that are read again in every pass, `note` is what was decided about a
    header, `parts` are the files whose rows must be paired with those of another view.
    `place` says where a row is if there are several files, `labels` what row labels there are.
    """

    matrix: Matrix
    names: Array | None
    label: str
    stamps: Stamps
    note: Note | None = None
    parts: Sequence[PartFile] = ()
    place: Place | None = None
    labels: Labels | None = None


def open_views(
    x: str | os.PathLike[str],
    y: str | os.PathLike[str],
    wanted: tuple[Iterable[str] | None, Iterable[str] | None] = (None, None),
) -> ArrayViews:
    """Views on two sources, read in this process; `wanted` are the columns of a fitted model, by name."""
    asked = Selection.of(str(x), wanted[0]), Selection.of(str(y), wanted[1])
    first = read_table(str(x), wanted[0])
    with noted(texts([first.note])):
        tables = first, read_table(str(y), wanted[1])
    notes = texts(table.note for table in tables)
    with noted(notes):
        require_same_parts(tables[0].parts, tables[1].parts)
        require_same_rows(asked, (tables[0].labels, tables[1].labels))
        views = views_of(
            tables[0].matrix,
            tables[1].matrix,
            names=(tables[0].names, tables[1].names),
            view_names=(tables[0].label, tables[1].label),
            stamps=tables[0].stamps | tables[1].stamps,
            places=(tables[0].place, tables[1].place),
        )
    views.notes = notes
    return views


# Errors of libraries on files that are damaged or of another kind.
BROKEN = (
    *(OSError, ValueError, EOFError, LookupError, ArithmeticError, RuntimeError, SyntaxError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, csv.Error, tokenize.TokenError),
)


def read_table(source: str | Selection, wanted: Iterable[str] | None = None) -> Table:
    """The matrix that a source names, checked to be two-dimensional, numeric and not empty.

    The columns of a fitted model, `wanted`, are picked by name if the source has names.
    """
    asked = source if isinstance(source, Selection) else Selection.of(source, wanted)
    path, label = asked.path, asked.path if isinstance(source, Selection) else source
    paths, kind = files_of(path)
    require_usable(asked, kind)
    before = {p: stamp(p) for p in paths}
    with explained(path, kind):
        matrix, names, note, labels, counts = _read(paths, kind, asked)
    if matrix.dtype.kind not in "biuf":
        raise ValueError(f"{path} holds {matrix.dtype}, not real numbers")
    if 0 in matrix.shape:
        raise ValueError(f"{path} has {matrix.shape[0]} rows and {matrix.shape[1]} columns: nothing to fit")
    changed = next((p for p in paths if stamp(p) != before[p]), None)
    if changed is not None:
        raise ValueError(f"{changed} was written to while it was read: open it again, when it is complete")
    if note is not None and not note.sure:
        warnings.warn(note.text, stacklevel=4)
    if (positions := asked.by_position(matrix.shape[1], names)) is not None:
        warnings.warn(positions, stacklevel=4)
    parts = [] if asked.any_parts else list(map(PartFile, paths, counts))
    stamps = before if kind in (".npy", ".zarr", *HDF5) else {}
    place = partial(place_in_files, tuple(paths), kind) if len(paths) > 1 else None
    return Table(matrix, names, label, stamps, note, parts, place, labels)


def require_usable(asked: Selection, kind: str) -> None:
    """Raise an error if an array or a header is asked for in files that have none."""
    if asked.key is not None and kind not in KEYED:
        name, mark, value = asked.key.partition("=")
        close = get_close_matches(name, OPTIONS, 1) if mark else []
        if close:
            raise ValueError(f"{asked.path}: there is no '::{name}='; did you mean '::{close[0]}={value}'?")
        raise ValueError(
            f"{asked.path}::{asked.key}: only .npz, .h5 and .zarr have arrays to name; for columns use "
            f"'::columns={asked.key}'"
        )
    if asked.header is not None and kind not in TEXT:
        raise ValueError(f"{asked.path}: '::header=' is for .csv and .tsv files")


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
        said = ValueError(f"{path} cannot be read as {kind}: {reason}")
        add_notes(said, notes_of(error))
        raise said from error


class _Found(NamedTuple):
    """What is in files: `counts` are the rows of each, where there may be several."""

    matrix: Matrix
    names: Array | None = None
    note: Note | None = None
    labels: Labels | None = None
    counts: Sequence[int] = ()


def _read(paths: list[str], kind: str, asked: Selection) -> _Found:
    if kind in TEXT:
        return _Found(*read_text(paths[0], asked))
    if kind in SVM:
        matrix, counts = read_svm(paths, asked)
        return _Found(matrix, counts=counts)
    if kind == ".parquet":
        matrix, names, counts, labels = read_parquet(paths, asked)
        return _Found(matrix, names, labels=labels, counts=counts)
    if kind == ".npy":
        return _Found(_selected(read_npy(paths[0]), asked))
    if kind == ".npz":
        return _Found(_selected(read_npz(paths[0], asked.key), asked))
    stored = read_zarr(paths[0], asked.key) if kind == ".zarr" else read_h5(paths[0], asked.key)
    index = asked.positions(stored.shape[1])
    return _Found(stored if index is None else some_columns(stored, index))


def _selected(matrix: Matrix, asked: Selection) -> Matrix:
    matrix = matrix[:, None] if matrix.ndim == 1 else matrix
    if matrix.ndim != 2:
        raise ValueError(f"it holds an array of {matrix.ndim} dimensions; a view is rows x columns")
    index = asked.positions(matrix.shape[1])
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
