"""Biplot: rows by their scores in two components, and leading features as arrows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.display import shown
from ..estimators.base import BaseCCA
from ..machine.arrays import Array
from .drawing import (
    BLUE,
    GREY,
    LENGTH,
    PLAIN,
    RED,
    axes,
    components_of,
    known_names,
    plain_legend,
    require_component,
    scatter_rows,
)
from .features import feature_correlations, measure_of


def biplot(
    model: BaseCCA,
    X: Any,
    y: Any = None,
    components: tuple[int, int] = (0, 1),
    top: int = 5,
    labels: npt.ArrayLike | None = None,
    x_names: Sequence[str] | None = None,
    y_names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """Rows as points by their scores in two components, and leading features as arrows.

    An arrow is the pair of correlations of a column with the two scores of its own view; with correlation 1
    it would end on the circle. For sparse components, only columns with a weight have an arrow.

    Parameters
    ----------
    model : CCA or SparseCCA
        A fitted model. Components of `KernelCCA` have no features to show.
    X, y : array-like
        Rows to draw. With X alone, points are its scores; with both, the means of the two views' scores.
    components : pair of int, default=(0, 1)
        Which components, counted from zero.
    top : int, default=5
        Largest number of arrows for each view: the longest are drawn.
    labels : array-like of shape (n_samples,), optional
        Groups or numbers that colour the points, as in `scores`.
    x_names, y_names : sequence of str, optional
        Names of all columns of the views; by default those of the fit, or x0, x1 ...
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_linnerud
    >>> from appgrad import CCA, plots
    >>> X, y = load_linnerud(return_X_y=True, as_frame=True)
    >>> ax = plots.biplot(CCA(2).fit(X, y), X, y, top=1)
    >>> [text.get_text() for text in ax.texts]
    ['Situps', 'Waist']
    >>> len(ax.collections[0].get_offsets())
    20
    """
    _require_pair(model, components)
    arrows = [_arrows(model, "x", components, top, x_names), _arrows(model, "y", components, top, y_names)]
    right, up = _points(model, X, y)[:, list(components)].T
    ax = axes(ax)
    scatter_rows(ax, right, up, labels, colour=GREY)
    _draw_arrows(ax, arrows, _radius(right, up))
    ax.set(xlabel=f"component {components[0] + 1}", ylabel=f"component {components[1] + 1}")
    ax.set_aspect("equal", adjustable="datalim")
    plain_legend(ax, loc="upper left", bbox_to_anchor=(1, 1))
    return ax


def _require_pair(model: BaseCCA, components: Sequence[int]) -> None:
    """Raise if these are not two components of the model."""
    if len(components) != 2:
        raise ValueError(f"a biplot has two components, got {components}")
    for component in components:
        require_component(component, components_of(model))


def _points(model: BaseCCA, X: Any, y: Any) -> Array:
    """Scores of X, or the means of the scores of both views."""
    found = model.array_scores(X, y)
    return np.asarray((found[0] + found[1]) / 2 if isinstance(found, tuple) else found)


def _radius(right: Array, up: Array) -> float:
    """Radius of a circle around nearly all points: a few far ones must not make arrows long."""
    return float(np.quantile(np.hypot(right, up), 0.95)) or 1.0


def _draw_arrows(ax: Any, arrows: Sequence[tuple[list[str], Array]], radius: float) -> None:
    """Draw the arrows of both views in a circle, with the names of their columns."""
    angle = np.linspace(0, 2 * np.pi, 200)
    ax.plot(radius * np.cos(angle), radius * np.sin(angle), color=GREY, linewidth=0.8)
    ends: list[Array] = []
    texts: list[tuple[str, str]] = []
    for (names, tips), view, colour in zip(arrows, "xy", (BLUE, RED), strict=True):
        of, start = radius * tips, np.zeros(len(tips))
        style = {"color": colour, "angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.004}
        ax.quiver(start, start, *of.T, label=f"columns of {view}", **style)
        ends += list(of)
        texts += [(shown(name, LENGTH), colour) for name in names]
    _draw_names(ax, texts, ends, radius)


def _draw_names(ax: Any, texts: list[tuple[str, str]], ends: list[Array], radius: float) -> None:
    """Write names, each in its colour, beside the ends of arrows."""
    paper = {"facecolor": ax.get_facecolor(), "alpha": 0.7, "linewidth": 0, "pad": 0.5}
    for (text, colour), (right, up), height in zip(texts, ends, _apart(ends, 0.11 * radius), strict=True):
        side = "left" if right >= 0 else "right"
        # A line leads to a name that was moved; beside other names it would read as a minus.
        moved = abs(height - 1.04 * up) > 0.05 * radius
        place = (1.04 * right, 1.04 * up), (1.12 * right if moved else 1.05 * right, height)
        looks = {"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkA": 0, "shrinkB": 2}
        line = looks if moved else None
        style = {"color": colour, "ha": side, "va": "center", "bbox": paper, **PLAIN}
        ax.annotate(text, *place, arrowprops=line, **style)


def _apart(ends: Sequence[Array], least: float) -> list[float]:
    """Heights of names beside the ends of arrows, at least `least` apart on each side."""
    heights = [1.04 * float(up) for _, up in ends]
    for right in (True, False):
        own = sorted((i for i, end in enumerate(ends) if (end[0] >= 0) == right), key=lambda i: heights[i])
        middle = sum(heights[i] for i in own)
        for before, after in pairwise(own):
            heights[after] = max(heights[after], heights[before] + least)
        # Move all of them back, so that their mean height is unchanged.
        shift = (sum(heights[i] for i in own) - middle) / max(1, len(own))
        for i in own:
            heights[i] -= shift
    return heights


def _arrows(
    model: BaseCCA, view: str, components: tuple[int, int], top: int, names: Sequence[str] | None
) -> tuple[list[str], Array]:
    """Names of the columns with the longest arrows, and where these end."""
    tips = np.column_stack([feature_correlations(model, view, component) for component in components])
    if measure_of(model) == "weight":
        used = (model.x_weights_ if view == "x" else model.y_weights_)[:, list(components)]
        tips[~np.any(used != 0, axis=1)] = 0
    lengths = np.hypot(*tips.T)
    order = np.argsort(-lengths, kind="stable")[:top]
    order = order[lengths[order] > 0]
    known = known_names(model, view, names)
    return [known[j] for j in order], tips[order]
