"""Single columns as the start of pairs, and what the ridge leaves of each."""

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
