"""Baselines of the paper: an incorrect gradient scheme and three approximate heuristics.

None of these finds canonical correlations in general. They are here for comparison only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..covariance.linalg import captured
from ..covariance.moments import moments
from ..covariance.operators import Covariance
from ..covariance.preconditioners import diagonal
from ..covariance.rows import RowCovariance
from ..covariance.units import units
from ..data.views import Views
from ..machine.arrays import Array
from ..solvers.canonical import canonical
from ..solvers.problem import Diagnostics, Problem, Products, Solution


class NaiveState(NamedTuple):
    """Normalised bases and their products."""

    phi: Array
    psi: Array
    products: Products


@dataclass(frozen=True)
class NaiveGradient:
    """INCORRECT: projected gradient descent, Algorithm 2 of the paper, of rank 1 or k.

        phi <- phi - eta1 (Sx phi - Sxy psi),  phi <- phi (phi'Sx phi)^-1/2,  likewise psi

    A gradient step and a projection on the constraint: it does not even stay at the canonical vectors when
    started there (Proposition 2.1), because the constraint is not convex. AppGrad is the remedy.
    """

    n_components: int
    step_size: tuple[float, float]

    def init(self, cov: Covariance, k: int, rng: np.random.Generator) -> tuple[NaiveState, Diagnostics]:
        """The state at random Gaussian bases, normalised."""
        p1, p2 = cov.units.widths
        return self.start(cov, rng.standard_normal((p1, k)), rng.standard_normal((p2, k)))

    def start(self, cov: Covariance, phi: Array, psi: Array) -> tuple[NaiveState, Diagnostics]:
        """The state at given bases, normalised."""
        xx, xy, yx, yy = cov.products(phi, psi)
        Nx, Ny, tcc = captured(phi.T @ xx, phi.T @ xy, psi.T @ yy, self.n_components)
        state = NaiveState(phi @ Nx, psi @ Ny, (xx @ Nx, xy @ Ny, yx @ Nx, yy @ Ny))
        return state, Diagnostics(state.phi, state.psi, tcc, cov.flops(phi.shape[1]), False, state.products)

    def step(self, state: NaiveState, cov: Covariance) -> tuple[NaiveState, Diagnostics]:
        """One step for both sides."""
        xx, xy, yx, yy = state.products
        eta1, eta2 = self.step_size
        return self.start(cov, state.phi - eta1 * (xx - xy), state.psi - eta2 * (yy - yx))


def nw_cca(views: Views, problem: Problem, rng: np.random.Generator) -> Solution:
    """APPROXIMATE: no whitening. The leading singular vectors of Sxy (Witten et al. 2009)."""
    cov = _covariance(views, problem)
    x, y = cov.diagonal()
    return _whitened_by(cov, np.ones_like(x), np.ones_like(y), problem.n_components, rng)


def dw_cca(views: Views, problem: Problem, rng: np.random.Generator) -> Solution:
    """APPROXIMATE: diagonal whitening. The leading singular vectors of Dx Sxy Dy (Lu & Foster 2014)."""
    cov = _covariance(views, problem)
    x, y = (diagonal(d).d for d in cov.diagonal())
    return _whitened_by(cov, x, y, problem.n_components, rng)


def pca_cca(views: Views, problem: Problem, m: int, rng: np.random.Generator) -> Solution:
    """APPROXIMATE: CCA of the m leading principal components of each view; all of them give CCA."""
    if m < problem.n_components:
        raise ValueError(f"m={m} components cannot hold n_components={problem.n_components}: use more")
    cov = _covariance(views, problem)
    A, B = (
        np.eye(p) if m >= p else rng.standard_normal((p, min(m + OVERSAMPLING, p)))
        for p in (views.n_features_x, views.n_features_y)
    )
    if m < max(len(A), len(B)):
        for _ in range(1 + POWERS):
            A, B = (np.linalg.qr(C)[0] for C in cov.squares(A, B))
        SA, SB = cov.squares(A, B)
        A, B = A @ _leading(A.T @ SA, m), B @ _leading(B.T @ SB, m)
    return canonical(cov, A, B, problem.n_components)


# Halko, Martinsson & Tropp (2011): ten extra columns and two rounds of powers give the leading singular
# vectors of a slowly decaying spectrum nearly as well as Lanczos would.
OVERSAMPLING, POWERS = 10, 2
# Singular values of a whitened covariance decay so slowly that two rounds may miss a third of their sum:
# there the rounds go on until the sum of the leading ones has settled.
MOST_ROUNDS, SETTLED = 100, 1e-4


def heuristic_flops(views: Views, k: int, rounds: int, m: int | None = None) -> float:
    """Multiplications and additions of `rounds` rounds of NW- or DW-CCA, or of PCA-CCA with m components.

    Products with the rows, 6 for each entry and column (4 for squares), and QR factors of bases, 4 p c^2.
    """
    p, rows = views.n_features_x + views.n_features_y, float(views.n_samples * views.entries)
    c, each = (k + OVERSAMPLING, 6) if m is None else (m + OVERSAMPLING, 4)
    powers = rounds * (each * rows * c + 4.0 * p * c**2)
    # PCA-CCA also turns the bases, and solves CCA of m + m columns by their Gram matrices.
    return powers if m is None else powers + 6 * rows * m + 4.0 * p * c * m + 3.0 * p * m**2 + 40.0 * m**3


def _covariance(views: Views, problem: Problem) -> Covariance:
    m = moments(views, problem.center)
    return RowCovariance(views, m, units(m, views.dtype, scale=problem.scale, ridge=problem.ridge))


def _whitened_by(cov: Covariance, dx: Array, dy: Array, k: int, rng: np.random.Generator) -> Solution:
    """The spans of the k leading singular vectors of diag(dx) Sxy diag(dy), by subspace iteration."""
    q = min(k + OVERSAMPLING, len(dx), len(dy))
    A, B, last = rng.standard_normal((len(dx), q)), rng.standard_normal((len(dy), q)), 0.0
    for _ in range(MOST_ROUNDS):
        A, B = np.linalg.qr(A)[0], np.linalg.qr(B)[0]
        products = cov.products(dx[:, None] * A, dy[:, None] * B, ridge=False)
        xy, yx = dx[:, None] * products[1], dy[:, None] * products[2]
        P, values, Qt = np.linalg.svd(A.T @ xy)
        captured = float(values[:k].sum())
        if abs(captured - last) <= SETTLED * captured:
            break
        last, kept = captured, (A, B)
        A, B = xy, yx
    else:
        A, B = kept
    P, Q = P[:, :k], Qt[:k].T
    xx, xy, yx, yy = products
    A, B = dx[:, None] * A, dy[:, None] * B
    return canonical(cov, A @ P, B @ Q, k, (xx @ P, xy @ Q, yx @ P, yy @ Q))


def _leading(G: Array, m: int) -> Array:
    """The m leading eigenvectors of a small symmetric matrix."""
    return np.asarray(np.linalg.eigh((G + G.T) / 2)[1][:, ::-1][:, :m])
