"""From any pair of bases to canonical pairs: one last Rayleigh-Ritz, units, signs, residuals."""

from __future__ import annotations

import numpy as np

from ..covariance.linalg import column_dots, leading_svd, whitening
from ..covariance.operators import Covariance, Rounding
from ..covariance.preconditioners import Preconditioner, jacobi
from ..machine.arrays import Array
from .problem import Products, Solution


class RankError(ValueError):
    """There are fewer independent columns than components."""


class FlatError(ValueError):
    """Scores of some components do not vary."""


def canonical(
    cov: Covariance,
    A: Array,
    B: Array,
    k: int | None = None,
    products: Products | None = None,
    ridged: tuple[Array, Array] | None = None,
    norm: Preconditioner | None = None,
    rounding: Rounding | None = None,
    most: tuple[int, int] | None = None,
) -> Solution:
    """One last Rayleigh-Ritz on the spans of A and B: order, unit variance, signs, residuals.

    Returns the best k pairs, by default all. `products` are those of A and B without the ridge, and `ridged`
    those with the ridge alone; `norm` is the norm of residuals, by default that of the covariances'
    diagonals. A and B have at `most` so many independent columns.
    """
    xx, xy, yx, yy = cov.products(A, B, ridge=False) if products is None else products
    ridge_x, ridge_y = cov.ridged(A, B) if ridged is None else ridged
    grams = A.T @ (xx + ridge_x), B.T @ (yy + ridge_y)
    limits = (len(grams[0]), len(grams[1])) if most is None else most
    wx, wy = (_uncorrelated(G, m, cov.precision) for G, m in zip(grams, limits, strict=True))
    found = min(wx.shape[1], wy.shape[1])
    if k is not None:
        require_rank(k, wx.shape[1], wy.shape[1])
    P, rho, Q, _ = leading_svd(wx.T @ (A.T @ xy) @ wy, found if k is None else k)
    P, Q = wx @ P, wy @ Q
    ridged = ridge_x @ P, ridge_y @ Q
    products = xx @ P, xy @ Q, yx @ P, yy @ Q
    return solution(cov, rho, A @ P, B @ Q, products, ridged=ridged, norm=norm, rounding=rounding)


def _uncorrelated(G: Array, most: int, precision: float) -> Array:
    """Coefficients of at `most` so many uncorrelated scores of variance one, from their covariances."""
    G = (G + G.T) / 2
    W = whitening(G, np.zeros(len(G)), precision).W
    if W.shape[1] <= most:
        return W
    E, V = np.linalg.eigh(G)
    return np.asarray(V[:, -most:] / np.sqrt(E[-most:]))


def completed(cov: Covariance, A: Array, B: Array, k: int) -> tuple[Array, Array]:
    """Return bases that have lost columns without correlation, with others uncorrelated with the rest."""
    extra = jacobi(cov).gaussian(len(A), len(B), k, np.random.default_rng(0))
    A, B = (C / max(np.abs(C).max(), 1e-300) for C in (A, B))
    return np.hstack([A, extra[0]]), np.hstack([B, extra[1]])


