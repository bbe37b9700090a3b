"""Set-up of stochastic AppGrad: minibatches, preconditioner, step, and what is said of rows not all read."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from ...covariance.moments import Moments, moments
from ...covariance.operators import Covariance, Ridge, working_dtype
from ...covariance.preconditioners import (
    Preconditioner,
    damped,
    largest,
    low_rank,
    shielded,
    trace,
    warm_up_rows,
)
from ...data.derived import CountedViews
from ...data.views import Views
from ...machine.arrays import Array
from ..canonical import canonical
from ..effort import small_flops
from ..problem import Diagnostics, Limits, Problem, Solution
from ..setup import Options, Setup, preconditioner_kind, step_sizes, width_of
from ..sparse.columns import Columns
from ..sparse.regressions import require_left
from ..sparse.starts import first_pairs, start_sizes
from ..sparse.thresholds import limited
from .minibatches import Buffer, Minibatch, Minibatches
from .pairs import judged_correlations, leading
from .racing import Stochastic

# Unless asked otherwise: passes, and steps at least.
PASSES, STEPS = 5, 300
# Variances below this have no inverse.
TINY = 1e-300


def stochastic(
    views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator, start: float
) -> Setup:
    """Stochastic AppGrad on minibatches; every row is read once a pass, for whatever it serves."""
    n, k, size, limits = views.n_samples, problem.n_components, options.batch_size, options.limits
    width, rows = _normaliser(views, options, k)
    passes, steps = _schedule(limits, views, size, width, rows)
    portion = min(max(size, rows or 0, warm_up_rows(views)), n)
    buffer = buffer_for(problem, size, rows, portion)
    batches = Minibatches(views, buffer, steps, rng, passes)
    solver = solver_for(buffer, problem, options, rng)

    def finish(diagnostics: Diagnostics, stopped: str | None) -> Solution:
        at_hand = buffer.at_hand()
        if options.sparsity is not None:
            A, B = limited(diagnostics.A, diagnostics.B, at_hand.diagonal(), options.sparsity)
            require_left(A, B, k, options.sparsity)
            diagnostics = diagnostics._replace(A=A, B=B)
        if batches.complete and at_hand.n == n:
            return canonical(at_hand, diagnostics.A, diagnostics.B, k)
        wanted = 1 if batches.complete else 2
        allowed = limits.passes is None or views.passes + wanted <= limits.passes
        if stopped in (None, "seconds", "flops") or limits.seconds is not None or not allowed:
            return estimated(buffer, diagnostics, k)
        m = buffer.moments if batches.complete else moments(views, problem.center)
        cov = Covariance(views, m, buffer.units(m), dtype=working_dtype(m, views.dtype))
        return canonical(cov, diagnostics.A, diagnostics.B, k)

    # The passes are those the minibatches were cut for: rows read ahead are not rows used.
    paced, left = _paced(batches, start, limits), limits._replace(passes=None)
    return Setup(solver, paced, width, finish, left, steps)


def buffer_for(problem: Problem, size: int, rows: int | None, portion: int) -> Buffer:
    """A buffer of rows in the units of a problem."""
    _, center, scale, ridge = problem
    pair: tuple[Ridge, Ridge] = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    return Buffer(size, rows, portion, center=center, scale=scale, ridge=pair)


def solver_for(buffer: Buffer, problem: Problem, options: Options, rng: np.random.Generator) -> Stochastic:
    """The solver with the preconditioner and the step that the first rows suggest."""
    warm = buffer.warm_up()
    m = warm.moments
    for view, var in (("X", m.var_x), ("y", m.var_y)):
        if 0 < var.max() < TINY:
            raise ValueError(f"the values of {view} are too small to be squared: rescale the columns")
    # Steps on scaled columns are steps with a diagonal preconditioner on the columns as they are.
    kind = preconditioner_kind(options.preconditioner, warm.views) or ("jacobi" if problem.scale else None)
    if options.sparsity is not None:
        # Thresholds of rows need a step that is one for each row.
        kind = "jacobi"
    M = Preconditioner()
    if kind is not None:
        u, (peak_x, peak_y) = warm.units, buffer.peaks
        M = Preconditioner(damped(m.var_x, peak_x, u.ridge_x), damped(m.var_y, peak_y, u.ridge_y))
    if kind == "lowrank":
        M = Preconditioner(*(shielded(side) for side in low_rank(warm, M, rng) if side is not None))
    noise = _noise(M, m, buffer.size) if options.step_size is None else (0.0, 0.0)
    eta = step_sizes(options, lambda: largest(warm, M, rng), kind is not None, noise)
    first = None if options.sparsity is None else _sparse_start(warm, problem.n_components, options)
    adaptive = options.step_size is None
    return Stochastic(problem.n_components, eta, M, adaptive, options.sparsity, first)


def _sparse_start(warm: Covariance, k: int, options: Options) -> tuple[Array, Array]:
    """Weights to start from: those of another fit, or what stands out in the first rows."""
    assert options.sparsity is not None
    if options.first is not None:
        return options.first
    field = Columns(warm)
    A, B = first_pairs(field, k, start_sizes(warm, options.sparsity))
    return field.dx * A, field.dy * B


def estimated(buffer: Buffer, diagnostics: Diagnostics, k: int) -> Solution:
    """A solution from the rows at hand, with correlations that are not fitted to the rows they are of.

    Where the run has not been judged, rows at hand are rows that no step has used.
    """
    A, B = leading(diagnostics, k)
    # Bounds on what these rows have in common say nothing of the others.
    found = canonical(buffer.at_hand(), A, B, k)._replace(error_bounds=np.full(k, np.nan))
    rho = diagnostics.judged
    if rho is None:
        rho = judged_correlations(diagnostics, buffer.halves(), k)
    return found if rho is None else found._replace(correlations=rho)


def _paced(batches: Minibatches, start: float, limits: Limits) -> Iterator[Minibatch]:
    """Minibatches whose share of the run is that of the time, where this is shorter than the rows."""
    for batch in batches:
        if limits.seconds is not None:
            spent = (time.perf_counter() - start) / limits.seconds
            batch = batch._replace(share=min(1.0, max(batch.share, spent)))
        yield batch


def _normaliser(views: Views, options: Options, k: int) -> tuple[int, int | None]:
    """Columns of the bases and rows of the normaliser, None for the minibatch itself."""
    n, size = views.n_samples, options.batch_size
    if size > n:
        raise ValueError(
            f"batch_size={size} is above the {n} rows there are: use a smaller one, or solver='appgrad'"
        )
    if options.dense:
        raise ValueError("covariance='dense' leaves no minibatches: use it with solver='appgrad' or 'als'")
    width = normalised_width(options, k, views, n)
    rows = normaliser_rows(options, width)
    return width, rows if rows is None else min(n, rows)


def normalised_width(options: Options, k: int, views: Views, n: int) -> int:
    """Columns of the bases: no more than the rows of a normaliser, at most n, can tell apart."""
    size, asked = options.batch_size, options.normaliser
    sampled = size if asked == "batch" else asked if isinstance(asked, int) else n
    width = width_of(options, k, views, sampled, sampled=True)
    if sampled < width:
        name = f"batch_size={size}" if asked == "batch" else f"normaliser={asked}"
        raise ValueError(
            f"{name} rows cannot normalise {width} columns (n_components={k} and oversampling): "
            f"use at least {width}"
        )
    return width


def normaliser_rows(options: Options, width: int) -> int | None:
    """Rows of the normaliser of so many columns, None for those of the minibatch itself."""
    if options.normaliser == "batch":
        return None
    return options.normaliser if isinstance(options.normaliser, int) else 10 * width


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
        one = 2 * width * views.entries * (2 * size + (rows or size)) + small_flops(p, width)
        # Three trials for a quarter of the run are half as much again.
        steps.append(int(limits.flops / one / 1.5))
    found = max(1, min(steps))
    return min(passes, found * size / n) if found < steps[0] else passes, found


def _noise(M: Preconditioner, m: Moments, size: int) -> tuple[float, float]:
    """What a minibatch adds to the largest eigenvalue: the trace of M^-1 S over its rows."""
    if M.x is None or M.y is None:
        return float(np.sum(m.var_x)) / size, float(np.sum(m.var_y)) / size
    return trace(M.x, m.var_x) / size, trace(M.y, m.var_y) / size
