"""The coordinates algorithms work in: means, scales and ridges, one record per view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..machine.arrays import EPS, Array
from .moments import Moments


@dataclass(frozen=True)
class KernelRidge:
    """The ridge r K of views that are centred Gram matrices K: it penalises functions, not weights.

    With it, Sx = K^2 / n + r K, and a linear kernel gives what linear CCA gives with the ridge r.
    """

    r: float
    diagonal: Array


Ridge = str | float | KernelRidge


class ViewUnits(NamedTuple):
    """The coordinates of one view: (X - mean) * scale, and the diagonal of the ridge there.

    Constant columns have scale 0: they are left out, and their weights are zero.
    """

    mean: Array
    scale: Array
    ridge: Array


class Units(NamedTuple):
    """The coordinates algorithms work in, one record per view."""

    views: tuple[ViewUnits, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of columns of each view."""
        return tuple(len(view.scale) for view in self.views)

    def restricted(self, *columns: Array) -> Units:
        """The units of some columns of each view."""
        pairs = zip(self.views, columns, strict=True)
        return Units(tuple(ViewUnits(*(part[i] for part in view)) for view, i in pairs))


def units(
    m: Moments,
    dtype: np.dtype[Any],
    *,
    scale: bool = False,
    ridge: Ridge | tuple[Ridge, Ridge] = "auto",
) -> Units:
    """Means, scales and ridges for data with these moments.

    ridge="auto" is 1e-10 (float32: 1e-6) times each column's variance; a number is absolute and is
    added to the covariance diagonals of the (optionally scaled) data; a pair is one per view. A
    `KernelRidge` is for both views or none.
    """
    found: list[ViewUnits] = []
    pair = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    for (mean, var), r in zip(m.views, pair, strict=True):
        varies = vary(mean, var)
        s = np.where(varies, 1.0 / np.sqrt(np.where(varies, var, 1.0)) if scale else 1.0, 0.0)
        if isinstance(r, KernelRidge):
            found.append(ViewUnits(mean, s, r.r * r.diagonal * s))
        elif r == "auto":
            found.append(ViewUnits(mean, s, auto_ridge(dtype) * var * s * s))
        else:
            found.append(ViewUnits(mean, s, np.full(len(s), float(r))))
    return Units(tuple(found))


def vary(mean: Array, var: Array) -> Array:
    """True for columns that are not constant: rounding of values alone gives these a little spread."""
    return np.asarray(np.sqrt(var) > 10 * EPS * np.abs(mean))


def auto_ridge(dtype: np.dtype[Any]) -> float:
    """The share of each column's variance that ridge="auto" adds to it."""
    return 1e-10 if dtype == np.float64 else 1e-6


def kernel_ridges(ridge: Ridge | tuple[Ridge, Ridge]) -> tuple[float, float] | None:
    """r of both views if they are Gram matrices, otherwise None."""
    x, y = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    return (x.r, y.r) if isinstance(x, KernelRidge) and isinstance(y, KernelRidge) else None


def working_dtype(m: Moments, dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The precision of thin products: that of the data, unless squares of the data overflow in it."""
    variances = np.concatenate([view.var for view in m.views])
    spread = variances[variances > 0]
    if dtype == np.float64 or not len(spread) or (spread.max() < 1e30 and spread.min() > 1e-30):
        return dtype
    return np.dtype(np.float64)
