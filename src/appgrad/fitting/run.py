"""From parameters to a run of an iterative solver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..data.derived import CountedViews
from ..solvers.batch import batch
from ..solvers.loop import iterate
from ..solvers.problem import Problem, Progress, Saved
from ..solvers.setup import Options
from ..solvers.sparse.batch import sparse_batch
from ..solvers.stochastic.sampling import stochastic


def run(
    views: CountedViews,
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    *,
    start: float | None = None,
    callback: Callable[[Progress], Any] | None = None,
    saved: Saved | None = None,
) -> Iterator[Progress]:
    """Progress after each iteration of the solver asked for, until it ends."""
    start = time.perf_counter() if start is None else start
    if options.solver == "stochastic":
        # Time counts as if the run had never stopped.
        began = start if saved is None else start - saved.seconds
        setup = stochastic(views, problem, options, rng, began)
    elif options.sparsity is not None:
        setup = sparse_batch(views, problem, options, rng)
    else:
        setup = batch(views, problem, options, rng)
    if saved is not None:
        if options.solver == "stochastic":
            # The same minibatches as before: read, and drawn by the same random numbers, but not used again.
            setup.solver.init(next(setup.covs), setup.width, rng)
            for _ in range(saved.iteration - 1):
                next(setup.covs, None)
        # So do passes.
        views.rows = round(saved.passes * views.n_samples)
    yield from iterate(
        setup.solver,
        setup.covs,
        setup.width,
        rng,
        finish=setup.finish,
        limits=setup.limits,
        rows=lambda: views.rows,
        n=views.n_samples,
        # Not the number of iterations that nobody asked for.
        expected=options.limits if setup.steps is None else options.limits._replace(iterations=setup.steps),
        tol=options.tol,
        start=start,
        callback=callback,
        saved=saved,
    )
