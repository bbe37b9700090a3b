"""Draws the figures of docs/algorithms.md: the bound of Theorem 2.1, and section 3's sampled Gram matrix.

    python docs/figures/draw.py

The numbers are those the tests check (tests/test_theory.py).
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))


def local_rate() -> None:
    """Error of AppGrad inside the contraction region, and the theorem's bound, for three starts."""
    from test_theory import local_rate

    figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
    for share, color in ((0.01, "#1f5fa8"), (0.3, "#d1495b"), (0.9, "#4c956c")):
        errors, bounds = local_rate(0, share, steps=600)
        name = f"$e_0$ at {share:.0%} of the region"
        ax.semilogy(errors, color=color, label=f"{name}: measured")
        ax.semilogy(bounds, color=color, linestyle="--", label="bound")
    ax.set(xlabel="iteration", ylabel=r"$\|\Delta\tilde\phi\|^2 + \|\Delta\tilde\psi\|^2$")
    ax.set_ylim(1e-6, 2)
    ax.legend(frameon=False, fontsize=8, loc="lower left")
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "local_rate.png", dpi=120)


def sampled_gram() -> None:
    """Relative error of phi' S_m phi against m, for growing p, and that of S_m itself."""
    from test_theory import sampled_gram_error

    figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
    sizes = np.array([10, 20, 50, 100, 200, 500, 1000])
    for p, color in ((20, "#1f5fa8"), (100, "#d1495b"), (500, "#4c956c")):
        errors = np.array([sampled_gram_error(p, m, repeats=10) for m in sizes])
        ax.loglog(sizes, errors[:, 0], "o-", color=color, label=f"p = {p}: 5 x 5 Gram matrix")
        ax.loglog(sizes, errors[:, 1], "s--", color=color, alpha=0.6, label="the p x p matrix")
    ax.set(xlabel="sampled rows m", ylabel="relative error (spectral norm)")
    ax.legend(frameon=False, fontsize=8)
    ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(HERE / "sampled_gram.png", dpi=120)


if __name__ == "__main__":
    local_rate()
    sampled_gram()
