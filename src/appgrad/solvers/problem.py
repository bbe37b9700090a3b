"""The problem, its solution, the diagnostics of a step, and the progress of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..covariance.units import Ridge, kernel_ridges
from ..machine.arrays import Array
from .registry import KERNEL, LINEAR

Products = tuple[Array, Array, Array, Array]


class Problem(NamedTuple):
    """A CCA problem: the number of components, the units and the ridge."""

    n_components: int
    center: bool = True
    scale: bool = False
    ridge: Ridge | tuple[Ridge, Ridge] = "auto"

    @property
    def kind(self) -> str:
        """The kind of problem: kernel if the views are Gram matrices K with a ridge r K, else linear."""
        return LINEAR if kernel_ridges(self.ridge) is None else KERNEL

    @property
    def is_ridged(self) -> bool:
        """True if a ridge above zero was asked for."""
        pair = self.ridge if isinstance(self.ridge, tuple) else (self.ridge,)
        return any(r != "auto" and r != 0 for r in pair)


class Spectrum(NamedTuple):
    """All canonical correlations of some rows, and the numbers that tests of them need.

    `squares` are the squared correlations of all pairs, as many as the smaller of the two `ranks`, which are
    the independent columns of each view; `left` are the traces of S (S + R)^-1: what the ridge leaves of
    the ranks. `rows` is the number of rows, and one more if nothing was subtracted from them. `condition` is
    that of the covariances, 0 if none were squared.
    """

    squares: Array
    ranks: tuple[int, int]
    left: tuple[float, float]
    rows: float
    condition: float = 0.0


def spectrum(
    squares: Array,
    ranks: tuple[int, int],
    left: tuple[float, float],
    n: float,
    center: bool,
    condition: float = 0.0,
) -> Spectrum:
    """Return the spectrum of n rows, centred or not, from the squared correlations of all pairs."""
    kept = np.clip(squares[: min(ranks)], 0.0, 1.0)
    return Spectrum(np.sort(kept)[::-1], ranks, left, float(n if center else n + 1), condition)


class Dimensions(NamedTuple):
    """Rows and dimensions that the theory of unrelated views needs, and a reason if it does not hold.

    `n` is the number of rows, one more if nothing was subtracted from them. The `ranks` of both views are
    upper bounds unless they are `known`: only direct solvers compute them.
    """

    n: float
    ranks: tuple[int, int]
    known: bool = True
    reason: str = ""

    @property
    def rows(self) -> int:
        """The number of rows as a whole number."""
        return round(self.n)


class Whitened(NamedTuple):
    """All directions of both views, uncorrelated and of unit variance together with the ridge.

    As `weights` of rows less their `means`, in units of the data; or as the `scores` of the rows themselves,
    where there are fewer of these than columns.
    """

    means: tuple[Array, Array]
    weights: tuple[Array, Array] | None = None
    scores: tuple[Array, Array] | None = None


class Solution(NamedTuple):
    """Canonical pairs in the units of the data, best first, scores of unit variance.

    `correlations` are those of the problem with its ridge, `training_correlations` those of the scores
    of the rows it was solved on; without a ridge they are the same. `y_slopes` are the coefficients of
    the regression of y on the scores of X. `residuals` are relative residuals of the canonical equations
    in the norm of the covariances' diagonals; `error_bounds` bound the distance of each correlation to a
    true one, NaN where unknown; `condition` is that of the matrices factored, NaN where none was squared;
    `ranks` are the dimensions of the two views that the ridge leaves, an upper bound if they were not
    computed, 0 where unknown. `missed` is the share of the total correlation that a check on all rows
    found missing, `hidden` the least share that one on some rows found to be hidden in low variance,
    `rounding` what rounding may change where there are no error bounds. `unprobed` is True if there were no
    passes for a look at directions of low variance, `crowded` if clusters of rare columns may have
    better pairs, None if there was no look at them, `known` if a run has looked at the covariances of all
    columns. `outside` is the correlation that pairs outside of the span may have: 0 where there can be
    none, NaN where it is not known. `redundancy` is the share of the variance of each view that the scores
    of the other one explain, one for each component. `spectrum` are all correlations, where these are known.
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
    missed: float = np.nan
    hidden: float = np.nan
    rounding: float = np.nan
    unprobed: bool = False
    crowded: bool | None = None
    known: bool = False
    outside: float = np.nan
    redundancy: tuple[Array, Array] | None = None
    spectrum: Spectrum | None = None


class Diagnostics(NamedTuple):
    """Diagnostics of one step, kept apart from the state.

    A and B are the best bases so far, `products` and `grams` theirs if known (from effectively `rows` rows),
    `correlations` theirs if they are canonical pairs of their spans already, and `residual` their largest
    residual if known; `missing` is the share of the correlation that they miss, if there is an estimate. If
    the correlation captured is an `estimate`, from some of the rows or in low precision, it is not compared
    with earlier ones: the newest counts. `event` says what went wrong and was repaired; `stalled` is True if
    more steps would not help. `judged` are correlations on rows that no step had used by then. It is
    `crowded` if clusters of rare columns may have better pairs, None where that is not known. It is
    `known` what the best pairs are if the covariances of all columns have been looked at. `outside` is
    the correlation that others may have: 0 where there can be none, NaN where it is not known.
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
    missing: float = np.inf
    crowded: bool | None = None
    known: bool = False
    outside: float = np.nan


class Algorithm(Protocol):
    """Hyper-parameters and one step; no loop, no printing."""

    def init(self, cov: Any, k: int, rng: np.random.Generator) -> tuple[Any, Diagnostics]:
        """Return the first state, for bases of k columns."""

    def step(self, state: Any, cov: Any) -> tuple[Any, Diagnostics]:
        """Return the next state: a NamedTuple with only what the step after it needs."""


class Limits(NamedTuple):
    """Budgets of a run; None is unlimited."""

    iterations: int | None = None
    passes: float | None = None
    seconds: float | None = None
    flops: float | None = None

    def with_iterations(self, default: int, *, by_passes: bool) -> Limits:
        """The limits with a default number of iterations, unless another limit is set that ends the run.

        `by_passes` is True if every iteration takes a pass, so that a limit of passes does.
        """
        ends = (self.iterations, self.seconds, self.flops, self.passes if by_passes else None)
        return self if any(limit is not None for limit in ends) else self._replace(iterations=default)


class Saved(NamedTuple):
    """All that a run needs to resume; a checkpoint holds this."""

    state: Any
    best: Diagnostics
    diagnostics: Diagnostics
    iteration: int
    flops: float
    seconds: float
    passes: float


class Progress(NamedTuple):
    """Where a run stands after an iteration; `solution()` returns the solution at the best state so far.

    `residual` is the largest of all components', infinite if unknown; `rows` is the number delivered so far,
    `left` the estimated seconds to the end, None if unknown, and `at_most` then those that the budgets leave.
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
    at_most: float | None = None

    def record(self) -> dict[str, Any]:
        """Return the record for `history_`: the numbers, and the event if there was one."""
        event = {} if self.event is None else {"event": self.event}
        return event | {
            "iteration": self.iteration,
            "passes": self.passes,
            "seconds": self.seconds,
            "flops": self.flops,
            "tcc": self.tcc,
        }
