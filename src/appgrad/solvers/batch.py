"""Set-up of the batch solvers: covariances, preconditioner, step, budgets."""

from __future__ import annotations

from itertools import repeat

import numpy as np

from ..covariance.build import operator
from ..covariance.linalg import whitening
from ..covariance.operators import Covariance
from ..covariance.preconditioners import jacobi, largest, warm_up_rows
from ..covariance.units import working_dtype
from ..data.derived import CountedViews
from ..data.views import Views
from ..machine.memory import budget
from .als import ALS
from .appgrad import AppGrad
from .canonical import attainable, canonical, directions, require_directions, solution
from .lobpcg import LOBPCG
from .problem import Limits, Problem, Report, Solution, Solver
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
    k, limits = problem.n_components, options.limits
    if limits.iterations is None:
        limits = limits._replace(iterations=ITERATIONS)
    matrices = uses_matrices(views, options) and not problem.on_gram
    kind = preconditioner_kind(options.preconditioner, views)
    _require_passes(views, options, kind, matrices)
    cov = operator(
        views,
        center=problem.center,
        scale=problem.scale,
        ridge=problem.ridge,
        matrices=matrices,
        # LOBPCG ends in double precision, whatever it begins in.
        dtype=np.float64 if options.solver == "lobpcg" else None,
    )
    if 0 < attainable(cov) < TINY:
        raise ValueError(
            f"the ridge is so far above the variances that correlations are at most {attainable(cov):.0e}, "
            f"which solver={options.solver!r} cannot find: use a smaller ridge, or solver='exact'"
        )
    width = width_of(options, k, views, views.n_samples + (not problem.center))
    M = cov.preconditioner(_kind_for(cov, kind, options), rng)
    # Without a preconditioner, residuals would have the units of the data.
    norm = jacobi(cov) if kind is None else M
    solver: Solver
    if options.solver == "als":
        factors = None
        if cov.matrices is not None:
            (Sx, _, Sy), (ux, uy) = cov.matrices, cov.units.views
            factors = whitening(Sx, ux.ridge).W, whitening(Sy, uy.ridge).W
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

    def finish(report: Report, stopped: str | None) -> Solution:
        A, B = report.A.astype(np.float64, copy=False), report.B.astype(np.float64, copy=False)
        # Once: with Gram matrices, it is a pass.
        ridged = cov.ridged(A, B)
        if report.products is None or _hides_variances(cov):
            plain = cov.products(A, B, ridge=False)
        else:
            xx, xy, yx, yy = report.products
            plain = xx - ridged[0], xy, yx, yy - ridged[1]
        if min(directions(cov, A, B, plain)) < k:
            # Columns with no correlation vanish from phi_t; any others uncorrelated with the rest will do.
            extra = jacobi(cov).gaussian(len(A), len(B), k, np.random.default_rng(0))
            A, B = (C / max(np.abs(C).max(), 1e-300) for C in (A, B))
            A, B = np.hstack([A, extra[0]]), np.hstack([B, extra[1]])
            plain, ridged = cov.products(A, B, ridge=False), cov.ridged(A, B)
            # The ridge hides what the data lack.
            require_directions(k, *directions(cov, A, B, plain))
        elif report.correlations is not None:
            return solution(cov, report.correlations, A, B, plain, ridged=ridged, norm=norm)
        return canonical(cov, A, B, k, plain, ridged, norm if options.solver == "lobpcg" else None)

    return Setup(solver, repeat(cov), width, finish, limits)


def _kind_for(cov: Covariance, kind: str | None, options: Options) -> str | None:
    """The kind of preconditioner a solver takes: LOBPCG the inverse of matrices where they are at hand."""
    if kind is None or cov.matrices is None:
        return kind
    if options.solver == "lobpcg" and options.preconditioner == "auto":
        return "exact"
    # ALS with matrices solves by their factors.
    return "jacobi" if options.solver == "als" else kind


def _hides_variances(cov: Covariance) -> bool:
    """Whether the ridge is so large that variances are lost when it is taken off products."""
    eps = np.finfo(cov.dtype).eps
    return any(
        bool(np.any(u.ridge * eps > 1e-8 * m.var * u.scale**2))
        for m, u in zip(cov.moments.views, cov.units.views, strict=True)
    )


def _suffices_single(views: Views, cov: Covariance) -> bool:
    """Whether LOBPCG begins in single precision: with sparse rows, which that makes half as much work of.

    Dense rows, unless they are stored so, would be converted in every pass, for nothing. Not where
    rounding of the means would be seen.
    """
    useful = not is_full(views) or views.dtype == np.float32
    if not useful or working_dtype(cov.moments, np.dtype(np.float32)) != np.float32:
        return False
    means, variances = (np.concatenate(parts) for parts in zip(*cov.moments.views, strict=True))
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
