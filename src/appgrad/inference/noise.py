"""The noise level: the correlation that unrelated views reach, and what is left of correlations above it."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..machine.arrays import Array
from ..solvers.problem import Dimensions, Problem, Solution, Spectrum
from .distributions import approximate_limit, debiased, edge, largest_limit
from .ridged_noise import Shrunk, ridged_level

# The share of data sets of noise whose first correlation is above the noise level.
SHARE = 0.05
# A ridge that leaves at least this share of the dimensions changes no test.
KEPT = 0.99
# Correlations that noise alone reaches are worth a warning above this.
NOISY = 0.3
AGED = "rows count less as they age"
NEEDS_SHAPE = "it takes numbers of independent columns and rows, which are not known here"


class Noise(NamedTuple):
    """The noise level of a fit: what the first correlation of noise exceeds in 5 % of all data sets.

    `edge` is where it is for large views (Wachter 1980). Both are NaN if there is a `reason`. They are upper
    bounds if the ranks are not `known`.
    """

    level: float
    edge: float
    reason: str
    known: bool
    dimensions: Dimensions

    def limits(self, k: int) -> Array:
        """Levels for k components: that of component j + 1 has j dimensions less in the smaller view."""
        x, y = self.dimensions.ranks
        if self.reason:
            return np.full(k, np.nan)
        most, least, n = max(x, y), min(x, y), self.dimensions.rows
        return np.array([largest_limit(SHARE, n, most, least - j) if j < least else np.nan for j in range(k)])

    def debiased(self, correlations: Array) -> Array:
        """Correlations without what noise adds to them; NaN at the edge and below, and without ranks."""
        if self.reason or not self.known:
            return np.full(len(correlations), np.nan)
        return debiased(np.asarray(correlations) ** 2, self.dimensions.rows, *self.dimensions.ranks)


@lru_cache(maxsize=256)
def noise_of(dimensions: Dimensions) -> Noise:
    """Return the noise level of views of these dimensions.

    >>> round(noise_of(Dimensions(20, (3, 3))).level, 4)
    0.7575
    """
    level = far = np.nan
    if not dimensions.reason:
        n, (x, y) = dimensions.rows, dimensions.ranks
        level, far = largest_limit(SHARE, n, x, y), edge(n, x, y)
    return Noise(level, far, dimensions.reason, dimensions.known, dimensions)


def dimensions_of(solution: Solution, n: int, columns: tuple[int, int], problem: Problem) -> Dimensions:
    """Return the dimensions of a fit to n rows with these columns, and why no theory holds if none does.

    Direct solvers know the ranks, and what the ridge leaves of them. For others, all columns that vary count
    as independent, and as equally varying: the dimensions are upper bounds.
    """
    found = solution.spectrum
    if found is not None:
        return _checked(Dimensions(found.rows, found.ranks), found.left, problem.is_ridged)
    rows = n if problem.center else n + 1
    deviations = solution.std_x, solution.std_y
    if any(len(sd) != p for sd, p in zip(deviations, columns, strict=True)):
        return Dimensions(rows, (0, 0), False, NEEDS_SHAPE)
    x, y = (min(int(np.count_nonzero(sd)), rows - 1) for sd in deviations)
    views = shrunk(n, columns, solution, problem)
    left = tuple(
        rank if np.isinf(view.variance) else rank * view.variance / (view.variance + rank)
        for rank, view in zip((x, y), views, strict=True)
    )
    return _checked(Dimensions(rows, (x, y), False), (left[0], left[1]), problem.is_ridged)


def _checked(found: Dimensions, left: tuple[float, float], ridged: bool) -> Dimensions:
    """The dimensions with the reason why there is no theory for them, if there is one."""
    n, (x, y) = found.n, found.ranks
    reason = ""
    if n != round(n):
        reason = f"{n:.6g} rows are no whole number"
    elif n > 1e15:
        reason = "there are too many rows for doubles to count"
    elif not min(x, y):
        reason = "a view has no columns that vary"
    elif _takes(left, (x, y)):
        which = "the ridge" if ridged else "the default ridge, which may be set to 0,"
        reason = f"{which} leaves {left[0]:.1f} + {left[1]:.1f} of {x} + {y} dimensions"
    elif x + y >= n:
        columns = "independent columns" if found.known else "columns"
        reason = f"{x} + {y} {columns} for {found.rows} rows, which force correlations of 1"
    return found._replace(reason=reason)


def ridge_matters(found: Spectrum) -> bool:
    """True if a ridge takes so much of the dimensions that tests without one do not hold."""
    return _takes(found.left, found.ranks)


def _takes(left: tuple[float, float], ranks: tuple[int, int]) -> bool:
    return any(part < KEPT * rank for part, rank in zip(left, ranks, strict=True))


def like_noise(n: int, p1: int, p2: int, solution: Solution, problem: Problem) -> list[str]:
    """Return a remark if noise alone would reach a high first correlation, and this one is not above that."""
    if not any(solution.ranks):
        return []
    found = dimensions_of(solution, n, (p1, p2), problem)
    if found.reason:
        return _like_ridged_noise(n, p1, p2, solution, problem)
    first, rows, ranks = float(solution.correlations[0]), found.rows, found.ranks
    # The approximation is never too small, and takes no time.
    most = approximate_limit(SHARE, rows, *ranks)
    if most <= NOISY or first > most:
        return []
    level = largest_limit(SHARE, rows, *ranks)
    if level <= NOISY or first > level:
        return []
    advice = "Judge by held-out rows (score)" if problem.is_ridged else ADVICE
    return [
        f"the first correlation of {first:.2f} is not clearly above what noise alone reaches: {level:.2f}, "
        f"which 5 of 100 data sets of noise with {n} rows and {ranks[0]} + {ranks[1]} dimensions exceed. "
        f"{advice}"
    ]


ADVICE = "Set a ridge, and judge by held-out rows (score)"


def _like_ridged_noise(n: int, p1: int, p2: int, solution: Solution, problem: Problem) -> list[str]:
    """The same where a ridge matters, or correlations of 1 are forced: by an upper bound of the level."""
    (x, y), views = solution.ranks, shrunk(n, (p1, p2), solution, problem)
    level, first = ridged_level(n, *views), float(solution.correlations[0])
    if level.edge <= NOISY or first > level.limit:
        return []
    advice = "Judge by held-out rows (score)" if problem.is_ridged else ADVICE
    if level.edge > 0.99 and first > 0.99:
        return [
            f"correlations are close to 1, as any data with {p1 + p2} columns for {n} rows would have them: "
            f"these numbers show nothing. {advice}"
        ]
    less = any(view.left < view.full for view in views) and problem.is_ridged
    return [
        f"the first correlation of {first:.2f} is not clearly above what noise alone reaches: "
        f"{'up to ' if less else ''}about {level.edge:.2f} with {n} rows and {x} + {y} dimensions"
        f"{' that the ridge leaves' if less else ''}. {advice}"
    ]


def shrunk(n: int, columns: tuple[int, int], solution: Solution, problem: Problem) -> tuple[Shrunk, Shrunk]:
    """Return the dimensions and the variance of both views, in units of the ridge that the user has set."""
    pair, found = problem.ridge if isinstance(problem.ridge, tuple) else (problem.ridge, problem.ridge), []
    for r, sd, left, p in zip(pair, (solution.std_x, solution.std_y), solution.ranks, columns, strict=True):
        variance = np.inf
        if isinstance(r, int | float) and r > 0:
            total = np.count_nonzero(sd) if problem.scale else np.sum(sd * sd)
            variance = float(total) / r
        found.append(Shrunk(left, variance, min(p, n - 1)))
    return found[0], found[1]
