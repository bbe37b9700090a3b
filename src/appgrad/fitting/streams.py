"""Rows that keep coming: second moments where they fit into memory, stochastic AppGrad where they do not."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ..covariance.linalg import captured
from ..covariance.moments import Moments, SecondMoments, moments, second_moments
from ..covariance.preconditioners import warm_up_rows
from ..data.arrays import ArrayViews, gathered
from ..data.views import Views
from ..machine.arrays import Array
from ..machine.memory import budget
from ..solvers import registry
from ..solvers.costs import matrices_needed
from ..solvers.exact import by_covariances, exact
from ..solvers.problem import Diagnostics, Problem, Solution
from ..solvers.solver import Options
from ..solvers.stochastic.averaging import forgotten
from ..solvers.stochastic.minibatches import Buffer, shuffled, sliced
from ..solvers.stochastic.pairs import leading
from ..solvers.stochastic.racing import AT_HALF, GAIN, State, Stochastic
from ..solvers.stochastic.sampling import (
    buffer_for,
    estimated,
    normalised_width,
    normaliser_rows,
    solver_for,
)
from .choose import ASKED

# Steps decay over a horizon that doubles whenever it is reached, as the end of a stream is not known. The
# first is so many portions of rows.
FIRST = 8
# Once a run has arrived, steps begin a horizon of twice the rows half as long: as 1/t, which lets all t rows
# count (Robbins & Monro 1951).
SHORTER = 0.5
# Variances in units of the columns' own that are below zero by more than covariances in single precision are.
NEGATIVE = 1e-5
UNMERGEABLE = "only models that keep second moments can be merged: steps of stochastic AppGrad have no sum"


class Sums(NamedTuple):
    """What is kept of a stream that is added up: its sums, rows not added yet, their precision."""

    second: SecondMoments | None
    waiting: tuple[tuple[Any, Any], ...]
    single: bool


class Buffered(NamedTuple):
    """Rows from which minibatches are cut, and what a buffer knows of all rows so far."""

    rows: tuple[Any, Any]
    size: int
    normaliser: int | None
    portion: int
    position: int
    moments: Moments
    peaks: tuple[Array, Array]


class Steps(NamedTuple):
    """What is kept of a stream whose rows are steps: rows at hand, the solver, and where it stands."""

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


class Stream(NamedTuple):
    """What a file holds of a stream."""

    problem: Problem
    options: Options
    kept: Sums | Steps


class Statistics:
    """Second moments of all rows so far, and the last few rows, which are not added yet.

    Adding rows costs (p1 + p2)^2 however few they are, so they wait until there are as many as columns.
    With `forget`, rows count half after so many later ones.
    """

    solver, steps = registry.DIRECT, 1

    def __init__(self, problem: Problem, options: Options, rng: np.random.Generator) -> None:
        self.problem, self.options, self.rng, self.forget = problem, options, rng, options.forget
        within = "rows were added to second moments, which fit into the budget"
        self.reason = within if options.solver == registry.AUTO else ASKED
        self.second: SecondMoments | None = None
        self.waiting: list[ArrayViews] = []
        self.single = True

    def snapshot(self) -> Sums:
        """All that is needed to go on, but problem, options and generator."""
        return Sums(self.second, _matrices(self.waiting), self.single)

    def restore(self, kept: Any, p1: int, p2: int) -> None:
        """Go on from a snapshot of rows with p1 + p2 columns; TypeError or ValueError where it is not one."""
        if not isinstance(kept, Sums):
            raise TypeError("the stream holds no sums")
        self.second, self.single = kept.second, kept.single
        self.waiting = _views(kept.waiting, p1, p2)
        if self.second is not None:
            parts, p = self.second, p1 + p2
            if (parts.mean.shape, parts.scatter.shape) != ((p,), (p, p)):
                raise ValueError("sums of other columns")
            if not (0 < parts.n < np.inf and np.all(np.isfinite(parts.scatter))):
                raise ValueError("sums that are not finite")

    def ridge(self, ridge: tuple[float, float]) -> None:
        """Another ridge from now on."""
        self.problem = self.problem._replace(ridge=ridge)

    @property
    def tcc(self) -> float:
        """Captured correlation, where it is known without solving."""
        return np.nan

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the rows."""
        return np.dtype(np.float32 if self.single else np.float64)

    def add(self, rows: ArrayViews) -> None:
        """More rows, all finite; nothing is changed before all is computed."""
        second, waiting = self.second, self.waiting
        enough, size = rows.n_features_x + rows.n_features_y, rows.n_samples
        if self.forget is not None:
            # Rows that are added together are forgotten together.
            size = 1 + int(self.forget / 10)
            enough = min(enough, size)
        for start in range(0, rows.n_samples, size):
            waiting = [*waiting, sliced(rows, start, start + size)]
            if sum(part.n_samples for part in waiting) >= enough:
                second, waiting = self._joined(second, waiting), []
        if second is not None and not np.all(np.isfinite(np.diag(second.scatter))):
            raise ValueError("the squares of all rows are too large to be added up: rescale the columns")
        self.second, self.waiting = second, waiting
        self.single &= rows.dtype == np.float32

    @property
    def rows(self) -> float:
        """How many rows count, those forgotten less than others; infinite where none is forgotten."""
        return np.inf if self.forget is None else self.total().n

    def total(self) -> SecondMoments:
        """The second moments of all rows."""
        return self._joined(self.second, self.waiting)

    def _joined(self, second: SecondMoments | None, waiting: list[ArrayViews]) -> SecondMoments:
        if not waiting:
            assert second is not None
            return second
        new = second_moments(gathered(*waiting), self.problem.center)
        if second is None:
            return new
        old = second._replace(scatter=second.scatter.copy())
        if self.forget is not None:
            keep = 0.5 ** (new.n / self.forget)
            old = old._replace(n=keep * old.n, scatter=keep * old.scatter)
        return old.merge(new)

    def merge(self, other: Statistics | Sketch) -> None:
        """The rows of another as well."""
        if isinstance(other, Sketch):
            raise ValueError(UNMERGEABLE)
        if other.problem.center != self.problem.center:
            raise ValueError("one of the models has center=True and the other has not: their sums differ")
        total = other.total()
        self.single &= other.single
        if self.second is None and not self.waiting:
            self.second = total._replace(scatter=total.scatter.copy())
        else:
            mine = self.total()
            self.second = mine._replace(scatter=mine.scatter.copy()).merge(total)
        self.waiting = []

    def solution(self, p1: int) -> Solution:
        """The solution for all rows so far; `p1` are the columns of the first view."""
        if self.second is None:
            return exact(gathered(*self.waiting), self.problem)
        second = self.total()
        return by_covariances(second, (p1, len(second.mean) - p1), self.dtype, self.problem)

    def finish(self) -> None:
        """Nothing is left to do at the end of a stream."""


