"""Figures. Each function draws into an Axes and returns it; needs matplotlib (appgrad[plots])."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from .features import leading_columns, measure_of
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

    With a model, a dashed line shows what noise alone reaches: pure noise with as many rows and columns is
    above it in 5 of 100 data sets.

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
    noise = None if not isinstance(training, BaseCCA) else training.noise
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
    limits = np.full(len(training), np.nan) if noise is None else noise.limits(len(training))
    if not np.all(np.isnan(limits)):
        ax.plot(component, limits, "_" if len(limits) == 1 else "--", color=GREY, label="noise alone")
    if held_out is not None or not np.all(np.isnan(limits)):
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
    ax, place = axes(ax), np.arange(len(order))
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


def _curve(found: Any, against: str) -> tuple[Array, Array]:
    """Positions on the axis and captured correlations, of the steps that have both."""
    history = of_fitted(found, "history_")
    both = np.array([[step[against], step["tcc"]] for step in history], dtype=float).reshape(-1, 2)
    both = both[np.all(np.isfinite(both), axis=1)]
    return both[:, 0], both[:, 1]
