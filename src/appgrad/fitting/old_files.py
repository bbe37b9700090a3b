"""Read states in files of version 0.1.0, which named records by Python modules and fields by position."""

from __future__ import annotations

from typing import Any

from ..machine.arrays import Array
from ..solvers import registry
from .saved_state import record, unpacked
from .streams.kinds import kind_of

# Records by their names in 0.1.0: the tags they have now, and the fields they had, in order.
RECORDS = {
    "als.State": ("als-state/1", "phi psi products pairing"),
    "appgrad.State": (
        "appgrad-state/1",
        "phi_t psi_t products normalisers size trail sizes before age caution good",
    ),
    "columns.Taken": ("pursuit-taken/1", "x y rho"),
    "kernels.Fourier": ("fourier-map/1", "frequencies shift"),
    "kernels.Gram": ("gram-map/1", "kernel rows shift means grand centred"),
    "kernels.Kernel": ("kernel/1", "name gamma degree coef0 function"),
    "kernels.Nystroem": ("nystroem-map/1", "kernel rows shift root"),
    "lobpcg.Grams": ("lobpcg-grams/1", "x xy y cancelled"),
    "lobpcg.State": (
        "lobpcg-state/1",
        "pairs moves rho grams directions residuals tol width gain age mark",
    ),
    "lobpcg.Vectors": ("lobpcg-vectors/1", "A B products"),
    "moments.SecondMoments": ("second-moments/1", "n mean scatter"),
    "options.Options": (
        "options/1",
        "solver tol limits oversampling preconditioner step_size batch_size normaliser dense forget sparsity "
        "first",
    ),
    "preconditioners.Preconditioner": ("preconditioner/1", "x y"),
    "preconditioners.Side": ("view-preconditioner/1", "d V values tail shield"),
    "pursuit.State": (
        "pursuit-state/1",
        "A B products ahead done taken settled best tcc idle",
    ),
    "solve.Limits": ("limits/1", "iterations passes seconds flops"),
    "solve.Problem": ("problem/1", "n_components center scale ridge"),
    "solve.Report": (
        "diagnostics/1",
        "A B tcc flops converged products grams correlations residual estimate event stalled rows judged",
    ),
    "stochastic.State": ("stochastic-state/1", "trials checks averaging judged most before"),
    "stochastic.Trial": (
        "stochastic-trial/1",
        "multiple phi_t psi_t normalisers grams good best weight means mean_grams mean_rows caution",
    ),
    "thresholds.Sparsity": ("sparsity/1", "penalty alpha n_nonzero by_component"),
}
# Means and variances of both views were its fields; now each view has a record.
MOMENTS = "moments.Moments"
# Records that were plain tuples in 0.1.0, by the tags they have now.
TUPLES = {
    "buffered-rows/1": "rows size normaliser portion position moments peaks",
    "kernel-facts/1": "maps variances gamma ridge",
    "run/1": "state best diagnostics iteration flops seconds passes",
    "stochastic-solver/1": "n_components step_size preconditioner adaptive",
    "stream/1": "problem options kept",
    "stream-steps/1": "waiting buffer solver state diagnostics settled used horizon steps single seen",
    "stream-sums/1": "second waiting single",
}


def rename_parts(arrays: dict[str, Array], meta: dict[str, Any]) -> None:
    """Give parts of an older model file the names they have now, in place; newer files have no others."""
    if "_y_slopes" in arrays:
        arrays["y_slopes_"] = arrays.pop("_y_slopes")
    if "more" in meta:
        meta["learned"] = meta.pop("more")


def read(spec: Any, arrays: dict[str, Array]) -> Any:
    """Return a tree written by 0.1.0; raise KeyError, TypeError or ValueError if it is not one."""
    if not isinstance(spec, dict) or "array" in spec or "csr" in spec:
        return unpacked(spec, arrays)
    if "tuple" in spec:
        return tuple(read(part, arrays) for part in spec["tuple"])
    parts = [read(part, arrays) for part in spec["parts"]]
    if spec["class"] == MOMENTS:
        return _moments(*parts)
    tag, names = RECORDS[spec["class"]]
    return _named(tag, names, parts)


def run(spec: Any, arrays: dict[str, Array]) -> Any:
    """Return the state of a run from a checkpoint."""
    return _tuple("run/1", read(spec, arrays))


def kernel_facts(spec: Any, arrays: dict[str, Array]) -> Any:
    """Return what a kernel model has learned from its rows."""
    return _tuple("kernel-facts/1", read(spec, arrays))


def stream(solver: str, spec: Any, arrays: dict[str, Array]) -> Any:
    """Return the saved stream: its sums, or the state of its steps."""
    problem, options, kept = read(spec, arrays)
    if kind_of(solver) == registry.SUMS:
        return _tuple("stream/1", (problem, options, _tuple("stream-sums/1", kept)))
    waiting, buffer, steps, *rest = kept
    buffer = None if buffer is None else _tuple("buffered-rows/1", buffer)
    steps = None if steps is None else _tuple("stochastic-solver/1", steps)
    kept = _tuple("stream-steps/1", (waiting, buffer, steps, *rest))
    return _tuple("stream/1", (problem, options, kept))


def _moments(n: Any, mean_x: Array, mean_y: Array, var_x: Array, var_y: Array) -> Any:
    """Return means and variances of both views, as one record for each view."""
    pairs = (mean_x, var_x), (mean_y, var_y)
    return record(
        "moments/1",
        {"n": n, "views": tuple(record("view-moments/1", {"mean": mean, "var": var}) for mean, var in pairs)},
    )


def _tuple(tag: str, parts: Any) -> Any:
    return _named(tag, TUPLES[tag], list(parts))


def _named(tag: str, names: str, parts: list[Any]) -> Any:
    if len(parts) != len(names.split()):
        raise ValueError(f"{tag} had {len(names.split())} parts in 0.1.0, not {len(parts)}")
    return record(tag, dict(zip(names.split(), parts, strict=True)))
