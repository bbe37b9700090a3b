"""Warnings about a run that falls short, shared by solvers."""

from __future__ import annotations

import numpy as np

from ..covariance.operators import Rounding
from ..machine.arrays import EPS, Array
from ..machine.readable import number
from .convergence import NOTHING, ONE
from .probe import DEEP, LEAST
from .problem import Limits, Solution
from .protocol import Outcome

# Squared ratio of the terms of a score to the score itself: a thousand times as large. There S is far from
# its diagonal, and the norm of residuals is far from the one that bounds errors.
DEPENDENT = 1e6
# Bounds of rounding errors above this are worth a warning: errors themselves are a tenth of them at most
# (near-collinear columns, 5 to 50 of them).
NOTABLE = 3e-5
# Steps on minibatches are noisy: a third of a thousandth of the correlation is little to miss.
LITTLE = 3e-4
# What a run may miss, in all, where that is known and not estimated.
MISSED = 1e-3
# A run holds its promise if it misses no more than this many times tol.
ALLOWED = 3
# What residuals of a result say to be missing, over tol, above which a run that ended has not reached tol.
CONTRADICTED = 10
# Iterations for each digit of tol, above which a run may have passed over a pair; fewer are enough on sparse
# rows where all correlations found are above NEAR.
SLOW, SLOW_NEAR, NEAR = 12, 8, 0.9
# Pairs below the last one belong to a crowd with it up to this factor of its distance to 1.
AS_NEAR = 1.5
# The parameter that sets each budget on which a run may end.
BUDGETS = {
    "iterations": "max_iter",
    "passes": "max_passes",
    "seconds": "max_seconds",
    "flops": "max_flops",
    "data": "max_passes",
}


def missing_share(solution: Solution) -> float:
    """The share of the total correlation that a solution misses, by its residuals: about sum r^2 / rho."""
    rho = np.maximum(solution.correlations, 1e-300)
    total = float(solution.correlations.sum())
    if total <= 0 or not np.all(np.isfinite(solution.residuals)):
        return float(np.inf)
    r = solution.residuals * rho[0]
    bounds = np.where(np.isnan(solution.error_bounds), 0.0, solution.error_bounds)
    if np.isfinite(solution.condition) and bounds.max() > MISSED:
        # Bounds by matrices in memory are residuals in the norm of their inverse.
        r = np.maximum(r, bounds)
    return float(np.sum(np.minimum(r, r * r / rho))) / total


def out_of_budget(outcome: Outcome, *, has_tol: bool = True, by_residual: bool = False) -> list[str]:
    """Return a remark if a run ended on a budget that the user set.

    `has_tol` is True if the solver has a tolerance to reach. With `by_residual` its residuals tell what is
    missing, to a small factor: a run has not fallen short if that is next to nothing.
    """
    progress, options = outcome.progress, outcome.options
    if progress.stopped not in BUDGETS or (progress.stopped == "data" and options.limits == Limits()):
        return []
    share = missing_share(outcome.solution)
    if by_residual and share <= NOTHING * options.tol:
        return []
    if leaves_little(outcome):
        return []
    steps = number(progress.iteration, "iteration")
    before = f", before tol={options.tol:g} was reached" if has_tol else ""
    if by_residual:
        before += f" (by its residuals, about {share:.1g} of the correlation is missing)"
    allowed, kept = options.limits.passes, ""
    if progress.stopped == "passes" and allowed is not None and allowed - outcome.passes > DEEP / 2:
        kept = " (others were kept for a look at directions of low variance)"
    return [
        f"{options.solver} stopped at its {BUDGETS[progress.stopped]} after {steps}, "
        f"{outcome.passes:.1f} passes{kept} and {progress.seconds:.1f} s{before}: the result "
        f"captures a total correlation of {outcome.captured:.4f}. Allow more, or judge by held-out rows "
        "(score) whether that is enough"
    ]


def rounded(outcome: Outcome, bounds: Array, advice: str) -> list[str]:
    """A remark if rounding may have changed correlations by more than a little; NaN is not known."""
    worst = float(np.max(np.where(np.isnan(bounds), np.inf, bounds)))
    if worst <= NOTABLE:
        return []
    amount = f"up to {worst:.1g}" if worst < 1 else "an unknown amount"
    return [
        f"{outcome.options.solver}: rounding may change the correlations by {amount}, because some columns "
        f"nearly depend on each other: {advice}"
    ]


