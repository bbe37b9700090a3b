"""Preconditioners of gradient steps: the diagonal, and a few leading directions, damped."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..data.blocks import BLOCK_BYTES, ENTRY_BYTES
from ..data.views import Views
from ..machine.arrays import EPS, Array
from ..machine.threads import over_rows
from .linalg import whitening
from .operators import Covariance

# Leading directions of each view, and rows to find them in. From 50 to 100 directions, what batch captures
# after 50 iterations changes by less than 0.001; one stochastic pass gains 0.002 up to 80 (MNIST).
DIRECTIONS, WARM_UP_ROWS = 80, 2000
# Factor of Ritz values: a Krylov space gives a little less than the largest eigenvalue.
MARGIN = 1.05
# Views of at most this many columns are preconditioned by the covariance of a sample of this many rows for
# each column: its eigenvectors take less than a second.
NARROW, SAMPLE_ROWS = 1000, 4
# Columns of a sample must rest on this many rows, (sum z^2)^2 / sum z^4, to be told apart from others.
# Directions that fewer rows show are measured on all rows, if there are at most MOST_MEASURED of them.
SHOWN_ROWS, MOST_MEASURED = 30, 100


def warm_up_rows(views: Views, endless: bool = False) -> int:
    """Number of rows to look at before the first step: about one block of memory if rows are long.

    No more than the views have, unless these are the first rows of an `endless` stream.
    """
    in_a_block = int(BLOCK_BYTES / (ENTRY_BYTES * max(views.entries, 1.0)))
    rows = min(WARM_UP_ROWS, max(2 * DIRECTIONS, in_a_block))
    return rows if endless else min(rows, views.n_samples)


def sample_rows(views: Views) -> int:
    """Number of rows to sample for the covariances of narrow views: four for each column, at least 2000."""
    narrow = max((p for p in views.widths if p <= NARROW), default=0)
    return min(views.n_samples, max(WARM_UP_ROWS, SAMPLE_ROWS * narrow))


class ViewPreconditioner(NamedTuple):
    """The inverse of M = D^-1 (V diag(values) V' + tail (I - V V')) D^-1 for one view.

    `d` holds inverse standard deviations. Without directions (V has no columns), M is the diagonal. `tail`
    damps: a direction not seen in the warm-up rows counts as one of the weakest seen. `shield` is a factor
    of d, kept so that the rest of d can be renewed. It is `blind` if directions vary less than covariances
    can tell, but more than rounding.
    """

    d: Array
    V: Array
    values: Array
    tail: float
    shield: Array | float = 1.0
    blind: bool = False

    def at(self, dtype: Any) -> ViewPreconditioner:
        """The same in another precision."""
        d, V, values = (part.astype(dtype, copy=False) for part in (self.d, self.V, self.values))
        return self._replace(d=d, V=V, values=values)

    def root(self, A: Array) -> Array:
        """K A, K = V diag(values)^-1/2 V' + tail^-1/2 (I - V V'), so that M^-1 = D K K D."""
        at_tail = 1 / np.sqrt(self.tail)
        return np.asarray(
            at_tail * A + self.V @ ((1 / np.sqrt(self.values) - at_tail)[:, None] * (self.V.T @ A))
        )

    def solve(self, G: Array) -> Array:
        """M^-1 G."""
        if not self.V.shape[1]:
            return np.asarray((self.d * self.d)[:, None] * G)
        d, V = self.d[:, None], self.V
        # By ranges of rows: BLAS threads would keep spinning into the next pass, and slow it by a third.
        parts = np.array(over_rows(lambda rows: V[rows].T @ (d[rows] * G[rows]), len(G)))
        C = (1 / self.values - 1 / self.tail)[:, None] * parts.sum(axis=0)
        H = np.empty_like(G)

        def solved(rows: slice) -> None:
            H[rows] = d[rows] * (d[rows] * G[rows] / self.tail + V[rows] @ C)

        over_rows(solved, len(G))
        return H


class Preconditioner(NamedTuple):
    """One preconditioner per view; None is the identity."""

    x: ViewPreconditioner | None = None
    y: ViewPreconditioner | None = None

    def gaussian(self, p1: int, p2: int, k: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Random bases of k columns, one draw for each view, in units in which columns are comparable."""
        A, B = rng.standard_normal((p1, k)), rng.standard_normal((p2, k))
        return A if self.x is None else self.x.d[:, None] * A, B if self.y is None else self.y.d[:, None] * B

    def at(self, dtype: Any) -> Preconditioner:
        """The same in another precision."""
        return Preconditioner(*(None if side is None else side.at(dtype) for side in self))

    def diagonals(self) -> tuple[Array, Array] | tuple[None, None]:
        """The diagonals of M^-1 if it is diagonal in both views, else None for both."""
        if self.x is None or self.y is None or self.x.V.shape[1] or self.y.V.shape[1]:
            return None, None
        return self.x.d * self.x.d, self.y.d * self.y.d

    @property
    def is_blind(self) -> bool:
        """True if directions of a view vary less than covariances can tell, but more than rounding."""
        return any(side is not None and side.blind for side in self)

    @property
    def is_complete(self) -> bool:
        """True if it knows all directions of both views, also those of low variance."""
        return all(side is not None and side.V.shape[1] >= np.count_nonzero(side.d) for side in self)

    def flops(self, c: int) -> float:
        """Multiplications and additions for c columns."""
        return float(sum(4 * side.V.size * c for side in self if side is not None))

    def __call__(self, Gx: Array, Gy: Array) -> tuple[Array, Array]:
        """M^-1 G for the gradients of both views."""
        return Gx if self.x is None else self.x.solve(Gx), Gy if self.y is None else self.y.solve(Gy)


