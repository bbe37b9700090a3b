"""Clusters of rare columns, joined by their correlations with the other view."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from ..data.blocks import ENTRY_BYTES
from ..data.views import Block
from ..machine.arrays import Array
from ..machine.memory import budget
from .heads import unit_columns
from .moments import shifted, stored_entries
from .rows import RowCovariance

# Entries of a row, on average, in the columns looked at: fewer if sums of products do not fit into memory.
ENTRIES = (8.0, 2.0, 0.5)
# Products of a block for each of its entries: the longest rows are left out if there are more. A pass has 25.
PRODUCTS = 4
# Squared correlations that join columns. A cluster of more columns than LARGEST, both views together, loses
# its links level by level until it falls apart. Coarser levels missed more (docs/decisions/0014).
LINKS, LARGEST = tuple(0.02 * 1.2**i for i in range(22)), 64


class Clusters(NamedTuple):
    """Columns of both views, and the number of the cluster that each is in.

    `looked` is the share of a view's columns that are rare enough to be looked at, of the view where it is
    lower.
    """

    x: Array
    y: Array
    of_x: Array
    of_y: Array
    looked: float = 0.0

    @property
    def numbers(self) -> Array:
        """The clusters of the columns of both views, one after the other."""
        return np.concatenate([self.of_x, self.of_y])

    def sizes(self) -> Array:
        """The columns that each cluster has in the view of which it has more."""
        count = int(self.numbers.max(initial=-1)) + 1
        return np.maximum(*(np.bincount(of, minlength=count) for of in (self.of_x, self.of_y)))


def clusters_of(cov: RowCovariance) -> Clusters | None:
    """Clusters of rare columns: two passes over the rows, or up to four where sums do not fit at once.

    None if they never do. Columns that many rows have are left out.
    """
    counts = _stored(cov)
    for entries in ENTRIES:
        rare = rare_columns(counts, cov.n, entries)
        found = _clusters(cov, *rare)
        if found is not None:
            shares = (len(i) / max(int(np.sum(c > 0)), 1) for i, c in zip(rare, counts, strict=True))
            return found._replace(looked=min(shares))
    return None


def _stored(cov: RowCovariance) -> list[Array]:
    """The number of stored entries of every column, 0 for those that do not vary: one pass."""

    def part(block: Block) -> tuple[Array, ...]:
        return tuple(
            stored_entries(z) if sp.issparse(z) else np.full(z.shape[1], len(z)) for z in block.views
        )

    counts = cov.views.sum(part, np.float64)
    return [np.where(m.var > 0, c, 0) for c, m in zip(counts, cov.moments.views, strict=True)]


def rare_columns(counts: list[Array], n: int, entries: float) -> tuple[Array, Array]:
    """The columns with the fewest of these counts, so many that n rows have about `entries` each in them."""
    present = [np.flatnonzero(c) for c in counts]
    count = np.concatenate([c[i] for c, i in zip(counts, present, strict=True)])
    order = np.argsort(count, kind="stable")
    rare = np.zeros(len(count), bool)
    rare[order[np.cumsum(count[order]) <= entries * n]] = True
    x, y = np.split(rare, [len(present[0])])
    return present[0][x], present[1][y]


def _clusters(cov: RowCovariance, x: Array, y: Array) -> Clusters | None:
    """Clusters of these columns; None if the sums of their products do not fit into memory."""
    shifts, most = cov.shifts, budget() // (2 * ENTRY_BYTES)

    # No reference to cov: on a cluster of machines, the function is sent with all it refers to.
    def part(block: Block) -> Any:
        a, b = rows_of(block, shifts, (x, y))
        products = np.diff(a.indptr).astype(np.int64) * np.diff(b.indptr)
        allowed = min(most, PRODUCTS * sum(z.nnz if sp.issparse(z) else z.size for z in block.views))
        if products.sum() > allowed:
            # A long row says little about each pair of its columns.
            order = np.argsort(products, kind="stable")
            few = np.sort(order[np.cumsum(products[order]) <= allowed])
            a, b = a[few], b[few]
        return sp.csr_array(a.T) @ b

    def combine(G: Any, H: Any) -> Any:
        return None if G is None or H is None or G.nnz + H.nnz > most else G + H

    G = cov.views.reduce(part, combine, most=2)
    if G is None:
        return None
    G = sp.coo_array(G)
    u = unit_columns(cov, (x, y))
    (sx, sy), (mx, my) = (np.split(values, [len(x)]) for values in (u.scale, u.mean))
    r = G.data * sx[G.row] * sy[G.col] / cov.n
    # Means of rare columns are small: most pairs need not be centred.
    linked = np.square(r) > LINKS[0]
    i, j = G.row[linked], G.col[linked]
    return linked_columns(x, y, i, j, np.square(r[linked] - mx[i] * my[j]))


def linked_columns(x: Array, y: Array, i: Array, j: Array, strength: Array) -> Clusters:
    """Clusters of columns of which x[i] and y[j] have links of this strength."""
    linked = strength > LINKS[0]
    i, j, strength = i[linked], j[linked], strength[linked]
    p, first = len(x) + len(y), len(x)
    number, count, of_y = np.full(p, -1), 0, np.arange(p) >= first
    # The links of a maximum spanning tree join the same columns, whatever the least strength.
    tree = sp.coo_array(minimum_spanning_tree(sp.csr_array((1 / strength, (i, j + first)), shape=(p, p))))
    i, j, strength = tree.row, tree.col, 1 / tree.data
    for least in LINKS:
        # Both ends of a link are in the same cluster, or in none yet.
        strong = (strength > least) & (number[i] < 0)
        i, j, strength = i[strong], j[strong], strength[strong]
        graph = sp.coo_array((np.ones(len(i), np.int8), (i, j)), shape=(p, p))
        total, part = connected_components(graph, directed=False)
        size, in_y = np.bincount(part, minlength=total), np.bincount(part[of_y], minlength=total)
        done = (size <= LARGEST) & (in_y > 0) & (in_y < size)
        chosen = done[part]
        number[chosen] = count + (np.cumsum(done) - 1)[part[chosen]]
        count += int(done.sum())
    of_x, of_y = np.split(number, [first])
    return Clusters(x[of_x >= 0], y[of_y >= 0], of_x[of_x >= 0], of_y[of_y >= 0])


def rows_of(block: Block, shifts: Any, columns: tuple[Array, Array]) -> list[Any]:
    """The rows of a block in some columns of both views, sparse."""
    return [
        sp.csr_array(shifted(z, shift)).astype(np.float64)[:, i]
        for z, shift, i in zip(block.views, shifts, columns, strict=True)
    ]
