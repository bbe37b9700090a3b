"""What is said of a fit: warnings about its correlations and its convergence."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning

from ..data.derived import CountedViews
from ..solvers.problem import Limits, Progress, Solution
from ..solvers.setup import ITERATIVE, Options

# Runs within a thousandth of the solution have residuals below 0.04 (MNIST, Mediamill): here, one stalls.
FAR = 0.1
# Scores whose terms are a thousand times as large as they are: S is far from its diagonal there, and so is
# the norm of residuals from the one that bounds errors.
DEPENDENT = 1e6
# Correlations of training rows that look like a finding.
MEMORISED = 0.9
# Rows for each dimension of functions, below which correlations say little.
FLEXIBLE = 2.5
# What a run that ended on a budget is told, by the budget's name.
BUDGETS = {
    "iterations": "max_iter",
    "passes": "max_passes",
    "seconds": "max_seconds",
    "flops": "max_flops",
    "data": "max_passes",
}
# A warning points at the first line outside of this package, and of scikit-learn, which wraps transform.
INSIDE = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(sklearn.__file__).parent))


class OverfitWarning(UserWarning):
    """The correlations are high because there are too few rows, not because the views are related."""


class Remark(NamedTuple):
    """A sentence on what to beware of in a fit, and the kind of warning it is."""

    text: str
    category: type[Warning] = UserWarning

    @property
    def overfit(self) -> bool:
        """True if it is about correlations that say nothing."""
        return issubclass(self.category, OverfitWarning)


def said(text: str, category: type[Warning]) -> list[Remark]:
    """A list of one remark."""
    return [Remark(text, category)]


def issue(remarks: Iterable[Remark]) -> None:
    """Warn of each remark, pointing at the line of the user that led here."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    for remark in remarks:
        warnings.warn(remark.text, remark.category, stacklevel=level)


def warn_if_unconverged(
    progress: Progress, options: Options, views: CountedViews, solution: Solution
) -> list[Remark]:
    """Remarks on a run that has not converged, or whose residuals may not say so."""
    found: list[Remark] = []
    captured, worst = solution.correlations.sum(), solution.residuals.max()
    if options.solver not in ITERATIVE:
        given = [
            name for name, limit in zip(Limits._fields, options.limits, strict=True) if limit is not None
        ]
        if given:
            found += said(
                f"{BUDGETS[given[0]]} is for iterative solvers and was not used by {options.solver}: set "
                "solver='lobpcg', or 'stochastic'",
                UserWarning,
            )
        return found
    # Residuals of sparse weights are those of what they leave out.
    dense = options.sparsity is None
    if options.solver == "appgrad" and progress.stopped == "converged" and worst > FAR and dense:
        found += said(
            f"appgrad gains less than tol={options.tol:g} an iteration, but residuals of up to {worst:.2g} "
            f"say that it is not at the solution: it captures a total correlation of {captured:.4f}. Use a "
            "preconditioner, a longer step or a smaller tol",
            ConvergenceWarning,
        )
    dependent = _cancelled(solution) > DEPENDENT
    unsure = options.solver == "lobpcg" and bool(np.any(np.isnan(solution.error_bounds)))
    if unsure and progress.stopped == "converged" and dependent:
        found += said(
            "lobpcg: the components are differences of columns that nearly depend on each other. Residuals, "
            "which are estimates, may understate the error: check with solver='qr', or use a ridge",
            ConvergenceWarning,
        )
    if progress.stopped == "stalled":
        advice = "use a larger tol" if worst < 100 * options.tol else "use a larger ridge, or solver='exact'"
        if dependent:
            advice = "some columns are nearly dependent: use a ridge"
        elif options.preconditioner is None:
            advice = "use a preconditioner"
        found += said(
            f"{options.solver} stalls after {progress.iteration} iterations: residuals of up to {worst:.2g} "
            f"do not fall to tol={options.tol:g}. Total correlation captured: {captured:.4f}; {advice}",
            ConvergenceWarning,
        )
    if progress.stopped not in BUDGETS or (progress.stopped == "data" and options.limits == Limits()):
        return found
    if options.solver in ("als", "lobpcg") and worst < options.tol:
        return found
    before = "" if options.solver == "stochastic" else f", before tol={options.tol:g} was reached"
    if options.solver in ("als", "lobpcg"):
        before += f" (largest residual {worst:.2g})"
    found += said(
        f"{options.solver} stopped at its {BUDGETS[progress.stopped]} after {progress.iteration} "
        f"iterations, {views.passes:.1f} passes and {progress.seconds:.1f} s{before}: the result "
        f"captures a total correlation of {captured:.4f}. Allow more, or judge by held-out rows (score) "
        "whether that is enough",
        ConvergenceWarning,
    )
    return found


