"""Waiting rows of a stream, and the error of streams that cannot be merged."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ...data.arrays import ArrayViews

UNMERGEABLE = "only models that keep second moments can be merged: steps of stochastic AppGrad have no sum"


def matrices(waiting: list[ArrayViews]) -> tuple[tuple[Any, Any], ...]:
    """Return the matrices of waiting rows, as a file holds them."""
    return tuple((rows.x, rows.y) for rows in waiting)


def views_of(matrices: Any, p1: int, p2: int) -> list[ArrayViews]:
    """Return waiting rows from their matrices; ValueError if they have other columns."""
    for pair in matrices:
        for m, p in zip(pair, (p1, p2), strict=True):
            if not (isinstance(m, np.ndarray) or sp.issparse(m)) or m.ndim != 2 or m.shape[1] != p:
                raise ValueError("rows of other columns")
            if not np.all(np.isfinite(m.data if sp.issparse(m) else m)):
                raise ValueError("rows that are not finite")
    return [ArrayViews(*pair) for pair in matrices]
