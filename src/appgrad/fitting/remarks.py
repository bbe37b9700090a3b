"""Remarks on a fit: warnings about its correlations and its convergence."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import joblib
import numpy as np
import sklearn
from sklearn.exceptions import ConvergenceWarning

from ..data.derived import CountedViews
from ..machine.arrays import EPS
from ..machine.readable import number
from ..solvers import registry
from ..solvers.problem import Limits, Progress, Solution
from ..solvers.protocol import Options, Outcome
from ..solvers.shortfall import BUDGETS, missing_share
from .checkpoint import CheckpointFile

# Correlations of training rows above this look like a finding.
MEMORISED = 0.9
# With fewer rows for each dimension of functions, correlations say little.
FLEXIBLE = 2.5
# A warning points at the first line outside of this package, of scikit-learn, which wraps transform and fits
# in searches, and of joblib, which runs these.
INSIDE = tuple(
    f"{folder}{os.sep}"
    for folder in (Path(__file__).parents[1], Path(sklearn.__file__).parent, Path(joblib.__file__).parent)
)


# Whole numbers above this are rounded in doubles.
WHOLE = 2.0**53
# Values that differ by fewer roundings are badly known.
COARSE = 1e4
# Solvers with a step size that can be set; a test compares them with what solvers do.
STEPPING = ("appgrad", "stochastic")


class OverfitWarning(UserWarning):
    """Unrelated views with as many rows and columns would be as correlated: the correlations show nothing."""


class Remark(NamedTuple):
    """A sentence on a problem of a fit, and its category of warning."""

    text: str
    category: type[Warning] = UserWarning

    @property
    def overfit(self) -> bool:
        """True if the remark is about meaningless correlations."""
        return issubclass(self.category, OverfitWarning)


def said(text: str, category: type[Warning]) -> list[Remark]:
    """A list of one remark."""
    return [Remark(text, category)]


def issue(remarks: Iterable[Remark]) -> None:
    """Issue each remark as a warning that points at the user's line."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    for remark in remarks:
        warnings.warn(remark.text, remark.category, stacklevel=level)


def shortfall_remarks(
    progress: Progress,
    options: Options,
    views: CountedViews,
    solution: Solution,
    kind: str = registry.LINEAR,
) -> list[Remark]:
    """Return remarks on a run that has not converged, or whose residuals may understate its error."""
    outcome = Outcome(progress, options, views.passes, solution)
    texts = registry.solver(options.solver, kind).shortfalls(outcome)
    unused = [] if registry.is_iterative(options.solver) else _unused_budget(options)
    return unused + [remark for text in texts for remark in said(text, ConvergenceWarning)]


def interrupted_remarks(
    progress: Progress,
    options: Options,
    views: CountedViews,
    solution: Solution,
    checkpoint: CheckpointFile | None = None,
) -> list[Remark]:
    """Return a remark on a run that Ctrl-C has ended: how far it was, and how to finish it."""
    share, accuracy = missing_share(solution), ""
    # Residuals of sparse components are not errors.
    if options.sparsity is None and np.isfinite(share):
        accuracy = (
            f". It misses about {share:.1g} of the correlation, where tol={options.tol:g} was asked for"
        )
    advice = "Fit again to finish it"
    if checkpoint is not None:
        advice = f"Go on with checkpoint={os.fspath(checkpoint.path)!r}"
    return said(
        f"the model is unfinished: {options.solver} was interrupted after "
        f"{number(progress.iteration, 'iteration')} and {views.passes:.1f} passes{accuracy}. {advice}",
        ConvergenceWarning,
    )


def _unused_budget(options: Options) -> list[Remark]:
    """Return a remark if a budget was set, which a direct solver does not use."""
    given = [name for name, limit in zip(Limits._fields, options.limits, strict=True) if limit is not None]
    if not given:
        return []
    return said(
        f"{BUDGETS[given[0]]} is for iterative solvers and was not used by {options.solver}: set "
        "solver='lobpcg', or 'stochastic'",
        UserWarning,
    )


def coarse_remarks(solution: Solution, columns: Callable[[int, int], str]) -> list[Remark]:
    """Return a remark on columns of values so large that doubles do not tell them apart.

    These may be keys, or times in nanoseconds. `columns` describes a column of a view.
    """
    found = []
    moments = (solution.mean_x, solution.std_x), (solution.mean_y, solution.std_y)
    for view, (mean, sd) in enumerate(moments):
        size = np.abs(mean)
        # Whole numbers of 64 bits may have become all the same; others that are may have been so before.
        known = (size > WHOLE) & ((sd > 0) | (size < 2.0**64))
        coarse = np.flatnonzero(known & (sd < COARSE * EPS * size))
        if len(coarse):
            found += said(
                f"{columns(view, int(coarse[0]))} holds values of about {mean[coarse[0]]:.1e}, which differ "
                "by less than doubles can tell: subtract a number from them before they are converted to "
                "floats",
                UserWarning,
            )
    return found


def unused_steps(options: Options) -> list[Remark]:
    """Return a remark if a step size was set for a solver that the user chose and that takes no steps."""
    if options.step_size is None or options.solver in (registry.AUTO, *STEPPING):
        return []
    return said(
        f"step_size is not used by {options.solver}: leave it out, or set solver='appgrad', or 'stochastic'",
        UserWarning,
    )


def overfit_remarks(texts: list[str]) -> list[Remark]:
    """Return remarks on meaningless correlations."""
    return [remark for text in texts for remark in said(text, OverfitWarning)]


def best_columns(n: int, columns: tuple[int, int], used: tuple[int, int], solution: Solution) -> list[str]:
    """Return a remark if choosing the best columns alone explains this correlation.

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
    """Return a remark if training rows are correlated far more than functions are with the ridge."""
    training, counted = solution.training_correlations[0], solution.correlations[0]
    if training <= MEMORISED or counted >= training / 3:
        return []
    return [
        f"the scores of the training rows are correlated by {training:.2f}, but only by {counted:.2f} "
        "when functions pay for their norm: they know rows by heart. Judge by held-out rows (score)"
    ]


def flexible(n: int, solution: Solution) -> list[str]:
    """Return a remark if functions have so many dimensions that those of any rows are correlated.

    Random subspaces of a fifth of all dimensions each have correlations up to 0.8 (Wachter 1980).
    """
    x, y = solution.ranks
    if x + y < n / FLEXIBLE:
        return []
    return [
        f"functions of X and y have {x} and {y} dimensions for {n} rows: those of unrelated rows would "
        "be correlated too. Use a larger ridge, and judge by held-out rows (score)"
    ]


def trivial(n: int, p1: int, p2: int, solution: Solution, because: str, advice: str) -> list[str]:
    """Return a remark if any data of this shape would have such correlations."""
    p, ranks = p1 + p2, solution.ranks if any(solution.ranks) else (min(p1, n), min(p2, n))
    # Two subspaces of the n - 1 dimensions of centred rows must meet when their dimensions exceed that.
    if p < n or sum(ranks) < n or solution.correlations[0] <= 0.99:
        return []
    return [
        f"correlations are close to 1 because {because}: any data would reach that, so they show nothing. "
        f"{advice}, and judge by held-out rows (score)"
    ]
