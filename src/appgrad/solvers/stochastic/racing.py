"""Algorithm 5 with step sizes raced side by side, averaged and judged on rows it has not used."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...covariance.linalg import captured
from ...covariance.operators import Covariance
from ...covariance.preconditioners import Preconditioner
from ...machine.arrays import Array
from ...machine.threads import limit_for
from ..costs import small_flops
from ..gradient import RUNAWAY, mean_square
from ..problem import Diagnostics
from ..sparse.thresholds import Sparsity
from .algorithm import first_moves, renewed, start, start_rows
from .averaging import averaged, forgotten, remembered
from .best_pairs import judged_correlations
from .minibatches import Minibatch
from .trial import Trial, begun, stepped

# Steps tried side by side, as multiples of the current one (docs/decisions/0004).
TRIALS = (0.5, 1.0, 2.0)
# Shares of the run at which decisions are made on rows to come: up to a quarter, which step size continues;
# from half on, where averaging begins, whether it starts anew.
HALF, LAST_TRIALS = 1 / 2, 1 / 4
CHECKS = (1 / 32, 1 / 16, 1 / 8, LAST_TRIALS, 5 / 8, 3 / 4, 7 / 8)
# Number of checks done at half of the run.
AT_HALF = sum(share <= HALF for share in CHECKS)
# Growth of what is captured on rows to come that is more than the noise of two thousand of them.
GAIN = 1.01


class State(NamedTuple):
    """The current trials, the number of checks done, and whether iterates are averaged by now.

    `judged` are correlations on rows held out until then, None before the run is judged. `most` is the
    largest correlation captured on rows to come at any check, `before` the same at checks before the half of
    the run.
    """

    trials: tuple[Trial, ...]
    checks: int = 0
    averaging: bool = False
    judged: Array | None = None
    most: float = 0.0
    before: float = 0.0

    @property
    def columns(self) -> int:
        """Columns of the bases."""
        return int(self.trials[0].phi_t.shape[1])

    @property
    def racing(self) -> bool:
        """True while steps are tried side by side."""
        return len(self.trials) > 1

    @property
    def on_its_way(self) -> bool:
        """True if more has been captured since half of the run than ever before."""
        return self.most > GAIN * self.before


@dataclass(frozen=True)
class Stochastic:
    """Stochastic AppGrad as a solver.

    With `adaptive` False this is Algorithm 5 with a constant step. With True the size of the step is chosen
    on rows to come, it falls to zero over the second half of the run, and the result is the average of the
    iterates of that half. In both cases a trial that runs away returns to its last good state.

    With `sparsity`, rows are set to zero between the gradient step and normalisation; an average keeps the
    rows that most of its iterates have. `first` are variables to start from.
    """

    n_components: int
    step_size: tuple[float, float]
    preconditioner: Preconditioner = field(default_factory=Preconditioner)
    adaptive: bool = False
    sparsity: Sparsity | None = None
    first: tuple[Array, Array] | None = None

    def init(self, batch: Minibatch, k: int, rng: np.random.Generator) -> tuple[State, Diagnostics]:
        """Take the first step of every trial."""
        with limit_for(batch.cov.flops(k) / 2):
            return self._init(batch, k, rng)

    def _init(self, batch: Minibatch, k: int, rng: np.random.Generator) -> tuple[State, Diagnostics]:
        gradient = start(batch, k, rng, renewed(self.preconditioner, batch))
        multiples = TRIALS if self.adaptive else (1.0,)
        if self.first is None:
            sizes = [(m * self.step_size[0], m * self.step_size[1]) for m in multiples]
            moves = first_moves(gradient, batch, sizes)
        else:
            moves = first_moves(self.first, batch, [(1.0, 1.0)] * len(multiples))
        state = State(tuple(begun(m, move) for m, move in zip(multiples, moves, strict=True)))
        p = sum(len(G) for G in gradient)
        flops = start_rows(batch, k).flops(k) + 2 * batch.normaliser.gram_flops(k) + small_flops(p, k)
        return state, self._diagnostics(state, flops)

    def step(self, state: State, batch: Minibatch) -> tuple[State, Diagnostics]:
        """Use one minibatch for every trial; at a check, all trials start anew around the best."""
        # One limit a step: its products and the algebra of k x k matrices after them are small alike.
        with limit_for(batch.cov.flops(state.columns) / 2):
            return self._step(state, batch)

    def _step(self, state: State, batch: Minibatch) -> tuple[State, Diagnostics]:
        flops = 0.0
        if batch.judges is not None:
            halves = batch.judges()
            judged = judged_correlations(self._diagnostics(state, 0.0), halves, self.n_components)
            state = state._replace(judged=judged)
            flops = 2.0 * sum(half.flops(state.columns) for half in halves)
        flops += self._step_flops(state, batch)
        state, event = self._stepped(state, batch)
        if self.adaptive:
            state = self._remembered(state, batch)
            state, cost = self._checked(state, batch)
            flops += cost
        return state, self._diagnostics(state, flops, event)

    def _stepped(self, state: State, batch: Minibatch) -> tuple[State, str | None]:
        """Take one step of every trial, and return the first thing that went wrong."""
        M, k = renewed(self.preconditioner, batch), self.n_components
        proved = self.adaptive and not state.racing
        fall = min(1.0, 2 * (1 - batch.share)) if self.adaptive else 1.0
        trials, events = [], []
        for trial in state.trials:
            eta1, eta2 = (fall * trial.multiple * trial.caution * eta for eta in self.step_size)
            trial, event = stepped(trial, batch, (eta1, eta2), M, self.sparsity, k, proved)
            trials.append(trial)
            events.append(event)
        return state._replace(trials=tuple(trials)), next(filter(None, events), None)

    def _remembered(self, state: State, batch: Minibatch) -> State:
        """Add the newest iterates to the averages, while steps are tried and from half of the run on."""
        if not (state.averaging or state.racing):
            return state
        rows, sparse = batch if state.averaging else None, self.sparsity is not None
        return state._replace(trials=tuple(remembered(trial, sparse, rows) for trial in state.trials))

    def _checked(self, state: State, batch: Minibatch) -> tuple[State, float]:
        """Make decisions on rows to come at certain shares of the run; return the state and the cost."""
        due = state.checks < len(CHECKS) and batch.share >= CHECKS[state.checks]
        half = not state.averaging and batch.share >= HALF
        # Three steps at least, or there is nothing to compare.
        if not (half or (due and state.trials[0].weight >= 3)):
            return state, 0.0
        ahead, trials, scores = batch.ahead(), state.trials, list[float]()
        if state.racing:
            trials, scores = self._raced(trials, ahead, last=half or batch.share >= LAST_TRIALS)
        elif state.averaging and batch.left >= ahead.n:
            # Rows that steps have used would favour the newest iterate.
            trials, scores = self._begun_anew(trials[0], ahead, state.most)
        most = max([state.most, *scores])
        new = State(
            trials,
            state.checks + due,
            state.averaging or half,
            state.judged,
            most,
            before=most if half else state.before,
        )
        return new, len(scores) * ahead.gram_flops(state.columns)

    def _raced(
        self, trials: tuple[Trial, ...], ahead: Covariance, last: bool
    ) -> tuple[tuple[Trial, ...], list[float]]:
        """Return trials around the one that captures most, or it alone, and what each captured."""
        scores = [self._captured(ahead, *trial.means[:2]) for trial in trials]
        middle = len(trials) // 2
        best = int(np.argmax(scores)) if max(scores) > scores[middle] else middle
        winner = forgotten(trials[best])
        multiples = (1.0,) if last else TRIALS
        return tuple(winner._replace(multiple=winner.multiple * m) for m in multiples), scores

    def _begun_anew(
        self, trial: Trial, ahead: Covariance, most: float
    ) -> tuple[tuple[Trial, ...], list[float]]:
        """Return the trial, and what its newest iterate and its average capture.

        The average starts anew if the newest iterate captures more than it and than all before: the run is
        still on its way. If the rows have changed, the newest captures more than the average, but not than
        all before.
        """
        newest, mean = (
            self._captured(ahead, *bases) for bases in ((trial.phi_t, trial.psi_t), trial.means[:2])
        )
        return (forgotten(trial) if newest > GAIN * max(mean, most) else trial,), [newest, mean]

    def _captured(self, cov: Covariance, A: Array, B: Array) -> float:
        """Return the correlation that A and B capture on these rows, 0 if they have run away."""
        with np.errstate(over="ignore", invalid="ignore"):
            Gx, Gxy, Gy = cov.grams(A, B)
        if not mean_square(Gx, Gy) <= RUNAWAY:
            return 0.0
        return captured(Gx, Gxy, Gy, self.n_components)[2]

    def _step_flops(self, state: State, batch: Minibatch) -> float:
        """Return the operations of one step of all trials."""
        c, trial = state.columns, state.trials[0]
        normalised = batch.normaliser.gram_flops(c)
        p = len(trial.phi_t) + len(trial.psi_t)
        one = batch.cov.gradient_flops(c) + normalised + small_flops(p, c) + self.preconditioner.flops(c)
        return len(state.trials) * one + state.averaging * normalised

    def _diagnostics(self, state: State, flops: float, event: str | None = None) -> Diagnostics:
        """Return the diagnostics of the trial in the middle, or of its average."""
        trial = state.trials[len(state.trials) // 2]
        tcc = captured(*trial.grams, self.n_components)[2]
        found = Diagnostics(
            trial.phi_t, trial.psi_t, tcc, flops, False, estimate=True, event=event, judged=state.judged
        )
        return averaged(found, trial, self.sparsity) if state.averaging and trial.weight > 0 else found
