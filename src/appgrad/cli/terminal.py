"""The terminal: lines, tables and JSON that commands print. Imports neither numpy nor scikit-learn."""

from __future__ import annotations

import json
import math
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from ..reporting.summary import Summary

# Names of files and columns are data: ":x:" in one must not become an emoji.
out = Console(emoji=False)
err = Console(stderr=True, emoji=False)


def say(text: str, console: Console = out, style: str | None = None) -> None:
    """Print a line without markup: names of files and columns are data, and may hold brackets."""
    console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


def print_json(record: dict[str, Any]) -> None:
    """Print one JSON object."""
    # Not through rich: a JSON object must not be wrapped or coloured.
    sys.stdout.write(json.dumps(record) + "\n")


def print_summary(summary: Summary) -> None:
    """Print the table of correlations, and the facts below it."""
    columns, forced = summary.columns, summary.forced
    table = Table(caption="* forced: too few rows" if forced else None, caption_justify="left")
    extra = summary.evidence_cells()
    for heading in ("component", *columns, *extra):
        table.add_column(heading, justify="right")
    for i, values in enumerate(zip(*columns.values(), strict=True)):
        cells = ["-" if math.isnan(value) else f"{value:.4f}" for value in values]
        if forced:
            cells[list(columns).index("training")] += "*" if summary.training[i] > 0.99 else " "
        table.add_row(str(i + 1), *cells, *(found[i] for found in extra.values()))
    out.print(table)
    for name, fact in (summary.facts | _measured(summary)).items():
        say(f"{name:9} {fact}")
    for note in summary.files:
        # Those in doubt are among the warnings.
        if note not in summary.remarks:
            say(f"file      {note}")


def _measured(summary: Summary) -> dict[str, str]:
    """Facts about the run that has just ended: its time, and the check on held-out rows."""
    timing, held_out, found = summary.timing, summary.held_out, {}
    check = 0.0 if timing is None else timing.check
    if timing is not None:
        found["time"] = f"{timing.fit:.2f} s for the fit on all rows" if check else f"{timing.fit:.3f} s"
    if held_out is not None:
        found["held out"] = held_out.method + (f", {check:.2f} s" if check else "")
    return found


def print_remarks(summary: Summary) -> None:
    """Print the warnings to stderr."""
    for remark in summary.remarks:
        say(f"warning: {remark}", err, "yellow")


def print_variance(summary: Summary) -> None:
    """Print the shares of variance that scores explain, with totals."""
    if not summary.variance:
        return
    title = "share of the variance of each view: own scores (adequacy), opposite ones (redundancy)"
    table = Table(title=title, title_justify="left")
    for heading in ("component", *summary.variance):
        table.add_column(heading, justify="right")
    rows = zip(*summary.variance.values(), strict=True)
    for i, values in enumerate(rows, 1):
        table.add_row(str(i), *("-" if math.isnan(value) else f"{value:.4f}" for value in values))
    if summary.adds_up:
        totals = [sum(values) for values in summary.variance.values()]
        table.add_row("all", *("-" if math.isnan(total) else f"{total:.4f}" for total in totals))
    out.print(table)


def print_components(summary: Summary) -> None:
    """Print a table of leading features for each component."""
    if not summary.components:
        say("features  none to show: components are functions of all columns at a time")
    measure = str(summary.measure)
    for i, component in enumerate(summary.components):
        table = Table(title=f"component {i + 1}: {summary.canonical[i]:.4f}", title_justify="left")
        for heading in ("x feature", f"x {measure}", "y feature", f"y {measure}"):
            table.add_column(heading, justify="right" if measure in heading else "left", overflow="fold")
        for row in range(max(len(component["x"]), len(component["y"]))):
            cells: list[str] = []
            for view in "xy":
                item = component[view][row] if row < len(component[view]) else None
                cells += ["", ""] if item is None else [item["feature"], f"{item[measure]:+.3f}"]
            table.add_row(*map(Text, cells))
        out.print(table)
