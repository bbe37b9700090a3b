"""Covariance operator of kernel CCA: centred Gram matrices K with the ridge r K."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.arrays import gathered
from ..data.views import Views
from ..machine.arrays import EPS, Array
from ..machine.memory import budget
from .moments import Moments
from .operators import Rounding
from .preconditioners import DIRECTIONS, WARM_UP_ROWS, Preconditioner, diagonal, low_rank
from .products import RowProducts
from .rows import RowCovariance
from .units import Units

# Least share of the largest eigenvalue of K^2 that counts: eigenvalues of K^2 are squares of those of K.
WEAKEST = 1e-10


class GramCovariance(RowProducts):
    """The operator on rows of centred Gram matrices K with the ridge r K: Sx = K^2 / n + r K.

    The ridge multiplies the scores K A, so it costs no product of its own. `r` has one number per view.
    """

    def __init__(self, views: Views, m: Moments, u: Units, r: tuple[float, float], dtype: Any = None) -> None:
        super().__init__(views, m, u, dtype)
        self.r = r

    @property
    def precision(self) -> float:
        """The relative error of Gram matrices of scores.

        It is that of sums of n terms. Other ridges exceed it, but r K adds nothing where scores vanish.
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

    def error_bounds(self, rho: Array, rx: Array, ry: Array, sizes: Array) -> Array:
        """NaN: no bound is known, since Gram matrices are singular, and so is r K."""
        return np.full(rx.shape[1], np.nan)

    def rounding(self, views: Views | None = None) -> Rounding:
        """What rounding does: that of K^2, beside functions whose ridge is as large as their variance."""
        sizes = [
            float(np.sum(u.ridge)) / (self.n * r * r) if r > 0 else np.inf
            for u, r in zip(self.units.views, self.r, strict=True)
        ]
        return Rounding(EPS, max(sizes) ** 2)

    def dimensions(self) -> tuple[int, int]:
        """Zero: the dimensions of functions are not known without eigenvalues of K."""
        return 0, 0

    def preconditioner(self, kind: str | None, rng: np.random.Generator) -> Preconditioner:
        """The preconditioner of this kind; all columns of a view have the same unit."""
        if kind is None:
            return Preconditioner()
        flat = self._level()
        if kind == "jacobi":
            return flat
        # A row of both Gram matrices takes 16 n bytes: the rows use a quarter of the budget.
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
        """Jacobi with one unit per view: vectors in the range of a Gram matrix stay in it."""
        x, y = (
            np.where(d > 0, np.mean(d, where=d > 0), 0.0) if np.any(d > 0) else d for d in self.diagonal()
        )
        return Preconditioner(diagonal(x), diagonal(y))

    def _sample(self, size: int, rng: np.random.Generator) -> RowCovariance:
        """The covariance K^2 / n of `size` random rows, in memory; r K is not known from some rows of K."""
        rows = np.sort(rng.permutation(self.n)[:size])
        bare = Units(tuple(view._replace(ridge=np.zeros_like(view.ridge)) for view in self.units.views))
        return RowCovariance(gathered(self.views.take(rows)), self.moments, bare, self.dtype)

    def _kernelised(self, M: Preconditioner) -> Preconditioner:
        """Turn a preconditioner of K^2 / n into one of K^2 / n + r K.

        A direction with the value v in K^2 / n has the eigenvalue sqrt(n v) in K. A tail that is only
        rounding counts as the weakest direction: dividing by less would amplify rounding.
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
