"""Preconditioned conjugate gradients for both views at a time: one pass over the data an iteration."""

from __future__ import annotations

import numpy as np

from ..covariance.linalg import column_dots
from ..covariance.operators import Covariance
from ..covariance.preconditioners import Preconditioner
from ..machine.arrays import Array


def conjugate_gradients(
    cov: Covariance,
    M: Preconditioner,
    start: tuple[Array, Array],
    residuals: tuple[Array, Array],
    most: int,
    tol: float,
) -> tuple[Array, Array, float]:
    """Solve Sx A = Cx and Sy B = Cy, all columns at a time; return A, B and the operations they cost.

    `start` are first values of A and B, `residuals` are Cx - Sx A and Cy - Sy B there. At most `most`
    iterations bring the residuals to `tol` times the first ones. Each column has its own step lengths.
    """
    (A, B), (Rx, Ry) = start, residuals
    Zx, Zy = M(Rx, Ry)
    Dx, Dy = Zx, Zy
    size_x, size_y = column_dots(Rx, Zx), column_dots(Ry, Zy)
    # D'MD, M being the preconditioner: if D'SD is lost in its rounding, the step length is unknown.
    norm_x, norm_y = size_x, size_y
    goal, flops = tol**2 * (size_x.sum() + size_y.sum()), 0.0
    for _ in range(most):
        if size_x.sum() + size_y.sum() <= goal:
            break
        SDx, SDy = cov.squares(Dx, Dy)
        flops += 2 / 3 * cov.flops(A.shape[1]) + M.flops(A.shape[1])
        ax = _ratios(size_x, column_dots(Dx, SDx), cov.precision * norm_x)
        ay = _ratios(size_y, column_dots(Dy, SDy), cov.precision * norm_y)
        A, B = A + ax * Dx, B + ay * Dy
        Rx, Ry = Rx - ax * SDx, Ry - ay * SDy
        Zx, Zy = M(Rx, Ry)
        new_x, new_y = column_dots(Rx, Zx), column_dots(Ry, Zy)
        bx, by = _ratios(new_x, size_x), _ratios(new_y, size_y)
        Dx, Dy = Zx + bx * Dx, Zy + by * Dy
        norm_x, norm_y = new_x + bx * bx * norm_x, new_y + by * by * norm_y
        size_x, size_y = new_x, new_y
    return A, B, flops


def _ratios(a: Array, b: Array, least: Array | float = 0.0) -> Array:
    """a / b, and 0 where b is not above `least`."""
    return np.asarray(np.where(b > least, a / np.where(b > least, b, 1.0), 0.0))
