"""What is asked of a solver, what it answers, and what a step reports on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..covariance.units import Ridge, kernel_ridges
from ..machine.arrays import Array

Products = tuple[Array, Array, Array, Array]


class Problem(NamedTuple):
    """What is asked: the number of components, and the units and ridge it is asked in."""

    n_components: int
    center: bool = True
    scale: bool = False
    ridge: Ridge | tuple[Ridge, Ridge] = "auto"

    @property
    def on_gram(self) -> bool:
        """True if the views are Gram matrices of kernels, whose ridge is made of them."""
        return kernel_ridges(self.ridge) is not None


class Solution(NamedTuple):
    """Canonical pairs in the units of the data, best first, scores of unit variance.

    `correlations` are those of the problem with its ridge, `training_correlations` those of the scores
    of the rows it was solved on; without a ridge they are the same. `y_slopes` are the coefficients of
    the regression of y on the scores of X. `residuals` are relative residuals of the canonical equations
    in the norm of the covariances' diagonals; `error_bounds` bound the distance of each correlation to a
    true one, NaN where unknown; `condition` is that of the matrices factored, NaN where none was squared;
    `ranks` are those of the two views, 0 where unknown.
    """

    correlations: Array
    training_correlations: Array
    x_weights: Array
    y_weights: Array
    x_loadings: Array
    y_loadings: Array
    y_slopes: Array
    mean_x: Array
    mean_y: Array
    std_x: Array
    std_y: Array
    residuals: Array
    error_bounds: Array
    condition: float
    ranks: tuple[int, int]


class Diagnostics(NamedTuple):
    """What one step found out on the way: diagnostics travel apart from the state.

    A and B are the best bases the step knows of, `products` and `grams` theirs if they are at hand (from as
    much as `rows` rows), `correlations` theirs if they are canonical pairs of their spans already, and
    `residual` the largest of theirs where it is known. An `estimate` of the correlation captured, from some
    of the rows or in low precision, does not compete with earlier ones: the newest counts. `event` says what
    went wrong and was mended; `stalled` that going on is no use. `judged` are correlations on rows that no
    step had used when they were looked at.
    """

    A: Array
    B: Array
    tcc: float
    flops: float
    converged: bool
    products: Products | None = None
    grams: tuple[Array, Array, Array] | None = None
    correlations: Array | None = None
    residual: float = np.inf
    estimate: bool = False
    event: str | None = None
    stalled: bool = False
    rows: float = np.inf
    judged: Array | None = None


class Algorithm(Protocol):
    """Hyper-parameters and one step; no loop, no printing."""

    def init(self, cov: Any, k: int, rng: np.random.Generator) -> tuple[Any, Diagnostics]:
        """The first state, for bases of k columns."""

    def step(self, state: Any, cov: Any) -> tuple[Any, Diagnostics]:
        """The next state: a NamedTuple with only what the step after it needs."""


class Limits(NamedTuple):
    """Budgets of a run; None is unlimited."""

    iterations: int | None = None
    passes: float | None = None
    seconds: float | None = None
    flops: float | None = None


class Saved(NamedTuple):
    """All that a run needs to go on: what a checkpoint holds."""

    state: Any
    best: Diagnostics
    diagnostics: Diagnostics
    iteration: int
    flops: float
    seconds: float
    passes: float


class Progress(NamedTuple):
    """Where a run stands after an iteration; `solution()` makes a model of the best state so far.

    `residual` is the largest of all components', infinite where it is not known; `rows` are those delivered
    so far, `left` the seconds to the end as things stand, None where there is nothing to tell from.
    """

    iteration: int
    passes: float
    seconds: float
    flops: float
    tcc: float
    solution: Callable[[], Solution]
    stopped: str | None = None
    event: str | None = None
    residual: float = np.inf
    saved: Callable[[], Saved] | None = None
    rows: int = 0
    left: float | None = None

    def record(self) -> dict[str, Any]:
        """What `history_` keeps: the numbers, and the event if there was one."""
        event = {} if self.event is None else {"event": self.event}
        return event | {
            "iteration": self.iteration,
            "passes": self.passes,
            "seconds": self.seconds,
            "flops": self.flops,
            "tcc": self.tcc,
        }
