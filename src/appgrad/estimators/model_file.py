"""Contents of model files, written and read. `fitting.archive` has the container."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from ..data.display import shown
from ..data.kernels import KERNELS, Fourier, Gram, Kernel, Learned, Nystroem
from ..fitting import archive, old_files
from ..fitting.fit import Fit
from ..fitting.parameters import require_settings
from ..fitting.remarks import OverfitWarning, Remark
from ..fitting.saved_state import packed, plain_generator, restored_generator, unpacked
from ..fitting.streams.kinds import KINDS, Stream, kind_of
from ..fitting.streams.steps import StepStream
from ..fitting.streams.sums import SumStream
from ..machine.arrays import Array
from ..solvers.problem import Solution
from ..version import __version__
from .base import BaseCCA, plain_params
from .cca import CCA
from .fitted import Fitted, Rows, named
from .kernel import KernelCCA
from .provenance import LENGTH, Origin
from .sparse import SparseCCA
from .trust_file import packed_trust, unpacked_trust

ESTIMATORS: dict[str, type[BaseCCA]] = {"CCA": CCA, "KernelCCA": KernelCCA, "SparseCCA": SparseCCA}
# Arrays of a file, named like the attributes of a model, and their fields in `Solution`.
ARRAYS = {
    "canonical_correlations_": "correlations",
    "training_correlations_": "training_correlations",
    "x_weights_": "x_weights",
    "y_weights_": "y_weights",
    "x_mean_": "mean_x",
    "y_mean_": "mean_y",
    "residuals_": "residuals",
    "error_bounds_": "error_bounds",
}
# Arrays that kernel models do not have.
COLUMN_ARRAYS = {
    "x_loadings_": "x_loadings",
    "y_loadings_": "y_loadings",
    "x_std_": "std_x",
    "y_std_": "std_y",
    "y_slopes_": "y_slopes",
}

# Least and largest value of arrays; those of no bound are NaN.
RANGES = {
    "canonical_correlations_": (0.0, 1.0),
    "training_correlations_": (-1.0, 1.0),
    "residuals_": (0.0, np.inf),
    "error_bounds_": (0.0, np.inf),
    "x_std_": (0.0, np.inf),
    "y_std_": (0.0, np.inf),
}


def save(model: BaseCCA, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, atomically."""
    # A stream with too few rows so far has a state, but no solution.
    fit = _fit_if_any(model)
    rows, stream = model._known().rows, model._stream
    meta: dict[str, Any] = {
        "library": __version__,
        "estimator": type(model).__name__,
        "params": plain_params(model),
        "fitted": fit is not None,
        "facts": _packed_facts(rows, fit),
        "history": [] if fit is None else fit.history,
        "remarks": [] if fit is None else [[remark.text, remark.overfit] for remark in fit.remarks],
        "y_1d": rows.y_1d,
        "feature_names": [None if names is None else [str(name) for name in names] for names in rows.names],
    }
    meta["stream"], arrays = _packed_stream(stream)
    meta["learned"], more = _packed_learned(rows.learned)
    # A stream has rows that are not in these files.
    origin = None if stream is not None else model.provenance
    meta["origin"] = None if origin is None else origin.packed()
    arrays |= more
    if fit is not None:
        arrays |= {name: getattr(fit.solution, field) for name, field in _arrays_of(model).items()}
        meta["trust"], more = packed_trust(fit)
        arrays |= more
    archive.write(path, arrays, meta)


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
    arrays, meta = archive.read(path)
    old_files.rename_parts(arrays, meta)
    name = meta.get("estimator")
    if not isinstance(name, str) or name not in ESTIMATORS:
        said = shown(name, 50) if isinstance(name, str) else f"{type(name).__name__}, where a name should be"
        raise ValueError(f"{path} holds a {said}, which this version of appgrad cannot read")
    try:
        return _model(arrays, meta)
    except (*archive.DAMAGE, IndexError, ArithmeticError, AssertionError) as error:
        raise ValueError(f"{path} is damaged or not an appgrad model file ({error!r:.300})") from error


def _model(arrays: dict[str, Array], meta: dict[str, Any]) -> BaseCCA:
    """The model of a file; KeyError, TypeError or ValueError if the file does not hold one."""
    model: BaseCCA = ESTIMATORS[meta["estimator"]]().set_params(
        **{name: tuple(v) if isinstance(v, list) else v for name, v in meta["params"].items()}
    )
    fitted = meta.get("fitted", True)
    rows = _rows(arrays, meta, kernel=isinstance(model, KernelCCA))
    fit, origin = None, None
    if fitted:
        fit = _fit(arrays, meta, rows, _arrays_of(model))
        if meta.get("origin") is not None:
            origin = Origin.unpacked(meta["origin"], len(fit.solution.correlations))
    if meta.get("stream") is not None or not fitted:
        model._stream = _stream(arrays, meta, rows)
    library = meta.get("library")
    version = shown(library, LENGTH) if isinstance(library, str) else None
    model._fitted = Fitted(rows, fit, origin, version)
    return model


