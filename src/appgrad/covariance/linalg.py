"""Small dense linear algebra: whitening with rank decisions, truncated SVD, the mergeable QR."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg as sl
from scipy.linalg.lapack import dormqr, dpocon, dsytrd, dsytrd_lwork

from ..machine.arrays import EPS, Array
from ..machine.threads import limit_for_factor, over_rows

# Below this order, all eigenvectors take no longer than a few.
SMALL = 32


def column_dots(A: Array, B: Array, weights: Array | None = None) -> Array:
    """sum_i w_i a_ij b_ij for columns j of two thin matrices; ranges of rows add up in double precision."""
    w = np.ones(len(A), A.dtype) if weights is None else weights.astype(A.dtype, copy=False)
    parts = over_rows(lambda rows: w[rows] @ (A[rows] * B[rows]), len(A))
    return np.asarray(np.sum(parts, axis=0, dtype=np.float64))


def inner(A: Array, B: Array, C: Array | None = None) -> Array:
    """A'B or A'(B + C) for thin matrices; ranges of rows add up in double precision."""

    def part(rows: slice) -> Array:
        return np.asarray(A[rows].T @ (B[rows] if C is None else B[rows] + C[rows]))

    return np.asarray(np.sum(over_rows(part, len(A)), axis=0, dtype=np.float64))


class Whitening(NamedTuple):
    """W (p x r) with W'(S + R)W = I on the range of S, the rank of S, and the condition of S + R there.

    `null` (p x m) are directions left out in which S is at rounding level and there is no ridge. Covariances
    cannot tell whether they have a little variance or none. `weak` are the columns of W in which S is near
    that level, such as those that a ridge has kept. `neglected` is the squared correlation that directions
    left out have at most, with the ridge.
    """

    W: Array
    rank: int
    condition: float
    null: Array
    weak: Array
    neglected: float = 0.0


def equilibration(variances: Array) -> Array:
    """Powers of two that bring every standard deviation into [0.7, 1.4]; 1 where the variance is zero.

    Multiplying by a power of two is exact, so units change no rank decision and no digit.
    """
    safe = np.where(variances > 0, variances, 1.0)
    return np.asarray(np.exp2(-np.round(np.log2(safe) / 2)))


def whitening(S: Array, ridge: Array, precision: float = EPS) -> Whitening:
    """Whiten a covariance matrix S with a diagonal ridge R, deciding its rank when it is ill-conditioned.

    Uses Cholesky if S + R is so well conditioned that half of the digits are left; otherwise its
    eigen-decomposition, without the directions in which S is at rounding level. `precision` is the relative
    error of the entries of S: rounding of the products, or of the data when these are less precise.
    """
    live = np.flatnonzero(np.diag(S) > 0)
    W = np.zeros((len(S), len(live)))
    null = np.zeros((len(S), 0))
    if not len(live):
        return Whitening(W, 0, np.inf, null, np.zeros(0, bool))
    variances = np.diag(S)[live]
    t = equilibration(variances + ridge[live])
    C = S[np.ix_(live, live)] * t[:, None] * t
    r = ridge[live] * t * t
    M = C + np.diag(r)
    L, condition = _cholesky(M)
    # A ridge below 1e-9 hides no deficiency: the columns of W give the rank. Above, compute it from S.
    rank_below = len(live) if r.max() < 1e-9 else _rank(S[np.ix_(live, live)], variances, precision)
    if L is not None and condition < precision**-0.5:
        W[live] = sl.solve_triangular(L, np.diag(t), lower=True).T
        return Whitening(W, min(len(live), rank_below), condition, null, np.zeros(len(live), bool))
    E, V = np.linalg.eigh(M)
    # A ridge above rounding keeps directions in which S is below it: their covariances are known.
    keep = _significant(E, E[-1], precision)
    W = W[:, : np.count_nonzero(keep)]
    W[live] = t[:, None] * (V[:, keep] / np.sqrt(E[keep]))
    own = E - r @ V**2
    rank = min(int(np.count_nonzero(_significant(own, E[-1], precision))), rank_below)
    neglected = 0.0
    if np.any(r > 0):
        left = np.maximum(own, len(E) * EPS * E[-1])[~keep]
        neglected = float(np.max(left / (left + (r @ V**2)[~keep]), initial=0.0))
    else:
        null = np.zeros((len(S), np.count_nonzero(~keep)))
        null[live] = t[:, None] * V[:, ~keep]
    condition = condition_of(E, keep, ridged=True, null=null.shape[1])
    weak = ~_significant(own, E[-1], 16 * precision)[keep]
    return Whitening(W, rank, condition, null, weak, neglected)


def inverse_root(G: Array, precision: float = EPS) -> Array:
    """The symmetric G^-1/2 of a k x k Gram matrix, on its range: U D^-1/2 U' of Algorithms 4 and 5."""
    E, V = np.linalg.eigh((G + G.T) / 2)
    keep = _significant(E, E[-1], precision)
    return np.asarray((V[:, keep] / np.sqrt(E[keep])) @ V[:, keep].T)


