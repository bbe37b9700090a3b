"""The one loop: a solver is run step by step until it converges or a budget is spent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .problem import Algorithm, Diagnostics, Limits, Progress, Saved, Solution
from .time_left import Left, TimeLeft

# Captured correlations that differ by less than this share count as equal.
ROUNDING = 1e-10
# A state that captures more counts as worse if its residual is this many times larger.
FEIGNED = 100


def iterate(
    algorithm: Algorithm,
    covs: Iterator[Any],
    k: int,
    rng: np.random.Generator,
    *,
    finish: Callable[[Diagnostics, str | None], Solution],
    limits: Limits,
    rows: Callable[[], int],
    n: int,
    expected: Limits | None = None,
    tol: float = 0.0,
    start: float | None = None,
    callback: Callable[[Progress], Any] | None = None,
    saved: Saved | None = None,
) -> Iterator[Progress]:
    """Run an algorithm until it converges, a budget or `covs` is spent, or the callback stops it.

    `covs` yields what each step works on: always the same covariance, or one minibatch after the other.
    `finish` makes a solution of the best state; its second argument is why the run has ended: "converged",
    the budget's name, "stalled", "data" or "callback"; None while it goes on. With `saved`, the run resumes
    there, and `covs` begins with what the next step works on. `rows` returns how many rows have been
    delivered so far; a pass has n. The seconds left are estimated from the limits `expected` to be used up,
    and from `tol`, the share of the correlation that may be missing, if the run may end there.
    """
    start = time.perf_counter() if start is None else start
    iteration, flops = 0, 0.0
    state: Any = None
    diagnostics: Diagnostics | None = None
    best: Diagnostics | None = None
    clock = TimeLeft(limits if expected is None else expected, tol)
    if saved is not None:
        state, best, diagnostics = saved.state, saved.best, saved.diagnostics
        iteration, flops = saved.iteration, saved.flops
        start -= saved.seconds
    cov = None if diagnostics is not None else next(covs, None)
    while cov is not None or diagnostics is not None:
        if cov is not None:
            state, diagnostics = algorithm.init(cov, k, rng) if state is None else algorithm.step(state, cov)
            iteration += 1
            flops += diagnostics.flops
            if best is None or _is_better(diagnostics, best):
                best = diagnostics
        assert diagnostics is not None
        assert best is not None
        now = Saved(state, best, diagnostics, iteration, flops, time.perf_counter() - start, rows() / n)
        spent = Limits(iteration, now.passes, now.seconds, flops)
        progress = _progress(now, finish, rows(), clock.after(spent, diagnostics.missing))
        answer = None if callback is None or cov is None else callback(progress)
        stopped = _stopped(diagnostics, _exhausted(spent, limits), answer)
        if stopped is None:
            cov = next(covs, None)
            stopped = "data" if cov is None else None
        yield progress._replace(stopped=stopped, solution=partial(finish, best, stopped))
        if stopped is not None:
            return


def _stopped(diagnostics: Diagnostics, exhausted: str | None, answer: Any) -> str | None:
    """Why a run ends after this step, None if it goes on."""
    if diagnostics.converged:
        return "converged"
    if exhausted is not None:
        return exhausted
    if diagnostics.stalled:
        return "stalled"
    return "callback" if says_stop(answer) else None


def says_stop(answer: Any) -> bool:
    """True if the answer of a callback ends the run: only True of Python or numpy does."""
    return isinstance(answer, bool | np.bool_) and bool(answer)


def _progress(
    now: Saved, finish: Callable[[Diagnostics, str | None], Solution], rows: int, left: Left
) -> Progress:
    """Return the progress of a run whose state is `now`."""
    return Progress(
        now.iteration,
        now.passes,
        now.seconds,
        now.flops,
        now.best.tcc,
        partial(finish, now.best, None),
        event=now.diagnostics.event,
        residual=now.diagnostics.residual,
        saved=partial(_itself, now),
        rows=rows,
        left=left.estimate,
        at_most=left.at_most,
    )


def _itself(value: Saved) -> Saved:
    return value


def _is_better(new: Diagnostics, best: Diagnostics) -> bool:
    """True if a step takes the place of the best so far: more correlation, or as much with less residual.

    Rounding can feign correlation where columns nearly depend on each other: such a state has residuals far
    larger than others.
    """
    if new.converged or new.estimate or best.estimate or not np.isfinite(best.tcc):
        return True
    if abs(new.tcc - best.tcc) <= ROUNDING * abs(best.tcc):
        return new.residual <= best.residual
    if new.tcc > best.tcc:
        return not new.residual > FEIGNED * best.residual
    return new.residual < best.residual / FEIGNED


def _exhausted(spent: Limits, limits: Limits) -> str | None:
    """Return the name of the first budget that is used up, None if there is none."""
    for name, used, limit in zip(Limits._fields, spent, limits, strict=True):
        if limit is not None and used is not None and used >= limit:
            return name
    return None
