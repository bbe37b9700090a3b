"""Which solver, and why: `solver="auto"` and `plan` in one place."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..data.derived import CountedViews
from ..data.sources import as_views
from ..data.views import Views
from ..machine.arrays import EPS
from ..machine.memory import budget, physical_memory
from ..solvers.batch import uses_matrices
from ..solvers.exact import exact
from ..solvers.gram import Coordinates, by_grams, coordinates
from ..solvers.problem import Problem, Progress, Saved, Solution
from ..solvers.qr import qr
from ..solvers.setup import ITERATIVE, Options
from .costs import MATRICES, Cost, costs, matrices_needed, measured_rates, memory_needed, size
from .run import run

SOLVERS = {"exact": exact, "qr": qr}
# Rounding in squared quantities is amplified by the condition number: above this loss, go back to the data.
LOSS = 1e-7
# How many times as long as expected LOBPCG may take: passes over full rows were 24 to 191 where 41 are
# expected (benchmarks/growth.py). Covariances take one pass, and leave no error but rounding.
UNSURE = 5


class Choice(NamedTuple):
    """The solver taken and one sentence why."""

    solver: str
    reason: str


def solving(
    views: CountedViews,
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    callback: Callable[[Progress], Any] | None = None,
    saved: Saved | None = None,
) -> tuple[Iterator[Progress], Choice]:
    """The progress of the solver asked for: step by step, or all at once where it is a direct one."""
    start = time.perf_counter()
    if problem.on_gram:
        return _solving_grams(views, problem, options, rng, start, callback, saved)
    choice = Choice(options.solver, "asked for")
    if options.sparsity is not None:
        if options.solver == "auto":
            choice = Choice(
                "pursuit", "components are sparse: thresholds are worked out on the columns in play"
            )
        options = options._replace(solver=choice.solver)
        return run(views, problem, options, rng, start=start, callback=callback, saved=saved), choice
    if options.solver == "auto":
        choice = chosen(views, costs(views, problem.n_components))
        options = options._replace(solver=choice.solver)
        auto = choice.solver == "exact"
    else:
        auto = False
    if options.solver in ITERATIVE:
        if uses_matrices(views, options):
            require_matrices(views)
        return run(views, problem, options, rng, start=start, callback=callback, saved=saved), choice
    require_memory(views, options.solver)
    solution = SOLVERS[options.solver](views, problem)
    if auto and solution.condition * EPS > LOSS:
        require_memory(views, "qr")
        reason = f"the covariances are ill-conditioned ({solution.condition:.1e}), so it works on the data"
        solution, choice = qr(views, problem), Choice("qr", reason)
    return iter([_at_once(solution, views, start, callback)]), choice


def _solving_grams(
    views: CountedViews,
    problem: Problem,
    options: Options,
    rng: np.random.Generator,
    start: float,
    callback: Callable[[Progress], Any] | None,
    saved: Saved | None,
) -> tuple[Iterator[Progress], Choice]:
    """The same for Gram matrices: direct solvers and minibatches need these in memory, with their factors."""
    n, need = views.n_samples, 8 * MATRICES * views.n_samples**2
    choice = Choice(options.solver, "asked for")
    if options.solver == "auto" and need <= budget():
        choice = Choice("exact", f"the {n} x {n} Gram matrices and their factors fit into the memory budget")
    elif options.solver == "auto":
        choice = Choice(
            "lobpcg",
            f"the {n} x {n} Gram matrices and their factors would need {size(need)}, more than the budget of "
            f"{size(budget())} (scikit-learn's working_memory), so it iterates on thin products",
        )
    options = options._replace(solver=choice.solver)
    if options.solver in ITERATIVE and options.solver != "stochastic":
        return run(views, problem, options, rng, start=start, callback=callback, saved=saved), choice
    _require(views, need, f"solver={options.solver!r}", "use solver='lobpcg', or an approximation")
    if options.solver != "stochastic":
        # Eigenvectors of K square nothing: what QR is for.
        return iter([_at_once(by_grams(views, problem), views, start, callback)]), choice
    there = coordinates(views, problem)
    rows = CountedViews(there.views, parent=views)
    found = run(rows, there.problem, options, rng, start=start, callback=_in(there, callback), saved=saved)
    return (_returned(there, progress) for progress in found), choice


def _returned(there: Coordinates, progress: Progress) -> Progress:
    return progress._replace(solution=lambda: there.returned(progress.solution()))


def _in(there: Coordinates, callback: Callable[[Progress], Any] | None) -> Callable[[Progress], Any] | None:
    """A callback that is shown solutions in the coordinates of the Gram matrices."""
    return None if callback is None else lambda progress: callback(_returned(there, progress))


def _at_once(
    solution: Solution, views: CountedViews, start: float, callback: Callable[[Progress], Any] | None
) -> Progress:
    """The one step of a direct solver."""
    tcc, seconds = float(solution.correlations.sum()), time.perf_counter() - start
    progress = Progress(1, views.passes, seconds, np.nan, tcc, lambda: solution, "converged")
    if callback is not None:
        callback(progress)
    return progress


def chosen(views: Views, expected: dict[str, Cost]) -> Choice:
    """Covariances where they fit into the memory budget, unless iterating is far cheaper; else LOBPCG."""
    n, p1, p2 = views.n_samples, views.n_features_x, views.n_features_y
    direct, iterative = expected["exact"], expected["lobpcg"]
    # Should the covariances turn out to be ill-conditioned, the QR route takes over.
    need, limit = max(direct.memory, memory_needed(views, "qr")), budget()
    what = f"the {n} x {n} side" if max(p1, p2) > n else f"the covariances of {p1} + {p2} columns"
    if need > limit:
        return Choice(
            "lobpcg",
            f"{what} and their factors would need {size(need)}, more than the budget of {size(limit)} "
            "(scikit-learn's working_memory), so it iterates on thin products",
        )
    if direct.seconds > UNSURE * iterative.seconds:
        return Choice(
            "lobpcg",
            f"some {iterative.passes:.0f} passes with thin products are expected to take "
            f"{iterative.seconds / direct.seconds:.2g} of the time of {what}",
        )
    if max(p1, p2) > n:
        return Choice("exact", f"there are more columns than rows, so it works on {what}")
    less = "is expected to take less time than iterating"
    if direct.seconds > iterative.seconds:
        less = "leaves no error but rounding"
    return Choice("exact", f"{what} fit into the memory budget ({size(need)}), and one pass {less}")


def require_memory(views: Views, solver: str) -> None:
    """Raise before the first pass when a solver's matrices cannot fit into this machine."""
    _require(views, memory_needed(views, solver), f"solver={solver!r}", "use solver='lobpcg', or 'auto'")