def lost_in_rounding(outcome: Outcome, advice: str = "use solver='qr', or a larger ridge") -> list[str]:
    """A remark if rounding may have changed correlations: those of p x p matrices, or of sums over rows.

    Sums over rows know nothing of a condition: their scores may still be small differences of large terms.
    """
    solution = outcome.solution
    condition = 1.0 if np.isnan(solution.condition) else solution.condition
    p = max(len(solution.x_weights), len(solution.y_weights))
    terms = sizes(solution).sum(axis=0)
    bounds = Rounding(EPS, condition).bounds(solution.correlations, terms, p)
    # Gram matrices know themselves.
    known = bounds if np.isnan(solution.rounding) else np.array([solution.rounding])
    return rounded(outcome, known, advice)


def with_scores(solution: Solution) -> Array:
    """Error bounds of the correlations, or of those of the scores if they are larger.

    With a large ridge, scores may be small differences of columns where correlations are well known. Without
    squares, they are well known too.
    """
    if np.isnan(solution.condition):
        return solution.error_bounds
    p, terms = max(len(solution.x_weights), len(solution.y_weights)), sizes(solution).sum(axis=0)
    scores = Rounding(EPS, 1.0).bounds(solution.training_correlations, terms, p)
    return np.maximum(solution.error_bounds, scores)


def contradicted(outcome: Outcome) -> list[str]:
    """A remark on a run that saw small residuals, and whose result has large ones.

    Steps may lose directions in rounding that the result needs, or measure residuals in a norm that hides
    them.
    """
    options, share = outcome.options, missing_share(outcome.solution)
    if outcome.progress.stopped != "converged" or share <= CONTRADICTED * options.tol:
        return []
    return [
        f"{options.solver} ended after {outcome.progress.iteration} iterations, but the residuals of its "
        f"result, up to {outcome.worst:.2g}, say that {share:.1g} of the correlation is missing, above "
        f"tol={options.tol:g}: rounding hides directions that vary little. Total correlation captured: "
        f"{outcome.captured:.4f}; use a larger ridge, or solver='qr'"
    ]


def unfinished(outcome: Outcome) -> list[str]:
    """A remark on a run of a fixed length whose residuals allow it to miss more than a little.

    A pair with the residual r is within r of a correlation, and within r^2 / gap if others are further away.
    Others are not known: a tenth of the correlation itself is taken for the gap. A solution that was checked
    knows what it has missed.
    """
    options, solution = outcome.options, outcome.solution
    rho = solution.correlations
    judged = not any(solution.ranks) or outcome.progress.stopped == "callback"
    if options.sparsity is not None or judged or outcome.captured <= 0:
        return []
    r = solution.residuals * rho[0]
    share = float(np.sum(np.minimum(r, r * r / np.maximum(0.1 * rho, 1e-300)))) / outcome.captured
    little = LITTLE
    if not np.isnan(solution.missed):
        # Below zero if rounding has changed the result.
        share, little = abs(solution.missed), MISSED / (3 * outcome.captured)
    if share <= 3 * max(options.tol, little):
        return []
    return [
        f"{options.solver} ended with residuals of up to {outcome.worst:.2g}: it may miss {share:.1%} of the "
        f"total correlation, {outcome.captured:.4f}, or more. Allow more passes (max_passes), or use "
        "solver='lobpcg'"
    ]


def hidden_pairs(solver: str, solution: Solution) -> list[str]:
    """A remark if rows in memory show pairs that a solution has not found."""
    if not solution.hidden > 3 * LITTLE:
        return []
    return [
        f"{solver} has not found pairs with {solution.hidden:.1%} of the total correlation, or more: they "
        "sit in directions of low variance. Use solver='lobpcg' or 'qr'"
    ]


def unprobed(outcome: Outcome) -> list[str]:
    """A remark on a run that ended without a look at directions of low variance, for want of passes."""
    if not _has_ended(outcome) or not outcome.solution.unprobed or leaves_little(outcome):
        return []
    return [
        f"{outcome.options.solver} takes no look at directions of low variance with so few passes allowed, "
        f"and may miss pairs in them: allow {np.ceil(LEAST * (DEEP + 1)) + 1:.0f} passes (max_passes) or more"
    ]


def leaves_little(outcome: Outcome, times: float = 1.0) -> bool:
    """True if the correlations found, all near 1, leave no more than so many times `tol` to gain."""
    return (
        len(outcome.solution.correlations) - outcome.captured
        <= times * outcome.options.tol * outcome.captured
    )


