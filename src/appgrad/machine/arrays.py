"""Array types, and the machine precision of float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Matrix = Any  # a two-dimensional ndarray or scipy.sparse.csr_array of floats

EPS = float(np.finfo(np.float64).eps)
