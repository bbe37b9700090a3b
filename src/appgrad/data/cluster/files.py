"""Files in pieces, each of which can be read alone on any machine that has the file."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...machine.arrays import Array, Matrix
from ..blocks import BLOCK_BYTES
from ..files.file_labels import difference, require_same_rows
from ..files.hdf5_zarr import read_h5, read_zarr
from ..files.listing import HDF5, SVM, files_of
from ..files.mapped import stamp
from ..files.notes import Note, noted, texts
from ..files.npz import read_npy
from ..files.parquet import parquet_names, parquet_type, pyarrow_parquet
from ..files.parquet_labels import parquet_labels
from ..files.parts import PartFile, require_same_parts
from ..files.places import place_in_files
from ..files.readers import explained, read_table, require_usable
from ..files.selection import Selection
from ..row_labels import Labels, together
from .chunks import Chunk
from .protocol import Cluster, Source
from .views import ClusterViews

# Bytes of a piece, as floats.
PIECE_BYTES = 2 * BLOCK_BYTES


class FileFacts(NamedTuple):
    """Facts about one file; `steps` are numbers of consecutive rows that are best read together.

    If `steps` is None, the file is decoded as a whole.
    """

    rows: int
    columns: int
    names: Array | None
    dtype: np.dtype[Any]
    steps: tuple[int, ...] | None
    stamp: tuple[int, int]
    note: Note | None = None
    labels: Labels | None = None


def opened_by(cluster: Cluster, x: str, y: str, wanted: Sequence[Any] = (None, None)) -> ClusterViews:
    """Views on two sources of files, read by the workers of a cluster.

    `wanted` are the columns of a fitted model, by name.
    """
    pins, found = [worker.address for worker in cluster.workers], list[Source]()
    notes, parts = list[Note | None](), list[list[PartFile]]()
    sources, labels = list[Selection](), list[Labels | None]()
    for label, names in zip((x, y), wanted, strict=True):
        asked = Selection.of(label, names)
        # An absolute path: workers may have been started in another folder.
        path = asked.path if "://" in asked.path else os.path.abspath(asked.path)
        asked = asked._replace(path=path)
        with noted(texts(notes)):
            try:
                paths, kind = cluster.result(cluster.submit(listed, asked, pin=pins[0]))
            except FileNotFoundError as error:
                raise FileNotFoundError(
                    f"{error}, for workers: they read files under the same path"
                ) from error
            share = -(-len(paths) // len(pins))
            shares = [
                cluster.submit(all_facts, asked, kind, paths[i : i + share], pin=pin)
                for i, pin in zip(range(0, len(paths), share), pins, strict=False)
            ]
            facts = [fact for future in shares for fact in cluster.result(future)]
            found.append(source_of(label, asked, kind, paths, facts))
        sources.append(asked)
        labels.append(together([fact.labels for fact in facts]))
        if (positions := asked.by_position(facts[0].columns, facts[0].names)) is not None:
            warnings.warn(positions, stacklevel=3)
        notes += [fact.note for fact in facts]
        rows = [fact.rows for fact in facts]
        parts.append([] if asked.any_parts else list(map(PartFile, paths, rows)))
    for note in dict.fromkeys(notes):
        if note is not None and not note.sure:
            warnings.warn(note.text, stacklevel=3)
    with noted(texts(notes)):
        require_same_parts(parts[0], parts[1])
        require_same_rows(
            (sources[0], sources[1]),
            (labels[0], labels[1]),
            lambda x, y: cluster.result(cluster.submit(difference, x, y, pin=pins[0])),
        )
        views = ClusterViews(cluster, found[0], found[1])
    views.notes = texts(notes)
    return views


def listed(asked: Selection) -> tuple[list[str], str]:
    """The files of a source and their kind, as found on this machine."""
    paths, kind = files_of(asked.path)
    require_usable(asked, kind)
    return paths, kind


def all_facts(asked: Selection, kind: str, paths: list[str]) -> list[FileFacts]:
    """Facts about some files of a source."""
    return [file_facts(asked, kind, path) for path in paths]


def file_facts(asked: Selection, kind: str, path: str) -> FileFacts:
    """Facts about one file of a source."""
    when = stamp(path)
    with explained(path, kind):
        if kind == ".parquet":
            pa, pq = pyarrow_parquet()
            with pq.ParquetFile(path) as file:
                names = parquet_names(pa, file.schema_arrow, asked)
                rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
                dtype = parquet_type(file.schema_arrow, names)
                labels = parquet_labels(pa, file)
                return FileFacts(sum(rows), len(names), names, dtype, tuple(rows), when, labels=labels)
        if kind in (".npy", ".zarr", *HDF5):
            stored = _stored(path, kind, asked.key)
            if np.dtype(stored.dtype).kind not in "biuf":
                raise ValueError(f"it holds {stored.dtype}, not real numbers")
            index = asked.positions(stored.shape[1])
            width = stored.shape[1] if index is None else len(index)
            step = max(1, min(stored.step, stored.shape[0]))
            steps = [min(step, stored.shape[0] - start) for start in range(0, stored.shape[0], step)]
            return FileFacts(stored.shape[0], width, None, np.dtype(stored.dtype), tuple(steps), when)
    with warnings.catch_warnings():
        # Said once, where the files are opened.
        warnings.simplefilter("ignore", UserWarning)
        table = read_table(asked._replace(path=path))
    m = table.matrix
    dtype = np.dtype(m.dtype)
    return FileFacts(m.shape[0], m.shape[1], table.names, dtype, None, when, table.note, table.labels)


def source_of(label: str, asked: Selection, kind: str, paths: list[str], facts: list[FileFacts]) -> Source:
    """A source of files in chunks so small that workers can hold several.

    A file that is decoded as a whole is one chunk.
    """
    first, chunks = facts[0], list[Chunk]()
    if not sum(fact.rows for fact in facts) or not first.columns:
        raise ValueError(f"{label} has 0 rows or columns: nothing to fit")
    width = max(fact.columns for fact in facts)
    dtype = np.result_type(*(fact.dtype for fact in facts))
    for path, fact in zip(paths, facts, strict=True):
        if kind not in SVM and _listed(fact.names) != _listed(first.names):
            same = sorted(_listed(fact.names)) == sorted(_listed(first.names))
            other = "its columns in another order than" if same else "other columns than"
            raise ValueError(f"{path}: it has {other} {paths[0]}")
        ranges = [(0, fact.rows, (0, 0))]
        if fact.steps is not None:
            ranges = _ranges(fact.steps, max(1, PIECE_BYTES // (8 * max(1, fact.columns))))
        for start, stop, groups in ranges:
            read = partial(
                _read, asked._replace(path=path), kind, (start, stop), groups, width, dtype, fact.stamp
            )
            name = path if len(ranges) == 1 else f"{path} (rows {start}-{stop - 1})"
            chunks.append(Chunk(read, name, stop - start))
    row_bytes = 0.0 if first.steps is None else float(dtype.itemsize * width)
    smaller = "cut the files of {1} into parts of at most {0} rows"
    place = partial(place_in_files, tuple(paths), kind) if len(paths) > 1 else None
    return Source(tuple(chunks), label, first.names, None, False, dtype, row_bytes, smaller, place=place)


def _listed(names: Array | None) -> list[Any]:
    return [] if names is None else list(names)


def _ranges(steps: tuple[int, ...], most: int) -> list[tuple[int, int, tuple[int, int]]]:
    """Ranges of rows, and of steps, of at most `most` rows unless a single step has more."""
    found, start, stop, first = [], 0, 0, 0
    for i, rows in enumerate(steps):
        if stop > start and stop + rows - start > most:
            found.append((start, stop, (first, i)))
            start, first = stop, i
        stop += rows
    if stop > start:
        found.append((start, stop, (first, len(steps))))
    return found


def _read(
    asked: Selection,
    kind: str,
    rows: tuple[int, int],
    groups: tuple[int, int],
    width: int,
    dtype: Any,
    when: tuple[int, int],
) -> Matrix:
    """Some rows of one file; raise an error if it has changed."""
    path, (start, stop) = asked.path, rows
    if stamp(path) != when:
        raise ValueError("it has changed since it was opened: open it again, when it is complete")
    if kind == ".parquet":
        pa, pq = pyarrow_parquet()
        with pq.ParquetFile(path) as file:
            names = list(parquet_names(pa, file.schema_arrow, asked))
            table = file.read_row_groups(list(range(*groups)), columns=names, use_threads=False)
            return np.column_stack([table.column(name).to_numpy() for name in names]).astype(
                dtype, copy=False
            )
    if kind in (".npy", ".zarr", *HDF5):
        stored = _stored(path, kind, asked.key)
        index = asked.positions(stored.shape[1])
        found = stored.read(start, stop)
        return found if index is None else found[:, index]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        m = read_table(asked).matrix
    m = m if stop - start == m.shape[0] else m[start:stop]
    if sp.issparse(m) and m.shape[1] < width:
        # Zeros are not written: other files may have columns that this one does not mention.
        m = sp.csr_array((m.data, m.indices, m.indptr), shape=(m.shape[0], width))
    return m


class _Stored(NamedTuple):
    shape: tuple[int, int]
    dtype: Any
    read: Callable[[int, int], Array]
    step: int


def _stored(path: str, kind: str, key: str | None) -> _Stored:
    """An array on disk and how many of its rows are best read together."""
    if kind != ".npy":
        found = read_zarr(path, key) if kind == ".zarr" else read_h5(path, key)
        return _Stored(found.shape, found.dtype, found.read, found.step)
    m = read_npy(path)
    m = m[:, None] if m.ndim == 1 else m
    if m.ndim != 2:
        raise ValueError(f"it holds an array of {m.ndim} dimensions; a view is rows x columns")
    return _Stored(
        m.shape, m.dtype, partial(_npy_rows, path, m), max(1, BLOCK_BYTES // (8 * max(1, m.shape[1])))
    )


def _npy_rows(path: str, m: Any, start: int, stop: int) -> Array:
    """Rows of a file, read and not mapped: pages of a mapped file count as memory of the process."""
    if not m.flags.c_contiguous:
        return np.array(m[start:stop])
    width = m.shape[1]
    offset = m.offset + start * width * m.dtype.itemsize
    return np.fromfile(path, m.dtype, (stop - start) * width, offset=offset).reshape(-1, width)
