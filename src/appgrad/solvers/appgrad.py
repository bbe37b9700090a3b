"""AppGrad, Algorithms 3 and 4 of the paper: gradient steps on what is not normalised."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..covariance.linalg import captured, inverse_root
from ..covariance.operators import Covariance
from ..covariance.preconditioners import Preconditioner
from ..machine.arrays import Array
from .effort import require_comparable, small_flops
from .gradient import CALM, RUNAWAY, contained, cut, gradients, in_phase, is_lost, mean_square, unit
from .problem import Products, Report
from .sparse.thresholds import Thresholds

# Iterations over which the gain of captured correlation is judged: one may gain nothing by chance.
WINDOW = 5


class State(NamedTuple):
    """The paper's variables with a tilde, their products, and what momentum and caution need."""

    phi_t: Array
    psi_t: Array
    products: Products
    normalisers: tuple[Array, Array]
    size: float
    trail: tuple[float, ...]
    sizes: tuple[float, ...]
    before: tuple[Array, Array]
    age: int = 0
    caution: float = 1.0
    good: State | None = None


@dataclass(frozen=True)
class AppGrad:
    """One product with the data an iteration; the normaliser is a k x k matrix.

        phi_t <- phi_t - eta1 M^-1 (Sx phi_t - Sxy psi),   phi = phi_t (phi_t'Sx phi_t)^-1/2
        psi_t <- psi_t - eta2 M^-1 (Sy psi_t - Syx phi),   psi = psi_t (psi_t'Sy psi_t)^-1/2

    With M the identity and momentum 0 this is the paper to the letter; rank 1 is the same with k = 1. The
    products of a state are carried in it: they measure it now and give the next gradient. `momentum` is
    the largest multiple of the last move that is added; it builds up as t / (t + 3) and starts anew when
    an iteration captures less than each of the last few (as O'Donoghue & Candes 2015 do for Nesterov's).
    `thresholds` set rows to zero between the gradient step and normalisation: sparse CCA, as the paper's
    conclusion has it. `first` are variables to start from.
    """

    n_components: int
    step_size: tuple[float, float]
    preconditioner: Preconditioner = field(default_factory=Preconditioner)
    momentum: float = 0.0
    tol: float = 1e-4
    thresholds: Thresholds | None = None
    first: tuple[Array, Array] | None = None

    def init(self, cov: Covariance, k: int, rng: np.random.Generator) -> tuple[State, Report]:
        """The first step, from phi and psi Gaussian and normalised, phi_t and psi_t zero."""
        if self.first is not None:
            return self.start(cov, *self.first)
        p1, p2 = cov.units.widths
        phi, psi = self.preconditioner.gaussian(p1, p2, k, rng)
        with np.errstate(over="ignore", invalid="ignore"):
            xx, xy, yx, yy = cov.products(phi, psi)
            Gx, Gy = phi.T @ xx, psi.T @ yy
        require_comparable(Gx, Gy)
        Nx, Ny = inverse_root(Gx, cov.precision), inverse_root(Gy, cov.precision)
        Nx = Nx @ in_phase(Nx.T @ (phi.T @ xy) @ Ny)
        # Of the first iterate only the directions mean anything: it is no longer than a fixed point.
        (ux, length_x), (uy, length_y) = (unit(G) for G in self.preconditioner(xy @ Ny, yx @ Nx))
        products = cov.products(ux, uy)
        a = contained(self.step_size[0] * length_x, ux.T @ products[0])
        b = contained(self.step_size[1] * length_y, uy.T @ products[3])
        xx, xy, yx, yy = products
        state, report = self._measured(cov, a * ux, b * uy, (a * xx, b * xy, a * yx, b * yy))
        return state, report._replace(flops=report.flops + cov.flops(k))

    def start(self, cov: Covariance, phi_t: Array, psi_t: Array) -> tuple[State, Report]:
        """A state at given variables, such as a fixed point."""
        return self._measured(cov, phi_t, psi_t, cov.products(phi_t, psi_t))

    def step(self, state: State, cov: Covariance) -> tuple[State, Report]:
        """One iteration; where it runs away, the last calm state and a shorter step."""
        gx, gy = self.preconditioner(*gradients(state.products, *state.normalisers))
        eta1, eta2 = (eta * state.caution for eta in self.step_size)
        with np.errstate(over="ignore", invalid="ignore"):
            phi_t, psi_t = state.phi_t - eta1 * gx, state.psi_t - eta2 * gy
            if self.momentum:
                beta = min(self.momentum, state.age / (state.age + 3))
                phi_t += beta * (state.phi_t - state.before[0])
                psi_t += beta * (state.psi_t - state.before[1])
            if self.thresholds is not None:
                phi_t, psi_t = self.thresholds(phi_t, psi_t, eta1, eta2)
            new, report = self._measured(cov, phi_t, psi_t, cov.products(phi_t, psi_t))
        good = state.good or state
        if is_lost(new.size, report.tcc, good.trail[-1]):
            factor = cut(new.size, good.size)
            caution = state.caution / factor
            event = f"step cut to {1 / factor:.3g} of its size: the iterate ran away"
            last = Report(good.phi_t, good.psi_t, good.trail[-1], report.flops, False, good.products)
            return good._replace(caution=caution, good=good), last._replace(event=event)
        trail = (*state.trail, report.tcc)[-WINDOW - 1 :]
        sizes = (*state.sizes, new.size)[-WINDOW - 1 :]
        if new.size <= CALM:
            good = new._replace(trail=trail, sizes=sizes)
        age = state.age + 1 if report.tcc >= min(state.trail) else 0
        before = state.phi_t, state.psi_t
        new = new._replace(before=before, age=age, caution=state.caution, trail=trail, sizes=sizes, good=good)
        # A step that is too short gains nothing either, but phi_t still grows.
        converged = settled(trail, self.tol) and settled(sizes, 10 * self.tol)
        return new, report._replace(converged=converged)

    def _measured(
        self, cov: Covariance, phi_t: Array, psi_t: Array, products: Products
    ) -> tuple[State, Report]:
        """The state at phi_t and psi_t: normalisers and the correlation they capture."""
        xx, xy, _, yy = products
        Gx, Gxy, Gy = phi_t.T @ xx, phi_t.T @ xy, psi_t.T @ yy
        c = phi_t.shape[1]
        flops = cov.flops(c) + small_flops(len(phi_t) + len(psi_t), c) + self.preconditioner.flops(c)
        size = mean_square(Gx, Gy)
        Nx, Ny, tcc = np.zeros((c, c)), np.zeros((c, c)), np.nan
        if size <= RUNAWAY:
            Nx, Ny, tcc = captured(Gx, Gxy, Gy, self.n_components, cov.precision)
        state = State(phi_t, psi_t, products, (Nx, Ny), size, (tcc,), (size,), (phi_t, psi_t))
        # A sparse state captures less than one on its way to it.
        sparse = self.thresholds is not None
        return state, Report(phi_t, psi_t, tcc, flops, False, products, estimate=sparse)


def settled(trail: tuple[float, ...], tol: float) -> bool:
    """Whether something changed by less than `tol` a pass over the last iterations."""
    return tol > 0 and len(trail) > WINDOW and max(trail) - min(trail) < WINDOW * tol * max(trail)
