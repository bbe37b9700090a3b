"""Mergeable statistics gathered in one pass: moments, second moments and triangular factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from itertools import accumulate
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
import scipy.sparse as sp

from ..data.blocks import BLOCK_BYTES
from ..data.finite import require_finite
from ..data.views import Block, Titles, Views
from ..machine.arrays import Array, Matrix
from ..machine.memory import budget
from .linalg import Triangle
from .thin import TILE_ROWS

P = ParamSpec("P")
T = TypeVar("T")

# Rows are copied, shifted and multiplied in tiles of at most this size (measured best of 2 to 32 MB).
TILE_BYTES = 16 * 2**20
# Rows of integers multiplied at a time in single precision, and the least columns for which this pays.
# Centred bytes have a variance of at most 2^14: 768 rows keep every sum below 2^24 with some to spare.
# Measured: 0.97 of the time in double precision at 128 columns, 0.7 from 256 to 1500.
INTEGER_ROWS, INTEGER_COLUMNS = 768, 256
# Sums of integers below this are exact in single precision.
EXACT = 2**24
# Sparse times sparse costs about 400 times as much per multiplication as dense (measured): above a
# density of 1 / sqrt(400), the dense product of the same rows is faster.
DENSE_ABOVE = 0.05


def quiet(f: Callable[P, T]) -> Callable[P, T]:
    """Decorator that silences numpy's warnings of overflow: `_check` raises an error with the cause.

    numpy's own decorator cannot be sent to another process.
    """

    @wraps(f)
    def silent(*args: P.args, **kwargs: P.kwargs) -> T:
        with np.errstate(over="ignore", invalid="ignore"):
            return f(*args, **kwargs)

    return silent


class ViewMoments(NamedTuple):
    """Column means and (biased) variances of one view."""

    mean: Array
    var: Array

    def merge(self, other: ViewMoments, share: float) -> ViewMoments:
        """The moments of both sets of rows; `share` is that of `other` (Chan, Golub & LeVeque 1983)."""
        apart = other.mean - self.mean
        var = self.var + (other.var - self.var) * share + apart**2 * (share * (1 - share))
        return ViewMoments(self.mean + apart * share, var)


class Moments(NamedTuple):
    """Number of rows, and the means and variances of each view; mergeable.

    The number is a fraction if some rows count less than others.
    """

    n: int
    views: tuple[ViewMoments, ...]

    @classmethod
    def of_columns(cls, n: int, mean: Array, var: Array, widths: Sequence[int]) -> Moments:
        """Split the means and variances of all columns, side by side, into views of these widths."""
        return cls(n, tuple(map(ViewMoments, by_view(mean, widths), by_view(var, widths))))

    @quiet
    def merge(self, other: Moments) -> Moments:
        """The moments of both sets of rows."""
        n = self.n + other.n
        pairs = zip(self.views, other.views, strict=True)
        return Moments(n, tuple(a.merge(b, other.n / n) for a, b in pairs))


def moments(views: Views, center: bool = True) -> Moments:
    """Means and variances in one pass; without centring, means of zero and mean squares."""
    titles = views.titles

    @quiet
    def part(block: Block) -> Moments:
        found = tuple(_column_moments(m, center) for m in block.views)
        _check(titles, block, [view.var for view in found])
        return Moments(block.n_rows, found)

    m = views.reduce(part, Moments.merge)
    _require_squares(titles, [view.var for view in m.views])
    return m


class SecondMoments(NamedTuple):
    """Number of rows, means and sums of centred products of the columns of [X Y]; mergeable."""

    n: int
    mean: Array
    scatter: Array

    @quiet
    def merge(self, other: SecondMoments) -> SecondMoments:
        """The second moments of both sets of rows; the scatter of `self` is reused for the result."""
        n = self.n + other.n
        delta = other.mean - self.mean
        scatter = self.scatter
        scatter += other.scatter
        scatter += np.outer(delta * (self.n * (other.n / n)), delta)
        return SecondMoments(n, self.mean + delta * (other.n / n), scatter)

    def moments(self, widths: Sequence[int]) -> Moments:
        """The means and variances of views of these widths."""
        var = np.maximum(np.diag(self.scatter), 0.0) / self.n
        return Moments.of_columns(self.n, self.mean, var, widths)


def second_moments(views: Views, center: bool = True) -> SecondMoments:
    """All second moments in one pass: (p1 + p2)^2 numbers."""
    titles = views.titles

    @quiet
    def part(block: Block) -> SecondMoments:
        n, widths = block.n_rows, _widths(block)
        p, sparse = sum(widths), False
        if all(map(sp.issparse, block.views)):
            sparse = sum(m.nnz for m in block.views) < DENSE_ABOVE * n * p
        shift, total, scatter = (_sparse_scatter if sparse else _dense_scatter)(block, center)
        _check(titles, block, by_view(np.diag(scatter), widths))
        mean = total / n
        if center:
            scatter -= np.outer(total, mean)
            return SecondMoments(n, shift + mean, scatter)
        return SecondMoments(n, np.zeros(p), scatter)

    # Sums, a scaled copy and factors are five matrices; the rest of the budget is for those of blocks.
    p = sum(views.widths)
    second = views.reduce(part, SecondMoments.merge, most=budget() // (8 * p * p) - 5)
    _require_squares(titles, by_view(np.diag(second.scatter), views.widths))
    return second


def triangle(views: Views, center: bool = True) -> Triangle:
    """The triangular factor of the centred [X Y] in one pass, without squaring its condition number."""
    titles = views.titles

    @quiet
    def part(block: Block) -> Triangle:
        widths = _widths(block)
        rows = max(1, BLOCK_BYTES // (8 * sum(widths)))
        total = _tile_triangle(block, slice(0, rows), center)
        for start in range(rows, block.n_rows, rows):
            total = total.merge(_tile_triangle(block, slice(start, start + rows), center))
        squares = total.n * np.abs(total.R).max(axis=0) ** 2
        _check(titles, block, by_view(squares, widths))
        return total

    tri = views.reduce(part, Triangle.merge).triangular()
    with np.errstate(over="ignore"):
        squares = tri.n * np.abs(tri.R).max(axis=0) ** 2
    _require_squares(titles, by_view(squares, views.widths))
    return tri


def shifted(x: Matrix, shift: Array) -> Matrix:
    """x - shift; a sparse x must have all entries stored in the columns that are shifted."""
    if not np.any(shift):
        return x
    if not sp.issparse(x):
        return (x - shift).astype(x.dtype, copy=False)
    data = (x.data - shift[x.indices]).astype(x.dtype, copy=False)
    return sp.csr_array((data, x.indices, x.indptr), shape=x.shape)


def to_dense(x: Matrix) -> Array:
    """A block's matrix as an ndarray."""
    return np.asarray(x.toarray() if sp.issparse(x) else x)


