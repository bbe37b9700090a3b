"""The fast solver beside the paper's heuristics and beside other packages, on sparse data.

    APPGRAD_DATA=folder python -m benchmarks sparse_comparison [--only NAME ...] [--record FILE]

Each is fitted to every other row. Total correlation captured (TCC) is computed from the weights, by QR of the
scores, on those rows and on the others. Other packages are given the same sparse matrices: what they say is
recorded, and what the dense copy would take.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from appgrad.baselines import dw_cca, nw_cca, pca_cca
from appgrad.data.arrays import ArrayViews
from appgrad.solvers.problem import Problem

from .data_sets import DATA
from .lobpcg_time import K, fitted, total
from .measure import save, seconds

RIDGES = {
    "debian_paths": ("auto", 1e-6, 1e-5),
    "bilingual_en_it": ("auto", 1e-5, 1e-4),
    "malicious_urls": ("auto", 1e-5, 1e-4),
    "ptb": ("auto", 1e-6, 1e-5),
}


class Weights:
    """A heuristic's solution, with the attributes that `total` reads."""

    def __init__(self, solution) -> None:
        self.x_weights_, self.y_weights_ = solution.x_weights, solution.y_weights


def compared(name: str) -> list[dict]:
    """Rows of the table of one data set."""
    X, Y = DATA[name]()
    here, there = (X[::2], Y[::2]), (X[1::2], Y[1::2])
    views, rows = ArrayViews(*here), []

    def add(method: str, ridge, call) -> None:
        result = []
        spent = seconds(lambda: result.append(call()))
        row = {"method": method, "ridge": ridge, "seconds": round(spent, 2)}
        row |= {"training": total(*here, result[0]), "held_out": total(*there, result[0])}
        rows.append(row)
        print(name, row, flush=True)

    for ridge in RIDGES[name]:
        problem, seed = Problem(K, ridge=ridge), np.random.default_rng
        # Training totals of sparse data settle long before the last residual does.
        add("lobpcg, tol=1e-3", ridge, lambda: fitted(*here, ridge, tol=1e-3))  # noqa: B023
        add("NW-CCA", ridge, lambda: Weights(nw_cca(views, problem, seed(0))))  # noqa: B023
        add("DW-CCA", ridge, lambda: Weights(dw_cca(views, problem, seed(0))))  # noqa: B023
        for m in (100, 300):
            add(f"PCA-CCA({m})", ridge, lambda: Weights(pca_cca(views, problem, m, seed(0))))  # noqa: B023
    return rows


def peers(name: str) -> dict[str, str]:
    """Responses of other packages to sparse views."""
    X, Y = DATA[name]()
    need = f"a dense copy takes {8 * X.shape[0] * (X.shape[1] + Y.shape[1]) / 1e9:.0f} GB"
    said = {"dense": need}

    def sklearn():
        from sklearn.cross_decomposition import CCA as Other  # noqa: N811

        Other(2).fit(X, Y)

    def zoo():
        from cca_zoo.linear import CCA as Other  # noqa: N811

        Other(2).fit([X, Y])

    for package, call in (("scikit-learn", sklearn), ("cca_zoo", zoo)):
        try:
            call()
            said[package] = "fitted"
        except (TypeError, ValueError, MemoryError) as error:
            said[package] = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
    return said


def main() -> None:
    """Compare, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=list(RIDGES))
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    record = json.loads(args.record.read_text()) if args.record and args.record.exists() else {}
    for name in args.only:
        record[name] = {"peers": peers(name), "rows": compared(name)}
        print(name, record[name]["peers"], flush=True)
        if args.record:
            save(args.record, record)
