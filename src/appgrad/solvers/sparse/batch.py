"""Set-up of sparse CCA on all rows: covariances, start, and the solution at the end."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat

import numpy as np

from ...covariance.build import on_matrices, on_rows
from ...covariance.linalg import column_dots, inverse_root
from ...covariance.operators import ColumnCovariance, Covariance
from ...covariance.preconditioners import jacobi, largest
from ...data.derived import CountedViews
from ...data.views import Views
from ...machine.arrays import Array
from ...machine.memory import budget
from ..canonical import canonical, directions, solution
from ..problem import Algorithm, Diagnostics, Problem, Products, Solution
from ..protocol import Options, Run
from .columns_in_play import Columns
from .regressions import NothingLeftError, require_left
from .starts import FEW, first_pairs, start_passes, start_sizes
from .thresholds import Sparsity, limited, row_sizes

# Default number of iterations.
ITERATIONS = 1000


def sparse_run(
    views: CountedViews,
    problem: Problem,
    options: Options,
    build: Callable[[ColumnCovariance, int], Algorithm],
) -> Run:
    """Set up a run on all rows; `build` makes the algorithm from covariances and number of components."""
    cov, k, sparsity = sparse_covariance(views, problem), problem.n_components, options.sparsity
    assert sparsity is not None
    _require_passes(cov, k, options)
    # Many iterations take no pass: they work on covariances of the columns in play.
    algorithm, limits = build(cov, k), options.limits.with_iterations(ITERATIONS, by_passes=False)

    def finish(diagnostics: Diagnostics, stopped: str | None) -> Solution:
        return finished(cov, diagnostics, k, sparsity)

    return Run(algorithm, repeat(cov), k, finish, limits, views)


def refused_by_steps(options: Options) -> str | None:
    """Return why steps on all columns cannot do what is asked, None if they can."""
    sparsity = options.sparsity
    if sparsity is None:
        return None
    if sparsity.by_component:
        return (
            f"support='component' is for solver='pursuit', got {options.solver!r}: use 'auto', or "
            "support='shared'"
        )
    if sparsity.penalty == "l0" and sparsity.alpha and any(sparsity.alpha):
        return (
            f"penalty='l0' with alpha is for solver='pursuit', got {options.solver!r}, whose steps are "
            "too short for columns to come in: use n_nonzero, or penalty='l1'"
        )
    return None


def sparse_covariance(views: Views, problem: Problem) -> ColumnCovariance:
    """Return covariances to work on: matrices if these are small and there are more rows than columns."""
    center, scale, ridge = problem.center, problem.scale, problem.ridge
    p = sum(views.widths)
    if p < views.n_samples and 8 * 8 * p**2 <= budget():
        return on_matrices(views, center=center, scale=scale, ridge=ridge)
    return on_rows(views, center=center, scale=scale, ridge=ridge, dtype=np.float64)


def warm_start(cov: ColumnCovariance, options: Options) -> tuple[Array, Array] | None:
    """Return the weights given to start from, in units of the columns; None without any."""
    if options.first is None:
        return None
    field = Columns(cov)
    found = []
    for A, d, view in zip(options.first, (field.dx, field.dy), cov.units.views, strict=True):
        unit = d * view.scale[:, None]
        found.append(np.where(unit > 0, A / np.where(unit > 0, unit, 1.0), 0.0))
    return found[0], found[1]


def sparse_start(cov: ColumnCovariance, k: int, options: Options) -> tuple[Array, Array]:
    """Return weights to start from, in working units: those of another fit, or sparse first pairs."""
    assert options.sparsity is not None
    field, first = Columns(cov), warm_start(cov, options)
    A, B = first_pairs(field, k, start_sizes(cov, options.sparsity)) if first is None else first
    return field.dx * A, field.dy * B


def largest_alpha(cov: ColumnCovariance, k: int) -> float:
    """Return the penalty from which nothing is left of one view: exact for one component, else rough."""
    field = Columns(cov)
    if k == 1:
        return float(np.abs(field.largest(1).values).max(initial=0.0))
    p1, p2 = len(field.dx), len(field.dy)
    A, B = first_pairs(field, k, (min(FEW, p1), min(FEW, p2)))
    xx, xy, yx, yy = field.products(A, B)
    targets = xy @ inverse_root(B.T @ yy), yx @ inverse_root(A.T @ xx)
    return float(min(np.sort(row_sizes(target))[-k] for target in targets))


def finished(cov: ColumnCovariance, diagnostics: Diagnostics, k: int, sparsity: Sparsity) -> Solution:
    """Return canonical pairs of the columns that are left; components found one by one are not mixed."""
    A, B = diagnostics.A, diagnostics.B
    if A.shape[1] < k:
        # The run ended before its last components: take what they would have started from.
        field = Columns(cov)
        A, B = (C / np.where(d > 0, d, 1.0) for C, d in ((A, field.dx), (B, field.dy)))
        rest = first_pairs(field.without(A, B), k - A.shape[1], start_sizes(cov, sparsity))
        A, B = (d * np.hstack([C, D]) for d, C, D in zip((field.dx, field.dy), (A, B), rest, strict=True))
    A, B = limited(A, B, cov.diagonal(), sparsity)
    require_left(A, B, k, sparsity)
    plain = cov.products(A, B, ridge=False)
    _require_apart(k, directions(cov, A, B, plain), sparsity)
    found = _one_by_one(cov, A, B, plain) if sparsity.by_component else canonical(cov, A, B, k, plain)
    # Bounds are distances to canonical correlations, and sparse correlations are not canonical.
    return found._replace(error_bounds=np.full(k, np.nan))


def _require_apart(k: int, found: tuple[int, int], sparsity: Sparsity) -> None:
    """Raise if the scores of components depend on each other: several may have taken the same columns."""
    view, count = ("X", found[0]) if found[0] <= found[1] else ("y", found[1])
    if count < k:
        raise NothingLeftError(
            f"{view} has {count} independent scores for {k} components: use fewer components"
            + (", or more columns" if sparsity.n_nonzero is not None else ", or a smaller penalty")
        )


def _one_by_one(cov: Covariance, A: Array, B: Array, plain: Products) -> Solution:
    """Return the pairs as they are, most correlated first."""
    xx, xy, yx, yy = plain
    ridge_x, ridge_y = cov.ridged(A, B)
    fx, fy = (1 / np.sqrt(column_dots(C, SC)) for C, SC in ((A, xx + ridge_x), (B, yy + ridge_y)))
    rho = column_dots(A, xy) * fx * fy
    fy = fy * np.where(rho < 0, -1.0, 1.0)
    order = np.argsort(-np.abs(rho), kind="stable")
    fx, fy, rho = fx[order], fy[order], np.abs(rho[order])
    A, B = A[:, order] * fx, B[:, order] * fy
    products = xx[:, order] * fx, xy[:, order] * fy, yx[:, order] * fx, yy[:, order] * fy
    return solution(cov, rho, A, B, products)


def _require_passes(cov: ColumnCovariance, k: int, options: Options) -> None:
    """Raise if the passes allowed do not suffice for moments, start, first iteration and its result."""
    allowed = options.limits.passes
    # Moments, the length of a step, an iteration and its result.
    least = 8 + (start_passes(Columns(cov), k) if options.first is None else 0)
    if allowed is not None and allowed < least and cov.matrices is None:
        raise ValueError(
            f"max_passes={allowed:g} is too few for solver={options.solver!r}, which needs {least} for its "
            "first result, most of them to find a start: allow more"
        )


def unit_steps(cov: ColumnCovariance, rng: np.random.Generator) -> tuple[float, float]:
    """Return step sizes: one over the largest eigenvalues in units of the columns."""
    x, y = largest(cov, jacobi(cov), rng)
    return 1 / x if x > 0 else 1.0, 1 / y if y > 0 else 1.0
