"""Which number tells, from the rows of a fit, that a correlation is lost on other rows; and what it costs.

    APPGRAD_DATA=folder python -m benchmarks effective_rows [--rows N ...] [--stretches] [--record FILE]

20 components, fitted to random rows (at most so many, and half of all) and correlated on others; with
--stretches, on every other thousand rows and on those between. A component is lost if more than half of its
training correlation is gone there. Candidates, each the smaller one of the two views where there are two:

- participation: (sum u^2)^2 / sum u^4 of the scores, as they are, and rotated within groups of correlations
  that differ by less than 0.0001, 0.001 or 0.01 from the next one;
- share m: share of the variance of a score that comes from columns that are not zero in fewer than m rows;
- of columns, of scores: the two numbers of rows of which the package takes the smaller one, "kept".

Each is judged at its best threshold (by F1, over all fits), and numbers of rows also at those that a warning
may have. `cost` is the time of the function over that of the products with the weights, X A and Y B.
"""

from __future__ import annotations

import argparse
import json
import statistics
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from appgrad import CCA
from appgrad.data.arrays import ArrayViews
from appgrad.data.derived import CountedViews
from appgrad.datasets.loaders import load_ptb
from appgrad.fitting.fit import fit
from appgrad.fitting.projection import projections, scores_of
from appgrad.inference.effective_rows.components import (
    CLOSE,
    FEW,
    close,
    effective_rows,
    of_columns_and_scores,
    rotation,
)
from appgrad.metrics import correlations

from .data_sets import DATA, folder
from .measure import save, seconds

K, STRETCH, TEST_ROWS = 20, 1000, 100_000
# Distances of close correlations that are tried; the largest rows, which the rotations of a benchmark see.
WITHIN, LARGEST = (1e-4, 1e-3, 1e-2), 20_000
COLUMN_ROWS = (2, 3, 5, 10, 30, 100)
THRESHOLDS = (2, 3, 4, 5, 6, 8, 10, 20, 30)
PROBLEMS: dict[str, Callable[[], Any]] = {
    "ptb, around": DATA["ptb"],
    "ptb, next": lambda: load_ptb(folder(), "next")[:2],
} | {name: DATA[name] for name in ("bilingual_en_it", "malicious_urls", "debian_paths", "mnist")}
RIDGES = {"mnist": ("auto", 1e-3, 1e-2)}
SPARSE_RIDGES = ("auto", 1e-5, 1e-4)


