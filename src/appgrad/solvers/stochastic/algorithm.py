"""Stochastic AppGrad, Algorithm 5 of the paper: the same step on a few rows at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...covariance.linalg import captured, inverse_root
from ...covariance.preconditioners import Preconditioner, damped
from ...covariance.rows import RowCovariance
from ...machine.arrays import Array
from ..effort import require_comparable, small_flops
from ..gradient import CALM, RUNAWAY, contained, cut, in_phase, is_lost, mean_square, unit
from ..problem import Report
from ..sparse.thresholds import Sparsity, largest_rows, thresholds_of
from .minibatches import Minibatch
from .pairs import held_out

# Steps tried side by side, as multiples of the current one (docs/decisions/0004).
TRIALS = (0.5, 1.0, 2.0)
# Shares of the run at which decisions are taken on rows to come: up to a quarter, which step goes on; from
# half on, where averaging begins, whether it begins anew.
HALF, LAST_TRIALS = 1 / 2, 1 / 4
CHECKS = (1 / 32, 1 / 16, 1 / 8, LAST_TRIALS, 5 / 8, 3 / 4, 7 / 8)
# The checks that are behind at half of the run.
AT_HALF = sum(share <= HALF for share in CHECKS)
# What is captured on rows to come has grown by more than the noise of two thousand of them.
GAIN = 1.01
# Captured correlation is estimated from the Gram matrices of the last fifty normalisers or so.
SMOOTHING = 0.02
# What is left of a step after unusual rows doubles in eight calm minibatches: one in ten may be unusual.
RECOVERY = 2 ** (1 / 8)


class Trial(NamedTuple):
    """One run of the algorithm with its own step.

    The variables with a tilde, their normalisers and the Gram matrices these come from, smoothed; the last
    state worth returning to and the most it captured; the averages of the iterates since a moment, their
    Gram matrices, and as how many rows these are worth; what is left of the step after unusual rows.
    """

    multiple: float
    phi_t: Array
    psi_t: Array
    normalisers: tuple[Array, Array]
    grams: tuple[Array, Array, Array]
    good: tuple[Array, Array]
    best: float = 0.0
    weight: int = 0
    means: tuple[Array, ...] = ()
    mean_grams: tuple[Array, Array, Array] | None = None
    mean_rows: float = 0.0
    caution: float = 1.0


class State(NamedTuple):
    """The trials under way, the checks behind them, whether their iterates are averaged by now.

    And the correlations on rows held out until then, once they have been judged; the most that was captured
    on rows to come at any check, and at those before the half of the run.
    """

    trials: tuple[Trial, ...]
    checks: int = 0
    averaging: bool = False
    judged: Array | None = None
    most: float = 0.0
    before: float = 0.0

    @property
    def on_its_way(self) -> bool:
        """Whether more has been captured since the half of the run than ever before."""
        return self.most > GAIN * self.before


@dataclass(frozen=True)
class Stochastic:
    """AppGrad's step on minibatches, with the normaliser of the new iterate from sampled rows.

        phi_t <- phi_t - eta_t M^-1 (Sx phi_t - Sxy psi),  phi = phi_t (phi_t'Sx phi_t)^-1/2,  likewise psi

    Sx, Sxy, Sy are those of the minibatch, and in the normaliser those of the rows that follow it (or of the
    minibatch itself). With `adaptive` False this is Algorithm 5 with a constant step. With True its size is
    chosen on rows to come, it falls to zero over the second half of the run, and the result is the average
    of the iterates of that half (Polyak & Juditsky 1992). With `sparsity`, rows are set to zero between the
    gradient step and normalisation; of an average, those stay that most of its iterates have. `first` are
    variables to start from.
    """

    n_components: int
    step_size: tuple[float, float]
    preconditioner: Preconditioner = field(default_factory=Preconditioner)
    adaptive: bool = False
    sparsity: Sparsity | None = None
    first: tuple[Array, Array] | None = None

    def init(self, batch: Minibatch, k: int, rng: np.random.Generator) -> tuple[State, Report]:
        """The first step, from phi and psi Gaussian and normalised, phi_t and psi_t zero."""
        p1, p2 = batch.cov.units.widths
        M = self._preconditioner(batch)
        # Fewer rows than columns would leave phi_t deficient for ever: take all that are at hand.
        rows = batch.cov if batch.cov.n >= k else batch.ahead()
        phi, psi = M.gaussian(p1, p2, k, rng)
        with np.errstate(over="ignore", invalid="ignore"):
            Gx, _, Gy = batch.normaliser.grams(phi, psi)
        require_comparable(Gx, Gy)
        phi, psi = phi @ inverse_root(Gx), psi @ inverse_root(Gy)
        _, xy, yx, _ = rows.products(phi, psi)
        yx = yx @ in_phase(phi.T @ xy)
        # Of the first iterate only the directions mean anything: it is no longer than a fixed point.
        (ux, length_x), (uy, length_y) = (unit(G) for G in (M(xy, yx) if self.first is None else self.first))
        Gx, Gxy, Gy = batch.normaliser.grams(ux, uy)
        trials = []
        for multiple in TRIALS if self.adaptive else (1.0,):
            eta1, eta2 = (1.0 if self.first is not None else multiple * step for step in self.step_size)
            a, b = contained(eta1 * length_x, Gx), contained(eta2 * length_y, Gy)
            grams = a * a * Gx, a * b * Gxy, b * b * Gy
            first = a * ux, b * uy
            normalisers = inverse_root(grams[0]), inverse_root(grams[2])
            trials.append(Trial(multiple, *first, normalisers, grams, first))
        flops = rows.flops(k) + 2 * batch.normaliser.gram_flops(k) + small_flops(p1 + p2, k)
        state = State(tuple(trials))
        return state, self._report(state, flops, None)

    def step(self, state: State, batch: Minibatch) -> tuple[State, Report]:
        """One minibatch for every trial; at a check, all trials start anew around the best."""
        M, flops = self._preconditioner(batch), 0.0
        c = state.trials[0].phi_t.shape[1]
        if batch.judges is not None:
            halves = batch.judges()
            judged = held_out(self._report(state, 0.0, None), halves, self.n_components)
            state, flops = state._replace(judged=judged), 2.0 * sum(half.flops(c) for half in halves)
        proved = self.adaptive and len(state.trials) == 1
        trials, events = zip(*(self._moved(trial, batch, M, proved) for trial in state.trials), strict=True)
        if self.adaptive and (state.averaging or len(trials) > 1):
            trials = tuple(
                _remembered(trial, batch if state.averaging else None, self.sparsity is not None)
                for trial in trials
            )
        state = state._replace(trials=trials)
        p = len(trials[0].phi_t) + len(trials[0].psi_t)
        one = batch.cov.gradient_flops(c) + batch.normaliser.gram_flops(c) + small_flops(p, c) + M.flops(c)
        flops += len(trials) * one + state.averaging * batch.normaliser.gram_flops(c)
        if self.adaptive:
            state, cost = self._checked(state, batch)
            flops += cost
        return state, self._report(state, flops, next(filter(None, events), None))

    def _moved(
        self, trial: Trial, batch: Minibatch, M: Preconditioner, proved: bool
    ) -> tuple[Trial, str | None]:
        """One step of one trial; where it runs away, the last good state and a shorter step.

        Of a step that has `proved` itself on other rows, these are unusual: they are left out, and it is
        halved for a while.
        """
        fall = min(1.0, 2 * (1 - batch.share)) if self.adaptive else 1.0
        eta1, eta2 = (fall * trial.multiple * trial.caution * eta for eta in self.step_size)
        with np.errstate(over="ignore", invalid="ignore"):
            gx, gy = M(*batch.cov.gradients(trial.phi_t, trial.psi_t, *trial.normalisers))
            phi_t, psi_t = trial.phi_t - eta1 * gx, trial.psi_t - eta2 * gy
            if self.sparsity is not None:
                # Of all rows seen so far; a minibatch may lack a column altogether.
                thresholds = thresholds_of(self.sparsity, batch.cov.diagonal(), M)
                phi_t, psi_t = thresholds(phi_t, psi_t, eta1, eta2)
            found = batch.normaliser.grams(phi_t, psi_t)
        size = mean_square(found[0], found[2])
        grams = trial.grams
        if size <= RUNAWAY:
            grams = _towards(grams, found, SMOOTHING)
        tcc = captured(*grams, self.n_components)[2]
        if is_lost(size, tcc, trial.best):
            if proved:
                trial = trial._replace(caution=trial.caution / 2)
                event = "minibatch left out, step halved for a while: the iterate ran away"
            else:
                factor = cut(size, mean_square(trial.grams[0], trial.grams[2]))
                trial = trial._replace(multiple=trial.multiple / factor)
                event = f"step cut to {1 / factor:.3g} of its size: the iterate ran away"
            phi_t, psi_t = trial.good
            Gx, _, Gy = batch.normaliser.grams(phi_t, psi_t)
            normalisers = inverse_root(Gx), inverse_root(Gy)
            return trial._replace(phi_t=phi_t, psi_t=psi_t, normalisers=normalisers), event
        return trial._replace(
            phi_t=phi_t,
            psi_t=psi_t,
            normalisers=(inverse_root(found[0]), inverse_root(found[2])),
            grams=grams,
            good=(phi_t, psi_t) if size <= CALM else trial.good,
            best=max(trial.best, tcc),
            caution=min(1.0, RECOVERY * trial.caution),
        ), None

    def _preconditioner(self, batch: Minibatch) -> Preconditioner:
        """The preconditioner with its diagonal from all rows seen so far."""
        x, y = self.preconditioner
        if x is None or y is None:
            return self.preconditioner
        (mx, my), (ux, uy) = batch.moments.views, batch.cov.units.views
        peak_x, peak_y = batch.peaks
        return Preconditioner(
            x._replace(d=damped(mx.var, peak_x, ux.ridge).d * x.shield),
            y._replace(d=damped(my.var, peak_y, uy.ridge).d * y.shield),
        )

    def _checked(self, state: State, batch: Minibatch) -> tuple[State, float]:
        """What is decided on rows to come, at certain shares of the run.

        While steps are tried, the trial that captures most goes on, with steps around its own. Later, the
        average of the iterates starts anew where the newest is ahead of it, and of all that was captured
        before: the run is still on its way. On rows that have changed it is ahead of the average alone.
        """
        trials, checks, most = state.trials, state.checks, state.most
        racing = len(trials) > 1
        due = checks < len(CHECKS) and batch.share >= CHECKS[checks]
        half = not state.averaging and batch.share >= HALF
        # Three steps at least, or there is nothing to compare.
        if not (half or (due and trials[0].weight >= 3)):
            return state, 0.0
        ahead, c, cost = batch.ahead(), trials[0].phi_t.shape[1], 0.0
        if racing:
            scores = [self._captured(ahead, *trial.means[:2]) for trial in trials]
            cost = len(trials) * ahead.gram_flops(c)
            middle = len(trials) // 2
            best = int(np.argmax(scores)) if max(scores) > scores[middle] else middle
            around = TRIALS if not half and batch.share < LAST_TRIALS else (1.0,)
            winner, most = forgotten(trials[best]), max(most, *scores)
            trials = tuple(winner._replace(multiple=winner.multiple * m) for m in around)
        elif state.averaging and batch.left >= ahead.n:
            # Rows that steps have used would flatter the newest.
            (trial,) = trials
            newest, mean = (
                self._captured(ahead, *bases) for bases in ((trial.phi_t, trial.psi_t), trial.means[:2])
            )
            cost = 2 * ahead.gram_flops(c)
            if newest > GAIN * max(mean, most):
                trials = (forgotten(trial),)
            most = max(most, newest, mean)
        return State(
            trials,
            checks + due,
            state.averaging or half,
            state.judged,
            most,
            before=most if half else state.before,
        ), cost

    def _captured(self, cov: RowCovariance, A: Array, B: Array) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            Gx, Gxy, Gy = cov.grams(A, B)
        if not mean_square(Gx, Gy) <= RUNAWAY:
            return 0.0
        return captured(Gx, Gxy, Gy, self.n_components)[2]

    def _report(self, state: State, flops: float, event: str | None) -> Report:
        trial = state.trials[len(state.trials) // 2]
        tcc = captured(*trial.grams, self.n_components)[2]
        averaged = state.averaging and trial.weight > 0
        A, B = trial.means[:2] if averaged else (trial.phi_t, trial.psi_t)
        found = Report(A, B, tcc, flops, False, estimate=True, event=event, judged=state.judged)
        if averaged and self.sparsity is not None:
            counts = self.sparsity.n_nonzero or (len(A), len(B))
            A, B = _of_most(A, trial.means[2], counts[0]), _of_most(B, trial.means[3], counts[1])
            return found._replace(A=A, B=B)
        return found._replace(grams=trial.mean_grams, rows=trial.mean_rows) if averaged else found


def forgotten(trial: Trial) -> Trial:
    """A trial whose averages start anew."""
    return trial._replace(weight=0, means=(), mean_grams=None, mean_rows=0.0)


def _remembered(trial: Trial, batch: Minibatch | None, sparse: bool) -> Trial:
    """The averages with the newest iterate; with a minibatch, the Gram matrices of the average as well.

    In the first pass these come from rows that neither the average nor the iterate has seen. They count the
    more the later, for the average settles.
    """
    weight, new = trial.weight + 1, (trial.phi_t, trial.psi_t)
    if sparse:
        # And how many of the iterates have a row.
        new = (*new, *(1.0 * np.any(A != 0, axis=1) for A in new))
    means = new if weight == 1 else _towards(trial.means, new, 1 / weight)
    if batch is None:
        return trial._replace(weight=weight, means=means)
    # Normalisers that are longer than a step overlap.
    found, rows = batch.normaliser.grams(*means[:2]), float(min(batch.cov.n, batch.normaliser.n))
    if trial.mean_grams is None:
        return trial._replace(weight=weight, means=means, mean_grams=found, mean_rows=rows)
    share = 2 / (weight + 1)
    grams = _towards(trial.mean_grams, found, share)
    # As the variance of such a mean has it; rows that are read again are not new ones.
    rows = min(1 / ((1 - share) ** 2 / trial.mean_rows + share**2 / rows), float(batch.moments.n))
    return trial._replace(weight=weight, means=means, mean_grams=grams, mean_rows=rows)


def _of_most(A: Array, share: Array, count: int) -> Array:
    """The rows that at least half of the iterates had, no more than so many; or those that most had."""
    kept = largest_rows(share, count) & (share >= min(0.5, share.max()))
    return np.where(kept[:, None], A, 0.0)


def _towards(means: Any, new: tuple[Array, ...], share: float) -> Any:
    """Running means moved by a share towards something new."""
    return tuple(a + share * (b - a) for a, b in zip(means, new, strict=True))
