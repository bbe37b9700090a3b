"""Results of the paper's heuristics, and their cost."""

from __future__ import annotations

import time

import numpy as np

from ..data.arrays import ArrayViews
from ..data.derived import CountedViews
from ..data.views import Views
from ..solvers.problem import Problem, Solution
from .baselines import dw_cca, heuristic_flops, nw_cca, pca_cca
from .curves import Judge
from .records import Writer


def heuristic_solution(views: Views, name: str, m: int | None, k: int, ridge: float) -> Solution:
    """The solution of a heuristic."""
    problem, rng = Problem(k, ridge=ridge), np.random.default_rng(0)
    if m is not None:
        return pca_cca(views, problem, m, rng)
    return (nw_cca if name == "NW-CCA" else dw_cca)(views, problem, rng)


def add_heuristic(writer: Writer, judge: Judge, name: str, m: int | None, ridge: float) -> None:
    """Write a record of the correlation that a heuristic captures, and of its cost."""
    views = CountedViews(ArrayViews(judge.data.X, judge.data.y))
    start = time.perf_counter()
    found = heuristic_solution(views, name, m, judge.k, ridge)
    seconds = time.perf_counter() - start
    # Passes without products do not count: one for means, one for the CCA of components in PCA-CCA.
    rounds = round(views.rows / views.n_samples) - (1 if m is None else 2)
    inside, outside = judge.tcc(found.x_weights, found.y_weights)
    writer.add(
        kind="heuristic",
        set=judge.name,
        method=name,
        rounds=rounds,
        flops=heuristic_flops(views, judge.k, rounds, m),
        seconds=seconds,
        tcc_in=inside,
        tcc_out=outside,
    )
