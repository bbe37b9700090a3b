"""Set-up of sparse CCA on all rows: covariances, threshold, start, and what is made of the result."""

from __future__ import annotations

from itertools import repeat

import numpy as np

from ...covariance.linalg import column_dots, inverse_root
from ...covariance.moments import moments, second_moments
from ...covariance.operators import Covariance, DenseCovariance, units
from ...covariance.preconditioners import jacobi, largest
from ...data.derived import CountedViews
from ...data.views import Views
from ...machine.arrays import Array
from ...machine.memory import budget
from ..appgrad import AppGrad
from ..canonical import canonical, directions, solution
from ..problem import Diagnostics, Operator, Problem, Products, Solution, Solver
from ..setup import Options, Setup
from .columns import Columns
from .pursuit import Pursuit
from .regressions import NothingLeftError, require_left
from .starts import FEW, first_pairs, start_passes, start_sizes
from .thresholds import Sparsity, limited, row_sizes, thresholds_of

# Unless asked otherwise.
ITERATIONS = 1000


def sparse_batch(views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator) -> Setup:
    """AppGrad with thresholds on all rows, on all columns or on those in play."""
    cov = sparse_covariance(views, problem)
    assert options.sparsity is not None
    _require_passes(cov, problem.n_components, options)
    solver: Solver
    if options.solver == "pursuit":
        solver = _pursuit(cov, problem.n_components, options, rng)
    else:
        solver = _appgrad(cov, problem.n_components, options, rng)
    limits = options.limits
    if limits.iterations is None:
        limits = limits._replace(iterations=ITERATIONS)

    def finish(diagnostics: Diagnostics, stopped: str | None) -> Solution:
        assert options.sparsity is not None
        return finished(cov, diagnostics, problem.n_components, options.sparsity)

    return Setup(solver, repeat(cov), problem.n_components, finish, limits)


def sparse_covariance(views: Views, problem: Problem) -> Operator:
    """Covariances to work on: matrices where these are small and there are more rows than columns."""
    _, center, scale, ridge = problem
    p = views.n_features_x + views.n_features_y
    if p < views.n_samples and 8 * 8 * p**2 <= budget():
        second = second_moments(views, center)
        m = second.moments(views.n_features_x)
        return DenseCovariance(second, units(m, views.dtype, scale=scale, ridge=ridge))
    m = moments(views, center)
    return Covariance(views, m, units(m, views.dtype, scale=scale, ridge=ridge), np.float64)


def _pursuit(cov: Operator, k: int, options: Options, rng: np.random.Generator) -> Pursuit:
    """The solver on columns in play: as many as leave their matrices a part of the memory budget."""
    assert options.sparsity is not None
    most, p = int(np.sqrt(budget() / 128)), max(len(cov.units.scale_x), len(cov.units.scale_y))
    step = _steps(cov, rng) if p > most else (1.0, 1.0)
    return Pursuit(k, options.sparsity, options.tol, most, step, _first(cov, options))


def _first(cov: Operator, options: Options) -> tuple[Array, Array] | None:
    """Weights to start from in units of the columns."""
    if options.first is None:
        return None
    field, u = Columns(cov), cov.units
    found = []
    for A, d, scale in zip(options.first, (field.dx, field.dy), (u.scale_x, u.scale_y), strict=True):
        unit = d * scale[:, None]
        found.append(np.where(unit > 0, A / np.where(unit > 0, unit, 1.0), 0.0))
    return found[0], found[1]


def largest_alpha(cov: Operator, k: int) -> float:
    """The penalty from which on nothing is left of one of the views, about: for one component, exactly."""
    field = Columns(cov)
    if k == 1:
        return float(np.abs(field.largest(1).values).max(initial=0.0))
    p1, p2 = len(field.dx), len(field.dy)
    A, B = first_pairs(field, k, (min(FEW, p1), min(FEW, p2)))
    xx, xy, yx, yy = field.products(A, B)
    targets = xy @ inverse_root(B.T @ yy), yx @ inverse_root(A.T @ xx)
    return float(min(np.sort(row_sizes(target))[-k] for target in targets))


def finished(cov: Operator, diagnostics: Diagnostics, k: int, sparsity: Sparsity) -> Solution:
    """Canonical pairs of the columns that are left; those found one by one are not mixed."""
    A, B = diagnostics.A, diagnostics.B
    if A.shape[1] < k:
        # A run that ended before its last components: what they would have started from.
        field = Columns(cov)
        A, B = (C / np.where(d > 0, d, 1.0) for C, d in ((A, field.dx), (B, field.dy)))
        rest = first_pairs(field.without(A, B), k - A.shape[1], start_sizes(cov, sparsity))
        A, B = (d * np.hstack([C, D]) for d, C, D in zip((field.dx, field.dy), (A, B), rest, strict=True))
    A, B = limited(A, B, cov.diagonal(), sparsity)
    require_left(A, B, k, sparsity)
    plain = cov.products(A, B, ridge=False)
    _require_apart(k, directions(cov, A, B, plain), sparsity)
    found = _one_by_one(cov, A, B, plain) if sparsity.by_component else canonical(cov, A, B, k, plain)
    # Bounds are of the distance to canonical correlations, which these are not.
    return found._replace(error_bounds=np.full(k, np.nan))


def _require_apart(k: int, found: tuple[int, int], sparsity: Sparsity) -> None:
    """Raise where the scores of components depend on each other: several may have taken the same columns."""
    view, count = ("X", found[0]) if found[0] <= found[1] else ("y", found[1])
    if count < k:
        raise NothingLeftError(
            f"{view} has {count} independent scores for {k} components: use fewer components"
            + (", or more columns" if sparsity.n_nonzero is not None else ", or a smaller penalty")
        )


def _one_by_one(cov: Operator, A: Array, B: Array, plain: Products) -> Solution:
    """Pairs as they are, most correlated first."""
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


def _appgrad(cov: Operator, k: int, options: Options, rng: np.random.Generator) -> AppGrad:
    """The paper's step and a threshold, on all columns in every iteration."""
    assert options.sparsity is not None
    M = jacobi(cov)
    eta = _steps(cov, rng) if options.step_size is None else (options.step_size, options.step_size)
    field, first = Columns(cov), _first(cov, options)
    A, B = first_pairs(field, k, start_sizes(cov, options.sparsity)) if first is None else first
    thresholds = thresholds_of(options.sparsity, cov.diagonal(), M)
    return AppGrad(k, eta, M, 0.0, options.tol, thresholds, (field.dx * A, field.dy * B))


def _require_passes(cov: Operator, k: int, options: Options) -> None:
    """Raise where the passes allowed do not suffice for moments, start, first iteration and its result."""
    allowed = options.limits.passes
    # Moments, the length of a step, an iteration and what is made of it.
    least = 8 + (start_passes(Columns(cov), k) if options.first is None else 0)
    if allowed is not None and allowed < least and not isinstance(cov, DenseCovariance):
        raise ValueError(
            f"max_passes={allowed:g} is too few for solver={options.solver!r}, which needs {least} for its "
            "first result, most of them to find a start: allow more"
        )


def _steps(cov: Operator, rng: np.random.Generator) -> tuple[float, float]:
    """One over the largest eigenvalues in units of the columns."""
    x, y = largest(cov, jacobi(cov), rng)
    return 1 / x if x > 0 else 1.0, 1 / y if y > 0 else 1.0
