"""AppGrad, Algorithms 3 and 4 of the paper: gradient steps on variables that are not normalised."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..covariance.linalg import captured, inverse_root
from ..covariance.operators import ColumnCovariance, Covariance
from ..covariance.preconditioners import Preconditioner, jacobi, largest, require_comparable
from ..data.derived import CountedViews
from ..data.views import Views
from ..machine.arrays import Array
from .batch import BatchSolver, Ready
from .costs import Cost, Rates, is_full, small_flops, thin, thin_memory
from .defaults import step_sizes
from .gradient import CALM, RUNAWAY, contained, cut, gradients, in_phase, is_lost, mean_square, unit
from .probe import ROUNDS, SHALLOW, Pairs, missing, probing
from .problem import Diagnostics, Limits, Problem, Products
from .protocol import Options, Outcome, Run
from .shortfall import lost_in_rounding, out_of_budget, unprobed
from .sparse.batch import refused_by_steps, sparse_run, sparse_start, unit_steps
from .sparse.thresholds import Thresholds, thresholds_of

# Iterations over which the gain of captured correlation is judged: one may gain nothing by chance.
WINDOW = 5

# Momentum, and the step in units of the longest that never overshoots. Momentum tolerates longer steps than
# plain descent, 2 (1 + MOMENTUM), and restarts without it: below 2 both are stable (docs/decisions/0004).
MOMENTUM, STEP = 0.95, 1.5
# Runs within a thousandth of the solution have residuals below 0.04 (MNIST, Mediamill): above this, one
# stalls.
FAR = 0.1
# Iterations to within a thousandth of the captured correlation, for full rows (MNIST, Mediamill: 39) and for
# sparse ones, where it is not expected to end before its limit with the default ridge.
EXPECTED = {True: 40, False: 1000}
# Doubles for each feature and column carried, at the peak (benchmarks/peak_memory.py).
DOUBLES = 24


class State(NamedTuple):
    """The paper's variables with a tilde, their products and normalisers: phi = phi_t Nx, psi = psi_t Ny.

    `size` is their mean square; `trail` and `sizes` are the correlations captured by the last few states and
    their mean squares. Momentum needs the variables `before` this state, and its `age` in iterations since
    the last start. Recovery needs `caution`, the part of the step that is left, and the last `good` state,
    None for the first. A probe is `due` after so many `iterations`.
    """

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
    iterations: int = 0
    due: int = 0

    @property
    def calm(self) -> State:
        """The last state worth returning to."""
        return self.good or self


@dataclass(frozen=True)
class AppGrad:
    """AppGrad with one product with the data an iteration; the normaliser is a k x k matrix.

        phi_t <- phi_t - eta1 M^-1 (Sx phi_t - Sxy psi),   phi = phi_t (phi_t'Sx phi_t)^-1/2
        psi_t <- psi_t - eta2 M^-1 (Sy psi_t - Syx phi),   psi = psi_t (psi_t'Sy psi_t)^-1/2

    With M the identity and momentum 0 this is exactly the paper's algorithm; rank 1 is the same with k = 1. A
    state carries its products: they measure it now and give the next gradient. `momentum` is the largest
    multiple of the last move that is added; it builds up as t / (t + 3) and starts anew when an iteration
    captures less than each of the last few (as O'Donoghue & Candes 2015 do for Nesterov's). `thresholds` set
    rows to zero between the gradient step and normalisation: sparse CCA, as in the paper's conclusion.
    `first` are variables to start from. `probe` is the number of iterations of conjugate gradients of a look
    beyond a run that gains little any more, 0 for none.
    """

    n_components: int
    step_size: tuple[float, float]
    preconditioner: Preconditioner = field(default_factory=Preconditioner)
    momentum: float = 0.0
    tol: float = 1e-4
    thresholds: Thresholds | None = None
    first: tuple[Array, Array] | None = None
    probe: int = 0
    rounds: int = ROUNDS

    def init(self, cov: Covariance, k: int, rng: np.random.Generator) -> tuple[State, Diagnostics]:
        """Take the first step, from phi and psi Gaussian and normalised, phi_t and psi_t zero."""
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
        # Only the directions of the first iterate matter: it is made no longer than a fixed point.
        (ux, length_x), (uy, length_y) = (unit(G) for G in self.preconditioner(xy @ Ny, yx @ Nx))
        products = cov.products(ux, uy)
        a = contained(self.step_size[0] * length_x, ux.T @ products[0])
        b = contained(self.step_size[1] * length_y, uy.T @ products[3])
        xx, xy, yx, yy = products
        state, diagnostics = self._measured(cov, a * ux, b * uy, (a * xx, b * xy, a * yx, b * yy))
        return state, diagnostics._replace(flops=diagnostics.flops + cov.flops(k))

    def start(self, cov: Covariance, phi_t: Array, psi_t: Array) -> tuple[State, Diagnostics]:
        """Return the state at given variables, such as a fixed point."""
        return self._measured(cov, phi_t, psi_t, cov.products(phi_t, psi_t))

    def step(self, state: State, cov: Covariance) -> tuple[State, Diagnostics]:
        """Take one step; if it runs away, return to the last calm state with a shorter step."""
        gx, gy = self.preconditioner(*gradients(state.products, *state.normalisers))
        with np.errstate(over="ignore", invalid="ignore"):
            phi_t, psi_t = self._moved(state, gx, gy)
            new, diagnostics = self._measured(cov, phi_t, psi_t, cov.products(phi_t, psi_t))
        if is_lost(new.size, diagnostics.tcc, state.calm.trail[-1]):
            return _recovered(state, new.size, diagnostics.flops)
        new = _followed(state, new)
        # Too short a step gains nothing either, but then phi_t still grows.
        if _settled(new.trail, self.tol) and _settled(new.sizes, 10 * self.tol) and new.iterations >= new.due:
            return self._confirmed(cov, new, diagnostics)
        return new, diagnostics

    def _confirmed(
        self, cov: Covariance, state: State, diagnostics: Diagnostics
    ) -> tuple[State, Diagnostics]:
        """Return whether a state that gains little an iteration also misses little."""
        if not self.probe:
            return state, diagnostics._replace(converged=True)
        k, M, tcc = self.n_components, self.preconditioner, state.trail[-1]
        span = Pairs(state.phi_t, state.psi_t, state.products, np.zeros(0))
        found = missing(cov, M, span, k, self.probe, self.rounds, self.tol * tcc)
        flops = diagnostics.flops + found.flops
        little = found.is_little(self.tol, tcc)
        # It is worth asking again after half as many iterations again.
        due = state.iterations + state.iterations // 2 + WINDOW
        if not little and found.is_found(self.tol, tcc):
            # At the solution, phi_t is phi diag(rho).
            A, B, (xx, xy, yx, yy), rho = found.pairs
            products = xx * rho, xy * rho, yx * rho, yy * rho
            new, diagnostics = self._measured(cov, A * rho, B * rho, products)
            state = new._replace(caution=state.caution, iterations=state.iterations)
        return state._replace(due=due), diagnostics._replace(converged=little, flops=flops)

    def _moved(self, state: State, gx: Array, gy: Array) -> tuple[Array, Array]:
        """Return phi_t and psi_t after a gradient step, with momentum and thresholds if asked for."""
        eta1, eta2 = (eta * state.caution for eta in self.step_size)
        phi_t, psi_t = state.phi_t - eta1 * gx, state.psi_t - eta2 * gy
        if self.momentum:
            beta = min(self.momentum, state.age / (state.age + 3))
            phi_t += beta * (state.phi_t - state.before[0])
            psi_t += beta * (state.psi_t - state.before[1])
        return (phi_t, psi_t) if self.thresholds is None else self.thresholds(phi_t, psi_t, eta1, eta2)

    def _measured(
        self, cov: Covariance, phi_t: Array, psi_t: Array, products: Products
    ) -> tuple[State, Diagnostics]:
        """Return the state at phi_t and psi_t: normalisers and the correlation they capture."""
        xx, xy, _, yy = products
        Gx, Gxy, Gy = phi_t.T @ xx, phi_t.T @ xy, psi_t.T @ yy
        c = phi_t.shape[1]
        flops = cov.flops(c) + small_flops(len(phi_t) + len(psi_t), c) + self.preconditioner.flops(c)
        size = mean_square(Gx, Gy)
        Nx, Ny, tcc = np.zeros((c, c)), np.zeros((c, c)), np.nan
        if size <= RUNAWAY:
            Nx, Ny, tcc = captured(Gx, Gxy, Gy, self.n_components, cov.precision)
        state = State(phi_t, psi_t, products, (Nx, Ny), size, (tcc,), (size,), (phi_t, psi_t))
        # Sparse states capture less than those that led to them, so the newest one counts.
        sparse = self.thresholds is not None
        return state, Diagnostics(phi_t, psi_t, tcc, flops, False, products, estimate=sparse)


def _recovered(state: State, size: float, flops: float) -> tuple[State, Diagnostics]:
    """Return the last calm state with a shorter step, after one that led to mean squares of `size`."""
    good = state.calm
    factor = cut(size, good.size)
    event = f"step cut to {1 / factor:.3g} of its size: the iterate ran away"
    found = Diagnostics(good.phi_t, good.psi_t, good.trail[-1], flops, False, good.products, event=event)
    return good._replace(caution=state.caution / factor, good=good), found


def _followed(state: State, new: State) -> State:
    """Return the new state with the history of the last; momentum starts anew if it captures less."""
    tcc = new.trail[-1]
    trail, sizes = (*state.trail, tcc)[-WINDOW - 1 :], (*state.sizes, new.size)[-WINDOW - 1 :]
    good = new._replace(trail=trail, sizes=sizes) if new.size <= CALM else state.calm
    age = state.age + 1 if tcc >= min(state.trail) else 0
    before = state.phi_t, state.psi_t
    new = new._replace(before=before, age=age, caution=state.caution, trail=trail, sizes=sizes, good=good)
    return new._replace(iterations=state.iterations + 1, due=state.due)


def _settled(trail: tuple[float, ...], tol: float) -> bool:
    """True if the values of `trail` changed by less than `tol` a pass over the last iterations."""
    return tol > 0 and len(trail) > WINDOW and max(trail) - min(trail) < WINDOW * tol * max(trail)


class AppGradSolver(BatchSolver):
    """AppGrad on all rows; with thresholds for components of few columns."""

    name = "appgrad"
    records: ClassVar[dict[str, Any]] = {"appgrad-state/1": State}

    def least_passes(self, views: Views, options: Options, kind: str | None) -> float:
        """Return the passes of any solver, and some for the length of the step."""
        least = super().least_passes(views, options, kind)
        measured = kind is not None or options.step_size is None
        return least + (spare_passes(options.limits) if measured else 0)

    def algorithm(self, ready: Ready) -> tuple[AppGrad, Limits]:
        """Return AppGrad with the step asked for, or with the longest safe one and momentum."""
        auto, limits = ready.options.step_size is None, ready.limits

        def bounds() -> tuple[float, float]:
            return largest(ready.cov, ready.preconditioner, ready.rng, spare_passes(limits))

        eta = step_sizes(ready.options, bounds, ready.kind is not None)
        if auto:
            eta = STEP * eta[0], STEP * eta[1]
        k, tol = ready.problem.n_components, ready.options.tol
        probe = 0
        if tol > 0:
            probe, limits = probing(ready.preconditioner, limits, ready.matrices, SHALLOW)
        momentum = MOMENTUM if auto else 0.0
        rounds = ROUNDS if limits.passes is None else 1
        return AppGrad(k, eta, ready.preconditioner, momentum, tol, probe=probe, rounds=rounds), limits

    def refuses(self, options: Options) -> str | None:
        """Return why options are refused: sparse components one by one, or with hard penalties."""
        return refused_by_steps(options)

    def prepare(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator, start: float
    ) -> Run:
        """Set up a run on all rows."""
        if options.sparsity is None:
            return super().prepare(views, problem, options, rng, start)
        return sparse_run(views, problem, options, partial(_thresholded, options=options, rng=rng))

    def cost(self, views: Views, k: int, rates: Rates) -> Cost:
        """Return the expected cost: one pass an iteration, and some for moments, preconditioner and step."""
        part = thin(views, k, rates)
        passes = 1.0 + 4 + EXPECTED[is_full(views)]
        memory = thin_memory(views, part.width, DOUBLES)
        return Cost(self.name, passes, passes * (part.one + part.algebra / 3), memory)

    def shortfalls(self, outcome: Outcome) -> list[str]:
        """Return warnings about a run that stalled, or ended on a budget."""
        options, worst = outcome.options, outcome.worst
        found = []
        # Residuals of sparse weights come from the columns they leave out.
        if outcome.progress.stopped == "converged" and worst > FAR and options.sparsity is None:
            found.append(
                f"appgrad gains less than tol={options.tol:g} an iteration, but residuals of up to "
                f"{worst:.2g} say that it is not at the solution: it captures a total correlation of "
                f"{outcome.captured:.4f}. Use a preconditioner, a longer step or a smaller tol"
            )
        return found + lost_in_rounding(outcome) + (out_of_budget(outcome) or unprobed(outcome))


def spare_passes(limits: Limits) -> int:
    """Return the passes for the length of the step: three, or fewer if passes are scarce."""
    return 3 if limits.passes is None else max(1, min(3, int(limits.passes / 8)))


def _thresholded(cov: ColumnCovariance, k: int, options: Options, rng: np.random.Generator) -> AppGrad:
    """Return AppGrad with the paper's step and a threshold, on all columns in every iteration."""
    assert options.sparsity is not None
    M = jacobi(cov)
    eta = options.steps or unit_steps(cov, rng)
    first = sparse_start(cov, k, options)
    thresholds = thresholds_of(options.sparsity, cov.diagonal(), M)
    return AppGrad(k, eta, M, 0.0, options.tol, thresholds, first)


SOLVER = AppGradSolver()
