"""Which solver, and why: `solver="auto"` in one place."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .linalg import EPS
from .run import ITERATIVE, Options, run, uses_matrices
from .solve import Problem, Progress, Solution
from .solvers.exact import exact
from .solvers.qr import qr
from .views import CountedViews, Views

SOLVERS = {"exact": exact, "qr": qr}
# Rounding in squared quantities is amplified by the condition number: above this loss, go back to the data.
LOSS = 1e-7


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
) -> tuple[Iterator[Progress], Choice]:
    """The progress of the solver asked for: step by step, or all at once where it is a direct one."""
    start = time.perf_counter()
    if options.solver in ITERATIVE:
        if uses_matrices(views, options):
            require_memory(views, "exact")
        steps = run(views, problem, options, rng, start=start, callback=callback)
        return steps, Choice(options.solver, "asked for")
    solution, choice = solve(views, problem, options.solver)
    tcc, seconds = float(solution.correlations.sum()), time.perf_counter() - start
    progress = Progress(1, views.passes, seconds, np.nan, tcc, lambda: solution, "converged")
    if callback is not None:
        callback(progress)
    return iter([progress]), choice


def solve(views: Views, problem: Problem, solver: str) -> tuple[Solution, Choice]:
    """Run the solver asked for; "auto" takes covariances, and the QR route where these lose too much."""
    name = "exact" if solver == "auto" else solver
    require_memory(views, name)
    solution = SOLVERS[name](views, problem)
    if solver != "auto":
        return solution, Choice(name, "asked for")
    if solution.condition * EPS > LOSS:
        require_memory(views, "qr")
        reason = f"the covariances are ill-conditioned ({solution.condition:.1e}), so it works on the data"
        return qr(views, problem), Choice("qr", reason)
    return solution, Choice("exact", _why_exact(views))


def _why_exact(views: Views) -> str:
    n, p1, p2 = views.n_samples, views.n_features_x, views.n_features_y
    if max(p1, p2) > n:
        return f"there are more columns than rows, so it works on the {n} x {n} side"
    return f"the covariances of {p1} + {p2} columns take {_size(8 * (p1 + p2) ** 2)} and one pass"


def memory_needed(views: Views, solver: str) -> int:
    """Bytes of the dense matrices a direct solver holds at a time, beyond the data."""
    n, p1, p2 = views.n_samples, views.n_features_x, views.n_features_y
    if solver == "qr":
        # The factor, a merge of two, and the orthogonal factors of both sides.
        return 8 * 10 * min(n, p1 + p2) * (p1 + p2)
    if max(p1, p2) > n:
        # Both Gram matrices, their eigenvectors and LAPACK's workspace.
        return 8 * 10 * n * n
    # The sums, one block's contribution for each thread, and the scaled copy the solver factors.
    return 8 * (5 + views.threads) * (p1 + p2) ** 2


def require_memory(views: Views, solver: str) -> None:
    """Raise before the first pass when a solver's matrices cannot fit into this machine."""
    need, have = memory_needed(views, solver), physical_memory()
    if have is not None and need > have:
        p1, p2 = views.n_features_x, views.n_features_y
        raise ValueError(
            f"solver={solver!r} needs about {_size(need)} for {views.n_samples} rows and {p1} + {p2} "
            f"columns; this machine has {_size(have)}: select or hash columns first"
        )


def physical_memory() -> int | None:
    """Bytes of memory of this machine, or None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _size(n_bytes: float) -> str:
    for unit in ("B", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"
