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

# Where correlations crowd together, the last one above this, a look may take so many seconds or passes: a run
# that crowds slow down takes more.
CROWDED, SOON, MOST = 0.8, 3.0, 60
# Passes of a look: the covariances, and products of what was found.
PASSES = 2


class AllPairs(NamedTuple):
    """The best pairs of all columns, and operations."""

    A: Array
    B: Array
    flops: float


class AllColumns(NamedTuple):
    """When a run looks at all columns: if correlations crowd, or instead of a probe of more than `steps`."""

    cov: RowCovariance | MatrixCovariance
    in_crowds: bool = True
    steps: float = np.inf

    def pairs(self, count: int) -> AllPairs:
        """Return the `count` best pairs: one pass over the rows, none if there are matrices."""
        small = self.cov.on_matrices()
        p1, p2 = small.units.widths
        with limit_for_factor(max(p1, p2)):
            wx, wy = small.whitened
            P, _, Q, _ = leading_svd(wx.W.T @ small.matrices.Sxy @ wy.W, min(count, *wx.W.shape, *wy.W.shape))
            return AllPairs(wx.W @ P, wy.W @ Q, 2.0 * (p1 + p2) ** 2 * (p1 + p2 + self.cov.n))


def all_columns_for(
    cov: RowCovariance | MatrixCovariance, views: Views, k: int, seconds: float
) -> AllColumns | None:
    """When a run for k pairs looks at all columns, None for never.

    The matrices must fit into the memory budget, and the look into half of the seconds left.
    """
    took = matrices_seconds(views, NOMINAL)
    if matrices_needed(views) > budget() or took > seconds / 2:
        return None
    part, probe = (thin(views, c, NOMINAL) for c in (k, 1))
    # An iteration of conjugate gradients takes two of the three products of a pass.
    steps = took / (2 / 3 * probe.one + probe.algebra)
    return AllColumns(cov, took <= max(SOON, MOST * (part.one + part.algebra)), steps)
