"""When a run looks at clusters before it has settled, and what looks leave to be found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...machine.arrays import Array

# A run looks at clusters at the latest when it settles, and as soon as an iteration gains less than so many
# times `tol`: pairs of other columns, if there are any, are then most of what it misses.
EARLY = 5
# With fewer pairs below the last one, those that join early would not stay in the span until they have grown.
GUARDS = 3
# The share of the columns above which a look at clusters counts as one at all of them.
MOST_COLUMNS = 0.5


def gains_little(totals: Sequence[float], tol: float) -> bool:
    """True if the last iteration has gained so little that a look may bring more."""
    return len(totals) > 1 and totals[-1] - totals[-2] < EARLY * tol * totals[-1]


def outside(rho: Array, k: int, width: int, looked: float) -> float:
    """The correlation that pairs outside of the span of these may have: about that of those below the k best.

    0 if there are fewer than `width` pairs in all, or if looks have covered more than half of the columns, a
    share `looked`. NaN if there is none below: what a look has found may then not have stayed in the span.
    `looked` is 0 if a look has found no pair as good; the first pair below then counts, not the middle one.
    """
    below = rho[k:]
    if len(rho) < width or (looked > MOST_COLUMNS and len(below)):
        return 0.0
    if not len(below):
        return np.nan
    return float(below[0] if looked == 0 else np.median(below))
