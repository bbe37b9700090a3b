"""Stochastic AppGrad, Algorithm 5 of the paper: AppGrad's step on a few rows at a time.

    the paper                                               here
    initialization                                          `start` and `first_moves`
    randomly pick rows I, m of them                         `Minibatch`, in minibatches.py
    phi_t <- phi_t - eta1 X_I'(X_I phi_t - Y_I psi) / m     `step`
    SVD: phi_t'(X_I'X_I / m) phi_t = U'D U                  `measured`, and the SVD within `inverse_root`
    phi <- phi_t U'D^-1/2 U                                 `Move.normalised`
    the same for psi_t and psi                              both sides at a time

It differs from the paper only on request: gradients are multiplied by the inverse of a preconditioner M, rows
of the iterate are set to zero (sparse CCA, as in the paper's conclusion), and the normaliser comes from more
rows than those of the minibatch.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ...covariance.linalg import inverse_root
from ...covariance.operators import Covariance
from ...covariance.preconditioners import Preconditioner, damped, require_comparable
from ...machine.arrays import Array
from ..gradient import contained, in_phase, unit
from ..sparse.thresholds import Sparsity, thresholds_of
from .minibatches import Minibatch

Grams = tuple[Array, Array, Array]


class Iterate(NamedTuple):
    """The paper's variables with a tilde, and their normalisers: phi = phi_t Nx, psi = psi_t Ny."""

    phi_t: Array
    psi_t: Array
    normalisers: tuple[Array, Array]


class Move(NamedTuple):
    """Where a step leads: new phi_t and psi_t, not normalised yet.

    `grams` are phi_t'Sx phi_t, phi_t'Sxy psi_t and psi_t'Sy psi_t, on the rows of the normaliser.
    """

    phi_t: Array
    psi_t: Array
    grams: Grams

    def normalised(self) -> Iterate:
        """The iterate with normalisers (phi_t'Sx phi_t)^-1/2 and (psi_t'Sy psi_t)^-1/2."""
        Gx, _, Gy = self.grams
        return Iterate(self.phi_t, self.psi_t, (inverse_root(Gx), inverse_root(Gy)))


def start(batch: Minibatch, k: int, rng: np.random.Generator, M: Preconditioner) -> tuple[Array, Array]:
    """Directions of the first step: phi and psi are Gaussian and normalised, phi_t and psi_t zero.

    The gradients are then -Sxy psi and -Syx phi.
    """
    p1, p2 = batch.cov.units.widths
    phi, psi = M.gaussian(p1, p2, k, rng)
    with np.errstate(over="ignore", invalid="ignore"):
        Gx, _, Gy = batch.normaliser.grams(phi, psi)
    require_comparable(Gx, Gy)
    phi, psi = phi @ inverse_root(Gx), psi @ inverse_root(Gy)
    _, xy, yx, _ = start_rows(batch, k).products(phi, psi)
    yx = yx @ in_phase(phi.T @ xy)
    return M(xy, yx)


def start_rows(batch: Minibatch, k: int) -> Covariance:
    """The rows of the first step: with fewer than k, phi_t would be deficient for ever."""
    return batch.cov if batch.cov.n >= k else batch.ahead()


def first_moves(
    directions: tuple[Array, Array], batch: Minibatch, step_sizes: Iterable[tuple[float, float]]
) -> list[Move]:
    """The first step along these directions, for each pair of step sizes.

    Only the directions of the first iterate mean anything: it is made no longer than a fixed point.
    """
    (ux, length_x), (uy, length_y) = (unit(G) for G in directions)
    Gx, Gxy, Gy = batch.normaliser.grams(ux, uy)
    moves = []
    for eta1, eta2 in step_sizes:
        a, b = contained(eta1 * length_x, Gx), contained(eta2 * length_y, Gy)
        moves.append(Move(a * ux, b * uy, (a * a * Gx, a * b * Gxy, b * b * Gy)))
    return moves


def step(
    at: Iterate,
    batch: Minibatch,
    step_size: tuple[float, float],
    M: Preconditioner,
    sparsity: Sparsity | None = None,
) -> Move:
    """Take one step on the rows of the minibatch, each side from the other's last value.

    phi_t <- phi_t - eta1 M^-1 (Sx phi_t - Sxy psi)      psi_t <- psi_t - eta2 M^-1 (Sy psi_t - Syx phi)
    """
    eta1, eta2 = step_size
    gx, gy = M(*batch.cov.gradients(at.phi_t, at.psi_t, *at.normalisers))
    phi_t, psi_t = at.phi_t - eta1 * gx, at.psi_t - eta2 * gy
    if sparsity is not None:
        # The diagonal is that of all rows seen so far: a minibatch may lack a column altogether.
        thresholds = thresholds_of(sparsity, batch.cov.diagonal(), M)
        phi_t, psi_t = thresholds(phi_t, psi_t, eta1, eta2)
    return measured(phi_t, psi_t, batch)


def measured(phi_t: Array, psi_t: Array, batch: Minibatch) -> Move:
    """The move to phi_t and psi_t, with Gram matrices of the rows that normalise it."""
    return Move(phi_t, psi_t, batch.normaliser.grams(phi_t, psi_t))


def renewed(M: Preconditioner, batch: Minibatch) -> Preconditioner:
    """The preconditioner with its diagonal from all rows seen so far."""
    x, y = M
    if x is None or y is None:
        return M
    (mx, my), (ux, uy) = batch.moments.views, batch.cov.units.views
    peak_x, peak_y = batch.peaks
    return Preconditioner(
        x._replace(d=damped(mx.var, peak_x, ux.ridge).d * x.shield),
        y._replace(d=damped(my.var, peak_y, uy.ridge).d * y.shield),
    )
