"""Shared by gradient steps: the gradient, the first step, and when an iterate is lost."""

from __future__ import annotations

import numpy as np

from ..machine.arrays import Array
from .problem import Products

# Fixed points have phi_t'Sx phi_t = diag(rho)^2, mean squares of at most 1: within CALM a state is worth
# returning to, beyond RUNAWAY it is lost, and in between it is lost if it captures less than COLLAPSE of what
# a calm one did.
CALM, RUNAWAY, COLLAPSE = 2.0, 100.0, 0.5


def gradients(products: Products, Nx: Array, Ny: Array) -> tuple[Array, Array]:
    """Sx phi_t - Sxy psi and Sy psi_t - Syx phi: least squares of the leading pair (Lemma 2.3)."""
    xx, xy, yx, yy = products
    return xx - xy @ Ny, yy - yx @ Nx


def in_phase(C: Array) -> Array:
    """The rotation Q of the first basis that makes Q'C symmetric and positive, for C = phi'Sxy psi.

    Both sides step at once, each towards the other's last value: a pair that starts with a negative
    correlation would change signs for ever. The paper's start is free up to such a rotation.
    """
    P, _, Qt = np.linalg.svd(C)
    return np.asarray(P @ Qt)


def mean_square(Gx: Array, Gy: Array) -> float:
    """The larger mean square of the scores of phi_t and psi_t; infinite where they overflow."""
    finite = np.all(np.isfinite(Gx)) and np.all(np.isfinite(Gy))
    return float(max(np.trace(Gx), np.trace(Gy)) / len(Gx)) if finite else np.inf


def is_lost(size: float, tcc: float, good: float) -> bool:
    """True if an iterate has run away, or is about to and captures much less than a good one did."""
    return not size <= RUNAWAY or (size > CALM and tcc < COLLAPSE * good)


def cut(size: float, good: float) -> float:
    """Return the divisor of a step that made mean squares of `good` into `size`: its overshoot, at least 2.

    Too long a step multiplies mean squares by about (eta L)^2.
    """
    return max(2.0, float(np.sqrt(size / max(good, 1.0)))) if size < np.inf else 2.0**50


def unit(G: Array) -> tuple[Array, float]:
    """Return a gradient over its largest entry, and that entry."""
    length = float(np.abs(G).max())
    return (G / length, length) if length > 0 else (G, 0.0)


def contained(length: float, G: Array) -> float:
    """A length of at most `length` with which a direction of Gram matrix G has a mean square of at most 1."""
    square = float(np.trace(G)) / len(G)
    return min(length, 1 / np.sqrt(square)) if square > 0 else 0.0
