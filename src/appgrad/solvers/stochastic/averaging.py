"""Averages of a trial's iterates (Polyak & Juditsky 1992), which take the place of the last one."""

from __future__ import annotations

import numpy as np

from ...machine.arrays import Array
from ..problem import Diagnostics
from ..sparse.thresholds import Sparsity, largest_rows
from .minibatches import Minibatch
from .trial import Trial, towards


def remembered(trial: Trial, sparse: bool, batch: Minibatch | None = None) -> Trial:
    """Return the trial with its newest iterate in the averages.

    With a minibatch, the Gram matrices of the averages are updated as well. In the first pass they come from
    rows that neither the average nor the iterate has seen. Later ones count more, because the average
    settles.
    """
    weight, new = trial.weight + 1, (trial.phi_t, trial.psi_t)
    if sparse:
        # Also the share of the iterates that have each row.
        new = (*new, *(1.0 * np.any(A != 0, axis=1) for A in new))
    means = new if weight == 1 else towards(trial.means, new, 1 / weight)
    trial = trial._replace(weight=weight, means=means)
    return trial if batch is None else _measured(trial, batch)


def _measured(trial: Trial, batch: Minibatch) -> Trial:
    """Return the trial with Gram matrices of its averages updated by the rows of one more normaliser."""
    # Normalisers with more rows than a step overlap: only those of a step are new.
    found, rows = batch.normaliser.grams(*trial.means[:2]), float(min(batch.cov.n, batch.normaliser.n))
    if trial.mean_grams is None:
        return trial._replace(mean_grams=found, mean_rows=rows)
    share = 2 / (trial.weight + 1)
    grams = towards(trial.mean_grams, found, share)
    # The effective number, from the variance of such a mean; rows that are read again are not new ones.
    rows = min(1 / ((1 - share) ** 2 / trial.mean_rows + share**2 / rows), float(batch.moments.n))
    return trial._replace(mean_grams=grams, mean_rows=rows)


def forgotten(trial: Trial) -> Trial:
    """Return the trial with averages that start anew."""
    return trial._replace(weight=0, means=(), mean_grams=None, mean_rows=0.0)


def averaged(diagnostics: Diagnostics, trial: Trial, sparsity: Sparsity | None) -> Diagnostics:
    """Return diagnostics with the averages as bases; sparse ones have the rows that most iterates had."""
    A, B = trial.means[:2]
    if sparsity is None:
        return diagnostics._replace(A=A, B=B, grams=trial.mean_grams, rows=trial.mean_rows)
    count_x, count_y = sparsity.n_nonzero or (len(A), len(B))
    A, B = _of_most(A, trial.means[2], count_x), _of_most(B, trial.means[3], count_y)
    return diagnostics._replace(A=A, B=B)


def _of_most(A: Array, share: Array, count: int) -> Array:
    """Keep at most `count` rows that at least half of the iterates had, or else those that most had."""
    kept = largest_rows(share, count) & (share >= min(0.5, share.max()))
    return np.where(kept[:, None], A, 0.0)
