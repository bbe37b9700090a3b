"""What there is to say of a model, in words and numbers: for a terminal, for JSON, for a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..estimators.base import BaseCCA
from ..estimators.sparse import SparseCCA
from ..inference.holdout import HeldOut
from ..machine.arrays import Array
from ..solvers.registry import is_iterative


def json_list(values: Array) -> list[float | None]:
    """JSON has no NaN."""
    return [None if np.isnan(value) else float(value) for value in values]


def correlation_columns(model: BaseCCA, tested: HeldOut | None) -> dict[str, Array]:
    """Correlations of each component by what they are of."""
    columns: dict[str, Array] = {"training": model.training_correlations_}
    if not np.allclose(model.canonical_correlations_, model.training_correlations_, rtol=0, atol=5e-5):
        name = "estimate" if model.ridge == "auto" else "with ridge"
        columns = {name: model.canonical_correlations_, **columns}
    return columns if tested is None else {**columns, "held out": tested.correlations}


def facts_in_words(model: BaseCCA) -> dict[str, str]:
    """What was fitted and how, by a word each."""
    facts = {
        "rows": f"{model.n_samples_}",
        "columns": f"{model.n_features_in_} + {model.n_features_y_}",
        "solver": f"{model.solver_}: {model.solver_reason_}",
    }
    if getattr(model, "resumed_from_iteration_", 0):
        facts["resumed"] = (
            f"from iteration {model.resumed_from_iteration_}; passes count from the start, time from there"
        )
    if isinstance(model, SparseCCA):
        # Residuals are those of CCA without sparsity, and would be taken for errors.
        facts["steps"] = f"{max(model.n_iter_)} iterations, {model.n_passes_:.1f} passes"
    elif is_iterative(model.solver_):
        facts["accuracy"] = (
            f"residuals of {model.residuals_.max():.1e} at most, after {max(model.n_iter_)} iterations and "
            f"{model.n_passes_:.1f} passes"
        )
    if model.ridge != "auto":
        facts["ridge"] = f"{model.ridge}"
    if isinstance(model, SparseCCA):
        facts["sparsity"] = f"{model.n_nonzero_[0]} + {model.n_nonzero_[1]} columns have a weight"
    return facts


def overfitted(model: BaseCCA, others: Array, rows: str = "held-out rows") -> list[str]:
    """Sentences about components that do not hold on other rows, or too well, by their correlations there."""
    training = model.training_correlations_
    shared = np.flatnonzero((training > 1 - 1e-9) & (others > 1 - 1e-6)) + 1
    lost = np.flatnonzero(others < training / 2) + 1
    found = []
    if len(shared):
        found.append(f"{_numbered(shared)}: correlation 1 on any rows; do the views share a column?")
    if len(lost):
        advice = "try a --ridge" if model.ridge == "auto" else "try a larger --ridge, or fewer components"
        found.append(f"{_numbered(lost)}: less than half of the correlation is left on {rows}; {advice}")
    return found


def _numbered(components: Array) -> str:
    """Which components, counted from one."""
    return ("component " if len(components) == 1 else "components ") + ", ".join(map(str, components))


def facts_of(model: BaseCCA) -> dict[str, Any]:
    """What `--json` says of a model."""
    return {
        "correlations": model.canonical_correlations_.tolist(),
        "training_correlations": model.training_correlations_.tolist(),
        "n_samples": model.n_samples_,
        "n_features": [model.n_features_in_, model.n_features_y_],
        "solver": model.solver_,
        "solver_reason": model.solver_reason_,
        "iterations": max(model.n_iter_),
        "passes": model.n_passes_,
        "residuals": model.residuals_.tolist(),
        "error_bounds": json_list(model.error_bounds_),
        "ridge": model.ridge,
    }
