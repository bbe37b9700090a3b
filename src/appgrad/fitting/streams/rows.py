"""Rows of a stream that wait in memory, and what both kinds of streams say of them."""

from __future__ import annotations

from typing import Any

from ...data.arrays import ArrayViews

UNMERGEABLE = "only models that keep second moments can be merged: steps of stochastic AppGrad have no sum"


def matrices(waiting: list[ArrayViews]) -> tuple[tuple[Any, Any], ...]:
    """The matrices of rows that wait: what a file holds of them."""
    return tuple((rows.x, rows.y) for rows in waiting)


def views_of(matrices: Any, p1: int, p2: int) -> list[ArrayViews]:
    """Rows again; ValueError where they have other columns."""
    views = [ArrayViews(*pair) for pair in matrices]
    if any((rows.n_features_x, rows.n_features_y) != (p1, p2) for rows in views):
        raise ValueError("rows of other columns")
    return views
