"""Settings of an iterative solver from its options: preconditioner, columns carried, step sizes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..data.views import Views
from .costs import OVERSAMPLING, is_full
from .protocol import Options


def preconditioner_kind(asked: str | None, views: Views) -> str | None:
    """Return the kind of preconditioner: "auto" is low-rank for full rows, the diagonal for sparse ones.

    Sparse columns hardly share directions, and a product with eighty dense ones costs more than one with the
    data.
    """
    if asked != "auto":
        return asked
    return "lowrank" if is_full(views) else "jacobi"


def width_of(options: Options, k: int, views: Views, rows: int, sampled: bool = False) -> int:
    """Return the columns of the bases: components and oversampling, no more than `rows` can tell apart.

    If rows are `sampled` for a normaliser, there should be ten times as many of them as columns.
    """
    p1, p2 = views.n_features_x, views.n_features_y
    if options.oversampling is not None:
        return min(k + options.oversampling, p1, p2)
    extra = max(OVERSAMPLING, min(k, rows // 10 - k)) if sampled else OVERSAMPLING
    return max(k, min(k + extra, p1, p2, rows - 1))


def step_sizes(
    options: Options,
    bounds: Callable[[], tuple[float, float]],
    preconditioned: bool,
    noise: tuple[float, float] = (0.0, 0.0),
) -> tuple[float, float]:
    """Return step sizes of both views: one over the largest eigenvalue, or the numbers asked for.

    A preconditioned covariance is scaled so that its largest eigenvalue is 1: a number given is then relative
    to that.
    """
    asked = options.steps
    if asked is not None and not preconditioned:
        return asked
    found = (bound + extra for bound, extra in zip(bounds(), noise, strict=True))
    eta1, eta2 = (1 / bound if bound > 0 else 1.0 for bound in found)
    factor_x, factor_y = asked or (1.0, 1.0)
    largest_float = float(np.finfo(np.float64).max)
    with np.errstate(over="ignore"):
        return min(factor_x * eta1, largest_float), min(factor_y * eta2, largest_float)
