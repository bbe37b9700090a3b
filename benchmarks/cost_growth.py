"""Growth of time and memory, one variable at a time, and where LOBPCG overtakes covariances.

    python -m benchmarks cost_growth [--record FILE]

Sparse rows of random columns, Zipf-like, ten iterations of LOBPCG; exponents are those of a power law fitted
to the points. Then exact against LOBPCG to its default tolerance for growing p, on dense and on sparse
rows: what `solver="auto"` has to decide. docs/figures/draw.py draws the record.
"""

from __future__ import annotations

import argparse
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from appgrad import CCA, plan
from appgrad.datasets import planted

from .measure import save, seconds

# Rows, columns a view, components, entries a row: one at a time is multiplied. Growth with entries is
# measured against those stored: some of a row fall into one column.
BASE = {"n": 400_000, "p": 10_000, "k": 10, "entries": 10}
FACTORS = (1, 2, 4, 8)
COLUMNS = (100, 200, 400, 800, 1600)


def sparse(n: int, p: int, entries: int, rng: np.random.Generator) -> sp.csr_array:
    """Rows of this many entries, in columns of decreasing frequency."""
    columns = (p ** rng.random(n * entries)).astype(np.int64) - 1
    m = sp.csr_array(
        (np.ones(n * entries, np.uint8), columns, np.arange(0, n * entries + 1, entries)), (n, p)
    )
    m.sum_duplicates()
    return m


def measured(n: int, p: int, k: int, entries: int) -> tuple[float, float, int]:
    """Seconds (least of five runs) and bytes (of a sixth run) of ten iterations, and entries stored."""
    rng = np.random.default_rng(0)
    X, Y = sparse(n, p, entries, rng), sparse(n, p, entries, rng)

    def fit() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            CCA(k, solver="lobpcg", max_iter=10, tol=0, random_state=0).fit(X, Y)

    spent = min(seconds(fit) for _ in range(5))
    tracemalloc.start()
    fit()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return spent, float(peak), X.nnz + Y.nnz


def exponent(x: list[float], y: list[float]) -> float:
    """Exponent of the power law through the points."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def crossing(kind: str) -> list[dict]:
    """Seconds of both solvers, choice of "auto": 20,000 dense rows, or 400,000 of five entries a view."""
    rows = []
    for p in COLUMNS:
        if kind == "dense":
            q = planted(20000, p, p, [0.9, 0.8, 0.7, 0.6, 0.5], condition=30, random_state=0)
            X, Y = q.X, q.y
        else:
            rng = np.random.default_rng(0)
            X, Y = sparse(400_000, p, 5, rng), sparse(400_000, p, 5, rng)
        found: dict = {"p": p, "auto": plan(X, Y, 5).solver}
        for solver in ("exact", "lobpcg"):
            fit = CCA(5, solver=solver, random_state=0)
            found[solver] = seconds(lambda: fit.fit(X, Y))  # noqa: B023
        found["passes"] = fit.n_passes_
        rows.append(found)
        print(kind, found, flush=True)
    return rows


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    record: dict = {"base": BASE}
    for variable, base in BASE.items():
        values: list[float] = [base * factor for factor in FACTORS]
        found = [measured(**BASE | {variable: value}) for value in values]
        if variable == "entries":
            values = [nnz for _, _, nnz in found]
        times, peaks = [t for t, _, _ in found], [m for _, m, _ in found]
        record[variable] = {
            "values": values,
            "seconds": times,
            "bytes": peaks,
            "exponents": {"time": exponent(values, times), "memory": exponent(values, peaks)},
        }
        print(variable, record[variable], flush=True)
    record["crossing"] = {kind: crossing(kind) for kind in ("dense", "sparse")}
    if args.record:
        save(args.record, record)
