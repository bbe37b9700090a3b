"""Translations found in the shared space: English and Italian descriptions of the same software."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from ..data.arrays import ArrayViews
from ..datasets.loaders import Folder, Paired, sparse_views
from ..estimators.cca import CCA
from ..machine.arrays import Array
from .curves import add_sizes
from .heuristics import heuristic_solution
from .records import Record, Writer

TRAIN, CANDIDATES = 100_000, 5_000
# The first ridge is the one with which CCA finds most: a quick run has it alone.
RIDGES = (1e-5, 1e-4, 1e-3, 1e-2)


def run(folder: Folder, writer: Writer, quick: bool) -> Iterator[str]:
    """Write all records; yields a text before each part."""
    data = load(folder)
    add_sizes(writer, "bilingual_en_it", data)
    for k in (50,) if quick else (50, 100, 200):
        for ridge in RIDGES[:1] if quick else RIDGES:
            for name, m in methods(quick):
                facts = {"method": name, "k": k, "ridge": ridge}
                facts |= {} if name == "CCA" else {"m": m}
                if len(writer.found(kind="retrieval", **facts)) < 2:
                    yield f"{name}, k = {k}, ridge {ridge:g}"
                    solved = _cca if name == "CCA" else partial(_heuristic, name=name, m=m)
                    _add(writer, partial(solved, data, k=k, ridge=ridge), **facts)


def methods(quick: bool) -> list[tuple[str, int | None]]:
    """CCA and the paper's heuristics, each with its number of principal components."""
    return [("CCA", None), ("NW-CCA", None), ("DW-CCA", None), ("PCA-CCA", 300 if quick else 600)]


def load(folder: Folder) -> Paired:
    """The first 100,000 rows to fit, and 5,000 later ones, all different, none with a text of the fit.

    Descriptions of packages of one source resemble each other and lie side by side: rows are split by
    position, not at random.
    """
    X, y = sparse_views("bilingual_en_it", folder)
    if X.shape[0] <= TRAIN:
        raise ValueError(f"bilingual_en_it has {X.shape[0]} rows: expected more than the {TRAIN} of the fit")
    rest = np.flatnonzero(_is_first(X) & _is_first(y))
    rest = rest[rest >= TRAIN]
    rows = np.sort(np.random.default_rng(0).permutation(rest)[:CANDIDATES])
    return Paired(X[:TRAIN], y[:TRAIN], X[rows], y[rows])


def _is_first(view: sp.csr_array) -> Array:
    """True for each row with words that no row above it has."""
    words = [view.indices[a:b].tobytes() for a, b in pairwise(view.indptr)]
    first = np.zeros(view.shape[0], dtype=bool)
    first[np.unique(np.asarray(words, dtype=object), return_index=True)[1]] = True
    return first


class Scores(NamedTuple):
    """Scores of the candidates in both languages, and the correlations that the fit reports."""

    U: Array
    V: Array
    correlations: Array


def _cca(data: Paired, k: int, ridge: float) -> Scores:
    model = CCA(k, ridge=ridge, solver="lobpcg", tol=1e-6, max_iter=60, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X, data.y)
    U, V = model.transform(data.X_test, data.y_test)
    return Scores(U, V, model.canonical_correlations_)


def _heuristic(data: Paired, name: str, m: int | None, k: int, ridge: float) -> Scores:
    found = heuristic_solution(ArrayViews(data.X, data.y), name, m, k, ridge)
    U = data.X_test @ found.x_weights - found.mean_x @ found.x_weights
    V = data.y_test @ found.y_weights - found.mean_y @ found.y_weights
    return Scores(U, V, found.correlations)


def _add(writer: Writer, solved: Callable[[], Scores], **facts: Any) -> None:
    """Write how often the translation of a row is the nearest, or among the ten nearest."""
    start = time.perf_counter()
    U, V, rho = solved()
    seconds = time.perf_counter() - start
    for weighted in (False, True):
        here = {"kind": "retrieval", **facts, "weighted": weighted}
        if writer.found(**here):
            continue
        ranks = translation_ranks(U * rho, V * rho) if weighted else translation_ranks(U, V)
        top = {"top1": float(np.mean(ranks < 1)), "top10": float(np.mean(ranks < 10))}
        writer.add(**here, seconds=seconds, **top)


def translation_ranks(U: Array, V: Array) -> Array:
    """Number of other candidates at least as near to a row as its translation, by the cosine of scores."""
    U, V = (Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-300) for Z in (U, V))
    S = U @ V.T
    # Negated, so that NaN counts as not found.
    return np.asarray((~(np.diag(S)[:, None] > S)).sum(axis=1) - 1)


def weighted_retrievals(records: Iterable[Record]) -> list[Record]:
    """Records of retrieval by scores times their correlations, sorted by method, ridge and k."""
    found = [record for record in records if record["kind"] == "retrieval" and record["weighted"]]
    return sorted(found, key=lambda record: (record["method"], record["ridge"], record["k"]))


def method_name(record: Record) -> str:
    """Name of a method of retrieval in figures and tables."""
    return f"{record['method']}, m = {record['m']}" if record.get("m") else str(record["method"])
