"""What a fit is expected to take: passes, seconds and memory of each solver, before anything long runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..covariance.moments import DENSE_ABOVE
from ..covariance.thin import add_gathered, add_scores
from ..data.views import Views
from ..machine.memory import budget
from ..machine.threads import blas_threads
from ..solvers.batch import uses_matrices
from ..solvers.setup import OVERSAMPLING, Options, is_full
from ..solvers.stochastic.sampling import PASSES, STEPS


class Rates(NamedTuple):
    """Seconds of one multiplication and addition, in different kinds of work.

    `square` in Z'Z, `factor` in everything that grows with p^3, `dense` and `sparse` in products of rows with
    thin matrices, `thin` in the algebra of p x k matrices.
    """

    square: float
    factor: float
    dense: float
    sparse: float
    thin: float


# Read off fits on two cores of a server: MNIST, a million rows of path names, random data of 20,000 x 200 to
# 5,000 x 4,000 (benchmarks/growth.py). What "auto" takes depends on their ratios alone, and on no clock.
NOMINAL = Rates(square=1.6e-11, factor=5e-11, dense=2.6e-11, sparse=3.5e-10, thin=3e-11)
# Reading a full row takes as long as this many columns of its products.
READING = 17
# Iterations to the default tolerance, for full rows and for sparse ones: MNIST 41, Mediamill 22; words 44,
# URLs 238, path names 252, bilingual texts 421, random ones 20 to 86 (benchmarks/fast.py, growth.py), and
# with a ridge fewer; 99 % of the correlation is captured after 3 to 25.
LOBPCG_ITERATIONS = {True: 40, False: 120}
# The slower ones: AppGrad to a thousandth of the captured correlation (MNIST, Mediamill: 39), ALS at ten
# passes an iteration. On sparse rows with the default ridge neither is expected to end before its limit.
APPGRAD_ITERATIONS, ALS_PASSES = {True: 40, False: 1000}, {True: 300, False: 10000}
# Seconds of a minibatch of hardly any columns.
MINIBATCH = 5e-3
# Doubles for each feature and column carried, at the peak (benchmarks/memory.py and fast.py: LOBPCG 24 to 27,
# AppGrad 24).
DOUBLES = {"als": 24, "appgrad": 24, "lobpcg": 27, "stochastic": 80}
# Matrices of the size of the covariances that a direct solver holds at a time.
MATRICES = 10


class Cost(NamedTuple):
    """What one solver is expected to take: `memory` in bytes beyond the data."""

    solver: str
    passes: float
    seconds: float
    memory: float


def costs(views: Views, k: int, rates: Rates = NOMINAL) -> dict[str, Cost]:
    """The expected cost of k components by each solver."""
    n, p = views.n_samples, views.n_features_x + views.n_features_y
    full, w = is_full(views), min(k + OVERSAMPLING, views.n_features_x, views.n_features_y)
    one = 3 * n * views.entries * ((w + READING) * rates.dense if full else w * rates.sparse)
    algebra = 30 * p * w * w * rates.thin
    found = [_exact(views, rates), _qr(views, rates)]
    lobpcg, start = LOBPCG_ITERATIONS[full], 1.0
    als = start + ALS_PASSES[full], one + algebra / 3
    gathered = uses_matrices(views, Options("als"))
    if gathered:
        als = 1.0, found[0].seconds
    for solver, passes, each in (
        ("lobpcg", start + lobpcg, one + algebra),
        ("als", *als),
        ("appgrad", start + 4 + APPGRAD_ITERATIONS[full], one + algebra / 3),
        (
            "stochastic",
            max(PASSES, STEPS * 200 / n) + 1.0,
            3 * one + n / 200 * (MINIBATCH + 2000 * p * w * rates.thin),
        ),
    ):
        memory = 8 * DOUBLES[solver] * p * w + (matrices_needed(views) if solver == "als" and gathered else 0)
        found.append(Cost(solver, passes, passes * each, memory))
    return {cost.solver: cost for cost in found}


def _exact(views: Views, rates: Rates) -> Cost:
    n, p1, p2 = views.n_samples, views.n_features_x, views.n_features_y
    memory, entries, p = memory_needed(views, "exact"), views.entries, p1 + p2
    if max(p1, p2) > n:
        # Moments, both n x n matrices (all rows, and again for each budget full of them), combinations of
        # rows, and their products.
        passes = 4 + np.ceil(8 * n * entries / max(budget(), 1))
        return Cost("exact", passes, n * n * entries * rates.square * 2 + 20 * n**3 * rates.factor, memory)
    squares = entries**2 / DENSE_ABOVE**2 if entries < DENSE_ABOVE * p else p * p
    return Cost("exact", 1.0, n * squares * rates.square + p**3 * rates.factor, memory)


def _qr(views: Views, rates: Rates) -> Cost:
    n, p = views.n_samples, views.n_features_x + views.n_features_y
    least = min(n, p)
    seconds = 5 * n * p * least * rates.square + 20 * least**2 * p * rates.factor
    return Cost("qr", 2.0, seconds, memory_needed(views, "qr"))


def memory_needed(views: Views, solver: str) -> int:
    """Bytes of the dense matrices a direct solver holds at a time, beyond the data."""
    n, p1, p2 = views.n_samples, views.n_features_x, views.n_features_y
    if solver == "qr":
        # The factor, a merge of two, and the orthogonal factors of both sides.
        return 8 * MATRICES * min(n, p1 + p2) * (p1 + p2)
    if max(p1, p2) > n:
        # Both Gram matrices, their eigenvectors and LAPACK's workspace.
        return 8 * MATRICES * n * n
    return matrices_needed(views)


def matrices_needed(views: Views) -> int:
    """Bytes of gathering p x p covariances and solving with them."""
    # The sums, the scaled copy and its factors, and what a few blocks contribute.
    return 8 * MATRICES * (views.n_features_x + views.n_features_y) ** 2


def measured_rates() -> Rates:
    """The rates of this machine, from some ten milliseconds of each kind of work."""
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

    # One thread here; a fit uses all, of which two do the work of one and a half.
    found = _seconds(sparse) / (3 * rows * entries * w) / (0.5 + 0.5 * blas_threads())
    C, D = rng.standard_normal((20000, 3 * w)), rng.standard_normal((3 * w, w))
    thin = _seconds(lambda: C @ D) / (C.shape[0] * D.size)
    ratio = square / NOMINAL.square
    return Rates(square, NOMINAL.factor * ratio, dense, found, thin)


def _seconds(f: Callable[[], object]) -> float:
    """The shortest of three runs."""
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - start)
    return float(best)


def size(n_bytes: float) -> str:
    """Bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit != "GB" else f"{n_bytes:.1f} GB"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"