def require_comparable(Gx: Array, Gy: Array) -> None:
    """Raise an error if the Gram matrices of a random start overflow."""
    if not (np.all(np.isfinite(Gx)) and np.all(np.isfinite(Gy))):
        raise ValueError(
            "the columns are too large or too different to be added up: rescale them, use scale=True, "
            "or preconditioner='jacobi'"
        )


def diagonal(variances: Array) -> ViewPreconditioner:
    """Jacobi: every column in units of its own standard deviation; constant columns are left out."""
    d = np.where(variances > 0, 1 / np.sqrt(np.where(variances > 0, variances, 1.0)), 0.0)
    return ViewPreconditioner(d, np.zeros((len(d), 0)), np.zeros(0), 1.0)


def damped(variances: Array, peaks: Array, ridge: Array | float = 0.0) -> ViewPreconditioner:
    """Jacobi from statistics of some rows: columns in units of peak / sd.

    `peaks` are the largest mean squares. The ridge, which is part of S, is added to peaks and variances.

    A feature present in few rows has minibatches in which its mean square is far above its variance.
    Dividing by peak^2 / variance makes its longest step shorter than a common feature's, not longer; units
    cancel; a feature not seen yet does not move.
    """
    d = np.where(variances > 0, np.sqrt(variances + ridge) / np.where(peaks > 0, peaks + ridge, np.inf), 0.0)
    return ViewPreconditioner(d, np.zeros((len(d), 0)), np.zeros(0), 1.0)


def shielded(side: ViewPreconditioner) -> ViewPreconditioner:
    """The preconditioner without the effect of a low tail on columns that have no part in V.

    The tail is the level of combinations of columns. A rare column outside V is no combination: a low tail
    would undo its damping.
    """
    part = np.einsum("ij,ij->i", side.V, side.V)
    shield = np.where(part < 0.01, min(1.0, np.sqrt(side.tail)), 1.0)
    return side._replace(d=side.d * shield, shield=shield) if side.V.shape[1] else side


def trace(side: ViewPreconditioner, variances: Array) -> float:
    """The trace of M^-1 S, from the diagonal of S."""
    total = float(np.sum(variances * side.d * side.d))
    return float(side.V.shape[1] + max(0.0, total - float(np.sum(side.values))) / side.tail)


def jacobi(cov: Covariance) -> Preconditioner:
    """The preconditioner of the diagonals of Sx and Sy; no pass over the data."""
    x, y = cov.diagonal()
    return Preconditioner(diagonal(x), diagonal(y))


