"""Names of columns, and the leading columns of a component."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..data.files.text import open_text
from ..estimators.base import BaseCCA
from ..estimators.kernel import KernelCCA
from ..estimators.sparse import SparseCCA
from ..machine.arrays import Array


def names_of(model: BaseCCA, view: str, file: Path | None = None) -> list[str]:
    """Names of the columns of a view: from a file, from the fit, or x0, x1 ..."""
    names = None if file is None else lines_of(file, "a column name")
    return checked_names(model, view, names, str(file))


def checked_names(model: BaseCCA, view: str, names: Sequence[str] | None, label: str) -> list[str]:
    """Names of the columns of a view: these, those of the fit, or x0, x1 ...; `label` is for errors."""
    p = model.n_features_in_ if view == "x" else model.n_features_y_
    if names is None:
        fitted = getattr(model, "feature_names_in_" if view == "x" else "feature_names_y_", None)
        return [f"{view}{j}" for j in range(p)] if fitted is None else [str(name) for name in fitted]
    if len(names) != p:
        raise ValueError(f"{label} has {len(names)} names, the model has {p} columns in this view")
    return [str(name) for name in names]


def lines_of(file: Path, expected: str) -> list[str]:
    """The lines of a text file, which may be gzipped; `expected` is what should be in each."""
    try:
        with open_text(str(file)) as lines:
            return lines.read().removesuffix("\n").split("\n")
    except FileNotFoundError:
        raise FileNotFoundError(f"{file}: no such file") from None
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8 text: expected {expected} a line") from None


def measure_of(model: BaseCCA) -> str:
    """How the importance of a column is measured: "weight" for sparse models, "correlation" for others."""
    return "weight" if isinstance(model, SparseCCA) else "correlation"


def feature_correlations(model: BaseCCA, view: str, component: int) -> Array:
    """Correlations of all columns of a view with one of its scores."""
    _require_features(model)
    x = view == "x"
    loadings, std = (model.x_loadings_, model.x_std_) if x else (model.y_loadings_, model.y_std_)
    return np.asarray(loadings[:, component] / np.where(std > 0, std, 1.0))


def leading_columns(model: BaseCCA, view: str, component: int, top: int) -> tuple[Array, Array]:
    """Positions and values of the columns that matter most to a score, strongest first.

    Values are correlations; for sparse components they are weights in units of the columns, and columns
    without a weight are left out.
    """
    _require_features(model)
    if isinstance(model, SparseCCA):
        weights, std = (model.x_weights_, model.x_std_) if view == "x" else (model.y_weights_, model.y_std_)
        values = weights[:, component] * std
        order = np.argsort(-np.abs(values), kind="stable")[:top]
        order = order[values[order] != 0]
    else:
        values = feature_correlations(model, view, component)
        order = np.argsort(-np.abs(values), kind="stable")[:top]
    return order, values[order]


def leading_features(
    model: BaseCCA, view: str, component: int, top: int, names: list[str]
) -> list[dict[str, Any]]:
    """The leading columns of a score, by name, with their values."""
    measure = measure_of(model)
    return [
        {"feature": names[j], measure: float(value)}
        for j, value in zip(*leading_columns(model, view, component, top), strict=True)
    ]


def leading_components(
    model: BaseCCA, top: int, names: tuple[list[str], list[str]]
) -> list[dict[str, list[dict[str, Any]]]]:
    """The leading features of every component in both views; an empty list for KernelCCA."""
    components = 0 if isinstance(model, KernelCCA) else len(model.canonical_correlations_)
    return [
        {view: leading_features(model, view, i, top, known) for view, known in zip("xy", names, strict=True)}
        for i in range(components)
    ]


def _require_features(model: BaseCCA) -> None:
    if isinstance(model, KernelCCA):
        raise TypeError(
            "components of KernelCCA are functions of all columns at a time: there are no leading features. "
            "Look at their scores, or fit CCA or SparseCCA"
        )
