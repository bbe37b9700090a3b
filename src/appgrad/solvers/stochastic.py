"""Stochastic AppGrad, Algorithm 5 of the paper: the same step on a few rows at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..covariance import Covariance
from ..linalg import captured, inverse_root
from ..minibatches import Minibatch
from ..preconditioners import Preconditioner, damped
from ..solve import Products, Report
from ..views import Array
from .appgrad import CALM, RUNAWAY, gradients, in_phase, mean_square, require_comparable, small_flops

# Steps tried side by side, as multiples of the current one (docs/decisions/0004).
TRIALS = (0.5, 1.0, 2.0)
# Shares of the run at which decisions are taken on rows to come: up to a quarter, which step goes on; at
# half, averaging begins; after that, whether it begins anew.
HALF = 1 / 2
CHECKS = (1 / 32, 1 / 16, 1 / 8, 1 / 4, HALF, 5 / 8, 3 / 4, 7 / 8)
# Captured correlation is estimated from the Gram matrices of the last fifty normalisers or so.
SMOOTHING = 0.02


class Trial(NamedTuple):
    """One run of the algorithm with its own step.

    The variables with a tilde, their normalisers and the Gram matrices these come from, smoothed; the last
    state worth returning to; the averages of the iterates, and of their products, since a moment.
    """

    multiple: float
    phi_t: Array
    psi_t: Array
    normalisers: tuple[Array, Array]
    grams: tuple[Array, Array, Array]
    good: tuple[Array, Array] | None
    weight: int
    means: tuple[Array, ...]
    mean_grams: tuple[Array, Array, Array]


class State(NamedTuple):
    """The trials under way, the checks behind them, and whether their iterates are averaged by now."""

    trials: tuple[Trial, ...]
    checks: int = 0
    averaging: bool = False


@dataclass(frozen=True)
class Stochastic:
    """AppGrad's step on minibatches, with the normaliser of the new iterate from sampled rows.

        phi_t <- phi_t - eta_t M^-1 (Sx phi_t - Sxy psi),  phi = phi_t (phi_t'Sx phi_t)^-1/2,  likewise psi

    Sx, Sxy, Sy are those of the minibatch, and in the normaliser those of the rows that follow it (or of the
    minibatch itself). With `adaptive` False this is Algorithm 5 with a constant step. With True its size is
    chosen on rows to come, it falls to zero over the second half of the run, and the result is the average
    of the iterates of that half (Polyak & Juditsky 1992).
    """

    n_components: int
    step_size: tuple[float, float]
    preconditioner: Preconditioner = field(default_factory=Preconditioner)
    adaptive: bool = False

    def init(self, batch: Minibatch, k: int, rng: np.random.Generator) -> tuple[State, Report]:
        """The first step, from phi and psi Gaussian and normalised, phi_t and psi_t zero."""
        p1, p2 = len(batch.moments.mean_x), len(batch.moments.mean_y)
        phi, psi = self._preconditioner(batch).gaussian(p1, p2, k, rng)
        with np.errstate(over="ignore", invalid="ignore"):
            Gx, _, Gy = batch.normaliser.grams(phi, psi)
        require_comparable(Gx, Gy)
        phi, psi = phi @ inverse_root(Gx), psi @ inverse_root(Gy)
        zero = np.zeros_like(phi), np.zeros_like(psi)
        start = np.zeros((k, k)), np.zeros((k, k)), np.zeros((k, k))
        first = Trial(1.0, *zero, (np.eye(k), np.eye(k)), start, None, 0, (), start)
        trials = tuple(first._replace(multiple=m) for m in TRIALS) if self.adaptive else (first,)
        # phi_t = 0 has the products 0; those of phi and psi take their place in the first gradient.
        _, xy, yx, _ = batch.cov.products(phi, psi)
        yx = yx @ in_phase(phi.T @ xy)
        products = (np.zeros_like(xy), xy, yx, np.zeros_like(yx))
        state, report = self._advanced(State(trials), batch, (products,) * len(trials))
        fresh = tuple(_forgotten(trial) for trial in state.trials)
        return state._replace(trials=fresh), report

    def step(self, state: State, batch: Minibatch) -> tuple[State, Report]:
        """One minibatch for every trial; at a check, all trials start anew around the best."""
        products = tuple(batch.cov.products(trial.phi_t, trial.psi_t) for trial in state.trials)
        return self._advanced(state, batch, products)

    def _advanced(
        self, state: State, batch: Minibatch, products: tuple[Products, ...]
    ) -> tuple[State, Report]:
        M = self._preconditioner(batch)
        event = None
        trials = []
        for trial, found in zip(state.trials, products, strict=True):
            if self.adaptive and (state.averaging or len(state.trials) > 1):
                trial = _remembered(trial, found if state.averaging else ())
            moved, cut = self._moved(trial, found, batch, M)
            trials.append(moved)
            event = cut if cut is not None and len(state.trials) == 1 else event
        state = state._replace(trials=tuple(trials))
        c = trials[0].phi_t.shape[1]
        flops = len(trials) * (
            batch.cov.flops(c)
            + batch.normaliser.flops(c) / 3
            + small_flops(len(trials[0].phi_t) + len(trials[0].psi_t), c)
        )
        if self.adaptive:
            state, cost = self._checked(state, batch)
            flops += cost
        return state, self._report(state, flops, event)

    def _moved(
        self, trial: Trial, products: Products, batch: Minibatch, M: Preconditioner
    ) -> tuple[Trial, str | None]:
        """One step of one trial; where it runs away, the last good state with half the step."""
        fall = min(1.0, 2 * (1 - batch.share)) if self.adaptive else 1.0
        eta1, eta2 = (fall * trial.multiple * eta for eta in self.step_size)
        with np.errstate(over="ignore", invalid="ignore"):
            gx, gy = M(*gradients(products, *trial.normalisers))
            phi_t, psi_t = trial.phi_t - eta1 * gx, trial.psi_t - eta2 * gy
            Gx, Gxy, Gy = batch.normaliser.grams(phi_t, psi_t)
        if not mean_square(Gx, Gy) <= RUNAWAY:
            trial = trial._replace(multiple=trial.multiple / 2)
            event = f"step cut to {trial.multiple:.3g} of its size: the iterate ran away"
            if trial.good is None:
                # The very first step, which only has to be finite: see below.
                trial = trial._replace(multiple=trial.multiple / 2**40)
                return self._moved(trial, products, batch, M)[0], event
            phi_t, psi_t = trial.good
            Gx, _, Gy = batch.normaliser.grams(phi_t, psi_t)
            normalisers = inverse_root(Gx), inverse_root(Gy)
            return trial._replace(phi_t=phi_t, psi_t=psi_t, normalisers=normalisers), event
        share = SMOOTHING if np.any(trial.grams[0]) else 1.0
        calm = mean_square(Gx, Gy) <= CALM
        if not calm and trial.good is None:
            # Of the first iterate only the directions mean anything yet.
            x, y = (np.sqrt(len(G) / max(np.trace(G), len(G))) for G in (Gx, Gy))
            phi_t, psi_t, Gx, Gxy, Gy, calm = x * phi_t, y * psi_t, x * x * Gx, x * y * Gxy, y * y * Gy, True
        return trial._replace(
            phi_t=phi_t,
            psi_t=psi_t,
            normalisers=(inverse_root(Gx), inverse_root(Gy)),
            grams=_towards(trial.grams, (Gx, Gxy, Gy), share),
            good=(phi_t, psi_t) if calm else trial.good,
        ), None

    def _preconditioner(self, batch: Minibatch) -> Preconditioner:
        """The preconditioner with its diagonal from all rows seen so far."""
        x, y = self.preconditioner
        if x is None or y is None:
            return self.preconditioner
        m, (peak_x, peak_y) = batch.moments, batch.peaks
        return Preconditioner(
            x._replace(d=damped(m.var_x, peak_x).d), y._replace(d=damped(m.var_y, peak_y).d)
        )

    def _checked(self, state: State, batch: Minibatch) -> tuple[State, float]:
        """What is decided on rows to come, at certain shares of the run.

        While steps are tried, the trial that captures most goes on, with steps around its own. Later, the
        average of the iterates starts anew where the newest is ahead of it: the run is still on its way.
        """
        if state.checks == len(CHECKS) or batch.share < CHECKS[state.checks]:
            return state, 0.0
        state = state._replace(checks=state.checks + 1)
        if CHECKS[state.checks - 1] == HALF:
            return state._replace(trials=(_forgotten(state.trials[0]),), averaging=True), 0.0
        ahead = batch.ahead()
        if state.averaging:
            (trial,) = state.trials
            newest, mean = (
                self._captured(ahead, *bases) for bases in ((trial.phi_t, trial.psi_t), trial.means[:2])
            )
            # More than the noise of two thousand rows.
            if newest > 1.01 * mean:
                state = state._replace(trials=(_forgotten(trial),))
            return state, 2 / 3 * ahead.flops(trial.phi_t.shape[1])
        scores = [self._captured(ahead, *trial.means[:2]) for trial in state.trials]
        best = state.trials[int(np.argmax(scores))]
        around = TRIALS if CHECKS[state.checks] < HALF else (1.0,)
        trials = tuple(_forgotten(best._replace(multiple=best.multiple * m)) for m in around)
        return state._replace(trials=trials), len(scores) / 3 * ahead.flops(best.phi_t.shape[1])

    def _captured(self, cov: Covariance, A: Array, B: Array) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            Gx, Gxy, Gy = cov.grams(A, B)
        if not mean_square(Gx, Gy) <= RUNAWAY:
            return 0.0
        return captured(Gx, Gxy, Gy, self.n_components)[2]

    def _report(self, state: State, flops: float, event: str | None) -> Report:
        trial = state.trials[len(state.trials) // 2]
        tcc = captured(*trial.grams, self.n_components)[2]
        if state.averaging and trial.weight:
            A, B, *products = trial.means
            known = Report(A, B, tcc, flops, False, tuple(products), trial.mean_grams)  # type: ignore[arg-type]
            return known._replace(estimate=True, event=event)
        return Report(trial.phi_t, trial.psi_t, tcc, flops, False, estimate=True, event=event)


def _forgotten(trial: Trial) -> Trial:
    """A trial whose averages start anew."""
    return trial._replace(weight=0, means=())


def _remembered(trial: Trial, products: tuple[Array, ...]) -> Trial:
    """The averages with the iterate before the step, and with its products on rows it has not seen.

    The mean of S_t phi_t over fresh minibatches estimates S times the mean of phi_t. Not so the product of
    both means, for later iterates have been fitted to S_t: Gram matrices are averaged over pairs of which
    neither has, the mean of the iterates up to t with S_t phi_t.
    """
    weight, new = trial.weight + 1, (trial.phi_t, trial.psi_t, *products)
    means = new if weight == 1 else _towards(trial.means, new, 1 / weight)
    if not products:
        return trial._replace(weight=weight, means=means)
    phi, psi = means[:2]
    xx, xy, yx, yy = products
    grams = phi.T @ xx, (phi.T @ xy + (psi.T @ yx).T) / 2, psi.T @ yy
    mean_grams = _towards(trial.mean_grams, grams, 2 / (weight + 1))
    return trial._replace(weight=weight, means=means, mean_grams=mean_grams)


def _towards(means: Any, new: tuple[Array, ...], share: float) -> Any:
    """Running means with a share of something new."""
    return tuple(a + share * (b - a) for a, b in zip(means, new, strict=True))
