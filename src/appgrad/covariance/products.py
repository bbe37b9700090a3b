"""Products of rows with thin matrices, one pass each: the base of operators on rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..data.views import Block, Views
from ..machine.arrays import EPS, Array, Matrix
from ..machine.threads import limit_for, over_rows
from .moments import Moments, shifted
from .operators import Rounding, diagonals
from .thin import add_gathered, add_scores, tile_rows, tiles
from .units import Units

Add = Callable[[list[Array], Matrix, Matrix, slice, Array], None]


class RowProducts:
    """Products of the covariances of two views with thin matrices: one pass over the rows each.

    The moments may come from more rows than the views hold: a minibatch uses those of all data. The ridge is
    a diagonal here; subclasses may define another one, and what it multiplies.
    """

    # The operator keeps rows, not matrices.
    matrices = None
    whitened = None

    def __init__(self, views: Views, m: Moments, u: Units, dtype: Any = None) -> None:
        self.views, self.moments, self.units, self.n = views, m, u, views.n_samples
        self.dtype = views.dtype if dtype is None else np.dtype(dtype)
        # Columns far from zero are shifted entry by entry; the others are centred on the thin side.
        self.shifts = tuple(
            _far_from_zero(unit.mean, view.var, m.n) for unit, view in zip(u.views, m.views, strict=True)
        )

    def products(self, A: Array, B: Array, ridge: bool = True) -> tuple[Array, Array, Array, Array]:
        """Sx A, Sxy B, Syx A, Sy B for A (p1 x c) and B (p2 x d); Sx and Sy without the ridge if asked.

        Results have the precision of A and B, whatever the precision in which rows are multiplied.
        """
        c, both = A.shape[1], A.shape[1] + B.shape[1]

        def add(sums: list[Array], x: Matrix, y: Matrix, rows: slice, UV: Array) -> None:
            add_gathered(x, rows, UV, sums[0])
            add_gathered(y, rows, UV, sums[1])

        XT, YT, total, scores = self._sum(A, B, add, (len(A), both), (len(B), both))
        ridged = self._ridge_operands(A, B, scores) if ridge else (None, None)
        XT = self._finish(XT, total, 0, A.dtype, ridged[0], slice(0, c))
        YT = self._finish(YT, total, 1, B.dtype, ridged[1], slice(c, None))
        return XT[:, :c], XT[:, c:], YT[:, :c], YT[:, c:]

    def squares(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Sx A and Sy B."""
        c, every = A.shape[1], slice(None)

        def add(sums: list[Array], x: Matrix, y: Matrix, rows: slice, UV: Array) -> None:
            add_gathered(x, rows, np.ascontiguousarray(UV[:, :c]), sums[0])
            add_gathered(y, rows, np.ascontiguousarray(UV[:, c:]), sums[1])

        xx, yy, total, scores = self._sum(A, B, add, A.shape, B.shape)
        ridged = self._ridge_operands(A, B, scores)
        xx = self._finish(xx, total[:c], 0, A.dtype, ridged[0], every)
        return xx, self._finish(yy, total[c:], 1, B.dtype, ridged[1], every)

    def rounding(self, views: Views | None = None) -> Rounding | None:
        """None: error bounds include rounding."""
        return None

    def vanish(self, A: Array, B: Array) -> bool:
        """True if the scores of A and B vary no more than rounding of the values: one pass over the rows."""
        eps = float(np.finfo(self.views.dtype).eps)
        Gx, _, Gy = self.grams(A, B)
        for G, C, m, u in zip((Gx, Gy), (A, B), self.moments.views, self.units.views, strict=True):
            if C.shape[1]:
                terms = np.max((m.var + m.mean**2) * u.scale**2 @ (C * C))
                # Values are rounded once, sums of them in double precision.
                if np.linalg.eigvalsh(G)[-1] > max(2 * eps, 16 * len(C) * EPS) ** 2 * terms:
                    return False
        return True

    def grams(self, A: Array, B: Array) -> tuple[Array, Array, Array]:
        """A'Sx A, A'Sxy B, B'Sy B: from the scores alone, without a transposed product."""
        c, both = A.shape[1], A.shape[1] + B.shape[1]

        def add(sums: list[Array], x: Matrix, y: Matrix, rows: slice, UV: Array) -> None:
            sums[0] += UV.T @ UV

        G, _, scores = self._sum(A, B, add, (both, both))
        G = G / self.n
        ridge_x, ridge_y = (
            ridge[:, None] * operand
            for ridge, operand in zip(self._ridge, self._ridge_operands(A, B, scores), strict=True)
        )
        return G[:c, :c] + A.T @ ridge_x, G[:c, c:], G[c:, c:] + B.T @ ridge_y

    def diagonal(self) -> tuple[Array, Array]:
        """The diagonals of Sx and Sy; no pass over the data."""
        return diagonals(self.moments, self.units)

    def flops(self, c: int) -> float:
        """Multiplications and additions of `products` with c columns a view.

        2 for each entry and column of X A and Y B, 4 of X'[U V] and Y'[U V].
        """
        return 6.0 * self.n * self.views.entries * c

    @property
    def _ridge(self) -> tuple[Array, Array]:
        """Factors that multiply the rows of the ridge operands."""
        ux, uy = self.units.views
        return ux.ridge, uy.ridge

    def _ridge_operands(self, A: Array, B: Array, scores: Array | None) -> tuple[Array, Array]:
        """The matrices that the ridge multiplies; `scores` are those of A and B if they are kept."""
        return A, B

    def _room_for_scores(self, columns: int) -> Array | None:
        """An array for the scores of all rows if the ridge needs them, else None."""
        return None

    def _sum(self, A: Array, B: Array, add: Add, *shapes: tuple[int, ...]) -> tuple[Any, ...]:
        """Arrays of these shapes, to which `add` has added every tile of rows with its scores [U V].

        Then the sum of the scores, which is zero if the means are those of these rows, and all scores if they
        are kept, otherwise None.
        """
        (ux, uy), (shift_x, shift_y) = self.units.views, self.shifts
        dtype, c = self.dtype, A.shape[1]
        offsets = (ux.mean - shift_x) * ux.scale, (uy.mean - shift_y) * uy.scale
        # Not by BLAS: its threads would still be spinning when those of the pass need the cores.
        rest = np.concatenate(
            [np.einsum("i,ij->j", offset, C) for offset, C in zip(offsets, (A, B), strict=True)]
        )
        rest = rest.astype(dtype)
        A, B = (
            np.ascontiguousarray(C if np.all(scale == 1) else C * scale[:, None], dtype=dtype)
            for C, scale in ((A, ux.scale), (B, uy.scale))
        )
        scores = self._room_for_scores(len(rest))

        # No reference to self: on a cluster, the function is sent with all it refers to.
        def of_block(block: Block) -> tuple[Array, ...]:
            x, y = block.views
            x, y = shifted(x, shift_x), shifted(y, shift_y)
            sums = [np.zeros(shape, dtype) for shape in (*shapes, rest.shape)]
            ranges = tiles(x.shape[0], tile_rows(x, y, len(rest) * rest.itemsize))
            # Allocate the scores of a tile once: where free memory is handed back at once, as on workers of
            # Dask, allocating them for every tile would take as long as the products.
            room = [np.empty((ranges[0].stop, width), dtype) for width in (c, len(rest) - c, len(rest))]
            ones = np.ones(ranges[0].stop, dtype)
            for rows in ranges:
                U, V, UV = (part[: rows.stop - rows.start] for part in room)
                # Scores start at minus those of the means, which centres them.
                U[:], V[:] = -rest[:c], -rest[c:]
                add_scores(x, rows, A, U)
                add_scores(y, rows, B, V)
                UV[:, :c], UV[:, c:] = U, V
                add(sums, x, y, rows, UV)
                sums[-1] += ones[: len(UV)] @ UV
                if scores is not None:
                    scores[block.offset + rows.start : block.offset + rows.stop] = UV
            return tuple(sums)

        with limit_for(self.flops(c) / 2):
            return *self.views.sum(of_block, dtype), scores

    def _finish(
        self, product: Array, total: Array, view: int, dtype: Any, ridged: Array | None, own: slice
    ) -> Array:
        """Centre and scale the rows of X'[U V] / n; add the ridge times `ridged` to the `own` columns."""
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


def _far_from_zero(mean: Array, var: Array, n: int) -> Array:
    """The means of the columns that must be shifted before they are multiplied, zero for the others.

    Centring on the thin side loses a factor (mean / sd)^2 of precision, at most n here. A sparse column
    beyond that has all its entries stored, so shifting keeps it as sparse as it is: with a share d
    stored, (mean / sd)^2 <= d / (1 - d), which is below n unless d = 1.
    """
    return np.where(np.abs(mean) > np.sqrt(n) * np.sqrt(var), mean, 0.0)
