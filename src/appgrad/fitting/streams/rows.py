"""Waiting rows of a stream, and the error of streams that cannot be merged."""

from __future__ import annotations

from typing import Any

from ...data.arrays import ArrayViews

UNMERGEABLE = "only models that keep second moments can be merged: steps of stochastic AppGrad have no sum"


def matrices(waiting: list[ArrayViews]) -> tuple[tuple[Any, Any], ...]:
    """Return the matrices of waiting rows, as a file holds them."""
    return tuple((rows.x, rows.y) for rows in waiting)


def views_of(matrices: Any, p1: int, p2: int) -> list[ArrayViews]:
    """Return waiting rows from their matrices; ValueError if they have other columns."""
    views = [ArrayViews(*pair) for pair in matrices]
    if any((rows.n_features_x, rows.n_features_y) != (p1, p2) for rows in views):
        raise ValueError("rows of other columns")
    return views