def solution(
    cov: Covariance,
    rho: Array,
    A: Array,
    B: Array,
    products: Products | None = None,
    *,
    ridged: tuple[Array, Array] | None = None,
    norm: Preconditioner | None = None,
    error_bounds: Array | None = None,
    rounding: Rounding | None = None,
    ranks: tuple[int, int] | None = None,
) -> Solution:
    """Convert canonical pairs A, B with A'SxA = B'SyB = I in working units to a solution in the data's units.

    `products` are those of A and B without the ridge: covariances of the columns with the scores; `ridged`
    those with the ridge alone. `rounding` is added to `error_bounds`.
    """
    xx, xy, yx, yy = cov.products(A, B, ridge=False) if products is None else products
    (mx, my), (ux, uy) = cov.moments.views, cov.units.views
    ridge_x, ridge_y = cov.ridged(A, B) if ridged is None else ridged
    rx, ry = xy - (xx + ridge_x) * rho, yx - (yy + ridge_y) * rho
    zx, zy = (jacobi(cov) if norm is None else norm)(rx, ry)
    squares = column_dots(rx, zx) + column_dots(ry, zy)
    sizes = column_dots(A, A, mx.var * ux.scale**2) + column_dots(B, B, my.var * uy.scale**2)
    if error_bounds is None:
        error_bounds = cov.error_bounds(rho, rx, ry, sizes)
    if rounding is not None:
        error_bounds = error_bounds + rounding.bounds(rho, sizes, max(len(A), len(B)))
    var_u, var_v = column_dots(A, xx), column_dots(B, yy)
    if not (np.all(var_u > 0) and np.all(var_v > 0)):
        raise FlatError(f"only {int(np.sum((var_u > 0) & (var_v > 0)))} components have scores that vary")
    fx, fy = 1 / np.sqrt(var_u), 1 / np.sqrt(var_v)
    x_weights = A * ux.scale[:, None]
    sign = np.sign(x_weights[np.argmax(np.abs(x_weights), axis=0), np.arange(len(rho))])
    fx, fy = fx * sign, fy * sign
    return Solution(
        correlations=np.clip(rho, 0.0, 1.0),
        training_correlations=np.clip(column_dots(A, xy) * fx * fy, 0.0, 1.0),
        x_weights=x_weights * fx,
        y_weights=B * uy.scale[:, None] * fy,
        x_loadings=_unscaled(xx, ux.scale) * fx,
        y_loadings=_unscaled(yy, uy.scale) * fy,
        # With a ridge the scores are correlated a little: regress on all of them together.
        y_slopes=_unscaled(yx @ (np.linalg.inv((A.T @ xx) * np.outer(fx, fx)).T * fx[:, None]), uy.scale),
        mean_x=ux.mean,
        mean_y=uy.mean,
        std_x=np.sqrt(mx.var),
        std_y=np.sqrt(my.var),
        residuals=relative(squares, rho, cov),
        error_bounds=np.where(error_bounds < 1, error_bounds, np.nan),
        condition=np.nan if rounding is None or not rounding.squared else rounding.condition,
        ranks=cov.dimensions() if ranks is None else ranks,
    )


def require_rank(k: int, rank_x: int, rank_y: int) -> None:
    """Raise unless both views have at least k independent columns."""
    if k > min(rank_x, rank_y):
        raise RankError(
            f"n_components={k} is above the rank of the data (X {rank_x}, y {rank_y}): "
            f"use at most {min(rank_x, rank_y)}"
            + (", and remove constant columns" if min(rank_x, rank_y) == 0 else "")
        )


def directions(cov: Covariance, A: Array, B: Array, plain: Products) -> tuple[int, int]:
    """Return how many independent scores A and B have: those of variances above the rounding of their sums.

    `plain` are their products without the ridge, which would hide missing directions.
    """
    found = []
    sides = zip((A, B), (plain[0], plain[3]), cov.moments.views, cov.units.views, strict=True)
    for C, SC, m, u in sides:
        size = np.sqrt(column_dots(C, C, m.var * u.scale**2))
        inverse = np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 0.0)
        G = (C.T @ SC) * inverse * inverse[:, None]
        values = np.linalg.eigvalsh((G + G.T) / 2)
        found.append(int(np.count_nonzero(values > 16 * cov.precision)))
    return found[0], found[1]


def require_directions(k: int, x: int, y: int) -> None:
    """Raise unless both views have k directions; how many more there are is not known here."""
    view, found = ("X", x) if x <= y else ("y", y)
    if found < k:
        raise RankError(
            f"n_components={k} is above the rank of the data: {view} has {found} directions that can be told "
            f"apart: use at most {found}" + (", or solver='qr'" if found else ", and remove constant columns")
        )


def relative(squares: Array, rho: Array, cov: Covariance) -> Array:
    """Return residuals of pairs over the largest correlation, from the squared norms of both sides together.

    If that is almost zero, they are divided by a millionth of what the ridge would leave of a perfect
    correlation: rounding errors have no correlation to be compared with.
    """
    return np.asarray(
        np.sqrt(np.maximum(squares, 0) / 2) / max(float(rho[0]), 1e-6 * attainable(cov), 1e-300)
    )


def attainable(cov: Covariance) -> float:
    """Return about what the ridge leaves of a perfect correlation."""
    most = 1.0
    for m, u in zip(cov.moments.views, cov.units.views, strict=True):
        var = m.var * u.scale * u.scale
        left = var / np.where(var > 0, var + u.ridge, 1.0)
        most *= float(np.sqrt(left.max(initial=0.0)))
    return most


def _unscaled(M: Array, scale: Array) -> Array:
    if np.all(scale == 1):
        return M
    return np.asarray(M * np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)[:, None])
