"""Views from user input, without importing packages that are not installed."""

from __future__ import annotations

import os
from typing import Any

from .files.mapped import views_of
from .inputs import as_column, as_matrix, feature_names, is_dask
from .row_labels import require_same_labels
from .views import Views


def as_views(X: Any, y: Any = None, min_rows: int = 2) -> Views:
    """Views on two matrices of any supported kind; a `Views` object is passed through.

    Values are not looked at here: NaN and infinity are found in the first pass, block by block.
    """
    if is_views(X):
        if y is not None:
            raise ValueError("X is a Views object and holds both views already: leave y out")
        views: Views = X
        return views
    if y is None:
        raise ValueError(
            "the estimator requires y to be passed, but the target y is None: give the second view, fit(X, y)"
        )
    if is_dask(X) or is_dask(y):
        on_cluster: Views = dask_back_end().cluster_views(X, y, min_rows)
        return on_cluster
    require_same_labels(X, y)
    names = feature_names(X), feature_names(y)
    x, y = as_matrix(X, "X", min_rows=min_rows), as_matrix(as_column(y), "y", min_rows=min_rows)
    return views_of(x, y, names=names)


def is_views(data: Any) -> bool:
    """True if this is a `Views` object, which holds both views."""
    # Delayed objects of Dask have every attribute one asks for.
    return not is_dask(data) and all(hasattr(data, name) for name in ("blocks", "reduce", "n_features_x"))


def dask_back_end() -> Any:
    """The Dask back end, which needs optional packages."""
    try:
        from .cluster import dask as dask_views
    except ImportError as error:
        raise ImportError(
            f"Dask needs its distributed package too ({error}): pip install 'appgrad[dask]'"
        ) from error
    return dask_views


def columns_of(model: Any) -> tuple[Any, Any]:
    """Names of the columns of both views that a model was fitted to; None if it is None, or they had none."""
    return getattr(model, "feature_names_in_", None), getattr(model, "feature_names_y_", None)


def open_views(
    x: str | os.PathLike[str], y: str | os.PathLike[str], *, client: Any = None, model: Any = None
) -> Views:
    """Views on two sources: `path`, `path::key` (npz, h5, zarr) or `path::columns=a,b,10-20`.

    Columns are names, patterns such as `web_*`, `numeric`, or positions counted from zero; a range includes
    both ends, a name with a comma stands in double quotes. `path.csv::header=yes` or `no` says whether the
    first line holds names; `notes` of the views say what was decided without it. Row labels of pandas and R
    must be the same in both views, unless they count rows or `path::row-labels=any` is given.

    The two views may be columns of the same file. A source may be a folder of parquet or svmlight files, or a
    pattern such as `part-*.parquet`. `.npy`, `.h5` and `.zarr` are read block by block in every pass.
    Others are decoded once and, if they do not fit into scikit-learn's `working_memory`, kept as plain
    numbers in a temporary file.

    With a fitted `model`, its columns are picked by name from tables that have names: in any order, with
    others beside them, also text. With a Dask `client`, its workers read the files in pieces; they must find
    them under the same paths.

    Examples
    --------
    >>> import tempfile, os, numpy as np
    >>> from appgrad import CCA, open_views
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "both.npy")
    ...     np.save(path, np.random.default_rng(0).standard_normal((50, 5)))
    ...     views = open_views(f"{path}::columns=0-2", f"{path}::columns=3,4")
    ...     CCA(1).fit(views).canonical_correlations_.round(4)
    array([0.237])
    """
    # Imported here: models of arrays in memory need neither files nor clusters.
    if client is not None:
        from .cluster.files import opened_by

        return opened_by(dask_back_end().DaskCluster(client), str(x), str(y), columns_of(model))
    from .files.readers import open_views as opened

    return opened(x, y, columns_of(model))
