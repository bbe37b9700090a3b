"""In how many rows a column differs from its usual value, zero as a rule: the rows it tells apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ...covariance.thin import TILE_ROWS, tiles
from ...machine.arrays import Array, Matrix

# Rows, evenly spread, in which a usual value occurs more than once: one that half of the rows have does.
REPEATED = 64
# The largest number of a byte.
BYTE = 255
# Values that are kept for each column: that of a run of rows, and the usual one.
CANDIDATES = 2
# Rows of a tile whose median is taken for the usual value.
FEW = 5


class ColumnRows(NamedTuple):
    """Counts of zeros, and of values that may be the usual one, in each column of n rows; mergeable.

    A usual value other than zero is that of an indicator which was centred, scaled or flipped. `values` are
    two candidates for each column, medians of a few rows of blocks, with their counts. In sparse rows the
    usual value is zero.
    """

    n: int
    zeros: Array
    values: Array
    counts: Array

    @classmethod
    def of(cls, m: Matrix) -> ColumnRows:
        """Counts for a matrix of one row or more, dense or CSR."""
        if sp.issparse(m):
            return _of_sparse(m)
        parts = [_of_tile(m[rows]) for rows in tiles(m.shape[0], TILE_ROWS)]
        found = parts[0]
        for part in parts[1:]:
            found = found.merge(part)
        return found

    def merge(self, other: ColumnRows) -> ColumnRows:
        """Counts for both sets of rows: the two candidates that occur most."""
        values = np.concatenate([self.values, other.values])
        counts = np.concatenate([self.counts, other.counts])
        for i in range(1, len(values)):
            for j in range(i):
                same = (values[i] == values[j]) & (counts[j] > 0)
                counts[j] += np.where(same, counts[i], 0.0)
                counts[i] = np.where(same, 0.0, counts[i])
        best = np.argsort(-counts, axis=0, kind="stable")[:CANDIDATES]
        values, counts = (np.take_along_axis(each, best, axis=0) for each in (values, counts))
        return ColumnRows(self.n + other.n, self.zeros + other.zeros, values, counts)

    def rows(self) -> Array:
        """Rows in which each column differs from its usual value; all rows for a constant column."""
        found = self.n - np.maximum(self.zeros, self.counts.max(axis=0))
        return np.where(found > 0, found, self.n)


def _of_sparse(m: Matrix) -> ColumnRows:
    values = (m.data != 0).astype(np.float64)
    lit = np.asarray(sp.csr_array((values, m.indices, m.indptr), shape=m.shape).T @ np.ones(m.shape[0]))
    unknown = np.zeros((1, m.shape[1]))
    return ColumnRows(m.shape[0], m.shape[0] - lit, unknown, unknown)


def _of_tile(m: Array) -> ColumnRows:
    zeros = _counts(m == 0)
    value = np.median(m[np.linspace(0, len(m) - 1, FEW).astype(int)], axis=0)
    at_value, others = np.where(value == 0, zeros, 0.0), np.flatnonzero(value)
    if len(m) > REPEATED:
        # Columns that do not repeat the value in some rows have no usual one.
        some = m[:: len(m) // REPEATED, others]
        others = others[np.count_nonzero(some == value[others], axis=0) > 1]
    if len(others):
        at_value[others] = _counts(m[:, others] == value[others])
    return ColumnRows(len(m), zeros, value[None], at_value[None])


def _counts(marked: Array) -> Array:
    """The number of true values in each column, added up in bytes: ten times as fast as in integers."""
    parts = [
        np.add.reduce(marked[start : start + BYTE].view(np.uint8), axis=0, dtype=np.uint8)
        for start in range(0, len(marked), BYTE)
    ]
    return np.asarray(np.sum(parts, axis=0, dtype=np.float64))
