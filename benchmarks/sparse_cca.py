"""Sparse CCA: planted columns found, against a penalised matrix decomposition; starts; a path on texts.

APPGRAD_DATA=folder python -m benchmarks sparse_cca [--only NAME] [--record FILE]
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import scipy.sparse as sp

from appgrad import CCA, SparseCCA, SparseCCACV, correlations, sparse_path
from appgrad.data.arrays import ArrayViews
from appgrad.datasets import Planted, sparse_planted
from appgrad.solvers.problem import Problem
from appgrad.solvers.sparse.batch import sparse_covariance
from appgrad.solvers.sparse.columns_in_play import Columns
from appgrad.solvers.sparse.pursuit import Pursuit
from appgrad.solvers.sparse.starts import first_pairs

from .data_sets import folder
from .measure import save

# Bounds tried for the sum of absolute weights in cca_zoo's decomposition, as shares of the largest.
BOUNDS = (0.05, 0.08, 0.1, 0.14, 0.2, 0.3)


def pmd(X, Y, bound):
    """Weights of cca_zoo's penalised matrix decomposition."""
    from cca_zoo.sparse import PMDCCA

    return PMDCCA(1, l1_bound=bound, random_state=0).fit([X, Y]).weights_


def quality(weights, p, a=0.6):
    """F1 of the columns, and the loss against the truth: sine of the angle, and 1 - correlation of scores.

    Means over both sides.
    """
    found = []
    for w, truth in zip(weights, (p.x_weights, p.y_weights), strict=True):
        w, t = np.ravel(w), truth.ravel()
        S = a ** np.abs(np.subtract.outer(np.arange(len(t)), np.arange(len(t))))
        used, true = set(np.flatnonzero(np.abs(w) > 1e-10)), set(np.flatnonzero(t))
        cosine = abs(w @ t) / np.sqrt((w @ w) * (t @ t))
        rho = abs(w @ S @ t) / np.sqrt((w @ S @ w) * (t @ S @ t))
        found.append(
            (2 * len(used & true) / (len(used) + len(true)), np.sqrt(max(0, 1 - cosine**2)), 1 - rho)
        )
    f1, sine, lost = np.mean(found, axis=0)
    return {"f1": f1, "sine": sine, "lost": lost}


def models():
    """The models that are compared, by name."""
    return {
        "SparseCCA(n_nonzero=10)": SparseCCA(1, n_nonzero=10),
        "SparseCCA(n_nonzero=10, penalty='l1')": SparseCCA(1, n_nonzero=10, penalty="l1"),
        "SparseCCA(n_nonzero=10, solver='appgrad')": SparseCCA(1, n_nonzero=10, solver="appgrad"),
        "SparseCCA(alpha=0.15)": SparseCCA(1, alpha=0.15),
        "SparseCCACV()": SparseCCACV(),
    }


def planted(rho, seeds):
    """Means over seeds for every model, and for two ways to choose the bound of cca_zoo's."""
    rows = {}
    for seed in seeds:
        p = sparse_planted(500, 1000, 1000, correlations=[rho], random_state=seed)
        for name, model in models().items():
            start = time.perf_counter()
            model.fit(p.X, p.y)
            seconds = time.perf_counter() - start
            found = quality((model.x_weights_, model.y_weights_), p) | {"seconds": seconds}
            rows.setdefault(name, []).append(found)
        start = time.perf_counter()
        X, Y = ((m - m.mean(axis=0)) / m.std(axis=0) for m in (p.X, p.y))
        scores, losses = [], []
        for bound in BOUNDS:
            w = pmd(X[:375], Y[:375], bound)
            scores.append(abs(correlations(X[375:] @ w[0], Y[375:] @ w[1])[0]))
            losses.append(quality(pmd(X, Y, bound), p))
        seconds = (time.perf_counter() - start) / 2
        rows.setdefault("cca_zoo PMD, bound by held-out rows", []).append(
            losses[int(np.argmax(scores))] | {"seconds": seconds}
        )
        best = min(losses, key=lambda loss: loss["lost"])
        rows.setdefault("cca_zoo PMD, best bound by the truth", []).append(best | {"seconds": seconds})
        print(rho, seed, {name: round(found[-1]["f1"], 3) for name, found in rows.items()}, flush=True)
    return {
        name: {
            "f1_min": min(row["f1"] for row in found),
            **{key: float(np.mean([row[key] for row in found])) for key in found[0]},
        }
        for name, found in rows.items()
    }


def arranged(kind, seed, rho=0.9, n=500, p=1000, active=10, a=0.6):
    """The planted problem with other weights: of equal size, of equal sign too, or of neighbours."""
    rng = np.random.default_rng(seed)
    S = a ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    weights, views = [], []
    for _ in range(2):
        places = np.arange(active) + rng.integers(p - active) if kind == "neighbours" else rng.permutation(p)
        w = np.zeros((p, 1))
        w[places[:active], 0] = 1.0 if kind == "equal" else rng.choice([-1.0, 1.0], active)
        weights.append(w / np.sqrt(w.T @ S @ w))
        X = rng.standard_normal((n, p))
        for j in range(1, p):
            X[:, j] = a * X[:, j - 1] + np.sqrt(1 - a * a) * X[:, j]
        views.append(X)
    (X, Y), (w, v) = views, weights
    scores = rho * (X @ w) + np.sqrt(1 - rho**2) * rng.standard_normal((n, 1))
    return Planted(X, Y + (scores - Y @ v) @ (S @ v).T, np.array([rho]), w, v)