def _arrays_of(model: BaseCCA) -> dict[str, str]:
    """The arrays of a model's file, by name, and their fields in `Solution`."""
    return ARRAYS if isinstance(model, KernelCCA) else ARRAYS | COLUMN_ARRAYS


def _fit_if_any(model: BaseCCA) -> Fit | None:
    """The fit of a model; None for a stream that cannot be solved yet."""
    try:
        return model._solved()
    except NotFittedError:
        if model._fitted is None:
            raise
        return None


def _packed_facts(rows: Rows, fit: Fit | None) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "n_samples_": rows.n_samples,
        "n_features_in_": rows.n_features[0],
        "n_features_y_": rows.n_features[1],
    }
    if fit is None:
        return facts
    return facts | {
        "n_iter_": [fit.iterations] * len(fit.solution.correlations),
        "n_passes_": fit.passes,
        "solver_": fit.solver,
        "solver_reason_": fit.reason,
    }


def _rows(arrays: dict[str, Array], meta: dict[str, Any], kernel: bool) -> Rows:
    """The `Rows` of a model, read from its file."""
    n, p1, p2 = (_fact(meta, name) for name in ("n_samples_", "n_features_in_", "n_features_y_"))
    for names in meta["feature_names"]:
        if names is not None and not (isinstance(names, list) and all(type(name) is str for name in names)):
            raise TypeError("feature names are not text")
    x, y = (named(names) for names in meta["feature_names"])
    if any(names is not None and names.shape != (p,) for names, p in ((x, p1), (y, p2))):
        raise TypeError("feature names do not match the number of columns")
    learned: Learned | None = None
    if kernel:
        read = old_files.kernel_facts if meta["version"] == 1 else unpacked
        learned = read(meta.get("learned"), arrays)
        if not isinstance(learned, Learned):
            raise TypeError("it holds nothing that was learned of rows")
        for f, p in zip(learned.maps, (p1, p2), strict=True):
            _require_map(f, p)
        _require_finite(*learned.variances)
        if any(not 0 <= ridge < np.inf for ridge in learned.ridge):
            raise TypeError(f"its ridges are {learned.ridge}")
    return Rows(n, (p1, p2), (x, y), meta["y_1d"], learned)


def _fit(arrays: dict[str, Array], meta: dict[str, Any], rows: Rows, fields: dict[str, str]) -> Fit:
    """The `Fit` of a model, read from its file."""
    k = len(arrays["canonical_correlations_"])
    for name in fields:
        _require_whole(name, arrays[name], rows.widths, k)
    none = dict.fromkeys(COLUMN_ARRAYS.values(), np.empty(0))
    found = {field: arrays[name] for name, field in fields.items()}
    history, steps = _history(meta["history"]), _fact(meta, "n_iter_")
    solution = Solution(**(none | found), condition=np.nan, ranks=(0, 0))  # type: ignore[arg-type]
    trust = unpacked_trust(meta.get("trust"), arrays, k, rows.n_samples)
    return Fit(
        solution=solution._replace(redundancy=trust.redundancy, spectrum=trust.spectrum),
        solver=_fact(meta, "solver_"),
        reason=_fact(meta, "solver_reason_"),
        history=history,
        iterations=steps[0],
        passes=_fact(meta, "n_passes_"),
        seconds=history[-1]["seconds"],
        remarks=_remarks(meta.get("remarks", [])),
        dimensions=trust.dimensions,
        effective_rows=trust.effective_rows,
    )


def _fact(meta: dict[str, Any], name: str) -> Any:
    """One fact of a fit, read from a file; TypeError if its type or value is wrong."""
    found = meta["facts"][name]
    kind = {"n_passes_": float, "solver_": str, "solver_reason_": str}.get(name, int)
    values = found if name == "n_iter_" else [found]
    if not isinstance(values, list) or not values or any(type(value) is not kind for value in values):
        raise TypeError(f"{name} is {found!r}")
    if kind is not str and not (np.all(np.isfinite(values)) and min(values) >= 0):
        raise TypeError(f"{name} is {found!r}")
    return shown(found, LENGTH) if kind is str else found


def _remarks(found: Any) -> tuple[Remark, ...]:
    """The warnings of a fit, read from a file; TypeError if they are of another type."""
    if not isinstance(found, list) or any([type(part) for part in one] != [str, bool] for one in found):
        raise TypeError("its remarks are of another kind")
    return tuple(
        Remark(shown(text, LENGTH), OverfitWarning if overfit else UserWarning) for text, overfit in found
    )


def _history(found: Any) -> list[dict[str, Any]]:
    """The steps of a fit, read from a file; TypeError unless each has its numbers."""
    numbers = ("iteration", "passes", "seconds", "flops", "tcc")
    if not isinstance(found, list) or not found:
        raise TypeError("there is no history")
    for step in found:
        if not all(isinstance(step[name], int | float) for name in numbers):
            raise TypeError("its history is not of numbers")
    return found


