"""The correlation that noise alone reaches: between views that are not related."""

from __future__ import annotations

import numpy as np

# The 99.9 % point of the Tracy-Widom distribution of real data: a first correlation above it is no noise.
TRACY_WIDOM = 3.2724


def noise_edge(n: int, x: int, y: int) -> float:
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


def noise_limit(n: int, x: int, y: int) -> float:
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
