"""Cost of the fingerprint of all rows, which a run with a checkpoint gathers once, in its first pass.

    python -m benchmarks fingerprint [--only NAME ...] [--rounds 7] [--record FILE]

Processor seconds of one thread, the least of several rounds, each of which takes all measurements in turn:
the hashes, the two kinds of first pass (means and variances; covariances where they are small), a pass of the
iterations (products with 20 columns: 10 components and the default oversampling), and the smaller steps that
were tried for the hashes. `run` is the share of a whole run of LOBPCG, 10 components to default tolerance.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import config_context
from threadpoolctl import threadpool_limits

from appgrad import CCA
from appgrad.covariance.build import operator
from appgrad.covariance.moments import moments, second_moments
from appgrad.data.arrays import ArrayViews
from appgrad.data.fingerprint import row_sums

from .measure import save

K, WIDTH = 10, 20
# What the fingerprint is compared with.
PASSES = ("pass", "means and variances", "covariances")


def dense(n: int, p: int, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Two related dense views."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    return X.astype(dtype), (X * np.linspace(0.9, 0, p) + rng.standard_normal((n, p))).astype(dtype)


def sparse(n: int, p: int, entries: int, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Two related sparse views with so many entries a row."""
    rng = np.random.default_rng(0)
    found = []
    shared = rng.integers(0, p, (n, entries))
    for _ in range(2):
        columns = np.where(rng.random((n, entries)) < 0.5, shared, rng.integers(0, p, (n, entries)))
        m = sp.csr_array((rng.random(n * entries), columns.ravel(), np.arange(n + 1) * entries), shape=(n, p))
        m.sum_duplicates()
        found.append(m.astype(dtype))
    return found[0], found[1]


PROBLEMS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "dense, 100,000 x (100 + 100)": lambda: dense(100_000, 100),
    "dense, 10,000 x (1000 + 1000)": lambda: dense(10_000, 1000),
    "dense, 2500 x (4000 + 4000)": lambda: dense(2500, 4000),
    "single precision, 10,000 x (1000 + 1000)": lambda: dense(10_000, 1000, np.float32),
    "sparse, 200,000 x (20,000 + 20,000), 10 a row": lambda: sparse(200_000, 20_000, 10),
}


def ways(X: Any) -> dict[str, Callable[[], Any]]:
    """Steps that were tried for the hashes of dense rows, as far as they are one call of numpy."""
    bits, odd = X.view(np.uint64), np.arange(1, 2 * X.shape[1], 2, dtype=np.uint64)
    values = np.random.default_rng(0).standard_normal(X.shape[1])
    across = np.ndarray((len(X), X.shape[1] - 1), np.uint64, X, 4, (X.strides[0], 8))
    return {
        "add up bits": lambda: np.add.reduce(bits, axis=1),
        "product with one column (BLAS)": lambda: X @ values,
        "bits times odd numbers": lambda: np.einsum("ij,j->i", bits, odd),
        "the same, across words": lambda: np.einsum("ij,j->i", across, odd[1:]),
    }


def both(first: Callable[[], Any], second: Callable[[], Any]) -> None:
    """Call two functions."""
    first()
    second()


def measured(X: Any, Y: Any, rounds: int) -> dict[str, float]:
    """Processor seconds of one thread: the least of several rounds."""
    views = ArrayViews(X, Y, threads=1)
    cov = operator(views, center=True, scale=False, ridge="auto")
    A, B = (np.random.default_rng(1).standard_normal((p, WIDTH)).astype(X.dtype) for p in views.widths)
    calls: dict[str, Callable[[], Any]] = {
        "fingerprint": lambda: [row_sums(block) for block in views.blocks()],
        "means and variances": lambda: moments(views),
        "pass": lambda: cov.products(A, B),
    }
    if sum(views.widths) <= 2000:
        calls["covariances"] = lambda: second_moments(views)
    if not sp.issparse(X) and X.dtype == np.float64:
        calls |= {name: partial(both, ways(X)[name], ways(Y)[name]) for name in ways(X)}
    best = dict.fromkeys(calls, np.inf)
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.process_time()
            call()
            best[name] = min(best[name], time.process_time() - start)
    return best


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    record: dict[str, Any] = {}
    for name in args.only:
        X, Y = PROBLEMS[name]()
        # With so little memory, a run makes passes over rows.
        with threadpool_limits(1), config_context(working_memory=1):
            found = measured(X, Y, args.rounds)
            run = CCA(K, solver="lobpcg", random_state=0).fit(X, Y)
        share = {what: found["fingerprint"] / found[what] for what in PASSES if what in found}
        share["run"] = share["pass"] / run.n_passes_
        numbers = (X.nnz + Y.nnz) if sp.issparse(X) else X.size + Y.size
        each = {what: took / numbers * 1e9 for what, took in found.items()}
        record[name] = {"share": share, "passes of a run": run.n_passes_, "nanoseconds a number": each}
        shares = ", ".join(f"{100 * value:.1f} % of {what}" for what, value in share.items())
        print(f"{name}: {shares}; {run.n_passes_:.0f} passes", flush=True)
        for what, took in each.items():
            print(f"    {what:32} {took:7.2f} ns a number")
    if args.record:
        save(args.record, record)
