"""Covariance operator on rows, wherever they are stored: one pass for each product."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.arrays import ArrayViews, gathered
from ..data.blocks import ENTRY_BYTES
from ..data.derived import ColumnViews
from ..data.views import Block, Views
from ..machine.arrays import Array, Matrix
from ..machine.memory import budget
from .matrices import MatrixCovariance
from .moments import second_moments, shifted, to_dense
from .operators import Cross, Matrices, bounded, dimensions
from .preconditioners import (
    MOST_MEASURED,
    NARROW,
    Preconditioner,
    Sampled,
    jacobi,
    low_rank,
    sample_rows,
    sampled,
    warm_up_rows,
)
from .products import RowProducts
from .thin import add_gathered
from .units import Units

# Error bounds of correlations above this say nothing.
MEANINGFUL = 0.1


class RowCovariance(RowProducts):
    """The operator on rows, with a ridge that is a diagonal."""

    @property
    def precision(self) -> float:
        """The relative error of Gram matrices of scores."""
        return float(np.finfo(self.dtype).eps)

    def at(self, dtype: Any) -> RowCovariance:
        """The same operator in another precision."""
        return RowCovariance(self.views, self.moments, self.units, dtype)

    def ridged(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Rx A and Ry B."""
        ridge_x, ridge_y = self._ridge
        return ridge_x[:, None] * A, ridge_y[:, None] * B

    def gradients(self, A: Array, B: Array, P: Array, Q: Array) -> tuple[Array, Array]:
        """Sx A - Sxy B Q and Sy B - Syx A P for c x c matrices P and Q.

        Scores are mixed before they are gathered: half the transposed products, and no work of p x c x c.
        """
        c, every = A.shape[1], slice(None)
        mix = np.block([[np.eye(c), -P], [-Q, np.eye(c)]])
        mix_x, mix_y = (np.ascontiguousarray(part, dtype=self.dtype) for part in np.hsplit(mix, 2))

        def add(sums: list[Array], x: Matrix, y: Matrix, rows: slice, UV: Array) -> None:
            add_gathered(x, rows, UV @ mix_x, sums[0])
            add_gathered(y, rows, UV @ mix_y, sums[1])

        gx, gy, total, _ = self._sum(A, B, add, A.shape, B.shape)
        gx = self._finish(gx, total @ mix_x, 0, A.dtype, A, every)
        return gx, self._finish(gy, total @ mix_y, 1, B.dtype, B, every)

    def gradient_flops(self, c: int) -> float:
        """Multiplications and additions of `gradients` with c columns a view."""
        return 4.0 * self.n * c * (self.views.entries + 2 * c)

    def gram_flops(self, c: int) -> float:
        """Multiplications and additions of `grams` with c columns a view."""
        return 2.0 * self.n * c * (self.views.entries + 3 * c)

    def error_bounds(self, rho: Array, rx: Array, ry: Array, sizes: Array) -> Array:
        """Upper bounds on the distance of each rho from a canonical correlation, NaN where unknown.

        S is not in memory, but it is at least the ridge. The bound from the ridge is used below 0.1. Entries
        of residuals are rounded to eps times the standard deviation of their column, times that of the
        terms of a score.
        """
        squares, unit = np.zeros(rx.shape[1]), 0.0
        for m, u, r in zip(self.moments.views, self.units.views, (rx, ry), strict=True):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                # A column that is absent has no residual; one without a ridge leaves the bound unknown.
                inverse = np.where(u.scale > 0, 1 / u.ridge, 0.0)
                squares += np.einsum("i,ij,ij->j", inverse, r, r)
                unit += float(np.sum(inverse * m.var * u.scale**2))
        rounding = 4 * self.precision * np.sqrt(unit * np.maximum(sizes, 1.0))
        return bounded(squares, rho, len(rx) == len(ry), MEANINGFUL) + rounding

    def dimensions(self) -> tuple[int, int]:
        """At most this many dimensions of each view are left by the ridge."""
        return dimensions(self.moments, self.units)

    def preconditioner(self, kind: str | None, rng: np.random.Generator) -> Preconditioner:
        """The preconditioner of this kind; "lowrank" uses a sample of rows."""
        if kind is None:
            return Preconditioner()
        if kind == "jacobi":
            return jacobi(self)
        if kind == "sample":
            return self._sampled(rng)
        return low_rank(self._sample(warm_up_rows(self.views), rng), jacobi(self), rng)

    def _sampled(self, rng: np.random.Generator) -> Preconditioner:
        """The covariances of a sample of rows for narrow views, the diagonals for others."""
        drawn = self._sample(sample_rows(self.views), rng).views
        assert isinstance(drawn, ArrayViews)
        found, centred = [], any(np.any(view.mean) for view in self.units.views)
        for x, side, u in zip((drawn.x, drawn.y), jacobi(self), self.units.views, strict=True):
            assert side is not None
            if len(side.d) > NARROW:
                found.append(Sampled(side, np.zeros(0, bool)))
            else:
                Z = (to_dense(x).astype(np.float64) - u.mean) * (u.scale * side.d)
                Z = Z - Z.mean(axis=0) if centred else Z
                # Values are known to their own rounding, which is larger far from zero.
                size = float(np.max(1 + np.abs(u.mean) * u.scale * side.d, initial=1.0))
                eps = size * float(np.finfo(self.views.dtype).eps)
                found.append(sampled(Z, u.ridge * side.d**2, side, whole=len(Z) == self.n, eps=eps))
        return self._looked_at(*found)

    def _looked_at(self, x: Sampled, y: Sampled) -> Preconditioner:
        """The preconditioner whose doubtful directions have the variances of all rows: one pass if any.

        If there are many, they are left out.
        """
        few = [0 < np.count_nonzero(part.doubtful) <= MOST_MEASURED for part in (x, y)]
        A, B = (
            part.side.d[:, None] * part.side.V[:, part.doubtful if ask else slice(0)]
            for part, ask in zip((x, y), few, strict=True)
        )
        sides = [part.left_out() if np.any(part.doubtful) else part.side for part in (x, y)]
        if any(few):
            Gx, _, Gy = self.at(np.float64).grams(A, B)
            for i, (part, G, u) in enumerate(zip((x, y), (Gx, Gy), self.units.views, strict=True)):
                if few[i]:
                    sides[i] = part.looked_at(G, u.ridge * part.side.d**2)
        return Preconditioner(*sides)

    def _sample(self, size: int, rng: np.random.Generator) -> RowCovariance:
        """The covariance of `size` random rows, in memory, with the means of all rows."""
        rows = np.sort(rng.permutation(self.n)[:size])
        return RowCovariance(gathered(self.views.take(rows)), self.moments, self.units, self.dtype)

    def on_matrices(self) -> MatrixCovariance:
        """The operator on the p x p matrices of these rows: one pass."""
        return _on_matrices(self.views, self.units)

    def restricted(self, x: Array, y: Array) -> Matrices:
        """The matrices of these columns, without the ridge: one pass over the rows."""
        small = _on_matrices(ColumnViews(self.views, x, y), self.units.restricted(x, y))
        # Sums of sparse rows are stored by columns: products of such matrices would round differently.
        return Matrices(*map(np.ascontiguousarray, small.matrices))

    def cross(self, dx: Array, dy: Array) -> Iterator[Cross]:
        """diag(dx) Sxy diag(dy) in blocks of columns, sparse if the rows are: one pass per block."""
        (ux, uy), (shift_x, shift_y) = self.units.views, self.shifts
        mx, my = (ux.mean - shift_x) * ux.scale * dx, (uy.mean - shift_y) * uy.scale * dy
        width, full = _cross_width(self.views), _is_cross_full(self.views)
        for start in range(0, len(dy), width):
            columns = slice(start, min(start + width, len(dy)))
            means = None if full else (mx, my[columns])
            yield Cross(columns, self._cross_block(columns, dx, dy, full), means)

    @property
    def cross_passes(self) -> int:
        """Passes over the rows that `cross` takes."""
        return -(-self.units.widths[1] // _cross_width(self.views))

    def _cross_block(self, columns: slice, dx: Array, dy: Array, full: bool) -> Any:
        (ux, uy), (shift_x, shift_y) = self.units.views, self.shifts

        def part(block: Block) -> Any:
            x, y = block.views
            x = shifted(x, shift_x).astype(np.float64, copy=False)
            y = shifted(y, shift_y)[:, columns].astype(np.float64, copy=False)
            C = x.T @ y
            return to_dense(C) if full else sp.csr_array(C)

        C = self.views.reduce(part, lambda a, b: a + b, most=2)
        sx, sy = ux.scale * dx, (uy.scale * dy)[columns]
        mx, my = (ux.mean - shift_x) * sx, (uy.mean - shift_y)[columns] * sy
        if sp.issparse(C):
            C = C.tocoo()
            values = C.data / self.n * sx[C.row] * sy[C.col] - mx[C.row] * my[C.col]
            return sp.coo_array((values, (C.row, C.col)), shape=C.shape)
        return C / self.n * sx[:, None] * sy - np.outer(mx, my)

    def row_grams(self, tx: Array, ty: Array) -> tuple[Array, Array]:
        """The n x n Gram matrices of the rows of (X - c) * scale * tx, and of Y, in memory.

        For data with more columns than rows. c is the mean for dense data and may be any point
        otherwise: centre the matrices afterwards. As many rows as the memory budget holds are kept at a time
        and multiplied with all later ones: one pass for each group of rows kept.
        """
        n = self.moments.n
        Kx, Ky = np.zeros((n, n)), np.zeros((n, n))
        (ux, uy), (shift_x, shift_y) = self.units.views, self.shifts
        wx, wy = ux.scale * tx, uy.scale * ty

        def scaled(block: Block) -> Block:
            x, y = block.views
            x = _near_mean(x.astype(np.float64), ux.mean, shift_x)
            y = _near_mean(y.astype(np.float64), uy.mean, shift_y)
            return Block(block.offset, (_times(x, wx), _times(y, wy)))

        for group in _groups(map(scaled, self.views.blocks())):
            for later in self.views.blocks():
                if later.offset < group[0].offset:
                    continue
                z = scaled(later)
                for kept in group:
                    cell = np.ix_(_rows(z), _rows(kept))
                    for K, a, b in zip((Kx, Ky), z.views, kept.views, strict=True):
                        K[cell] = to_dense(a @ b.T)
        return tuple(np.tril(K) + np.tril(K, -1).T for K in (Kx, Ky))  # type: ignore[return-value]

    def combinations(self, P: Array, Q: Array) -> tuple[Array, Array]:
        """((X - mean) * scale)'P and the same for Y and Q: columns of P and Q are combinations of rows."""
        shift_x, shift_y = self.shifts

        def part(block: Block) -> tuple[Array, ...]:
            rows, (x, y) = _rows(block), block.views
            return shifted(x, shift_x).T @ P[rows], shifted(y, shift_y).T @ Q[rows]

        n, every = self.n, slice(None)
        x, y = self.views.sum(part, self.dtype)
        return (
            n * self._finish(x, P.sum(axis=0), 0, P.dtype, None, every),
            n * self._finish(y, Q.sum(axis=0), 1, Q.dtype, None, every),
        )


def _on_matrices(views: Views, u: Units) -> MatrixCovariance:
    # If all means are zero, centring was not asked for or makes no difference.
    center = any(np.any(view.mean) for view in u.views)
    return MatrixCovariance.of_moments(second_moments(views, center), u)


def _is_cross_full(views: Views) -> bool:
    """True if most pairs of columns occur together: Sxy is then gathered dense."""
    return views.entries >= 0.1 * sum(views.widths)


def _cross_width(views: Views) -> int:
    """Number of columns of Sxy gathered in a pass."""
    p1, p2 = views.widths
    if _is_cross_full(views):
        bytes_ = 8.0 * p1 * p2
    else:
        bytes_ = 2 * ENTRY_BYTES * views.n_samples * (views.entries / 2) ** 2
    return max(1, int(p2 * min(1.0, budget() / 8 / max(bytes_, 1.0))))


def _near_mean(x: Matrix, mean: Array, shift: Array) -> Matrix:
    """x - mean for a dense x; a sparse x is shifted only as far as it stays sparse."""
    return shifted(x, shift) if sp.issparse(x) else x - mean


def _times(x: Matrix, scale: Array) -> Matrix:
    return x.multiply(scale).tocsr() if sp.issparse(x) else x * scale


def _rows(block: Block) -> Array:
    return np.arange(block.offset, block.offset + block.n_rows)


def _groups(blocks: Iterator[Block]) -> Iterator[list[Block]]:
    """Consecutive blocks, as many at a time as the memory budget holds."""
    most, size, group = budget(), 0, list[Block]()
    for block in blocks:
        bytes_ = sum(ENTRY_BYTES * z.nnz if sp.issparse(z) else z.nbytes for z in block.views)
        if group and size + bytes_ > most:
            yield group
            size, group = 0, []
        size += bytes_
        group.append(block)
    yield group
