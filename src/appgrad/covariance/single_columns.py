"""Single columns as the start of pairs: what the ridge leaves of each, and a random choice."""

from __future__ import annotations

import numpy as np

from ..machine.arrays import Array
from .operators import Covariance


def columns_alone(columns: Array, variances: Array) -> Array:
    """One column of weights for each of these columns, in units of its standard deviation."""
    A = np.zeros((len(variances), len(columns)))
    A[columns, np.arange(len(columns))] = 1 / np.sqrt(variances[columns])
    return A


def shares_left(cov: Covariance) -> tuple[Array, Array]:
    """The shares of the columns' variances that the ridge leaves, 0 for columns that do not vary."""
    found = []
    for m, total, u in zip(cov.moments.views, cov.diagonal(), cov.units.views, strict=True):
        # With a ridge, constant columns have that.
        varies = (m.var > 0) & (total > 0)
        found.append(np.where(varies, 1 - u.ridge / np.where(varies, total, 1.0), 0.0))
    return found[0], found[1]


def random_columns(
    cov: Covariance, known: tuple[Array, Array], count: int, least: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Random columns of each view, `count` or all that vary; those `known` only where others are too few.

    Those of which the ridge leaves a correlation above `least` are preferred, then those of which it leaves
    most.
    """
    found = []
    for left, columns in zip(shares_left(cov), known, strict=True):
        rank = np.minimum(left, least**2)
        rank[columns] -= 1
        order = np.lexsort((rng.random(len(left)), -rank))
        found.append(order[left[order] > 0][:count])
    return found[0], found[1]
