"""Fingerprint of all rows: sums of hashes, which do not depend on blocks, threads or where rows are stored.

docs/decisions/0012 has the reasons, and what it costs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp

from ..machine.arrays import Array, Matrix
from .views import Block, Sweep, Views

T = TypeVar("T")

# Bytes of rows hashed at a time, which stay in the cache.
TILE_BYTES = 2**20
HALF = np.uint64(32)
# Multiplies the second of two numbers in a word of single precision, lest the two can change places.
ODD_COLUMNS = np.uint64(0xA4093822299F31D3)
# The golden ratio and the multipliers of splitmix64 (Steele, Lea & Flood 2014).
GOLDEN, FIRST, SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
# Added to the hashes of rows of each view, so that swapped views differ.
OF_X, OF_Y = 0x243F6A8885A308D3, 0x13198A2E03707344


class RowSums(NamedTuple):
    """Number of rows, and sums over them modulo 2^64 of hashes.

    `x` and `y` are of the rows of one view, `pairs` of rows of both, all in any order; `order` is of row
    number, row of x and row of y.
    """

    rows: int = 0
    x: int = 0
    y: int = 0
    pairs: int = 0
    order: int = 0

    def merge(self, other: RowSums) -> RowSums:
        """The sums of both sets of rows."""
        rest = zip(self[1:], other[1:], strict=True)
        return RowSums(self.rows + other.rows, *((a + b) % 2**64 for a, b in rest))

    def difference(self, other: RowSums, names: tuple[str, ...] = ("X", "y")) -> str | None:
        """What differs in the rows of `other`, in words; None if they are the same."""
        if self == other:
            return None
        differ = [name for name, a, b in zip(names, self[1:3], other[1:3], strict=True) if a != b]
        if differ:
            return f"{' and '.join(differ)} had other values"
        if self.pairs != other.pairs:
            return f"rows of {' and '.join(names)} were paired otherwise"
        return "rows were in another order"


def row_sums(block: Block, numbers: Array | None = None, counts: Array | None = None) -> RowSums:
    """The sums of one block; its rows have consecutive numbers unless `numbers` are given.

    `counts` is True for its rows that count; by default all do.
    """
    return _added(_hashes(block, numbers), counts)


def _hashes(block: Block, numbers: Array | None = None) -> tuple[Array, Array, Array, Array]:
    """Hashes of the rows of x, of y, of pairs, and of pairs with their row numbers."""
    numbers = block.offset + np.arange(block.n_rows) if numbers is None else numbers
    x, y = (_mixed(row_hashes(m) + np.uint64(of)) for m, of in zip(block.views, (OF_X, OF_Y), strict=True))
    pairs = _mixed(x + y * np.uint64(GOLDEN))
    return x, y, pairs, _mixed(pairs + (numbers + 1).astype(np.uint64) * np.uint64(GOLDEN))


def _added(hashes: tuple[Array, ...], counts: Array | None = None) -> RowSums:
    found = [part if counts is None else part[counts] for part in hashes]
    return RowSums(len(found[0]), *(int(part.sum(dtype=np.uint64)) for part in found))


def row_hashes(m: Matrix) -> Array:
    """Hash of every row: cells times odd numbers of their columns, added modulo 2^64, so zeros do not count.

    A word of 64 bits is a number in double precision, or two in single precision. Its upper half is added to
    it first: small integers differ in their highest bits alone, and a multiplication spreads bits upwards.
    """
    if sp.issparse(m):
        return _sparse_hashes(m)
    n, width = m.shape[0], -(-m.shape[1] * m.dtype.itemsize // 8)
    single = m.dtype.itemsize == 4
    multipliers, rows = _multipliers(width), max(1, TILE_BYTES // (8 * max(width, 1)))
    found, words = np.empty(n, np.uint64), np.zeros((min(rows, n), width), np.uint64)
    cells, upper = words.view(m.dtype)[:, : m.shape[1]], np.empty_like(words)
    for start in range(0, n, rows):
        part = m[start : start + rows]
        k = len(part)
        # Zero added turns -0.0 into 0.0.
        np.add(part, m.dtype.type(0), out=cells[:k])
        np.right_shift(words[:k], HALF, out=upper[:k])
        if single:
            np.multiply(upper[:k], ODD_COLUMNS, out=upper[:k])
        np.add(words[:k], upper[:k], out=upper[:k])
        found[start : start + k] = np.einsum("ij,j->i", upper[:k], multipliers)
    return found


def _sparse_hashes(m: Matrix) -> Array:
    """The same sums over stored entries."""
    values, single = m.data + m.data.dtype.type(0), m.data.dtype.itemsize == 4
    cells = values.view(np.uint32).astype(np.uint64) if single else values.view(np.uint64)
    if single:
        # Odd columns are the upper halves of their words.
        multipliers = np.repeat(_multipliers(-(-m.shape[1] // 2)), 2)[: m.shape[1]]
        multipliers[1::2] *= np.uint64(2**32) + ODD_COLUMNS
    else:
        cells, multipliers = cells + (cells >> HALF), _multipliers(m.shape[1])
    found: Array = sp.csr_array((cells, m.indices, m.indptr), shape=m.shape) @ multipliers
    return found


@lru_cache(maxsize=4)
def _multipliers(width: int) -> Array:
    """Odd numbers that look random, one for each word of a row."""
    found: Array = _mixed(np.arange(1, width + 1, dtype=np.uint64) * np.uint64(GOLDEN)) | np.uint64(1)
    return found


def _mixed(z: Array) -> Array:
    """The finaliser of splitmix64, which makes every bit depend on all others."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(SECOND)
    return np.asarray(z ^ (z >> np.uint64(31)))