def _pilot(x: Array) -> Array:
    """A point near the mean: exact for a constant column, and not far off if the first row is an outlier."""
    first = x[0].astype(np.float64)
    return np.asarray(first + (x[:100] - first).mean(axis=0))


def _column_sums(x: Matrix, values: Array) -> Array:
    """The sum of each column of a CSR block, with these values in the place of its own.

    Not by np.bincount, which holds the interpreter's lock: other threads would wait.
    """
    columns = x.T
    columns.data = values
    return np.asarray(columns @ np.ones(x.shape[0]))


def stored_entries(x: Matrix) -> Array:
    """The number of entries that each column of a CSR block has stored."""
    return _column_sums(x, np.ones(x.nnz))


def _full_columns(x: Matrix, stored: Array) -> Array:
    """First-row values of the columns of a CSR block with all entries stored; zero for the others."""
    shift = np.zeros(x.shape[1])
    first = x.indices[: x.indptr[1]]
    full = stored[first] == x.shape[0]
    shift[first[full]] = x.data[: x.indptr[1]][full]
    return shift


def _column_moments(x: Matrix, center: bool) -> ViewMoments:
    """Column means and variances of one block, to full precision whatever the means are."""
    n = x.shape[0]
    if not sp.issparse(x):
        shift = _pilot(x) if center else np.zeros(x.shape[1])
        d = x - shift
        rest = d.mean(axis=0) if center else shift
        return ViewMoments(shift + rest, np.maximum(np.einsum("ij,ij->j", d, d) / n - rest**2, 0.0))
    stored = stored_entries(x)
    shift = _full_columns(x, stored) if center else np.zeros(x.shape[1])
    data = x.data.astype(np.float64, copy=False)
    data = data - shift[x.indices] if np.any(shift) else data
    rest = _column_sums(x, data) / n if center else np.zeros(x.shape[1])
    squares = _column_sums(x, (data - rest[x.indices]) ** 2)
    return ViewMoments(shift + rest, (squares + (n - stored) * rest**2) / n)


