"""What a solver is: the protocol behind which each of them stands, and what a run of one is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..data.derived import CountedViews
from ..data.views import Views
from ..machine.arrays import Array
from .costs import Cost, Rates
from .problem import Algorithm, Diagnostics, Limits, Problem, Progress, Saved, Solution
from .sparse.thresholds import Sparsity


class Options(NamedTuple):
    """How a problem is to be solved: the parameters of iterative solvers.

    `first` are weights of sparse components to start from, those of another fit times its correlations.
    """

    solver: str
    tol: float = 1e-4
    limits: Limits = Limits()
    oversampling: int | None = None
    preconditioner: str | None = "auto"
    step_size: float | None = None
    batch_size: int = 200
    normaliser: int | str = "auto"
    dense: bool = False
    forget: float | None = None
    sparsity: Sparsity | None = None
    first: tuple[Array, Array] | None = None


class Run(NamedTuple):
    """A run that is set up: the algorithm, what its steps work on, the columns it carries, and how it ends.

    `views` are those whose rows count as delivered. There are so many `steps` where their number is known
    beforehand. `replay` brings a new run to where a saved one stopped, as far as the state does not.
    """

    algorithm: Algorithm
    covs: Iterator[Any]
    width: int
    finish: Callable[[Diagnostics, str | None], Solution]
    limits: Limits
    views: CountedViews
    steps: int | None = None
    replay: Callable[[Saved], None] | None = None


class Outcome(NamedTuple):
    """How a run has ended: what a solver needs to say where it falls short."""

    progress: Progress
    options: Options
    passes: float
    solution: Solution

    @property
    def captured(self) -> float:
        """Total correlation of the components."""
        return float(self.solution.correlations.sum())

    @property
    def worst(self) -> float:
        """The largest residual."""
        return float(self.solution.residuals.max())


class Solver(Protocol):
    """One algorithm, ready to be chosen, checked, run and explained. It has no loop and prints nothing."""

    name: str
    # Records that states of its runs are made of, by the tags they have in files.
    records: dict[str, Any]

    def refuses(self, options: Options) -> str | None:
        """Why these parameters cannot be had, None where they can; before any data are looked at."""

    def require(self, views: Views, problem: Problem, options: Options) -> None:
        """Raise before the first pass where its matrices cannot fit into this machine."""

    def cost(self, views: Views, k: int, rates: Rates) -> Cost:
        """Passes, seconds and memory that k components of a linear problem are expected to take."""

    def shortfalls(self, outcome: Outcome) -> list[str]:
        """What to say of a run that has not converged, or whose residuals may not say so."""


class DirectSolver(Solver, Protocol):
    """A solver that needs one step."""

    # Who takes over where squared quantities have lost too many digits, None where nobody need.
    successor: str | None

    def solve(self, views: Views, problem: Problem) -> Solution:
        """The solution."""

    def memory(self, views: Views, problem: Problem) -> int:
        """Bytes of the dense matrices held at a time, beyond the data."""

    def matrices(self, views: Views, problem: Problem) -> str:
        """What these matrices are, in words."""


class IterativeSolver(Solver, Protocol):
    """A solver that goes step by step."""

    def prepare(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator, start: float
    ) -> Run:
        """A run; `start` is when it began, by the clock of `time.perf_counter`."""
