"""Set-up of the batch solvers: covariances, preconditioner, step, budgets."""

from __future__ import annotations

from itertools import repeat

import numpy as np

from ..covariance.linalg import whitening
from ..covariance.moments import moments, second_moments
from ..covariance.operators import Covariance, DenseCovariance, kernel_ridges, units, working_dtype
from ..covariance.preconditioners import (
    DIRECTIONS,
    WARM_UP_ROWS,
    WEAKEST,
    Preconditioner,
    exact,
    jacobi,
    kernelised,
    largest,
    level,
    low_rank,
    warm_up_rows,
)
from ..data.arrays import gathered
from ..data.derived import CountedViews
from ..data.views import Views
from ..machine.memory import budget
from .als import ALS
from .appgrad import AppGrad
from .canonical import attainable, canonical, directions, require_directions, solution
from .lobpcg.iteration import LOBPCG
from .problem import Diagnostics, Limits, Operator, Problem, Solution, Solver
from .setup import Options, Setup, is_full, preconditioner_kind, step_sizes, width_of

# Unless asked otherwise.
ITERATIONS = 1000
# Below so many passes, the one that measures anew in double precision what was found in single would cost
# more than single precision saves.
SHORT = 10
# Squares of correlations below this are lost to underflow.
TINY = 1e-50
# Momentum, and the step in units of the longest that never overshoots. Momentum tolerates longer steps than
# plain descent, 2 (1 + MOMENTUM), and restarts without it: below 2 both are stable (docs/decisions/0004).
MOMENTUM, STEP = 0.95, 1.5


def uses_matrices(views: Views, options: Options) -> bool:
    """Whether a run gathers p x p matrices: because it is asked to, or for ALS where they are small."""
    p = views.n_features_x + views.n_features_y
    # The matrices, their factors and work space are some eight of them.
    small = 8 * 8 * p**2 <= budget()
    return options.dense or (options.solver == "als" and small)


def batch(views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator) -> Setup:
    """ALS, AppGrad or LOBPCG on all rows, or on p x p matrices gathered from them."""
    k, center, scale, ridge = problem
    limits = options.limits
    if limits.iterations is None:
        limits = limits._replace(iterations=ITERATIONS)
    matrices = uses_matrices(views, options) and kernel_ridges(ridge) is None
    kind = preconditioner_kind(options.preconditioner, views)
    _require_passes(views, options, kind, matrices)
    cov: Operator
    if matrices:
        second = second_moments(views, center)
        cov = DenseCovariance(
            second, units(second.moments(views.n_features_x), views.dtype, scale=scale, ridge=ridge)
        )
    else:
        m = moments(views, center)
        u = units(m, views.dtype, scale=scale, ridge=ridge)
        # LOBPCG ends in double precision, whatever it begins in.
        cov = Covariance(
            views, m, u, np.float64 if options.solver == "lobpcg" else working_dtype(m, views.dtype)
        )
    if 0 < attainable(cov) < TINY:
        raise ValueError(
            f"the ridge is so far above the variances that correlations are at most {attainable(cov):.0e}, "
            f"which solver={options.solver!r} cannot find: use a smaller ridge, or solver='exact'"
        )
    width = width_of(options, k, views, views.n_samples + (not center))
    M = _preconditioner(options, kind, views, cov, rng)
    # Without a preconditioner, residuals would have the units of the data.
    norm = jacobi(cov) if kind is None else M
    solver: Solver
    if options.solver == "als":
        factors = None
        if isinstance(cov, DenseCovariance):
            factors = whitening(cov.Sx, cov.units.ridge_x).W, whitening(cov.Sy, cov.units.ridge_y).W
        solver = ALS(k, M, factors, tol=options.tol, norm=norm)
    elif options.solver == "lobpcg":
        # Without a preconditioner, numbers are as large as the data make them.
        single = not matrices and kind is not None and _suffices_single(views, cov)
        if limits.passes is not None and limits.passes < SHORT:
            single = False
        elif single and limits.passes is not None:
            # What ends in single precision is measured in double precision.
            limits = limits._replace(passes=limits.passes - 1)
        solver = LOBPCG(k, M, options.tol, single, norm if kind is None else None)
    else:
        auto = options.step_size is None
        eta = step_sizes(options, lambda: largest(cov, M, rng, _spare_passes(limits)), kind is not None)
        if auto:
            eta = STEP * eta[0], STEP * eta[1]
        solver = AppGrad(k, eta, M, MOMENTUM if auto else 0.0, options.tol)

    def finish(diagnostics: Diagnostics, stopped: str | None) -> Solution:
        A, B = diagnostics.A.astype(np.float64, copy=False), diagnostics.B.astype(np.float64, copy=False)
        # Once: with Gram matrices, it is a pass.
        ridged = cov.ridged(A, B)
        if diagnostics.products is None or _hides_variances(cov):
            plain = cov.products(A, B, ridge=False)
        else:
            xx, xy, yx, yy = diagnostics.products
            plain = xx - ridged[0], xy, yx, yy - ridged[1]
        if min(directions(cov, A, B, plain)) < k:
            # Columns with no correlation vanish from phi_t; any others uncorrelated with the rest will do.
            extra = jacobi(cov).gaussian(len(A), len(B), k, np.random.default_rng(0))
            A, B = (C / max(np.abs(C).max(), 1e-300) for C in (A, B))
            A, B = np.hstack([A, extra[0]]), np.hstack([B, extra[1]])
            plain, ridged = cov.products(A, B, ridge=False), cov.ridged(A, B)
            # The ridge hides what the data lack.
            require_directions(k, *directions(cov, A, B, plain))
        elif diagnostics.correlations is not None:
            return solution(cov, diagnostics.correlations, A, B, plain, ridged=ridged, norm=norm)
        return canonical(cov, A, B, k, plain, ridged, norm if options.solver == "lobpcg" else None)

    return Setup(solver, repeat(cov), width, finish, limits)


