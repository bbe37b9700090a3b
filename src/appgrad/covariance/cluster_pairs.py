"""The best pairs of clusters of columns, by the covariances of their own columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..data.views import Block
from ..machine.arrays import Array
from .clusters import Clusters, clusters_of, rows_of
from .heads import unit_columns
from .rows import RowCovariance

# The most pairs of a cluster, and what is added to variances of 1, since columns may coincide.
PAIRS, JITTER = 4, 1e-8
# Numbers in the covariances of clusters that are solved at a time.
AT_ONCE = 2**21


class ClusterPairs(NamedTuple):
    """Pairs of single clusters, the best first: sparse weights of all columns, and correlations."""

    A: Any
    B: Any
    rho: Array


class Entries(NamedTuple):
    """Columns of clusters, one after the other: their cluster, view, and place in its covariances."""

    cluster: Array
    view: Array
    place: Array


class Pairs(NamedTuple):
    """Correlations of the best pairs of some clusters, and weights by view, cluster, place and pair."""

    rho: Array
    weights: tuple[Array, Array]


def cluster_pairs(cov: RowCovariance, count: int, least: float) -> ClusterPairs | None:
    """The best pairs of clusters of rare columns, at most `count` with correlations above `least`.

    Two to four passes over the rows. None if there are too many products to find clusters.
    """
    c = clusters_of(cov)
    return None if c is None else best_pairs(cov, c, count, least)


def best_pairs(cov: RowCovariance, c: Clusters, count: int, least: float) -> ClusterPairs:
    """The best pairs of these clusters: one pass over the rows."""
    G, u, at = _products_within(cov, c), unit_columns(cov, (c.x, c.y)), _entries(c)
    values = G.data / cov.n * u.scale[G.row] * u.scale[G.col]
    rows, found, pairs = np.concatenate([c.x, c.y]), [np.zeros(0)], 0
    sides: tuple[list[Any], list[Any]] = ([], [])
    for m, clusters in _stacks(c):
        index = np.full(len(c.sizes), -1)
        index[clusters] = np.arange(len(clusters))
        own, e = np.flatnonzero(index[at.cluster] >= 0), np.flatnonzero(index[at.cluster[G.row]] >= 0)
        S = np.zeros((len(clusters), 2, m, 2, m))
        i, j = G.row[e], G.col[e]
        S[index[at.cluster[i]], at.view[i], at.place[i], at.view[j], at.place[j]] = values[e]
        mean, ridge = np.zeros((len(clusters), 2, m)), np.ones((len(clusters), 2, m))
        where = index[at.cluster[own]], at.view[own], at.place[own]
        mean[where], ridge[where] = u.mean[own], u.ridge[own] + JITTER
        best = solved(S, mean, ridge)
        k = best.rho.shape[1]
        for view, W in enumerate(best.weights):
            i = own[at.view[own] == view]
            cluster = index[at.cluster[i]]
            weights = u.d[i, None] * W[cluster, at.place[i]]
            pair = pairs + k * cluster[:, None] + np.arange(k)
            sides[view].append((weights.ravel(), np.repeat(rows[i], k), pair.ravel()))
        found.append(best.rho.ravel())
        pairs += best.rho.size
    rho = np.concatenate(found)
    chosen = np.argsort(-rho, kind="stable")[:count]
    chosen = chosen[rho[chosen] > least]
    A, B = (_weights(side, p, pairs)[:, chosen] for side, p in zip(sides, cov.units.widths, strict=True))
    return ClusterPairs(A, B, rho[chosen])


def _products_within(cov: RowCovariance, c: Clusters) -> Any:
    """Sums of products of columns of the same cluster: one pass."""
    shifts, columns, number = cov.shifts, (c.x, c.y), c.numbers

    def part(block: Block) -> Any:
        Z = sp.hstack(rows_of(block, shifts, columns), format="csr")
        G = sp.coo_array(sp.csr_array(Z.T) @ Z)
        same = number[G.row] == number[G.col]
        return sp.csr_array((G.data[same], (G.row[same], G.col[same])), shape=G.shape)

    return sp.coo_array(cov.views.reduce(part, lambda G, H: G + H, most=2))


def _entries(c: Clusters) -> Entries:
    """Where the columns of both views are in covariances of their clusters."""
    places = []
    for of in (c.of_x, c.of_y):
        order, size = np.argsort(of, kind="stable"), np.bincount(of, minlength=len(c.sizes))
        place = np.empty(len(of), int)
        place[order] = np.arange(len(of)) - np.repeat(np.cumsum(size) - size, size)
        places.append(place)
    return Entries(c.numbers, np.repeat([0, 1], [len(c.x), len(c.y)]), np.concatenate(places))


def _stacks(c: Clusters) -> Iterator[tuple[int, Array]]:
    """Clusters that are solved together, and the places that each of their views has: a power of two."""
    places = 2 ** np.ceil(np.log2(c.sizes)).astype(int)
    for m in np.unique(places):
        clusters = np.flatnonzero(places == m)
        yield from (
            (int(m), part) for part in np.array_split(clusters, -(-len(clusters) * 4 * m * m // AT_ONCE))
        )


def solved(S: Array, mean: Array, ridge: Array) -> Pairs:
    """The best pairs of clusters with sums of products S, by cluster, view, place, view and place.

    They are divided by n, in units in which variances with the ridge are 1. A place without a column has a
    `ridge` of 1 and nothing else.
    """
    n, _, m, _, _ = S.shape
    C, means = S.reshape(n, 2 * m, 2 * m), mean.reshape(n, 2 * m)
    C = C - means[:, :, None] * means[:, None, :]
    C[:, np.arange(2 * m), np.arange(2 * m)] += ridge.reshape(n, 2 * m)
    Lx, Ly = np.linalg.cholesky(C[:, :m, :m]), np.linalg.cholesky(C[:, m:, m:])
    T = np.linalg.solve(Ly, np.linalg.solve(Lx, C[:, :m, m:]).mT).mT
    P, rho, Qt = np.linalg.svd(T, full_matrices=False)
    k = min(PAIRS, m)
    A, B = np.linalg.solve(Lx.mT, P[:, :, :k]), np.linalg.solve(Ly.mT, Qt[:, :k].mT)
    return Pairs(rho[:, :k], (A, B))


def _weights(parts: list[Any], p: int, count: int) -> Any:
    """Sparse weights of p columns for `count` pairs, from values, rows and columns."""
    if not parts:
        return sp.csc_array((p, count))
    values, i, j = map(np.concatenate, zip(*parts, strict=True))
    return sp.csc_array((values, (i, j)), shape=(p, count))
