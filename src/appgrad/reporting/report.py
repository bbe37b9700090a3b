"""`appgrad.report`: the report of a fitted model, from Python."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from sklearn.utils.validation import check_is_fitted

from ..data.sources import as_views
from ..estimators.base import BaseCCA
from .features import checked_names
from .html import write_report
from .rows_shown import rows_shown, with_rows
from .summary import summary_of, with_components, with_known_test
from .titles import title_of


def report(
    model: BaseCCA,
    X: Any,
    y: Any,
    path: str | os.PathLike[str],
    *,
    labels: Any = None,
    x_names: Sequence[str] | None = None,
    y_names: Sequence[str] | None = None,
    top: int = 10,
    title: str | None = None,
) -> None:
    """Write an HTML page that shows a model, and scores of rows: one file that needs no network.

    Parameters
    ----------
    model : CCA, KernelCCA or SparseCCA
        A fitted model.
    X, y : the two views, as for `fit`
        Rows to show scores and correlations of; rows that the model has not seen say most. X may be a `Views`
        object, with y None. Both may be None: the page is then of the model alone.
    path : str or path
        The file to write.
    labels : array-like of shape (n_samples,), optional
        Groups or numbers of the rows, which colour their scores.
    x_names, y_names : list of str, optional
        Names of the columns; by default those of the fit.
    top : int, default=10
        Number of leading features to show for each component.
    title : str, optional
        The heading; by default the names of the views.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from sklearn.datasets import load_linnerud
    >>> import appgrad
    >>> X, y = load_linnerud(return_X_y=True, as_frame=True)
    >>> model = appgrad.CCA(2).fit(X[:15], y[:15])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "men.html"
    ...     appgrad.report(model, X[15:], y[15:], path, title="Twenty men")
    ...     page = path.read_text()
    >>> "Twenty men" in page, "Situps" in page
    (True, True)
    """
    check_is_fitted(model)
    if X is None and (y is not None or labels is not None):
        raise ValueError("y and labels are those of rows: give X too, or None for all three")
    names = checked_names(model, "x", x_names, "x_names"), checked_names(model, "y", y_names, "y_names")
    summary = with_components(with_known_test(summary_of(model), model), model, names, top)
    views = None if X is None else as_views(X, y)
    if views is not None:
        summary = with_rows(summary, rows_shown(model, views, labels, "labels"))
    if title is None:
        sources = ("X", "y") if views is None else views.view_names
        title = title_of(*sources if summary.origin is None else summary.origin[:2])
    given = "None, None" if X is None else "views, None" if y is None else "X, y"
    write_report(path, summary, title=title, command=f"appgrad.report(model, {given}, {os.fspath(path)!r})")