def exact(cov: Covariance) -> Preconditioner:
    """The preconditioner of the covariance matrices; directions without variance are left out."""
    assert cov.matrices is not None
    sides, (Sx, _, Sy) = [], cov.matrices
    for S, (_, _, ridge) in zip((Sx, Sy), cov.units.views, strict=True):
        d = diagonal(np.diag(S) + ridge).d
        values, V = np.linalg.eigh(S * d[:, None] * d + np.diag(ridge * d * d))
        keep = values > len(values) * EPS * max(values[-1], 0.0)
        sides.append(ViewPreconditioner(d, V[:, keep], values[keep], np.inf))
    return Preconditioner(*sides)


class Sampled(NamedTuple):
    """The preconditioner of a sample, and which of its directions are `doubtful`: few rows show them.

    Directions of less variance than `rounding` are empty, and those of less than `least` are hidden from
    covariances.
    """

    side: ViewPreconditioner
    doubtful: Array
    rounding: float = 0.0
    least: float = 0.0

    def looked_at(self, G: Array, ridge: Array) -> ViewPreconditioner:
        """The preconditioner with doubtful directions that all rows were asked about.

        G are the covariances of their scores, ridge included; `ridge` is that of the columns in units of d.
        """
        side, values = self.side, self.side.values.copy()
        E, Q = np.linalg.eigh(G)
        V = side.V.copy()
        V[:, self.doubtful] = side.V[:, self.doubtful] @ Q
        own = E - ridge @ V[:, self.doubtful] ** 2
        varies = own > self.rounding
        values[self.doubtful] = np.where(varies, E, values[self.doubtful].max(initial=0.0))
        return side._replace(V=V, values=values, blind=side.blind or bool(np.any(varies & (self.least >= E))))

    def left_out(self) -> ViewPreconditioner:
        """The preconditioner without the doubtful directions, which then does not know all."""
        keep = ~self.doubtful
        return self.side._replace(V=self.side.V[:, keep], values=self.side.values[keep])


def sampled(Z: Array, ridge: Array, side: ViewPreconditioner, whole: bool, eps: float = EPS) -> Sampled:
    """The inverse of the covariance of a sample of centred rows Z, for the columns it shows well enough.

    Z is in the units of the diagonal preconditioner `side`, in which all columns have a variance of about 1,
    and so is the ridge. Directions of little variance are those of the sample, exact to a small factor
    (Avron, Maymounkov & Toledo 2010): a pair hidden in the difference of two columns that nearly coincide is
    found. Columns that have a part in few rows, or another variance in the sample, keep their diagonal. With
    the `whole` of the rows, all columns are known.
    """
    n, (rows, squares) = len(Z), _shown(Z)
    clear = np.flatnonzero(whole | ((rows >= SHOWN_ROWS) & (squares > n / 4) & (squares < 4 * n)))
    S, r = Z[:, clear].T @ Z[:, clear] / n, ridge[clear]
    values, W = np.linalg.eigh(S + np.diag(r))
    # A direction without any variance in the sample, if other rows may have some, counts as one that a single
    # row has.
    least = len(values) * EPS * float(max(values[-1:], default=0.0))
    unseen = (values if whole else values - r @ W**2) <= least
    V = np.zeros((len(side.d), len(clear)))
    V[clear] = W
    scores = Z[:, clear] @ W
    shown, sizes = _shown(scores)
    doubtful = np.zeros(len(values), bool) if whole else unseen | (shown < SHOWN_ROWS)
    # Scores of directions that covariances cannot see: if they vary more than rounding, something is missed.
    rounding = (16 * len(clear) * eps) ** 2
    blind = bool(np.any((sizes / n)[unseen & (r @ W**2 <= least)] > rounding))
    weights = np.where(unseen, np.maximum(values, 1 / n), values)
    return Sampled(ViewPreconditioner(side.d, V, weights, 1.0, blind=blind), doubtful, rounding, least)


def _shown(Z: Array) -> tuple[Array, Array]:
    """How many rows each column rests on, (sum z^2)^2 / sum z^4, and its sum of squares."""
    squares = np.einsum("ij,ij->j", Z, Z)
    return squares**2 / np.maximum(np.einsum("ij,ij,ij,ij->j", Z, Z, Z, Z), 1e-300), squares


