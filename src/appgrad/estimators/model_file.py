"""Models loaded from files."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..data.names import shown
from ..fitting import archive as persist
from ..fitting.warnings import Remark
from .base import COUNTS, FACTS, BaseCCA
from .cca import CCA
from .kernel import KernelCCA
from .provenance import LENGTH, Origin
from .sparse import SparseCCA

ESTIMATORS: dict[str, type[BaseCCA]] = {"CCA": CCA, "KernelCCA": KernelCCA, "SparseCCA": SparseCCA}


def load(path: str | os.PathLike[str]) -> BaseCCA:
    """The model in a file written by `save`. Nothing is unpickled, whatever the file holds.

    Examples
    --------
    >>> import tempfile, os, appgrad
    >>> from sklearn.datasets import load_linnerud
    >>> X, y = load_linnerud(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "m.cca")
    ...     appgrad.CCA(2).fit(X, y).save(path)
    ...     round(appgrad.load(path).score(X, y), 6)
    0.498082
    """
    arrays, meta = persist.read(path)
    if meta.get("estimator") not in ESTIMATORS:
        raise ValueError(f"{path} holds a {meta.get('estimator')}, which this version of appgrad cannot read")
    try:
        model: BaseCCA = ESTIMATORS[meta["estimator"]]().set_params(
            **{name: tuple(v) if isinstance(v, list) else v for name, v in meta["params"].items()}
        )
        fitted, model._y_1d = meta.get("fitted", True), meta["y_1d"]
        for name in FACTS if fitted else COUNTS:
            setattr(model, name, _fact(name, meta["facts"][name]))
        model._set_names(*meta["feature_names"])
        model._unpack_facts(meta.get("more"), arrays, meta["version"])
        if fitted:
            model.history_ = _history(meta["history"])
            model._remarks = _remarks(meta.get("remarks", []))
            for name in model._arrays:
                setattr(model, name, arrays[name])
            _require_whole(model)
            origin, k = meta.get("origin"), len(model.canonical_correlations_)
            model._origin = None if origin is None else Origin.unpacked(origin, k)
        if meta.get("stream") is not None or not fitted:
            model._unpack_stream(meta["stream"], arrays, meta["version"])
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is damaged or not an appgrad model file ({error!r})") from error
    return model


def _fact(name: str, found: Any) -> Any:
    """A fact of a fit; TypeError where it is of another kind."""
    kind = {"n_passes_": float, "solver_": str, "solver_reason_": str}.get(name, int)
    values = found if name == "n_iter_" else [found]
    if not isinstance(values, list) or not values or any(type(value) is not kind for value in values):
        raise TypeError(f"{name} is {found!r}")
    if kind is not str and not (np.all(np.isfinite(values)) and min(values) >= 0):
        raise TypeError(f"{name} is {found!r}")
    return shown(found, LENGTH) if kind is str else found


def _remarks(found: Any) -> tuple[Remark, ...]:
    """What a fit has warned of; TypeError for what is none."""
    if not isinstance(found, list) or any([type(part) for part in one] != [str, bool] for one in found):
        raise TypeError("its remarks are of another kind")
    return tuple(Remark(shown(text, LENGTH), overfit) for text, overfit in found)


def _history(found: Any) -> list[dict[str, Any]]:
    """The steps of a fit; TypeError unless each says in numbers where it stood."""
    numbers = ("iteration", "passes", "seconds", "flops", "tcc")
    if not isinstance(found, list) or not found:
        raise TypeError("there is no history")
    for step in found:
        if not all(isinstance(step[name], int | float) for name in numbers):
            raise TypeError("its history is not of numbers")
    return found


def _require_whole(model: BaseCCA) -> None:
    """Raise TypeError unless the arrays of a loaded model fit together and are finite."""
    k, p1, p2 = len(model.canonical_correlations_), model.n_features_in_, model.n_features_y_
    names = zip(model._names(), (p1, p2), strict=True)
    if not all(found is None or found.shape == (p,) for found, p in names):
        raise TypeError("feature names do not match the number of columns")
    p1, p2 = model._widths()
    for name in model._arrays:
        array = getattr(model, name)
        p = p2 if name in ("y_weights_", "y_loadings_", "y_mean_", "y_std_", "_y_slopes") else p1
        shape = (p,) if name.endswith(("mean_", "std_")) else (p, k)
        shape = shape if name[1] == "_" or name == "_y_slopes" else (k,)
        if array.shape != shape or array.dtype.kind != "f":
            raise TypeError(f"{name} has shape {array.shape} and type {array.dtype}, expected {shape}")
        if name != "error_bounds_" and not np.all(np.isfinite(array)):
            raise TypeError(f"{name} is not finite")
