"""What commands show: tables, progress bars, JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from .choose import duration
from .estimators import CCA
from .holdout import HeldOut
from .options import ITERATIVE
from .solve import Progress
from .text_files import open_text
from .views import Array, CountedViews, Views

out = Console()
err = Console(stderr=True)


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


class Watch:
    """A line on the terminal that counts the rows views deliver, and follows a run of iterations."""

    def __init__(self, bar: Bar) -> None:
        self.bar, self.captured = bar, ""
        self.task: TaskID | None = None
        # When the last estimate of the time left was made, and what it was.
        self.estimate: tuple[float, float | None] = 0.0, None

    def begin(self, name: str) -> None:
        """Show what is being done, and since when."""
        if self.task is not None:
            self.bar.remove_task(self.task)
        self.task, self.captured, self.estimate = self.bar.add_task(name, total=None, run=""), "", (0.0, None)

    def views(self, name: str, views: Views) -> Views:
        """The same views, counted."""
        self.begin(name)
        start = time.perf_counter()

        def count(rows: int) -> None:
            now = time.perf_counter()
            at, left = self.estimate
            parts = [f"{rows / views.n_samples:.1f} passes", self.captured]
            if now - start >= 1:
                parts.insert(1, f"{rows / (now - start):,.0f} rows/s")
            if left is not None and left - (now - at) >= 0.1:
                parts.append(f"{duration(left - (now - at))} left")
            assert self.task is not None
            self.bar.update(self.task, run=", ".join(filter(None, parts)))

        return CountedViews(views, count)

    def step(self, progress: Progress) -> None:
        """Note where a run stands: a callback."""
        self.captured = f"captured {progress.tcc:.4f}"
        self.estimate = time.perf_counter(), progress.left


@contextmanager
def progress(show: bool) -> Iterator[Watch]:
    """A line of progress on the terminal."""
    bar = Bar(
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[run]}"),
        console=err,
        transient=True,
        disable=not (show and err.is_terminal),
    )
    with bar:
        yield Watch(bar)


def print_model(
    model: CCA, fitted: float | None, tested: HeldOut | None, extra: float, trivial: bool
) -> None:
    """The table of correlations and the facts below it."""
    columns: dict[str, Array] = {"training": model.training_correlations_}
    if not np.allclose(model.canonical_correlations_, model.training_correlations_, rtol=0, atol=5e-5):
        name = "estimate" if model.ridge == "auto" else "with ridge"
        columns = {name: model.canonical_correlations_, **columns}
    if tested is not None:
        columns["held out"] = tested.correlations
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
    facts = {
        "rows": f"{model.n_samples_}",
        "columns": f"{model.n_features_in_} + {model.n_features_y_}",
        "solver": f"{model.solver_}: {model.solver_reason_}",
    }
    if getattr(model, "resumed_from_iteration_", 0):
        facts["resumed"] = (
            f"from iteration {model.resumed_from_iteration_}; passes and time count from the start"
        )
    if model.solver_ in ITERATIVE:
        facts["accuracy"] = (
            f"residuals of {model.residuals_.max():.1e} at most, after {max(model.n_iter_)} iterations and "
            f"{model.n_passes_:.1f} passes"
        )
    if model.ridge != "auto":
        facts["ridge"] = f"{model.ridge}"
    if fitted is not None:
        facts["time"] = f"{fitted:.2f} s for the fit on all rows" if extra else f"{fitted:.3f} s"
    if tested is not None:
        facts["held out"] = tested.method + (f", {extra:.2f} s" if extra else "")
    for name, fact in facts.items():
        say(f"{name:9} {fact}")


def overfitted(model: CCA, tested: HeldOut | None) -> list[str]:
    """A sentence about the components that do not hold on held-out rows."""
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
    return [*found, f"{which}: less than half of the correlation is left on held-out rows; {advice}"]


def facts_of(model: CCA) -> dict[str, Any]:
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


def names_of(model: CCA, view: str, file: Path | None) -> list[str]:
    """Names of the columns of a view: from a file, from the fit, or numbers."""
    p = model.n_features_in_ if view == "x" else model.n_features_y_
    if file is None:
        fitted = _fitted_names(model, view)
        return [f"{view}{j}" for j in range(p)] if fitted is None else [str(name) for name in fitted]
    try:
        with open_text(str(file)) as lines:
            names = lines.read().rstrip("\n").split("\n")
    except UnicodeDecodeError:
        raise ValueError(f"{file} is not UTF-8 text: expected a column name a line") from None
    if len(names) != p:
        raise ValueError(f"{file} has {len(names)} names, the model has {p} columns in this view")
    return names


def _fitted_names(model: CCA, view: str) -> Array | None:
    return getattr(model, "feature_names_in_" if view == "x" else "feature_names_y_", None)


def leading_features(
    model: CCA, view: str, component: int, top: int, names: list[str]
) -> list[dict[str, Any]]:
    """The features most correlated with a score, strongest first."""
    loadings, std = (model.x_loadings_, model.x_std_) if view == "x" else (model.y_loadings_, model.y_std_)
    column = loadings[:, component] / np.where(std > 0, std, 1.0)
    order = np.argsort(-np.abs(column), kind="stable")[:top]
    return [{"feature": names[j], "correlation": float(column[j])} for j in order]
