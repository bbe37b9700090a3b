"""From any pair of bases to canonical pairs: one last Rayleigh-Ritz, units, signs, residuals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..covariance.linalg import column_dots, inner, leading_svd, whitening
from ..covariance.operators import Covariance, Rounding
from ..covariance.preconditioners import Preconditioner, jacobi
from ..machine.arrays import Array
from ..machine.threads import over_rows
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
    products = cov.products(A, B, ridge=False) if products is None else products
    ridged = cov.ridged(A, B) if ridged is None else ridged
    (xx, xy, _, yy), (ridge_x, ridge_y) = products, ridged
    grams = inner(A, xx, ridge_x), inner(B, yy, ridge_y)
    limits = (len(grams[0]), len(grams[1])) if most is None else most
    wx, wy = (_uncorrelated(G, m, cov.precision) for G, m in zip(grams, limits, strict=True))
    found = min(wx.shape[1], wy.shape[1])
    if k is not None:
        require_rank(k, wx.shape[1], wy.shape[1])
    P, rho, Q, _ = leading_svd(wx.T @ inner(A, xy) @ wy, found if k is None else k)
    mixing = wx @ P, wy @ Q
    return solution(cov, rho, A, B, products, mixing=mixing, ridged=ridged, norm=norm, rounding=rounding)


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


class _Side(NamedTuple):
    """One view of canonical pairs with covariances S: columns C, and what the rows of the data give for them.

    `own` is S C without the ridge, `cross` the covariances with the scores of the other view, `r` the
    residuals; `terms` are sum_i S_ii c_i^2 of every column, `gram` is C'S C, `shared` the covariances of
    the scores with their partners. The first three may be overwritten if they were `made` for this.
    """

    C: Array
    own: Array
    cross: Array
    r: Array
    terms: Array
    gram: Array
    shared: Array
    made: bool


def _side(
    parts: tuple[Array, Array, Array, Array],
    mixing: tuple[Array, Array] | None,
    rho: Array,
    variances: Array,
) -> _Side:
    """The pairs with these columns, products without the ridge, products between views, and with the ridge.

    If columns are to be mixed, `mixing` has the coefficients of the view and of the other one. Several
    operations on some rows at a time: temporary matrices of all rows would take longer than the products.
    """
    shape = len(parts[0]), len(rho)
    r = np.empty(shape)
    made = None if mixing is None else [np.empty(shape) for _ in range(3)]

    def mix(rows: slice) -> tuple[Array, Array, Array]:
        C, own, cross, ridged = (part[rows] for part in parts)
        if mixing is not None and made is not None:
            P, Q = mixing
            C, own, cross, ridged = C @ P, own @ P, cross @ Q, ridged @ P
            for whole, part in zip(made, (C, own, cross), strict=True):
                whole[rows] = part
        np.subtract(cross, (own + ridged) * rho, out=r[rows])
        return variances[rows] @ (C * C), C.T @ own, np.einsum("ij,ij->j", C, cross)

    terms, gram, shared = (np.sum(found, axis=0) for found in zip(*over_rows(mix, len(r)), strict=True))
    C, own, cross = parts[:3] if made is None else made
    return _Side(C, own, cross, r, terms, gram, shared, made is not None)


def solution(
    cov: Covariance,
    rho: Array,
    A: Array,
    B: Array,
    products: Products | None = None,
    *,
    mixing: tuple[Array, Array] | None = None,
    ridged: tuple[Array, Array] | None = None,
    norm: Preconditioner | None = None,
    error_bounds: Array | None = None,
    rounding: Rounding | None = None,
    ranks: tuple[int, int] | None = None,
) -> Solution:
    """Convert canonical pairs A, B with A'SxA = B'SyB = I in working units to a solution in the data's units.

    `products` are those of A and B without the ridge: covariances of the columns with the scores; `ridged`
    those with the ridge alone. With `mixing` P and Q, the pairs are A P and B Q. `rounding` is added to
    `error_bounds`.
    """
    xx, xy, yx, yy = cov.products(A, B, ridge=False) if products is None else products
    (mx, my), (ux, uy) = cov.moments.views, cov.units.views
    ridge_x, ridge_y = cov.ridged(A, B) if ridged is None else ridged
    swapped = None if mixing is None else (mixing[1], mixing[0])
    x = _side((A, xx, xy, ridge_x), mixing, rho, mx.var * ux.scale**2)
    y = _side((B, yy, yx, ridge_y), swapped, rho, my.var * uy.scale**2)
    zx, zy = (jacobi(cov) if norm is None else norm)(x.r, y.r)
    squares, sizes = column_dots(x.r, zx) + column_dots(y.r, zy), x.terms + y.terms
    if error_bounds is None:
        error_bounds = cov.error_bounds(rho, x.r, y.r, sizes)
    if rounding is not None:
        error_bounds = error_bounds + rounding.bounds(rho, sizes, max(len(A), len(B)))
    var_u, var_v = np.diag(x.gram), np.diag(y.gram)
    if not (np.all(var_u > 0) and np.all(var_v > 0)):
        raise FlatError(f"only {int(np.sum((var_u > 0) & (var_v > 0)))} components have scores that vary")
    sign = _signs(x.C, ux.scale)
    fx, fy = sign / np.sqrt(var_u), sign / np.sqrt(var_v)
    # With a ridge the scores are correlated a little: regress on all of them together.
    slopes = np.linalg.inv(x.gram * np.outer(fx, fx)).T * fx[:, None]
    redundancy = (
        _explained(x.cross, fy, mx.var * ux.scale**2),
        _explained(y.cross, fx, my.var * uy.scale**2),
    )
    return Solution(
        correlations=np.clip(rho, 0.0, 1.0),
        training_correlations=np.clip(x.shared * fx * fy, 0.0, 1.0),
        x_weights=_scaled(x.C, ux.scale, fx, x.made),
        y_weights=_scaled(y.C, uy.scale, fy, y.made),
        x_loadings=_scaled(x.own, _inverse(ux.scale), fx, x.made),
        y_loadings=_scaled(y.own, _inverse(uy.scale), fy, y.made),
        y_slopes=_scaled(y.cross, _inverse(uy.scale), slopes, y.made),
        mean_x=ux.mean,
        mean_y=uy.mean,
        std_x=np.sqrt(mx.var),
        std_y=np.sqrt(my.var),
        residuals=relative(squares, rho, cov),
        error_bounds=np.where(error_bounds < 1, error_bounds, np.nan),
        condition=np.nan if rounding is None or not rounding.squared else rounding.condition,
        ranks=cov.dimensions() if ranks is None else ranks,
        redundancy=redundancy,
    )


def _explained(cross: Array, f: Array, variances: Array) -> Array:
    """The mean squared correlation of the columns of a view with scores of the other view times f.

    `cross` are their covariances.
    """
    live = variances > 0
    inverse = np.where(live, 1 / np.where(live, variances, 1.0), 0.0)
    shares = column_dots(cross, cross, inverse) * f * f / max(np.count_nonzero(live), 1)
    return np.asarray(np.clip(shares, 0.0, 1.0))


def _signs(C: Array, scale: Array) -> Array:
    """The signs that make the largest weight of each column positive."""

    def ends(rows: slice) -> tuple[Array, Array]:
        weights = C[rows] * scale[rows, None]
        return weights.max(axis=0), weights.min(axis=0)

    highest, lowest = zip(*over_rows(ends, len(C)), strict=True)
    return np.where(np.max(highest, axis=0) >= -np.min(lowest, axis=0), 1.0, -1.0)


def _scaled(C: Array, rows: Array, P: Array, made: bool) -> Array:
    """diag(rows) C P for a matrix P, or a diagonal one, in the place of C if that was `made` for it."""
    found = C if made else np.empty(C.shape)

    def scale(part: slice) -> None:
        np.multiply(C[part] @ P if P.ndim == 2 else C[part] * P, rows[part, None], out=found[part])

    over_rows(scale, len(C))
    return found


def _inverse(scale: Array) -> Array:
    """1 / scale, and 0 for columns that are absent."""
    return np.asarray(np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0))


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
        G = inner(C, SC) * inverse * inverse[:, None]
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
