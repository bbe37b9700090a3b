"""The functional core: `fit` turns views, a problem and options into a `Fit`, which is a value."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from ..data.derived import CountedViews
from ..data.views import Views
from ..machine.arrays import Array
from ..machine.threads import are_few, blas_limit, limit_for_factor
from ..solvers.costs import OVERSAMPLING, READING
from ..solvers.problem import Dimensions, Problem, Progress, Solution
from ..solvers.protocol import Options
from ..solvers.shortfall import NOTABLE, hidden_pairs, with_scores
from .checkpoint import Checkpoint, CheckpointFile
from .projection import in_precision
from .remarks import (
    Remark,
    coarse_remarks,
    interrupted_remarks,
    overfit_remarks,
    said,
    shortfall_remarks,
    unused_steps,
)
from .solving import solving
from .streams.steps import StepStream
from .streams.sums import SumStream

# Function of rows, columns of both views and the solution. It returns texts on meaningless correlations.
Overfit = Callable[[int, int, int, Solution], list[str]]


class Fit(NamedTuple):
    """A finished fit: the solution, the solver and why it was chosen, the steps taken, and remarks.

    Weights are in the precision of the data. `history` has a record for each step. `interrupted` is True if
    Ctrl-C ended the run: the solution is that of the best state so far. `resumed_from` is the iteration of
    the checkpoint that the run resumed from, 0 without one, and None if unknown. Estimators add `dimensions`,
    which tests need, and `effective_rows`, on how many rows each component rests; None where not known.
    """

    solution: Solution
    solver: str
    reason: str
    history: list[dict[str, Any]]
    iterations: int
    passes: float
    seconds: float
    remarks: tuple[Remark, ...] = ()
    interrupted: bool = False
    resumed_from: int | None = None
    dimensions: Dimensions | None = None
    effective_rows: Array | None = None


def fit(
    views: CountedViews,
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    *,
    callback: Callable[[Progress], Any] | None = None,
    checkpoint: CheckpointFile | None = None,
    rows: Views | None = None,
    threads: int | None = None,
    overfit: Overfit | None = None,
) -> Fit:
    """Fit a problem to views: choose a solver, run it, write checkpoints, and check the result.

    Problems of the result are returned as remarks. The only warning issued here is that a checkpoint cannot
    be written. After the first step of a solver, Ctrl-C ends the run; before it, Ctrl-C raises.
    A checkpoint is of the `rows` that views are made of, where these are others, as those of kernels are.
    """
    n, p1, p2 = views.n_samples, views.n_features_x, views.n_features_y
    require_components(problem, n, p1, p2)
    book, saved = None, None
    if checkpoint is not None:
        book = _opened(checkpoint, views, rows)
        rng, callback, saved = book.follow(rng), book.watching(callback), book.saved
    with nullcontext() if threads is None else blas_limit(threads):
        steps, choice = solving(views, problem, options, rng, callback, saved)
        last, history, interrupted = _run(steps, book)

        def finished() -> Fit:
            if book is not None:
                book.write(last)
            solution = last.solution()
            taken = options._replace(solver=choice.solver)
            remarks = overfit_remarks(overfit(n, p1, p2, solution) if overfit else []) + unused_steps(options)
            if interrupted:
                remarks += interrupted_remarks(last, taken, views, solution, checkpoint)
            else:
                remarks += shortfall_remarks(last, taken, views, solution, problem.kind)
            return Fit(
                solution=in_precision(solution, views.dtype),
                solver=choice.solver,
                reason=choice.reason,
                history=history,
                iterations=last.iteration,
                passes=views.passes,
                seconds=last.seconds,
                remarks=tuple(remarks + coarse_remarks(solution, views.titles.describe)),
                interrupted=interrupted,
                # A direct solver has no state to resume from, whatever the file holds.
                resumed_from=0 if saved is None or last.saved is None else saved.iteration,
            )

        try:
            return finished()
        except KeyboardInterrupt:
            # The run is over: its result is not given up.
            return finished()._replace(interrupted=True)


def _opened(checkpoint: CheckpointFile, views: CountedViews, rows: Views | None) -> Checkpoint:
    """Return a checkpoint that compares the rows with those it was written of, or notes them."""
    book = Checkpoint(checkpoint, views.views)
    if rows is None:
        views.identity = book.identity
    else:
        # Not counted as a pass: those of a kernel's features take far longer.
        book.identity.require(rows)
    return book


def _run(steps: Iterator[Progress], book: Checkpoint | None) -> tuple[Progress, list[dict[str, Any]], bool]:
    """Return the last step of a run, the records of all steps, and True if it was interrupted."""
    last: Progress | None = None
    history: list[dict[str, Any]] = []
    interrupted = False
    try:
        for last in steps:
            history.append(last.record())
    except KeyboardInterrupt:
        if last is None:
            raise
        interrupted = True
    except (ConnectionError, MemoryError):
        # Save what was reached before a cluster was lost or memory ran out.
        if book is not None and last is not None:
            book.write(last)
        raise
    assert last is not None
    return last, history, interrupted


def fit_of_stream(
    stream: SumStream | StepStream,
    solve: Callable[[], Solution],
    n: int,
    columns: tuple[int, int],
    overfit: Overfit | None = None,
) -> Fit:
    """Return the fit to the n rows of a stream so far; `solve` returns their solution."""
    start = time.perf_counter()
    with limit_for_factor(max(columns)):
        solution = solve()
    seconds, tcc = time.perf_counter() - start, float(solution.correlations.sum())
    remarks: list[Remark] = []
    if not np.isnan(solution.condition) and not np.all(with_scores(solution) < NOTABLE):
        reason, advice = f"the covariances are ill-conditioned ({solution.condition:.1e})", "a ridge"
        if np.all(solution.error_bounds < NOTABLE):
            reason = "scores are small differences of columns that nearly depend on each other"
            advice = "fewer components"
        text = f"{reason}, and the rows are gone: use {advice}, or fit with solver='qr'"
        remarks += said(text, ConvergenceWarning)
    for text in hidden_pairs(stream.solver, solution):
        remarks += said(text, ConvergenceWarning)
    if overfit is not None:
        remarks += overfit_remarks(overfit(int(min(n, stream.rows)), *columns, solution))
    return Fit(
        solution=in_precision(solution, stream.dtype),
        solver=stream.solver,
        reason=stream.reason,
        history=[Progress(stream.steps, 1.0, seconds, np.nan, tcc, solve).record()],
        iterations=stream.steps,
        passes=1.0,
        seconds=seconds,
        remarks=tuple(remarks),
    )


def threads_for(views: Views, k: int, n_jobs: int | None) -> int | None:
    """Return the threads of a fit: n_jobs, None for all, and one if no operation is worth a second thread.

    The largest are products of the rows with each other, or of their columns, beside reading them; factors
    of these products; and the algebra of p x 3k bases.
    """
    n, p = views.n_samples, views.n_features_x + views.n_features_y
    least, width = min(n, p), 3 * (k + OVERSAMPLING)
    if views.local and are_few(max(n * views.entries * (least + READING), least**3 / 10, p * width * width)):
        return 1
    return None if n_jobs is None else int(effective_n_jobs(int(n_jobs)))


def generator(seed: Any) -> np.random.Generator:
    """Return a generator from any value of scikit-learn's random_state, or from another generator."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(check_random_state(seed).randint(2**31))


def require_components(problem: Problem, n: int, p1: int, p2: int) -> None:
    """Raise if rows and columns allow fewer components than asked for."""
    limit = min(n - 1 if problem.center else n, p1, p2)
    if problem.n_components > limit:
        raise ValueError(
            f"n_components={problem.n_components} is above the largest possible rank of {n} rows with "
            f"{p1} + {p2} columns: use at most {limit}"
        )
