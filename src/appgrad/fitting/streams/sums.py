"""Streams that keep sums: second moments of all rows so far."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from ...covariance.moments import SecondMoments, second_moments
from ...data.arrays import ArrayViews, gathered
from ...machine.arrays import require_unmasked
from ...solvers import registry
from ...solvers.problem import Problem, Solution
from ...solvers.protocol import Options, SumsSolver
from ...solvers.stochastic.minibatches import sliced
from ..choose import ASKED
from .rows import UNMERGEABLE, matrices, views_of

# Variances in units of the columns' own that are further below zero are not rounding in single precision.
NEGATIVE = 1e-5


class Sums(NamedTuple):
    """The saved state of a stream that keeps sums: its sums, rows not added yet, and their precision."""

    second: SecondMoments | None
    waiting: tuple[tuple[Any, Any], ...]
    single: bool


class SumStream:
    """Second moments of all rows so far, and the last few rows, which are not added yet.

    Adding rows costs (p1 + p2)^2 however few they are, so they wait until there are as many as columns. With
    `forget`, the weight of a row halves after that many later ones.
    """

    steps = 1

    def __init__(self, problem: Problem, options: Options, rng: np.random.Generator) -> None:
        self.problem, self.options, self.rng, self.forget = problem, options, rng, options.forget
        within = "rows were added to second moments, which fit into the budget"
        free = options.solver == registry.AUTO
        self.solver, self.reason = (registry.DIRECT, within) if free else (options.solver, ASKED)
        self.second: SecondMoments | None = None
        self.waiting: list[ArrayViews] = []
        self.single = True

    def snapshot(self) -> Sums:
        """Return all that is needed to resume, except problem, options and generator."""
        return Sums(self.second, matrices(self.waiting), self.single)

    def restore(self, kept: Any, p1: int, p2: int) -> None:
        """Resume from a snapshot of rows with p1 + p2 columns; TypeError or ValueError if it is not one."""
        if not isinstance(kept, Sums):
            raise TypeError("the stream holds no sums")
        self.second, self.single = kept.second, kept.single
        self.waiting = views_of(kept.waiting, p1, p2)
        if self.second is not None:
            parts, p = self.second, p1 + p2
            if (parts.mean.shape, parts.scatter.shape) != ((p,), (p, p)):
                raise ValueError("sums of other columns")
            finite = np.all(np.isfinite(parts.scatter)) and np.all(np.isfinite(parts.mean))
            if not (0 < parts.n < np.inf and finite):
                raise ValueError("sums that are not finite")
            if np.any(np.diag(parts.scatter) < 0):
                raise ValueError("sums with negative squares")

    def ridge(self, ridge: tuple[float, float]) -> None:
        """Use another ridge from now on."""
        self.problem = self.problem._replace(ridge=ridge)

    @property
    def tcc(self) -> float:
        """Captured correlation: NaN, since it is unknown without solving."""
        return np.nan

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the rows."""
        return np.dtype(np.float32 if self.single else np.float64)

    def add(self, rows: ArrayViews) -> None:
        """Add rows, all finite; the state changes only after everything is computed."""
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
        """Number of rows that count, with less weight for forgotten ones; infinite if none is forgotten."""
        return np.inf if self.forget is None else self.total().n

    def total(self) -> SecondMoments:
        """Return the second moments of all rows."""
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

    def merge(self, other: Any) -> None:
        """Add the rows of another stream."""
        if not isinstance(other, SumStream):
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
        """Return the solution for all rows so far; `p1` is the number of columns of the first view."""
        solver = cast(SumsSolver, registry.solver(self.solver))
        if self.second is None:
            return solver.solve(gathered(*self.waiting), self.problem)
        second = self.total()
        return solver.solve_moments(second, (p1, len(second.mean) - p1), self.dtype, self.problem)

    def finish(self) -> None:
        """Do nothing: sums need no last step."""


def from_covariances(
    center: bool, n: int, Sx: Any, Sy: Any, Sxy: Any, mean_x: Any = None, mean_y: Any = None
) -> SecondMoments:
    """Check covariances divided by n and return them as second moments, about zero without `center`."""
    if not (isinstance(n, Real) and 1 <= n < np.inf):
        raise ValueError(f"n must be a number of rows, at least 1, got {n!r}")
    parts = {"Sx": Sx, "Sy": Sy, "Sxy": Sxy, "mean_x": mean_x, "mean_y": mean_y}
    for name, part in parts.items():
        require_unmasked(part, name)
        parts[name] = part.toarray() if sp.issparse(part) else part
        if np.iscomplexobj(parts[name]):
            raise ValueError(f"{name} holds complex numbers, expected real ones")
    Sx, Sy = (np.atleast_2d(np.asarray(parts[name], dtype=np.float64)) for name in ("Sx", "Sy"))
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