def split(n: int, most: int, stretches: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit, at most so many, and rows to test."""
    if not stretches:
        order = np.random.default_rng(seed).permutation(n)
        return np.sort(order[: min(most, n // 2)]), np.sort(order[n // 2 :][:TEST_ROWS])
    stretch, found = np.arange(n) // STRETCH, []
    for odd, limit in ((0, most), (1, TEST_ROWS)):
        those = np.unique(stretch[stretch % 2 == odd])
        chosen = those[np.linspace(0, len(those) - 1, min(len(those), max(1, limit // STRETCH))).astype(int)]
        found.append(np.flatnonzero(np.isin(stretch, chosen)))
    return found[0], found[1]


def participation(U: np.ndarray, V: np.ndarray) -> np.ndarray:
    """Inverse participation ratios, the smaller one of the two views."""
    each = [np.square(np.square(S).sum(axis=0)) / np.maximum((S**4).sum(axis=0), 1e-300) for S in (U, V)]
    return np.minimum(*each)


def rotated(U: np.ndarray, V: np.ndarray, rho: np.ndarray, within: float) -> np.ndarray:
    """Participation of scores rotated within groups of close correlations, matched to components."""
    found = np.empty(len(rho))
    for i in close(rho, within):
        largest = np.argsort(-np.square(U[:, i]).sum(axis=1) - np.square(V[:, i]).sum(axis=1))[:LARGEST]
        R = rotation(np.vstack([U[largest][:, i], V[largest][:, i]]), np.ones(2 * len(largest)))
        numbers = participation(U[:, i] @ R, V[:, i] @ R)
        found[i] = numbers[linear_sum_assignment(R**2, maximize=True)[1]]
    return found


def rare_shares(X: Any, Y: Any, solution: Any) -> dict[str, list[float]]:
    """For each m, the share of each component's variance from columns not zero in fewer than m rows."""
    found = {}
    for m in COLUMN_ROWS:
        shares = []
        for Z, W in ((X, solution.x_weights), (Y, solution.y_weights)):
            rare = np.flatnonzero(np.asarray((Z != 0).sum(axis=0)).ravel() < m)
            part = np.asarray(Z[:, rare] @ W[rare]).var(axis=0) if len(rare) else np.zeros(W.shape[1])
            shares.append(part / np.maximum(np.asarray(Z @ W).var(axis=0), 1e-300))
        found[f"share {m}"] = np.maximum(*shares).round(4).tolist()
    return found


def measured(X: Any, Y: Any, ridge: Any, rows: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """Candidates and held-out correlations of one fit."""
    here, there = (ArrayViews(X[part], Y[part]) for part in rows)
    problem, options = CCA(K, ridge=ridge, random_state=0).problem_and_options()
    solution = fit(CountedViews(here), problem, options, np.random.default_rng(0)).solution
    held_out = correlations(*scores_of(there, *projections(solution)))
    U, V = (S - S.mean(axis=0) for S in scores_of(here, *projections(solution)))
    of_columns, of_scores = of_columns_and_scores(here, solution)
    counts = {"participation": participation(U, V)}
    counts |= {f"participation, within {w:g}": rotated(U, V, solution.correlations, w) for w in WITHIN}
    counts |= {"of columns": of_columns, "of scores": of_scores, "kept": np.minimum(of_columns, of_scores)}

    def products() -> None:
        for m, W in ((here.x, solution.x_weights), (here.y, solution.y_weights)):
            _ = m.astype(np.float64, copy=False) @ W

    thin, whole = (
        statistics.median(seconds(call) for _ in range(3))
        for call in (products, lambda: effective_rows(here, solution))
    )
    return {
        "ridge": ridge,
        "rows": len(rows[0]),
        "training": solution.training_correlations.round(4).tolist(),
        "held_out": np.nan_to_num(held_out).round(4).tolist(),
        "counts": {name: np.asarray(found).round(1).tolist() for name, found in counts.items()},
        "shares": rare_shares(here.x, here.y, solution),
        "thin_seconds": round(thin, 4),
        "seconds": round(whole, 4),
        "cost": round(whole / thin, 2),
    }


def scored(flags: np.ndarray, lost: np.ndarray) -> dict[str, float]:
    """Precision and recall."""
    right = float(np.sum(flags & lost))
    return {
        "precision": round(right / max(flags.sum(), 1), 3),
        "recall": round(right / max(lost.sum(), 1), 3),
        "flagged": int(flags.sum()),
    }


def best(values: np.ndarray, lost: np.ndarray) -> dict[str, float]:
    """The threshold on values, flagged where they are larger, of the best F1."""

    def f1(threshold: float) -> float:
        flags = values > threshold
        return float(2 * np.sum(flags & lost) / max(flags.sum() + lost.sum(), 1))

    threshold = max(np.unique(np.quantile(values, np.linspace(0, 1, 400))), key=f1)
    return {"threshold": round(float(threshold), 4), "f1": round(f1(threshold), 3)} | scored(
        values > threshold, lost
    )


def judged(fits: list[dict[str, Any]]) -> dict[str, Any]:
    """How well the candidates tell which components are lost, over these fits."""

    def pooled(*path: str) -> np.ndarray:
        values = [found[path[0]] if len(path) == 1 else found[path[0]][path[1]] for found in fits]
        return np.nan_to_num(np.concatenate([np.asarray(each, float) for each in values]), nan=np.inf)

    lost = pooled("held_out") < 0.5 * pooled("training")
    result: dict[str, Any] = {"components": len(lost), "lost": int(lost.sum())}
    for name in fits[0]["counts"]:
        rows = np.minimum(pooled("counts", name), 1e9)
        found = best(-rows, lost)
        found["threshold"] *= -1
        result[name] = {"best": found} | {f"below {t}": scored(rows < t, lost) for t in THRESHOLDS}
    return result | {name: {"best": best(pooled("shares", name), lost)} for name in fits[0]["shares"]}


def summed(found: dict[str, Any]) -> dict[str, Any]:
    """A fit without the numbers of each component."""
    totals = {"total": found["training"], "held_out": found["held_out"]}
    return {name: found[name] for name in ("ridge", "rows", "seconds", "cost")} | {
        name: round(sum(values), 3) for name, values in totals.items()
    }


def main() -> None:
    """Measure, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--rows", type=int, nargs="+", default=[200_000, 20_000, 4000])
    parser.add_argument("--stretches", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    fits: dict[str, list[dict[str, Any]]] = {}
    for name in args.only:
        X, Y = (sp.csr_array(m) if sp.issparse(m) else m for m in PROBLEMS[name]())
        fits[name] = []
        for most in args.rows:
            rows = split(X.shape[0], most, args.stretches, args.seed)
            for ridge in RIDGES.get(name, SPARSE_RIDGES):
                found = measured(X, Y, ridge, rows)
                fits[name].append(found)
                training, held_out = sum(found["training"]), sum(found["held_out"])
                few = np.sum(np.array(found["counts"]["kept"]) < FEW)
                print(
                    f"{name}, {found['rows']} rows, ridge {ridge}: total {training:.1f}, on other rows "
                    f"{held_out:.1f}; {few} of {K} components on fewer than {FEW} rows; "
                    f"{found['seconds']:.3f} s, {found['cost']:.1f} x",
                    flush=True,
                )
    flagged = {name: judged(each) for name, each in fits.items()}
    flagged["all"] = judged([found for each in fits.values() for found in each])
    for what, found in flagged["all"].items():
        print(what, found if isinstance(found, int) else found["best"])
    if args.record:
        # The rule was chosen on random rows with seed 0. Other parts of the record are checks of it.
        part = "stretches" if args.stretches else f"random rows, seed {args.seed}"
        record = json.loads(args.record.read_text()) if args.record.exists() else {}
        kept = {"few": FEW, "within": CLOSE}
        short = {name: [summed(found) for found in each] for name, each in fits.items()}
        save(args.record, record | {part: kept | {"flagged": flagged, "fits": short}})
