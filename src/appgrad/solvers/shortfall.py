"""Warnings about a run that falls short, shared by solvers."""

from __future__ import annotations

import numpy as np

from ..machine.readable import number
from .problem import Limits, Solution
from .protocol import Outcome

# Squared ratio of the terms of a score to the score itself: a thousand times as large. There S is far from
# its diagonal, and the norm of residuals is far from the one that bounds errors.
DEPENDENT = 1e6
# The parameter that sets each budget on which a run may end.
BUDGETS = {
    "iterations": "max_iter",
    "passes": "max_passes",
    "seconds": "max_seconds",
    "flops": "max_flops",
    "data": "max_passes",
}


def out_of_budget(outcome: Outcome, *, has_tol: bool = True, by_residual: bool = False) -> list[str]:
    """Return a remark if a run ended on a budget that the user set.

    `has_tol` is True if the solver has a tolerance to reach. With `by_residual` that is one of residuals: a
    run that reached it by chance with its last step has not fallen short.
    """
    progress, options = outcome.progress, outcome.options
    if progress.stopped not in BUDGETS or (progress.stopped == "data" and options.limits == Limits()):
        return []
    if by_residual and outcome.worst < options.tol:
        return []
    steps = number(progress.iteration, "iteration")
    before = f", before tol={options.tol:g} was reached" if has_tol else ""
    if by_residual:
        before += f" (largest residual {outcome.worst:.2g})"
    return [
        f"{options.solver} stopped at its {BUDGETS[progress.stopped]} after {steps}, "
        f"{outcome.passes:.1f} passes and {progress.seconds:.1f} s{before}: the result "
        f"captures a total correlation of {outcome.captured:.4f}. Allow more, or judge by held-out rows "
        "(score) whether that is enough"
    ]


def stalled(outcome: Outcome) -> list[str]:
    """A remark on a run whose residuals do not fall any more."""
    options, progress, worst = outcome.options, outcome.progress, outcome.worst
    if progress.stopped != "stalled":
        return []
    steps, advice = number(progress.iteration, "iteration"), "use a larger ridge, or solver='exact'"
    if is_dependent(outcome.solution):
        advice = "some columns are nearly dependent: use a ridge"
    elif options.preconditioner is None:
        advice = "use a preconditioner"
    elif worst < 100 * options.tol:
        advice = "use a larger tol"
    return [
        f"{options.solver} stalls after {steps}: residuals of up to {worst:.2g} "
        f"do not fall to tol={options.tol:g}. Total correlation captured: {outcome.captured:.4f}; {advice}"
    ]


def is_dependent(solution: Solution) -> bool:
    """True if scores are small differences of large terms: columns nearly depend on each other."""
    sides = (solution.x_weights, solution.std_x), (solution.y_weights, solution.std_y)
    return max(float(np.einsum("ij,ij,i->j", W, W, sd * sd).max()) for W, sd in sides) > DEPENDENT
