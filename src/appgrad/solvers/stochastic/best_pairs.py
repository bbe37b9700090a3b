"""The best pairs of a stochastic run, and their correlations on rows held out."""

from __future__ import annotations

import numpy as np

from ...covariance.linalg import inverse_root
from ...covariance.rows import RowCovariance
from ...machine.arrays import Array
from ..canonical import canonical
from ..problem import Diagnostics


def leading(diagnostics: Diagnostics, k: int) -> tuple[Array, Array]:
    """Return the k most correlated combinations of the columns of A and of B, as far as the step knows.

    The correlation matrix T of all combinations is known from rows, with noise, and from the iterates
    themselves: at a fixed point phi_t = Sx^-1 Sxy psi and psi_t = Sy^-1 Syx phi, so T is both
    (phi_t'Sx phi_t)^1/2 and (psi_t'Sy psi_t)^1/2. The two are weighed by how far they are apart, and how
    much of that is noise (Stein 1956).
    """
    if diagnostics.grams is None:
        return diagnostics.A, diagnostics.B
    Gx, Gxy, Gy = diagnostics.grams
    Nx, Ny = inverse_root(Gx), inverse_root(Gy)
    # Both are restricted to the range of both Gram matrices.
    T, fixed = Nx @ Gxy @ Ny, Nx @ Gx @ Nx @ (Gx @ Nx + Gy @ Ny) @ Ny @ Gy @ Ny / 2
    share = noise_share(T, fixed, diagnostics.rows)
    P, _, Qt = np.linalg.svd((1 - share) * T + share * fixed)
    return diagnostics.A @ (Nx @ P[:, :k]), diagnostics.B @ (Ny @ Qt[:k].T)


def noise_share(T: Array, fixed: Array, rows: float) -> float:
    """The share of the distance of a correlation matrix from a fixed one that noise of `rows` rows explains.

    Sample canonical correlations have variances of (1 - rho_i^2) (1 - rho_j^2) / rows, about. Their own
    squares are too large by c / rows (1 - rho^2), c the number of columns.
    """
    c = len(T)
    if rows <= 2 * c:
        return 1.0
    squares = np.minimum(np.linalg.svd(T, compute_uv=False), 1.0) ** 2
    lost = 1 - np.maximum((squares - c / rows) / (1 - c / rows), 0.0)
    apart, noise = float(np.sum((T - fixed) ** 2)), float(np.sum(lost)) ** 2 / rows
    return noise / apart if apart > noise else 1.0


def judged_correlations(
    diagnostics: Diagnostics, halves: tuple[RowCovariance, RowCovariance], k: int
) -> Array | None:
    """Correlations of the best pairs, found on one half of rows held out and correlated on the other.

    The mean of both ways; None if there are too few rows.
    """
    A, B = leading(diagnostics, k)
    if halves[0].n <= 2 * A.shape[1]:
        return None
    found = []
    for here, there in (halves, halves[::-1]):
        try:
            pairs = canonical(here, A, B, k)
        except ValueError:
            return None
        Gx, Gxy, Gy = there.grams(pairs.x_weights, pairs.y_weights)
        spread = np.sqrt(np.diag(Gx) * np.diag(Gy))
        found.append(np.diag(Gxy) / np.where(spread > 0, spread, np.inf))
    return np.asarray(np.clip(np.sort(np.mean(found, axis=0))[::-1], 0.0, 1.0))
