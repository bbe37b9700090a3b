"""Are the tests and the noise level right? Rates on pure noise, power on planted pairs, coverage, cost.

    APPGRAD_DATA=folder python -m benchmarks inference [--sets 1000] [--only rates power later coverage cost]
                        [--record FILE]

Rates: the share of data sets of noise in which each test rejects at 5 %, for 12 shapes. Power: the same with
one planted pair; there "step 2" is noise, and its rate the size of the second step. Later: the
same of permutations with many columns, also with a ridge (where `test` gives NaN). Coverage: the share of
data sets of noise whose first correlation is above `noise_level_`. Simulated correlations of normal rows are
drawn directly: noise has the same ones whatever its covariance is. Cost, as ratios in one run: `test()` over
the fit on MNIST halves, and 1000 step-down permutations of 50 + 50 columns and 100,000 rows over 1000 bare
products U[pi]'V with the gathering of rows, a hundred at a time in turns.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from appgrad import CCA
from appgrad.data.sources import as_views
from appgrad.inference.distributions import edge, largest_limit
from appgrad.inference.methods import canonical_scores
from appgrad.inference.multivariate_tests import multivariate, step_down
from appgrad.inference.permutation import step_down_permutation
from appgrad.solvers.problem import Problem

from .data_sets import DATA
from .measure import save

# Rows, columns of both views.
SHAPES = [
    (12, 2, 3),
    (20, 1, 1),
    (20, 3, 3),
    (30, 1, 8),
    (50, 5, 20),
    (60, 2, 50),
    (100, 10, 10),
    (100, 30, 40),
    (200, 5, 100),
    (500, 20, 30),
    (1000, 60, 60),
    (1000, 100, 100),
]
COVERED = [(20, 3, 3), (100, 10, 10), (500, 20, 30), (1000, 100, 100)]
# Rows, columns and ridges of second steps.
LATER = [
    (200, 12, 12, 0.0),
    (20, 6, 6, 0.0),
    (30, 12, 12, 0.0),
    (40, 18, 18, 0.0),
    (60, 100, 10, 0.1),
    (50, 40, 40, 1.0),
    (60, 60, 60, 10.0),
]
LEVEL = 0.05
# Most rows of data sets that are permuted: their tests take long, and are the same for more.
PERMUTED = 200


def simulated(n: int, p: int, q: int, rho: float, rng: np.random.Generator) -> np.ndarray:
    """Squared correlations of normal rows, with one pair of correlation rho."""
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
    Y[:, 0] = rho * X[:, 0] + np.sqrt(1 - rho * rho) * Y[:, 0]
    U, V = (np.linalg.qr(Z - Z.mean(axis=0))[0] for Z in (X, Y))
    return np.minimum(np.linalg.svd(U.T @ V, compute_uv=False) ** 2, 1.0)


def rejected(n: int, p: int, q: int, rho: float, sets: int, seed: int) -> dict[str, float]:
    """The share of data sets in which each test rejects at 5 %."""
    rng, counts = np.random.default_rng(seed), dict[str, int]()
    for _ in range(sets):
        squares = simulated(n, p, q, rho, rng)
        steps = step_down(squares, n, p, q)
        found = {name: test.p for name, test in multivariate(squares, n, p, q).items()}
        found["Bartlett"] = float(steps.p_chi2[0])
        if len(squares) > 1:
            found["Wilks, step 2"] = float(steps.p_f[1])
        for name, value in found.items():
            counts[name] = counts.get(name, 0) + (value <= LEVEL)
    return {name: count / sets for name, count in counts.items()}


def permuted(n: int, p: int, q: int, rho: float, sets: int, seed: int) -> dict[str, float]:
    """The share of data sets in which the steps of the permutation test reject, with 199 permutations."""
    rng, counts = np.random.default_rng(seed), np.zeros(min(p, q))
    for _ in range(sets):
        X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
        Y[:, 0] = rho * X[:, 0] + np.sqrt(1 - rho * rho) * Y[:, 0]
        U, V = (np.linalg.qr(Z - Z.mean(axis=0))[0] for Z in (X, Y))
        P, found, Qt = np.linalg.svd(U.T @ V)
        test = step_down_permutation(U @ P, V @ Qt.T, found, n_resamples=199, rng=rng)
        counts += test.family_wise <= LEVEL
    return {f"step {k + 1}": counts[k] / sets for k in range(min(2, len(counts)))}


def held_out(n: int, p: int, q: int, rho: float, sets: int, seed: int) -> float:
    """The share of data sets in which the test on held-out rows rejects, with 99 permutations."""
    rng, count = np.random.default_rng(seed), 0
    for _ in range(sets):
        X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
        Y[:, 0] = rho * X[:, 0] + np.sqrt(1 - rho * rho) * Y[:, 0]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = CCA(1).fit(X, Y)
            count += model.test(X, Y, method="held-out", n_resamples=99, rng=rng).p_values[0] <= LEVEL
    return count / sets


def rates(sets: int) -> list[dict[str, Any]]:
    """Rates of rejection on noise, a record for each shape."""
    found = []
    for seed, (n, p, q) in enumerate(SHAPES):
        record: dict[str, Any] = {"what": "rate", "n": n, "p": p, "q": q, "sets": sets}
        record["rejected"] = rejected(n, p, q, 0.0, sets, seed)
        if n <= PERMUTED:
            record["permutation"] = permuted(n, p, q, 0.0, sets, seed)
            record["held out"] = held_out(n, p, q, 0.0, sets // 4, seed)
        print(n, p, q, record["rejected"], record.get("permutation"), record.get("held out"), flush=True)
        found.append(record)
    return found


def power(sets: int) -> list[dict[str, Any]]:
    """Rates of rejection with one planted pair, somewhat above the edge of noise."""
    found = []
    for seed, (n, p, q) in enumerate(SHAPES):
        rho = float(np.sqrt(0.5 * (1 + edge(n, p, q) ** 2)))
        record = {"what": "power", "n": n, "p": p, "q": q, "rho": rho, "sets": sets}
        record["rejected"] = rejected(n, p, q, rho, sets, 100 + seed)
        if n <= PERMUTED:
            record["permutation"] = permuted(n, p, q, rho, sets // 4, seed)
            record["held out"] = held_out(n, p, q, rho, sets // 4, seed)
        print(n, p, q, f"{rho:.2f}", record["rejected"], record.get("permutation"), flush=True)
        found.append(record)
    return found


def later(sets: int) -> list[dict[str, Any]]:
    """Size of the second step of permutations, with one strong pair and many columns, also with a ridge."""
    found = []
    for seed, (n, p, q, ridge) in enumerate(LATER):
        rng, count = np.random.default_rng(2000 + seed), 0
        for _ in range(sets // 4):
            X, Y, z = rng.standard_normal((n, p)), rng.standard_normal((n, q)), rng.standard_normal(n)
            X[:, 0], Y[:, 0] = X[:, 0] + 5 * z, Y[:, 0] + 5 * z
            ranks = min(p, n - 1), min(q, n - 1)
            scores = canonical_scores(as_views(X, Y), Problem(1, ridge=ridge), "exact", ranks)
            count += step_down_permutation(*scores, n_resamples=99, rng=rng).family_wise[1] <= LEVEL
        record = {"what": "later", "n": n, "p": p, "q": q, "ridge": ridge, "step 2": count / (sets // 4)}
        print(record, flush=True)
        found.append(record)
    return found


def coverage(sets: int) -> list[dict[str, Any]]:
    """How often noise is above `noise_level_`, with fitted models."""
    found = []
    for seed, (n, p, q) in enumerate(COVERED):
        rng, above, level = np.random.default_rng(1000 + seed), 0, np.nan
        for _ in range(sets):
            X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model = CCA(1).fit(X, Y)
            level = model.noise_level_
            above += model.canonical_correlations_[0] > level
        assert level == largest_limit(LEVEL, n, p, q)
        found.append(
            {"what": "coverage", "n": n, "p": p, "q": q, "sets": sets, "level": level, "above": above / sets}
        )
        print(found[-1])
    return found


def cost(rounds: int = 5) -> list[dict[str, Any]]:
    """Ratios of time within one run: the smallest of some rounds of each, in turns."""
    X, Y = DATA["mnist"]()
    fits, tests = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        with warnings.catch_warnings():
            # One component rests on a lit pixel.
            warnings.simplefilter("ignore")
            model = CCA(20, solver="exact").fit(X, Y)
        middle = time.perf_counter()
        model.test()
        fits.append(middle - start)
        tests.append(time.perf_counter() - middle)
    first = {"what": "cost of test() after fit on MNIST halves", "ratio": min(tests) / min(fits)}
    print(first)
    rng, n, p, count = np.random.default_rng(0), 100_000, 50, 1000
    U, V = (np.linalg.qr(rng.standard_normal((n, p)))[0] for _ in range(2))
    rho = np.linalg.svd(U.T @ V, compute_uv=False)
    tested, bare = 0.0, 0.0
    for _ in range(10):
        start = time.perf_counter()
        step_down_permutation(U, V, rho, n_resamples=count // 10, rng=rng)
        middle = time.perf_counter()
        for _ in range(count // 10):
            U[rng.permutation(n)].T @ V
        tested, bare = tested + middle - start, bare + time.perf_counter() - middle
    second = {"what": "1000 permutations over bare products", "n": n, "p": p, "ratio": tested / bare}
    print(second)
    return [first, second]


def main() -> None:
    """Measure, print a line for each, and keep a record if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=1000)
    parser.add_argument("--only", nargs="+", default=["rates", "power", "later", "coverage", "cost"])
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    found: list[dict[str, Any]] = []
    for name, measure in (("rates", rates), ("power", power), ("later", later), ("coverage", coverage)):
        if name in args.only:
            found += measure(args.sets)
    if "cost" in args.only:
        found += cost()
    if args.record is not None:
        save(args.record, {"records": found})


if __name__ == "__main__":
    main()
