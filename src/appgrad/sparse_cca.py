"""Sparse CCA: components that use few columns, a path of penalties, and one chosen by held-out rows."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from .base import Prepared
from .estimators import CCA
from .moments import moments
from .options import Options
from .parameters import checked, is_real, is_whole, pair_of
from .regressions import NothingLeftError
from .remarks import OverfitWarning, warn_if_chosen
from .solve import Problem, Progress, Solution
from .sources import as_views
from .sparse_batch import largest_alpha, sparse_covariance
from .streaming import ndim
from .thresholds import PENALTIES, Sparsity
from .views import Array, CountedViews, Views
from .watch import logger

SUPPORTS = ("shared", "component")
STEPS = ("appgrad", "stochastic")
SOLVERS = ("auto", "pursuit", *STEPS)
# Unless asked otherwise: a correlation that is worth a column, and the length of a path.
ALPHA, POINTS = 0.1, 20
# The densest point of a path: this share of the largest penalty, so many columns, or rows for each of them.
LEAST_ALPHA, MOST_COLUMNS, ROWS_PER_COLUMN = 0.1, 50, 10


class SparseCCA(CCA):
    """Canonical correlation analysis with weights that are zero for most columns.

    AppGrad with a threshold between its gradient step and the normalisation (Ma, Lu & Foster 2015, section
    5): views are whitened, unlike in the penalised matrix decomposition (Witten et al. 2009).

    Parameters
    ----------
    n_components : int, default=2
        Number of canonical pairs.
    alpha : float or pair of floats, optional
        Penalty of each view, in units of correlation: a column comes in when more than this is left of its
        correlation with the other view's scores, and with "l0" stays while its weight, in units of the
        column, is above it. By default 0.1, unless `n_nonzero` is given; 0 is `CCA`.
    n_nonzero : int or pair of ints, optional
        Columns of each view to be used, instead of a penalty.
    penalty : {"l0", "l1"}, default="l0"
        "l0" leaves the weights of columns in use as they are, "l1" shrinks them by alpha: better where many
        columns matter a little, worse at telling which do (docs/decisions/0008).
    support : {"shared", "component"}, default="shared"
        "shared" uses the same columns for all components. "component" lets each have its own, found one
        after the other with those before taken out of the covariances: their scores are then not exactly
        uncorrelated.
    solver : {"auto", "pursuit", "appgrad", "stochastic"}, default="auto"
        "pursuit" works the step out on the covariances of the columns in play, two passes an iteration;
        "appgrad" takes the step on all columns, one pass an iteration; "stochastic" on minibatches.
    warm_start : bool, default=False
        Start from the last fit, as `sparse_path` does; not with support="component".
    ridge, center, scale, tol, max_iter, max_passes, max_seconds, max_flops, step_size, batch_size, \
