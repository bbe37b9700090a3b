"""What there is to say of a model, in words and numbers: for a terminal, for JSON, for a page."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import BaseCCA
from .options import ITERATIVE
from .origin import HeldOut
from .sparse_cca import SparseCCA
from .views import Array


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
    elif model.solver_ in ITERATIVE:
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
    """A sentence about the components that do not hold on other rows, by their correlations there."""
    found = []
    if model.training_correlations_[0] > 1 - 1e-9 and others[0] > 1 - 1e-6:
        found = ["component 1 has correlation 1 on any rows: do the views share a column?"]
    lost = np.flatnonzero(others < model.training_correlations_ / 2) + 1
    if not len(lost):
        return found
    advice = "try a --ridge" if model.ridge == "auto" else "try a larger --ridge, or fewer components"
    which = "component " + str(lost[0]) if len(lost) == 1 else "components " + ", ".join(map(str, lost))
    return [*found, f"{which}: less than half of the correlation is left on {rows}; {advice}"]


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
