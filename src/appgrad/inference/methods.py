"""Methods of testing rows: by theory where it holds, by permutation or on held-out rows elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..data.views import Views
from ..fitting.choose import direct_solver
from ..fitting.projection import Projection, scores_of
from ..fitting.solving import solve_directly
from ..machine.arrays import Array
from ..machine.memory import budget, physical_memory
from ..machine.readable import number, size
from ..solvers import registry
from ..solvers.costs import is_wide
from ..solvers.problem import Dimensions, Problem, Solution, Spectrum
from .multivariate_tests import log_wilks, multivariate, step_down
from .noise import dimensions_of, ridge_matters
from .permutation import (
    Callback,
    Permuted,
    Shuffle,
    group_codes,
    paired_permutation,
    step_down_permutation,
)
from .results import HELD_OUT, PARAMETRIC, PERMUTATION, CanonicalTest

# Beyond this share of columns in rows, Bartlett's chi-square rejects noise too often: 7 % of 50 rows with
# 5 + 20 columns, 39 % of 100 with 30 + 40 (docs/results/benchmarks/inference.json).
CROWDED = 0.4
# Covariances of a worse condition may lose directions, and digits of small correlations. Tests use all.
WORN = 1e7
# The least rows on either side of a split.
FEWEST = 3
# The least rows of a group that is halved.
HALVED = 4
BARTLETT = "Bartlett's chi-square is for far more rows than columns: its p-values are too small here."
NORMAL = "p-values are exact or close for normal rows, and approximate for others; rows must be independent."
ROY = "Roy's p is that of the largest root itself, not of the F beside it, which is an upper bound."
NO_ROOM = "all canonical scores do not fit into the memory budget"
LATER = (
    "p-values after the first component are too small where columns are many: judge these by held-out rows."
)
FIRST = (
    "With a ridge and so many columns, permutations test the first component alone: for the others use "
    f"method={HELD_OUT!r}."
)
RESAMPLED = "p-values depend on the permutations drawn: a larger n_resamples makes them sharper."
ILL = (
    "Columns nearly depend on each other (condition {:.0e}), of which covariances may lose directions: to be "
    "sure, fit with solver='qr'."
)
NOT_CENTRED = "Columns were not centred: a mean other than zero counts as a relation."


class Resampling(NamedTuple):
    """How rows are permuted: how often, by which generator, within which groups."""

    n_resamples: int
    rng: np.random.Generator
    groups: Array | None = None
    callback: Callback | None = None


class Refitted(NamedTuple):
    """A second model: the scores of rows that it has not seen, its correlations, and its warnings."""

    U: Array
    V: Array
    correlations: Array
    remarks: tuple[str, ...] = ()


# Function of the rows to fit and the rows to score.
Refit = Callable[[Array, Array], Refitted]


class Question(NamedTuple):
    """What is to be tested: rows, the problem and the direct solver that they are fitted with, and how.

    `refit` fits another model like it, for held-out rows. `no_theory` says why only these can be tested.
    """

    views: Views
    problem: Problem
    solver: str
    resampling: Resampling
    refit: Refit
    no_theory: str = ""


def tested(question: Question, method: str) -> CanonicalTest:
    """Return the test by this method, or, for "auto", by the first one that holds."""
    views, problem, resampling = question.views, question.problem, question.resampling
    if question.no_theory or method == HELD_OUT:
        return on_held_out(question, question.no_theory)
    if method == PARAMETRIC and resampling.groups is not None:
        raise ValueError(
            f"groups are for permutations: use method={PERMUTATION!r} or {HELD_OUT!r}, or no groups"
        )
    refusal = _refusal(question)
    if refusal and method == "auto":
        return on_held_out(question, refusal)
    solution, solver = _solved(question)
    assert solution.spectrum is not None
    found = solution.spectrum
    dimensions = dimensions_of(solution, views.n_samples, (views.n_features_x, views.n_features_y), problem)
    permuted = method == PERMUTATION or (method == "auto" and resampling.groups is not None)
    if not permuted and not dimensions.reason:
        return by_theory(found, dimensions, views.n_samples, problem.center)
    if method == PARAMETRIC:
        raise ValueError(f"{dimensions.reason}: no theory holds. Use method='auto' to permute rows")
    reason = dimensions.reason or ("rows have groups" if method == "auto" else "")
    forced = sum(found.ranks) >= found.rows and not ridge_matters(found)
    if method == "auto" and not scores_fit(views):
        return on_held_out(question, "; ".join(filter(None, (reason, NO_ROOM))))
    if method == "auto" and forced:
        return on_held_out(question, reason)
    if forced:
        raise ValueError(
            f"{dimensions.reason}, also of permuted rows: set a ridge, or use method={HELD_OUT!r}"
        )
    require_scores(views)
    return by_permutation(question, found, solver, reason)


def by_theory(spectrum: Spectrum, dimensions: Dimensions, n_samples: int, center: bool) -> CanonicalTest:
    """Return the tests of normal rows, from all correlations."""
    n, (p, q), squares = dimensions.rows, dimensions.ranks, spectrum.squares
    steps = step_down(squares, n, p, q)
    columns = {
        "Canonical Correlation": np.sqrt(squares),
        "Wilks' lambda": steps.wilks,
        "Num DF": steps.df1,
        "Den DF": steps.df2,
        "F Value": steps.f,
        "Pr > F": steps.p_f,
        "Chi-square": steps.chi2,
        "Pr > chi2": steps.p_chi2,
    }
    notes = [NORMAL, ROY]
    notes += [BARTLETT] if p + q > CROWDED * n else []
    notes += [] if center else [NOT_CENTRED]
    notes += [] if spectrum.condition < WORN else [ILL.format(spectrum.condition)]
    return CanonicalTest(
        PARAMETRIC,
        "",
        n_samples,
        (p, q),
        columns,
        steps.p_f,
        np.maximum.accumulate(steps.p_f),
        multivariate(squares, n, p, q),
        notes=tuple(notes),
    )


def by_permutation(question: Question, spectrum: Spectrum, solver: str, reason: str) -> CanonicalTest:
    """Return the step-down permutation test on all scores of some rows."""
    n, rng, groups, callback = question.resampling
    U, V, correlations = canonical_scores(question.views, question.problem, solver, spectrum.ranks)
    found = step_down_permutation(
        U, V, correlations, n_resamples=n, rng=rng, groups=groups, callback=callback
    )
    notes = [RESAMPLED]
    if sum(spectrum.ranks) > CROWDED * spectrum.rows and len(correlations) > 1:
        # Permuted scores are not orthogonal to the pairs before, as those found are. Of noise beside one true
        # pair, the second step rejected 10 to 13 % at 5 % without a ridge, and 13 to 56 % with one.
        ridged = ridge_matters(spectrum)
        notes.append(FIRST if ridged else LATER)
        if ridged:
            found = found.first_only()
    notes += _notes_of(question, len(U), groups)
    wilks = np.exp(log_wilks(correlations**2))
    return CanonicalTest(
        PERMUTATION,
        reason,
        question.views.n_samples,
        spectrum.ranks,
        {"Canonical Correlation": correlations, "Wilks' lambda": wilks, **_p_columns(found)},
        found.p_values,
        found.family_wise,
        found.whole,
        n,
        notes=tuple(notes),
    )


def on_held_out(question: Question, reason: str) -> CanonicalTest:
    """Fit a second model to half of the rows, and test its components on the others."""
    views, (n, rng, groups, callback) = question.views, question.resampling
    if views.n_samples < 2 * FEWEST:
        raise ValueError(
            f"{views.n_samples} rows cannot be split: a held-out test needs at least {2 * FEWEST}"
        )
    train, test = halves(views.n_samples, groups, rng)
    try:
        refitted = question.refit(train, test)
    except ValueError as error:
        raise ValueError(
            f"a held-out test fits a second model to half of the rows, which failed: {error}"
        ) from error
    within = None if groups is None else groups[test]
    held, found = paired_permutation(
        refitted.U, refitted.V, n_resamples=n, rng=rng, groups=within, callback=callback
    )
    own = (
        f"{len(test)} of {views.n_samples} rows were left out of a second fit, whose correlations are in the "
        "first column. Which half is left out decides: another rng gives another p."
    )
    return CanonicalTest(
        HELD_OUT,
        reason,
        len(test),
        (views.n_features_x, views.n_features_y),
        {
            "Canonical Correlation": np.asarray(refitted.correlations, dtype=float),
            "Held-out Correlation": held,
            **_p_columns(found),
        },
        found.p_values,
        found.family_wise,
        {},
        n,
        notes=(own, *_notes_of(question, len(test), within), *refitted.remarks),
    )


def halves(n: int, groups: Array | None, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return the rows to fit and the rows to test, in order: random halves.

    Groups of four rows or more are halved; if there are smaller ones, all stay whole, in either half.
    """
    order = rng.permutation(n)
    if groups is None:
        return np.sort(order[: n // 2]), np.sort(order[n // 2 :])
    codes = group_codes(groups, n)
    counts = np.bincount(codes)
    if counts.min() >= HALVED:
        # Every other row of each group, in random order.
        order = order[np.argsort(codes[order], kind="stable")]
        order = np.concatenate([order[1::2], order[::2]])
        return np.sort(order[: n // 2]), np.sort(order[n // 2 :])
    mixed = rng.permutation(len(counts))
    fitted = np.zeros(len(counts), dtype=bool)
    fitted[mixed[np.cumsum(counts[mixed]) <= n / 2]] = True
    train, test = np.flatnonzero(fitted[codes]), np.flatnonzero(~fitted[codes])
    if len(train) < FEWEST or counts[~fitted].max() < 2:
        raise ValueError(
            f"{len(counts)} groups cannot be put into two halves with groups of several rows in both: set a "
            f"ridge, and use method={PERMUTATION!r}, or give other groups"
        )
    return train, test


def canonical_scores(
    views: Views, problem: Problem, solver: str, ranks: tuple[int, int]
) -> tuple[Array, Array, Array]:
    """Return all canonical scores U, V of some rows with U'V diagonal, and this diagonal.

    U'U = V'V = I without a ridge, less with one. Directions are those of a direct solver, of which there may
    be more than the ranks: the others only rounding relates, and they are left out.
    """
    found = direct_solver(solver).whitened(views, problem)
    if found.scores is not None:
        U, V = found.scores
    else:
        assert found.weights is not None
        U, V = scores_of(
            views,
            *(
                Projection(mean, W, "Xy"[view])
                for view, (mean, W) in enumerate(zip(found.means, found.weights, strict=True))
            ),
        )
    root = np.sqrt(views.n_samples)
    U, V = np.asarray(U, dtype=float) / root, np.asarray(V, dtype=float) / root
    P, rho, Qt = np.linalg.svd(U.T @ V)
    x, y = ranks
    return (U @ P)[:, :x], (V @ Qt.T)[:, :y], np.minimum(rho[: min(ranks)], 1.0)


def _solved(question: Question) -> tuple[Solution, str]:
    """One component by a direct solver, which knows all correlations, and the solver taken."""
    free = question.solver == registry.AUTO or registry.is_iterative(question.solver)
    name = registry.DIRECT if free else question.solver
    problem = question.problem._replace(n_components=1)
    solution, taken_over = solve_directly(question.views, problem, name, free=free)
    taken = name if taken_over is None else taken_over.solver
    assert solution.spectrum is not None
    successor = direct_solver(taken).successor
    if free and successor is not None and not solution.spectrum.condition < WORN:
        # One component may be well known, and the others not.
        return solve_directly(question.views, problem, successor, free=False)[0], successor
    return solution, taken


def _refusal(question: Question) -> str:
    """Why only held-out rows can be tested, as far as shapes tell; empty if others may be."""
    views = question.views
    need, have = direct_solver(registry.DIRECT).memory(views), physical_memory()
    if have is not None and need > have:
        return f"all correlations would need {size(need)} of memory, and this machine has {size(have)}"
    return NO_ROOM if is_wide(views) and not scores_fit(views) else ""


def _notes_of(question: Question, n: int, groups: Array | None) -> list[str]:
    """Notes on rows that cannot change places, and on means."""
    notes = [] if question.problem.center else [NOT_CENTRED]
    alone = 0 if groups is None else Shuffle(n, groups, np.random.default_rng(0)).alone
    if alone:
        are = "is alone in its group and stays" if alone == 1 else "are alone in their groups and stay"
        notes.append(f"{number(alone, 'row')} of {n} {are} in place.")
    return notes


def _p_columns(found: Permuted) -> dict[str, Array]:
    return {"Pr (permutation)": found.p_values, "Pr (family-wise)": found.family_wise}


def scores_fit(views: Views) -> bool:
    """True if all canonical scores of all rows, and the matrices that give them, fit into the budget."""
    return scores_memory(views) <= budget()


def scores_memory(views: Views) -> int:
    """Return the bytes of all canonical scores of all rows."""
    n, least = views.n_samples, [min(views.n_samples, p) for p in views.widths]
    return 8 * n * 2 * sum(least) + 8 * 10 * sum(least) ** 2


def require_scores(views: Views) -> None:
    """Raise if all canonical scores would not fit into the memory budget."""
    if not scores_fit(views):
        raise ValueError(
            f"a permutation test needs all canonical scores of {views.n_samples} rows, "
            f"{size(scores_memory(views))}, more than the budget of {size(budget())} (scikit-learn's "
            f"working_memory): raise it, or use method={HELD_OUT!r}"
        )
