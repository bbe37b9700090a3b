"""What commands show: tables, JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .base import BaseCCA
from .features import measure_of
from .options import ITERATIVE
from .origin import HeldOut
from .sparse_cca import SparseCCA
from .views import Array

out = Console()


def say(text: str, console: Console = out, style: str | None = None) -> None:
    """Print a line as it is: names of files and columns are data, whatever brackets they hold."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_json(record: dict[str, Any]) -> None:
    """Print one JSON object."""
    # Not through rich: a JSON object must not be wrapped or coloured.
    sys.stdout.write(json.dumps(record) + "\n")


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


def print_model(
    model: BaseCCA, fitted: float | None, tested: HeldOut | None, extra: float, trivial: bool
) -> None:
    """The table of correlations and the facts below it."""
    columns = correlation_columns(model, tested)
    table = Table(caption="* forced: there are too few rows" if trivial else None, caption_justify="left")
    for heading in ("component", *columns):
        table.add_column(heading, justify="right")
    for i, values in enumerate(zip(*columns.values(), strict=True)):
        cells = ["-" if np.isnan(value) else f"{value:.4f}" for value in values]
        if trivial:
            at = list(columns).index("training")
            cells[at] += "*" if model.training_correlations_[i] > 0.99 else " "
        table.add_row(str(i + 1), *cells)
    out.print(table)
    facts = facts_in_words(model)
    if fitted is not None:
        facts["time"] = f"{fitted:.2f} s for the fit on all rows" if extra else f"{fitted:.3f} s"
    if tested is not None:
        facts["held out"] = tested.method + (f", {extra:.2f} s" if extra else "")
    for name, fact in facts.items():
        say(f"{name:9} {fact}")


def print_components(model: BaseCCA, components: list[dict[str, list[dict[str, Any]]]]) -> None:
    """A table of leading features for each component."""
    measure = measure_of(model)
    for i, component in enumerate(components):
        table = Table(
            title=f"component {i + 1}: {model.canonical_correlations_[i]:.4f}", title_justify="left"
        )
        for heading in ("x feature", f"x {measure}", "y feature", f"y {measure}"):
            table.add_column(heading, justify="right" if measure in heading else "left", overflow="fold")
        for row in range(max(len(component["x"]), len(component["y"]))):
            cells: list[str] = []
            for view in "xy":
                item = component[view][row] if row < len(component[view]) else None
                cells += ["", ""] if item is None else [item["feature"], f"{item[measure]:+.3f}"]
            table.add_row(*map(Text, cells))
        out.print(table)


def overfitted(model: BaseCCA, tested: HeldOut | None, rows: str = "held-out rows") -> list[str]:
    """A sentence about the components that do not hold on other rows."""
    if tested is None:
        return []
    found = []
    if model.training_correlations_[0] > 1 - 1e-9 and tested.correlations[0] > 1 - 1e-6:
        found = ["component 1 has correlation 1 on any rows: do the views share a column?"]
    lost = np.flatnonzero(tested.correlations < model.training_correlations_ / 2) + 1
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