def require_matrices(views: Views) -> None:
    """The same for p x p matrices an iterative solver is to work on."""
    advice = "leave covariance at 'auto'"
    _require(views, matrices_needed(views), "covariance='dense'", advice)


def _require(views: Views, need: int, what: str, advice: str) -> None:
    have = physical_memory()
    if have is not None and need > have:
        p1, p2 = views.n_features_x, views.n_features_y
        raise ValueError(
            f"{what} needs about {size(need)} for {views.n_samples} rows and {p1} + {p2} columns; this "
            f"machine has {size(have)}: {advice}"
        )


class Plan(NamedTuple):
    """What `solver="auto"` would take, why, and what each solver is expected to cost; prints as a table."""

    solver: str
    reason: str
    costs: tuple[Cost, ...]

    def __str__(self) -> str:
        lines = [f"{'solver':<12}{'passes':>8}{'time':>12}{'memory':>12}"]
        for cost in self.costs:
            mark = " *" if cost.solver == self.solver else ""
            cells = f"{cost.passes:>8.0f}{duration(cost.seconds):>12}{size(cost.memory):>12}"
            lines.append(f"{cost.solver + mark:<12}{cells}")
        return "\n".join([*lines, f"* auto takes {self.solver}: {self.reason}"])


def plan(X: Any, y: Any = None, n_components: int = 2) -> Plan:
    """What fitting these data is expected to take, by each solver, before anything long runs.

    No row is read: shapes and the number of stored entries are known, and this machine's speed is measured in
    a fraction of a second. Passes of iterative solvers are those that data like these took to the default
    tolerance with the default ridge: a larger ridge can save most of them. Times are rough. Memory is beyond
    the data, in bytes.

    Examples
    --------
    >>> import numpy as np
    >>> from appgrad import plan
    >>> X, y = np.zeros((1000, 30)), np.zeros((1000, 20))
    >>> found = plan(X, y, n_components=5)
    >>> found.solver
    'exact'
    >>> found.costs[0].passes
    1.0
    """
    views = as_views(X, y)
    most = min(views.n_samples - 1, views.n_features_x, views.n_features_y)
    if (
        not isinstance(n_components, Integral)
        or isinstance(n_components, bool)
        or not 1 <= n_components <= most
    ):
        raise ValueError(f"n_components must be an integer from 1 to {most}, got {n_components!r}")
    choice = chosen(views, costs(views, n_components))
    return Plan(*choice, tuple(costs(views, n_components, measured_rates()).values()))


def duration(seconds: float) -> str:
    """Seconds for people."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 0.1 else "< 0.1 s"
