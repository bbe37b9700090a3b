"""From parameters to a run of an iterative solver: covariances, preconditioner, step, budgets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config

from .covariance import Covariance, DenseCovariance, Ridge, units, working_dtype
from .linalg import captured, whitening
from .minibatches import Minibatch, Minibatches
from .moments import Moments, moments, second_moments
from .preconditioners import (
    Preconditioner,
    damped,
    exact,
    jacobi,
    largest,
    low_rank,
    shielded,
    trace,
    warm_up_rows,
)
from .solve import (
    Limits,
    Operator,
    Problem,
    Products,
    Progress,
    Report,
    Solution,
    Solver,
    canonical,
    iterate,
    require_rank,
    solution,
)
from .solvers.als import ALS
from .solvers.appgrad import AppGrad, small_flops
from .solvers.lobpcg import LOBPCG
from .solvers.stochastic import Stochastic
from .views import Array, CountedViews, Views, gathered

ITERATIVE = ("als", "appgrad", "stochastic", "lobpcg")
# Unless asked otherwise: iterations of the batch solvers, passes and steps of the stochastic one.
ITERATIONS, PASSES, STEPS = 1000, 5, 300
# Momentum, and the step in units of the longest that never overshoots. Momentum tolerates longer steps than
# plain descent, 2 (1 + MOMENTUM), and restarts without it: below 2 both are stable (docs/decisions/0004).
MOMENTUM, STEP = 0.95, 1.5
# The paper oversamples by 5 (section 4.1).
OVERSAMPLING = 5


class Options(NamedTuple):
    """How a problem is to be solved: the parameters of iterative solvers."""

    solver: str
    tol: float = 1e-4
    limits: Limits = Limits()
    oversampling: int | None = None
    preconditioner: str | None = "auto"
    step_size: float | None = None
    batch_size: int = 200
    normaliser: int | str = "auto"
    dense: bool = False


class Setup(NamedTuple):
    """What `iterate` needs: a solver, what its steps work on, the columns it carries, and how it ends."""

    solver: Solver
    covs: Iterator[Any]
    width: int
    finish: Callable[[Report, str | None], Solution]
    limits: Limits


def run(
    views: CountedViews,
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    *,
    start: float | None = None,
    callback: Callable[[Progress], Any] | None = None,
) -> Iterator[Progress]:
    """Progress after each iteration of the solver asked for, until it ends."""
    start = time.perf_counter() if start is None else start
    if options.solver == "stochastic":
        setup = _stochastic(views, problem, options, rng, start)
    else:
        setup = _batch(views, problem, options, rng)
    yield from iterate(
        setup.solver,
        setup.covs,
        setup.width,
        rng,
        finish=setup.finish,
        limits=setup.limits,
        passes=lambda: views.passes,
        start=start,
        callback=callback,
    )


def uses_matrices(views: Views, options: Options) -> bool:
    """Whether a run gathers p x p matrices: because it is asked to, or for ALS where they are small."""
    p = views.n_features_x + views.n_features_y
    # The matrices, their factors and work space are some eight of them.
    small = 8 * 8 * p**2 <= get_config()["working_memory"] * 2**20
    return options.dense or (options.solver == "als" and small)


def _batch(views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator) -> Setup:
    """ALS, AppGrad or LOBPCG on all rows, or on p x p matrices gathered from them."""
    k, center, scale, ridge = problem
    limits = options.limits
    if limits.iterations is None:
        limits = limits._replace(iterations=ITERATIONS)
    matrices = uses_matrices(views, options)
    kind = _kind(options.preconditioner, views)
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
        cov = Covariance(views, m, u, np.float64 if options.solver == "lobpcg" else working_dtype(views, m))
    width = _width(options, k, views, views.n_samples + (not center))
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
        if limits.passes is not None and limits.passes < 3:
            single = False
        elif single and limits.passes is not None:
            # What ends in single precision is measured in double precision.
            limits = limits._replace(passes=limits.passes - 1)
        solver = LOBPCG(k, M, options.tol, single, norm)
    else:
        auto = options.step_size is None
        eta = _steps(options, lambda: largest(cov, M, rng, _spare_passes(limits)), kind is not None)
        if auto:
            eta = STEP * eta[0], STEP * eta[1]
        solver = AppGrad(k, eta, M, MOMENTUM if auto else 0.0, options.tol)

    def finish(report: Report, stopped: str | None) -> Solution:
        A, B, u = report.A.astype(np.float64, copy=False), report.B.astype(np.float64, copy=False), cov.units
        if report.products is None:
            plain = cov.products(A, B, ridge=False)
        else:
            xx, xy, yx, yy = report.products
            plain = xx - u.ridge_x[:, None] * A, xy, yx, yy - u.ridge_y[:, None] * B
        if min(_ranks(cov, A, B, plain)) < k:
            # Columns with no correlation vanish from phi_t; any others uncorrelated with the rest will do.
            extra = jacobi(cov).gaussian(len(A), len(B), k, np.random.default_rng(0))
            A, B = (C / max(np.abs(C).max(), 1e-300) for C in (A, B))
            A, B = np.hstack([A, extra[0]]), np.hstack([B, extra[1]])
            plain = cov.products(A, B, ridge=False)
            # The ridge hides what the data lack.
            require_rank(k, *_ranks(cov, A, B, plain))
        elif report.correlations is not None:
            return solution(cov, report.correlations, A, B, plain, norm=norm)
        return canonical(cov, A, B, k, plain, norm if options.solver == "lobpcg" else None)

    return Setup(solver, repeat(cov), width, finish, limits)


def _preconditioner(
    options: Options, kind: str | None, views: Views, cov: Operator, rng: np.random.Generator
) -> Preconditioner:
    """The preconditioner of a batch solver: where matrices are at hand, LOBPCG takes their inverse."""
    if kind is None:
        return Preconditioner()
    if isinstance(cov, DenseCovariance) and options.preconditioner == "auto" and options.solver == "lobpcg":
        return exact(cov)
    # ALS with matrices solves by their factors.
    if kind == "jacobi" or (isinstance(cov, DenseCovariance) and options.solver == "als"):
        return jacobi(cov)
    sample = cov if isinstance(cov, DenseCovariance) else _sample(views, cov, rng)
    return low_rank(sample, jacobi(cov), rng)


def _ranks(cov: Operator, A: Array, B: Array, plain: Products) -> tuple[int, int]:
    """How many independent scores the columns of A and B have: variances above the rounding of their sums."""
    found = []
    variances = (var - ridge for var, ridge in zip(cov.diagonal(), cov.units[-2:], strict=True))
    for C, SC, var in zip((A, B), (plain[0], plain[3]), variances, strict=True):
        size = np.sqrt(np.einsum("i,ij,ij->j", np.maximum(var, 0), C, C))
        inverse = np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 0.0)
        G = (C.T @ SC) * inverse * inverse[:, None]
        values = np.linalg.eigvalsh((G + G.T) / 2)
        found.append(int(np.count_nonzero(values > 16 * np.finfo(cov.dtype).eps)))
    return found[0], found[1]


def _suffices_single(views: Views, cov: Operator) -> bool:
    """Whether LOBPCG begins in single precision: with sparse rows, which that makes half as much work of.

    Dense rows, unless they are stored so, would be converted in every pass, for nothing. Not where
    rounding of the means would be seen.
    """
    m = cov.moments
    means, variances = (np.concatenate(pair) for pair in ((m.mean_x, m.mean_y), (m.var_x, m.var_y)))
    spread = variances[variances > 0]
    near = np.all(means**2 <= 1e3 * variances, where=variances > 0)
    useful = not is_full(views) or views.dtype == np.float32
    return bool(useful and len(spread) and spread.max() < 1e30 and spread.min() > 1e-30 and near)


def _stochastic(
    views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator, start: float
) -> Setup:
    """Stochastic AppGrad on minibatches; every row is read once a pass, for whatever it serves."""
    k, center, scale, ridge = problem
    n, size, limits = views.n_samples, options.batch_size, options.limits
    width, rows = _normaliser(views, options, k)
    passes, steps = _schedule(limits, views, size, width, rows)
    pair: tuple[Ridge, Ridge] = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    batches = Minibatches(
        views, size, rows, steps, rng, center=center, scale=scale, ridge=pair, passes=passes
    )
    warm = batches.warm_up()
    m = warm.moments
    # Steps on scaled columns are steps with a diagonal preconditioner on the columns as they are.
    kind = _kind(options.preconditioner, views) or ("jacobi" if scale else None)
    M = Preconditioner()
    if kind is not None:
        M = Preconditioner(damped(m.var_x, batches.peaks[0]), damped(m.var_y, batches.peaks[1]))
    if kind == "lowrank":
        M = Preconditioner(*(shielded(side) for side in low_rank(warm, M, rng) if side is not None))
    noise = _noise(M, m, size) if options.step_size is None else (0.0, 0.0)
    eta = _steps(options, lambda: largest(warm, M, rng), kind is not None, noise)

    def finish(report: Report, stopped: str | None) -> Solution:
        at_hand = batches.at_hand()
        if batches.complete and at_hand.n == n:
            return canonical(at_hand, report.A, report.B, k)
        wanted = 1 if batches.complete else 2
        allowed = limits.passes is None or views.passes + wanted <= limits.passes
        if stopped in (None, "seconds", "flops") or limits.seconds is not None or not allowed:
            return _estimated(batches, report, k)
        m = batches.moments if batches.complete else moments(views, center)
        cov = Covariance(views, m, batches.units(m), dtype=working_dtype(views, m))
        return canonical(cov, report.A, report.B, k)

    solver = Stochastic(k, eta, M, adaptive=options.step_size is None)
    # The passes are those the minibatches were cut for: rows read ahead are not rows used.
    return Setup(solver, _paced(batches, start, limits), width, finish, limits._replace(passes=None))


def _estimated(batches: Minibatches, report: Report, k: int) -> Solution:
    """A solution from the rows at hand, with correlations that are not fitted to the rows they are of.

    The best pairs are found on one half of these rows and correlated on the other, and the other way round.
    """
    at_hand, halves = batches.at_hand(), batches.halves()
    A, B = report.A, report.B
    if report.grams is not None:
        # Which k of the columns are best is known from more rows than are at hand.
        Nx, Ny, _ = captured(*report.grams, k)
        P, _, Qt = np.linalg.svd(Nx.T @ report.grams[1] @ Ny)
        A, B = A @ (Nx @ P[:, :k]), B @ (Ny @ Qt[:k].T)
    found = canonical(at_hand, A, B, k)
    # Bounds on what these rows have in common say nothing of the others.
    found = found._replace(error_bounds=np.full(k, np.nan))
    if halves[0].n <= 2 * A.shape[1]:
        return found
    halved = []
    for here, there in (halves, halves[::-1]):
        try:
            pairs = canonical(here, A, B, k)
        except ValueError:
            return found
        Gx, Gxy, Gy = there.grams(pairs.x_weights, pairs.y_weights)
        spread = np.sqrt(np.diag(Gx) * np.diag(Gy))
        halved.append(np.diag(Gxy) / np.where(spread > 0, spread, np.inf))
    rho = np.clip(np.sort(np.mean(halved, axis=0))[::-1], 0.0, 1.0)
    return found._replace(correlations=rho)


def _paced(batches: Minibatches, start: float, limits: Limits) -> Iterator[Minibatch]:
    """Minibatches whose share of the run is that of the time, where this is shorter than the rows."""
    for batch in batches:
        if limits.seconds is not None:
            spent = (time.perf_counter() - start) / limits.seconds
            batch = batch._replace(share=min(1.0, max(batch.share, spent)))
        yield batch


def _kind(asked: str | None, views: Views) -> str | None:
    """Which preconditioner: "auto" is low-rank where rows are full, the diagonal where most entries are zero.

    Sparse columns hardly share directions, and a product with eighty dense ones costs more than the data.
    """
    if asked != "auto":
        return asked
    return "lowrank" if is_full(views) else "jacobi"


def is_full(views: Views) -> bool:
    """Whether most entries of a row are stored: dense data, or sparse data that should not be."""
    return views.entries >= 0.5 * (views.n_features_x + views.n_features_y)


def _sample(views: Views, cov: Operator, rng: np.random.Generator) -> Operator:
    """The covariance of some random rows, in memory, with the means of all."""
    rows = np.sort(rng.permutation(views.n_samples)[: warm_up_rows(views)])
    return Covariance(gathered(views.take(rows)), cov.moments, cov.units, dtype=cov.dtype)


def _width(options: Options, k: int, views: Views, rows: int) -> int:
    """Columns of the bases: components and oversampling, no more than can be told apart."""
    p1, p2 = views.n_features_x, views.n_features_y
    if options.oversampling is not None:
        return min(k + options.oversampling, p1, p2)
    return max(k, min(k + OVERSAMPLING, p1, p2, rows - 1))


def _normaliser(views: Views, options: Options, k: int) -> tuple[int, int | None]:
    """Columns of the bases and rows of the normaliser, None for the minibatch itself."""
    n, size, asked = views.n_samples, options.batch_size, options.normaliser
    if size > n:
        raise ValueError(
            f"batch_size={size} is above the {n} rows there are: use a smaller one, or solver='appgrad'"
        )
    if options.dense:
        raise ValueError("covariance='dense' leaves no minibatches: use it with solver='appgrad' or 'als'")
    sampled = size if asked == "batch" else asked if isinstance(asked, int) else n
    width = _width(options, k, views, sampled)
    if sampled < width:
        name = f"batch_size={size}" if asked == "batch" else f"normaliser={asked}"
        raise ValueError(
            f"{name} rows cannot normalise {width} columns (n_components={k} and oversampling): "
            f"use at least {width}"
        )
    if asked == "batch":
        return width, None
    return width, min(n, asked if isinstance(asked, int) else 10 * width)


def _schedule(limits: Limits, views: Views, size: int, width: int, rows: int | None) -> tuple[float, int]:
    """Passes and steps of minibatches: what the budgets allow, less a pass for the last Rayleigh-Ritz."""
    n = views.n_samples
    steps = []
    passes = max(PASSES, STEPS * size / n)
    if limits.passes is not None:
        # None is needed where all rows stay in memory.
        last = 1 if limits.passes >= 2 and n > warm_up_rows(views) else 0
        passes = limits.passes - last
    if limits.passes is not None or limits.iterations is None:
        steps.append(int(passes * n / size + 1e-9))
    if limits.iterations is not None:
        steps.append(limits.iterations)
    if limits.flops is not None:
        p = views.n_features_x + views.n_features_y
        one = 2 * width * views.entries * (3 * size + (rows or size)) + small_flops(p, width)
        # Three trials for a quarter of the run are half as much again.
        steps.append(int(limits.flops / one / 1.5))
    found = max(1, min(steps))
    return min(passes, found * size / n) if found < steps[0] else passes, found


def _steps(
    options: Options,
    bounds: Callable[[], tuple[float, float]],
    preconditioned: bool,
    noise: tuple[float, float] = (0.0, 0.0),
) -> tuple[float, float]:
    """Step sizes of both views: one over the largest eigenvalue, or the number asked for.

    A preconditioned covariance is scaled so that its largest eigenvalue is 1: a number then counts in that.
    """
    if options.step_size is not None and not preconditioned:
        return options.step_size, options.step_size
    found = (bound + extra for bound, extra in zip(bounds(), noise, strict=True))
    eta1, eta2 = (1 / bound if bound > 0 else 1.0 for bound in found)
    factor = 1.0 if options.step_size is None else options.step_size
    largest_float = float(np.finfo(np.float64).max)
    with np.errstate(over="ignore"):
        return min(factor * eta1, largest_float), min(factor * eta2, largest_float)


def _noise(M: Preconditioner, m: Moments, size: int) -> tuple[float, float]:
    """What a minibatch adds to the largest eigenvalue: the trace of M^-1 S over its rows."""
    if M.x is None or M.y is None:
        return float(np.sum(m.var_x)) / size, float(np.sum(m.var_y)) / size
    return trace(M.x, m.var_x) / size, trace(M.y, m.var_y) / size


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
