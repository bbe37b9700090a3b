"""The correlation that noise alone reaches with a ridge, where no theory is exact."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from .distributions import edge as edge_of
from .distributions import johnstone_limit

# The 99.9 % point of the Tracy-Widom distribution of real data: a first correlation above it is no noise.
TRACY_WIDOM = 3.2724
# Spectra that are tried, and the smallest share of the dimensions that one may leave: noise has its first
# correlation in directions of high variance. Where the dimensions are not known, all shares are possible.
SPECTRA, SMALLEST = 8, 0.4


class Level(NamedTuple):
    """First correlation of unrelated views: the usual one, and one that few data sets exceed."""

    edge: float
    limit: float


class Shrunk(NamedTuple):
    """A view with a ridge R: the trace of S (S + R)^-1, that of S R^-1, and the dimensions without a ridge.

    The second is infinite without a ridge.
    """

    left: float
    variance: float
    full: int

    def spectra(self) -> list[tuple[float, float]]:
        """Return k and q of spectra like this one: k directions that keep q of their variance each.

        With an equal share of the variance v, k directions keep q = v / (v + k) each and leave t = k q, so
        q = 1 - t / v.
        """
        v = self.variance
        if np.isinf(v):
            return [(self.left, 1.0)]
        # No spectrum leaves more than an equal one: what is above that is an upper bound.
        most = self.full * v / (v + self.full)
        smallest = SMALLEST if self.left <= most else 1 / (2 * SPECTRA)
        left = np.linspace(smallest, 1, SPECTRA) * min(self.left, most)
        # The least is that of the most dimensions, which rounding would take for none.
        kept = np.maximum(1 - left / v, v / (v + self.full))
        found = [(float(k), float(q)) for k, q in zip(left / kept, kept, strict=True)]
        return [(k, q) for k, q in found if k >= 1] or found[-1:]


def ridged_level(n: int, x: Shrunk, y: Shrunk) -> Level:
    """Return the level of noise with n centred rows: the largest of those of equal spectra.

    Noise reaches sqrt(q1 q2) W(n, k1, k2) in k1 and k2 directions that keep q1 and q2 of their variance each,
    W without a ridge. Real spectra are not equal, and are not known here. In simulations of 486 settings, the
    largest level of equal ones with the same variance, and as many dimensions left at most, was about what
    noise reaches or above it, by more than 0.1 in 135 of them, where a few directions have nearly all the
    variance; 13 of 5800 data sets exceeded its limit.

    >>> round(ridged_level(100, Shrunk(28, 98, 49), Shrunk(28, 98, 49)).edge, 2)
    0.71
    """
    if np.isinf(x.variance) and np.isinf(y.variance):
        return Level(edge_of(n, x.left, y.left), _limit(n, x.left, y.left))
    edge = limit = 0.0
    for (k1, q1), (k2, q2) in product(x.spectra(), y.spectra()):
        kept = float(np.sqrt(q1 * q2))
        edge = max(edge, kept * edge_of(n, k1, k2))
        limit = max(limit, kept * _limit(n, max(k1, 1.0), max(k2, 1.0)))
    # Where subspaces must meet, W is 1 and has no width: that of Tracy and Widom is of the order n^(-2/3).
    return Level(edge, max(limit, edge + n ** (-2 / 3) * float(np.sqrt(1 - edge * edge))))


def _limit(n: int, x: float, y: float) -> float:
    """Return the correlation that the first one of noise exceeds in about 1 of 1000 data sets."""
    return 1.0 if x + y >= n - 1 or n < 4 else johnstone_limit(TRACY_WIDOM, n, x, y)
