"""The time left of a run, said where it is known: from budgets, and from what is missing if that falls."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from .problem import Limits

# Points kept of a run; beyond, every second one is dropped, and only every second step is kept from then on.
POINTS = 256
# Share of the points at the end of the run which tell where the run is now.
NOW = 1 / 16
# Iterations, and seconds, before a rate means anything.
FIRST, SOON = 8, 1.0
# An estimate counts while the end that it foresees stays where it is: over the last third of the run, and
# over the last ninth, the time left must have fallen by this many seconds a second. A run that slows down
# has estimates which do not fall.
SHARES, FALL = (1 / 3, 1 / 9), (0.5, 2.0)


class Left(NamedTuple):
    """Seconds left: an estimate, and the most that the budgets leave; None where unknown."""

    estimate: float | None = None
    at_most: float | None = None


class Point(NamedTuple):
    """What a run had spent after a step, what it missed, and the seconds left foreseen then, NaN if none."""

    spent: Limits
    missing: float
    foreseen: float

    @property
    def seconds(self) -> float:
        """Seconds since the start of the run."""
        return self.spent.seconds or 0.0


class TimeLeft:
    """Follows a run, and estimates the seconds until a budget is used up or no more than `tol` is missing.

    `limits` are the budgets that are expected to end the run. If `tol` is not 0, the run may end before:
    budgets then bound the time left, and the estimate comes from what is missing.
    """

    def __init__(self, limits: Limits, tol: float) -> None:
        self.limits, self.tol = limits, tol
        # The last point is that of the last step; those before it are `stride` steps apart.
        self.points: list[Point] = []
        self.steps, self.stride = 0, 1

    def after(self, spent: Limits, missing: float) -> Left:
        """The time left after a step; `spent` is what the run has used up so far."""
        self._add(Point(spent, missing, np.nan))
        budget = self._until_budget()
        if self.tol <= 0:
            return Left(budget, None)
        found = self._until_tol()
        self.points[-1] = Point(spent, missing, found)
        if not self._holds():
            return Left(None, budget)
        return Left(found if budget is None else min(found, budget), None)

    def _add(self, point: Point) -> None:
        if self.points and self.steps % self.stride:
            self.points[-1] = point
        else:
            self.points.append(point)
        self.steps += 1
        if len(self.points) > POINTS:
            del self.points[1:-1:2]
            self.stride *= 2

    def _until_budget(self) -> float | None:
        """Seconds until the first budget is used up, at the rate of the last half of the run."""
        first, last = self.points[self._at(1 / 2)], self.points[-1]
        took = last.seconds - first.seconds
        found = [] if self.limits.seconds is None else [self.limits.seconds - last.seconds]
        for start, end, limit in zip(first.spent, last.spent, self.limits, strict=True):
            if limit is not None and start is not None and end is not None and end > start:
                found.append(took * (limit - end) / (end - start))
        return max(0.0, min(found)) if found else None

    def _until_tol(self) -> float:
        """Seconds until `tol` is missing if that falls as it did in the last half of the run, else NaN.

        Its logarithm falls by the slope of a line of least squares, from where it was on average at the end.
        """
        half = self.points[self._at(1 / 2) :]
        if len(self.points) < FIRST or not all(0 < point.missing < np.inf for point in half):
            return np.nan
        t, r = np.array([point.seconds for point in half]), np.log([point.missing for point in half])
        t -= t[-1]
        slope = float((t - t.mean()) @ r) / max(float((t - t.mean()) @ t), 1e-300)
        end = slice(-max(3, int(NOW * len(self.points))), None)
        above = float(r[end].mean() - slope * t[end].mean() - np.log(self.tol))
        return max(0.0, above / -slope) if slope < 0 else np.nan

    def _holds(self) -> bool:
        """True if the end that is foreseen now is about the one that was foreseen before."""
        last, start = self.points[-1], self.points[0].seconds
        if last.seconds - start < SOON:
            return False
        for share in SHARES:
            before = self.points[self._at(share)]
            passed = last.seconds - before.seconds
            if not (passed > 0 and FALL[0] <= (before.foreseen - last.foreseen) / passed <= FALL[1]):
                return False
        return True

    def _at(self, share: float) -> int:
        """Position of the point that came this share of the run ago, at least one step."""
        start, end = self.points[0].seconds, self.points[-1].seconds
        at = bisect_right(self.points, end - share * (end - start), key=lambda point: point.seconds)
        return max(0, min(at, len(self.points) - 1) - 1)
