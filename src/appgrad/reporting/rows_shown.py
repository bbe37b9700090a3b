"""Scores of rows that a report shows with a summary, as plain numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data.display import shown
from ..data.files.keys import column_in
from ..data.files.readers import read_table
from ..data.views import Views
from ..estimators.base import BaseCCA
from ..machine.arrays import Array
from ..metrics import correlations
from .beliefs import OnOthers
from .features import lines_of
from .groups import Groups, groups_or_numbers
from .summary import Summary, json_list, overfitted

# Most rows whose scores are shown, most numbers in all, and fewest rows: many components get fewer rows, so
# that files stay small.
ROWS, NUMBERS, LEAST = 2000, 40_000, 200
# Endings of files that hold numbers rather than lines of text.
NUMBERS_IN = (".npy", ".npz", ".parquet", ".h5", ".hdf5", ".zarr")


class RowsShown(NamedTuple):
    """Scores of some rows, with facts about them.

    `columns` are their correlations by heading, `remarks` warnings, `about` where the rows come from.
    `others` are the same correlations as evidence; None for rows of the fit.
    """

    scores: dict[str, Any]
    columns: dict[str, Array]
    remarks: tuple[str, ...]
    about: dict[str, str]
    others: OnOthers | None = None


def with_rows(summary: Summary, rows: RowsShown) -> Summary:
    """The summary with these rows added."""
    evidence = summary.evidence
    if rows.others is not None:
        evidence = evidence._replace(others=(*evidence.others, rows.others))
    return replace(
        summary,
        evidence=evidence,
        columns=summary.columns | rows.columns,
        remarks=tuple(dict.fromkeys([*summary.remarks, *rows.remarks])),
        about_rows=rows.about,
        scores=rows.scores,
    )


def labels_of(source: str | None) -> Any:
    """The group or number of each row, from a text file with a line for each, or from a column."""
    if source is None:
        return None
    if "::" not in source and not source.endswith(NUMBERS_IN):
        return lines_of(Path(source), "a group or number")
    found = column_in(source)
    if found is not None:
        return found
    table = read_table(source).matrix
    if table.shape[1] != 1:
        raise ValueError(f"{source} has {table.shape[1]} columns: choose the labels with ::columns=")
    column = table[:, :]
    return np.asarray(column.toarray() if hasattr(column, "toarray") else column)[:, 0]


def require_labels(labels: Any, n: int, label: str) -> None:
    """Raise an error unless there is one label for each of n rows; `label` is what they are called."""
    if labels is not None and len(labels) != n:
        header = "; is the first a header?" if len(labels) == n + 1 else ""
        raise ValueError(f"{label} has {len(labels)} lines for {n} rows: expected one for each{header}")


def rows_of_fit(model: BaseCCA, views: Views, labels: Any = None) -> RowsShown:
    """The rows of the fit, by their groups or numbers; their correlations are in the model already."""
    return RowsShown(scores_of(model, views, labels=labels), {}, (), {})


def rows_shown(model: BaseCCA, views: Views, labels: Any = None, label: str = "labels") -> RowsShown:
    """Rows that may differ from those of the fit; `labels` are their groups or numbers, called `label`."""
    n, (x, y) = views.n_samples, views.view_names
    require_labels(labels, n, label)
    U, V = model.array_scores(views)
    found, rows = correlations(U, V), sampled(n, U.shape[1])
    remarks = overfitted(model, found, "these rows")
    same = n == model.n_samples_ and np.allclose(found, model.training_correlations_, rtol=0, atol=1e-6)
    # Other rows may also have correlations of 1; mean scores of 0 tell the rows of the fit.
    same = bool(same and (not getattr(model, "center", True) or np.abs(U.mean(axis=0)).max() < 1e-5))
    if same:
        remarks = ["these rows seem to be those of the fit: rows it has not seen say more"]
    return RowsShown(
        plain_scores(U[rows], V[rows], rows, n, labels) | {"correlations": json_list(found)},
        {"these rows": found},
        tuple(remarks),
        {"these rows": f"{n} of {x} and {y}, with the weights of the model"},
        None if same else OnOthers("these rows", found, n),
    )


def scores_of(model: BaseCCA, views: Views, seed: int = 0, labels: Any = None) -> dict[str, Any]:
    """Scores of all rows of a fit, or of a random sample if a report cannot hold all."""
    rows = sampled(views.n_samples, len(model.canonical_correlations_), seed)
    U, V = model.array_scores(views if len(rows) == views.n_samples else views.take(rows))
    rho = json_list(model.training_correlations_)
    return plain_scores(U, V, rows, views.n_samples, labels) | {"fitted": True, "correlations": rho}


def plain_scores(U: Array, V: Array, rows: Array, total: int, labels: Any = None) -> dict[str, Any]:
    """Scores of the sampled rows by component, and the groups or numbers that colour them."""
    found: dict[str, Any] = {
        "x": [_steps_of(u) for u in U.T],
        "y": [_steps_of(v) for v in V.T],
        "rows": rows.tolist(),
        "total": total,
    }
    if labels is not None:
        groups = groups_or_numbers(labels)
        if isinstance(groups, Groups):
            found["groups"] = [shown(name, 40) for name in groups.names]
            found["codes"] = groups.codes[rows].tolist()
        else:
            found["numbers"] = _rounded(groups[rows])
    return found


def sampled(n: int, k: int, seed: int = 0) -> Array:
    """Positions of the rows to show out of n, in order."""
    size = min(n, ROWS, max(LEAST, NUMBERS // k))
    if size == n:
        return np.arange(n)
    # Without shuffling, memory is that of the rows drawn, not of all n.
    return np.sort(np.random.default_rng(seed).choice(n, size, replace=False, shuffle=False))


def _steps_of(values: Array) -> list[float]:
    """Values rounded to a thousandth of their spread or less: finer steps cannot be seen."""
    spread = float(np.std(values)) or 1.0
    digits = 3 - int(np.floor(np.log10(spread))) if np.isfinite(spread) else 0
    return [round(float(value), digits) for value in values]


def _rounded(values: Array) -> list[float | None]:
    """Values rounded to four digits, None if not finite: more digits cannot be seen."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]