normaliser, checkpoint, callback, n_jobs, random_state, verbose
        As in `CCA`. The ridge counts as variance: columns whose own is far below it hardly come in. `tol` is
        the relative change of the weights in an iteration ("pursuit").

    Attributes
    ----------
    x_weights_, y_weights_ : ndarray of shape (n_features, n_components)
        With rows ("shared") or entries ("component") that are exactly zero.
    n_nonzero_ : pair of ints
        Columns of each view with a weight.

    residuals_ : ndarray of shape (n_components,)
        Of the equations of CCA without sparsity: they say how far from it the components are.

    All others, and `predict`, `transform` and `score`, are those of `CCA`.

    Examples
    --------
    >>> from appgrad import SparseCCA
    >>> from appgrad.datasets import sparse_planted
    >>> p = sparse_planted(300, 400, 400, random_state=0)
    >>> model = SparseCCA(1, n_nonzero=10).fit(p.X, p.y)
    >>> model.n_nonzero_
    (10, 10)
    >>> int(((model.x_weights_ != 0) & (p.x_weights != 0)).sum())
    10
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        alpha: Any = None,
        n_nonzero: Any = None,
        penalty: str = "l0",
        support: str = "shared",
        solver: str = "auto",
        ridge: str | float | tuple[float, float] = "auto",
        center: bool = True,
        scale: bool = False,
        tol: float = 1e-4,
        max_iter: int | None = None,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        max_flops: float | None = None,
        step_size: str | float = "auto",
        batch_size: int = 200,
        normaliser: str | int = "auto",
        warm_start: bool = False,
        checkpoint: Any = None,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.alpha = alpha
        self.n_nonzero = n_nonzero
        self.penalty = penalty
        self.support = support
        self.solver = solver
        self.ridge = ridge
        self.center = center
        self.scale = scale
        self.tol = tol
        self.max_iter = max_iter
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.max_flops = max_flops
        self.step_size = step_size
        self.batch_size = batch_size
        self.normaliser = normaliser
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def n_nonzero_(self) -> tuple[int, int]:
        """Columns of each view with a weight in any component."""
        return tuple(int(np.any(W != 0, axis=1).sum()) for W in (self.x_weights_, self.y_weights_))  # type: ignore[return-value]

    @classmethod
    def from_covariance(cls, *args: Any, **params: Any) -> Self:
        """Not for sparse components as yet: they are worked out on rows."""
        raise TypeError(f"{cls.__name__} needs rows: use fit")

    def _refuses_streams(self) -> str | None:
        return f"{type(self).__name__} needs all rows at a time: use fit, which also takes files of any size"

    def _asked(self) -> tuple[Problem, Options]:
        params = self.get_params(deep=False)
        rest = {"oversampling": 0, "preconditioner": "jacobi", "covariance": "auto", "forget": None}
        problem, options = checked({**params, **rest}, SOLVERS)
        sparsity = asked_sparsity(params)
        if not isinstance(self.warm_start, bool | np.bool_):
            raise ValueError(f"warm_start must be True or False, got {self.warm_start!r}")
        if sparsity.by_component and options.solver in STEPS:
            raise ValueError(
                f"support='component' is for solver='pursuit', got {options.solver!r}: use 'auto', or "
                "support='shared'"
            )
        if sparsity.penalty == "l0" and sparsity.alpha and any(sparsity.alpha) and options.solver in STEPS:
            raise ValueError(
                f"penalty='l0' with alpha is for solver='pursuit', got {options.solver!r}, whose steps are "
                "too short for columns to come in: use n_nonzero, or penalty='l1'"
            )
        if sparsity.alpha == (0.0, 0.0):
            # Nothing is set to zero: CCA itself.
            rest |= {"oversampling": "auto", "preconditioner": "auto"}
            solver = "auto" if self.solver == "pursuit" else self.solver
            return checked({**params, **rest, "solver": solver})
        return problem, options._replace(sparsity=sparsity, first=self._first(problem))

    def _first(self, problem: Problem) -> tuple[Array, Array] | None:
        """The weights of the last fit, as those of regressions."""
        if (
            not self.warm_start
            or "canonical_correlations_" not in self.__dict__
            or self.support == "component"
        ):
            return None
        rho = self.canonical_correlations_
        if len(rho) != problem.n_components:
            return None
        first = self.x_weights_ * rho, self.y_weights_ * rho
        return first[0].astype(np.float64), first[1].astype(np.float64)

    def _warn(self, n: int, p1: int, p2: int, solution: Solution) -> None:
        used = [int(np.any(W != 0, axis=1).sum()) for W in (solution.x_weights, solution.y_weights)]
        warn_if_chosen(n, (p1, p2), (used[0], used[1]), solution)

    def _prepared(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator
    ) -> Prepared:
        columns = views.n_features_x, views.n_features_y
        if options.sparsity is not None and options.sparsity.n_nonzero is not None:
            for count, p, label in zip(options.sparsity.n_nonzero, columns, views.labels, strict=True):
                if count > p:
                    raise ValueError(f"n_nonzero={count} is above the {p} columns of {label}")
        if options.first is not None and (len(options.first[0]), len(options.first[1])) != columns:
            raise ValueError(
                f"warm_start=True, but the last fit had {len(options.first[0])} + {len(options.first[1])} "
                f"columns, these are {columns[0]} + {columns[1]}: use warm_start=False"
            )
        return super()._prepared(views, problem, options, rng)


