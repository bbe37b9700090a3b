"""Columns of one view that coincide with columns of the other: pairs with a correlation of 1."""

from __future__ import annotations

import numpy as np

from ..data.views import Block
from ..machine.arrays import Array
from .moments import shifted
from .rows import RowCovariance

# Random numbers for each row, and the distance below which the sums of two columns are the same, in units of
# the precision of the values: two columns of a million that do not coincide are as near as that with a
# probability of 1e-7 at most in single precision, 1e-12 in double.
SUMS, SAME = 3, {4: 1e-6, 8: 1e-8}


def coincident(cov: RowCovariance) -> tuple[Array, Array]:
    """Columns i and j of the two views, in pairs, that are the same but for mean and unit: one pass.

    Every row has random numbers. Columns coincide if the sums of these, weighed by the standardised values,
    are the same but for their sign. Of several columns that coincide, the first of each view is returned.
    """
    shifts, n = cov.shifts, cov.n

    # No reference to cov: on a cluster, the function is sent with all it refers to.
    def part(block: Block) -> tuple[Array, ...]:
        g = np.random.default_rng(block.offset).standard_normal((block.n_rows, SUMS))
        x, y = (shifted(z, shift) for z, shift in zip(block.views, shifts, strict=True))
        return x.T @ g, y.T @ g, g.sum(axis=0)

    *sums, total = cov.views.sum(part, np.float64)
    keys, columns, of_y = [], [], []
    for i, (G, m, u, shift) in enumerate(zip(sums, cov.moments.views, cov.units.views, shifts, strict=True)):
        varies = np.flatnonzero(m.var > 0)
        z = (G - np.outer(u.mean - shift, total))[varies] / np.sqrt(n * m.var[varies])[:, None]
        keys.append(z * np.where(z[:, :1] < 0, -1.0, 1.0))
        columns.append(varies)
        of_y.append(np.full(len(varies), bool(i)))
    same = SAME[4 if cov.views.dtype == np.float32 else 8]
    return _pairs(np.vstack(keys), np.concatenate(columns), np.concatenate(of_y), same)


def _pairs(keys: Array, columns: Array, of_y: Array, same: float) -> tuple[Array, Array]:
    """The first columns of both views in every group of equal keys that has columns of both."""
    order = np.lexsort((columns, keys[:, 0]))
    keys, columns, of_y = keys[order], columns[order], of_y[order]
    near = np.all(np.abs(np.diff(keys, axis=0)) < same, axis=1)
    group = np.concatenate([[0], np.cumsum(~near)])
    firsts = [np.full(group[-1] + 1, len(columns) + columns.max(initial=0)) for _ in range(2)]
    for first, side in zip(firsts, (~of_y, of_y), strict=True):
        np.minimum.at(first, group[side], columns[side])
    both = np.intersect1d(group[~of_y], group[of_y])
    return firsts[0][both], firsts[1][both]
