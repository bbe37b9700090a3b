"""Clusters of rare columns that go together: a pair of both views rests on most of one where it is rare."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from ..data.blocks import ENTRY_BYTES
from ..data.views import Block
from ..machine.arrays import Array
from ..machine.memory import budget
from .head_columns import frequencies, pairs_in_rows
from .heads import unit_columns
from .moments import shifted
from .rows import RowCovariance

# Entries that a row has, on average, in the columns that are looked at. There are fewer where a block would
# have more products than so many for each of its entries.
ENTRIES, PRODUCTS = (8.0, 4.0, 2.0), 4
# Squared correlations from which columns go together, from weak to strong: each cluster is that of the
# weakest at which it is no larger than this, both views together.
LINKS, LARGEST = tuple(0.02 * 1.2**i for i in range(22)), 64


class Clusters(NamedTuple):
    """Columns of both views, and the number of the cluster that each is in."""

    x: Array
    y: Array
    of_x: Array
    of_y: Array

    @property
    def numbers(self) -> Array:
        """The clusters of the columns of both views, one after the other."""
        return np.concatenate([self.of_x, self.of_y])

    @property
    def sizes(self) -> Array:
        """The columns that each cluster has in the view of which it has more."""
        count = int(self.numbers.max(initial=-1)) + 1
        return np.maximum(*(np.bincount(of, minlength=count) for of in (self.of_x, self.of_y)))


def clusters_of(cov: RowCovariance) -> Clusters | None:
    """Clusters of rare columns by their correlations with the other view: one to three passes over the rows.

    None if products of entries of the same row are too many. Columns that many rows have are left out.
    """
    for entries in ENTRIES:
        found = _clusters(cov, *rare_columns(cov, entries))
        if found is not None:
            return found
    return None


def rare_columns(cov: RowCovariance, entries: float) -> tuple[Array, Array]:
    """The columns that fewest rows have, so many that a row has about so many entries in them."""
    varying = [np.flatnonzero(m.var > 0) for m in cov.moments.views]
    often = np.concatenate([f[i] / (1 + f[i]) for f, i in zip(frequencies(cov), varying, strict=True)])
    order = np.argsort(often, kind="stable")
    rare = np.zeros(len(often), bool)
    rare[order[np.cumsum(often[order]) <= entries]] = True
    x, y = np.split(rare, [len(varying[0])])
    return varying[0][x], varying[1][y]


def _clusters(cov: RowCovariance, x: Array, y: Array) -> Clusters | None:
    """Clusters of these columns; None if products are too many."""
    shifts, most = cov.shifts, budget() // (2 * ENTRY_BYTES)

    # No reference to cov: on a cluster of machines, the function is sent with all it refers to.
    def part(block: Block) -> Any:
        a, b = rows_of(block, shifts, (x, y))
        if pairs_in_rows(a, b) > min(most, PRODUCTS * sum(map(_entries, block.views))):
            return None
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
    # Those of a maximum spanning tree join the same columns at any strength.
    tree = sp.coo_array(minimum_spanning_tree(sp.csr_array((1 / strength, (i, j + first)), shape=(p, p))))
    i, j, strength = tree.row, tree.col, 1 / tree.data
    for least in LINKS:
        # Both ends of a link are in the same cluster, or in none yet.
        strong = (strength > least) & (number[i] < 0)
        i, j, strength = i[strong], j[strong], strength[strong]
        graph = sp.coo_array((np.ones(len(i), np.int8), (i, j)), shape=(p, p))
        total, part = connected_components(graph, directed=False)
        size, of_both = np.bincount(part, minlength=total), np.bincount(part[of_y], minlength=total)
        done = (size <= LARGEST) & (of_both > 0) & (of_both < size)
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


def _entries(z: Any) -> int:
    return int(z.nnz) if sp.issparse(z) else z.size
