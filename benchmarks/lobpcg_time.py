"""LOBPCG on real data, in units of one pass: the time of scipy's own products with as many columns.

    APPGRAD_DATA=folder python -m benchmarks lobpcg_time [--only NAME ...] [--record FILE]

The unit is X @ A, Y @ B, X.T @ [U V], Y.T @ [U V] in double precision, k + 5 columns, single calls. A fit is
timed as a user would time it: checks, moments, iterations and the last Rayleigh-Ritz. All totals of
correlation are computed from the weights alone, by QR of the scores, not by the solver.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import warnings
from pathlib import Path

import numpy as np

from appgrad import CCA
from appgrad.covariance.rows import RowCovariance
from appgrad.solvers.lobpcg.iteration import LOBPCG

from .data_sets import DATA
from .measure import in_fresh_process, peak_extra_memory, save, seconds

K, COLUMNS = 20, 25
SHARES = (0.99,)
# Ridges: the default one, and one in units of the data that damps columns with few entries.
PROBLEMS = {
    "debian_paths": ("auto", 1e-5),
    "bilingual_en_it": ("auto", 1e-4),
    "malicious_urls": ("auto", 1e-4),
    "ptb": ("auto", 1e-4),
    "mnist": ("auto",),
    "mediamill": ("auto",),
}


def total(X, Y, model) -> float:
    """Total correlation of the spans of the scores: Bjorck & Golub (1973), nothing of the package."""
    Q = []
    for Z, W in ((X, model.x_weights_), (Y, model.y_weights_)):
        U = np.asarray(Z @ W, dtype=np.float64)
        Q.append(np.linalg.qr(U - U.mean(axis=0))[0])
    return float(np.minimum(np.linalg.svd(Q[0].T @ Q[1], compute_uv=False), 1).sum())


def unit(X, Y) -> float:
    """Seconds of one pass: the median of five."""
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((X.shape[1], COLUMNS)), rng.standard_normal((Y.shape[1], COLUMNS))
    X, Y = X.astype(np.float64), Y.astype(np.float64)

    def one():
        UV = np.hstack([X @ A, Y @ B])
        return X.T @ UV, Y.T @ UV

    one()
    return statistics.median(seconds(one) for _ in range(5))


def fitted(X, Y, ridge, **params):
    """A model by LOBPCG; budgets are meant to be spent."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return CCA(K, solver="lobpcg", ridge=ridge, random_state=0, **params).fit(X, Y)


def iteration_cost(X, Y, ridge) -> float:
    """Time of iterations over that of the products they ask for: median of ten, after three."""
    products, spent, ratios = RowCovariance.products, [0.0], []
    step = LOBPCG.step

    def timed_products(self, *args, **kwargs):
        result = []
        spent[0] += seconds(lambda: result.append(products(self, *args, **kwargs)))
        return result[0]

    def timed_step(self, *args):
        result, spent[0] = [], 0.0
        ratios.append(seconds(lambda: result.append(step(self, *args))) / spent[0])
        return result[0]

    RowCovariance.products, LOBPCG.step = timed_products, timed_step
    try:
        fitted(X, Y, ridge, max_iter=14, tol=0)
    finally:
        RowCovariance.products, LOBPCG.step = products, step
    return statistics.median(ratios[3:])


def measured(name: str, ridge) -> dict:
    """One data set, one ridge."""
    X, Y = DATA[name]()
    one = unit(X, Y)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = CCA(K, solver="lobpcg", ridge=ridge, random_state=0).fit(X, Y)
    best = total(X, Y, model)
    found = {
        "unit_seconds": one,
        "converged": {
            "iterations": model.n_iter_[0],
            "passes": model.n_passes_,
            "seconds": model.history_[-1]["seconds"],
            "tcc": best,
            "residual": float(model.residuals_.max()),
            "warnings": [str(warning.message) for warning in said],
        },
        "iteration_over_products": iteration_cost(X, Y, ridge),
    }
    for share in SHARES:
        # The solver's own figures include the ridge: they only say where to begin looking.
        most = share * max(h["tcc"] for h in model.history_)
        iterations = next(h["iteration"] for h in model.history_ if h["tcc"] >= most)
        found_at: dict[int, float] = {}

        def reached(count: int, found_at: dict[int, float] = found_at) -> float:
            if count not in found_at:
                found_at[count] = total(X, Y, fitted(X, Y, ridge, max_iter=count))
            return found_at[count]

        while iterations > 1 and reached(iterations - 1) >= share * best:
            iterations -= 1
        while reached(iterations) < share * best:
            iterations += 1
        # Interleaved, so that a busy moment of the machine hits both.
        rounds = [(unit(X, Y), seconds(lambda: fitted(X, Y, ridge, max_iter=iterations))) for _ in range(3)]  # noqa: B023
        units = [spent / one for one, spent in rounds]
        found[str(share)] = {
            "iterations": iterations,
            "units": statistics.median(units),
            "tcc": reached(iterations),
        }
        found[str(share)]["rounds"] = units
    found["memory"] = in_fresh_process(__file__, "--memory", name, str(ridge))
    return found


def memory(name: str, ridge) -> None:
    """In a process of its own: print the peak extra memory of 45 iterations, single and double precision."""
    X, Y = DATA[name]()
    rng = np.random.default_rng(0)
    fitted(rng.standard_normal((1000, 30)), rng.standard_normal((1000, 30)), "auto", max_iter=2)
    print(json.dumps(peak_extra_memory(lambda: fitted(X, Y, ridge, max_iter=45))))


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=list(PROBLEMS))
    parser.add_argument("--memory", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    if args.memory:
        name, ridge = args.memory
        memory(name, ridge if ridge == "auto" else float(ridge))
        sys.exit()
    record = json.loads(args.record.read_text()) if args.record and args.record.exists() else {}
    for name in args.only:
        for ridge in PROBLEMS[name]:
            found = measured(name, ridge)
            record[f"{name}, ridge {ridge}"] = found
            print(name, ridge, json.dumps(found), flush=True)
            if args.record:
                save(args.record, record)