def starts(kinds=("random", "signs", "equal"), seeds=range(100, 106), largest=5000):
    """Share of starts whose scores are correlated with the truth by more than a half, by kind of weights."""
    found = {}
    for kind in kinds:
        for seed in seeds:
            p = sparse_planted(random_state=seed) if kind == "random" else arranged(kind, seed)
            field = Columns(sparse_covariance(ArrayViews(p.X, p.y), Problem(1)))
            R = np.corrcoef(p.X.T, p.y.T)[:1000, 1000:]
            few = np.where(np.abs(R) >= np.sort(np.abs(R), axis=None)[-largest], R, 0.0)
            pairs = {"SVD of Sxy": singular(R), "SVD of its largest entries": singular(few)}
            pairs["first_pairs"] = first_pairs(field, 1, (10, 10))
            for name, pair in pairs.items():
                near = quality(pair, p)["lost"] < 0.5
                found.setdefault(name, {}).setdefault(kind, []).append(near)
    return {
        name: {kind: float(np.mean(near)) for kind, near in of_kind.items()}
        for name, of_kind in found.items()
    }


def singular(R):
    """Leading singular vectors."""
    u, _, vt = sp.linalg.svds(sp.csr_array(R), k=1, v0=np.ones(len(R)))
    return u, vt.T


class Direct(Pursuit):
    """The solver with the number of columns asked for from the start, instead of falling numbers."""

    def _ahead(self, cov):
        return ()


def placements(kinds=("random", "signs", "neighbours"), correlations=(0.9, 0.8), seeds=range(100, 105)):
    """Mean F1 of the columns by kind of weights and correlation, for both penalties.

    Numbers of columns are given or, for the first correlation, chosen by held-out rows.
    """
    found = {}
    for kind in kinds:
        for rho, seed in product(correlations, seeds):
            random = kind == "random"
            p = sparse_planted(correlations=[rho], random_state=seed) if random else arranged(kind, seed, rho)
            models = {"l0, ten": SparseCCA(1, n_nonzero=10)}
            models["l1, ten"] = SparseCCA(1, n_nonzero=10, penalty="l1")
            if rho == correlations[0]:
                models["l0, chosen"] = SparseCCACV()
            with mock.patch("appgrad.solvers.sparse.batch.Pursuit", Direct):
                fitted = {"l0, ten, directly": SparseCCA(1, n_nonzero=10).fit(p.X, p.y)}
            fitted |= {name: model.fit(p.X, p.y) for name, model in models.items()}
            for name, model in fitted.items():
                f1 = quality((model.x_weights_, model.y_weights_), p)["f1"]
                found.setdefault(name, {}).setdefault(f"{kind}, {rho}", []).append(f1)
        print(
            kind,
            {name: {key: np.mean(f1) for key, f1 in of.items()} for name, of in found.items()},
            flush=True,
        )
    return {name: {key: float(np.mean(f1)) for key, f1 in of.items()} for name, of in found.items()}


def texts(ridge=1e-3):
    """Seconds of a path of twenty penalties, and of one fit by LOBPCG, on bilingual texts."""
    where = folder() / "bilingual_en_it"
    X, Y = (sp.load_npz(where / f"X_{language}.npz") for language in ("en", "it"))
    found = {"ridge": ridge, "rows": X.shape[0], "columns": [X.shape[1], Y.shape[1]]}
    start = time.perf_counter()
    CCA(1, solver="lobpcg", ridge=ridge, random_state=0).fit(X, Y)
    found["lobpcg_seconds"] = time.perf_counter() - start
    for penalty in ("l0", "l1"):
        start = time.perf_counter()
        path = sparse_path(X, Y, 1, penalty=penalty, ridge=ridge, random_state=0)
        seconds = time.perf_counter() - start
        found[penalty] = {
            "seconds": seconds,
            "ratio": seconds / found["lobpcg_seconds"],
            "points": len(path),
            "columns": [list(model.n_nonzero_) for model in path],
            "passes": sum(model.n_passes_ for model in path),
        }
        print(json.dumps({penalty: found[penalty]}), flush=True)
    return found


def main() -> None:
    """Run all or one of them, and print or record what they found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--record", type=Path)
    parser.add_argument("--only", choices=["planted", "starts", "placements", "texts"])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    record = {}
    if args.record and args.record.exists():
        record |= json.loads(args.record.read_text())
    parts = {
        "planted": lambda: {str(rho): planted(rho, range(5)) for rho in (0.9, 0.8)},
        "starts": starts,
        "placements": placements,
        "texts": texts,
    }
    for name in parts if args.only is None else [args.only]:
        record[name] = parts[name]()
        print(json.dumps({name: record[name]}, indent=1), flush=True)
        if args.record:
            save(args.record, record)
