"""Pairs of clusters of rare columns that a run has not found.

Where hundreds of correlations crowd below 1, each of a few rare columns, those outside of the head hide from
residuals, guard columns and random directions. Most of a pair is in a cluster of columns that occur together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...covariance.cluster_pairs import ClusterPairs, cluster_pairs
from ...covariance.clusters import ENTRIES, PRODUCTS
from ...covariance.rows import RowCovariance
from ...machine.arrays import Array
from .algebra import Vectors

# The least share of its variance that a pair of a cluster must have for itself: pairs found explain the rest.
OWN = 0.1
# Pairs of clusters count up to this factor of the distance of the last pair found to 1: other columns add to
# them. With 1.5, no simulated crowd of 2,250 columns or more was missed.
NEAR = 1.5
# Pairs of clusters that are kept, those that join the span at a look, and how many at a time.
CANDIDATES, JOINED, AT_ONCE = 2000, 100, 25
# Looks, while they find something; and the last correlation above which a run looks. Crowds below it were not
# simulated.
LOOKS, CROWDED = 5, 0.5
# The most passes of a look: for counts of entries, clusters, their covariances, and products of what joins.
PASSES = 1 + len(ENTRIES) + 1 + JOINED // AT_ONCE


class RarePairs(NamedTuple):
    """Columns of weights for both views, which of the candidates they are, and whether there are others.

    `looked` is the share of the columns that were looked at, 0 if no pair of theirs comes near the last one;
    `flops` are the most that products of rows took.
    """

    A: Array
    B: Array
    chosen: Array
    more: bool
    looked: float
    flops: float = 0.0


class RareColumns:
    """Pairs of clusters of rare columns, found when they are first asked for."""

    def __init__(self, cov: RowCovariance) -> None:
        self._cov = cov
        self._found: ClusterPairs | None = None
        self._looked = False

    def pairs(self, known: Vectors, least: float, offered: Array, most: int = JOINED) -> RarePairs | None:
        """The best pairs near the last correlation found, `least`, that known ones do not explain.

        At most so many, and none that were `offered` before. None if sums of products do not fit into memory.
        """
        flops = 0.0
        if not self._looked:
            self._found, self._looked = cluster_pairs(self._cov, CANDIDATES), True
            # Once for the links, once within clusters.
            flops = 2 * 2.0 * PRODUCTS * self._cov.n * self._cov.views.entries
        if self._found is None:
            return None
        A, B, rho, looked = self._found
        own = np.where(rho >= 1 - NEAR * (1 - least), 1.0, 0.0)
        # Where none comes near, other pairs than those of clusters are the best.
        looked = looked if np.any(own) else 0.0
        own[offered] = 0.0
        near = np.flatnonzero(own)
        for Z, SC in ((A, known.products[0]), (B, known.products[3])):
            shared = Z[:, near].T @ SC
            own[near] = np.minimum(own[near], 1 - np.sum(shared * shared, axis=1))
        found = np.flatnonzero(own > OWN)
        chosen = found[:most]
        A, B = A[:, chosen].toarray(), B[:, chosen].toarray()
        return RarePairs(A, B, chosen, len(found) > most, looked, flops)
