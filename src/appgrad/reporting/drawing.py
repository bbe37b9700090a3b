"""Shared parts of figures: axes, coloured points, names and legends shown as they are, and checks."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ..data.display import shown
from ..estimators.base import BaseCCA
from ..machine.arrays import Array
from .features import names_of
from .groups import COLOURS, Groups, groups_or_numbers

BLUE, RED, GREY = "#1f5fa8", "#d1495b", "0.6"
# Names of features and groups are data: dollar signs in them must not be read as mathematics.
PLAIN = {"parse_math": False, "usetex": False}
# Most characters of a name beside a bar or an arrow, or in a legend.
LENGTH = 32


def scatter_rows(ax: Any, x: Array, y: Array, labels: npt.ArrayLike | None, colour: str = BLUE) -> None:
    """Draw rows as points, coloured by group or number; many points are smaller and more transparent."""
    style = {"s": 16 if len(x) < 500 else 9, "alpha": 0.8 if len(x) < 500 else 0.6, "linewidths": 0}
    if labels is None:
        ax.scatter(x, y, color=colour, **style)
        return
    if len(np.asarray(labels)) != len(x):
        raise ValueError(
            f"there are {len(np.asarray(labels))} labels for {len(x)} rows: expected one for each"
        )
    found = groups_or_numbers(labels)
    if not isinstance(found, Groups):
        known = np.isfinite(found)
        if not known.all():
            ax.scatter(x[~known], y[~known], color=GREY, **style)
        ax.figure.colorbar(ax.scatter(x[known], y[known], c=found[known], cmap="viridis", **style), ax=ax)
        return
    for code, name in enumerate(found.names):
        of = found.codes == code
        ax.scatter(x[of], y[of], color=COLOURS[code], label=shown(name, LENGTH), **style)
    # Beside the plot: the points leave no corner free for ten names.
    plain_legend(ax, loc="upper left", bbox_to_anchor=(1, 1))


def known_names(model: BaseCCA, view: str, names: Sequence[str] | None) -> list[str]:
    """Names of the columns of a view: those given, or those of the model."""
    known = names_of(model, view)
    if names is None:
        return known
    if len(names) != len(known):
        raise ValueError(f"there are {len(names)} names for {len(known)} columns of view {view!r}")
    return [str(name) for name in names]


def of_fitted(found: Any, attribute: str) -> Any:
    """An attribute of a model, which must be fitted; anything that is not a model is returned as it is."""
    if not isinstance(found, BaseCCA):
        return found
    check_is_fitted(found, "canonical_correlations_")
    return getattr(found, attribute)


def components_of(model: BaseCCA) -> int:
    """Number of components of a fitted model."""
    return len(of_fitted(model, "canonical_correlations_"))


def require_component(component: int, k: int) -> None:
    """Raise if there is no such component."""
    if not 0 <= operator.index(component) < k:
        raise ValueError(f"there are components 0 to {k - 1}, got {component}")


def plain_legend(ax: Any, **where: Any) -> None:
    """Add a legend whose names are shown as they are."""
    legend = ax.legend(frameon=False, **where)
    for handle in legend.legend_handles:
        handle.set_alpha(1)
    for text in legend.get_texts():
        text.set(**PLAIN)


def axes(ax: Any) -> Any:
    """The Axes to draw into, new if None is given, without the top and right sides of the frame."""
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError("figures need matplotlib: pip install 'appgrad[plots]'") from error
        ax = plt.subplots(figsize=(6, 3.5), layout="constrained")[1]
    ax.spines[["top", "right"]].set_visible(False)
    return ax
