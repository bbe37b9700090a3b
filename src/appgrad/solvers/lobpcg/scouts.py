"""Scouts: pairs grown from single columns outside of the head, where the columns of a run may not come.

A run that starts from the pairs of a head knows other columns through a few random ones. Where hundreds of
correlations crowd below 1, each of a few rare columns, these grow too slowly to be seen. A single column is
near its own pair from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...covariance.joint import Joint
from ...covariance.linalg import column_dots
from ...covariance.operators import Covariance
from ...covariance.single_columns import columns_alone, random_columns
from ...machine.arrays import Array
from ..problem import Algorithm
from .algebra import Vectors

# The most scouts, how many there are for each column of the run, and the iterations they grow for: pairs of
# crowds need eight and more to overtake guards.
MOST, EACH, STEPS = 25, 3, 12
# Scouts end after so many iterations if the best is more than this factor further from 1 than the last pair
# found: in most crowds it was at most 1.4 by then, with strong pairs above a crowd up to 2.4.
FIRST, FAR = 6, 2.5
# Passes of a look with scouts: their first products, the iterations, and products once they have joined.
PASSES = STEPS + 2
# Looks with scouts, while they find something; and the last correlation above which they are sent. No run
# with a lower one was found to miss pairs of a crowd.
LOOKS, CROWDED = 3, 0.8
# Scouts count as a crowd within this factor of the distance of the last pair to 1: in crowds it was 1.35.
REACH = 1.5
# The least share of its variance that a scout has for itself: known pairs explain the rest.
OWN = 0.1


def scouts_of(width: int) -> int:
    """The scouts of a run of so many columns."""
    return min(MOST, EACH * width)


class Scouts(NamedTuple):
    """Pairs grown from single columns, their best correlation without what is known, and operations."""

    pairs: Vectors
    best: float
    flops: float

    def are_near(self, least: float, factor: float) -> bool:
        """True if the best is no further from 1 than the last correlation found, times a factor."""
        return 1 - self.best <= factor * (1 - least)


def grown_scouts(
    cov: Covariance,
    joint: Joint | None,
    known: Vectors,
    least: float,
    rng: np.random.Generator,
    run_from: Callable[[Array, Array], Algorithm],
) -> Scouts | None:
    """Grow scouts from random single columns, less what known pairs explain; None if nothing is left.

    `least` is the last correlation found: columns of which the ridge leaves more are preferred. Scouts that
    stay far below it are not grown to the end.
    """
    none, count = np.zeros(0, int), scouts_of(known.A.shape[1])
    head = (none, none) if joint is None else (joint.x, joint.y)
    chosen = random_columns(cov, head, count, least, rng)
    sides = (known.A, known.products[0]), (known.B, known.products[3])
    parts = []
    for columns, total, (C, SC) in zip(chosen, cov.diagonal(), sides, strict=True):
        Z = columns_alone(columns, total)
        shared = SC.T @ Z
        own = 1 - column_dots(shared, shared)
        parts.append((Z - C @ shared)[:, own > OWN])
    c = min(part.shape[1] for part in parts)
    if c == 0:
        return None
    run = run_from(parts[0][:, :c], parts[1][:, :c])
    state, found = run.init(cov, c, rng)
    flops = found.flops
    for step in range(1, STEPS + 1):
        state, found = run.step(state, cov)
        flops += found.flops
        if step in (FIRST, STEPS):
            A, B, products = state.pairs
            grown = Vectors(A.astype(np.float64), B.astype(np.float64), products)
            sent = Scouts(grown, best_without(grown, known), flops)
            if not sent.are_near(least, FAR):
                break
    return sent


def best_without(grown: Vectors, known: Vectors) -> float:
    """The best correlation in the span of grown columns, less what known pairs of variance one explain."""
    (A, B, (Axx, Axy, _, Byy)), (phi, _, (xx, xy, yx, yy)) = grown, known
    a, b = xx.T @ A, yy.T @ B
    Gx, Gy = A.T @ Axx - a.T @ a, B.T @ Byy - b.T @ b
    Gxy = A.T @ Axy - a.T @ (yx.T @ B) - (xy.T @ A).T @ b + a.T @ (phi.T @ xy) @ b
    Wx, Wy = _left_over(Gx), _left_over(Gy)
    T = Wx.T @ Gxy @ Wy
    return float(np.linalg.svd(T, compute_uv=False)[0]) if min(T.shape) else 0.0


def _left_over(G: Array) -> Array:
    """Coefficients of uncorrelated scores of variance one, of those that known pairs do not explain."""
    E, V = np.linalg.eigh((G + G.T) / 2)
    return np.asarray(V[:, E > OWN] / np.sqrt(E[E > OWN]))
