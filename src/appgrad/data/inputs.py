"""Checked matrices from user input: arrays, sparse matrices and data frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import check_array
from sklearn.utils.validation import _get_feature_names

from ..machine.arrays import Array, Matrix, require_unmasked
from .sparse_format import require_sound
from .views import canonical_csr, summable


def is_dask(data: Any) -> bool:
    """True if this is a Dask collection: an array, a data frame, or a delayed object."""
    return hasattr(data, "__dask_graph__")


def feature_names(data: Any) -> Array | None:
    """The column names of a data frame when all are strings, otherwise None."""
    names: Array | None = _get_feature_names(data)
    return names


def as_column(y: Any) -> Any:
    """A one-dimensional y as a matrix of one column; anything else as it is."""
    if hasattr(y, "columns") or sp.issparse(y):
        return y
    if hasattr(y, "to_frame"):
        return y.to_frame()
    require_unmasked(y, "y")
    y = y if isinstance(y, np.ndarray) else np.asarray(y)
    return y.reshape(-1, 1) if y.ndim == 1 else y


def as_matrix(data: Any, name: str, min_rows: int = 1) -> Matrix:
    """A two-dimensional ndarray or canonical CSR matrix of real numbers, without a copy where possible."""
    require_unmasked(data, name)
    if hasattr(data, "collect") and not hasattr(data, "__array__"):
        raise TypeError(f"{name} is a lazy frame: call its collect() first")
    if hasattr(data, "columns") and hasattr(data, "dtypes"):
        _require_numbers(data, name)
    if sp.issparse(data):
        # Before anything else: compiled code does not look where its indices point.
        require_sound(data, name)
    m = check_array(
        summable(data),
        accept_sparse="csr",
        dtype="numeric",
        ensure_all_finite=False,
        ensure_min_samples=min_rows,
        input_name=name,
    )
    if m.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {m.dtype}: CCA needs real numbers; convert or drop such columns")
    if m.dtype.kind == "f" and m.dtype.itemsize > 8:
        m = m.astype(np.float64)
    if not sp.issparse(m):
        return m
    if m.dtype.itemsize == 2 and m.dtype.kind == "f":
        m = m.astype(np.float32)
    return canonical_csr(m)


def _require_numbers(frame: Any, name: str) -> None:
    """Raise an error that names the first column of a data frame that does not hold numbers."""
    for j, (column, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        # pandas types have a kind; polars types and columns of objects are known by their names.
        kind = getattr(dtype, "kind", "O")
        if kind in "biuf" or str(dtype).startswith(("Int", "UInt", "Float", "Boolean", "Decimal")):
            continue
        if kind == "O" and str(dtype) == "object" and _are_numbers(frame.iloc[:, j]):
            continue
        raise ValueError(
            f"column {j} ({column!r}) of {name} has type {dtype}, not numbers: convert it, for example to "
            "indicator columns, or drop it"
        )


def _are_numbers(column: Any) -> bool:
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True