def _has_ended(outcome: Outcome) -> bool:
    """True unless a run stalled or was stopped by a callback. Callers ask `out_of_budget` first."""
    return outcome.progress.stopped in ("converged", *BUDGETS)


def _leaves_nothing(outcome: Outcome) -> bool:
    """True if a run holds its promise even if all correlations it was asked for are 1."""
    far = 1 - outcome.solution.correlations.min()
    return leaves_little(outcome, ALLOWED) and bool(far <= ONE * outcome.options.tol)


def crowded(outcome: Outcome) -> list[str]:
    """A remark on a run that has not looked at all clusters of rare columns with pairs near its last one."""
    if not _has_ended(outcome) or not outcome.solution.crowded or _leaves_nothing(outcome):
        return []
    return [
        f"{outcome.options.solver}: correlations crowd together, and there are more clusters of rare columns "
        f"than could be looked at: better pairs may be missing. {_compare(outcome)}"
    ]


def unlooked(outcome: Outcome) -> list[str]:
    """A remark on a run that ended in a crowd of correlations near 1, and had no look for others.

    Pairs outside of the span, each of a few columns, leave no trace in residuals. Simulated crowds of dense
    rows missed up to 0.0007 of the correlation (docs/decisions/0014).
    """
    far, outside = 1 - outcome.solution.correlations.min(), outcome.solution.outside
    if not _has_ended(outcome) or _leaves_nothing(outcome):
        return []
    # What is not known may be as near as can be.
    if far > 1 - NEAR or 1 - outside > AS_NEAR * far:
        return []
    limited = any(limit is not None for limit in outcome.options.limits)
    budget = ", for which the budget or the memory must allow" if limited else ", which are too many"
    return [
        f"{outcome.options.solver}: correlations crowd together near 1, and there was no look at all columns"
        f"{budget}: better pairs may be missing. {_compare(outcome)}, or solver='exact'"
    ]


def slow(outcome: Outcome) -> list[str]:
    """A remark on a run that ended after many iterations: a pair that comes late may not have come yet.

    Fits of URLs with a ridge of 1e-5 that had passed over a pair took 9 to 14 iterations for each digit of
    `tol`; other sparse data with all correlations near 1 up to 13, with all pairs found.
    """
    tol, count, rho = outcome.options.tol, outcome.progress.iteration, outcome.solution.correlations
    sparse = outcome.solution.crowded is not None
    most = SLOW_NEAR if sparse and rho.min() > NEAR else SLOW
    if not _has_ended(outcome) or tol == 0 or count <= most * -np.log10(min(tol, 0.1)):
        return []
    if outcome.solution.known:
        return []
    return [
        f"{outcome.options.solver} took {count} iterations: correlations crowd together, and a pair that "
        f"comes late may be missing, though most such runs have found all. {_compare(outcome)}"
    ]


def _compare(outcome: Outcome) -> str:
    return (
        f"Total correlation captured: {outcome.captured:.6f}. To check, fit again with another random_state: "
        "the larger total is the better one. Or use a smaller tol, or a larger ridge"
    )


def stalled(outcome: Outcome) -> list[str]:
    """A remark on a run whose residuals do not fall any more."""
    options, progress = outcome.options, outcome.progress
    if progress.stopped != "stalled":
        return []
    share = missing_share(outcome.solution)
    steps, advice = number(progress.iteration, "iteration"), "use a larger ridge, or solver='exact'"
    if is_dependent(outcome.solution):
        advice = "some columns are nearly dependent: use a ridge"
    elif options.preconditioner is None:
        advice = "use a preconditioner"
    elif share < 100 * options.tol:
        advice = "use a larger tol"
    return [
        f"{options.solver} stalls after {steps}: it gains nothing, but by its residuals, up to "
        f"{outcome.worst:.2g}, {share:.1g} of the correlation is missing, above tol={options.tol:g}. Total "
        f"correlation captured: {outcome.captured:.4f}; {advice}"
    ]


def is_dependent(solution: Solution) -> bool:
    """True if scores are small differences of large terms: columns nearly depend on each other."""
    return float(sizes(solution).max()) > DEPENDENT


def sizes(solution: Solution) -> Array:
    """Squared terms of the scores of both views (2 x k): far above 1 where these are small differences."""
    sides = (solution.x_weights, solution.std_x), (solution.y_weights, solution.std_y)
    return np.array([np.einsum("ij,ij,i->j", W, W, sd * sd) for W, sd in sides])
