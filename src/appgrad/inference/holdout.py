"""Held-out correlations: a model's correlations on rows it has not seen."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from ..data.derived import CountedViews
from ..data.views import Views
from ..fitting.fit import fit, generator, threads_for
from ..fitting.projection import projections, scores_of
from ..machine.arrays import Array
from ..metrics import correlations
from ..solvers.problem import Problem
from ..solvers.protocol import Options

FOLDS = 5


class HeldOut(NamedTuple):
    """Correlations on rows left out of the fit, one per component, and how they were obtained.

    They are NaN if they cannot be computed. `n` is the number of rows, 0 where it is not known.
    """

    correlations: Array
    method: str
    n: int = 0


def held_out(
    views: Views,
    problem: Problem,
    options: Options,
    *,
    share: float,
    seed: int,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> HeldOut:
    """Refit without a random share of the rows and correlate the scores of those rows.

    With fewer than 10 rows per component left out, five-fold cross-validation instead: each row is
    scored by the fit that has not seen it, and the correlations are those of all rows together.
    """
    splits, method = _splits(views.n_samples, problem.n_components, share, seed)
    # A start from a fit to all rows would have seen the held-out ones.
    options = options._replace(first=None)
    threads = threads_for(views, problem.n_components, n_jobs)
    scores = []
    for train, test in splits:
        rows = CountedViews(views.take(train), threads=threads)
        # Copied, so that each refit draws the same random numbers, also from a generator.
        found = fit(rows, problem, options, generator(copy.deepcopy(random_state)), threads=threads)
        if found.interrupted:
            raise KeyboardInterrupt
        scores.append(scores_of(views.take(test), *projections(found.solution)))
    U, V = (np.vstack(parts) for parts in zip(*scores, strict=True))
    return HeldOut(correlations(U, V), method, len(U))


def _splits(n: int, k: int, share: float, seed: int) -> tuple[list[tuple[Array, Array]], str]:
    """Pairs of rows to fit and rows to score, one or one a fold, and a text that names the method."""
    size = round(share * n)
    if size >= 10 * k:
        order = np.random.default_rng(seed).permutation(n)
        return [(np.sort(order[size:]), np.sort(order[:size]))], f"a second fit without {size} random rows"
    # A model file needs HeldOut, and this import takes as long as all others together.
    from sklearn.model_selection import KFold

    folds = list(KFold(min(FOLDS, n), shuffle=True, random_state=seed).split(np.empty((n, 1))))
    return (
        folds,
        f"{len(folds)}-fold cross-validation: {size} held-out rows are too few for {k} components",
    )
