"""How much of the total correlation a run still misses, as far as it can tell by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..machine.arrays import EPS, Array

# Iterations in a row that must seem to miss less than `tol`.
IN_A_ROW = 3
# Totals of the last iterations that are kept.
KEPT = 41
# The share of what may be missing that counts as nothing: more steps would add rounding errors.
NOTHING = 0.01
# Residuals tell half of what is missing, or more, where nothing hides (docs/decisions/0014).
SAFETY = 2.0
# Spans of iterations over which gains are compared with those before.
SPANS = (3, 5, 10, 20)
# The most that a pair may miss where all of them together miss no more than tol, in units of tol.
ONE = 10
# Gains that fall as 1 / count leave about count times the last one, those that fall more slowly leave more.
SLOWLY = 2.0
# Gains below this many units in the last place of the total are rounding.
NOISE = 100


class Watch(NamedTuple):
    """What a run has captured after each of its last iterations, and how much it still misses.

    `missing` is what its residuals say, or more if it gains slowly, `least` the lowest correlation. `below`
    counts the last iterations in a row in which that and what the gains tell were both below `tol`.
    """

    totals: tuple[float, ...] = ()
    missing: float = np.inf
    below: int = 0
    least: float = 0.0

    def after(self, total: float, missing: float, tol: float, least: float = 0.0) -> Watch:
        """Return the watch after one more iteration."""
        totals = (*self.totals, total)[-KEPT:]
        little = max(missing, by_gains(totals)) <= tol * total
        return Watch(totals, missing, self.below + 1 if little else 0, least)

    def measured_again(self, total: float, missing: float, tol: float, least: float = 0.0) -> Watch:
        """Return the watch after the last iteration has been measured in a higher precision."""
        totals = (*self.totals[:-1], total)
        little = max(missing, by_gains(totals)) <= tol * total
        return Watch(totals, missing, self.below if little else 0, least)

    def anew(self, tol: float) -> Watch:
        """Return the watch of a run whose gains so far say nothing: it is settled if residuals say so."""
        total = self.totals[-1]
        return self._replace(totals=(total,), below=IN_A_ROW if self.missing <= tol * total else 0)

    def is_settled(self, k: int, tol: float) -> bool:
        """True if k pairs miss no more than the share `tol`, as far as can be told."""
        if tol <= 0 or not self.totals:
            return False
        little = tol * self.totals[-1]
        if self.has_all(k, tol) or self.missing <= NOTHING * little:
            return True
        return self.below >= IN_A_ROW

    def has_all(self, k: int, tol: float) -> bool:
        """True if k pairs would gain no more than a little by correlations of 1, together and each."""
        if not self.totals or 1 - self.least > ONE * tol:
            return False
        return k - self.totals[-1] <= tol * self.totals[-1]


def by_residuals(rho: Array, squares: Array, k: int) -> float:
    """What the k best pairs of a span miss, estimated from the squared residuals of all its pairs.

    With r = (C - rho B) w for a pair w, C the covariances between the views and B those within, the next
    correlation above rho is about rho + r'(rho B - C)^-1 r: a preconditioner gives that to a small factor.
    Pairs below the k best, which guard them, count if they may still rise above the last of these.
    """
    if len(rho) < k:
        return float(np.inf)
    rises = squares / 2 / np.maximum(rho, 1e-300)
    # No pair rises above 1: where correlations are tiny, squares / rho is far more than that.
    rises = np.minimum(rises, np.maximum(1.0 - rho, 0.0) + squares / 2)
    guards = np.maximum(rho[k:] + SAFETY * rises[k:] - rho[k - 1], 0.0)
    return float(SAFETY * np.sum(rises[:k]) + np.sum(guards))


def by_gains(totals: Sequence[float]) -> float:
    """What a run will still gain if its gains go on to fall as they did: infinite if they do not fall.

    It is never less than what the last three iterations gained.
    """
    rounding = NOISE * EPS * abs(totals[-1]) if totals else 0.0
    if len(totals) <= SPANS[0]:
        return float(np.inf)
    most = totals[-1] - totals[-1 - SPANS[0]]
    for span in SPANS:
        gained = totals[-1] - totals[-1 - span] if len(totals) > 2 * span else 0.0
        if gained > rounding:
            before = totals[-1 - span] - totals[-1 - 2 * span]
            most = max(most, gained * gained / (before - gained) if before > gained else np.inf)
    return most if most > rounding else 0.0


def by_count(totals: Sequence[float], count: int) -> float:
    """What `count` iterations of alternations leave to gain, where correlations crowd.

    Each iteration multiplies the share of a pair by a factor of its own. Of many pairs with all factors up to
    1, what is missing falls as 1 / count or more slowly, and not as a geometric series.
    """
    span = min(max(count // 4, SPANS[0]), len(totals) - 1)
    if span == 0:
        return float(np.inf)
    gained = totals[-1] - totals[-1 - span]
    return SLOWLY * count * gained / span if gained > NOISE * EPS * abs(totals[-1]) else 0.0
