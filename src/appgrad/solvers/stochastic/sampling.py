"""Preconditioner and step from the first rows of a run or a stream; its solution from the last ones."""

from __future__ import annotations

import numpy as np

from ...covariance.moments import Moments
from ...covariance.preconditioners import (
    Preconditioner,
    damped,
    largest,
    low_rank,
    shielded,
    trace,
)
from ...covariance.rows import RowCovariance
from ...covariance.units import Ridge
from ...data.views import Views
from ...machine.arrays import Array
from ..canonical import canonical
from ..defaults import preconditioner_kind, step_sizes, width_of
from ..problem import Diagnostics, Problem, Solution
from ..protocol import Options
from ..sparse.columns_in_play import Columns
from ..sparse.starts import first_pairs, start_sizes
from .best_pairs import judged_correlations, leading
from .minibatches import Buffer
from .missed import on_halves
from .racing import Stochastic

# Variances below this have no inverse.
TINY = 1e-300


def buffer_for(problem: Problem, size: int, rows: int | None, portion: int) -> Buffer:
    """A buffer of rows in the units of a problem."""
    ridge = problem.ridge
    pair: tuple[Ridge, Ridge] = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    return Buffer(size, rows, portion, center=problem.center, scale=problem.scale, ridge=pair)


def algorithm_for(buffer: Buffer, problem: Problem, options: Options, rng: np.random.Generator) -> Stochastic:
    """Return the solver with the preconditioner and the step that the first rows suggest."""
    warm = buffer.warm_up()
    m = warm.moments
    mx, my = m.views
    for name, var in (("X", mx.var), ("y", my.var)):
        if 0 < var.max() < TINY:
            raise ValueError(f"the values of {name} are too small to be squared: rescale the columns")
    # Steps on scaled columns are steps with a diagonal preconditioner on the columns as they are.
    kind = preconditioner_kind(options.preconditioner, warm.views) or ("jacobi" if problem.scale else None)
    if options.sparsity is not None:
        # Thresholds of rows need one step size for each row.
        kind = "jacobi"
    M = Preconditioner()
    if kind is not None:
        (ux, uy), (peak_x, peak_y) = warm.units.views, buffer.peaks
        M = Preconditioner(damped(mx.var, peak_x, ux.ridge), damped(my.var, peak_y, uy.ridge))
    if kind == "lowrank":
        M = Preconditioner(*(shielded(side) for side in low_rank(warm, M, rng) if side is not None))
    noise = _noise(M, m, buffer.size) if options.step_size is None else (0.0, 0.0)
    eta = step_sizes(options, lambda: largest(warm, M, rng), kind is not None, noise)
    first = None if options.sparsity is None else _sparse_start(warm, problem.n_components, options)
    adaptive = options.step_size is None
    return Stochastic(problem.n_components, eta, M, adaptive, options.sparsity, first)


def _sparse_start(warm: RowCovariance, k: int, options: Options) -> tuple[Array, Array]:
    """Return weights to start from: those of another fit, or sparse pairs found in the first rows."""
    assert options.sparsity is not None
    if options.first is not None:
        return options.first
    field = Columns(warm)
    A, B = first_pairs(field, k, start_sizes(warm, options.sparsity))
    return field.dx * A, field.dy * B


def estimated(buffer: Buffer, diagnostics: Diagnostics, k: int, sparse: bool) -> Solution:
    """Return a solution from the last rows read, with correlations on rows they were not fitted to.

    If the run has not been judged, these are rows that no step has used. Pairs that were not found are
    looked for, unless components are `sparse`: those leave out much on purpose.
    """
    A, B = leading(diagnostics, k)
    # Error bounds for these rows say nothing about the others.
    found = canonical(buffer.at_hand(), A, B, k)._replace(error_bounds=np.full(k, np.nan))
    rho = diagnostics.judged
    if rho is None:
        rho = judged_correlations(diagnostics, buffer.halves(), k)
    if rho is not None:
        # Correlations on rows held out are not raised by the number of dimensions.
        found = found._replace(correlations=rho, ranks=(0, 0))
    if sparse:
        return found
    return found._replace(hidden=on_halves(*buffer.halves(), A, B, found.correlations))


def normalised_width(options: Options, k: int, views: Views, n: int) -> int:
    """Return the columns of the bases: no more than the rows of a normaliser, at most n, can tell apart."""
    size, asked = options.batch_size, options.normaliser
    sampled = size if asked == "batch" else asked if isinstance(asked, int) else n
    width = width_of(options, k, views, sampled, sampled=True)
    if sampled < width:
        columns = f"rows cannot normalise {width} columns (n_components={k} and oversampling)"
        if asked == "auto":
            raise ValueError(f"{n} {columns}: use a smaller oversampling")
        name = f"batch_size={size}" if asked == "batch" else f"normaliser={asked}"
        raise ValueError(f"{name} {columns}: use at least {width}")
    return width


def normaliser_rows(options: Options, width: int) -> int | None:
    """Return the rows of a normaliser of `width` columns, None for those of the minibatch itself."""
    if options.normaliser == "batch":
        return None
    return options.normaliser if isinstance(options.normaliser, int) else 10 * width


def _noise(M: Preconditioner, m: Moments, size: int) -> tuple[float, float]:
    """Return what a minibatch adds to the largest eigenvalue: the trace of M^-1 S over its rows."""
    mx, my = m.views
    if M.x is None or M.y is None:
        return float(np.sum(mx.var)) / size, float(np.sum(my.var)) / size
    return trace(M.x, mx.var) / size, trace(M.y, my.var) / size
