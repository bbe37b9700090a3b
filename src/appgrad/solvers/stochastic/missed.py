"""What a stochastic run has missed, as far as the rows in memory show it."""

from __future__ import annotations

import numpy as np

from ...covariance.linalg import column_dots, leading_svd
from ...covariance.preconditioners import NARROW
from ...covariance.rows import RowCovariance
from ...machine.arrays import Array
from ..problem import Solution


def on_all_rows(cov: RowCovariance, found: Solution, k: int) -> float:
    """Return the share of the correlation that a solution on rows in memory misses; NaN for many columns."""
    if max(cov.units.widths) > NARROW:
        return np.nan
    small = cov.on_matrices()
    wx, wy = small.whitened
    best = np.linalg.svd(wx.W.T @ small.matrices.Sxy @ wy.W, compute_uv=False)[:k]
    total = float(np.minimum(best, 1.0).sum())
    return 1 - float(found.correlations.sum()) / total if total > 0 else 0.0


def on_halves(first: RowCovariance, second: RowCovariance, A: Array, B: Array, rho: Array) -> float:
    """Return the share of the correlation that pairs uncorrelated with A and B have, at least.

    They are found on the first rows, and their correlations are those on the second, less three standard
    errors. Residuals do not show such pairs if they sit in directions of low variance. NaN if the first rows
    are too few for their columns.
    """
    if 2 * max(first.units.widths) > first.n:
        return np.nan
    small = first.on_matrices()
    wx, wy = small.whitened
    xx, yy = small.squares(A, B)
    T = wx.W.T @ small.matrices.Sxy @ wy.W
    Qx, Qy = (np.linalg.qr(w.W.T @ C)[0] for w, C in ((wx, xx), (wy, yy)))
    # A and B may carry more pairs than those of rho.
    P, _, Qt = np.linalg.svd(Qx.T @ T @ Qy)
    Qx, Qy = Qx @ P[:, : len(rho)], Qy @ Qt[: len(rho)].T
    T = T - Qx @ (Qx.T @ T)
    T = T - (T @ Qy) @ Qy.T
    P, _, Q, _ = leading_svd(T, min(len(rho), *T.shape))
    P, Q = wx.W @ P, wy.W @ Q
    xx, xy, _, yy = second.products(P, Q)
    squares = column_dots(P, xx) * column_dots(Q, yy)
    others = column_dots(P, xy) / np.sqrt(np.where(squares > 0, squares, np.inf))
    others -= 3 * (1 - np.minimum(others**2, 1.0)) / np.sqrt(second.n)
    best = np.maximum(np.sort(np.concatenate([rho, others]))[-len(rho) :], 0.0).sum()
    return float(1 - np.maximum(rho, 0.0).sum() / best) if best > 0 else 0.0
