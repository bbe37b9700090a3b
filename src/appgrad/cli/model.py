"""Commands on a saved model: `appgrad transform`, `score`, `inspect` and `report`."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.table import Table

from ..data.files.keys import ROW_LABELS, keys_of
from ..data.files.readers import read_table
from ..data.sources import columns_of, open_views
from ..estimators.model_file import load
from ..metrics import correlations
from ..reporting.features import names_of
from ..reporting.html import write_report
from ..reporting.rows_shown import labels_of, rows_shown, with_rows
from ..reporting.summary import beliefs_of, summary_of, to_json, with_components, with_known_test
from ..reporting.titles import name_of
from .arguments import typed
from .output_checks import require_output
from .score_files import Scores, require_writer, write_scores
from .terminal import (
    out,
    print_components,
    print_json,
    print_remarks,
    print_summary,
    print_variance,
    say,
)


def transform_files(model: Path, x: str | None, y: str | None, output: Path, key: str | None) -> None:
    """Write the scores of the rows of one view or of both, and the column `key` of their tables."""
    fitted = load(model)
    sources = [source for source in (x, y) if source is not None]
    # The name that row labels of R and pandas have in their files.
    key = ROW_LABELS if key == "" else key
    require_output(output, str(model), *sources)
    require_writer(output, len(sources), key)
    names, columns = ("x_scores", "y_scores"), columns_of(fitted)
    if x is not None and y is not None:
        scores = dict(zip(names, fitted.array_scores(open_views(x, y, model=fitted)), strict=True))
    else:
        view, source = (0, x) if y is None else (1, y)
        if source is None:
            raise typer.BadParameter("give rows: X, --y Y, or both")
        table = read_table(source, columns[view])
        scores = {names[view]: fitted.view_scores(table.matrix, view, table.names, table.label, table.place)}
    wanted = [names for source, names in zip((x, y), columns, strict=True) if source is not None]
    keys = {} if key is None else {key: keys_of(sources, key, wanted)}
    write_scores(output, Scores(scores, keys))
    say(f"{len(next(iter(scores.values())))} rows written to {output}")


def score_files(model: Path, x: str, y: str, as_json: bool) -> None:
    """Print the correlations of the scores of the rows of two files."""
    fitted = load(model)
    views = open_views(x, y, model=fitted)
    found = correlations(*fitted.array_scores(views))
    if as_json:
        print_json(
            {"correlations": found.tolist(), "score": float(found.mean()), "n_samples": views.n_samples}
        )
        return
    table = Table(title=f"correlations on {views.n_samples} rows", title_justify="left")
    for heading in ("component", "correlation", "in training"):
        table.add_column(heading, justify="right")
    for i, (here, there) in enumerate(zip(found, fitted.training_correlations_, strict=True), 1):
        table.add_row(str(i), f"{here:.4f}", f"{there:.4f}")
    out.print(table)
    say(f"score     {found.mean():.4f} (mean)")


def inspect_model(model: Path, x_names: Path | None, y_names: Path | None, top: int, as_json: bool) -> None:
    """Print what was fitted, and the leading features of each component."""
    fitted = load(model)
    names = names_of(fitted, "x", x_names), names_of(fitted, "y", y_names)
    summary = with_components(with_known_test(summary_of(fitted), fitted), fitted, names, top)
    if as_json:
        print_json(
            {
                **to_json(summary),
                "warnings": list(summary.remarks),
                "params": summary.parameters,
                "components": summary.components,
            }
        )
        return
    print_summary(summary)
    print_remarks(summary)
    for belief in beliefs_of(summary):
        say(belief.text)
    print_variance(summary)
    print_components(summary)


def report_model(
    model: Path,
    x: str | None,
    y: str | None,
    output: Path,
    names: tuple[Path | None, Path | None],
    labels: str | None,
    top: int,
) -> None:
    """Write an HTML page that shows a model, and the scores of rows if these are given."""
    if (x is None) != (y is None):
        raise typer.BadParameter("give both views, X and Y, or none")
    if labels is not None and x is None:
        raise typer.BadParameter("--labels are those of rows: give X and Y too")
    fitted = load(model)
    require_output(output, *(str(file) for file in (model, x, y, *names, labels) if file is not None))
    known = names_of(fitted, "x", names[0]), names_of(fitted, "y", names[1])
    rows = (
        None
        if x is None or y is None
        else rows_shown(fitted, open_views(x, y, model=fitted), labels_of(labels), str(labels))
    )
    summary = with_components(with_known_test(summary_of(fitted), fitted), fitted, known, top)
    write_report(
        output,
        summary if rows is None else with_rows(summary, rows),
        title=name_of(str(model)),
        command=typed(),
    )
    say(f"report    written to {output}")
