"""A path of sparse models from many columns to few, and the choice of one of them by cross-validation."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from ..covariance.moments import moments
from ..data.derived import CountedViews
from ..data.sources import as_views
from ..data.views import Views
from ..fitting.progress import logger
from ..machine.arrays import Array
from ..solvers.sparse.batch import largest_alpha, sparse_covariance
from ..solvers.sparse.regressions import NothingLeftError
from .base import is_one_dimensional
from .cca import CCA
from .sparse import SparseCCA

# Default number of points of a path.
POINTS = 20
# The densest point of a path: this share of the largest penalty; or at most this many columns, with this many
# rows for each.
LEAST_ALPHA, MOST_COLUMNS, ROWS_PER_COLUMN = 0.1, 50, 10
# Fewest held-out rows of a fold: two rows are always perfectly correlated.
FEWEST_ROWS = 3


def sparse_path(
    X: Any,
    y: Any = None,
    n_components: int = 2,
    *,
    alphas: int | Sequence[Any] | None = None,
    n_nonzeros: Sequence[Any] | None = None,
    **params: Any,
) -> list[SparseCCA]:
    """Models for a list of penalties, sparsest first, each started from the one with more columns.

    With support="component", every model starts anew.

    Parameters
    ----------
    X, y : the two views, as for `SparseCCA.fit`
    n_components : int, default=2
        Number of canonical pairs.
    alphas : int or list, optional
        Penalties, as numbers or pairs. An integer is their number, from the largest that leaves any column to
        a tenth of it. Default 20.
    n_nonzeros : list, optional
        Numbers of columns, as integers or pairs, instead of penalties.
    **params
        Other parameters of `SparseCCA`.

    Returns
    -------
    list of fitted SparseCCA
        Sparsest first, without the points of the path that leave no column. `n_passes_` of a model counts
        its own passes; finding penalties that are not given takes a few more.

    Examples
    --------
    >>> from appgrad import sparse_path
    >>> from appgrad.datasets import sparse_planted
    >>> p = sparse_planted(300, 400, 400, random_state=0)
    >>> models = sparse_path(p.X, p.y, 1, n_nonzeros=[2, 5, 10, 20])
    >>> [model.n_nonzero_ for model in models]
    [(2, 2), (5, 5), (10, 10), (20, 20)]
    """
    given = [name for name in ("alpha", "n_nonzero", "warm_start") if name in params]
    if given:
        raise ValueError(f"{given[0]} is what changes along a path: use alphas or n_nonzeros")
    if alphas is not None and n_nonzeros is not None:
        raise ValueError("alphas and n_nonzeros are two ways to say it: give one")
    views = as_views(X, y)
    model = SparseCCA(n_components, **params, warm_start=True)
    if n_nonzeros is None:
        name, grid = "alpha", _alphas(views, model, POINTS if alphas is None else alphas)
    else:
        name, grid = "n_nonzero", _sorted(n_nonzeros, descending=False)
    return [fitted for _, fitted in _path(views, model, name, grid)][::-1]


def _path(views: Views, model: SparseCCA, name: str, grid: Sequence[Any]) -> Iterator[tuple[int, SparseCCA]]:
    """Yield fits with their positions in the grid, from the densest to the sparsest.

    This is easier than the other way (docs/decisions/0008). Points that leave no column are skipped.
    """
    if model.checkpoint is not None:
        raise ValueError("a checkpoint is of one fit, and a path is many: use checkpoint=None")
    failed: NothingLeftError | None = None
    found = False
    for i in reversed(range(len(grid))):
        model.set_params(**{name: grid[i]})
        try:
            # No overfit warnings: paths are compared to find out if correlations are more than overfitting.
            model._keep(model._fitted_to(views).without_overfit())
        except NothingLeftError as error:
            # Another pair of penalties may still leave some columns.
            failed = failed or error
            continue
        found = True
        yield i, copy.copy(model).set_params(warm_start=False)
    if failed is not None and not found:
        raise failed


def _alphas(views: Views, model: SparseCCA, alphas: int | Sequence[Any]) -> list[Any]:
    if not isinstance(alphas, int | np.integer):
        return _sorted(alphas, descending=True)
    if alphas < 1:
        raise ValueError(f"alphas must be a list or a number of at least 1, got {alphas}")
    problem, _ = model.problem_and_options()
    k = 1 if model.support == "component" else problem.n_components
    limit = largest_alpha(sparse_covariance(views, problem), k)
    if limit == 0:
        raise ValueError("no column of X is correlated with any of y: there is nothing to find")
    return [float(a) for a in np.geomspace(0.95 * limit, LEAST_ALPHA * limit, alphas)]


def _sorted(values: Any, descending: bool) -> list[Any]:
    """Penalties or numbers of columns, sparsest first."""
    if not isinstance(values, tuple | list | np.ndarray):
        raise ValueError(f"expected a list of penalties or of numbers of columns, got {values!r}")
    if not len(values):
        raise ValueError("the list of penalties is empty")
    return sorted(values, key=lambda value: float(np.mean(value)), reverse=descending)


class SparseCCACV(CCA):
    """Sparse CCA with the penalty, or the number of columns, chosen by cross-validation.

    For each fold, a path of models is fitted without its rows and scored on them. The chosen model is then
    fitted to all rows.

    Parameters
    ----------
    estimator : SparseCCA, optional
        The model, except for its sparsity; by default one component.
    alphas : int or list, optional
        Penalties to choose from, or their number.
    n_nonzeros : list, optional
        Numbers of columns to choose from. Default, without `alphas`: some twenty from the number of
        components to 50, or to a tenth of the rows if that is less.
    cv : int or cross-validator, default=5
        Folds; an integer makes folds of consecutive rows. Use more folds if the relation is weak and rows are
        few.
    rule : {"1se", "max"}, default="1se"
        "max" takes the model with the best mean score. "1se" takes the sparsest model whose mean score is
        below the best by no more than one standard error of the differences between their folds.

    Attributes
    ----------
    best_estimator_ : SparseCCA
        The chosen model, fitted to all rows. Its attributes can also be read from this one.
    grid_ : list
        Penalties or numbers of columns that were compared, sparsest first.
    scores_ : ndarray of shape (n_folds, n_points)
        Mean correlation on held-out rows; 0 where no column was left.
    best_index_ : int
        Position of the chosen point in the grid.

    Examples
    --------
    >>> from appgrad import SparseCCACV
    >>> from appgrad.datasets import sparse_planted
    >>> p = sparse_planted(500, 200, 200, random_state=0)
    >>> model = SparseCCACV(n_nonzeros=[2, 5, 10, 20], cv=3).fit(p.X, p.y)
    >>> model.best_estimator_.n_nonzero_
    (10, 10)
    """

    best_estimator_: SparseCCA

    def __init__(
        self,
        estimator: SparseCCA | None = None,
        *,
        alphas: Any = None,
        n_nonzeros: Any = None,
        cv: Any = 5,
        rule: str = "1se",
    ) -> None:
        self.estimator = estimator
        self.alphas = alphas
        self.n_nonzeros = n_nonzeros
        self.cv = cv
        self.rule = rule

    def fit(self, X: Any, y: Any = None) -> Self:
        """Choose the sparsity by cross-validation, and fit to all rows."""
        if self.rule not in ("1se", "max"):
            raise ValueError(f"rule must be '1se' or 'max', got {self.rule!r}")
        if self.alphas is not None and self.n_nonzeros is not None:
            raise ValueError("alphas and n_nonzeros are two ways to say it: give one")
        if not (self.estimator is None or isinstance(self.estimator, SparseCCA)):
            raise ValueError(f"estimator must be None or a SparseCCA, got {self.estimator!r}")
        model = SparseCCA(1) if self.estimator is None else clone(self.estimator)
        model.set_params(warm_start=True, alpha=None, n_nonzero=None)
        views, one_dimensional = CountedViews(as_views(X, y)), is_one_dimensional(y)
        # Check all rows first, so that errors name rows of the data and not of a fold.
        moments(views)
        if self.alphas is None:
            name, grid = "n_nonzero", self._counts(views, model)
        else:
            name, grid = "alpha", _alphas(views, model, self.alphas)
        scores = self._fold_scores(views, model, name, grid)
        best = _chosen(scores, self.rule)
        # As in the folds, the path leads to the chosen point from denser ones.
        fits = dict(_path(views, model, name, grid[best:]))
        if 0 not in fits:
            raise ValueError(
                f"{name}={grid[best]!r} was chosen, but leaves nothing of all rows: use rule='max'"
            )
        fitted = fits[0]
        known = fitted._known()
        fitted._fitted = known._replace(rows=known.rows._replace(y_1d=one_dimensional))
        # The chosen model, with the passes of all folds counted too.
        self._fitted = fitted._fitted._replace(fit=fitted._solved()._replace(passes=views.passes))
        self.best_estimator_, self.grid_, self.scores_, self.best_index_ = fitted, grid, scores, best
        return self

    @property
    def n_nonzero_(self) -> tuple[int, int]:
        """Number of columns of each view with a weight in any component."""
        return self.best_estimator_.n_nonzero_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chosen model to one file; `appgrad.load` reads it back as a `SparseCCA`."""
        check_is_fitted(self)
        self.best_estimator_.save(path)

    from_covariance = SparseCCA.from_covariance

    def _refuses_streams(self) -> str | None:
        return f"{type(self).__name__} needs all rows at a time: use fit, which also takes files of any size"

    def _fold_scores(self, views: CountedViews, model: SparseCCA, name: str, grid: list[Any]) -> Array:
        """Mean correlation on the rows of each fold (rows) for each point of the grid (columns)."""
        splits = list(check_cv(self.cv).split(np.empty((views.n_samples, 1))))
        fewest = min(len(test) for _, test in splits)
        if fewest < FEWEST_ROWS:
            raise ValueError(
                f"cv={self.cv!r} holds out {fewest} of {views.n_samples} rows at a time, whose correlation "
                "says nothing: use fewer folds"
            )
        scores = np.zeros((len(splits), len(grid)))
        for row, (train, test) in enumerate(splits):
            held_out = views.take(test)
            # A fold in which no penalty leaves a column scores 0.
            with suppress(NothingLeftError):
                for i, fitted in _path(views.take(train), clone(model), name, grid):
                    scores[row, i] = fitted.score(held_out)
            if model.verbose:
                logger.info(
                    "fold %d of %d: best mean correlation %.3f", row + 1, len(splits), scores[row].max()
                )
        return scores

    def _counts(self, views: Views, model: SparseCCA) -> list[Any]:
        if self.n_nonzeros is not None:
            return _sorted(self.n_nonzeros, descending=False)
        least = 1 if model.support == "component" else model.n_components
        columns = views.n_features_x, views.n_features_y
        most = max(least, min(MOST_COLUMNS, views.n_samples // ROWS_PER_COLUMN, max(columns)))
        counts = np.unique(np.geomspace(least, most, POINTS).round().astype(int))
        return [(min(int(c), columns[0]), min(int(c), columns[1])) for c in counts]


def _chosen(scores: Array, rule: str) -> int:
    """Position of the chosen point in a grid that is sorted, sparsest first."""
    mean = scores.mean(axis=0)
    best = int(np.argmax(mean))
    if rule == "max" or len(scores) < 2:
        return best
    behind = scores[:, [best]] - scores
    error = behind.std(axis=0, ddof=1) / np.sqrt(len(scores))
    return int(np.flatnonzero(behind.mean(axis=0) <= error)[0])
