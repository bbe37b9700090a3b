"""From parameters to a run of an iterative solver: covariances, preconditioner, step, budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config

from .covariance import Covariance, DenseCovariance, Ridge, units
from .minibatches import Minibatches
from .moments import moments, second_moments
from .preconditioners import Preconditioner, damped, jacobi, largest, low_rank, trace, warm_up_rows
from .solve import Limits, Operator, Problem, Products, Progress, Report, Solution, canonical, iterate
from .solvers.als import ALS
from .solvers.appgrad import AppGrad
from .solvers.stochastic import Stochastic
from .views import Array, CountedViews, Views, gathered

ITERATIVE = ("als", "appgrad", "stochastic")
# Unless asked otherwise: iterations of the batch solvers, passes and steps of the stochastic one.
ITERATIONS, PASSES, STEPS = 1000, 5, 300
# Momentum, and the step in units of the longest that never overshoots. Momentum tolerates longer steps than
# plain descent, 2 (1 + MOMENTUM), and restarts without it: below 2 both are stable (docs/decisions/0004).
MOMENTUM, STEP = 0.95, 1.5
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
    prepare = _stochastic if options.solver == "stochastic" else _batch
    solver, covs, width, finish, limits = prepare(views, problem, options, rng)
    yield from iterate(
        solver,
        covs,
        width,
        rng,
        finish=finish,
        limits=limits,
        passes=lambda: views.passes,
        start=start,
        callback=callback,
    )


def _batch(views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator) -> Any:
    """ALS or AppGrad on all rows, or on p x p matrices gathered from them."""
    k, center, scale, ridge = problem
    limits = options.limits
    if limits.iterations is None:
        limits = limits._replace(iterations=ITERATIONS)
    kind = _kind(options.preconditioner, views)
    _require_passes(views, options, kind)
    p = views.n_features_x + views.n_features_y
    small = 8 * p**2 <= get_config()["working_memory"] * 2**20
    cov: Operator
    if options.dense or (options.solver == "als" and small):
        second = second_moments(views, center)
        m = second.moments(views.n_features_x)
        cov = DenseCovariance(second, units(m, views.dtype, scale=scale, ridge=ridge))
    else:
        m = moments(views, center)
        cov = Covariance(views, m, units(m, views.dtype, scale=scale, ridge=ridge))
    M = Preconditioner() if kind is None else jacobi(cov)
    if kind == "lowrank":
        M = low_rank(_sample(views, cov, rng), M, rng)
    width = _width(options, k, views.n_features_x, views.n_features_y, m.n)
    solver: ALS | AppGrad
    if options.solver == "als":
        solver = ALS(k, M, tol=options.tol)
    else:
        auto = options.step_size is None
        eta = _steps(options, lambda: largest(cov, M, rng, _spare_passes(limits)), kind is not None)
        if auto:
            eta = STEP * eta[0], STEP * eta[1]
        solver = AppGrad(k, eta, M, MOMENTUM if auto else 0.0, options.tol)

    def finish(report: Report) -> Solution:
        assert report.products is not None
        return canonical(cov, report.A, report.B, k, _without_ridge(cov, report, report.products))

    return solver, repeat(cov), width, finish, limits


def _stochastic(views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator) -> Any:
    """Stochastic AppGrad on minibatches; every row is read once a pass, for whatever it serves."""
    k, center, scale, ridge = problem
    n, size = views.n_samples, options.batch_size
    if size > n:
        raise ValueError(
            f"batch_size={size} is above the {n} rows there are: use a smaller one, or solver='appgrad'"
        )
    if options.dense:
        raise ValueError("covariance='dense' leaves no minibatches: use it with solver='appgrad' or 'als'")
    sampled = size if options.normaliser == "batch" else n
    width = _width(options, k, views.n_features_x, views.n_features_y, sampled)
    rows = None if options.normaliser == "batch" else 10 * width
    if isinstance(options.normaliser, int):
        rows = options.normaliser
    found = size if rows is None else rows
    if found < width:
        name = f"batch_size={size}" if rows is None else f"normaliser={rows}"
        raise ValueError(
            f"{name} rows cannot normalise {width} columns (n_components={k} and oversampling): "
            f"use at least {width}"
        )
    rows = None if rows is None else min(rows, n)
    limits = options.limits
    passes = _training_passes(limits, n, size)
    pair: tuple[Ridge, Ridge] = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    batches = Minibatches(views, size, rows, passes, rng, center=center, scale=scale, ridge=pair)
    warm = batches.warm_up()
    kind = _kind(options.preconditioner, views)
    M = Preconditioner()
    m = warm.moments
    if kind is not None:
        M = Preconditioner(*(damped(v, s) for v, s in zip((m.var_x, m.var_y), batches.peaks, strict=True)))
    if kind == "lowrank":
        M = low_rank(warm, M, rng)
    noise = _noise(M, m.var_x, m.var_y, size) if options.step_size is None else (0.0, 0.0)
    eta = _steps(options, lambda: largest(warm, M, rng), kind is not None, noise)
    solver = Stochastic(k, eta, M, adaptive=options.step_size is None)

    def finish(report: Report) -> Solution:
        last = limits.passes is None or views.passes + 1 <= limits.passes
        if last and limits.seconds is None:
            all_rows = batches if views.passes >= 1 else None
            m = moments(views, center) if all_rows is None else batches.moments
            return canonical(Covariance(views, m, batches.units(m)), report.A, report.B, k)
        rows_at_hand = batches.at_hand()
        # A quarter of the rows at a time is better than all of them along the way.
        if report.products is None or report.grams is None or 4 * rows_at_hand.n >= n:
            return canonical(rows_at_hand, report.A, report.B, k)
        products = _consistent(report.A, report.B, report.products, report.grams)
        return canonical(rows_at_hand, report.A, report.B, k, _without_ridge(rows_at_hand, report, products))

    # The passes are those the minibatches were cut for: rows read ahead are not rows used.
    return solver, iter(batches), width, finish, limits._replace(passes=None)


def _without_ridge(cov: Operator, report: Report, products: Products) -> Products:
    xx, xy, yx, yy = products
    u = cov.units
    return xx - u.ridge_x[:, None] * report.A, xy, yx, yy - u.ridge_y[:, None] * report.B


def _consistent(A: Array, B: Array, products: Products, grams: tuple[Array, Array, Array]) -> Products:
    """Products moved within their own span so that A'xx, A'xy and B'yy are the Gram matrices given."""
    xx, xy, yx, yy = products
    Gx, Gxy, Gy = grams
    lift_x, lift_y = (SC @ np.linalg.pinv(C.T @ SC) for C, SC in ((A, xx), (B, yy)))
    return (
        lift_x @ ((Gx + Gx.T) / 2),
        xy + lift_x @ (Gxy - A.T @ xy),
        yx + lift_y @ (Gxy.T - B.T @ yx),
        lift_y @ ((Gy + Gy.T) / 2),
    )


