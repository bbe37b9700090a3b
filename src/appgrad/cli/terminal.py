"""What commands show: tables, JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..estimators.base import BaseCCA
from ..inference.holdout import HeldOut
from ..reporting.facts import correlation_columns, facts_in_words
from ..reporting.features import measure_of

# Names of files and columns are data: ":x:" in one is no picture.
out = Console(emoji=False)


def say(text: str, console: Console = out, style: str | None = None) -> None:
    """Print a line as it is: names of files and columns are data, whatever brackets they hold."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_json(record: dict[str, Any]) -> None:
    """Print one JSON object."""
    # Not through rich: a JSON object must not be wrapped or coloured.
    sys.stdout.write(json.dumps(record) + "\n")


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
