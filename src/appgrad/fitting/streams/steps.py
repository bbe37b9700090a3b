"""Streams that take steps: stochastic AppGrad on rows as they come."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...covariance.linalg import captured
from ...covariance.moments import Moments, moments
from ...covariance.preconditioners import warm_up_rows
from ...data.arrays import ArrayViews, gathered
from ...machine.arrays import Array
from ...solvers import registry
from ...solvers.exact import exact
from ...solvers.problem import Diagnostics, Problem, Solution
from ...solvers.protocol import Options
from ...solvers.stochastic.averaging import forgotten
from ...solvers.stochastic.best_pairs import leading
from ...solvers.stochastic.minibatches import Buffer, shuffled, sliced
from ...solvers.stochastic.racing import AT_HALF, GAIN, State, Stochastic
from ...solvers.stochastic.sampling import (
    algorithm_for,
    buffer_for,
    estimated,
    normalised_width,
    normaliser_rows,
)
from ..choose import ASKED
from .rows import UNMERGEABLE, matrices, views_of
from .shapes import require_diagnostics, require_moments, require_peaks, require_solver, require_state

# Steps decay over a horizon that doubles whenever it is reached, as the end of a stream is not known. The
# first horizon is this many portions of rows.
FIRST = 8


# Once a run has arrived, each horizon has twice the rows, and its first steps are half as long. They decay as
# 1/t, which lets all t rows count (Robbins & Monro 1951).
SHORTER = 0.5


class Buffered(NamedTuple):
    """Rows from which minibatches are cut, and the buffer's statistics of all rows so far."""

    rows: tuple[Any, Any]
    size: int
    normaliser: int | None
    portion: int
    position: int
    moments: Moments
    peaks: tuple[Array, Array]


class Steps(NamedTuple):
    """The saved state of a stream that takes steps: rows in memory, the solver, and its state."""

    waiting: tuple[tuple[Any, Any], ...]
    buffer: Buffered | None
    solver: Stochastic | None
    state: State | None
    diagnostics: Diagnostics | None
    settled: Diagnostics | None
    used: int
    horizon: int
    steps: int
    single: bool
    seen: int


