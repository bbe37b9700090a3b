"""Time of small fits on one thread of BLAS, over that on all: alone, and beside busy processes.

    python -m benchmarks small_fits [--seconds 2] [--busy 2] [--record FILE]

In one process, in turns: as fits run (one thread for operations of few multiplications), and with that rule
off, so that all have all threads. Each kind of work is repeated for so many seconds; times are medians.
Busy processes compute without end. The rule leaves the last fits alone, but for their small parts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from appgrad import CCA, KernelCCA, SparseCCA
from appgrad.machine import threads

from .measure import save, seconds

BUSY = "while True: pass"
RULE = {"one": threads.FEW, "all": 0.0}


def problem(n: int, p: int, q: int) -> tuple[Any, Any]:
    """Two views that share three directions."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((n, 3))
    return tuple(Z @ rng.standard_normal((3, m)) + rng.standard_normal((n, m)) for m in (p, q))  # type: ignore


def sparse_problem(n: int, p: int, q: int, density: float) -> tuple[Any, Any]:
    """Two sparse views, the first columns of which are the same."""
    X, Y = (sp.random(n, m, density, format="csr", random_state=m) for m in (p, q))
    return X, sp.hstack([X[:, :5], Y[:, 5:]], format="csr")


def kinds_of_work() -> dict[str, Callable[[], Any]]:
    """What is measured, by name."""
    tiny, small, middle, large = (problem(*shape) for shape in SHAPES)
    model, sparse, rows = CCA(2).fit(*small), sparse_problem(2000, 400, 300, 0.02), problem(20_000, 100, 100)
    steps: dict[str, Any] = {"solver": "stochastic", "random_state": 0}

    def stream() -> None:
        found = CCA(2)
        for start in range(0, 1000, 100):
            found.partial_fit(small[0][start : start + 100], small[1][start : start + 100])
        found.canonical_correlations_.sum()

    return {
        "exact, 200 x (10 + 10)": lambda: CCA(2, solver="exact").fit(*tiny),
        "exact, 1000 x (100 + 100)": lambda: CCA(2, solver="exact").fit(*small),
        "qr, 1000 x (100 + 100)": lambda: CCA(2, solver="qr").fit(*small),
        "lobpcg, 1000 x (100 + 100)": lambda: CCA(2, solver="lobpcg").fit(*small),
        "lobpcg, sparse 2000 x (400 + 300)": lambda: CCA(2, solver="lobpcg", ridge=1e-3).fit(*sparse),
        "300 steps of 200 rows, 20000 x (100 + 100)": lambda: CCA(2, max_iter=300, **steps).fit(*rows),
        "KernelCCA, 200 x (10 + 10)": lambda: KernelCCA(2, ridge=0.1).fit(*tiny),
        "SparseCCA, 1000 x (100 + 100)": lambda: SparseCCA(1, n_nonzero=10).fit(*small),
        "partial_fit, 10 x 100 rows": stream,
        "transform, 1000 rows": lambda: model.transform(*small),
        "exact, 2000 x (300 + 300)": lambda: CCA(2, solver="exact").fit(*middle),
        "exact, 5000 x (1000 + 1000)": lambda: CCA(2, solver="exact").fit(*large),
    }


SHAPES = ((200, 10, 10), (1000, 100, 100), (2000, 300, 300), (5000, 1000, 1000))


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Processes that compute without end beside this one."""
    found = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in found:
            process.kill()
            process.wait()


def in_turns(work: Callable[[], Any], budget: float) -> dict[str, float]:
    """Median time of some work with and without the rule, in turns, at least three of each."""
    times: dict[str, list[float]] = {name: [] for name in RULE}
    start = time.perf_counter()
    while len(times["all"]) < 4 or time.perf_counter() - start < budget:
        for name, few in RULE.items():
            threads.FEW = few
            times[name].append(seconds(work))
    threads.FEW = RULE["one"]
    # The first of each fills caches.
    return {name: statistics.median(each[1:]) for name, each in times.items()}


def main() -> None:
    """Measure alone and beside busy processes, print, record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--busy", type=int, default=2)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    available = threads.blas_threads()
    print(f"{available} threads of BLAS, {os.cpu_count()} cores; times in ms, ratios over one thread for few")
    rows = []
    for name, work in kinds_of_work().items():
        alone = in_turns(work, args.seconds)
        with busy(args.busy):
            beside = in_turns(work, args.seconds)
        rows.append({"name": name, "alone": alone, "busy": beside})
        cells = [
            f"{1e3 * t['one']:9.2f} {1e3 * t['all']:9.2f} {t['all'] / t['one']:6.1f} x"
            for t in (alone, beside)
        ]
        print(f"{name:44} alone {cells[0]}   beside {args.busy} {cells[1]}", flush=True)
    if args.record:
        save(args.record, {"threads": available, "busy": args.busy, "rows": rows})
