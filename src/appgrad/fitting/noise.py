"""The correlation that noise alone reaches: between views that are not related."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

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


def noise_level(n: int, x: Shrunk, y: Shrunk) -> Level:
    """Return the level of noise with n centred rows: the largest of those of equal spectra.

    Noise reaches sqrt(q1 q2) W(n, k1, k2) in k1 and k2 directions that keep q1 and q2 of their variance each,
    W without a ridge. Real spectra are not equal, and are not known here. In simulations of 486 settings, the
    largest level of equal ones with the same variance, and as many dimensions left at most, was about what
    noise reaches or above it, by more than 0.1 in 135 of them, where a few directions have nearly all the
    variance; 13 of 5800 data sets exceeded its limit.

    >>> round(noise_level(100, Shrunk(28, 98, 49), Shrunk(28, 98, 49)).edge, 2)
    0.71
    """
    if np.isinf(x.variance) and np.isinf(y.variance):
        return Level(noise_edge(n, x.left, y.left), noise_limit(n, x.left, y.left))
    edge = limit = 0.0
    for (k1, q1), (k2, q2) in product(x.spectra(), y.spectra()):
        kept = float(np.sqrt(q1 * q2))
        edge = max(edge, kept * noise_edge(n, k1, k2))
        limit = max(limit, kept * noise_limit(n, max(k1, 1.0), max(k2, 1.0)))
    # Where subspaces must meet, W is 1 and has no width: that of Tracy and Widom is of the order n^(-2/3).
    return Level(edge, max(limit, edge + n ** (-2 / 3) * float(np.sqrt(1 - edge * edge))))


def noise_edge(n: int, x: float, y: float) -> float:
    """Return the first correlation of unrelated views with x and y dimensions and n centred rows.

    That of large views: sqrt(c1 (1 - c2)) + sqrt(c2 (1 - c1)), c1 = x / (n - 1), c2 = y / (n - 1) (Wachter
    1980). It is 1 if two subspaces of these dimensions must meet.

    >>> round(noise_edge(100, 49, 49), 3)
    1.0
    >>> round(noise_edge(1000, 49, 49), 3)
    0.432
    """
    rows = max(n - 1, 1)
    c1, c2 = x / rows, y / rows
    if c1 + c2 >= 1:
        return 1.0
    return float(np.sqrt(c1 * (1 - c2)) + np.sqrt(c2 * (1 - c1)))


def noise_limit(n: int, x: float, y: float) -> float:
    """Return the correlation that the first one of unrelated views exceeds in about 1 of 1000 data sets.

    The approximation of Johnstone (2008, equations 5 and 6) for the largest squared correlation; 1 where two
    subspaces of these dimensions must meet.
    """
    degrees = n - 2
    if x + y >= n - 1 or degrees < 2:
        return 1.0
    gamma, phi = (2 * np.arcsin(np.sqrt((d - 0.5) / degrees)) for d in (min(x, y), max(x, y)))
    mean = 2 * np.log(np.tan((phi + gamma) / 2))
    spread = np.cbrt(16 / (degrees**2 * np.sin(phi + gamma) ** 2 * np.sin(gamma) * np.sin(phi)))
    return float(1 / np.sqrt(1 + np.exp(-(mean + TRACY_WIDOM * spread))))
