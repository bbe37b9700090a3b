"""Expected passes, time and memory of a fit by each solver, before anything long runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..covariance.thin import add_gathered, add_scores
from ..data.sources import as_views
from ..machine.readable import duration, size
from ..machine.threads import blas_threads
from ..solvers.costs import NOMINAL, READING, Cost, Rates
from .choose import chosen, costs
from .parameters import is_whole


class Plan(NamedTuple):
    """The choice of `solver="auto"`, its reason, and the expected cost of each solver; prints as a table."""

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
    """Estimate the passes, time and memory that each solver needs to fit these data.

    No row is read: the estimate uses shapes and the number of stored entries, and measures this machine's
    speed in a fraction of a second. Passes of iterative solvers are those that similar data took to reach the
    default tolerance, with small and large ridges: twice or half of them is usual, and a sixth where columns
    of sparse views coincide and the ridge is the default one. One pass more, which says on how many rows
    components rest, is not counted. Times are rough. Memory is in bytes, beyond the data.

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
    if not is_whole(n_components) or not 1 <= n_components <= most:
        raise ValueError(f"n_components must be an integer from 1 to {most}, got {n_components!r}")
    choice = chosen(views, costs(views, n_components))
    return Plan(*choice, tuple(costs(views, n_components, measured_rates()).values()))


def measured_rates() -> Rates:
    """Measure the rates of this machine, with about ten milliseconds of each kind of work."""
    rng = np.random.default_rng(0)
    n, p, w = 4000, 400, 25
    Z, A, U = rng.standard_normal((n, p)), rng.standard_normal((p, w)), rng.standard_normal((n, 2 * w))
    square = _seconds(lambda: Z.T @ Z) / (n * p * p)
    dense = _seconds(lambda: (Z @ A, Z.T @ U)) / (3 * n * p * (w + READING))
    rows, entries, columns = 40000, 5, 5000
    data, indptr = np.ones(rows * entries), np.arange(0, rows * entries + 1, entries)
    S = sp.csr_array((data, rng.integers(0, columns, rows * entries), indptr), shape=(rows, columns))
    B, V, every = rng.standard_normal((columns, w)), rng.standard_normal((rows, 2 * w)), slice(0, rows)

    def sparse() -> None:
        add_scores(S, every, B, np.zeros((rows, w)))
        add_gathered(S, every, V, np.zeros((columns, 2 * w)))

    # This runs on one thread, and a fit uses all; two threads do the work of one and a half.
    found = _seconds(sparse) / (3 * rows * entries * w) / (0.5 + 0.5 * blas_threads())
    C, D = rng.standard_normal((20000, 3 * w)), rng.standard_normal((3 * w, w))
    thin = _seconds(lambda: C @ D) / (C.shape[0] * D.size)
    ratio = square / NOMINAL.square
    return Rates(square, NOMINAL.factor * ratio, dense, found, thin)


def _seconds(f: Callable[[], object]) -> float:
    """Return the seconds of the shortest of three runs."""
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - start)
    return float(best)
