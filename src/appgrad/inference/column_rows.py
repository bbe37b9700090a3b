"""In how many rows a column differs from its usual value, zero as a rule: the rows it tells apart."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..covariance.thin import TILE_ROWS, tiles
from ..machine.arrays import Array, Matrix


class ColumnRows(NamedTuple):
    """Counts of zeros, and of the least and the largest value, in each column of n rows; mergeable.

    A usual value other than zero is the least or the largest one of an indicator that was centred, scaled or
    flipped. In sparse rows the usual value is zero.
    """

    n: int
    zeros: Array
    least: Array
    at_least: Array
    largest: Array
    at_largest: Array

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
        """Counts for both sets of rows."""
        least, largest = np.minimum(self.least, other.least), np.maximum(self.largest, other.largest)
        sides = (self, other)
        return ColumnRows(
            self.n + other.n,
            self.zeros + other.zeros,
            least,
            np.sum([np.where(side.least == least, side.at_least, 0.0) for side in sides], axis=0),
            largest,
            np.sum([np.where(side.largest == largest, side.at_largest, 0.0) for side in sides], axis=0),
        )

    def rows(self) -> Array:
        """Rows in which each column differs from its usual value; all rows for a constant column."""
        found = self.n - np.maximum(self.zeros, np.maximum(self.at_least, self.at_largest))
        return np.where(found > 0, found, self.n)


def _of_sparse(m: Matrix) -> ColumnRows:
    values = (m.data != 0).astype(np.float64)
    lit = np.asarray(sp.csr_array((values, m.indices, m.indptr), shape=m.shape).T @ np.ones(m.shape[0]))
    unknown = np.zeros(m.shape[1])
    return ColumnRows(m.shape[0], m.shape[0] - lit, unknown, unknown, unknown, unknown)


def _of_tile(m: Array) -> ColumnRows:
    least, largest = m.min(axis=0), m.max(axis=0)
    counts = (np.count_nonzero(m == value, axis=0).astype(np.float64) for value in (0, least, largest))
    zeros, at_least, at_largest = counts
    return ColumnRows(len(m), zeros, least, at_least, largest, at_largest)
