"""step_size="auto" against the best of twenty constant steps: correlation captured, same seed.

    APPGRAD_DATA=... python -m benchmarks step_sizes [--sets mnist mediamill ptb] [--record FILE]

Constant steps are c / L, c = 0.1, 0.2, ... 2.0, with L the largest eigenvalue of both covariances, 1 after
preconditioning. A ratio of 1 is as good as the best of them; the bar is 0.99 throughout.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path

import numpy as np

from appgrad.covariance.linalg import captured
from appgrad.covariance.moments import moments
from appgrad.covariance.preconditioners import Preconditioner, largest
from appgrad.covariance.rows import RowCovariance
from appgrad.covariance.units import units
from appgrad.data.derived import CountedViews
from appgrad.fitting.solving import run
from appgrad.solvers.problem import Limits, Problem
from appgrad.solvers.protocol import Options

from .data_sets import DATA, views_of
from .measure import save

K = 20
ITERATIONS, PASSES = (20, 100, 300), (1, 5)
CONSTANTS = tuple(round(0.1 * c, 1) for c in range(1, 21))


def captured_at(views, options, at, seed):
    """TCC on all rows after each number of iterations in `at`, from one run; and the passes spent."""
    counted = CountedViews(views)
    found, spent = {}, {}
    for progress in run(counted, Problem(K), options, np.random.default_rng(seed)):
        if progress.iteration in at:
            found[progress.iteration], spent[progress.iteration] = progress.tcc, progress.passes
    return found, spent


def captured_after(views, cov, options, seed):
    """TCC on all rows of a stochastic run, not its own estimate; number of passes, and of steps cut."""
    counted = CountedViews(views)
    events = 0
    for progress in run(counted, Problem(K), options, np.random.default_rng(seed)):
        events += progress.event is not None
    solution = progress.solution()
    grams = cov.grams(solution.x_weights, solution.y_weights)
    return captured(*grams, K)[2], counted.passes, events


def batch(views, cov, preconditioner, seed, constants):
    """Rows of the table for AppGrad."""
    L = 1.0 if preconditioner else max(largest(cov, Preconditioner(), np.random.default_rng(0), 6)) / 1.05
    dense = views.entries > 0.5 * (views.n_features_x + views.n_features_y)
    options = Options(
        "appgrad", tol=0.0, limits=Limits(max(ITERATIONS)), preconditioner=preconditioner, dense=dense
    )
    auto, spent = captured_at(views, options, ITERATIONS, seed)
    best = dict.fromkeys(ITERATIONS, (0.0, 0.0))
    for c in constants:
        found, _ = captured_at(views, options._replace(step_size=c / L), ITERATIONS, seed)
        for t in ITERATIONS:
            best[t] = max(best[t], (found[t], c))
    for t in ITERATIONS:
        yield {
            "solver": "appgrad",
            "at": t,
            "auto": auto[t],
            "best": best[t][0],
            "c": best[t][1],
            "passes": spent[t],
        }


def stochastic(views, cov, preconditioner, seed, constants, size, passes):
    """Rows of the table for stochastic AppGrad."""
    L = 1.0 if preconditioner else max(largest(cov, Preconditioner(), np.random.default_rng(0), 6)) / 1.05
    for p in passes:
        options = Options(
            "stochastic", limits=Limits(passes=p), preconditioner=preconditioner, batch_size=size
        )
        auto, spent, _ = captured_after(views, cov, options, seed)
        tried = [
            (captured_after(views, cov, options._replace(step_size=c / L), seed)[0], c) for c in constants
        ]
        best = max(tried)
        yield {"solver": "stochastic", "at": p, "auto": auto, "best": best[0], "c": best[1], "passes": spent}


def main():
    """Measure, print, record."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--sets", nargs="+", default=list(DATA))
    parser.add_argument("--solvers", nargs="+", default=["appgrad", "stochastic"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, help="use every n-th constant only")
    parser.add_argument("--passes", type=int, nargs="+", default=list(PASSES))
    parser.add_argument("--batch-size", type=int, default=200)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    constants = CONSTANTS[args.every - 1 :: args.every]
    rows = []
    for name in args.sets:
        views = views_of(name)
        m = moments(views)
        cov = RowCovariance(views, m, units(m, views.dtype))
        for M, solver in itertools.product((None, "auto"), args.solvers):
            start = time.perf_counter()
            if solver == "appgrad":
                found = batch(views, cov, M, args.seed, constants)
            else:
                found = stochastic(views, cov, M, args.seed, constants, args.batch_size, args.passes)
            for row in found:
                row = {"set": name, "preconditioner": M, **row, "ratio": row["auto"] / row["best"]}
                rows.append(row)
                print(
                    f"{name:10} {solver:10} M={M!s:5} at {row['at']:3}: auto {row['auto']:7.4f}, "
                    f"best {row['best']:7.4f} (c = {row['c']}), ratio {row['ratio']:.3f}, "
                    f"{row['passes']:.1f} passes, {time.perf_counter() - start:.0f} s",
                    flush=True,
                )
    print(f"smallest ratio {min(row['ratio'] for row in rows):.3f} (bar 0.99)")
    if args.record:
        settings = {"constants": constants, "seed": args.seed, "batch_size": args.batch_size}
        save(args.record, {"settings": settings, "rows": rows})