def _tile_triangle(block: Block, rows: slice, center: bool) -> Triangle:
    """Some rows of a block as a factor: centred, and made triangular if there are many."""
    Z = np.hstack([to_dense(m[rows]) for m in block.views]).astype(np.float64, copy=False)
    mean = np.zeros(Z.shape[1])
    if center:
        mean = _pilot(Z)
        Z -= mean
        rest = Z.mean(axis=0)
        Z -= rest
        mean = mean + rest
    # Leave values that are not finite to the check: LAPACK would not return from them.
    R = Triangle(len(Z), mean, Z)
    return R.triangular(4 * Z.shape[1]) if np.all(np.isfinite(Z)) else R


def _dense_scatter(block: Block, center: bool) -> tuple[Array, Array, Array]:
    """A shift c, the sum of z - c and of (z - c)(z - c)' over the rows z of [x y]."""
    n, (p1, p2) = block.n_rows, _widths(block)
    p = p1 + p2
    head = np.hstack([to_dense(z[:100]) for z in block.views])
    shift = _pilot(head) if center else np.zeros(p)
    gram, rows = _gram, min(TILE_ROWS, TILE_BYTES // (8 * p))
    if p >= INTEGER_COLUMNS and np.array_equal(np.rint(head), head):
        shift = np.rint(shift)
        # With larger integers the product would not be exact, and would be repeated.
        if INTEGER_ROWS * np.square(head - shift).mean(axis=0).max() < EXACT:
            gram, rows = _integer_gram, INTEGER_ROWS
    rows = max(1, min(n, rows))
    buffer = np.empty((rows, p))
    total, scatter = np.zeros(p), np.zeros((p, p))
    for start in range(0, n, rows):
        tile = buffer[: min(rows, n - start)]
        x, y = (to_dense(z[start : start + rows]) for z in block.views)
        np.subtract(x, shift[:p1], out=tile[:, :p1])
        np.subtract(y, shift[p1:], out=tile[:, p1:])
        total += np.ones(len(tile)) @ tile
        scatter += gram(tile)
    return shift, total, scatter


def _gram(tile: Array) -> Array:
    return np.asarray(tile.T @ tile)


def _integer_gram(tile: Array) -> Array:
    """tile'tile in single precision, twice as fast, where that is exact.

    Sums of products of integers are exact below 2^24, and by Cauchy and Schwarz none is larger than the
    largest sum of squares.
    """
    if np.array_equal(np.rint(tile), tile):
        single = tile.astype(np.float32)
        G = single.T @ single
        if G.diagonal().max() < EXACT:
            return np.asarray(G)
    return _gram(tile)


def _sparse_scatter(block: Block, center: bool) -> tuple[Array, Array, Array]:
    """`_dense_scatter` by a sparse product, shifting only the columns with all entries stored."""
    Z = sp.hstack(block.views, format="csr").astype(np.float64, copy=False)
    shift = _full_columns(Z, stored_entries(Z)) if center else np.zeros(Z.shape[1])
    Z = shifted(Z, shift)
    return shift, np.asarray(Z.sum(axis=0)).ravel(), (Z.T @ Z).toarray()


def by_view(columns: Array, widths: Sequence[int]) -> list[Array]:
    """Split an array over all columns into one array per view."""
    # np.split does the same, but would take longer than the rest of a small fit's sums.
    return [columns[end - width : end] for width, end in zip(widths, accumulate(widths), strict=True)]


def _widths(block: Block) -> list[int]:
    return [m.shape[1] for m in block.views]


def _check(titles: Titles, block: Block, statistics: Sequence[Array]) -> None:
    """Raise an error if column statistics are not finite, naming the value in the block that caused it."""
    for view, statistic in enumerate(statistics):
        if not np.all(np.isfinite(statistic)):
            require_finite(block.views[view], titles.naming(view), block.offset)
    _require_squares(titles, statistics)


def _require_squares(titles: Titles, statistics: Sequence[Array]) -> None:
    for view, statistic in enumerate(statistics):
        if not np.all(np.isfinite(statistic)):
            column = int(np.flatnonzero(~np.isfinite(statistic))[0])
            raise ValueError(
                f"Values in {titles.describe(view, column)} are too large to be squared in double "
                "precision: rescale the column"
            )