def _kind(asked: str | None, views: Views) -> str | None:
    """ "auto": low-rank where rows are full, the diagonal where most entries are zero.

    Sparse columns hardly share directions, and a product with fifty dense ones would cost more than the data.
    """
    if asked != "auto":
        return asked
    full = views.entries >= 0.5 * (views.n_features_x + views.n_features_y)
    return "lowrank" if full else "jacobi"


def _sample(views: Views, cov: Operator, rng: np.random.Generator) -> Operator:
    """The covariance of some random rows, in memory, with the means of all."""
    rows = np.sort(rng.permutation(views.n_samples)[: warm_up_rows(views)])
    return Covariance(gathered(views.take(rows)), cov.moments, cov.units)


def _width(options: Options, k: int, p1: int, p2: int, rows: int) -> int:
    """Columns of the bases: components and oversampling, no more than can be told apart."""
    if options.oversampling is not None:
        return min(k + options.oversampling, p1, p2)
    return max(k, min(k + OVERSAMPLING, p1, p2, rows - 1))


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
    return factor * eta1, factor * eta2


def _noise(M: Preconditioner, var_x: Any, var_y: Any, size: int) -> tuple[float, float]:
    """What a minibatch adds to the largest eigenvalue: the trace of M^-1 S over its rows."""
    if M.x is None or M.y is None:
        return float(np.sum(var_x)) / size, float(np.sum(var_y)) / size
    return trace(M.x, var_x) / size, trace(M.y, var_y) / size


def _require_passes(views: Views, options: Options, kind: str | None) -> None:
    """Raise where the passes allowed do not suffice for moments, preconditioner, step and first iterate."""
    limits = options.limits
    least = 3 + (warm_up_rows(views) / views.n_samples if kind == "lowrank" else 0)
    if options.solver == "appgrad" and (kind is not None or options.step_size is None):
        least += _spare_passes(limits)
    if limits.passes is not None and limits.passes < least:
        raise ValueError(
            f"max_passes={limits.passes:g} is too few for solver={options.solver!r}, which reads the rows "
            f"{int(np.ceil(least))} times before its first result: allow more, or use solver='stochastic'"
        )


def _spare_passes(limits: Limits) -> int:
    """Passes for the length of the step: three, or fewer where passes are scarce."""
    return 3 if limits.passes is None else max(1, min(3, int(limits.passes / 8)))


def _training_passes(limits: Limits, n: int, size: int) -> float:
    """Passes of minibatches: what the budgets allow, less one for the last Rayleigh-Ritz if there are two."""
    if limits.passes is not None:
        passes = limits.passes - 1 if limits.passes >= 2 else limits.passes
    elif limits.iterations is not None:
        passes = limits.iterations * size / n
    else:
        passes = max(PASSES, STEPS * size / n)
    if limits.iterations is not None:
        passes = min(passes, limits.iterations * size / n)
    return float(passes)