def _cancelled(solution: Solution) -> float:
    """How much larger the terms of a score are than the score: the largest sum of (weight sd)^2."""
    sides = (solution.x_weights, solution.std_x), (solution.y_weights, solution.std_y)
    return max(float(np.einsum("ij,ij,i->j", W, W, sd * sd).max()) for W, sd in sides)


def overfit_remarks(texts: list[str]) -> list[Remark]:
    """Remarks on correlations that say nothing."""
    return [remark for text in texts for remark in said(text, OverfitWarning)]


def chosen(n: int, columns: tuple[int, int], used: tuple[int, int], solution: Solution) -> list[str]:
    """A remark on correlations that the best columns of so many have in any data.

    The best s of p columns explain about 2 s log(e p / s) / n of anything (Foster & George 1994).
    """
    terms = (2 * s * np.log(np.e * p / s) for s, p in zip(used, columns, strict=True) if s)
    chance, found = float(np.sqrt(min(1.0, sum(terms) / n))), float(solution.training_correlations[0])
    if found >= chance and chance < 1:
        return []
    return [
        f"a correlation of {found:.2f} says little: the best {used[0]} + {used[1]} of {columns[0]} + "
        f"{columns[1]} columns have up to about {chance:.2f} in {n} rows of any data. Judge by held-out "
        "rows (score, SparseCCACV), or use fewer columns"
    ]


def memorised(solution: Solution) -> list[str]:
    """A remark on functions that fit the training rows far better than the ridge lets them count."""
    training, counted = solution.training_correlations[0], solution.correlations[0]
    if training <= MEMORISED or counted >= training / 3:
        return []
    return [
        f"the scores of the training rows are correlated by {training:.2f}, but only by {counted:.2f} "
        "when functions pay for their norm: they know rows by heart. Judge by held-out rows (score)"
    ]


def flexible(n: int, solution: Solution) -> list[str]:
    """A remark on functions of so many dimensions that those of any rows are correlated.

    Random subspaces of a fifth of all dimensions each have correlations up to 0.8 (Wachter 1980).
    """
    x, y = solution.ranks
    if x + y < n / FLEXIBLE:
        return []
    return [
        f"functions of X and y have {x} and {y} dimensions for {n} rows: those of unrelated rows would "
        "be correlated too. Use a larger ridge, and judge by held-out rows (score)"
    ]


def trivial(
    n: int, p1: int, p2: int, solution: Solution, because: str | None = None, advice: str = "Set a ridge"
) -> list[str]:
    """A remark on correlations that any data of this shape would have."""
    p, ranks = p1 + p2, solution.ranks if any(solution.ranks) else (min(p1, n), min(p2, n))
    # Two subspaces of the n - 1 dimensions of centred rows must meet when their dimensions exceed that.
    if p < n or sum(ranks) < n or solution.correlations[0] <= 0.99:
        return []
    return [
        f"correlations are close to 1 because {because or f'there are {p} columns for {n} rows'}, not "
        f"because the views are related: any data would do. {advice}, and judge by held-out rows (score)"
    ]