def captured(Gx: Array, Gxy: Array, Gy: Array, k: int, precision: float = EPS) -> tuple[Array, Array, float]:
    """Normalisers of both sides and the correlation captured by the k best pairs: TCC of the paper."""
    Nx, Ny = inverse_root(Gx, precision), inverse_root(Gy, precision)
    s = np.linalg.svd(Nx.T @ Gxy @ Ny, compute_uv=False)
    return Nx, Ny, float(np.sum(np.minimum(s[:k], 1.0)))


def condition_of(eigenvalues: Array, keep: Array, ridged: bool, null: int = 0) -> float:
    """Condition number of the kept directions; infinite if others that might matter were left out.

    Covariances cannot tell an exactly dependent column from a nearly dependent one. With a ridge neither
    matters. Without one, only `null` directions are known to be empty.
    """
    dropped = np.count_nonzero(~keep)
    if not np.any(keep) or (dropped > null and not ridged):
        return np.inf
    # With a ridge, directions left out have about that: it is the least of all.
    least = eigenvalues.min() if dropped > null else eigenvalues[keep].min()
    return float(eigenvalues[-1] / least) if least > 0 else np.inf


def isotropic(variances: Array, ridge: Array, floor: float) -> tuple[Array, float]:
    """Units t in which the ridge is c I, and c: t = 1 / sqrt(ridge) and c = 1, or equilibrated and c = 0.

    A positive ridge counts as at least `floor` times a column's variance, so that units stay comparable.
    """
    if not np.any(ridge > 0):
        return equilibration(variances), 0.0
    at_least = np.maximum(ridge, floor * variances)
    return np.asarray(1.0 / np.sqrt(np.where(at_least > 0, at_least, 1.0))), 1.0


def _rank(S: Array, variances: Array, precision: float) -> int:
    t = equilibration(variances)
    E = np.linalg.eigvalsh(S * t[:, None] * t)
    return int(np.count_nonzero(_significant(E, E[-1], precision)))


def _cholesky(M: Array) -> tuple[Array | None, float]:
    """Lower Cholesky factor and estimated condition number, or (None, inf) when M is not definite."""
    try:
        L = np.linalg.cholesky(M)
    except np.linalg.LinAlgError:
        return None, np.inf
    reciprocal, _ = dpocon(L, np.abs(M).sum(axis=0).max(), uplo="L")
    return L, 1.0 / reciprocal if reciprocal > 0 else np.inf


def _significant(eigenvalues: Array, largest: float, precision: float) -> Array:
    return np.asarray(eigenvalues > len(eigenvalues) * precision * max(largest, 0.0))


def leading_svd(T: Array, k: int) -> tuple[Array, Array, Array, Array]:
    """The k leading singular triples U, s, V of T and the residual of each."""
    return svd_and_squares(T, k)[:4]


def svd_and_squares(T: Array, k: int) -> tuple[Array, Array, Array, Array, Array]:
    """The k leading singular triples U, s, V of T, the residual of each, and all squared singular values.

    When k is small, uses the leading eigenvectors of the smaller of T T' and T'T and one Rayleigh-Ritz
    step, which makes the error of s quadratic in that of the subspace; otherwise the full SVD.
    """
    if T.shape[0] > T.shape[1]:
        V, s, U, residual, squares = svd_and_squares(T.T, k)
        return U, s, V, residual, squares
    m = len(T)
    # A huge ridge makes T tiny: its square must not vanish.
    size = float(np.abs(T).max(initial=0.0)) or 1.0
    T = T / size
    if 4 * k <= m:
        S = T @ T.T
        # numpy's BLAS threads may still spin after the product, and scipy has its own: one is faster.
        with limit_for_factor(m):
            squares, U = _leading_vectors(S, k)
        P, s, Vt = np.linalg.svd(U.T @ T, full_matrices=False)
        U = U @ P
        squares[:k] = s**2
    else:
        U, s, Vt = np.linalg.svd(T, full_matrices=False)
        squares = s**2
        U, s, Vt = U[:, :k], s[:k], Vt[:k]
    # T'u = s v holds by construction; T v = s u is what an inaccurate subspace would break.
    residual = np.linalg.norm(T @ Vt.T - U * s, axis=0) / np.sqrt(2)
    return U, s * size, Vt.T, residual * size, squares * size**2


