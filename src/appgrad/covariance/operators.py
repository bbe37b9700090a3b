"""What algorithms see: the covariances of two views as operators on thin matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn import get_config

from ..data.views import ENTRY_BYTES, Block, Views
from ..machine.arrays import EPS, Array, Matrix
from ..machine.threads import over_rows
from .moments import Moments, SecondMoments, second_moments, shifted, to_dense
from .thin import add_gathered, add_scores, tiles


@dataclass(frozen=True)
class KernelRidge:
    """The ridge r K of views that are centred Gram matrices K: the norm of functions, not of weights.

    With it, Sx = K^2 / n + r K, and a linear kernel gives what linear CCA gives with the ridge r.
    """

    r: float
    diagonal: Array


Ridge = str | float | KernelRidge
Add = Callable[[list[Array], Matrix, Matrix, slice, Array], None]


class ViewUnits(NamedTuple):
    """The coordinates of one view: (X - mean) * scale, and the diagonal of the ridge there.

    Columns that do not vary have scale 0: they are absent, and their weights come out as zero.
    """

    mean: Array
    scale: Array
    ridge: Array


class Units(NamedTuple):
    """The coordinates algorithms work in, one record a view.

    The ridge is its diagonal, unless `kernel` says r of both views: then it is r times the views themselves,
    which are Gram matrices.
    """

    views: tuple[ViewUnits, ...]
    kernel: tuple[float, float] | None = None

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of columns of each view."""
        return tuple(len(view.scale) for view in self.views)


def units(
    m: Moments,
    dtype: np.dtype[Any],
    *,
    scale: bool = False,
    ridge: Ridge | tuple[Ridge, Ridge] = "auto",
) -> Units:
    """Means, scales and ridges for data with these moments.

    ridge="auto" is 1e-10 (float32: 1e-6) times each column's variance; a number is absolute and is
    added to the covariance diagonals of the (optionally scaled) data; a pair is one per view. A
    `KernelRidge` is for both views or none.
    """
    found: list[ViewUnits] = []
    pair = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    for (mean, var), r in zip(m.views, pair, strict=True):
        sd = np.sqrt(var)
        # Rounding of the values alone gives a constant column this much spread.
        varies = sd > 10 * EPS * np.abs(mean)
        s = np.where(varies, 1.0 / np.where(varies, sd, 1.0) if scale else 1.0, 0.0)
        if isinstance(r, KernelRidge):
            found.append(ViewUnits(mean, s, r.r * r.diagonal * s))
        elif r == "auto":
            found.append(ViewUnits(mean, s, (1e-10 if dtype == np.float64 else 1e-6) * var * s * s))
        else:
            found.append(ViewUnits(mean, s, np.full(len(s), float(r))))
    return Units(tuple(found), kernel_ridges(pair))


def kernel_ridges(ridge: Ridge | tuple[Ridge, Ridge]) -> tuple[float, float] | None:
    """r of both views where they are Gram matrices, otherwise None."""
    x, y = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    return (x.r, y.r) if isinstance(x, KernelRidge) and isinstance(y, KernelRidge) else None