def _require_whole(name: str, array: Array, widths: tuple[int, int], k: int) -> None:
    """Raise TypeError unless an array of a file has the shape its name asks for, and is finite."""
    view = name[:2]
    shape: tuple[int, ...] = (k,)
    if view in ("x_", "y_"):
        p = widths[("x_", "y_").index(view)]
        shape = (p,) if name.endswith(("mean_", "std_")) else (p, k)
    if array.shape != shape or array.dtype.kind != "f":
        raise TypeError(f"{name} has shape {array.shape} and type {array.dtype}, expected {shape}")
    if name != "error_bounds_" and not np.all(np.isfinite(array)):
        raise TypeError(f"{name} is not finite")
    low, high = RANGES.get(name, (-np.inf, np.inf))
    if np.any(array < low) or np.any(array > high):
        raise TypeError(f"{name} is not from {low:g} to {high:g}")


def _packed_stream(stream: SumStream | StepStream | None) -> tuple[dict[str, Any] | None, dict[str, Array]]:
    """The state with which a stream can go on, as JSON and arrays; None if there is no stream."""
    if stream is None:
        return None, {}
    kept = Stream(stream.problem, stream.options, stream.snapshot())
    spec, arrays = packed(kept, "stream")
    return {"solver": stream.solver, "state": spec, "rng": plain_generator(stream.rng)}, arrays


def _stream(arrays: dict[str, Array], meta: dict[str, Any], rows: Rows) -> SumStream | StepStream:
    """The stream of a model, read from its file."""
    solver, spec = meta["stream"]["solver"], meta["stream"]["state"]
    found = old_files.stream(solver, spec, arrays) if meta["version"] == 1 else unpacked(spec, arrays)
    require_settings(found.problem, found.options)
    stream = KINDS[kind_of(solver)](found.problem, found.options, restored_generator(meta["stream"]["rng"]))
    if stream.solver != solver:
        raise ValueError(f"the stream is of {stream.solver}, not of {solver}")
    stream.restore(found.kept, *rows.widths)
    return stream


def _packed_learned(learned: Learned | None) -> tuple[Any, dict[str, Array]]:
    """What a kernel model has learned from its rows, as JSON and arrays."""
    if learned is None:
        return None, {}
    for f in learned.maps:
        if isinstance(f, Gram | Nystroem) and f.kernel.function is not None:
            raise ValueError(
                "a model with a kernel function of your own cannot be saved: a file holds no code. Use "
                "one of the kernels by name, or kernel='precomputed'"
            )
    return packed(learned, "learned")


def _require_map(f: Any, p: int) -> None:
    """Raise TypeError unless the parts of a loaded map fit together, and are finite."""
    if not isinstance(f, Gram | Nystroem | Fourier):
        raise TypeError("a map is of no known kind")
    _require_finite(*(part for part in f if isinstance(part, np.ndarray) or sp.issparse(part)))
    if f.shift.ndim != 1:
        raise TypeError("the parts of a map do not fit together")
    if isinstance(f, Fourier):
        sizes = [(f.frequencies.shape[0], p), (f.frequencies.ndim, 2)]
    else:
        if not isinstance(f.kernel, Kernel) or f.kernel.name not in KERNELS:
            raise TypeError("a kernel is of no known kind")
        _require_kernel(f.kernel)
        width = f.means.shape[0] if isinstance(f, Gram) else f.root.shape[0]
        columns = 0 if f.kernel.name == "precomputed" else p
        dimensions = (f.means.ndim, 1) if isinstance(f, Gram) else (f.root.ndim, 2)
        sizes = [(f.rows.ndim, 2), (f.rows.shape[0], width), (f.rows.shape[1], columns), dimensions]
        if isinstance(f, Gram) and not np.isfinite(f.grand):
            raise TypeError("the mean of a kernel is not finite")
    if len(f.shift):
        sizes.append((len(f.shift), p))
    if any(found != expected for found, expected in sizes):
        raise TypeError("the parts of a map do not fit together")


def _require_kernel(kernel: Kernel) -> None:
    """Raise TypeError unless the parameters of a kernel are such as a model may have."""
    numbers = 0 < kernel.gamma < np.inf and 0 <= kernel.coef0 < np.inf and kernel.degree >= 1
    if not numbers or kernel.function is not None:
        raise TypeError("a kernel has parameters that it cannot have")


def _require_finite(*arrays: Any) -> None:
    """Raise TypeError unless arrays, dense or sparse, are of finite real numbers."""
    for m in arrays:
        values = m.data if sp.issparse(m) else m
        if values.dtype.kind not in "biuf" or not np.all(np.isfinite(values)):
            raise TypeError("an array is not of finite numbers")
