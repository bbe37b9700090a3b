"""Figures. Each function draws into an Axes and returns it; needs matplotlib (appgrad[plots])."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def scree(training: npt.ArrayLike, held_out: npt.ArrayLike | None = None, ax: Any = None) -> Any:
    """Canonical correlations by component, on training rows and, if given, on held-out rows."""
    ax = _axes() if ax is None else ax
    training = np.asarray(training)
    component = np.arange(1, len(training) + 1)
    ax.plot(component, training, "o-", color="#1f5fa8", label="training")
    if held_out is not None:
        ax.plot(component, np.asarray(held_out), "s--", color="#d1495b", label="held out")
        ax.legend(frameon=False)
    ax.axhline(0, color="0.6", linewidth=0.8)
    ax.set(xlabel="component", ylabel="correlation", ylim=(min(-0.02, np.min(ax.get_ylim())), 1.03))
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _axes() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'appgrad[plots]'") from error
    return plt.subplots(figsize=(6, 3.5), layout="constrained")[1]