class Covariance:
    """The covariances of two views as an operator: thin products, one pass over the rows each.

    Sx is the covariance of (X - mean) * scale plus the ridge, Sxy the cross-covariance without it. The
    moments may be those of more rows than the views hold: those of all data, for a minibatch.
    """

    def __init__(self, views: Views, m: Moments, u: Units, dtype: Any = None) -> None:
        self.views, self.moments, self.units, self.n = views, m, u, views.n_samples
        self.dtype = views.dtype if dtype is None else np.dtype(dtype)
        # Columns far from zero are shifted entry by entry; the others are centred on the thin side.
        self.shifts = tuple(
            _far_from_zero(unit.mean, view.var, m.n) for unit, view in zip(u.views, m.views, strict=True)
        )

    @property
    def precision(self) -> float:
        """The relative error of Gram matrices of scores.

        Any other ridge is above it; r K adds nothing where scores vanish, so the error of sums of n is seen.
        """
        eps = float(np.finfo(self.dtype).eps)
        return eps if self.units.kernel is None else eps * self.n

    def at(self, dtype: Any) -> Covariance:
        """The same operator in another precision."""
        return Covariance(self.views, self.moments, self.units, dtype)

    def products(self, A: Array, B: Array, ridge: bool = True) -> tuple[Array, Array, Array, Array]:
        """Sx A, Sxy B, Syx A, Sy B for A (p1 x c) and B (p2 x d); Sx and Sy without the ridge if asked.

        Results have the precision of A and B, in whatever precision the rows are multiplied.
        """
        c, both = A.shape[1], A.shape[1] + B.shape[1]

        def add(sums: list[Array], x: Matrix, y: Matrix, rows: slice, UV: Array) -> None:
            add_gathered(x, rows, UV, sums[0])
            add_gathered(y, rows, UV, sums[1])

        XT, YT, total, scores = self._sum(A, B, add, (len(A), both), (len(B), both))
        ridged = self._ridged(A, B, scores) if ridge else (None, None)
        XT = self._finish(XT, total, 0, A.dtype, ridged[0], slice(0, c))
        YT = self._finish(YT, total, 1, B.dtype, ridged[1], slice(c, None))
        return XT[:, :c], XT[:, c:], YT[:, :c], YT[:, c:]

    def gradients(self, A: Array, B: Array, P: Array, Q: Array) -> tuple[Array, Array]:
        """Sx A - Sxy B Q and Sy B - Syx A P for c x c matrices P and Q.

        Scores are mixed before they are gathered: half the transposed products, and nothing of p x c x c.
        """
        c, every = A.shape[1], slice(None)
        mix = np.block([[np.eye(c), -P], [-Q, np.eye(c)]])
        mix_x, mix_y = (np.ascontiguousarray(part, dtype=self.dtype) for part in np.hsplit(mix, 2))

        def add(sums: list[Array], x: Matrix, y: Matrix, rows: slice, UV: Array) -> None:
            add_gathered(x, rows, UV @ mix_x, sums[0])
            add_gathered(y, rows, UV @ mix_y, sums[1])

        gx, gy, total, scores = self._sum(A, B, add, A.shape, B.shape)
        ridged = self._ridged(A, B, scores)
        gx = self._finish(gx, total @ mix_x, 0, A.dtype, ridged[0], every)
        return gx, self._finish(gy, total @ mix_y, 1, B.dtype, ridged[1], every)

    def squares(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Sx A and Sy B."""
        c, every = A.shape[1], slice(None)

        def add(sums: list[Array], x: Matrix, y: Matrix, rows: slice, UV: Array) -> None:
            add_gathered(x, rows, np.ascontiguousarray(UV[:, :c]), sums[0])
            add_gathered(y, rows, np.ascontiguousarray(UV[:, c:]), sums[1])

        xx, yy, total, scores = self._sum(A, B, add, A.shape, B.shape)
        ridged = self._ridged(A, B, scores)
        xx = self._finish(xx, total[:c], 0, A.dtype, ridged[0], every)
        return xx, self._finish(yy, total[c:], 1, B.dtype, ridged[1], every)

    def grams(self, A: Array, B: Array) -> tuple[Array, Array, Array]:
        """A'Sx A, A'Sxy B, B'Sy B: from the scores alone, without a transposed product."""
        c, both = A.shape[1], A.shape[1] + B.shape[1]

        def add(sums: list[Array], x: Matrix, y: Matrix, rows: slice, UV: Array) -> None:
            sums[0] += UV.T @ UV

        G, _, scores = self._sum(A, B, add, (both, both))
        G = G / self.n
        ridge_x, ridge_y = (
            ridge[:, None] * operand
            for ridge, operand in zip(self._ridge, self._ridged(A, B, scores), strict=True)
        )
        return G[:c, :c] + A.T @ ridge_x, G[:c, c:], G[c:, c:] + B.T @ ridge_y

    def ridged(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Rx A and Ry B: times the diagonal, or a pass over the rows of Gram matrices."""
        if self.units.kernel is None:
            operands = A, B
        else:
            *_, scores = self._sum(A, B, lambda sums, x, y, rows, UV: None)
            operands = self._ridged(A, B, scores)
        return self._ridge[0][:, None] * operands[0], self._ridge[1][:, None] * operands[1]

    @property
    def _ridge(self) -> tuple[Array, Array]:
        """What multiplies A, or the scores where the ridge is r K."""
        u = self.units
        x, y = u.views
        return (x.ridge, y.ridge) if u.kernel is None else (u.kernel[0] * x.scale, u.kernel[1] * y.scale)

    def _ridged(self, A: Array, B: Array, scores: Array | None) -> tuple[Array, Array]:
        """What the ridge multiplies: A and B, or their scores K A where the ridge is r K."""
        return (A, B) if scores is None else (scores[:, : A.shape[1]], scores[:, A.shape[1] :])

    def row_grams(self, tx: Array, ty: Array) -> tuple[Array, Array]:
        """The n x n Gram matrices of the rows of (X - c) * scale * tx, and of Y, in memory.

        For data with more columns than rows. c is the mean where data are dense and may be any point
        elsewhere: centre the matrices, not the rows. As many rows as the memory budget holds are kept
        at a time and multiplied with the later ones: one pass for each budget full of rows.
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

    def diagonal(self) -> tuple[Array, Array]:
        """The diagonals of Sx and Sy; no pass over the data."""
        return _diagonals(self.moments, self.units)

    def flops(self, c: int) -> float:
        """Multiplications and additions of `products` with c columns a view.

        2 for each entry and column of X A and Y B, 4 of X'[U V] and Y'[U V].
        """
        return 6.0 * self.n * self.views.entries * c

    def gradient_flops(self, c: int) -> float:
        """Multiplications and additions of `gradients` with c columns a view."""
        return 4.0 * self.n * c * (self.views.entries + 2 * c)

    def gram_flops(self, c: int) -> float:
        """Multiplications and additions of `grams` with c columns a view."""
        return 2.0 * self.n * c * (self.views.entries + 3 * c)

    def dense(self) -> DenseCovariance:
        """The same operator on p x p matrices gathered in one pass."""
        # Means that are all zero were either not asked for or make no difference.
        center = any(np.any(view.mean) for view in self.units.views)
        return DenseCovariance(second_moments(self.views, center), self.units)

    def _sum(self, A: Array, B: Array, add: Add, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
        """Arrays of these shapes to which `add` has added every tile of rows with its scores [U V].

        And the sum of the scores, which is zero where the means are those of these rows; and all scores where
        the ridge is made of them, otherwise None.
        """
        (ux, uy), (shift_x, shift_y) = self.units.views, self.shifts
        dtype, c = self.dtype, A.shape[1]
        offsets = (ux.mean - shift_x) * ux.scale, (uy.mean - shift_y) * uy.scale
        # Without BLAS, whose threads would still be spinning when those of the pass need the cores.
        rest = np.concatenate(
            [np.einsum("i,ij->j", offset, C) for offset, C in zip(offsets, (A, B), strict=True)]
        )
        rest = rest.astype(dtype)
        A, B = (
            np.ascontiguousarray(C if np.all(scale == 1) else C * scale[:, None], dtype=dtype)
            for C, scale in ((A, ux.scale), (B, uy.scale))
        )

        scores = None if self.units.kernel is None else np.empty((self.n, len(rest)), dtype)

        # What is called far away takes along all it names.
        def of_block(block: Block) -> tuple[Array, ...]:
            x, y = block.views
            x, y = shifted(x, shift_x), shifted(y, shift_y)
            sums = [np.zeros(shape, dtype) for shape in (*shapes, rest.shape)]
            ranges = tiles(x.shape[0])
            # Room for the scores of a tile, once: where memory is handed back as soon as it is free, as on
            # workers of Dask, that of every tile anew would take as long as the products.
            room = [np.empty((ranges[0].stop, width), dtype) for width in (c, len(rest) - c, len(rest))]
            ones = np.ones(ranges[0].stop, dtype)
            for rows in ranges:
                U, V, UV = (part[: rows.stop - rows.start] for part in room)
                # Scores start at minus those of the means: nothing is left to subtract.
                U[:], V[:] = -rest[:c], -rest[c:]
                add_scores(x, rows, A, U)
                add_scores(y, rows, B, V)
                UV[:, :c], UV[:, c:] = U, V
                add(sums, x, y, rows, UV)
                sums[-1] += ones[: len(UV)] @ UV
                if scores is not None:
                    scores[block.offset + rows.start : block.offset + rows.stop] = UV
            return tuple(sums)

        return *self.views.sum(of_block, dtype), scores

    def _finish(
        self, product: Array, total: Array, view: int, dtype: Any, ridged: Array | None, own: slice
    ) -> Array:
        """Centre and scale the rows of X'[U V] / n, with the ridge times `ridged` in the `own` columns."""
        (mean, scale, _), shift, ridge = self.units.views[view], self.shifts[view], self._ridge[view]
        product, total = product.astype(dtype, copy=False), total.astype(dtype)
        offset, factor = ((column.astype(dtype))[:, None] for column in (mean - shift, scale / self.n))
        centred = bool(np.any(offset))

        def mend(rows: slice) -> None:
            part = product[rows]
            if centred:
                part -= offset[rows] * total
            part *= factor[rows]
            if ridged is not None:
                part[:, own] += ridge[rows, None].astype(dtype) * ridged[rows]

        over_rows(mend, len(product))
        return product


class DenseCovariance:
    """The same operator when p x p matrices fit: n is gone, and a product is no pass."""

    def __init__(self, second: SecondMoments, u: Units) -> None:
        p, _ = u.widths
        s = np.concatenate([view.scale for view in u.views])
        S = second.scatter / second.n
        S *= s[:, None]
        S *= s
        self.moments, self.units = second.moments(u.widths), u
        self.Sx, self.Sxy, self.Sy = S[:p, :p], S[:p, p:], S[p:, p:]
        self.dtype, self.precision = S.dtype, EPS

    def at(self, dtype: Any) -> DenseCovariance:
        """The same operator: matrices stay in double precision."""
        return self

    def products(self, A: Array, B: Array, ridge: bool = True) -> tuple[Array, Array, Array, Array]:
        """Sx A, Sxy B, Syx A, Sy B; Sx and Sy without the ridge if asked."""
        xx, yy = self.squares(A, B) if ridge else (self.Sx @ A, self.Sy @ B)
        return xx, self.Sxy @ B, self.Sxy.T @ A, yy

    def squares(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Sx A and Sy B."""
        ridge_x, ridge_y = self.ridged(A, B)
        return self.Sx @ A + ridge_x, self.Sy @ B + ridge_y

    def ridged(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Rx A and Ry B."""
        x, y = self.units.views
        return x.ridge[:, None] * A, y.ridge[:, None] * B

    def grams(self, A: Array, B: Array) -> tuple[Array, Array, Array]:
        """A'Sx A, A'Sxy B, B'Sy B."""
        xx, yy = self.squares(A, B)
        return A.T @ xx, A.T @ self.Sxy @ B, B.T @ yy

    def diagonal(self) -> tuple[Array, Array]:
        """The diagonals of Sx and Sy."""
        return _diagonals(self.moments, self.units)

    def flops(self, c: int) -> float:
        """Multiplications and additions of `products` with c columns a view."""
        return 2.0 * (len(self.Sx) + len(self.Sy)) ** 2 * c


def working_dtype(m: Moments, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The precision of thin products: that of the data, unless squares of the data overflow in it."""
    variances = np.concatenate([view.var for view in m.views])
    spread = variances[variances > 0]
    if dtype == np.float64 or not len(spread) or (spread.max() < 1e30 and spread.min() > 1e-30):
        return dtype
    return np.dtype(np.float64)


def _diagonals(m: Moments, u: Units) -> tuple[Array, Array]:
    (mx, my), (ux, uy) = m.views, u.views
    return mx.var * ux.scale * ux.scale + ux.ridge, my.var * uy.scale * uy.scale + uy.ridge


def _far_from_zero(mean: Array, var: Array, n: int) -> Array:
    """The means of the columns that must be shifted before they are multiplied, zero for the others.

    Centring on the thin side loses a factor (mean / sd)^2 of precision, at most n here. A sparse column
    beyond that has all its entries stored, so shifting keeps it as sparse as it is: with a share d
    stored, (mean / sd)^2 <= d / (1 - d), which is below n unless d = 1.
    """
    return np.where(np.abs(mean) > np.sqrt(n) * np.sqrt(var), mean, 0.0)


def _near_mean(x: Matrix, mean: Array, shift: Array) -> Matrix:
    """x - mean for a dense x; for a sparse one, only what keeps it sparse."""
    return shifted(x, shift) if sp.issparse(x) else x - mean


def _times(x: Matrix, scale: Array) -> Matrix:
    return x.multiply(scale).tocsr() if sp.issparse(x) else x * scale


def _rows(block: Block) -> Array:
    return np.arange(block.offset, block.offset + block.n_rows)


def _groups(blocks: Iterator[Block]) -> Iterator[list[Block]]:
    """Consecutive blocks, as many at a time as the memory budget holds."""
    budget, size, group = get_config()["working_memory"] * 2**20, 0, list[Block]()
    for block in blocks:
        bytes_ = sum(ENTRY_BYTES * z.nnz if sp.issparse(z) else z.nbytes for z in block.views)
        if group and size + bytes_ > budget:
            yield group
            size, group = 0, []
        size += bytes_
        group.append(block)
    yield group
