"""Which columns of both views are in a head: by variance, and by correlation with the other view."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.blocks import ENTRY_BYTES
from ..data.views import Block
from ..machine.arrays import Array
from ..machine.memory import budget
from .heads import added, unit_columns
from .moments import shifted
from .rows import RowCovariance

# The largest share of the head that is chosen by correlation with the other view; the rest has the largest
# variances. Without the former, rare columns that carry correlations of 1 are missed.
BY_COUPLING = 0.5
# The share of the head that is split evenly between the views; the rest goes by variance over ridge.
EVEN = 0.75
# The power of what the ridge leaves of a partner's variance, in the strength of a coupling (URLs, ridge 1e-5:
# after 40 iterations 0.0002 of the correlation is missing; 0.0006 with powers 0 and 2).
SHRUNK = 6


def strengths(cov: RowCovariance, x: Array, y: Array) -> tuple[Array, Array] | tuple[None, None]:
    """The largest correlation of each column with one of the other view, ridge included: one pass.

    It is 0 for columns x and y. Partners with a large ridge count less: their correlations cannot come near
    1. None where sums of sparse rows would not fit into memory, because rows are many or one is long.
    """
    most = budget() / (2 * ENTRY_BYTES)
    if cov.n * (cov.views.entries / 2) ** 2 > most:
        return None, None
    shifts = cov.shifts
    heads, tails = (
        (x, y),
        tuple(np.setdiff1d(np.flatnonzero(d > 0), h) for d, h in zip(cov.diagonal(), (x, y), strict=True)),
    )

    def part(block: Block) -> tuple[Any, ...] | None:
        a, b = (shifted(z, shift).astype(np.float64) for z, shift in zip(block.views, shifts, strict=True))
        rare_x, rare_y = a[:, tails[0]], b[:, tails[1]]
        head_x, head_y = a[:, heads[0]], b[:, heads[1]]
        # Pairs of columns in the head, most of all, are left out.
        factors = (rare_x, head_y), (head_x, rare_y), (rare_x, rare_y)
        if sum(_pairs_in_rows(left, right) for left, right in factors) > most:
            return None
        return tuple(sp.csr_array(left.T) @ right for left, right in factors)

    def combine(a: tuple[Any, ...] | None, b: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
        if a is None or b is None or sum(G.size for G in (*a, *b)) > most:
            return None
        return added(a, b)

    sums = cov.views.reduce(part, combine, most=2)
    if sums is None:
        return None, None
    found = [np.zeros(p) for p in cov.units.widths]
    rows, columns = (tails[0], heads[0], tails[0]), (heads[1], tails[1], tails[1])
    for G, i, j, of_x, of_y in zip(
        sums, rows, columns, (True, False, True), (False, True, True), strict=True
    ):
        by_x, by_y = _strongest(cov, sp.csr_array(G), i, j)
        if of_x:
            found[0][i] = np.maximum(found[0][i], by_x)
        if of_y:
            found[1][j] = np.maximum(found[1][j], by_y)
    return found[0], found[1]


def _pairs_in_rows(x: Any, y: Any) -> int:
    """How many pairs of stored entries of x and y are in the same row."""
    return int(np.diff(x.indptr).astype(np.int64) @ np.diff(y.indptr).astype(np.int64))


def _strongest(cov: RowCovariance, G: Any, x: Array, y: Array) -> tuple[Array, Array]:
    """The largest correlations of columns x and y with each other, from the sums of their products."""
    if not G.nnz:
        return np.zeros(len(x)), np.zeros(len(y))
    # Two matrices share its indices: sorted later for one, they would be wrong for the other.
    G.sum_duplicates()
    u, row = unit_columns(cov, (x, y)), np.repeat(np.arange(len(x)), np.diff(G.indptr))
    (sx, sy), (mx, my) = (np.split(part, [len(x)]) for part in (u.scale, u.mean))
    r = np.abs(G.data / cov.n * sx[row] * sy[G.indices] - mx[row] * my[G.indices])
    left_x, left_y = np.split((1 - u.ridge) ** SHRUNK, [len(x)])
    by_x = sp.csr_array((r * left_y[G.indices], G.indices, G.indptr), shape=G.shape)
    by_y = sp.csr_array((r * left_x[row], G.indices, G.indptr), shape=G.shape)
    return by_x.max(axis=1).toarray().ravel(), by_y.max(axis=0).toarray().ravel()


def counting(cov: RowCovariance, m: int) -> tuple[float, float]:
    """How much columns beyond the m of largest variance may count in each view: 1 without a ridge, 0 at most.

    The ridge r leaves v / (v + r) of the squared correlation of a column of variance v: this is the mean of
    its square.
    """
    found = []
    for total, u in zip(cov.diagonal(), cov.units.views, strict=True):
        left = np.where(total > u.ridge, 1 - u.ridge / np.where(total > 0, total, 1.0), 0.0)
        tail = np.sort(left)[:-m] if m < len(left) else left[:0]
        tail = tail[tail > 0]
        found.append(float(np.mean(tail**2)) if len(tail) else 0.0)
    return found[0], found[1]


def sizes_of(cov: RowCovariance, m: int) -> tuple[int, int]:
    """How many columns of each view a head of 2 m columns has.

    A part is shared out evenly. The rest goes to the columns whose variance is largest in units of their
    ridge, of whichever view.
    """
    ratios = []
    for moments, total, u in zip(cov.moments.views, cov.diagonal(), cov.units.views, strict=True):
        varies = moments.var > 0
        # A ridge may be 0, or far below a variance.
        with np.errstate(divide="ignore", over="ignore"):
            ratios.append(np.sort(total[varies] / u.ridge[varies])[::-1])
    p1, p2 = map(len, ratios)
    least = [min(int(EVEN * m), p) for p in (p1, p2)]
    rest = [ratio[n:] for ratio, n in zip(ratios, least, strict=True)]
    order = np.argsort(-np.concatenate(rest), kind="stable")[: 2 * m - sum(least)]
    x = int(np.count_nonzero(order < len(rest[0])))
    if all(len(r) and r[0] <= (1 + 1e-6) * r[-1] for r in rest):
        x = min(len(rest[0]), max(m - least[0], 2 * m - least[0] - p2))
    return least[0] + x, min(p2, 2 * m - least[0] - x)


def frequencies(cov: RowCovariance) -> tuple[Array, Array]:
    """mean^2 / variance of the columns: in any unit, larger for those that more rows have."""
    x, y = (np.where(m.var > 0, m.mean**2 / np.where(m.var > 0, m.var, 1.0), 0.0) for m in cov.moments.views)
    return x, y


def orders(cov: RowCovariance) -> tuple[Array, Array]:
    """The columns of both views that vary, by variance; by frequency where variances are equal."""
    found = []
    for m, total, often in zip(cov.moments.views, cov.diagonal(), frequencies(cov), strict=True):
        # With a ridge, constant columns have that.
        varies = np.flatnonzero(m.var > 0)
        # Rounding tells apart what a scale has made equal.
        size = np.round(np.log(total[varies]), 9)
        found.append(varies[np.lexsort((-often[varies], -size))])
    return found[0], found[1]


def columns_of(order: Array, strengths: Array | None, m: int, share: float) -> Array:
    """The first m columns of an order; this share of them by the strength of their coupling instead."""
    if strengths is None or len(order) <= m:
        return np.sort(order[:m])
    first, rest = np.split(order, [m - int(share * m)])
    strongest = rest[np.argsort(-strengths[rest], kind="stable")]
    return np.sort(np.concatenate([first, strongest[: m - len(first)]]))