def _leading_vectors(S: Array, k: int) -> tuple[Array, Array]:
    """All eigenvalues of a symmetric matrix, descending, and the eigenvectors of the k largest.

    LAPACK has no call for this, and two calls would make S tridiagonal twice, which takes nearly all of the
    time: S = Q tri(d, e) Q' with the reflectors Q = diag(1, Q1) below the diagonal.
    """
    m = len(S)
    if m < SMALL:
        E, U = np.linalg.eigh(S)
        return np.maximum(E[::-1], 0.0), U[:, ::-1][:, :k]
    work, _ = dsytrd_lwork(m, lower=1)
    c, d, e, tau, _ = dsytrd(S, lower=1, lwork=int(work))
    E = sl.eigh_tridiagonal(d, e, eigvals_only=True)
    try:
        _, W = sl.eigh_tridiagonal(d, e, select="i", select_range=(m - k, m - 1), lapack_driver="stemr")
    except np.linalg.LinAlgError:
        W = np.empty((m, 0))
    if W.shape[1] < k:  # LAPACK's choice by index can fail where eigenvalues coincide
        return np.maximum(E[::-1], 0.0), np.linalg.eigh(S)[1][:, -k:]
    W[1:] = dormqr("L", "N", c[1:, :-1], tau, np.asfortranarray(W[1:]), 64 * k)[0]
    return np.maximum(E[::-1], 0.0), W


class Triangle(NamedTuple):
    """A factor R of the centred rows, R'R = sum (z - mean)(z - mean)', mergeable (TSQR).

    Rows are stacked and made triangular again only when there are four times as many as columns:
    each factorisation then has rows enough to pay for itself.
    """

    n: int
    mean: Array
    R: Array

    def triangular(self, rows: int = 0) -> Triangle:
        """This factor, with R made triangular if it has more than `rows` rows."""
        if len(self.R) <= rows:
            return self
        return self._replace(R=np.asarray(np.linalg.qr(self.R, mode="r")))

    def merge(self, other: Triangle) -> Triangle:
        """The factor of both sets of rows: the difference of the means enters as one more row."""
        n = self.n + other.n
        delta = other.mean - self.mean
        bridge = np.sqrt(self.n * other.n / n) * delta
        R = np.vstack([self.R, other.R, bridge[None, :]])
        return Triangle(n, self.mean + delta * (other.n / n), R).triangular(4 * R.shape[1])


class Factor(NamedTuple):
    """One centred view as U diag(s) V' in units in which its ridge is c I.

    Directions with values of s up to `lost` were left out, not counting those known to be empty. In others,
    `raised` is the part of c by which the ridge was raised.
    """

    U: Array
    s: Array
    c: float
    lost: float = 0.0
    raised: Array | float = 0.0

    def neglected(self, n: int) -> float:
        """The squared correlation that is lost at most: in directions left out, and by a ridge raised."""
        left_out = self.lost**2 / (self.lost**2 + n * self.c) if self.lost > 0 else 0.0
        return max(left_out, float(np.max(n * self.raised / (self.s**2 + n * self.c), initial=0.0)))

    def shrinkage(self, n: int) -> Array:
        """Singular values of the view after whitening with S + c I: 1 where there is no ridge."""
        return np.asarray(self.s / np.sqrt(self.s**2 + n * self.c))

    def left(self, n: int) -> float:
        """What the ridge leaves of the dimensions: the trace of S (S + c I)^-1."""
        return float(np.sum(self.shrinkage(n) ** 2))

    def dimensions(self, n: int) -> int:
        """The same as a whole number, at least 1."""
        return max(1, int(self.left(n) + 1e-6))


def factor_cca(fx: Factor, fy: Factor, n: int, k: int) -> tuple[Array, Array, Array, Array, Array]:
    """CCA of two factored views: coefficients on V (r1 x k, r2 x k), correlations, residuals, all squares.

    Bjorck & Golub (1973): the singular values of Ux'Uy, each side shrunk by its ridge.
    """
    T = fx.shrinkage(n)[:, None] * (fx.U.T @ fy.U) * fy.shrinkage(n)
    P, rho, Q, residual, squares = svd_and_squares(T, k)
    a = P / np.sqrt(fx.s**2 / n + fx.c)[:, None]
    b = Q / np.sqrt(fy.s**2 / n + fy.c)[:, None]
    return a, b, rho, residual, squares
