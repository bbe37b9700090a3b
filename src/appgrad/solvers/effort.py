"""What the small dense algebra of an iteration costs."""

from __future__ import annotations


def small_flops(p: int, c: int) -> float:
    """Gram matrices of two p x c bases in total (three of them), their roots, and the update."""
    return 6.0 * p * c * c + 40.0 * c**3 + 6.0 * p * c
