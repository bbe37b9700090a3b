"""Peak memory beyond the data of AppGrad and stochastic AppGrad, for growing p and n.

    python -m benchmarks peak_memory [--record FILE]

Dense doubles, k = 20, minibatches of 200. The slope over p is given in doubles a feature: a basis is 25, the
preconditioner keeps 80, a minibatch, its normaliser and the rows read ahead some hundreds. p x p matrices
would be 4000 to 32000.
"""

from __future__ import annotations

import argparse
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

from appgrad import CCA

from .measure import save

K = 20
FEATURES, ROWS = (2000, 4000, 8000, 16000), (2000, 4000, 8000, 16000)


def peak(solver: str, n: int, p: int, preconditioner: str | None) -> int:
    """Bytes beyond the data for p columns a view."""
    rng = np.random.default_rng(0)
    X, Y = (rng.standard_normal((n, p), dtype=np.float32).astype(np.float64) for _ in range(2))
    model = CCA(K, solver=solver, max_iter=5, tol=0, preconditioner=preconditioner, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tracemalloc.start()
        model.fit(X, Y)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return found


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    record = {}
    for solver in ("appgrad", "stochastic"):
        for preconditioner in (None, "lowrank"):
            by_p = [peak(solver, 1000, p, preconditioner) for p in FEATURES]
            by_n = [peak(solver, n, 1000, preconditioner) for n in ROWS]
            slope = np.polyfit([2 * p for p in FEATURES], by_p, 1)[0] / 8
            name = f"{solver}, preconditioner={preconditioner}"
            record[name] = {
                "p": FEATURES,
                "MB at n = 1000": [round(b / 2**20, 1) for b in by_p],
                "columns a feature": round(float(slope)),
                "n": ROWS,
                "MB at p = 1000": [round(b / 2**20, 1) for b in by_n],
            }
            print(name, record[name], flush=True)
    if args.record:
        save(args.record, record)
