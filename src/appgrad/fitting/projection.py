"""Scores of rows from the weights of a solution."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ..data.blocks import BLOCK_BYTES, ENTRY_BYTES
from ..data.finite import Naming, Place, require_finite
from ..data.kernels import Map
from ..data.views import Block, Views
from ..machine.arrays import Array, Matrix
from ..machine.threads import limit_for
from ..solvers.problem import Solution


class Projection(NamedTuple):
    """A function from rows of one view to their scores: (rows - mean) @ weights.

    It holds only what this needs, so that it can be sent to workers. `label` and `names` are those of the
    view and its columns, `place` says where a row is, for errors; `features` maps rows to features, None if
    these are the columns.
    """

    mean: Array
    weights: Array
    label: str
    names: Array | None = None
    features: Map | None = None
    place: Place | None = None

    @property
    def n_features(self) -> int:
        """Number of scores: one for each component."""
        return int(self.weights.shape[1])

    def __call__(self, x: Matrix, offset: int = 0) -> Array:
        """Return the scores of these rows; error messages number the first one `offset`."""
        name = Naming(self.label, self.names, self.place)
        if self.features is None:
            return project(x, self.mean, self.weights, self.label, name, offset)
        with limit_for(x.shape[0] * self.features.n_features * (x.shape[1] + self.features.n_features)):
            return self._of_features(x, offset, self.features, name)

    def _of_features(self, x: Matrix, offset: int, features: Map, name: Naming) -> Array:
        size = max(1, BLOCK_BYTES // (8 * features.n_features))
        scores = np.empty((x.shape[0], self.n_features), _precision(x))
        for start in range(0, len(scores), size):
            part = x[start : start + size]
            require_finite(part, name, offset + start)
            found = project(features(part), self.mean, self.weights, self.label, name, offset + start)
            require_in_range(found, scores.dtype, f"scores of {self.label}", offset + start)
            scores[start : start + size] = found
        return scores


def project(rows: Matrix, mean: Array, weights: Array, label: str, name: Naming, offset: int = 0) -> Array:
    """(rows - mean) @ weights, a few rows at a time, in double precision.

    For errors, `label` is the name of the view, and `name` those of its columns and rows.
    """
    scores = np.empty((rows.shape[0], weights.shape[1]), dtype=_precision(rows))
    W = weights.astype(np.float64)
    sparse = hasattr(rows, "nnz")
    width = ENTRY_BYTES * rows.nnz / max(rows.shape[0], 1) if sparse else 8 * rows.shape[1]
    size = max(1, int(BLOCK_BYTES / max(width, 8 * W.shape[1])))
    with limit_for(float(rows.shape[0]) * W.size):
        center = mean @ W
        for start in range(0, len(scores), size):
            part = rows[start : start + size]
            with np.errstate(over="ignore", invalid="ignore"):
                found = part @ W - center if sparse else (part - mean) @ W
            if not np.all(np.isfinite(found)):
                require_finite(part, name, offset + start)
            require_in_range(found, scores.dtype, f"scores of {label}", offset + start)
            scores[start : start + size] = found
    return scores


def require_in_range(values: Array, dtype: Any, what: str, offset: int = 0) -> None:
    """Raise if values made of finite ones are too large for a precision; `offset` numbers the first row."""
    # NaN is what sums of too large terms become.
    bad = ~(np.abs(values) <= np.finfo(dtype).max)
    if np.any(bad):
        row = offset + int(np.flatnonzero(bad.reshape(len(values), -1).any(axis=1))[0])
        raise ValueError(
            f"{what} in row {row} are too large for {np.dtype(dtype).name}: the row is far from those of the "
            "fit; rescale or drop it"
        )


def scores_of(views: Views, x: Projection, y: Projection) -> tuple[Array, Array]:
    """Return the scores of all rows of both views; errors call these by their own names."""
    named = [
        found._replace(label=naming.view_name, place=naming.row)
        for found, naming in ((x, views.titles.naming(0)), (y, views.titles.naming(1)))
    ]
    parts = views.reduce(partial(_block_scores, (named[0], named[1])), _joined)
    return np.vstack([u for u, _ in parts]), np.vstack([v for _, v in parts])


def projections(solution: Solution) -> tuple[Projection, Projection]:
    """Return the projections of a solution, one for each view."""
    s = solution
    return Projection(s.mean_x, s.x_weights, "X"), Projection(s.mean_y, s.y_weights, "y")


def in_precision(solution: Solution, dtype: np.dtype[Any]) -> Solution:
    """Return a solution with weights and loadings in the precision of the data, if that can hold them."""
    s = solution
    return s._replace(
        x_weights=_cast(s.x_weights, dtype),
        y_weights=_cast(s.y_weights, dtype),
        x_loadings=_cast(s.x_loadings, dtype),
        y_loadings=_cast(s.y_loadings, dtype),
        y_slopes=_cast(s.y_slopes, dtype),
    )


def _precision(rows: Matrix) -> type[np.floating[Any]]:
    return np.float32 if rows.dtype.kind == "f" and rows.dtype.itemsize <= 4 else np.float64


def _block_scores(maps: tuple[Projection, Projection], block: Block) -> list[tuple[Array, Array]]:
    x, y = block.views
    return [(maps[0](x, block.offset), maps[1](y, block.offset))]


def _joined(a: list[Any], b: list[Any]) -> list[Any]:
    return a + b


def _cast(values: Array, dtype: np.dtype[Any]) -> Array:
    """Return values in the precision of the data, or unchanged if that cannot hold them."""
    with np.errstate(over="ignore", under="ignore"):
        cast = values.astype(dtype)
    fits = np.all(np.isfinite(cast)) and np.all(np.abs(cast) >= np.finfo(dtype).tiny, where=values != 0)
    return cast if fits else values
