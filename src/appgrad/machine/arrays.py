"""Array types, the machine precision of float64, and the one kind of array that numpy reads wrongly."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Matrix = Any  # a two-dimensional ndarray or scipy.sparse.csr_array of floats

EPS = float(np.finfo(np.float64).eps)


def require_unmasked(data: Any, name: str) -> None:
    """Raise if values are masked, in an array or in rows of a list: as plain arrays they would count."""
    parts = data if isinstance(data, list | tuple) else (data,)
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise ValueError(f"{name} is a masked array with masked values: fill or drop them first")
