"""Distribution of the largest canonical correlation of unrelated views: exact, and for large views."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, gammaincc, gammaincinv, logit

from ..machine.arrays import Array
from .largest_root import tail

# The exact distribution takes a few milliseconds for as many pairs. Beyond, the approximation puts between
# 4.8 and 5 % of all data sets above its limit of 5 %.
EXACT = 50
# The distribution of Tracy and Widom for real data is nearly that of a gamma variable of this shape and
# scale, shifted (Chiani 2014, table I).
SHAPE, SCALE, SHIFT = 46.446, 0.186054, 9.84801
# The largest logit: that of squares which doubles tell apart from 1.
LARGEST = 36.0


def largest_tail(square: float, n: int, p: int, q: int) -> float:
    """Return how often the largest squared correlation of noise exceeds this value, with p + q dimensions.

    n is the number of centred rows, one more if they are not centred. Exact for normal rows if p or q is at
    most 50; beyond, the approximation of Johnstone (2008).

    >>> round(largest_tail(0.633, 20, 3, 3), 4)
    0.0205
    """
    require_room(n, p, q)
    if not square > 0:
        return 1.0
    if square >= 1:
        return 0.0
    if min(p, q) <= EXACT:
        return tail(square, n, p, q)
    mean, spread = _johnstone(n, p, q)
    if np.isinf(mean):
        return 1.0
    return float(gammaincc(SHAPE, max((float(logit(square)) - mean) / spread + SHIFT, 0.0) / SCALE))


@lru_cache(maxsize=4096)
def largest_limit(share: float, n: int, p: int, q: int) -> float:
    """Return the correlation that the largest one of noise exceeds in this share of all data sets.

    >>> round(largest_limit(0.05, 20, 3, 3), 4), round(largest_limit(0.05, 1000, 100, 100), 3)
    (0.7575, 0.606)
    """
    require_room(n, p, q)
    if min(p, q) > EXACT:
        return approximate_limit(share, n, p, q)
    # The approximation is never too small. In units of the logit, it is off by less than its width.
    mean, spread = _johnstone(n, p, q)
    high = LARGEST if np.isinf(mean) else mean + spread * _quantile(share)
    low = high - (1.0 if np.isinf(mean) else spread)
    while _tail_at(low, n, p, q) < share:
        low -= high - low
    while _tail_at(high, n, p, q) > share:
        if high >= LARGEST:
            return 1.0
        high += high - low
    x = brentq(lambda x: _tail_at(x, n, p, q) - share, low, high, xtol=1e-9)
    return float(np.sqrt(expit(x)))


def _tail_at(x: float, n: int, p: int, q: int) -> float:
    return tail(float(expit(x)), n, p, q)


def approximate_limit(share: float, n: int, p: int, q: int) -> float:
    """Return the same by Johnstone's approximation, which is slightly too large for small views."""
    return johnstone_limit(_quantile(share), n, p, q)


def johnstone_limit(quantile: float, n: int, p: float, q: float) -> float:
    """Return the largest correlation of noise at this quantile of the distribution of Tracy and Widom."""
    mean, spread = _johnstone(n, p, q)
    return float(np.sqrt(expit(mean + quantile * spread)))


def _quantile(share: float) -> float:
    """The value that a Tracy-Widom variable exceeds with this probability."""
    return float(gammaincinv(SHAPE, 1 - share)) * SCALE - SHIFT


def require_room(n: int, p: int, q: int) -> None:
    """Raise unless subspaces of p and q dimensions can do without a common direction in n centred rows."""
    if min(p, q) < 1 or p + q >= n:
        raise ValueError(f"{p} + {q} dimensions of {n} rows: expected at least one each, and fewer than rows")


def edge(n: int, p: float, q: float) -> float:
    """Return the largest correlation of noise where n, p and q are large (Wachter 1980); 1 if it is forced.

    sqrt(c1 (1 - c2)) + sqrt(c2 (1 - c1)) with c1 = p / (n - 1), c2 = q / (n - 1).

    >>> round(edge(100, 49, 49), 3), round(edge(1000, 49, 49), 3)
    (1.0, 0.432)
    """
    rows = max(n - 1, 1)
    c1, c2 = p / rows, q / rows
    if c1 + c2 >= 1:
        return 1.0
    return float(np.sqrt(c1 * (1 - c2)) + np.sqrt(c2 * (1 - c1)))


def debiased(squares: Array, n: int, p: int, q: int) -> Array:
    """Return correlations without what noise adds to them, from squared ones; NaN at or below the edge.

    For large n, p and q, a correlation rho is found at lambda (Bao, Hu, Pan & Zhou 2019); this solves for
    rho^2 = (lambda - c1 (1 - c2) - c2 (1 - c1) + sqrt((lambda - l-) (lambda - l+))) / (2 (1 - c1) (1 - c2)),
    l-+ = (sqrt(c1 (1 - c2)) -+ sqrt(c2 (1 - c1)))^2.
    """
    c1, c2 = p / (n - 1), q / (n - 1)
    a, b = c1 * (1 - c2), c2 * (1 - c1)
    low, high = (np.sqrt(a) - np.sqrt(b)) ** 2, (np.sqrt(a) + np.sqrt(b)) ** 2
    found = np.full(len(squares), np.nan)
    if c1 + c2 >= 1:
        return found
    above = squares > high
    kept = squares[above]
    root = np.sqrt((kept - low) * (kept - high))
    found[above] = np.sqrt(np.clip((kept - a - b + root) / (2 * (1 - c1) * (1 - c2)), 0.0, 1.0))
    return found


def _johnstone(n: int, p: float, q: float) -> tuple[float, float]:
    """Mean and scale of the logit of the largest squared correlation (Johnstone 2008, equations 5 and 6).

    sin^2(gamma / 2) = (min - 1/2) / (n - 2), sin^2(phi / 2) = (max - 1/2) / (n - 2). The mean is infinite if
    all rows but one are spanned.
    """
    rows = n - 2
    if p + q >= n - 1:
        return np.inf, 0.0
    gamma, phi = (2 * np.arcsin(np.sqrt((d - 0.5) / rows)) for d in (min(p, q), max(p, q)))
    mean = 2 * np.log(np.tan((phi + gamma) / 2))
    spread = np.cbrt(16 / (rows**2 * np.sin(phi + gamma) ** 2 * np.sin(gamma) * np.sin(phi)))
    return float(mean), float(spread)
