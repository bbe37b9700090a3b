"""Stochastic AppGrad as a solver on stored rows: minibatches, budgets, and how a run ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from ...covariance.moments import moments
from ...covariance.preconditioners import warm_up_rows
from ...covariance.rows import RowCovariance
from ...data.derived import CountedViews
from ...data.views import Views
from ..canonical import RankError, canonical, completed, directions, require_directions
from ..costs import Cost, Rates, gram_memory, require_memory, small_flops, thin, thin_memory
from ..gram import APPROXIMATE, coordinates
from ..problem import Diagnostics, Limits, Problem, Saved, Solution
from ..protocol import BATCH_SIZE, Options, Outcome, Run
from ..shortfall import hidden_pairs, lost_in_rounding, out_of_budget, unfinished
from ..sparse.batch import refused_by_steps
from ..sparse.regressions import require_left
from ..sparse.thresholds import limited
from .best_pairs import leading
from .minibatches import Minibatch, Minibatches
from .missed import on_all_rows, on_halves
from .racing import State, Stochastic
from .sampling import algorithm_for, buffer_for, estimated, normalised_width, normaliser_rows
from .trial import Trial

# Default budget: passes, and the least number of steps.
PASSES, STEPS = 5, 300
# Seconds of a minibatch with very few columns.
MINIBATCH = 5e-3
# Doubles for each feature and column carried, at the peak.
DOUBLES = 80


class StochasticSolver:
    """Stochastic AppGrad on minibatches; every row is read once a pass, whatever it is used for."""

    name = "stochastic"
    records: ClassVar[dict[str, Any]] = {
        "stochastic-solver/1": Stochastic,
        "stochastic-state/1": State,
        "stochastic-trial/1": Trial,
    }

    def refuses(self, options: Options) -> str | None:
        """Return why options are refused: sparse components one by one, or with hard penalties."""
        return refused_by_steps(options)

    def for_kernels(self) -> KernelStochasticSolver:
        """Return the solver on Gram matrices."""
        return KernelStochasticSolver()

    def require(self, views: Views, problem: Problem, options: Options) -> None:
        """Require nothing: minibatches fit."""

    def prepare(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator, start: float
    ) -> Run:
        """Set up a run on minibatches of rows."""
        return _run(views, problem, options, rng, start)

    def cost(self, views: Views, k: int, rates: Rates) -> Cost:
        """Return the expected cost: the default passes, and one to measure the result."""
        n, p = views.n_samples, views.n_features_x + views.n_features_y
        part = thin(views, k, rates)
        passes = max(PASSES, STEPS * 200 / n) + 1.0
        each = 3 * part.one + n / 200 * (MINIBATCH + 2000 * p * part.width * rates.thin)
        return Cost(self.name, passes, passes * each, thin_memory(views, part.width, DOUBLES))

    def shortfalls(self, outcome: Outcome) -> list[str]:
        """Return warnings about a run that ended on a budget, set by the user or the default one."""
        found = lost_in_rounding(outcome) + hidden_pairs(outcome.options.solver, outcome.solution)
        return found + (out_of_budget(outcome, has_tol=False) or unfinished(outcome))


class KernelStochasticSolver(StochasticSolver):
    """Stochastic AppGrad on coordinates of rows in the feature spaces of kernels."""

    def require(self, views: Views, problem: Problem, options: Options) -> None:
        """Raise if factors of Gram matrices, which give the coordinates, do not fit into this machine."""
        advice = f"use solver='lobpcg', or {APPROXIMATE}"
        require_memory(views, gram_memory(views), f"solver={self.name!r}", advice)

    def prepare(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator, start: float
    ) -> Run:
        """Set up a run on minibatches of coordinates."""
        there = coordinates(views, problem)
        run = _run(CountedViews(there.views, parent=views), there.problem, options, rng, start)
        return run._replace(
            finish=lambda diagnostics, stopped: there.returned(run.finish(diagnostics, stopped))
        )


def _run(
    views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator, start: float
) -> Run:
    n, limits = views.n_samples, options.limits
    options = options._replace(batch_size=_batch_size(options, n))
    size = options.batch_size
    width, rows = _normaliser(views, options, problem.n_components)
    passes, steps = _schedule(limits, views, size, width, rows)
    portion = min(max(size, rows or 0, warm_up_rows(views)), n)
    buffer = buffer_for(problem, size, rows, portion)
    batches = Minibatches(views, buffer, steps, rng, passes)
    algorithm = algorithm_for(buffer, problem, options, rng)
    # Minibatches were cut for the passes allowed, so these are no limit: rows read ahead are not rows used.
    paced, left = _paced(batches, start, limits), limits._replace(passes=None)

    def finish(diagnostics: Diagnostics, stopped: str | None) -> Solution:
        return _finished(batches, views, problem, options, diagnostics, stopped)

    def replay(saved: Saved) -> None:
        # Draw the same minibatches as before, by the same random numbers, but do not use them again.
        algorithm.init(next(paced), width, rng)
        for _ in range(saved.iteration - 1):
            next(paced, None)

    return Run(algorithm, paced, width, finish, left, views, steps, replay)


def _finished(
    batches: Minibatches,
    views: CountedViews,
    problem: Problem,
    options: Options,
    diagnostics: Diagnostics,
    stopped: str | None,
) -> Solution:
    """The solution at the last state: measured on all rows if a pass is left for it, else estimated."""
    buffer, k, limits = batches.buffer, problem.n_components, options.limits
    # The last rows read are no substitute for all: passes overlap in them, and some rows are there twice.
    at_hand = buffer.at_hand() if batches.whole is None else buffer.covariance(batches.whole)
    if options.sparsity is not None:
        A, B = limited(diagnostics.A, diagnostics.B, at_hand.diagonal(), options.sparsity)
        require_left(A, B, k, options.sparsity)
        diagnostics = diagnostics._replace(A=A, B=B)
    if batches.whole is not None:
        found = _measured(at_hand.at(np.float64), at_hand, diagnostics, k, options)
        return found if stopped is None else found._replace(missed=on_all_rows(at_hand, found, k))
    wanted = 1 if batches.complete else 2
    allowed = limits.passes is None or views.passes + wanted <= limits.passes
    if stopped in (None, "seconds", "flops") or limits.seconds is not None or not allowed:
        return estimated(buffer, diagnostics, k, options.sparsity is not None)
    m = buffer.moments if batches.complete else moments(views, problem.center)
    cov = RowCovariance(views, m, buffer.units(m), dtype=np.float64)
    found = _measured(cov, at_hand, diagnostics, k, options)
    if options.sparsity is not None:
        return found
    return found._replace(hidden=on_halves(*buffer.halves(), *leading(diagnostics, k), found.correlations))


def _measured(
    cov: RowCovariance, some: RowCovariance, diagnostics: Diagnostics, k: int, options: Options
) -> Solution:
    """Return the solution on all rows, with residuals in a norm that knows directions of low variance.

    That is the norm of `some` rows in memory. The residuals tell how much a run may still miss. Steps in
    single precision are well; correlations between small differences of columns need double.
    """
    norm = some.preconditioner("sample", np.random.default_rng(0))
    try:
        found = canonical(cov, diagnostics.A, diagnostics.B, k, norm=norm)
    except RankError:
        if options.sparsity is not None:
            raise
        A, B = completed(cov, diagnostics.A, diagnostics.B, k)
        plain = cov.products(A, B, ridge=False)
        require_directions(k, *directions(cov, A, B, plain))
        found = canonical(cov, A, B, k, plain, norm=norm)
    return found._replace(condition=np.inf) if norm.is_blind else found


def _paced(batches: Minibatches, start: float, limits: Limits) -> Iterator[Minibatch]:
    """Yield minibatches whose share of the run is that of the time, if this runs out before the rows."""
    for batch in batches:
        if limits.seconds is not None:
            spent = (time.perf_counter() - start) / limits.seconds
            batch = batch._replace(share=min(1.0, max(batch.share, spent)))
        yield batch


def _batch_size(options: Options, n: int) -> int:
    """Return the rows of a minibatch: the default is cut to the rows there are."""
    if options.batch_size > n and options.batch_size != BATCH_SIZE:
        raise ValueError(
            f"batch_size={options.batch_size} is above the {n} rows there are: use a smaller one, or "
            "solver='appgrad'"
        )
    return min(options.batch_size, n)


def _normaliser(views: Views, options: Options, k: int) -> tuple[int, int | None]:
    """Return columns of the bases and rows of the normaliser, None for the minibatch itself."""
    n = views.n_samples
    if options.dense:
        raise ValueError("covariance='dense' leaves no minibatches: use it with solver='appgrad' or 'als'")
    width = normalised_width(options, k, views, n)
    rows = normaliser_rows(options, width)
    return width, rows if rows is None else min(n, rows)


def _schedule(limits: Limits, views: Views, size: int, width: int, rows: int | None) -> tuple[float, int]:
    """Return passes and steps: what the budgets allow, less a pass for the last Rayleigh-Ritz."""
    n = views.n_samples
    steps = []
    passes = max(PASSES, STEPS * size / n)
    if limits.passes is not None:
        # No last pass is needed if all rows stay in memory.
        last = 1 if limits.passes >= 2 and n > warm_up_rows(views) else 0
        passes = limits.passes - last
    if limits.passes is not None or limits.iterations is None:
        steps.append(int(passes * n / size + 1e-9))
    if limits.iterations is not None:
        steps.append(limits.iterations)
    if limits.flops is not None:
        p = views.n_features_x + views.n_features_y
        one = 2 * width * views.entries * (2 * size + (rows or size)) + small_flops(p, width)
        # Three trials for a quarter of the run add half as much work again.
        steps.append(int(limits.flops / one / 1.5))
    found = max(1, min(steps))
    return min(passes, found * size / n) if found < steps[0] else passes, found


SOLVER = StochasticSolver()