class StepStream:
    """Stochastic AppGrad on rows as they come, in O(k p) memory.

    The first portion of rows determines the preconditioner and the step. Every portion is shuffled, so that
    the order of rows within it does not matter; the order across the stream does.
    """

    solver = registry.MINIBATCHES

    def __init__(self, problem: Problem, options: Options, rng: np.random.Generator) -> None:
        self.problem, self.options, self.rng, self.forget = problem, options, rng, options.forget
        beyond = "second moments would not fit into the budget (scikit-learn's working_memory)"
        self.reason = beyond if options.solver == registry.AUTO else ASKED
        self.waiting: list[ArrayViews] = []
        self.buffer: Buffer | None = None
        self.stochastic: Stochastic | None = None
        self.state: State | None = None
        self.diagnostics: Diagnostics | None = None
        self.settled: Diagnostics | None = None
        self.used, self.horizon, self.steps = 0, 0, 0
        self.single, self.seen = True, 0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the rows."""
        return np.dtype(np.float32 if self.single else np.float64)

    def snapshot(self) -> Steps:
        """Return all that is needed to resume, except problem, options and generator."""
        b = self.buffer
        return Steps(
            waiting=matrices(self.waiting),
            buffer=None if b is None else _buffered(b),
            solver=self.stochastic,
            state=self.state,
            diagnostics=self.diagnostics,
            settled=self.settled,
            used=self.used,
            horizon=self.horizon,
            steps=self.steps,
            single=self.single,
            seen=self.seen,
        )

    def restore(self, kept: Any, p1: int, p2: int) -> None:
        """Resume from a snapshot of rows with p1 + p2 columns; TypeError or ValueError if it is not one."""
        if not isinstance(kept, Steps):
            raise TypeError("the stream holds no steps")
        self._require_whole(kept, p1, p2)
        self.waiting = views_of(kept.waiting, p1, p2)
        self.stochastic, self.state = kept.solver, kept.state
        self.diagnostics, self.settled = kept.diagnostics, kept.settled
        self.used, self.horizon, self.steps = kept.used, kept.horizon, kept.steps
        self.single, self.seen = kept.single, kept.seen
        if kept.buffer is not None:
            b = kept.buffer
            self.buffer = buffer_for(self.problem, b.size, b.normaliser, b.portion)
            (views,) = views_of((b.rows,), p1, p2)
            self.buffer.add(views, b.moments)
            self.buffer.position, self.buffer.peaks = b.position, b.peaks

    def _require_whole(self, kept: Steps, p1: int, p2: int) -> None:
        """Raise ValueError unless the parts of a snapshot fit together."""
        b, counts = kept.buffer, (kept.used, kept.horizon, kept.steps, kept.seen)
        if (
            min(counts) < 0
            or (b is None) != (kept.solver is None)
            or (kept.state is None) != (kept.diagnostics is None)
        ):
            raise ValueError("parts of a stream that do not belong together")
        if b is not None:
            if min(b.size, b.portion, b.normaliser or 1) < 1 or b.position < 0 or b.normaliser == 0:
                raise ValueError("a buffer of no rows")
            require_moments(b.moments, p1, p2)
            require_peaks(b.peaks, p1, p2)
        if kept.solver is not None:
            require_solver(kept.solver, self.problem.n_components, p1, p2)
        if kept.state is not None:
            require_state(kept.state, p1, p2)
        require_diagnostics(kept.diagnostics, p1, p2)
        require_diagnostics(kept.settled, p1, p2)

    def ridge(self, ridge: tuple[float, float]) -> None:
        """Use another ridge from now on."""
        self.problem = self.problem._replace(ridge=ridge)
        if self.buffer is not None:
            self.buffer.ridge = ridge

    @property
    def tcc(self) -> float:
        """Captured correlation, estimated from the last rows."""
        return np.nan if self.diagnostics is None else self.diagnostics.tcc

    def add(self, rows: ArrayViews) -> None:
        """Add rows, all finite, and take as many steps as they allow."""
        self.single &= rows.dtype == np.float32
        if self.state is not None:
            # The stream goes on: correlations judged at its end are out of date.
            self.state = self.state._replace(judged=None)
            self.settled = None if self.settled is None else self.settled._replace(judged=None)
        portion = self._portion(rows)
        # Rows are shuffled, and forgotten, one portion at a time.
        for start in range(0, rows.n_samples, portion):
            self.waiting.append(sliced(rows, start, start + portion))
            self.seen += self.waiting[-1].n_samples
            if sum(part.n_samples for part in self.waiting) >= portion:
                self._draw(portion)
            self._step(ahead=portion if self.buffer is None else self.buffer.portion)

    @property
    def rows(self) -> float:
        """Number of rows that count: unknown for steps, so infinite."""
        return np.inf

    def finish(self) -> None:
        """Take the steps that were held back for rows to come; rows too few for a first step keep waiting."""
        if self.buffer is None:
            return
        if self.waiting:
            self._draw(self.buffer.portion)
        if self.settled is not None:
            self._step(ahead=self.buffer.portion // 2)
            self._compare()
        # Judge by unused rows: those that steps have used overstate correlations, more so the wider the data
        # are.
        self._step(ahead=0, judging=True)

    def solution(self, p1: int) -> Solution:
        """Return the current solution, with correlations of rows no step has used.

        While all rows are in memory, it is the exact solution for all of them.
        """
        rows = [*([] if self.buffer is None else [self.buffer.rows]), *self.waiting]
        complete = self.forget is None and sum(part.n_samples for part in rows) == self.seen
        if self.diagnostics is None or self.buffer is None or complete:
            return exact(gathered(*rows), self.problem)
        found = self.diagnostics if self.settled is None else self.settled
        sparse = self.options.sparsity is not None
        return estimated(self.buffer, found, self.problem.n_components, sparse)

    def merge(self, other: Any) -> None:
        """Raise: iterates of two streams have no sum."""
        raise ValueError(UNMERGEABLE)

    def _portion(self, rows: ArrayViews) -> int:
        return max(self.options.batch_size, 10 * self._width(rows), warm_up_rows(rows, endless=True))

    def _width(self, views: ArrayViews, rows: int = 10**9) -> int:
        return normalised_width(self.options, self.problem.n_components, views, rows)

    def _share(self) -> float:
        return self.used / self.horizon if self.horizon else 0.0

    def _draw(self, portion: int) -> None:
        """Move the waiting rows into the buffer, in random order."""
        rows = shuffled(gathered(*self.waiting), self.rng)
        self.waiting = []
        found = moments(rows, self.problem.center)
        if self.buffer is None:
            size, width = self.options.batch_size, self._width(rows, rows.n_samples)
            self.buffer = buffer_for(self.problem, size, normaliser_rows(self.options, width), portion)
        keep = 1.0 if self.forget is None else 0.5 ** (rows.n_samples / self.forget)
        self.buffer.add(rows, found, keep)
        self._compare()
        if self.stochastic is None or self._deficient():
            self.stochastic = algorithm_for(self.buffer, self.problem, self.options, self.rng)
            self.state, self.diagnostics, self.settled = None, None, None
            self.used, self.horizon = 0, self._reach(FIRST * portion)

    def _compare(self) -> None:
        """Drop the result of the last horizon once the newest one captures more of rows to come."""
        if self.settled is None or self.diagnostics is None or self.buffer is None:
            return
        k, ahead = self.problem.n_components, self.buffer.to_come()
        new, old = (
            captured(*ahead.grams(*leading(found, k)), k)[2] for found in (self.diagnostics, self.settled)
        )
        if new > GAIN * old:
            self.settled = None

    def _reach(self, rows: int) -> int:
        """Return how many rows a horizon adds: `rows`, or about two half-lives if rows are forgotten."""
        assert self.buffer is not None
        if self.forget is None:
            return rows
        return int(min(rows, max(2 * self.forget, FIRST // 2 * self.buffer.portion)))

    def _deficient(self) -> bool:
        """True if iterates have too few directions, as after constant rows: they would never regain them."""
        if self.state is None:
            return False
        Gx, _, Gy = self.state.trials[0].grams
        return any(np.linalg.matrix_rank(G) < self.problem.n_components for G in (Gx, Gy))

    def _step(self, ahead: int, judging: bool = False) -> None:
        """Take steps while `ahead` rows are left beyond them; with `judging`, first judge by all left."""
        buffer = self.buffer
        while buffer is not None and self.stochastic is not None and buffer.left >= buffer.size + ahead:
            if self.state is None:
                k = self._width(buffer.rows, buffer.rows.n_samples)
                self.state, self.diagnostics = self.stochastic.init(buffer.next(self._share()), k, self.rng)
            else:
                batch = buffer.next(self._share(), buffer.left if judging else 0)
                self.state, self.diagnostics = self.stochastic.step(self.state, batch)
                judging = False
            self.used += buffer.size
            self.steps += 1
            if self.used >= self.horizon:
                self._extend()

    def _extend(self) -> None:
        """Double the horizon and keep the averages; shorten the steps unless the run is still on its way.

        If rows are forgotten, begin everything anew for another horizon of that length; the last result stays
        until a new one is better, or for a horizon.
        """
        assert self.state is not None
        assert self.buffer is not None
        assert self.stochastic is not None
        (trial,), length, most = self.state.trials, self.used, self.state.most
        if self.forget is None:
            # A step size set by the user stays constant.
            if self.stochastic.adaptive and not self.state.on_its_way:
                trial = trial._replace(multiple=SHORTER * trial.multiple)
        else:
            self.settled = self.diagnostics
            length = self._reach(length)
            # Preconditioner and step from the first rows may no longer fit.
            self.buffer.renew()
            self.stochastic = algorithm_for(self.buffer, self.problem, self.options, self.rng)
            trial, most = forgotten(trial), 0.0
        # Half of the horizon counts as done, so that steps begin to shrink at once.
        self.used, self.horizon = length, 2 * length
        self.state = State((trial,), AT_HALF, True, self.state.judged, most, before=most)


def _buffered(b: Buffer) -> Buffered:
    return Buffered((b.rows.x, b.rows.y), b.size, b.normaliser, b.portion, b.position, b.moments, b.peaks)
