"""One pass in O(k p) memory: rows come in batches of 200, each once, and nothing is tuned.

    APPGRAD_DATA=folder python -m benchmarks one_pass [--only NAME ...] [--record FILE]

`stream` is fit_stream, which does not know when the rows end; `fit` is max_passes=1, which does; `exact` is
partial_fit with second moments, where they fit into the default budget. Each figure is the total correlation
of all rows, computed from the weights by QR of the scores, over that of the solution of all rows: exact, or
LOBPCG where p x p does not fit. One of MNIST's twenty correlations is that of two pixels lit in a single
image, which the solution with a ridge of 1e-5 leaves out; the paper adds such a ridge to all algorithms.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from sklearn import config_context

from appgrad import CCA

from .data_sets import DATA
from .lobpcg_time import K, total
from .measure import in_fresh_process, peak_extra_memory, save, seconds

SIZE = 200
# Ridge of the fit, ridge of the solution it is compared with.
PROBLEMS = {
    "mnist": [("auto", "auto"), ("auto", 1e-5), (1e-5, 1e-5)],
    "mediamill": [("auto", "auto")],
    "malicious_urls": [("auto", "auto")],
}


def batches(X, Y):
    """Batches of both views, of SIZE rows each."""
    for start in range(0, X.shape[0], SIZE):
        yield X[start : start + SIZE], Y[start : start + SIZE]


def streamed(X, Y, ridge, seed: int) -> CCA:
    """A model of one pass, with a memory budget too small for second moments."""
    model = CCA(K, ridge=ridge, random_state=seed)
    with config_context(working_memory=0.5):
        model.fit_stream(batches(X, Y))
    assert model.solver_ == "stochastic"
    return model


def peak(call) -> tuple[int, float]:
    """Memory and seconds of one call."""
    took: list[float] = []
    return peak_extra_memory(lambda: took.append(seconds(call))), took[0]


def measured(name: str, ridge, reference) -> dict:
    """The figures of one problem."""
    X, Y = DATA[name]()
    p = X.shape[1] + Y.shape[1]
    record: dict = {"columns": p}
    found: list[CCA] = []
    solved = CCA(K, ridge=reference, random_state=0, max_iter=None if p < 3000 else 100)
    record["solution seconds"] = seconds(lambda: solved.fit(X, Y))
    best = total(X, Y, solved)
    record |= {"solution": best, "solver": solved.solver_}
    runs: dict = {"stream": [], "fit": []}
    for seed in range(3 if p < 3000 else 1):
        order = np.random.default_rng(seed).permutation(X.shape[0])
        A, B = X[order], Y[order]
        memory, took = peak(lambda: found.append(streamed(A, B, ridge, seed)))  # noqa: B023
        if seed == 0:
            record |= {"stream seconds": took, "stream memory": memory}
        runs["stream"].append(total(X, Y, found.pop()) / best)
        once = CCA(K, solver="stochastic", max_passes=1, ridge=ridge, random_state=seed)
        runs["fit"].append(total(X, Y, once.fit(X, Y)) / best)
    record |= runs
    if p < 3000:
        exact = CCA(K, ridge=ridge)
        memory, took = peak(lambda: exact.fit_stream(batches(X, Y)).x_weights_)
        record |= {"exact": total(X, Y, exact) / best, "exact seconds": took, "exact memory": memory}
    return record


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--problem", help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.problem:
        print(json.dumps(measured(*json.loads(args.problem))))
        return
    record = {}
    for name in args.only:
        for ridge, reference in PROBLEMS[name]:
            found = in_fresh_process(__file__, "--problem", json.dumps([name, ridge, reference]))
            record[f"{name}, ridge {ridge}, solution with ridge {reference}"] = found
            print(name, ridge, reference, json.dumps(found), flush=True)
    if args.record:
        save(args.record, record)
