"""Columns in play: covariances of some columns, in units of their own spread, and what stands out in them."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...covariance.linalg import column_dots
from ...covariance.moments import Moments, ViewMoments, shifted, to_dense
from ...covariance.operators import Covariance, DenseCovariance, Units, ViewUnits
from ...covariance.preconditioners import jacobi
from ...data.derived import DerivedViews
from ...data.views import ENTRY_BYTES, Block, Part, Views
from ...machine.arrays import Array
from ...machine.memory import budget

# Pairs of columns of sparse rows that are never both present: looked at from this correlation on, or a larger
# one where they would be more than so many.
EXCLUSIVE, MOST_EXCLUSIVE = 0.01, 1_000_000


class Picking:
    """Parts of rows as parts of some of their columns."""

    def __init__(self, x: Array, y: Array) -> None:
        self.x, self.y = x, y

    def __call__(self, parts: Generator[Part, None, None], dtype: Any) -> Generator[Part, None, None]:
        """Blocks to be cut."""
        with closing(parts):
            for part in parts:
                yield Part(part.rows, partial(self._picked, part))

    def _picked(self, part: Part) -> Block:
        block = part.block()
        x, y = block.views
        return Block(block.offset, (x[:, self.x], y[:, self.y]))


class ColumnViews(DerivedViews):
    """Views restricted to some columns of each side, picked from every block as it comes."""

    def __init__(self, views: Views, x: Array, y: Array) -> None:
        super().__init__(views)
        self._picking = Picking(x, y)
        self.widths = len(x), len(y)
        names_x, names_y = views.names
        self.names = None if names_x is None else names_x[x], None if names_y is None else names_y[y]

    @property
    def cut(self) -> Picking:
        """From rows to some of their columns."""
        return self._picking

    def take(self, rows: Array) -> ColumnViews:
        """These columns of these rows."""
        return ColumnViews(self.views.take(rows), self.cut.x, self.cut.y)


class Matrices(NamedTuple):
    """Sx, Sxy and Sy of a few columns, ridge included."""

    Sx: Array
    Sxy: Array
    Sy: Array


class Taken(NamedTuple):
    """Components that are taken out: Sxy less Sx phi diag(rho) (Sy psi)'; here Sx phi, Sy psi and rho."""

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

    Entries of Sxy are correlations there, up to the ridge. With `taken`, less the components found before.
    """

    def __init__(self, cov: Covariance | DenseCovariance, taken: Taken | None = None) -> None:
        self.cov, self.taken = cov, taken
        x, y = jacobi(cov)
        assert x is not None
        assert y is not None
        self.dx, self.dy = x.d[:, None], y.d[:, None]
        self.n = cov.moments.n

    def without(self, A: Array, B: Array) -> Columns:
        """The same with the pairs A, B taken out as well."""
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
        """The matrices of these columns: one pass over the rows."""
        cov, dx, dy = self.cov, self.dx[x], self.dy[y]
        small = cov if isinstance(cov, DenseCovariance) else _picked(cov, x, y).dense()
        here = (x, y) if isinstance(cov, DenseCovariance) else (np.arange(len(x)), np.arange(len(y)))
        Sxy = dx * small.Sxy[np.ix_(*here)] * dy.T
        if self.taken is not None:
            Sxy -= (self.taken.x[x] * self.taken.rho) @ self.taken.y[y].T
        ux, uy = small.units.views
        sides = []
        for S, ridge, d, i in (
            (small.Sx, ux.ridge, dx, here[0]),
            (small.Sy, uy.ridge, dy, here[1]),
        ):
            side = d * S[np.ix_(i, i)] * d.T
            side[np.diag_indices(len(i))] += ridge[i] * (d * d).ravel()
            sides.append(side)
        return Matrices(sides[0], Sxy, sides[1])

    @property
    def passes_of_largest(self) -> int:
        """Passes that the largest entries take."""
        if isinstance(self.cov, DenseCovariance):
            return 0
        views = self.cov.views
        return -(-len(self.dy) // _block_width(views, _is_full(views)))

    def largest(self, count: int) -> Entries:
        """The largest entries of Sxy, gathered by blocks of columns as memory allows.

        Of sparse rows, pairs of columns that are never both present are looked at where that makes them
        correlated, and count as uncorrelated elsewhere.
        """
        found: list[Entries] = []
        level = 0.0
        for columns, C in self._cross():
            if sp.issparse(C):
                i, j, values = self._with_exclusive(C.tocsr(), columns)
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

    def _with_exclusive(self, C: Any, columns: slice) -> list[Array]:
        """Rows, columns and values of stored entries, and of columns that are never both present.

        The latter have a covariance of minus the product of their means.
        """
        cov = self.cov
        assert isinstance(cov, Covariance)
        (ux, uy), (shift_x, shift_y) = cov.units.views, cov.shifts
        mx = (ux.mean - shift_x) * ux.scale * self.dx.ravel()
        my = ((uy.mean - shift_y) * uy.scale * self.dy.ravel())[columns]
        i, j = _largest_products(mx, my)
        # By what is stored: two columns that are both present may be uncorrelated.
        stored = sp.csr_array((np.ones(C.nnz), C.indices, C.indptr), shape=C.shape)[i, j]
        exclusive = np.ravel(stored.toarray() if sp.issparse(stored) else stored) == 0
        i, j = i[exclusive], j[exclusive]
        extra = self._less(sp.coo_array((-mx[i] * my[j], (i, j)), shape=C.shape), columns)
        C = C.tocoo()
        pairs = ((C.row, i), (C.col, j), (C.data, extra.data))
        return [np.concatenate(pair) for pair in pairs]

    def _cross(self) -> Iterator[tuple[slice, Any]]:
        """Blocks of columns of Sxy, sparse where rows are."""
        cov, p2 = self.cov, len(self.dy)
        if isinstance(cov, DenseCovariance):
            yield slice(0, p2), self._less(self.dx * cov.Sxy * self.dy.T, slice(0, p2))
            return
        full = _is_full(cov.views)
        width = _block_width(cov.views, full)
        for start in range(0, p2, width):
            columns = slice(start, min(start + width, p2))
            yield columns, self._less(self._block(cov, columns, full), columns)

    def _block(self, cov: Covariance, columns: slice, full: bool) -> Any:
        (ux, uy), (shift_x, shift_y) = cov.units.views, cov.shifts

        def part(block: Block) -> Any:
            x, y = block.views
            x = shifted(x, shift_x).astype(np.float64, copy=False)
            y = shifted(y, shift_y)[:, columns].astype(np.float64, copy=False)
            C = x.T @ y
            return to_dense(C) if full else sp.csr_array(C)

        C = cov.views.reduce(part, lambda a, b: a + b, most=2)
        sx, sy = (ux.scale * self.dx.ravel()), (uy.scale * self.dy.ravel())[columns]
        mx, my = (ux.mean - shift_x) * sx, (uy.mean - shift_y)[columns] * sy
        if sp.issparse(C):
            C = C.tocoo()
            values = C.data / cov.n * sx[C.row] * sy[C.col] - mx[C.row] * my[C.col]
            return sp.coo_array((values, (C.row, C.col)), shape=C.shape)
        return C / cov.n * sx[:, None] * sy - np.outer(mx, my)

    def _less(self, C: Any, columns: slice) -> Any:
        """Without the components that are taken out."""
        if self.taken is None:
            return C
        x, y = self.taken.x * self.taken.rho, self.taken.y[columns]
        if not sp.issparse(C):
            return C - x @ y.T
        return sp.coo_array(
            (C.data - np.einsum("ij,ij->i", x[C.row], y[C.col]), (C.row, C.col)), shape=C.shape
        )


def _largest_products(x: Array, y: Array) -> tuple[Array, Array]:
    """Pairs i, j with a product x_i y_j above `EXCLUSIVE`, or about as many of the largest as may be."""
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


def _is_full(views: Views) -> bool:
    """Whether pairs of columns mostly occur together: Sxy is then gathered dense."""
    return views.entries >= 0.1 * (views.n_features_x + views.n_features_y)


def _block_width(views: Views, full: bool) -> int:
    """Columns of Sxy that are gathered in a pass."""
    p1, p2 = views.n_features_x, views.n_features_y
    bytes_ = 8.0 * p1 * p2 if full else 2 * ENTRY_BYTES * views.n_samples * (views.entries / 2) ** 2
    return max(1, int(p2 * min(1.0, budget() / 8 / max(bytes_, 1.0))))


def _picked(cov: Covariance, x: Array, y: Array) -> Covariance:
    """The covariance of these columns alone."""
    m, picked = cov.moments, (x, y)
    few = tuple(ViewMoments(mean[i], var[i]) for (mean, var), i in zip(m.views, picked, strict=True))
    units = tuple(
        ViewUnits(mean[i], scale[i], ridge[i])
        for (mean, scale, ridge), i in zip(cov.units.views, picked, strict=True)
    )
    return Covariance(ColumnViews(cov.views, x, y), Moments(m.n, few), Units(units), cov.dtype)
