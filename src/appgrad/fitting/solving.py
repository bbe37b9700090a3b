"""Run the solver of a problem: step by step, or in one step if it is a direct one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from ..data.derived import CountedViews
from ..data.views import Views
from ..solvers import registry
from ..solvers.canonical import RankError
from ..solvers.loop import iterate
from ..solvers.problem import Problem, Progress, Saved, Solution
from ..solvers.protocol import IterativeSolver, Options
from ..solvers.shortfall import with_scores
from .choose import Choice, choice_of, direct_solver

Callback = Callable[[Progress], Any]
# Rounding in squared quantities is amplified by the condition number. Errors are at most a tenth of their
# bounds: if these are above this, go back to the data.
LOSS = 1e-6


def solving(
    views: CountedViews,
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    callback: Callback | None = None,
    saved: Saved | None = None,
) -> tuple[Iterator[Progress], Choice]:
    """Return the progress of the solver asked for or chosen, and the choice with its reason."""
    start = time.perf_counter()
    choice = choice_of(views, problem, options)
    taken = options._replace(solver=choice.solver)
    if registry.is_iterative(choice.solver):
        registry.solver(choice.solver, problem.kind).require(views, problem, taken)
        return run(views, problem, taken, rng, start=start, callback=callback, saved=saved), choice
    solution, taken_over = solve_directly(
        views, problem, choice.solver, free=options.solver == registry.AUTO, options=taken
    )
    choice = choice if taken_over is None else taken_over
    return iter([_at_once(solution, views, start, callback)]), choice


def solve_directly(
    views: Views,
    problem: Problem,
    name: str = registry.DIRECT,
    *,
    free: bool = True,
    options: Options | None = None,
) -> tuple[Solution, Choice | None]:
    """Return the solution of a direct solver, and which other one has taken over with the reason, if one has.

    A `free` choice goes back to the data if covariances lose too much precision.
    """
    options = Options(name) if options is None else options
    direct = direct_solver(name, problem.kind)
    direct.require(views, problem, options)
    free = free and direct.successor is not None
    solution, reason = None, "the covariances have too few independent columns, so it works on the data"
    try:
        solution = direct.solve(views, problem)
    except RankError:
        # Covariances lose directions of low variance, which the data may still have.
        if not free:
            raise
    if solution is not None and (not free or np.all(with_scores(solution) < LOSS)):
        return solution, None
    if solution is not None:
        reason = f"the covariances are ill-conditioned ({solution.condition:.1e}), so it works on the data"
    assert direct.successor is not None
    taken = Choice(direct.successor, reason)
    successor = direct_solver(direct.successor, problem.kind)
    successor.require(views, problem, options)
    return successor.solve(views, problem), taken


def run(
    views: CountedViews,
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    *,
    start: float | None = None,
    callback: Callback | None = None,
    saved: Saved | None = None,
) -> Iterator[Progress]:
    """Yield the progress after each iteration of the solver asked for, until it ends."""
    start = time.perf_counter() if start is None else start
    # A resumed run counts time as if it had never stopped.
    began = start if saved is None else start - saved.seconds
    solver = cast(IterativeSolver, registry.solver(options.solver, problem.kind))
    ready = solver.prepare(views, problem, options, rng, began)
    counted = ready.views
    if saved is not None:
        # Most solvers have made a pass by now, which was enough; minibatches have not.
        views.verify()
        if ready.replay is not None:
            ready.replay(saved)
        # Restore the pass count.
        counted.rows = round(saved.passes * counted.n_samples)
    yield from iterate(
        ready.algorithm,
        ready.covs,
        ready.width,
        rng,
        finish=ready.finish,
        limits=ready.limits,
        rows=lambda: counted.rows,
        n=counted.n_samples,
        # Limits set by the user: the default number of iterations does not tell how long a run takes.
        expected=options.limits if ready.steps is None else options.limits._replace(iterations=ready.steps),
        # Steps whose number is known do not end before.
        tol=options.tol if ready.steps is None else 0.0,
        start=start,
        callback=callback,
        saved=saved,
    )


def _at_once(solution: Solution, views: CountedViews, start: float, callback: Callback | None) -> Progress:
    """The one step of a direct solver."""
    tcc, seconds = float(solution.correlations.sum()), time.perf_counter() - start
    progress = Progress(1, views.passes, seconds, np.nan, tcc, lambda: solution, "converged")
    if callback is not None:
        callback(progress)
    return progress
