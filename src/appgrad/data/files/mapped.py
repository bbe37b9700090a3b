"""Views on files, which are read ahead, in runs of rows, and checked for changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...machine.arrays import Array, Matrix
from ...machine.threads import read_ahead
from ..arrays import ArrayViews
from ..blocks import ENTRY_BYTES
from ..views import Block, Part

# Sizes and modification times of files, by path.
Stamps = dict[str, tuple[int, int]]
# Bytes of a run of rows read from a file, and runs shuffled at a time: sorted rows must not bias a minibatch,
# and a single row takes as long to read as a run.
RUN_BYTES, RUNS = 2**20, 64
# Bytes of a page, the least that is read of a mapped file.
PAGE = 4096


def views_of(x: Matrix, y: Matrix, stamps: Stamps | None = None, **about: Any) -> ArrayViews:
    """Views on two matrices, in memory or on disk."""
    if any(_is_stored(m) for m in (x, y)):
        return StoredViews(x, y, stamps=stamps, **about)
    return ArrayViews(x, y, **about)


class StoredViews(ArrayViews):
    """Views on two matrices, at least one of which is read from a file in every pass.

    `stamps` are those of the files when they were opened.
    """

    def __init__(self, x: Matrix, y: Matrix, *, stamps: Stamps | None = None, **about: Any):
        super().__init__(x, y, **about)
        self.stamps = stamps or {}

    def parts(self, dtype: Any = None) -> Generator[Part, None, None]:
        """Parts whose blocks are read while earlier ones are worked on."""
        self._require_unchanged()
        parts = list(super().parts(dtype))
        if len(parts) == 1:
            yield from parts
        else:
            with closing(read_ahead(partial(_read, part.block) for part in parts)) as makes:
                for part, make in zip(parts, makes, strict=True):
                    yield Part(part.rows, make)
        self._require_unchanged()

    def _require_unchanged(self) -> None:
        """Raise an error if a file has changed since it was opened: rows of two versions would be mixed."""
        for path, before in self.stamps.items():
            if stamp(path) != before:
                raise ValueError(
                    f"{path} has changed since it was opened: open it again, when it is complete"
                )

    def order(self, rng: np.random.Generator) -> Array:
        """All rows in random order: random runs of rows, shuffled many runs at a time."""
        n, m = self.n_samples, (self.x, self.y)
        entries = (ENTRY_BYTES * z.nnz / n if sp.issparse(z) else z.shape[1] * z.dtype.itemsize for z in m)
        run = max(1, int(RUN_BYTES / max(sum(entries), 1)))
        runs = rng.permutation(-(-n // run))
        order = (runs[:, None] * run + np.arange(run)).ravel()
        order = order[order < n]
        for start in range(0, n, RUNS * run):
            rng.shuffle(order[start : start + RUNS * run])
        return np.asarray(order)

    def _about(self) -> dict[str, Any]:
        return super()._about() | {"stamps": self.stamps}


def stamp(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Total size and last modification time of a file or folder, to notice when it is written to."""
    files = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names] or [
        str(path)
    ]
    found = [os.stat(file) for file in files]
    return sum(f.st_size for f in found), max(f.st_mtime_ns for f in found)


def _read(make: Callable[[], Block]) -> Block:
    """A block with its numbers read from disk: those of a mapped file are read when they are used."""
    block = make()
    for z in block.views:
        for part in (z.data, z.indices) if sp.issparse(z) else (z,):
            if _is_mapped(part):
                part[
                    tuple(slice(None, None, max(1, PAGE // max(1, abs(step)))) for step in part.strides)
                ].max(initial=0)
    return block


def _is_stored(m: Matrix) -> bool:
    """True if rows are read from a file each time they are asked for."""
    values = m.data if sp.issparse(m) else m
    return not isinstance(values, np.ndarray) or _is_mapped(values)


def _is_mapped(values: Any) -> bool:
    """True if an array is a mapped file, or a plain array that is a view of one."""
    while isinstance(values, np.ndarray):
        if isinstance(values, np.memmap):
            return True
        values = values.base
    return False