class Sketch:
    """Stochastic AppGrad on rows as they come, in O(k p) memory.

    The first portion of rows gives preconditioner and step. Every portion is shuffled, so that an order
    within it does not matter; one across the stream does.
    """

    solver = "stochastic"

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
        """All that is needed to go on, but problem, options and generator."""
        b = self.buffer
        return Steps(
            waiting=_matrices(self.waiting),
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
        """Go on from a snapshot of rows with p1 + p2 columns; TypeError or ValueError where it is not one."""
        if not isinstance(kept, Steps):
            raise TypeError("the stream holds no steps")
        self.waiting = _views(kept.waiting, p1, p2)
        self.stochastic, self.state = kept.solver, kept.state
        self.diagnostics, self.settled = kept.diagnostics, kept.settled
        self.used, self.horizon, self.steps = kept.used, kept.horizon, kept.steps
        self.single, self.seen = kept.single, kept.seen
        if kept.buffer is not None:
            b = kept.buffer
            self.buffer = buffer_for(self.problem, b.size, b.normaliser, b.portion)
            (views,) = _views((b.rows,), p1, p2)
            self.buffer.add(views, b.moments)
            self.buffer.position, self.buffer.peaks = b.position, b.peaks

    def ridge(self, ridge: tuple[float, float]) -> None:
        """Another ridge from now on."""
        self.problem = self.problem._replace(ridge=ridge)
        if self.buffer is not None:
            self.buffer.ridge = ridge

    @property
    def tcc(self) -> float:
        """Captured correlation, as the last rows suggest it."""
        return np.nan if self.diagnostics is None else self.diagnostics.tcc

    def add(self, rows: ArrayViews) -> None:
        """More rows, all finite, and as many steps as they allow."""
        self.single &= rows.dtype == np.float32
        if self.state is not None:
            # What is judged at the end of a stream is so no longer when it goes on.
            self.state = self.state._replace(judged=None)
            self.settled = None if self.settled is None else self.settled._replace(judged=None)
        portion = self._portion(rows)
        # A portion at a time is shuffled, and forgotten.
        for start in range(0, rows.n_samples, portion):
            self.waiting.append(sliced(rows, start, start + portion))
            self.seen += self.waiting[-1].n_samples
            if sum(part.n_samples for part in self.waiting) >= portion:
                self._draw(portion)
            self._step(ahead=portion if self.buffer is None else self.buffer.portion)

    @property
    def rows(self) -> float:
        """How many rows count: not known of steps."""
        return np.inf

    def finish(self) -> None:
        """The steps that were kept back for rows to come; too few for a first step go on waiting."""
        if self.buffer is None:
            return
        if self.waiting:
            self._draw(self.buffer.portion)
        if self.settled is not None:
            self._step(ahead=self.buffer.portion // 2)
            self._compare()
        # Rows that steps have been taken on flatter them, the more so the wider the data are.
        self._step(ahead=0, judging=True)

    def solution(self, p1: int) -> Solution:
        """The solution as it stands, with correlations of rows no step has used.

        That of all rows, while all are in memory.
        """
        rows = [*([] if self.buffer is None else [self.buffer.rows]), *self.waiting]
        complete = self.forget is None and sum(part.n_samples for part in rows) == self.seen
        if self.diagnostics is None or self.buffer is None or complete:
            return exact(gathered(*rows), self.problem)
        found = self.diagnostics if self.settled is None else self.settled
        return estimated(self.buffer, found, self.problem.n_components)

    def merge(self, other: Statistics | Sketch) -> None:
        """Iterates of two streams have no sum."""
        raise ValueError(UNMERGEABLE)

    def _portion(self, rows: ArrayViews) -> int:
        return max(self.options.batch_size, 10 * self._width(rows), warm_up_rows(rows, endless=True))

    def _width(self, views: ArrayViews, rows: int = 10**9) -> int:
        return normalised_width(self.options, self.problem.n_components, views, rows)

    def _share(self) -> float:
        return self.used / self.horizon if self.horizon else 0.0

    def _draw(self, portion: int) -> None:
        """The waiting rows into the buffer, in random order."""
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
            self.stochastic = solver_for(self.buffer, self.problem, self.options, self.rng)
            self.state, self.diagnostics, self.settled = None, None, None
            self.used, self.horizon = 0, self._reach(FIRST * portion)

    def _compare(self) -> None:
        """Drop the result of the last horizon once there is one that captures more of rows to come."""
        if self.settled is None or self.diagnostics is None or self.buffer is None:
            return
        k, ahead = self.problem.n_components, self.buffer.to_come()
        new, old = (
            captured(*ahead.grams(*leading(found, k)), k)[2] for found in (self.diagnostics, self.settled)
        )
        if new > GAIN * old:
            self.settled = None

    def _reach(self, rows: int) -> int:
        """How many rows a horizon adds: so many, or two half-lives of rows that are forgotten."""
        assert self.buffer is not None
        if self.forget is None:
            return rows
        return int(min(rows, max(2 * self.forget, FIRST // 2 * self.buffer.portion)))

    def _deficient(self) -> bool:
        """Whether iterates have fewer directions than asked for: those of constant rows, and for ever."""
        if self.state is None:
            return False
        Gx, _, Gy = self.state.trials[0].grams
        return any(np.linalg.matrix_rank(G) < self.problem.n_components for G in (Gx, Gy))

    def _step(self, ahead: int, judging: bool = False) -> None:
        """Steps as long as so many rows are left beyond them; with `judging`, judged by all that are left."""
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
        """A horizon twice as far with the same averages, and shorter steps unless the run is on its way.

        Where rows are forgotten, one as far again with all begun anew; the last result stays until a new one
        is better, or for a horizon.
        """
        assert self.state is not None
        assert self.buffer is not None
        assert self.stochastic is not None
        (trial,), length, most = self.state.trials, self.used, self.state.most
        if self.forget is None:
            # A step that was asked for is constant.
            if self.stochastic.adaptive and not self.state.on_its_way:
                trial = trial._replace(multiple=SHORTER * trial.multiple)
        else:
            self.settled = self.diagnostics
            length = self._reach(length)
            # What the first rows suggested may hold no longer.
            self.buffer.renew()
            self.stochastic = solver_for(self.buffer, self.problem, self.options, self.rng)
            trial, most = forgotten(trial), 0.0
        # Half of the horizon counts as behind: steps do not wait to fall.
        self.used, self.horizon = length, 2 * length
        self.state = State((trial,), AT_HALF, True, self.state.judged, most, before=most)


def _buffered(b: Buffer) -> Buffered:
    return Buffered((b.rows.x, b.rows.y), b.size, b.normaliser, b.portion, b.position, b.moments, b.peaks)


def _matrices(waiting: list[ArrayViews]) -> tuple[tuple[Any, Any], ...]:
    return tuple((rows.x, rows.y) for rows in waiting)


def _views(matrices: Any, p1: int, p2: int) -> list[ArrayViews]:
    views = [ArrayViews(*pair) for pair in matrices]
    if any((rows.n_features_x, rows.n_features_y) != (p1, p2) for rows in views):
        raise ValueError("rows of other columns")
    return views


def from_covariances(
    center: bool, n: int, Sx: Any, Sy: Any, Sxy: Any, mean_x: Any = None, mean_y: Any = None
) -> SecondMoments:
    """Second moments from covariances divided by n, checked to fit together; about zero without `center`."""
    if not (isinstance(n, Real) and 1 <= n < np.inf):
        raise ValueError(f"n must be a number of rows, at least 1, got {n!r}")
    parts = {"Sx": Sx, "Sy": Sy, "Sxy": Sxy, "mean_x": mean_x, "mean_y": mean_y}
    Sx, Sy = (np.atleast_2d(np.asarray(S, dtype=np.float64)) for S in (Sx, Sy))
    if not (Sx.size and Sy.size):
        raise ValueError("Sx and Sy must have a column at least")
    parts |= {"Sx": Sx, "Sy": Sy}
    p1, p2 = len(Sx), len(Sy)
    shapes = {"Sx": (p1, p1), "Sy": (p2, p2), "Sxy": (p1, p2), "mean_x": (p1,), "mean_y": (p2,)}
    for name, shape in shapes.items():
        found = np.zeros(shape) if parts[name] is None else np.asarray(parts[name], dtype=np.float64)
        if found.shape != shape:
            raise ValueError(f"{name} has shape {found.shape}, expected {shape}")
        if not np.all(np.isfinite(found)):
            raise ValueError(f"{name} holds values that are not finite")
        parts[name] = found
    for name, S in (("Sx", Sx), ("Sy", Sy)):
        if not np.allclose(S, S.T, rtol=1e-8, atol=1e-12 * np.abs(S).max()):
            raise ValueError(f"{name} is not symmetric")
        if np.any(np.diag(S) < 0):
            raise ValueError(f"{name} has negative variances")
    S = np.block([[parts["Sx"], parts["Sxy"]], [parts["Sxy"].T, parts["Sy"]]])
    spread = np.sqrt(np.diag(S))
    spread[spread == 0] = 1.0
    scaled = S / spread / spread[:, None]
    if np.linalg.eigvalsh(scaled)[0] < -NEGATIVE:
        raise ValueError("Sx, Sy and Sxy cannot be of the same rows: together they have negative variances")
    mean = np.concatenate([parts["mean_x"], parts["mean_y"]])
    if center:
        return SecondMoments(n, mean, n * S)
    return SecondMoments(n, np.zeros_like(mean), n * (S + np.outer(mean, mean)))


def stream_for(
    rows: Views, problem: Problem, options: Options, rng: np.random.Generator
) -> Statistics | Sketch:
    """What keeps a stream whose first rows these are: second moments if they fit into the budget."""
    if options.solver == registry.AUTO:
        kind = registry.SUMS if matrices_needed(rows) <= budget() else registry.STEPS
    else:
        kind = kept_by(options.solver)
    return KINDS[kind](problem, options, rng)


def kept_by(solver: str) -> str:
    """What a stream keeps for this solver; "auto" keeps sums where there are no rows to tell otherwise."""
    if solver == registry.AUTO:
        return registry.SUMS
    kind = registry.SOLVERS[solver].stream
    assert kind is not None
    return kind


# What keeps a stream, by what it keeps.
KINDS: dict[str, type[Statistics] | type[Sketch]] = {registry.SUMS: Statistics, registry.STEPS: Sketch}