def low_rank(
    sample: Covariance, M: Preconditioner, rng: np.random.Generator, least: float = 1e-6
) -> Preconditioner:
    """The diagonal preconditioner M with the leading directions of `sample` in its coordinates.

    Directions whose values are below `least` times the largest are noise.

    Subspace iteration on thin products (Halko, Martinsson & Tropp 2011): nothing p x p, and sparse rows
    stay sparse. The first direction left out gives the level of the tail.
    """
    x, y = _sides(M)
    most = [min(DIRECTIONS, sample.n // 4, len(side.d) // 2) for side in (x, y)]
    A, B = (
        rng.standard_normal((len(side.d), min(r + 11, len(side.d))))
        for side, r in zip((x, y), most, strict=True)
    )
    for _ in range(4):
        A, B = (np.linalg.qr(C)[0] for C in _scaled_squares(sample, x, y, A, B))
    found = _scaled_squares(sample, x, y, A, B)
    sides = []
    for side, r, C, SC in zip((x, y), most, (A, B), found, strict=True):
        values, P = np.linalg.eigh((C.T @ SC + SC.T @ C) / 2)
        values, P = values[::-1], P[:, ::-1]
        keep = int(np.count_nonzero(values[:r] > least * values[0])) if values[0] > 0 else 0
        if keep < 1 or keep >= len(values):
            sides.append(side)
            continue
        tail = max(float(values[keep]), least * float(values[0]))
        sides.append(ViewPreconditioner(side.d, C @ P[:, :keep], values[:keep], tail))
    return Preconditioner(*sides)


def largest(
    cov: Covariance, M: Preconditioner, rng: np.random.Generator, passes: int = 3
) -> tuple[float, float]:
    """Estimates of the largest eigenvalues of M^-1 Sx and M^-1 Sy, rather too large than too small.

    From a block Krylov space of `passes` blocks. One over these is the longest safe step of each view.
    """
    x, y = _sides(M, cov)
    A, B = (rng.standard_normal((len(side.d), min(8, len(side.d)))) for side in (x, y))
    spaces: tuple[list[Array], list[Array]] = ([], [])
    images: tuple[list[Array], list[Array]] = ([], [])
    for _ in range(passes):
        A, B = np.linalg.qr(A)[0], np.linalg.qr(B)[0]
        found = _scaled_squares(cov, x, y, x.root(A), y.root(B))
        SA, SB = x.root(found[0]), y.root(found[1])
        for view, (C, SC) in enumerate(((A, SA), (B, SB))):
            spaces[view].append(C)
            images[view].append(SC)
        A, B = SA, SB
    return tuple(_ritz(np.hstack(C), np.hstack(SC)) for C, SC in zip(spaces, images, strict=True))  # type: ignore[return-value]


def _ritz(C: Array, SC: Array) -> float:
    """The largest Ritz value on the span of C, times MARGIN."""
    G = C.T @ C
    W = whitening((G + G.T) / 2, np.zeros(len(G))).W
    T = W.T @ (C.T @ SC) @ W
    return MARGIN * float(np.linalg.eigvalsh((T + T.T) / 2)[-1])


def _scaled_squares(
    cov: Covariance, x: ViewPreconditioner, y: ViewPreconditioner, A: Array, B: Array
) -> tuple[Array, Array]:
    """D Sx D A and the same for y."""
    xx, yy = cov.squares(x.d[:, None] * A, y.d[:, None] * B)
    return x.d[:, None] * xx, y.d[:, None] * yy


def _sides(M: Preconditioner, cov: Covariance | None = None) -> tuple[ViewPreconditioner, ViewPreconditioner]:
    """The preconditioners of both views, with ones for the identity."""
    if M.x is not None and M.y is not None:
        return M.x, M.y
    if cov is None:
        raise ValueError("low_rank needs a diagonal preconditioner to start from")
    x, y = cov.diagonal()
    return diagonal(np.ones_like(x)), diagonal(np.ones_like(y))
