"""Pairs of clusters of rare columns that a run has not found.

Where hundreds of correlations crowd below 1, each of a few rare columns, those outside of the head hide from
residuals, guard columns and random directions. Most of a pair is in a cluster of columns that occur together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...covariance.cluster_pairs import cluster_pairs
from ...covariance.clusters import ENTRIES
from ...covariance.rows import RowCovariance
from ...machine.arrays import Array
from .algebra import Vectors

# The least share of its variance that a pair of a cluster must have for itself: pairs found explain the rest.
OWN = 0.1
# Pairs of clusters count up to this factor of the distance of the last pair found to 1: other columns add to
# them.
NEAR = 1.5
# The most pairs of clusters, before those that are explained are left out; those that join the span, and how
# many at a time.
CANDIDATES, JOINED, AT_ONCE = 400, 100, 25
# Looks, while they find something; and the last correlation above which a run looks.
LOOKS, CROWDED = 5, 0.5
# The most passes of a look: for clusters, their sums, and products of what joins.
CLUSTER_PASSES = len(ENTRIES) + 1 + JOINED // AT_ONCE


class RarePairs(NamedTuple):
    """Columns of weights for both views, and True if there are as good ones beside these."""

    A: Array
    B: Array
    more: bool


def rare_pairs(cov: RowCovariance, known: Vectors, least: float) -> RarePairs | None:
    """The best pairs of clusters that known ones do not explain, near the last correlation found, `least`.

    None if products are too many for a look.
    """
    pairs = cluster_pairs(cov, CANDIDATES, 1 - NEAR * (1 - least))
    if pairs is None:
        return None
    own = np.ones(len(pairs.rho))
    for Z, SC in ((pairs.A, known.products[0]), (pairs.B, known.products[3])):
        shared = Z.T @ SC
        own = np.minimum(own, 1 - np.sum(shared * shared, axis=1))
    found = np.flatnonzero(own > OWN)
    A, B = (Z[:, found[:JOINED]].toarray() for Z in (pairs.A, pairs.B))
    return RarePairs(A, B, len(found) > JOINED or len(own) == CANDIDATES)
