"""What is said of a run that falls short: the sentences that solvers share."""

from __future__ import annotations

import numpy as np

from .problem import Limits, Solution
from .protocol import Outcome

# Scores whose terms are a thousand times as large as they are: S is far from its diagonal there, and so is
# the norm of residuals from the one that bounds errors.
DEPENDENT = 1e6
# Parameters of the budgets on which a run ends.
BUDGETS = {
    "iterations": "max_iter",
    "passes": "max_passes",
    "seconds": "max_seconds",
    "flops": "max_flops",
    "data": "max_passes",
}


def out_of_budget(outcome: Outcome, *, has_tol: bool = True, by_residual: bool = False) -> list[str]:
    """A remark on a run that ended on a budget somebody set.

    A solver has a tolerance to reach or not; where that is one of residuals, a run that reached it by
    chance with its last step has not fallen short.
    """
    progress, options = outcome.progress, outcome.options
    if progress.stopped not in BUDGETS or (progress.stopped == "data" and options.limits == Limits()):
        return []
    if by_residual and outcome.worst < options.tol:
        return []
    before = f", before tol={options.tol:g} was reached" if has_tol else ""
    if by_residual:
        before += f" (largest residual {outcome.worst:.2g})"
    return [
        f"{options.solver} stopped at its {BUDGETS[progress.stopped]} after {progress.iteration} "
        f"iterations, {outcome.passes:.1f} passes and {progress.seconds:.1f} s{before}: the result "
        f"captures a total correlation of {outcome.captured:.4f}. Allow more, or judge by held-out rows "
        "(score) whether that is enough"
    ]


def is_dependent(solution: Solution) -> bool:
    """True if scores are small differences of large terms: columns nearly depend on each other."""
    sides = (solution.x_weights, solution.std_x), (solution.y_weights, solution.std_y)
    return max(float(np.einsum("ij,ij,i->j", W, W, sd * sd).max()) for W, sd in sides) > DEPENDENT
