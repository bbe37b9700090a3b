"""`appgrad plan`: expected costs of a fit by each solver."""

from __future__ import annotations

from rich.table import Table

from ..data.sources import open_views
from ..fitting.plan import plan
from ..machine.readable import duration, size
from .terminal import out, print_json, say


def show_plan(x: str, y: str, k: int, as_json: bool) -> None:
    """Print what a fit of two files would cost, and which solver "auto" takes."""
    found = plan(open_views(x, y), n_components=k)
    if as_json:
        print_json({**found._asdict(), "costs": [cost._asdict() for cost in found.costs]})
        return
    table = Table()
    for heading in ("solver", "passes", "time", "memory"):
        table.add_column(heading, justify="left" if heading == "solver" else "right")
    for cost in found.costs:
        cells = f"{cost.passes:.0f}", duration(cost.seconds), size(cost.memory)
        mark = " *" if cost.solver == found.solver else ""
        table.add_row(cost.solver + mark, *cells, style="bold" if mark else None)
    out.print(table)
    say(f"* auto takes {found.solver}: {found.reason}")