def asked_sparsity(params: dict[str, Any]) -> Sparsity:
    """The sparsity these parameters ask for, or an error that names the parameter."""
    alpha, count, k = params["alpha"], params["n_nonzero"], params["n_components"]
    for name, words in (("penalty", PENALTIES), ("support", SUPPORTS)):
        if not (isinstance(params[name], str) and params[name] in words):
            raise ValueError(f"{name} must be one of {list(words)}, got {params[name]!r}")
    by_component = params["support"] == "component"
    if count is None:
        pair = pair_of("alpha", ALPHA if alpha is None else alpha)
        if not all(is_real(a) and 0 <= a < np.inf for a in pair):
            raise ValueError(f"alpha must be finite numbers of at least 0, got {alpha!r}")
        return Sparsity(params["penalty"], (float(pair[0]), float(pair[1])), None, by_component)
    if alpha is not None:
        raise ValueError(f"alpha={alpha!r} and n_nonzero={count!r} are two ways to say it: give one")
    pair = pair_of("n_nonzero", count)
    least = 1 if by_component else int(k)
    if not all(is_whole(c) and c >= least for c in pair):
        found = "" if least == 1 else f", for {least} components need as many columns"
        raise ValueError(f"n_nonzero must be integers of at least {least}{found}, got {count!r}")
    return Sparsity(params["penalty"], None, (int(pair[0]), int(pair[1])), by_component)


def sparse_path(
    X: Any,
    y: Any = None,
    n_components: int = 2,
    *,
    alphas: int | Sequence[Any] = POINTS,
    n_nonzeros: Sequence[Any] | None = None,
    **params: Any,
) -> list[SparseCCA]:
    """Models for a list of penalties, sparsest first, each started from the one with more columns.

    Parameters
    ----------
    X, y : the two views, as for `SparseCCA.fit`
    n_components : int, default=2
        Number of canonical pairs.
    alphas : int or list, default=20
        Penalties, numbers or pairs; an integer is how many, from the largest that leaves something to a tenth
        of it.
    n_nonzeros : list, optional
        Numbers of columns instead, integers or pairs.
    **params
        Other parameters of `SparseCCA`.

    Returns
    -------
    list of fitted SparseCCA
        Sparsest first, those left out of which nothing is left.

    Examples
    --------
    >>> from appgrad import sparse_path
    >>> from appgrad.datasets import sparse_planted
    >>> p = sparse_planted(300, 400, 400, random_state=0)
    >>> models = sparse_path(p.X, p.y, 1, n_nonzeros=[2, 5, 10, 20])
    >>> [model.n_nonzero_ for model in models]
    [(2, 2), (5, 5), (10, 10), (20, 20)]
    """
    views = as_views(X, y)
    model = SparseCCA(n_components, **{**params, "warm_start": True})
    name = "alpha" if n_nonzeros is None else "n_nonzero"
    grid = _alphas(views, model, alphas) if n_nonzeros is None else _sorted(n_nonzeros, descending=False)
    return [fitted for _, fitted in _path(views, model, name, grid)][::-1]


def _path(views: Views, model: SparseCCA, name: str, grid: Sequence[Any]) -> Iterator[tuple[int, SparseCCA]]:
    """Fits from the densest to the sparsest, which is easier than the other way (docs/decisions/0008).

    With their places in the grid; it ends where nothing is left.
    """
    if model.checkpoint is not None:
        raise ValueError("a checkpoint is of one fit, and a path is many: use checkpoint=None")
    for i in reversed(range(len(grid))):
        model.set_params(**{name: grid[i]})
        try:
            with warnings.catch_warnings():
                # Whether correlations say anything is what paths are compared by.
                warnings.simplefilter("ignore", OverfitWarning)
                model.fit(views)
        except NothingLeftError:
            if i == len(grid) - 1:
                raise
            return
        yield i, copy.copy(model).set_params(warm_start=False)


