"""What small dense algebra costs, and bases that cannot be compared."""

from __future__ import annotations

import numpy as np

from ..machine.arrays import Array


def require_comparable(Gx: Array, Gy: Array) -> None:
    """Raise where the Gram matrices of a random start overflow."""
    if not (np.all(np.isfinite(Gx)) and np.all(np.isfinite(Gy))):
        raise ValueError(
            "the columns are too large or too different to be added up: rescale them, use scale=True, "
            "or preconditioner='jacobi'"
        )


def small_flops(p: int, c: int) -> float:
    """Gram matrices of two p x c bases in total (three of them), their roots, and the update."""
    return 6.0 * p * c * c + 40.0 * c**3 + 6.0 * p * c
