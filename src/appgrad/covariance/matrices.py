"""Covariance operator on p x p matrices, for data where these fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ..data.views import Views
from ..machine.arrays import EPS, Array
from ..machine.threads import limit_for
from .linalg import Whitening, whitening
from .moments import Moments, SecondMoments, ViewMoments
from .operators import Cross, Matrices, Rounding, bounded, diagonals
from .preconditioners import Preconditioner, exact, jacobi, low_rank
from .products import RowProducts
from .units import Units, ViewUnits


class MatrixCovariance:
    """The operator on p x p matrices: it keeps no rows, and a product needs no pass."""

    def __init__(self, matrices: Matrices, m: Moments, u: Units, entries: float = EPS) -> None:
        """`matrices` are in the units u; `entries` is their relative error, which decides about ranks."""
        self.n, self.moments, self.units, self.matrices = m.n, m, u, matrices
        self.dtype, self.precision = matrices.Sx.dtype, EPS
        self._entries = entries
        # Sums over n rows are added up in blocks and batches: rounding grows like the root of their number.
        self._terms = sum(u.widths) + int(np.sqrt(m.n))

    @classmethod
    def of_moments(cls, second: SecondMoments, u: Units, entries: float = EPS) -> MatrixCovariance:
        """The operator on second moments of all columns."""
        p, _ = u.widths
        s = np.concatenate([view.scale for view in u.views])
        S = second.scatter / second.n
        if np.any(s != 1):
            S *= s[:, None]
            S *= s
        return cls(Matrices(S[:p, :p], S[:p, p:], S[p:, p:]), second.moments(u.widths), u, entries)

    @classmethod
    def of_covariances(cls, matrices: Matrices) -> MatrixCovariance:
        """The operator on covariances in units of their own, any ridge included."""
        variances = np.diag(matrices.Sx).copy(), np.diag(matrices.Sy).copy()
        zeros, ones = ([f(len(var)) for var in variances] for f in (np.zeros, np.ones))
        m = Moments(1, tuple(map(ViewMoments, zeros, variances)))
        return cls(matrices, m, Units(tuple(map(ViewUnits, zeros, ones, zeros))))

    @cached_property
    def whitened(self) -> tuple[Whitening, Whitening]:
        """Factors of the inverses of Sx and Sy."""
        (Sx, Sxy, Sy), (x, y) = self.matrices, self.units.views
        wx, wy = whitening(Sx, x.ridge, self._entries), whitening(Sy, y.ridge, self._entries)
        return self._related(wx, Sx, Sxy, Sy), self._related(wy, Sy, Sxy.T, Sx)

    def _related(self, w: Whitening, S: Array, cross: Array, other: Array) -> Whitening:
        """The factor without weak directions that only rounding relates to the other view."""
        if not np.any(w.weak):
            return w
        N, sd = w.W[:, w.weak], np.sqrt(np.maximum(np.diag(other), 0.0))
        size = np.abs(N).T @ np.sqrt(np.maximum(np.diag(S), 0.0))
        noise = np.all(np.abs(N.T @ cross) <= 16 * EPS * self._terms * np.outer(size, sd), axis=1)
        keep = np.ones(w.W.shape[1], bool)
        keep[np.flatnonzero(w.weak)[noise]] = False
        return w._replace(W=w.W[:, keep], weak=w.weak[keep])

    @property
    def left(self) -> tuple[float, float]:
        """What the ridge leaves of the dimensions of each view: the trace of S (S + R)^-1."""
        x, y = (
            float(w.W.shape[1] - np.sum(u.ridge @ w.W**2))
            for w, u in zip(self.whitened, self.units.views, strict=True)
        )
        return x, y

    def dimensions(self) -> tuple[int, int]:
        """The same as whole numbers, at least 1."""
        x, y = (max(1, int(left + 1e-6)) for left in self.left)
        return x, y

    def rounding(self, views: Views | None = None) -> Rounding:
        """What rounding does to correlations; `views` are the rows, None if they are gone.

        Covariances cannot tell exactly dependent columns from nearly dependent ones. Rows can: one pass. If
        directions with a little variance were left out, the condition is infinite.
        """
        wx, wy = self.whitened
        condition = max(wx.condition, wy.condition)
        if wx.null.shape[1] or wy.null.shape[1]:
            empty = views is not None and RowProducts(views, self.moments, self.units, self.dtype).vanish(
                wx.null, wy.null
            )
            condition = condition if empty else np.inf
        # Far from zero, squares cancel.
        sds = [np.where((m.var > 0) & (m.mean != 0), np.sqrt(m.var), np.inf) for m in self.moments.views]
        far = max(float(np.max(np.abs(m.mean) / sd)) for m, sd in zip(self.moments.views, sds, strict=True))
        lost = max(wx.neglected, wy.neglected)
        return Rounding(EPS * (1 + far), condition, terms=self._terms, neglected=lost)

    def at(self, dtype: Any) -> MatrixCovariance:
        """This operator itself: matrices stay in the precision they have."""
        return self

    def products(self, A: Array, B: Array, ridge: bool = True) -> tuple[Array, Array, Array, Array]:
        """Sx A, Sxy B, Syx A, Sy B; Sx and Sy without the ridge if asked."""
        Sx, Sxy, Sy = self.matrices
        with limit_for(self.flops(A.shape[1]) / 2):
            xx, yy = self.squares(A, B) if ridge else (Sx @ A, Sy @ B)
            return xx, Sxy @ B, Sxy.T @ A, yy

    def squares(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Sx A and Sy B."""
        Sx, _, Sy = self.matrices
        ridge_x, ridge_y = self.ridged(A, B)
        with limit_for(self.flops(A.shape[1]) / 2):
            return Sx @ A + ridge_x, Sy @ B + ridge_y

    def ridged(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Rx A and Ry B."""
        x, y = self.units.views
        return x.ridge[:, None].astype(A.dtype) * A, y.ridge[:, None].astype(B.dtype) * B

    def grams(self, A: Array, B: Array) -> tuple[Array, Array, Array]:
        """A'Sx A, A'Sxy B, B'Sy B."""
        xx, yy = self.squares(A, B)
        return A.T @ xx, A.T @ self.matrices.Sxy @ B, B.T @ yy

    def diagonal(self) -> tuple[Array, Array]:
        """The diagonals of Sx and Sy."""
        return diagonals(self.moments, self.units)

    def flops(self, c: int) -> float:
        """Multiplications and additions of `products` with c columns a view."""
        return 2.0 * sum(self.units.widths) ** 2 * c

    def error_bounds(self, rho: Array, rx: Array, ry: Array, sizes: Array) -> Array:
        """Upper bounds on the distance of each rho from a canonical correlation, by the inverse of S."""
        squares = np.zeros(rx.shape[1])
        for w, r in zip(self.whitened, (rx, ry), strict=True):
            squares += np.sum((w.W.T @ r) ** 2, axis=0)
        return bounded(squares, rho, len(rx) == len(ry))

    def preconditioner(self, kind: str | None, rng: np.random.Generator) -> Preconditioner:
        """The preconditioner of this kind; "exact" is the inverse of S."""
        if kind is None:
            return Preconditioner()
        if kind == "exact":
            return exact(self)
        if kind not in ("jacobi", "lowrank"):
            raise ValueError(f"matrices have no preconditioner {kind!r}")
        return jacobi(self) if kind == "jacobi" else low_rank(self, jacobi(self), rng)

    def on_matrices(self) -> MatrixCovariance:
        """This operator itself."""
        return self

    def restricted(self, x: Array, y: Array) -> Matrices:
        """The matrices of these columns, without the ridge."""
        Sx, Sxy, Sy = self.matrices
        return Matrices(Sx[np.ix_(x, x)], Sxy[np.ix_(x, y)], Sy[np.ix_(y, y)])

    def cross(self, dx: Array, dy: Array) -> Iterator[Cross]:
        """diag(dx) Sxy diag(dy) in one block."""
        yield Cross(slice(0, len(dy)), dx[:, None] * self.matrices.Sxy * dy)

    @property
    def cross_passes(self) -> int:
        """Zero: `cross` reads no rows."""
        return 0