def _alphas(views: Views, model: SparseCCA, alphas: int | Sequence[Any]) -> list[Any]:
    if not isinstance(alphas, int | np.integer):
        return _sorted(alphas, descending=True)
    if alphas < 1:
        raise ValueError(f"alphas must be a list or a number of at least 1, got {alphas}")
    problem, _ = model._asked()
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
    """Sparse CCA with the penalty, or the number of columns, that held-out rows suggest.

    Each fold's path of models is fitted without its rows and scored on them; the model is then fitted to all
    rows.

    Parameters
    ----------
    estimator : SparseCCA, optional
        The model but for its sparsity; by default one component.
    alphas : int or list, optional
        Penalties to choose from, or how many.
    n_nonzeros : list, optional
        Numbers of columns to choose from. Without `alphas`, by default some twenty from the number of
        components to 50, or a tenth of the rows if these are fewer.
    cv : int or cross-validator, default=5
        Folds, of consecutive rows unless asked otherwise; more of them where the relation is weak and rows
        are few.
    rule : {"1se", "max"}, default="1se"
        "max" takes the best mean score, "1se" the sparsest model whose folds fall short of those of the best
        by no more than one standard error of the differences.

    Attributes
    ----------
    best_estimator_ : SparseCCA
        The model with what was chosen, fitted to all rows. Its attributes are those of this one too.
    grid_ : list
        What was chosen from, sparsest first.
    scores_ : ndarray of shape (n_folds, n_points)
        Mean correlation on held-out rows; 0 where nothing was left.
    best_index_ : int
        Where the one that was chosen stands in the grid.

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
        """Choose by held-out rows, and fit to all."""
        if self.rule not in ("1se", "max"):
            raise ValueError(f"rule must be '1se' or 'max', got {self.rule!r}")
        if self.alphas is not None and self.n_nonzeros is not None:
            raise ValueError("alphas and n_nonzeros are two ways to say it: give one")
        model = SparseCCA(1) if self.estimator is None else clone(self.estimator)
        model.set_params(warm_start=True, alpha=None, n_nonzero=None)
        views, one_dimensional = as_views(X, y), y is not None and ndim(y) == 1
        # What is wrong with rows is said of rows, not of folds.
        moments(views)
        if self.alphas is None:
            name, grid = "n_nonzero", self._counts(views, model)
        else:
            name, grid = "alpha", _alphas(views, model, self.alphas)
        splits = list(check_cv(self.cv).split(np.empty((views.n_samples, 1))))
        scores = np.zeros((len(splits), len(grid)))
        for row, (train, test) in enumerate(splits):
            held_out = views.take(test)
            # Of rows in which there is nothing to find, nothing is found.
            with suppress(NothingLeftError):
                for i, fitted in _path(views.take(train), clone(model), name, grid):
                    scores[row, i] = fitted.score(held_out)
            if model.verbose:
                logger.info(
                    "fold %d of %d: best mean correlation %.3f", row + 1, len(splits), scores[row].max()
                )
        best = _chosen(scores, self.rule)
        # The way there is the path's: from denser ones.
        fits = dict(_path(views, model, name, grid[best:]))
        if 0 not in fits:
            raise ValueError(
                f"{name}={grid[best]!r} was chosen, but leaves nothing of all rows: use rule='max'"
            )
        fitted = fits[0]
        self.__dict__.update(
            {key: value for key, value in vars(fitted).items() if key not in fitted.get_params(deep=False)}
        )
        self._y_1d = fitted._y_1d = one_dimensional
        self._set_names(*views.names)
        self.best_estimator_, self.grid_, self.scores_, self.best_index_ = fitted, grid, scores, best
        return self

    @property
    def n_nonzero_(self) -> tuple[int, int]:
        """Columns of each view with a weight in any component."""
        return self.best_estimator_.n_nonzero_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the chosen model to one file; `appgrad.load` reads it back as a `SparseCCA`."""
        check_is_fitted(self, "best_estimator_")
        self.best_estimator_.save(path)

    from_covariance = SparseCCA.from_covariance

    def _refuses_streams(self) -> str | None:
        return f"{type(self).__name__} needs all rows at a time: use fit, which also takes files of any size"

    def _counts(self, views: Views, model: SparseCCA) -> list[Any]:
        if self.n_nonzeros is not None:
            return _sorted(self.n_nonzeros, descending=False)
        least = 1 if model.support == "component" else model.n_components
        columns = views.n_features_x, views.n_features_y
        most = max(least, min(MOST_COLUMNS, views.n_samples // ROWS_PER_COLUMN, max(columns)))
        counts = np.unique(np.geomspace(least, most, POINTS).round().astype(int))
        return [(min(int(c), columns[0]), min(int(c), columns[1])) for c in counts]


def _chosen(scores: Array, rule: str) -> int:
    """The best point of a grid that is sorted, sparsest first."""
    mean = scores.mean(axis=0)
    best = int(np.argmax(mean))
    if rule == "max" or len(scores) < 2:
        return best
    behind = scores[:, [best]] - scores
    error = behind.std(axis=0, ddof=1) / np.sqrt(len(scores))
    return int(np.flatnonzero(behind.mean(axis=0) <= error)[0])
