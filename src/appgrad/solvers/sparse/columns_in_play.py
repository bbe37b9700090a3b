"""Covariances of the columns in play, in units of their own spread, and their largest entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...covariance.linalg import column_dots
from ...covariance.operators import ColumnCovariance, Cross, Matrices
from ...covariance.preconditioners import jacobi
from ...machine.arrays import Array

# Pairs of sparse columns that are never both present are considered above this correlation, or above a larger
# one if there would be more than this many pairs.
EXCLUSIVE, MOST_EXCLUSIVE = 0.01, 1_000_000


class Taken(NamedTuple):
    """Components removed from Sxy, Sxy - Sx phi diag(rho) (Sy psi)', as Sx phi, Sy psi and rho."""

    x: Array
    y: Array
    rho: Array


class Entries(NamedTuple):
    """Entries of a matrix by their rows and columns, largest first."""

    rows: Array
    columns: Array
    values: Array


class Columns:
    """Covariances in units in which every column has variance one, the ridge included: D S D.

    Entries of Sxy are correlations there, up to the ridge. The components in `taken` are removed from it.
    """

    def __init__(self, cov: ColumnCovariance, taken: Taken | None = None) -> None:
        self.cov, self.taken = cov, taken
        x, y = jacobi(cov)
        assert x is not None
        assert y is not None
        self.dx, self.dy = x.d[:, None], y.d[:, None]
        self.n = cov.moments.n

    def without(self, A: Array, B: Array) -> Columns:
        """Return these covariances with the pairs A, B removed as well."""
        xx, xy, _, yy = self.products(A, B)
        size_x, size_y = (np.sqrt(column_dots(C, SC)) for C, SC in ((A, xx), (B, yy)))
        new = Taken(xx / size_x, yy / size_y, column_dots(A, xy) / (size_x * size_y))
        if self.taken is not None:
            new = Taken(*(np.concatenate(pair, axis=-1) for pair in zip(self.taken, new, strict=True)))
        return Columns(self.cov, new)

    def products(self, A: Array, B: Array) -> tuple[Array, Array, Array, Array]:
        """Sx A, Sxy B, Syx A, Sy B: one pass over the rows."""
        xx, xy, yx, yy = self.cov.products(self.dx * A, self.dy * B)
        xx, xy, yx, yy = self.dx * xx, self.dx * xy, self.dy * yx, self.dy * yy
        if self.taken is not None:
            x, y, rho = self.taken
            xy -= x @ (rho[:, None] * (y.T @ B))
            yx -= y @ (rho[:, None] * (x.T @ A))
        return xx, xy, yx, yy

    def restricted(self, x: Array, y: Array) -> Matrices:
        """Return the matrices of these columns, ridge included: one pass over the rows."""
        S, (ux, uy), dx, dy = self.cov.restricted(x, y), self.cov.units.views, self.dx[x], self.dy[y]
        Sxy = dx * S.Sxy * dy.T
        if self.taken is not None:
            Sxy -= (self.taken.x[x] * self.taken.rho) @ self.taken.y[y].T
        return Matrices(_with_ridge(S.Sx, dx, ux.ridge[x]), Sxy, _with_ridge(S.Sy, dy, uy.ridge[y]))

    @property
    def passes_of_largest(self) -> int:
        """Number of passes that finding the largest entries takes."""
        return self.cov.cross_passes

    def largest(self, count: int) -> Entries:
        """The largest entries of Sxy, gathered by blocks of columns as memory allows.

        Pairs of sparse columns that are never both present are considered if that makes them correlated, and
        count as uncorrelated otherwise.
        """
        found: list[Entries] = []
        level = 0.0
        for columns, C, means in self._cross():
            if means is not None:
                i, j, values = self._with_exclusive(C.tocsr(), columns, *means)
                above = np.abs(values) > level
                i, j, values = i[above], j[above], values[above]
            else:
                i, j = np.nonzero(np.abs(C) > level)
                values = C[i, j]
            found.append(Entries(i, j + columns.start, values))
            rows, cols, values = (np.concatenate(parts) for parts in zip(*found, strict=True))
            if len(values) > count:
                top = np.argpartition(-np.abs(values), count - 1)[:count]
                rows, cols, values = rows[top], cols[top], values[top]
                level = float(np.abs(values).min())
            found = [Entries(rows, cols, values)]
        (last,) = found
        order = np.lexsort((last.columns, last.rows, -np.abs(last.values)))
        return Entries(*(part[order] for part in last))

    def _with_exclusive(self, C: Any, columns: slice, mx: Array, my: Array) -> list[Array]:
        """Rows, columns and values of stored entries, and of columns that are never both present.

        The latter have a covariance of minus the product of their means mx and my.
        """
        i, j = _largest_products(mx, my)
        # Check what is stored, not the values: two columns that are both present may be uncorrelated.
        stored = sp.csr_array((np.ones(C.nnz), C.indices, C.indptr), shape=C.shape)[i, j]
        exclusive = np.ravel(stored.toarray() if sp.issparse(stored) else stored) == 0
        i, j = i[exclusive], j[exclusive]
        extra = self._less(sp.coo_array((-mx[i] * my[j], (i, j)), shape=C.shape), columns)
        C = C.tocoo()
        pairs = ((C.row, i), (C.col, j), (C.data, extra.data))
        return [np.concatenate(pair) for pair in pairs]

    def _cross(self) -> Iterator[Cross]:
        """Blocks of columns of Sxy, sparse where rows are."""
        return map(self._less_taken, self.cov.cross(self.dx.ravel(), self.dy.ravel()))

    def _less_taken(self, block: Cross) -> Cross:
        return block._replace(C=self._less(block.C, block.columns))

    def _less(self, C: Any, columns: slice) -> Any:
        """Return a block of Sxy without the removed components."""
        if self.taken is None:
            return C
        x, y = self.taken.x * self.taken.rho, self.taken.y[columns]
        if not sp.issparse(C):
            return C - x @ y.T
        return sp.coo_array(
            (C.data - np.einsum("ij,ij->i", x[C.row], y[C.col]), (C.row, C.col)), shape=C.shape
        )


def _largest_products(x: Array, y: Array) -> tuple[Array, Array]:
    """Pairs i, j with a product x_i y_j above `EXCLUSIVE`, or the largest, at most `MOST_EXCLUSIVE`."""
    i, j = np.argsort(-np.abs(x), kind="stable"), np.argsort(-np.abs(y), kind="stable")
    sizes, level = -np.abs(y[j]), EXCLUSIVE
    while True:
        with np.errstate(divide="ignore"):
            counts = np.searchsorted(sizes, -level / np.abs(x[i]))
        if counts.sum() <= MOST_EXCLUSIVE:
            break
        level *= 1.5
    first = np.cumsum(counts) - counts
    return np.repeat(i, counts), j[np.arange(counts.sum()) - np.repeat(first, counts)]


def _with_ridge(S: Array, d: Array, ridge: Array) -> Array:
    """D S D with the ridge, in units d."""
    found = d * S * d.T
    found[np.diag_indices(len(found))] += ridge * (d * d).ravel()
    return found
