"""Figures. Each function draws into an Axes and returns it; needs matplotlib (appgrad[plots])."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.display import shown
from ..estimators.base import BaseCCA
from ..machine.arrays import Array
from ..metrics import correlations
from .drawing import (
    BLUE,
    GREY,
    LENGTH,
    PLAIN,
    RED,
    axes,
    components_of,
    known_names,
    of_fitted,
    plain_legend,
    require_component,
    scatter_rows,
)
from .features import feature_correlations, leading_columns, measure_of
from .groups import COLOURS

# Quantities that `convergence` can be drawn against, and labels of the axis.
AGAINST = {
    "iteration": "iterations",
    "passes": "passes over the rows",
    "seconds": "seconds",
    "flops": "floating-point operations",
}


def scree(training: npt.ArrayLike | BaseCCA, held_out: npt.ArrayLike | None = None, ax: Any = None) -> Any:
    """Canonical correlations by component, on training rows and, if given, on held-out rows.

    Parameters
    ----------
    training : model, or array-like of shape (n_components,)
        A fitted model, or its `training_correlations_`.
    held_out : array-like of shape (n_components,), optional
        Correlations of other rows; NaN is left out.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from appgrad import plots
    >>> ax = plots.scree([0.9, 0.5], held_out=[0.8, 0.1])
    >>> ax.lines[1].get_ydata()
    array([0.8, 0.1])
    """
    training = np.asarray(of_fitted(training, "training_correlations_"))
    if training.ndim != 1:
        raise TypeError(f"scree takes a model or its correlations, got an array of shape {training.shape}")
    if held_out is not None and np.shape(held_out) != training.shape:
        raise ValueError(f"{len(training)} components, but held_out has shape {np.shape(held_out)}")
    ax = axes(ax)
    component = np.arange(1, len(training) + 1)
    ax.plot(component, training, "o-", color=BLUE, label="training")
    if held_out is not None:
        ax.plot(component, np.asarray(held_out), "s--", color=RED, label="held out")
        ax.legend(frameon=False)
    ax.axhline(0, color=GREY, linewidth=0.8)
    ax.set(xlabel="component", ylabel="correlation", ylim=(min(-0.02, np.min(ax.get_ylim())), 1.03))
    ax.xaxis.get_major_locator().set_params(integer=True)
    return ax


def scores(
    U: npt.ArrayLike,
    V: npt.ArrayLike,
    component: int = 0,
    labels: npt.ArrayLike | None = None,
    ax: Any = None,
) -> Any:
    """Scores of the two views against each other, a point for each row.

    Parameters
    ----------
    U, V : array-like of shape (n_samples, n_components)
        Scores, as `transform(X, y)` returns them.
    component : int, default=0
        Which component, counted from zero.
    labels : array-like of shape (n_samples,), optional
        Groups or numbers that colour the points; of more than ten groups, the nine largest.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes
        Its title is the correlation of these scores.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from sklearn.datasets import load_linnerud
    >>> from appgrad import CCA, plots
    >>> U, V = CCA(2).fit_transform(*load_linnerud(return_X_y=True))
    >>> plots.scores(U, V).get_title()
    'component 1: correlation 0.796'
    """
    U, V = (np.asarray(M)[:, None] if np.ndim(M) == 1 else np.asarray(M) for M in (U, V))
    if U.ndim != 2 or V.ndim != 2:
        raise TypeError("scores takes two matrices of scores, as model.transform(X, y) returns them")
    require_component(component, min(U.shape[1], V.shape[1]))
    u, v = U[:, [component]], V[:, [component]]
    rho = correlations(u, v)[0]
    ax = axes(ax)
    scatter_rows(ax, u[:, 0], v[:, 0], labels)
    ax.set(xlabel="x score", ylabel="y score", title=f"component {component + 1}: correlation {rho:.3f}")
    return ax


def loadings(
    model: BaseCCA,
    component: int = 0,
    view: str = "x",
    top: int = 10,
    names: Sequence[str] | None = None,
    ax: Any = None,
) -> Any:
    """The features that matter most to a component, as bars, the strongest on top.

    Bars are correlations of the columns with the scores of their view; for `SparseCCA` the weights of the
    columns that have one, in units of the columns.

    Parameters
    ----------
    model : CCA or SparseCCA
        A fitted model. Components of `KernelCCA` have no features to show.
    component : int, default=0
        Which component, counted from zero.
    view : {"x", "y"}, default="x"
        Which view.
    top : int, default=10
        Largest number of features.
    names : sequence of str, optional
        Names of all columns of the view; by default those of the fit, or x0, x1 ...
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
    >>> ax = plots.loadings(CCA(2).fit(X, y), top=2)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['Situps', 'Chins']
    >>> [round(float(bar.get_width()), 2) for bar in ax.patches]
    [0.82, 0.73]
    """
    if view not in ("x", "y"):
        raise ValueError(f"view must be 'x' or 'y', got {view!r}")
    require_component(component, components_of(model))
    order, values = leading_columns(model, view, component, top)
    known = known_names(model, view, names)
    ax = axes(ax)
    place = np.arange(len(order))
    ax.barh(place, values, color=[BLUE if value > 0 else RED for value in values], height=0.7)
    ax.set_yticks(place, labels=[shown(known[j], LENGTH) for j in order], **PLAIN)
    ax.invert_yaxis()
    ax.axvline(0, color=GREY, linewidth=0.8)
    what = measure_of(model)
    if what == "correlation":
        ax.set_xlim(-1.0 if np.any(values < 0) else 0.0, 1.0 if np.any(values > 0) else 0.0)
    ax.set(xlabel=f"{what} ({view})", title=f"component {component + 1}")
    return ax


def convergence(histories: Any, against: str = "iteration", ax: Any = None) -> Any:
    """Correlation captured on the way to a solution, summed over the components.

    Parameters
    ----------
    histories : model, `history_`, or mapping of names to either
        One curve, or several with a legend. A direct solver is a single point.
    against : {"iteration", "passes", "seconds", "flops"}, default="iteration"
        Quantity on the horizontal axis; the axis of flops is logarithmic.
    ax : matplotlib Axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> from appgrad import CCA, plots
    >>> from appgrad.datasets import planted
    >>> p = planted(1000, 20, 20, [0.9, 0.5], random_state=0)
    >>> model = CCA(2, solver="lobpcg", random_state=0).fit(p.X, p.y)
    >>> ax = plots.convergence({"LOBPCG": model}, against="passes")
    >>> round(float(ax.lines[0].get_ydata()[-1]), 3) == round(float(model.canonical_correlations_.sum()), 3)
    True
    """
    if against not in AGAINST:
        raise ValueError(f"against must be one of {list(AGAINST)}, got {against!r}")
    named = histories if isinstance(histories, Mapping) else {"": histories}
    curves = {str(name): _curve(found, against) for name, found in named.items()}
    if not any(len(t) for t, _ in curves.values()):
        raise ValueError(
            f"nothing to draw: no step has {against} and a correlation; direct solvers count no flops"
        )
    ax = axes(ax)
    for i, (name, (t, tcc)) in enumerate(curves.items()):
        style = {"color": COLOURS[i % len(COLOURS)], "label": shown(name, LENGTH)}
        ax.plot(t, tcc, "o" if len(t) == 1 else "-", **style)
    if against == "flops":
        ax.set_xscale("log")
    if any(curves):
        plain_legend(ax)
    ax.set(xlabel=AGAINST[against], ylabel="correlation captured (sum)")
    return ax


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
    if len(components) != 2:
        raise ValueError(f"a biplot has two components, got {components}")
    for component in components:
        require_component(component, components_of(model))
    arrows = {view: _arrows(model, view, components, top) for view in "xy"}
    found = model.transform(X) if y is None else model.transform(X, y)
    points = np.asarray(found if isinstance(found, np.ndarray) else (found[0] + found[1]) / 2)
    ax = axes(ax)
    scatter_rows(ax, points[:, components[0]], points[:, components[1]], labels, colour=GREY)
    # The circle encloses nearly all points; a few far ones must not make arrows long.
    radius = float(np.quantile(np.hypot(*points[:, list(components)].T), 0.95)) or 1.0
    angle = np.linspace(0, 2 * np.pi, 200)
    ax.plot(radius * np.cos(angle), radius * np.sin(angle), color=GREY, linewidth=0.8)
    ends: list[Array] = []
    texts: list[tuple[str, str]] = []
    for view, colour, names in (("x", BLUE, x_names), ("y", RED, y_names)):
        known, (order, tips) = known_names(model, view, names), arrows[view]
        of, start = radius * tips, np.zeros(len(tips))
        style = {"color": colour, "angles": "xy", "scale_units": "xy", "scale": 1, "width": 0.004}
        ax.quiver(start, start, *of.T, label=f"columns of {view}", **style)
        ends += list(of)
        texts += [(shown(known[j], LENGTH), colour) for j in order]
    _draw_names(ax, texts, ends, radius)
    ax.set(xlabel=f"component {components[0] + 1}", ylabel=f"component {components[1] + 1}")
    ax.set_aspect("equal", adjustable="datalim")
    plain_legend(ax, loc="upper left", bbox_to_anchor=(1, 1))
    return ax


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


def _arrows(model: BaseCCA, view: str, components: tuple[int, int], top: int) -> tuple[Array, Array]:
    """Positions of the columns with the longest arrows, and where these end."""
    tips = np.column_stack([feature_correlations(model, view, component) for component in components])
    if measure_of(model) == "weight":
        used = (model.x_weights_ if view == "x" else model.y_weights_)[:, list(components)]
        tips[~np.any(used != 0, axis=1)] = 0
    lengths = np.hypot(*tips.T)
    order = np.argsort(-lengths, kind="stable")[:top]
    order = order[lengths[order] > 0]
    return order, tips[order]


def _curve(found: Any, against: str) -> tuple[Array, Array]:
    """Positions on the axis and captured correlations, of the steps that have both."""
    history = of_fitted(found, "history_")
    both = np.array([[step[against], step["tcc"]] for step in history], dtype=float).reshape(-1, 2)
    both = both[np.all(np.isfinite(both), axis=1)]
    return both[:, 0], both[:, 1]
