"""A look beyond a run that seems to have converged: what directions of low variance would still add."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..covariance.linalg import column_dots, leading_svd
from ..covariance.operators import Covariance
from ..covariance.preconditioners import Preconditioner, jacobi
from ..machine.arrays import Array
from .canonical import completed
from .conjugate_gradients import conjugate_gradients
from .problem import Limits, Products

# Iterations of conjugate gradients, a pass each, for a preconditioner that does not know directions of low
# variance. A pair hidden in the difference of two columns takes up to 40 (1200 columns of noise).
DEEP = 40
# Iterations for one that does.
SHALLOW = 3
# Combinations of residuals that take the place of all of them.
COMBINED = 6
# With fewer passes allowed than this many times those of a probe, none is kept for it.
LEAST = 2.5
# A pair that a look has brought nearer may come this many times as near. A hidden one came from 0.66 to 0.70,
# and was 0.997 (1010 columns of noise).
AHEAD = 10
# The share of the correlation that makes pairs worth going on from; smaller ones may be rounding.
FOUND = 1e-3
# Times that pairs which come nearer to the best are looked at, if passes are not limited.
ROUNDS = 3


def can_probe(passes: float | None, steps: int) -> bool:
    """True if so many passes allow a probe of so many iterations."""
    return passes is None or passes >= LEAST * (steps + 1)


def probing(M: Preconditioner, limits: Limits, matrices: bool, shallow: int = 0) -> tuple[int, Limits]:
    """Return the iterations of a probe, 0 for none, and the budgets without its passes.

    `shallow` are those for a preconditioner that knows all directions. On `matrices` no pass is needed.
    """
    steps = shallow if M.is_complete else DEEP
    if matrices:
        return steps, limits
    if not steps or not can_probe(limits.passes, steps):
        return 0, limits
    return steps, limits if limits.passes is None else limits._replace(passes=limits.passes - steps - 1)


class Solved(NamedTuple):
    """Sx^-1 r and Sy^-1 s, about, the norms of the residuals r and s in S^-1, and the operations."""

    x: Array
    y: Array
    norms: Array
    flops: float


def depth(floor: float, rho: float) -> int:
    """Iterations of a probe for pairs of more correlation than rho, the last one found.

    `floor` is the least ridge of a column, in units of its variance. A direction of variance v has at most
    the squared correlation v / (v + ridge): those that vary less need not be looked for. Conjugate gradients
    see a direction of variance v, in units of the variances, after some 4 / sqrt(v) iterations.
    """
    least = floor * rho**2 / max(1 - rho**2, 1e-300)
    return int(min(DEEP, np.ceil(4 / np.sqrt(min(least, 1.0))))) if least > 0 else DEEP


def solved_residuals(
    cov: Covariance,
    M: Preconditioner,
    products: Products,
    rho: Array,
    steps: int,
    rng: np.random.Generator | None = None,
) -> Solved:
    """Return the solved residuals of pairs with these products and correlations.

    r = Sxy psi - Sx phi diag(rho)      s = Syx phi - Sy psi diag(rho)

    Without a preconditioner, columns in other units would not be seen: M is then that of the variances. With
    a generator, a few random combinations of the residuals take their place: what hides in all of them is in
    each of these.
    """
    M = jacobi(cov) if M.x is None or M.y is None else M
    xx, xy, yx, yy = products
    residuals = xy - xx * rho, yx - yy * rho
    if rng is not None and len(rho) > COMBINED:
        size = np.sqrt(sum(column_dots(r, z) for r, z in zip(residuals, M(*residuals), strict=True)))
        Q = rng.standard_normal((len(rho), COMBINED)) / np.where(size > 0, size, np.inf)[:, None]
        residuals = residuals[0] @ Q, residuals[1] @ Q
    start = np.zeros_like(residuals[0]), np.zeros_like(residuals[1])
    x, y, flops = conjugate_gradients(cov, M, start, residuals, steps, 1e-8)
    squares = column_dots(residuals[0], x) + column_dots(residuals[1], y)
    return Solved(x, y, np.sqrt(np.maximum(squares, 0.0) / 2), flops)


class Pairs(NamedTuple):
    """Bases of both views, their products, and the correlations if they are pairs."""

    A: Array
    B: Array
    products: Products
    rho: Array


class Missing(NamedTuple):
    """What the k best pairs miss: what they gain by solved residuals, and what these allow them to miss.

    `coming` is what others may add that the last look has brought nearer. `pairs` are the best found.
    """

    gain: float
    most: float
    coming: float
    pairs: Pairs
    flops: float

    def is_found(self, tol: float, captured: float) -> bool:
        """True if the pairs found are worth going on from."""
        return max(self.gain, self.coming) > max(tol, FOUND) * captured

    def is_little(self, tol: float, captured: float) -> bool:
        """True if a run misses no more than about `tol` of the correlation captured."""
        return max(self.gain, self.coming, self.most / 3) <= tol * captured


def missing(
    cov: Covariance, M: Preconditioner, start: Pairs, k: int, steps: int, rounds: int, enough: float
) -> Missing:
    """Return what the k best pairs of a span miss, as far as solved residuals of all its pairs show it.

    A pair that was hidden may enter below the k best, if these are strong. Pairs that come nearer by more
    than `enough` are looked at again, up to `rounds` times.
    """
    if cov.dtype == np.float32:
        # Directions of low variance are lost in it.
        cov = cov.at(np.float64)
        A, B = start.A.astype(np.float64), start.B.astype(np.float64)
        start = Pairs(A, B, cov.products(A, B), start.rho)
    first = pairs = _ritz(cov, start, start.A.shape[1])
    if len(first.rho) < k:
        # Columns have vanished, because they are not correlated or by rounding.
        A, B = completed(cov, start.A, start.B, k)
        pairs = _ritz(cov, Pairs(A, B, cov.products(A, B), first.rho), A.shape[1])
        if len(pairs.rho) < k:
            return Missing(0.0, 0.0, 0.0, first, 0.0)
        first = first._replace(rho=np.pad(first.rho, (0, len(pairs.rho) - len(first.rho))))
    norms, nearer, flops = np.zeros(0), 0.0, 0.0
    for _ in range(rounds):
        Z = solved_residuals(cov, M, pairs.products, pairs.rho, steps)
        A, B = np.hstack([pairs.A, _unit(Z.x)]), np.hstack([pairs.B, _unit(Z.y)])
        after = _ritz(cov, Pairs(A, B, cov.products(A, B), pairs.rho), len(first.rho))
        norms, flops = norms if len(norms) else Z.norms, flops + Z.flops + cov.flops(A.shape[1])
        if len(after.rho) < k:
            # Rounding hides some of them beside the columns added.
            break
        nearer = coming(pairs.rho, after.rho, k)
        pairs = after
        if nearer < enough:
            break
    rho = first.rho
    gain = float(np.minimum(pairs.rho[:k], 1.0).sum() - np.minimum(rho[:k], 1.0).sum())
    # A pair with the residual r is within r of a correlation, and within r^2 / gap if others are further
    # away (Parlett 1998, theorem 11.7.1). What comes after the last pair carried is not known: pairs must be
    # told apart from that one.
    r, gaps = norms[:k], rho[:k] - (rho[-1] if len(rho) > k else 0.9 * rho[:k])
    most = float(np.sum(np.minimum(r, r * r / np.maximum(gaps, 1e-300))))
    return Missing(gain, most, nearer, pairs, flops)


def coming(before: Array, after: Array, k: int) -> float:
    """Return what pairs below the k best may add to these, if they go on to grow."""
    old = np.concatenate([before, np.zeros(len(after))])[k : len(after)]
    grown = np.minimum(after[k:] + AHEAD * (after[k:] - old), 1.0)
    return float(np.sum(np.maximum(grown - after[k - 1], 0.0)))


def _ritz(cov: Covariance, span: Pairs, c: int) -> Pairs:
    """Return the c best pairs in the spans of two bases, without directions that are lost in rounding."""
    A, B, (xx, xy, yx, yy), _ = span
    views = zip(cov.moments.views, cov.units.views, strict=True)
    weights = [m.var * u.scale**2 for m, u in views]
    Wx = _told_apart(A.T @ xx, column_dots(A, A, weights[0]), 16 * len(A) * cov.precision)
    Wy = _told_apart(B.T @ yy, column_dots(B, B, weights[1]), 16 * len(B) * cov.precision)
    T = Wx.T @ (A.T @ xy) @ Wy
    if min(T.shape):
        P, rho, Q, _ = leading_svd(T, min(c, *T.shape))
        P, Q = Wx @ P, Wy @ Q
    else:
        P, rho, Q = Wx[:, :0], np.zeros(0), Wy[:, :0]
    return Pairs(A @ P, B @ Q, (xx @ P, xy @ Q, yx @ P, yy @ Q), rho)


def _told_apart(G: Array, sizes: Array, rounding: float) -> Array:
    """Coefficients of uncorrelated scores of variance one, from their covariances and squared terms.

    Covariances are known to `rounding` of the terms.
    """
    s = np.sqrt(np.where(sizes > 0, sizes, 1.0))
    E, V = np.linalg.eigh((G + G.T) / (2 * np.outer(s, s)))
    keep = rounding < E
    return np.asarray(V[:, keep] / s[:, None] / np.sqrt(E[keep]))


def _unit(C: Array) -> Array:
    """Columns over their largest entries."""
    largest = np.abs(C).max(axis=0)
    return np.asarray(C / np.where(largest > 0, largest, 1.0))
