"""The best pairs of clusters of columns, by the covariances of their own columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..data.views import Block
from ..machine.arrays import Array
from .clusters import Clusters, clusters_of, rows_of
from .heads import UnitColumns, unit_columns
from .rows import RowCovariance

# The most pairs of a cluster, and what is added to variances of 1, since columns may coincide.
PAIRS, JITTER = 4, 1e-8
# Numbers in the covariances of clusters that are solved at a time.
STACK = 2**21


class ClusterPairs(NamedTuple):
    """Pairs of single clusters, the best first: sparse weights of all columns, and correlations.

    `looked` is the share of a view's columns that were rare enough to be looked at.
    """

    A: Any
    B: Any
    rho: Array
    looked: float


class Places(NamedTuple):
    """The cluster of each column, its view, and its place among the columns of both."""

    cluster: Array
    view: Array
    place: Array


class Stack(NamedTuple):
    """Covariances of clusters as 2 m x 2 m matrices, and which columns are in them: `own`, of `cluster`."""

    C: Array
    own: Array
    cluster: Array


def cluster_pairs(cov: RowCovariance, count: int) -> ClusterPairs | None:
    """The best pairs of clusters of rare columns, at most `count`: three passes over the rows, or up to five.

    None if sums of products do not fit into memory.
    """
    c = clusters_of(cov)
    return None if c is None else best_pairs(cov, c, count)


def best_pairs(cov: RowCovariance, c: Clusters, count: int) -> ClusterPairs:
    """The best pairs of these clusters: one pass over the rows."""
    at, d, rows = _places(c), unit_columns(cov, (c.x, c.y)).d, np.concatenate([c.x, c.y])
    found, pairs = [np.zeros(0)], 0
    sides: tuple[list[Any], list[Any]] = ([], [])
    for m, stack in _stacks(cov, c, at):
        rho, *weights = _solved(stack.C, m)
        k = rho.shape[1]
        for view, W in enumerate(weights):
            mine = at.view[stack.own] == view
            i, cluster = stack.own[mine], stack.cluster[mine]
            values = d[i, None] * W[cluster, at.place[i]]
            pair = pairs + k * cluster[:, None] + np.arange(k)
            sides[view].append((values.ravel(), np.repeat(rows[i], k), pair.ravel()))
        found.append(rho.ravel())
        pairs += rho.size
    rho = np.concatenate(found)
    best = np.argsort(-rho, kind="stable")[:count]
    A, B = (_weights(side, p, pairs)[:, best] for side, p in zip(sides, cov.units.widths, strict=True))
    return ClusterPairs(A, B, rho[best], c.looked)


def _places(c: Clusters) -> Places:
    """Where the columns of both views are."""
    places = []
    for of in (c.of_x, c.of_y):
        order, size = np.argsort(of, kind="stable"), np.bincount(of)
        place = np.empty(len(of), int)
        place[order] = np.arange(len(of)) - np.repeat(np.cumsum(size) - size, size)
        places.append(place)
    return Places(c.numbers, np.repeat([0, 1], [len(c.x), len(c.y)]), np.concatenate(places))


def _products_within(cov: RowCovariance, c: Clusters) -> Any:
    """Sums of products of columns of the same cluster: one pass."""
    shifts, columns, number = cov.shifts, (c.x, c.y), c.numbers

    def part(block: Block) -> Any:
        Z = sp.hstack(rows_of(block, shifts, columns), format="coo")
        # A row for each cluster that a row of the data has entries of: no other products are formed.
        _, row = np.unique(Z.row * np.int64(len(number)) + number[Z.col], return_inverse=True)
        Z = sp.csr_array((Z.data, (row, Z.col)), shape=(len(Z.data), Z.shape[1]))
        return sp.csr_array(Z.T) @ Z

    return sp.coo_array(cov.views.reduce(part, lambda G, H: G + H, most=2))


def _stacks(cov: RowCovariance, c: Clusters, at: Places) -> Iterator[tuple[int, Stack]]:
    """Covariances of some clusters at a time, with the places that each of their views has.

    These are powers of two. Those without a column have a variance of 1 and no covariance.
    """
    G, u, sizes = _products_within(cov, c), unit_columns(cov, (c.x, c.y)), c.sizes()
    values = G.data / cov.n * u.scale[G.row] * u.scale[G.col]
    places = 2 ** np.ceil(np.log2(np.maximum(sizes, 1))).astype(int)
    order = np.argsort(places, kind="stable")
    rank = np.empty(len(order), int)
    rank[order] = np.arange(len(order))
    # Columns and products in the order of their clusters: each stack has a range of both.
    columns, entries = (np.argsort(rank[of], kind="stable") for of in (at.cluster, at.cluster[G.row]))
    starts = [
        np.searchsorted(rank[of][by], np.arange(len(order) + 1))
        for of, by in ((at.cluster, columns), (at.cluster[G.row], entries))
    ]
    first = 0
    while first < len(order):
        m = int(places[order[first]])
        last = min(first + max(1, STACK // (4 * m * m)), int(np.searchsorted(places[order], m, side="right")))
        own, e = columns[starts[0][first] : starts[0][last]], entries[starts[1][first] : starts[1][last]]
        i, j = G.row[e], G.col[e]
        S = np.zeros((last - first, 2, m, 2, m))
        S[rank[at.cluster[i]] - first, at.view[i], at.place[i], at.view[j], at.place[j]] = values[e]
        cluster = rank[at.cluster[own]] - first
        yield m, Stack(_covariances(S, u, own, (cluster, at.view[own], at.place[own])), own, cluster)
        first = last


def _covariances(S: Array, u: UnitColumns, own: Array, where: tuple[Array, Array, Array]) -> Array:
    """Covariances in units, ridge included, from sums of products of columns `own` at these places."""
    n, _, m, _, _ = S.shape
    mean, ridge = np.zeros((n, 2, m)), np.ones((n, 2, m))
    mean[where], ridge[where] = u.mean[own], u.ridge[own] + JITTER
    C, means = S.reshape(n, 2 * m, 2 * m), mean.reshape(n, 2 * m)
    C = C - means[:, :, None] * means[:, None, :]
    C[:, np.arange(2 * m), np.arange(2 * m)] += ridge.reshape(n, 2 * m)
    return np.asarray(C)


def _solved(C: Array, m: int) -> tuple[Array, Array, Array]:
    """Correlations and weights of the best pairs, by cluster and place; each view has m places."""
    Lx, Ly = np.linalg.cholesky(C[:, :m, :m]), np.linalg.cholesky(C[:, m:, m:])
    T = np.linalg.solve(Ly, np.linalg.solve(Lx, C[:, :m, m:]).mT).mT
    P, rho, Qt = np.linalg.svd(T, full_matrices=False)
    k = min(PAIRS, m)
    return rho[:, :k], np.linalg.solve(Lx.mT, P[:, :, :k]), np.linalg.solve(Ly.mT, Qt[:, :k].mT)


def _weights(parts: list[Any], p: int, count: int) -> Any:
    """Sparse weights of p columns for `count` pairs, from values, rows and columns."""
    if not parts:
        return sp.csc_array((p, count))
    values, i, j = map(np.concatenate, zip(*parts, strict=True))
    return sp.csc_array((values, (i, j)), shape=(p, count))
