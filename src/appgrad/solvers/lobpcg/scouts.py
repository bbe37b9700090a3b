"""Scouts: pairs grown from single columns outside of the head, where the columns of a run may not come.

A run that starts from the pairs of a head knows other columns through a few random ones. Where hundreds of
correlations crowd below 1, each of a few rare columns, these grow too slowly to be seen. A single column is
near its own pair from the start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...covariance.head_columns import outside, single
from ...covariance.joint import Joint
from ...covariance.linalg import column_dots
from ...covariance.rows import RowCovariance
from ...machine.arrays import Array
from ..problem import Algorithm
from .algebra import Vectors

# Scouts, and the iterations they grow for: pairs of crowds need eight and more to overtake guards.
COUNT, STEPS = 25, 12
# Looks with scouts, while they find something; and the last correlation above which they are sent. No run
# with a lower one was found to miss pairs of a crowd.
LOOKS, CROWDED = 3, 0.8
# Passes of a look with scouts: their products, the iterations, and those of the pairs they have become.
PASSES = STEPS + 2
# The least share of its variance that a scout has for itself: known pairs explain the rest.
OWN = 0.1


class Scouts(NamedTuple):
    """Pairs grown from single columns, the best correlation they have beside known pairs, and operations."""

    A: Array
    B: Array
    best: float
    flops: float


def scouts(
    cov: RowCovariance,
    joint: Joint | None,
    known: Vectors,
    rho: float,
    look: int,
    algorithm: Callable[[tuple[Array, Array]], Algorithm],
    dtype: Any,
) -> Scouts | None:
    """Grow scouts from random single columns, less what known pairs explain; None if nothing is left.

    `rho` is the last correlation found; columns of which the ridge leaves more come first. `look` seeds the
    choice. `algorithm` runs from columns given, in the precision `dtype`.
    """
    rng, none = np.random.default_rng(look), np.zeros(0, int)
    head = (none, none) if joint is None else (joint.x, joint.y)
    chosen = outside(cov, head, COUNT, rho, rng)
    sides = (known.A, known.products[0]), (known.B, known.products[3])
    parts = []
    for columns, total, (C, SC) in zip(chosen, cov.diagonal(), sides, strict=True):
        Z = single(columns, total)
        shared = SC.T @ Z
        own = 1 - column_dots(shared, shared)
        parts.append((Z - C @ shared)[:, own > OWN])
    c = min(part.shape[1] for part in parts)
    if c == 0:
        return None
    run, part = algorithm((parts[0][:, :c], parts[1][:, :c])), cov.at(dtype)
    state, found = run.init(part, c, rng)
    flops = found.flops
    for _ in range(STEPS):
        state, found = run.step(state, part)
        flops += found.flops
    A, B, products = state.pairs
    grown = Vectors(A.astype(np.float64), B.astype(np.float64), products)
    return Scouts(grown.A, grown.B, best_beside(grown, known), flops)


def best_beside(grown: Vectors, known: Vectors) -> float:
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
