"""Scores in the container that `set_output` asks for: arrays, or pandas or polars frames."""

from __future__ import annotations

from typing import Any

# scikit-learn has no public call for this: its own wrapper is one for methods of X alone.
from sklearn.utils._set_output import _wrap_data_with_container

from ..data.inputs import is_dask
from ..data.sources import is_views


def in_containers(model: Any, X: Any, y: Any, scores: Any) -> Any:
    """Scores of X, of y, or of both as a pair, in the container set for the model or for all of scikit-learn.

    Frames take the index of the rows they come from. Scores of Dask stay Dask arrays, not computed yet.
    """
    if isinstance(scores, tuple):
        rows = (None, None) if is_views(X) else (X, y)
        return tuple(_contained(model, one, of) for one, of in zip(scores, rows, strict=True))
    return _contained(model, scores, y if X is None else X)


def _contained(model: Any, scores: Any, rows: Any) -> Any:
    return scores if is_dask(scores) else _wrap_data_with_container("transform", scores, rows, model)
