"""A sample of the rows that count most in fourth moments of scores, in bounded memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..machine.arrays import Array


class RowSample(NamedTuple):
    """Scores of rows kept by priority, and sums over all rows; mergeable.

    Priority sampling (Duffield, Lund & Thorup 2007): the priority of a row is its size over a random number
    between 0 and 1, the same in each run. Of `limit` rows of highest priority, and the next one's priority t,
    a row counts max(1, t / size) times. Sums of fourth powers are then unbiased, large rows are there for
    certain, and all rows are if they are not more than `limit`. No row of a priority below `needed` is.
    `scores` are those of both views, side by side, `sums` and `products` those of all rows.
    """

    limit: int
    needed: float
    sums: Array
    products: Array
    priority: Array
    size: Array
    scores: Array

    @classmethod
    def empty(cls, limit: int, columns: int) -> RowSample:
        """A sample of no rows with so many scores each."""
        sums, products = np.zeros(columns), np.zeros((columns, columns))
        return cls(limit, 0.0, sums, products, np.zeros(0), np.zeros(0), np.zeros((0, columns), np.float32))

    def add(self, scores: Array, size: Array, number: Array) -> RowSample:
        """The sample with more rows: their scores, sizes and numbers."""
        priority = size / _random(number)
        some = np.flatnonzero(priority > self.needed)
        kept = priority[some], size[some], scores[some].astype(np.float32)
        here = RowSample(self.limit, self.needed, scores.sum(axis=0), scores.T @ scores, *kept)
        return self.merge(here)

    def merge(self, other: RowSample) -> RowSample:
        """The sample of both sets of rows."""
        found = RowSample(
            self.limit,
            max(self.needed, other.needed),
            self.sums + other.sums,
            self.products + other.products,
            *(np.concatenate(pair) for pair in zip(self[4:], other[4:], strict=True)),
        )
        # Seldom: to choose each time would copy all rows that are kept.
        return found.shortened() if len(found.priority) > 2 * self.limit + 2 else found

    def shortened(self) -> RowSample:
        """Without rows that are not needed: `limit` and one are, in their order."""
        count = self.limit + 1
        if len(self.priority) <= count:
            return self
        best = np.sort(np.argpartition(-self.priority, count - 1)[:count])
        priority = self.priority[best]
        needed = float(priority.min())
        return self._replace(needed=needed, priority=priority, size=self.size[best], scores=self.scores[best])

    def weighted(self) -> tuple[Array, Array]:
        """The scores of at most `limit` rows, and how many times each counts."""
        kept = self.shortened()
        scores = kept.scores.astype(np.float64)
        if len(scores) <= self.limit:
            return scores, np.ones(len(scores))
        last = int(np.argmin(kept.priority))
        times = np.maximum(1.0, kept.priority[last] / kept.size)
        rows = np.arange(len(times)) != last
        return scores[rows], times[rows]


def _random(number: Array) -> Array:
    """A number above 0, and at most 1, for each row: SplitMix64 (Steele, Lea & Flood 2014) of its number."""
    z = (number.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(((z ^ (z >> np.uint64(31))) >> np.uint64(11)) + 1.0) * 2.0**-53
