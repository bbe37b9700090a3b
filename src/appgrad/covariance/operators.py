"""Protocols of the covariances of two views as operators on thin matrices: what algorithms use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..data.views import Views
from ..machine.arrays import Array
from .moments import Moments
from .units import Units

if TYPE_CHECKING:
    from .linalg import Whitening
    from .preconditioners import Preconditioner


class Matrices(NamedTuple):
    """Covariance matrices of two views."""

    Sx: Array
    Sxy: Array
    Sy: Array


class Covariance(Protocol):
    """The covariances of two views, multiplied with thin matrices.

    Sx is the covariance of (X - mean) * scale plus the ridge, Sxy the cross-covariance without it. There are
    three implementations: on rows, on p x p matrices, and on rows of Gram matrices.
    """

    @property
    def n(self) -> int:
        """Number of rows."""

    @property
    def moments(self) -> Moments:
        """Means and variances of the columns."""

    @property
    def units(self) -> Units:
        """The coordinates of the operator, with the diagonal of the ridge."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision in which products are computed."""

    @property
    def precision(self) -> float:
        """The relative error of Gram matrices of scores."""

    @property
    def matrices(self) -> Matrices | None:
        """Sx, Sxy and Sy without the ridge if in memory (a product then needs no pass), else None."""

    @property
    def whitened(self) -> tuple[Whitening, Whitening] | None:
        """Factors of the inverses of Sx and Sy if these are in memory, else None."""

    def at(self, dtype: Any) -> Covariance:
        """The same operator in another precision."""

    def products(self, A: Array, B: Array, ridge: bool = True) -> tuple[Array, Array, Array, Array]:
        """Sx A, Sxy B, Syx A, Sy B for A (p1 x c) and B (p2 x d); Sx and Sy without the ridge if asked."""

    def squares(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Sx A and Sy B."""

    def grams(self, A: Array, B: Array) -> tuple[Array, Array, Array]:
        """A'Sx A, A'Sxy B, B'Sy B."""

    def ridged(self, A: Array, B: Array) -> tuple[Array, Array]:
        """Rx A and Ry B, the ridge alone."""

    def diagonal(self) -> tuple[Array, Array]:
        """The diagonals of Sx and Sy; no pass over the data."""

    def flops(self, c: int) -> float:
        """Multiplications and additions of `products` with c columns a view."""

    def error_bounds(self, rho: Array, rx: Array, ry: Array, sizes: Array) -> Array:
        """Upper bounds on the distance of each rho from a canonical correlation, NaN where unknown.

        rx and ry are residuals of the canonical equations, `sizes` the squared terms of scores of variance
        one.
        """

    def dimensions(self) -> tuple[int, int]:
        """At most this many dimensions of each view are left by the ridge; 0 if unknown."""

    def rounding(self, views: Views | None = None) -> Rounding | None:
        """What rounding adds to error bounds, None if they include it; `views` are the rows if at hand."""

    def preconditioner(self, kind: str | None, rng: np.random.Generator) -> Preconditioner:
        """The preconditioner of this kind: None, "jacobi", "lowrank", or "exact" where there are matrices."""


class ColumnCovariance(Covariance, Protocol):
    """Covariances with access to single columns, which sparse CCA needs."""

    def restricted(self, x: Array, y: Array) -> Matrices:
        """The matrices of these columns of X and Y, without the ridge."""

    def cross(self, dx: Array, dy: Array) -> Iterator[Cross]:
        """diag(dx) Sxy diag(dy) in blocks of columns, as many as memory allows."""

    @property
    def cross_passes(self) -> int:
        """Passes over the rows that `cross` takes."""


class Cross(NamedTuple):
    """Some columns of a cross-covariance: dense or, with `means`, sparse entries of columns that co-occur.

    Columns i and j that never occur in the same row have the entry -means[0][i] * means[1][j].
    """

    columns: slice
    C: Any
    means: tuple[Array, Array] | None = None


# The largest relative error of the variance of a direction that counts as known.
KNOWN = 0.5


class Rounding(NamedTuple):
    """What rounding does to correlations: `eps` of the entries, `condition` of the matrices factored.

    `squared` is True for covariances, whose condition is the square of that of the data. Entries are sums of
    `terms` products, as many as a score has columns if not given. `neglected` is the squared correlation that
    directions left out may have.
    """

    eps: float
    condition: float
    squared: bool = True
    terms: int = 0
    neglected: float = 0.0

    def bounds(self, rho: Array, sizes: Array, p: int) -> Array:
        """Bounds on the errors of correlations, infinite if nothing is known.

        `sizes` are the squared terms of scores of variance one, of at most p columns. An entry of S is known
        to eps times the standard deviations of its columns: phi'S phi to eps p sum_i S_ii phi_i^2. The
        covariances of a direction of low variance v are known to eps / sqrt(v), if v itself is known; they
        change rho by their square. The factor is larger than any seen (tests/fuzz.py).
        """
        each = 16 * self.eps * max(p, self.terms)
        first = each * (sizes if self.squared else np.sqrt(sizes))
        if self.squared and not 16 * self.eps * self.condition < KNOWN:
            return np.full(len(rho), np.inf)
        most = each * (np.sqrt(self.condition) if self.squared else self.condition)
        most += np.sqrt(self.neglected)
        return np.asarray(first + np.minimum(most, most * (most / np.maximum(rho, 1e-300))))


def diagonals(m: Moments, u: Units) -> tuple[Array, Array]:
    """The diagonals of Sx and Sy, ridge included."""
    (mx, my), (ux, uy) = m.views, u.views
    return mx.var * ux.scale * ux.scale + ux.ridge, my.var * uy.scale * uy.scale + uy.ridge


def dimensions(m: Moments, u: Units) -> tuple[int, int]:
    """At most this many dimensions of each view are left by the ridge: the trace of S (S + R)^-1.

    For eigenvalues of a given sum, the trace is largest if they are all equal.
    """
    found = []
    for (_, var), view in zip(m.views, u.views, strict=True):
        varies = (view.scale > 0) & (var > 0)
        most = min(int(np.count_nonzero(varies)), max(int(m.n) - 1, 1))
        if not most:
            return 0, 0
        size = float(np.sum((var * view.scale**2)[varies])) / most
        ridge = float(np.mean(view.ridge[varies]))
        found.append(max(1, int(most * size / (size + ridge) + 1e-6)))
    return found[0], found[1]


def bounded(squares: Array, rho: Array, as_wide: bool, most: float = np.inf) -> Array:
    """Bounds on the distance of each rho to a canonical correlation, NaN if there is none below `most`.

    `squares` are squared norms of the residuals under S^-1. The norm bounds the distance to an eigenvalue of
    the symmetric pencil (Parlett 1998, theorem 15.9.1). Its eigenvalues are the correlations, their negatives
    and, unless both views are equally wide (`as_wide`), zero: a bound below rho is one to a correlation.
    """
    bounds = np.sqrt(squares / 2)
    return np.where((bounds < most) & ((bounds < rho) | as_wide), bounds, np.nan)
