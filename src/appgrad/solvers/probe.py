"""A look beyond a run that seems to have converged: what directions of low variance would still add."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..covariance.linalg import column_dots, leading_svd, whitening
from ..covariance.operators import Covariance
from ..covariance.preconditioners import Preconditioner
from ..machine.arrays import Array
from .conjugate_gradients import conjugate_gradients
from .problem import Limits, Products

# Iterations of conjugate gradients, a pass each, for a preconditioner that does not know directions of low
# variance. A pair hidden in the difference of two columns takes up to 40 (1200 columns of noise).
DEEP = 40
# Iterations for one that does.
SHALLOW = 3
# With fewer passes allowed, none is kept for a probe.
MANY = 100


def probing(M: Preconditioner, limits: Limits, shallow: int = 0) -> tuple[int, Limits]:
    """Return the iterations of a probe, 0 for none, and the budgets without its passes.

    `shallow` are those for a preconditioner that knows all directions.
    """
    steps = shallow if M.is_complete else DEEP
    if not steps or (limits.passes is not None and limits.passes < MANY):
        return 0, limits
    return steps, limits if limits.passes is None else limits._replace(passes=limits.passes - steps - 1)


class Solved(NamedTuple):
    """Sx^-1 r and Sy^-1 s, about, the norms of the residuals r and s in S^-1, and the operations."""

    x: Array
    y: Array
    norms: Array
    flops: float


def solved_residuals(
    cov: Covariance, M: Preconditioner, products: Products, P: Array, Q: Array, rho: Array, steps: int
) -> Solved:
    """Return the solved residuals of pairs A P and B Q.

        r = Sxy psi - Sx phi diag(rho)      s = Syx phi - Sy psi diag(rho)

    `products` are those of A and B.
    """
    xx, xy, yx, yy = products
    residuals = xy @ Q - (xx @ P) * rho, yx @ P - (yy @ Q) * rho
    start = np.zeros_like(residuals[0]), np.zeros_like(residuals[1])
    x, y, flops = conjugate_gradients(cov, M, start, residuals, steps, 1e-8)
    squares = column_dots(residuals[0], x) + column_dots(residuals[1], y)
    return Solved(x, y, np.sqrt(np.maximum(squares, 0.0) / 2), flops)


class Missing(NamedTuple):
    """What the k best pairs gain by solved residuals, what these allow them to miss, and the operations."""

    gain: float
    most: float
    flops: float

    def is_little(self, tol: float, captured: float) -> bool:
        """True if a run misses no more than about `tol` of the correlation captured."""
        return self.gain < tol * captured and self.most < 3 * tol * captured


def missing(
    cov: Covariance, M: Preconditioner, A: Array, B: Array, products: Products, k: int, steps: int
) -> Missing:
    """Return what pairs in the spans of A and B still miss, as far as their solved residuals show it."""
    Wx, Wy, T = _whitened(cov, A, B, products)
    P, rho, Q, _ = leading_svd(T, min(T.shape))
    P, Q = Wx @ P, Wy @ Q
    Z = solved_residuals(cov, M, products, P, Q, rho, steps)
    A, B = np.hstack([A @ P, _unit(Z.x)]), np.hstack([B @ Q, _unit(Z.y)])
    _, _, T = _whitened(cov, A, B, cov.products(A, B))
    new = np.linalg.svd(T, compute_uv=False)[:k]
    more = float(np.minimum(new, 1.0).sum() - np.minimum(rho[:k], 1.0).sum())
    # A pair with the residual r is within r of a correlation, and within r^2 / gap if others are further
    # away (Parlett 1998, theorem 11.7.1). What comes after the last pair carried is not known: pairs must be
    # told apart from that one.
    r, gaps = Z.norms[:k], rho[:k] - (rho[-1] if len(rho) > k else 0.9 * rho[:k])
    most = float(np.sum(np.minimum(r, r * r / np.maximum(gaps, 1e-300))))
    return Missing(more, most, Z.flops + cov.flops(A.shape[1]))


def _whitened(cov: Covariance, A: Array, B: Array, products: Products) -> tuple[Array, Array, Array]:
    """Return coefficients of uncorrelated scores of variance one, and the correlations between them."""
    xx, xy, _, yy = products
    # Products of columns of very different sizes: those that cannot be told apart are left out.
    precision = cov.precision**0.875
    Wx, Wy = (whitening((G + G.T) / 2, np.zeros(len(G)), precision).W for G in (A.T @ xx, B.T @ yy))
    return Wx, Wy, Wx.T @ (A.T @ xy) @ Wy


def _unit(C: Array) -> Array:
    """Columns over their largest entries."""
    largest = np.abs(C).max(axis=0)
    return np.asarray(C / np.where(largest > 0, largest, 1.0))
