"""The protocol of solvers, and the options, parts and outcome of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..covariance.moments import SecondMoments
from ..data.derived import CountedViews
from ..data.views import Views
from ..machine.arrays import Array
from .costs import Cost, Rates
from .problem import Algorithm, Diagnostics, Limits, Problem, Progress, Saved, Solution, Whitened
from .sparse.thresholds import Sparsity

# Default rows of a minibatch.
BATCH_SIZE = 200


class Options(NamedTuple):
    """How a problem is to be solved: the parameters of iterative solvers.

    `step_size` is a number for both views, a pair, or None for steps that the solver chooses. `first` are
    weights of sparse components to start from, those of another fit times its correlations.
    """

    solver: str
    tol: float = 1e-4
    limits: Limits = Limits()
    oversampling: int | None = None
    preconditioner: str | None = "auto"
    step_size: float | tuple[float, float] | None = None
    batch_size: int = BATCH_SIZE
    normaliser: int | str = "auto"
    dense: bool = False
    forget: float | None = None
    sparsity: Sparsity | None = None
    first: tuple[Array, Array] | None = None

    @property
    def steps(self) -> tuple[float, float] | None:
        """The paper's eta1 and eta2, if they are given."""
        eta = self.step_size
        return eta if eta is None or isinstance(eta, tuple) else (eta, eta)


class Run(NamedTuple):
    """A run ready to start: the algorithm, what its steps work on, the columns it carries, and how it ends.

    `views` count the rows delivered. `steps` is the number of steps if it is known beforehand. `replay`
    restores what the state of a saved run does not hold.
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
    """How a run has ended: what a solver needs for its warnings."""

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
    # Records in the states of its runs, by the tags they have in files.
    records: dict[str, Any]

    def refuses(self, options: Options) -> str | None:
        """Return why these parameters are refused, None if they are accepted; called before data are read."""

    def require(self, views: Views, problem: Problem, options: Options) -> None:
        """Raise before the first pass if its matrices cannot fit into this machine."""

    def shortfalls(self, outcome: Outcome) -> list[str]:
        """Return warnings about a run that has not converged, or whose residuals may understate its error."""


class LinearSolver(Solver, Protocol):
    """A solver of linear problems: `auto` and `plan` compare their costs."""

    def cost(self, views: Views, k: int, rates: Rates) -> Cost:
        """Return the expected passes, seconds and memory of k components."""


class KernelSolver(Solver, Protocol):
    """A solver that works on Gram matrices of kernels too."""

    def for_kernels(self) -> Solver:
        """Return the solver of the same name for Gram matrices."""


class DirectSolver(Solver, Protocol):
    """A solver that needs one step."""

    # The solver that takes over if squared quantities have lost too many digits, None if none is needed.
    successor: str | None

    def solve(self, views: Views, problem: Problem) -> Solution:
        """Return the solution."""

    def whitened(self, views: Views, problem: Problem) -> Whitened:
        """Return all directions that `solve` works with, not the canonical ones alone."""

    def memory(self, views: Views) -> int:
        """Return the bytes of the dense matrices held at a time, beyond the data."""

    def matrices(self, views: Views) -> str:
        """Describe these matrices in words."""


class SumsSolver(DirectSolver, Protocol):
    """A direct solver that needs no rows: a stream that keeps their second moments can use it."""

    def solve_moments(
        self, second: SecondMoments, widths: Sequence[int], dtype: np.dtype[Any], problem: Problem
    ) -> Solution:
        """Return the solution from second moments of rows with this precision and these widths of views."""


class IterativeSolver(Solver, Protocol):
    """A solver that works step by step."""

    def prepare(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator, start: float
    ) -> Run:
        """Set up a run; `start` is when it began, by the clock of `time.perf_counter`."""