def _preconditioner(
    options: Options, kind: str | None, views: Views, cov: Operator, rng: np.random.Generator
) -> Preconditioner:
    """The preconditioner of a batch solver: where matrices are at hand, LOBPCG takes their inverse."""
    if kind is None:
        return Preconditioner()
    if cov.units.kernel is not None:
        flat = level(cov)
        # A row of both Gram matrices, in a quarter of the budget with what is made of it.
        rows = min(WARM_UP_ROWS, max(2 * DIRECTIONS, budget() // (4 * 16 * views.n_samples)))
        if kind == "jacobi":
            return flat
        return kernelised(low_rank(_sample(views, cov, rng, rows), flat, rng, least=WEAKEST), cov)
    if isinstance(cov, DenseCovariance) and options.preconditioner == "auto" and options.solver == "lobpcg":
        return exact(cov)
    # ALS with matrices solves by their factors.
    if kind == "jacobi" or (isinstance(cov, DenseCovariance) and options.solver == "als"):
        return jacobi(cov)
    sample = cov if isinstance(cov, DenseCovariance) else _sample(views, cov, rng, warm_up_rows(views))
    return low_rank(sample, jacobi(cov), rng)


def _sample(views: Views, cov: Operator, rng: np.random.Generator, size: int) -> Operator:
    """The covariance of so many random rows, in memory, with the means of all."""
    rows = np.sort(rng.permutation(views.n_samples)[:size])
    u = cov.units
    if u.kernel is not None:
        # r K is not known from some rows of K.
        u = u._replace(kernel=None, ridge_x=np.zeros_like(u.ridge_x), ridge_y=np.zeros_like(u.ridge_y))
    return Covariance(gathered(views.take(rows)), cov.moments, u, dtype=cov.dtype)


def _hides_variances(cov: Operator) -> bool:
    """Whether the ridge is so large that variances are lost when it is taken off products."""
    m, u = cov.moments, cov.units
    sides = (m.var_x, u.scale_x, u.ridge_x), (m.var_y, u.scale_y, u.ridge_y)
    return any(
        bool(np.any(ridge * np.finfo(cov.dtype).eps > 1e-8 * var * scale**2)) for var, scale, ridge in sides
    )


def _suffices_single(views: Views, cov: Operator) -> bool:
    """Whether LOBPCG begins in single precision: with sparse rows, which that makes half as much work of.

    Dense rows, unless they are stored so, would be converted in every pass, for nothing. Not where
    rounding of the means would be seen.
    """
    useful = not is_full(views) or views.dtype == np.float32
    if not useful or working_dtype(cov.moments, np.dtype(np.float32)) != np.float32:
        return False
    m = cov.moments
    means, variances = (np.concatenate(pair) for pair in ((m.mean_x, m.mean_y), (m.var_x, m.var_y)))
    return bool(np.all(np.abs(means) <= np.sqrt(1e3 * variances), where=variances > 0) and np.any(variances))


def _require_passes(views: Views, options: Options, kind: str | None, matrices: bool) -> None:
    """Raise where the passes allowed do not suffice for moments, preconditioner, step and first iterate."""
    limits = options.limits
    least: float = 1
    if not matrices:
        # Moments, the start and its products; LOBPCG measures what it starts from.
        least = 2 if options.solver == "lobpcg" else 3
        least += warm_up_rows(views) / views.n_samples if kind == "lowrank" else 0
        if options.solver == "appgrad" and (kind is not None or options.step_size is None):
            least += _spare_passes(limits)
    if limits.passes is not None and limits.passes < least:
        raise ValueError(
            f"max_passes={limits.passes:g} is too few for solver={options.solver!r}, which needs "
            f"{int(np.ceil(least))} for its first result: allow more, or use solver='stochastic'"
        )


def _spare_passes(limits: Limits) -> int:
    """Passes for the length of the step: three, or fewer where passes are scarce."""
    return 3 if limits.passes is None else max(1, min(3, int(limits.passes / 8)))
