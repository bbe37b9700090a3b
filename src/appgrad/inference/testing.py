"""Tests of canonical correlations: by theory where it holds, by permutation or held-out rows elsewhere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..covariance.build import on_rows
from ..covariance.linalg import isotropic
from ..covariance.moments import second_moments
from ..data.views import Views
from ..fitting.projection import Projection, scores_of
from ..fitting.solving import solve_directly
from ..machine.arrays import EPS, Array
from ..machine.memory import budget
from ..machine.readable import size
from ..solvers.costs import is_wide
from ..solvers.exact import FLOOR, covariances, factor_of_rows
from ..solvers.problem import Dimensions, Problem, Spectrum
from .canonical_test import HELD_OUT, PARAMETRIC, PERMUTATION, CanonicalTest
from .noise import ridge_matters
from .permutation import Callback, Permuted, paired_permutation, step_down_permutation
from .significance import log_wilks, multivariate, step_down

# Beyond this share of columns in rows, Bartlett's chi-square rejects noise too often: 7 % of 50 rows with
# 5 + 20 columns, 39 % of 100 with 30 + 40 (docs/results/benchmarks/inference.json).
CROWDED = 0.4
BARTLETT = "Bartlett's chi-square is for far more rows than columns: with these its p-values are too small."
NORMAL = "p-values are exact or close for normal rows, and approximate for others; rows must be independent."
ROY = "The F of Roy's root is an upper bound: its p-value here is that of the largest root itself."
RIDGED = "With a ridge, steps after the first one are approximate."
SEEDS = "p-values depend on the permutations drawn: a larger n_resamples makes them sharper."


class Resampling(NamedTuple):
    """How rows are permuted: how often, by which generator, within which groups."""

    n_resamples: int
    rng: np.random.Generator
    groups: Array | None = None
    callback: Callback | None = None


def spectrum_of(views: Views, problem: Problem) -> Spectrum:
    """Return all canonical correlations of some rows; ValueError if their matrices do not fit in memory."""
    found = solve_directly(views, problem._replace(n_components=1))[0].spectrum
    assert found is not None
    return found


def by_theory(spectrum: Spectrum, dimensions: Dimensions, n_samples: int) -> CanonicalTest:
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
    return CanonicalTest(
        PARAMETRIC,
        "",
        n_samples,
        (p, q),
        columns,
        steps.p_f,
        np.maximum.accumulate(steps.p_f),
        multivariate(squares, n, p, q),
        notes=(NORMAL, ROY, *([BARTLETT] if p + q > CROWDED * n else [])),
    )


def by_permutation(
    views: Views, problem: Problem, spectrum: Spectrum, resampling: Resampling, reason: str
) -> CanonicalTest:
    """Return the step-down permutation test on all scores of some rows."""
    U, V, correlations = canonical_scores(views, problem)
    n, rng, groups, callback = resampling
    found = step_down_permutation(
        U, V, correlations, n_resamples=n, rng=rng, groups=groups, callback=callback
    )
    wilks = np.exp(log_wilks(correlations**2))
    return CanonicalTest(
        PERMUTATION,
        reason,
        views.n_samples,
        spectrum.ranks,
        {"Canonical Correlation": correlations, "Wilks' lambda": wilks, **_p_columns(found)},
        found.p_values,
        found.family_wise,
        found.whole,
        n,
        notes=(SEEDS, RIDGED) if ridge_matters(spectrum) else (SEEDS,),
    )


def on_held_out(
    U: Array, V: Array, training: Array, ranks: tuple[int, int], resampling: Resampling, reason: str
) -> CanonicalTest:
    """Return the test of paired scores of rows that the fit has not seen."""
    n, rng, groups, callback = resampling
    held, found = paired_permutation(U, V, n_resamples=n, rng=rng, groups=groups, callback=callback)
    return CanonicalTest(
        HELD_OUT,
        reason,
        len(U),
        ranks,
        {"Canonical Correlation": training, "Held-out Correlation": held, **_p_columns(found)},
        found.p_values,
        found.family_wise,
        {},
        n,
        notes=(
            f"{len(U)} rows were left out of a second fit; correlations of the first column are its own.",
            SEEDS,
        ),
    )


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


def canonical_scores(views: Views, problem: Problem) -> tuple[Array, Array, Array]:
    """Return all canonical scores U, V of some rows with U'V diagonal, and this diagonal.

    U'U = V'V = I without a ridge, less with one.
    """
    if is_wide(views):
        U, V = _by_rows(views, problem)
    else:
        U, V = _by_columns(views, problem)
    P, rho, Qt = np.linalg.svd(U.T @ V)
    return U @ P, V @ Qt.T, np.minimum(rho, 1.0)


def _by_columns(views: Views, problem: Problem) -> tuple[Array, Array]:
    """Whitened rows, by the covariances."""
    cov = covariances(second_moments(views, problem.center), views.widths, views.dtype, problem)
    sides = [
        Projection(u.mean, u.scale[:, None] * w.W, "Xy"[view])
        for view, (u, w) in enumerate(zip(cov.units.views, cov.whitened, strict=True))
    ]
    U, V = scores_of(views, sides[0], sides[1])
    root = np.sqrt(views.n_samples)
    return np.asarray(U, dtype=float) / root, np.asarray(V, dtype=float) / root


def _by_rows(views: Views, problem: Problem) -> tuple[Array, Array]:
    """Whitened rows, by row Gram matrices."""
    cov = on_rows(views, center=problem.center, scale=problem.scale, ridge=problem.ridge, dtype=np.float64)
    units = [
        isotropic(m.var * u.scale * u.scale, u.ridge, floor=FLOOR)
        for m, u in zip(cov.moments.views, cov.units.views, strict=True)
    ]
    precision = max(EPS, float(np.finfo(views.dtype).eps) ** 2)
    found = []
    for K, (t, c) in zip(cov.row_grams(units[0][0], units[1][0]), units, strict=True):
        factor, _ = factor_of_rows(K, c, problem.center, precision, len(t))
        found.append(factor.U * factor.shrinkage(cov.n))
    return found[0], found[1]
