"""Covariances of centred Gram matrices, whose ridge is r K: kernel CCA."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.arrays import gathered
from ..data.views import Views
from ..machine.arrays import Array
from ..machine.memory import budget
from .moments import Moments
from .preconditioners import DIRECTIONS, WARM_UP_ROWS, Preconditioner, diagonal, low_rank
from .products import RowProducts
from .rows import RowCovariance
from .units import Units

# Of K^2, directions count whose values are the squares of those that count of K.
WEAKEST = 1e-10


class GramCovariance(RowProducts):
    """The operator on rows of centred Gram matrices K with the ridge r K: Sx = K^2 / n + r K.

    What the ridge multiplies are the scores K A, so that it costs no product of its own. `r` is that of each
    view.
    """

    def __init__(self, views: Views, m: Moments, u: Units, r: tuple[float, float], dtype: Any = None) -> None:
        super().__init__(views, m, u, dtype)
        self.r = r

    @property
    def precision(self) -> float:
        """The relative error of Gram matrices of scores.

        Any other ridge is above it; r K adds nothing where scores vanish, so the error of sums of n is seen.
        """
        return float(np.finfo(self.dtype).eps) * self.n

    def at(self, dtype: Any) -> GramCovariance:
        """The same operator in another precision."""
        return GramCovariance(self.views, self.moments, self.units, self.r, dtype)

    def ridged(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Rx A and Ry B: a pass over the rows."""
        *_, scores = self._sum(A, B, lambda sums, x, y, rows, UV: None)
        (rx, ry), (KA, KB) = self._ridge, self._ridge_operands(A, B, scores)
        return rx[:, None] * KA, ry[:, None] * KB

    def error_bounds(self, rho: Array, rx: Array, ry: Array) -> Array:
        """No bound is known: Gram matrices are singular, and so is r K."""
        return np.full(rx.shape[1], np.nan)

    def preconditioner(self, kind: str | None, rng: np.random.Generator) -> Preconditioner:
        """The preconditioner of this kind, whose columns are all in one unit."""
        if kind is None:
            return Preconditioner()
        flat = self._level()
        if kind == "jacobi":
            return flat
        # A row of both Gram matrices, in a quarter of the budget with what is made of it.
        rows = min(WARM_UP_ROWS, max(2 * DIRECTIONS, budget() // (4 * 16 * self.n)))
        return self._kernelised(low_rank(self._sample(rows, rng), flat, rng, least=WEAKEST))

    @property
    def _ridge(self) -> tuple[Array, Array]:
        ux, uy = self.units.views
        return self.r[0] * ux.scale, self.r[1] * uy.scale

    def _room_for_scores(self, columns: int) -> Array:
        return np.empty((self.n, columns), self.dtype)

    def _ridge_operands(self, A: Array, B: Array, scores: Array | None) -> tuple[Array, Array]:
        """The scores K A and K B."""
        assert scores is not None
        return scores[:, : A.shape[1]], scores[:, A.shape[1] :]

    def _level(self) -> Preconditioner:
        """All columns of a view in one unit: what is in the range of a Gram matrix stays there."""
        x, y = (
            np.where(d > 0, np.mean(d, where=d > 0), 0.0) if np.any(d > 0) else d for d in self.diagonal()
        )
        return Preconditioner(diagonal(x), diagonal(y))

    def _sample(self, size: int, rng: np.random.Generator) -> RowCovariance:
        """The covariance K^2 / n of so many random rows, in memory: r K is not known from some rows of K."""
        rows = np.sort(rng.permutation(self.n)[:size])
        bare = Units(tuple(view._replace(ridge=np.zeros_like(view.ridge)) for view in self.units.views))
        return RowCovariance(gathered(self.views.take(rows)), self.moments, bare, self.dtype)

    def _kernelised(self, M: Preconditioner) -> Preconditioner:
        """Leading directions of K^2 / n, level otherwise, as those of K^2 / n + r K.

        What K has of a direction is the root of n times its value. Where the rest of K is nothing but
        rounding, it counts as the weakest direction there is, for dividing by less would make something of
        it.
        """
        parts = []
        for part, r in zip(M, self.r, strict=True):
            if part is not None and part.V.shape[1]:
                factor = r * float(part.d.max()) * np.sqrt(self.moments.n)
                rest = part.tail if part.tail > 2 * WEAKEST * part.values.max() else part.values.min()
                values, tail = (value + factor * np.sqrt(value) for value in (part.values, rest))
                part = part._replace(values=values, tail=float(tail))
            parts.append(part)
        return Preconditioner(*parts)
