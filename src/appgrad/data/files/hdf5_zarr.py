"""Matrices in HDF5 and zarr files, whose rows are read when they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...machine.arrays import Array

# Rows between two that are asked for that are read along, and bytes that are read at a time then.
GAP, SPAN_BYTES = 256, 2**23


class StoredRows:
    """A matrix on disk whose rows are read on demand, best `step` of them at a time."""

    ndim = 2

    def __init__(
        self, shape: tuple[int, int], dtype: Any, read: Callable[[int, int], Array], step: int = 1
    ) -> None:
        self.shape, self.dtype, self.read, self.step = shape, np.dtype(dtype), read, step

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """All rows in memory."""
        return np.asarray(self.read(0, self.shape[0]), dtype=dtype)

    def __getitem__(self, index: Any) -> Array:
        """A range of rows, or any rows in any order; rows near each other are read in one run."""
        if isinstance(index, slice):
            start, stop, _ = index.indices(self.shape[0])
            return self.read(start, stop)
        index = np.asarray(index)
        order = np.argsort(index, kind="stable")
        rows = index[order]
        out = np.empty((len(rows), self.shape[1]), self.dtype)
        span = max(1, SPAN_BYTES // max(1, self.shape[1] * self.dtype.itemsize))
        ends = np.append(np.flatnonzero((np.diff(rows) > GAP) | np.diff(rows // span)) + 1, len(rows))
        start = 0
        for end in ends[ends > 0]:
            run = rows[start:end]
            out[order[start:end]] = self.read(int(run[0]), int(run[-1]) + 1)[run - run[0]]
            start = end
        return out


def read_h5(path: str, key: str | None) -> StoredRows:
    """A dataset of an HDF5 file, read block by block."""
    try:
        import h5py
    except ImportError as error:
        raise ImportError("reading .h5 needs h5py: pip install 'appgrad[files]'") from error
    file = h5py.File(path, "r")
    found: list[str] = []
    file.visititems(lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None)
    return _stored(file[_only(found, key, path)])


def read_zarr(path: str, key: str | None) -> StoredRows:
    """An array of a zarr store, read block by block."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError("reading .zarr needs zarr: pip install 'appgrad[files]'") from error
    store = zarr.open(path, mode="r")
    if isinstance(store, zarr.Array):
        if key is not None:
            raise ValueError(f"it is one array: leave '::{key}' out")
        return _stored(store)
    found = [name for name, item in store.members(max_depth=None) if isinstance(item, zarr.Array)]
    return _stored(store[_only(found, key, path)])


def _only(found: list[str], key: str | None, path: str) -> str:
    found = sorted(found)
    if key is None and len(found) == 1:
        return found[0]
    if key is None:
        raise ValueError(f"it holds {', '.join(found) or 'no arrays'}: choose one, as in {path}::name")
    if key.strip("/") not in found:
        raise ValueError(f"it has no array {key!r}; it has {', '.join(found)}")
    return key.strip("/")


def _stored(array: Any) -> StoredRows:
    """The rows of an array of any library that slices rows."""
    step = array.chunks[0] if array.chunks else 1
    if array.ndim == 1:
        return StoredRows(
            (array.shape[0], 1), array.dtype, lambda start, stop: np.asarray(array[start:stop])[:, None], step
        )
    if array.ndim != 2:
        raise ValueError(f"it holds an array of {array.ndim} dimensions; a view is rows x columns")
    return StoredRows(array.shape, array.dtype, lambda start, stop: np.asarray(array[start:stop]), step)


def some_columns(rows: StoredRows, index: Array) -> StoredRows:
    """Some columns of a matrix on disk."""
    shape = rows.shape[0], len(index)
    return StoredRows(shape, rows.dtype, lambda start, stop: rows.read(start, stop)[:, index], rows.step)
