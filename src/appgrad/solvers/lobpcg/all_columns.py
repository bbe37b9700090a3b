"""A look at the covariances of all columns, where these are few: the best pairs without iterations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...covariance.linalg import leading_svd
from ...covariance.matrices import MatrixCovariance
from ...covariance.rows import RowCovariance
from ...data.views import Views
from ...machine.arrays import Array
from ...machine.memory import budget
from ...machine.threads import limit_for_factor
from ..costs import NOMINAL, matrices_needed, matrices_seconds, thin

# Where correlations crowd together, the last one above this, a look is worth so many seconds or passes.
CROWDED, SOON, PASSES = 0.8, 3.0, 40
# Passes of a run that looks: over all columns, and products of what was found.
LOOK = 2


class Look(NamedTuple):
    """Whether a look is worth it where correlations crowd, and how many iterations of a probe it takes."""

    few: bool = False
    steps: float = np.inf


class AllPairs(NamedTuple):
    """The best pairs of all columns, and operations."""

    A: Array
    B: Array
    flops: float


def all_pairs(cov: RowCovariance | MatrixCovariance, count: int) -> AllPairs:
    """Return the `count` best pairs by the covariances of all columns: one pass over the rows."""
    if isinstance(cov, MatrixCovariance):
        matrices, squares = cov, 0.0
    else:
        matrices, squares = cov.on_matrices(), cov.n * cov.views.entries**2
    widths = matrices.units.widths
    with limit_for_factor(max(widths)):
        wx, wy = matrices.whitened
        count = min(count, wx.W.shape[1], wy.W.shape[1])
        P, _, Q, _ = leading_svd(wx.W.T @ matrices.matrices.Sxy @ wy.W, count)
        return AllPairs(wx.W @ P, wy.W @ Q, squares + 2.0 * sum(widths) ** 3)


def look_for(views: Views, k: int) -> Look:
    """What a look at the covariances of all columns takes, beside passes and a probe."""
    if matrices_needed(views) > budget():
        return Look()
    seconds, part, probe = matrices_seconds(views, NOMINAL), *(thin(views, c, NOMINAL) for c in (k, 1))
    # An iteration of conjugate gradients needs two of three products.
    step = 2 / 3 * probe.one + probe.algebra
    return Look(seconds <= max(SOON, PASSES * (part.one + part.algebra)), seconds / step)
