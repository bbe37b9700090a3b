"""A sample of the rows that count most in fourth moments of scores, in bounded memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...machine.arrays import Array

Rows = tuple[Array, Array, Array]


class RowSample(NamedTuple):
    """Scores of rows kept by priority, and sums over all rows; mergeable.

    Priority sampling (Duffield, Lund & Thorup 2007): the priority of a row is its size over a random number
    between 0 and 1, the same in each run. Of `limit` rows of highest priority, and the next one's priority t,
    a row counts max(1, t / size) times. Sums of fourth powers are then unbiased, large rows are there for
    certain, and all rows are if they are not more than `limit`. No row of a priority below `needed` is.
    Each of `kept` has priorities, sizes and scores, those of both views side by side, of some rows. `sums`
    are those of all rows, and `products` those of scores of the same group of components.
    """

    limit: int
    needed: float
    sums: Array
    products: Array
    kept: tuple[Rows, ...]

    @classmethod
    def empty(cls, limit: int, columns: int) -> RowSample:
        """A sample of no rows with so many scores each."""
        return cls(limit, 0.0, np.zeros(columns), np.zeros((columns, columns)), ())

    def add(self, scores: Array, groups: list[Array], number: Array) -> RowSample:
        """The sample with more rows: their scores and numbers, and the groups of components."""
        # What is needed of scores is far above the rounding of single precision.
        scores = scores.astype(np.float32)
        sums = scores.sum(axis=0, dtype=np.float64)
        size = sizes(scores, groups)
        priority = size / _random(number)
        some = np.flatnonzero(priority > self.needed)
        kept = ((priority[some], size[some], scores[some]),) if len(some) else ()
        return self.merge(RowSample(self.limit, 0.0, sums, products(scores, groups), kept))

    def merge(self, other: RowSample) -> RowSample:
        """The sample of both sets of rows."""
        found = RowSample(
            self.limit,
            max(self.needed, other.needed),
            self.sums + other.sums,
            self.products + other.products,
            self.kept + other.kept,
        )
        # Seldom: to choose each time would copy all rows that are kept.
        many = sum(len(priority) for priority, _, _ in found.kept) > 2 * self.limit + 2
        return found.shortened() if many else found

    def shortened(self) -> RowSample:
        """Without rows that are not needed: `limit` and one are, in their order."""
        if not self.kept:
            return self
        priority, size, scores = (np.concatenate(parts) for parts in zip(*self.kept, strict=True))
        count = self.limit + 1
        if len(priority) <= count:
            return self._replace(kept=((priority, size, scores),))
        best = np.sort(np.argpartition(-priority, count - 1)[:count])
        kept = priority[best], size[best], scores[best]
        return self._replace(needed=float(kept[0].min()), kept=(kept,))

    def weighted(self) -> tuple[Array, Array]:
        """The scores of at most `limit` rows, and how many times each counts."""
        if not self.kept:
            return np.zeros((0, len(self.sums))), np.zeros(0)
        ((priority, size, single),) = self.shortened().kept
        scores = single.astype(np.float64)
        if len(scores) <= self.limit:
            return scores, np.ones(len(scores))
        last = int(np.argmin(priority))
        times = np.maximum(1.0, priority[last] / size)
        rows = np.arange(len(times)) != last
        return scores[rows], times[rows]


def sizes(scores: Array, groups: list[Array]) -> Array:
    """Size of a row: |u|^4 / c for each view and group of c components, which no rotation changes."""
    k = scores.shape[1] // 2
    squares = np.square(scores, dtype=np.float64)
    alone = np.array([group[0] for group in groups if len(group) == 1], dtype=np.intp)
    part = squares[:, np.concatenate([alone, k + alone])]
    size = np.einsum("ij,ij->i", part, part)
    for group in groups:
        if len(group) > 1:
            for i in (group[0], k + group[0]):
                size += np.square(squares[:, i : i + len(group)].sum(axis=1)) / len(group)
    return np.asarray(size)


def products(scores: Array, groups: list[Array]) -> Array:
    """Sums of products of the scores of each group; others, which are not needed, are zero."""
    k = scores.shape[1] // 2
    found = np.zeros((2 * k, 2 * k))
    alone = np.array([group[0] for group in groups if len(group) == 1], dtype=np.intp)
    u, v = scores[:, alone], scores[:, k + alone]
    found[alone, alone] = np.einsum("ij,ij->j", u, u)
    found[k + alone, k + alone] = np.einsum("ij,ij->j", v, v)
    found[alone, k + alone] = found[k + alone, alone] = np.einsum("ij,ij->j", u, v)
    for group in groups:
        if len(group) > 1:
            both = np.concatenate([group, k + group])
            part = scores[:, both]
            found[np.ix_(both, both)] = part.T @ part
    return found


def _random(number: Array) -> Array:
    """A number above 0, and at most 1, for each row: SplitMix64 (Steele, Lea & Flood 2014) of its number."""
    z = (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(((z ^ (z >> np.uint64(31))) >> np.uint64(11)) + 1.0) * 2.0**-53