class Identity:
    """The fingerprint of the rows of views, gathered while they are delivered for other purposes.

    A pass over all rows gives it as a whole. Until there has been one, rows that are taken out of order count
    as they come, each once. `expected` are the sums, and the rows that count for them (None for all), of
    rows that these should be the same as; `refuse` is called with both sums if they are not.
    """

    def __init__(
        self,
        n: int,
        expected: tuple[RowSums, Array | None] | None = None,
        refuse: Callable[[RowSums, RowSums], None] | None = None,
    ) -> None:
        self.n, self.expected, self.refuse = n, expected, refuse
        self.sums = RowSums()
        self.seen: Array | None = None

    @property
    def complete(self) -> bool:
        """True if the sums are those of all rows."""
        return self.sums.rows == self.n

    @property
    def verified(self) -> bool:
        """True if rows are those expected, or none are expected."""
        return self.expected is None

    def watched(self, run: Callable[[Sweep], Any], sweep: Sweep, dtype: Any) -> Any:
        """The result of a pass over rows in this precision; the first such pass gathers the sums, too."""
        if (self.complete and self.verified) or sweep.cuts or sweep.dtype not in (None, dtype):
            return run(sweep)
        f, combine = Both(sweep.f, self._among), Both.combining(sweep.combine)
        found, *sums = run(sweep._replace(f=f, combine=combine))
        self._found(*sums)
        return found

    def require(self, views: Views) -> None:
        """Make sure that rows are those expected: in a pass of its own, if there has been none."""
        if self.complete and self.verified:
            return
        self.watched(views.run, Sweep(_nothing, _first, None, views.threads), None)

    def add(self, block: Block, numbers: Array) -> Block:
        """Count the rows of a block, which have these numbers, unless they have been counted before."""
        if self.complete:
            return block
        if self.seen is None:
            self.seen = np.zeros(self.n, bool)
        new = ~self.seen[numbers]
        if new.any():
            self.sums = self.sums.merge(row_sums(block, numbers, new))
            self.seen[numbers] = True
        return block

    @property
    def _among(self) -> Array | None:
        return None if self.expected is None else self.expected[1]

    def _found(self, sums: RowSums, among: RowSums) -> None:
        if self.expected is not None:
            if among != self.expected[0] and self.refuse is not None:
                self.refuse(self.expected[0], among)
            self.expected = None
        self.sums, self.seen = sums, None


class Both:
    """Function of a block with two results beside that of another one: its sums, and those of some rows."""

    def __init__(self, f: Callable[[Block], Any], among: Array | None) -> None:
        self.f, self.among = f, among

    def __call__(self, block: Block) -> tuple[Any, RowSums, RowSums]:
        """The result, the sums of all rows, and of those among the chosen ones."""
        found, hashes = self.f(block), _hashes(block)
        sums = _added(hashes)
        if self.among is None:
            return found, sums, sums
        return found, sums, _added(hashes, self.among[block.offset : block.offset + block.n_rows])

    @staticmethod
    def combining(combine: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        """The function that merges two such results."""

        def both(a: tuple[Any, RowSums, RowSums], b: tuple[Any, RowSums, RowSums]) -> Any:
            return combine(a[0], b[0]), a[1].merge(b[1]), a[2].merge(b[2])

        return both


def _nothing(block: Block) -> None:
    return None


def _first(a: None, b: None) -> None:
    return None
