"""Base class of all estimators: fit, scores of new rows, and correlations of these scores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from ..covariance.moments import second_moments
from ..data.derived import CountedViews, by_name
from ..data.finite import Place
from ..data.inputs import as_column, as_matrix, feature_names, is_dask
from ..data.kernels import Learned, MappedViews
from ..data.row_labels import require_same_labels
from ..data.sources import as_views, dask_back_end, is_views
from ..data.views import Views
from ..fitting.checkpoint import EVERY, CheckpointFile
from ..fitting.fit import fit, generator, threads_for
from ..fitting.parameters import checked
from ..fitting.progress import followed, logger
from ..fitting.projection import Projection, scores_of
from ..fitting.remarks import issue
from ..inference.noise import like_noise
from ..machine.arrays import Array, Matrix, require_unmasked
from ..metrics import correlations, paired_correlations
from ..solvers.problem import Problem, Progress, Solution
from ..solvers.protocol import Options
from ..version import __version__
from .containers import in_containers
from .fitted import Fitted, Rows, named, projection
from .trust import TrustAttributes

# Parameters that may change when a fit resumes from a checkpoint: budgets, and those that do not affect the
# numbers.
FREE = ("max_iter", "max_passes", "max_seconds", "max_flops", "n_jobs", "verbose", "callback", "checkpoint")

# Most names of columns in an error.
SHOWN = 5


class Prepared(NamedTuple):
    """The views and the problem for a solver, and what a kernel model has learned from the rows."""

    views: Views
    problem: Problem
    learned: Learned | None = None


# scikit-learn's wrapper of `transform` demands X and wraps the first of a pair alone: `in_containers` wraps.
class BaseCCA(  # type: ignore[call-arg]
    TrustAttributes, ClassNamePrefixFeaturesOutMixin, TransformerMixin, auto_wrap_output_keys=None
):
    """Base of all estimators: fits canonical pairs to two views. Subclasses set the problem and its views."""

    callback: Callable[[Progress], Any] | None
    checkpoint: Any
    n_jobs: int | None
    random_state: Any
    verbose: int

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to two views of the same rows, or to one `Views` object that holds both.

        A fit that raises leaves the estimator with its last fit. The one exception is a KeyboardInterrupt
        while an iterative solver runs: it is raised again after the model has been set to the best state
        so far.
        """
        self._keep(self._fitted_to(X, y))
        return self

    def transform(self, X: Any = None, y: Any = None) -> Any:
        """Scores: of X, of y alone (`transform(y=y)`), or of both views as a pair.

        A `Views` object holds both views. Scores of Dask arrays and data frames are Dask arrays, not computed
        yet. Others are arrays, or the frames that `set_output` asks for, with the index of their rows. Both
        views have the same column names: their scores are coordinates in one space.
        """
        return in_containers(self, X, y, self.array_scores(X, y))

    def array_scores(self, X: Any = None, y: Any = None) -> Any:
        """Scores as `transform` gives them, but never as frames: for code that computes with them."""
        check_is_fitted(self)
        if is_views(y):
            raise TypeError("a Views object holds both views: give it as X alone, transform(views)")
        if is_views(X):
            return scores_of(self._views(X, y), self._projection(0), self._projection(1))
        given = [view for view, data in enumerate((X, y)) if data is not None]
        if not given:
            raise ValueError("there are no rows: give X, y or both, as in transform(X) or transform(y=y)")
        lazy = is_dask(X) or is_dask(y)
        if len(given) == 2:
            (dask_back_end().require_same_ends if lazy else require_same_labels)(X, y)
        scores = [(self._lazy if lazy else self._scores)((X, y)[view], view) for view in given]
        if len(given) == 1:
            return scores[0]
        U, V = scores
        if not lazy and len(U) != len(V):
            raise ValueError(f"y has {len(V)} rows, X has {len(U)}: rows must be paired")
        return U, V

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit and return the scores of both views."""
        return self.fit(X, y).transform(X, y)

    def score(self, X: Any, y: Any = None, sample_weight: None = None) -> float:
        """Mean over the components of the correlation of the two scores, weights fixed."""
        if sample_weight is not None:
            raise ValueError(f"sample_weight is not supported by {type(self).__name__}.score")
        if y is None and not is_views(X):
            raise ValueError("score needs both views: score(X, y)")
        if not (is_views(X) or is_dask(X) or is_dask(y)):
            U, V = self.array_scores(X, y)
            return float(np.mean(correlations(U, V)))
        # Large data: accumulate moments of the scores.
        check_is_fitted(self)
        scores = MappedViews(self._views(X, y), self._projection(0), self._projection(1))
        return float(np.mean(paired_correlations(*second_moments(scores))))

    def view_scores(
        self, rows: Matrix, view: int, names: Array | None, label: str, place: Place | None = None
    ) -> Array:
        """Scores of a matrix of rows of one view, 0 or 1, whose columns have these names if any.

        `label` is what the matrix is called in errors, `place` what a row is called.
        """
        check_is_fitted(self)
        self._require_columns(rows.shape[1], names, view, label)
        return self._projection(view)._replace(label=label, place=place)(rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, atomically; `appgrad.load` reads it back.

        Callbacks and random generators are not saved. A model of `partial_fit` is saved with its sums, or the
        state of its steps, so that more rows can be added after loading.
        """
        # Imported here because model_file imports all estimators, and so this module.
        from .model_file import save

        save(self, path)

    def problem_and_options(self) -> tuple[Problem, Options]:
        """The problem that the parameters ask for, and how to solve it; ValueError if they are wrong."""
        return checked(self.get_params(deep=False))

    @property
    def _n_features_out(self) -> int:
        # Read from an unsolved stream: displaying a model must not solve it.
        if self._stream is not None and self._known().fit is None:
            return self._stream.problem.n_components
        return len(self.canonical_correlations_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_appgrad_version": __version__}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        found = state.pop("_appgrad_version", None)
        if found != __version__:
            by = "another version of appgrad" if found is None else f"appgrad {found}"
            raise ValueError(
                f"this {type(self).__name__} was pickled by {by}, and this is appgrad "
                f"{__version__}: a pickle is for one version. Write models with save, read them with "
                "appgrad.load: these files are read by all later versions"
            )
        super().__setstate__(state)

    def _fitted_to(self, X: Any, y: Any = None) -> Fitted:
        """The model fitted to these rows; the estimator itself is left unchanged."""
        problem, options = self.problem_and_options()
        if options.forget is not None:
            raise ValueError("forget is for streams: use partial_fit or fit_stream, or forget=None")
        one_dimensional = is_one_dimensional(y)
        rows, k, rng = as_views(X, y), problem.n_components, generator(self.random_state)
        raw = CountedViews(rows, threads=threads_for(rows, k, self.n_jobs))
        prepared = self._prepared(raw, problem, options, rng)
        threads = threads_for(prepared.views, k, self.n_jobs)
        views = CountedViews(prepared.views, threads=threads)
        views.rows = raw.rows
        with followed("fit", self.verbose, self.callback, views, problem.n_components) as callback:
            found = fit(
                views,
                prepared.problem,
                options,
                rng,
                callback=callback,
                checkpoint=self._checkpoint_file(),
                rows=None if prepared.views is raw.views else raw.views,
                threads=threads,
                overfit=self._overfit,
            )
        return Fitted(
            Rows(
                raw.n_samples,
                (raw.n_features_x, raw.n_features_y),
                (named(raw.names[0]), named(raw.names[1])),
                one_dimensional,
                prepared.learned,
            ),
            self._judged(found, views, options, threads),
        )

    def _keep(self, fitted: Fitted) -> None:
        """Set the model. Its warnings come first: one that is raised as an error leaves the old fit.

        Those of an interrupted fit are kept with the model: Ctrl-C itself has to be raised.
        """
        found = fitted.fit
        assert found is not None
        if not found.interrupted:
            issue(found.remarks)
        if self.verbose:
            logger.info("%s: %s; %.2f s", found.solver, found.reason, found.seconds)
        self._set(fitted, None)
        if found.interrupted:
            raise KeyboardInterrupt("fit was interrupted: the model is that of the best state so far")

    def _prepared(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator
    ) -> Prepared:
        """The views and the problem for the solver; here those of the user."""
        return Prepared(views.views, problem)

    def _overfit(self, n: int, p1: int, p2: int, solution: Solution) -> list[str]:
        """Warnings about correlations that are high only because of overfitting."""
        problem, _ = self.problem_and_options()
        return like_noise(n, p1, p2, solution, problem)

    def _kept(self, solution: Solution) -> Solution:
        """The parts of a solution that the model keeps; here all of them."""
        return solution

    def _checkpoint_file(self) -> CheckpointFile | None:
        """The checkpoint file of a run; None without the parameter `checkpoint`."""
        if self.checkpoint is None:
            return None
        pair = isinstance(self.checkpoint, tuple | list)
        path, every = self.checkpoint if pair else (self.checkpoint, EVERY)
        params = {name: value for name, value in plain_params(self).items() if name not in FREE}
        return CheckpointFile(path, float(every), params)

    def _projection(self, view: int) -> Projection:
        """The function from rows of a view to their scores."""
        solution = self._solved().solution
        return projection(self._known().rows, solution, view)

    def _views(self, X: Any, y: Any) -> Views:
        """Views on new rows; raises unless they have the columns of the fit."""
        views = as_views(X, y)
        if is_views(X):
            # Of files, which may have other columns beside those of the fit.
            views = by_name(views, self._known().rows.names)
        self._require_columns(views.n_features_x, views.names[0], 0, views.view_names[0])
        self._require_columns(views.n_features_y, views.names[1], 1, views.view_names[1])
        return views

    def _scores(self, data: Any, view: int) -> Array:
        """Scores of rows of one view in memory."""
        m, names = as_matrix(as_column(data) if view else data, "Xy"[view]), feature_names(data)
        if m.shape[1] != self._known().rows.n_features[view] or view:
            self._require_columns(m.shape[1], names, view, "Xy"[view])
        else:
            # scikit-learn's own words for names that differ.
            with advised(self._advice(names, 0, "X")):
                validate_data(self, data, reset=False, skip_check_array=True)
        return self._projection(view)(m)

    def _lazy(self, data: Any, view: int) -> Any:
        """Scores of Dask data as a Dask array, not computed yet."""
        back_end, label = dask_back_end(), "Xy"[view]
        if not is_dask(data):
            raise TypeError(f"{label} is not of Dask, and the other view is: use the same for both")
        p, names = back_end.columns_of(data)
        self._require_columns(p, names, view, label)
        scores = self._projection(view)
        return back_end.lazily(data, _chunk_scores, scores, scores.n_features)

    def _require_columns(self, p: int, names: Array | None, view: int, label: str) -> None:
        """Raise unless there are as many columns as in the fit, with the same names if they have names."""
        rows = self._known().rows
        expected, other = rows.n_features[view], rows.n_features[1 - view]
        advice = self._advice(names, view, label)
        fitted = rows.names[view]
        if p != expected:
            missing = [] if names is None or fitted is None else _without(fitted, names)
            # Names tell the views apart, if none of the fit is left.
            may_be = p == other and len(missing) in (0, expected)
            swapped = "; are the two views swapped?" if may_be and not advice else ""
            if missing and not swapped:
                advice = f". Feature names seen at fit time, yet now missing: {_listed(missing)}"
            raise ValueError(
                f"{label} has {p} features, but {type(self).__name__} is expecting {expected} features as "
                f"input{swapped}{advice}"
            )
        if names is None or fitted is None or list(names) == list(fitted):
            return
        missing = [name for name in fitted if name not in set(names)]
        if not missing:
            advice = advice or ": reorder its columns"
            raise ValueError(f"{label} has the feature names of the fit in another order{advice}")
        unexpected = [name for name in names if name not in set(fitted)]
        raise ValueError(
            f"{label} has other feature names than in fit: missing {missing[:5]}, unexpected {unexpected[:5]}"
        )

    def _advice(self, names: Array | None, view: int, label: str) -> str:
        """How to choose the columns of the fit from a frame that has them; empty if it does not."""
        fitted = self._known().rows.names[view]
        if names is None or fitted is None or label not in ("X", "y") or not set(fitted) <= set(names):
            return ""
        attribute = ("feature_names_in_", "feature_names_y_")[view]
        return f"; it has the columns of the fit: choose them by {label}[model.{attribute}]"


@contextmanager
def advised(advice: str) -> Iterator[None]:
    """Add advice to errors about values."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{error}{advice}") from None


def _without(fitted: Array, names: Array) -> list[str]:
    """The names of the fit that are not among these."""
    found = set(names)
    return [str(name) for name in fitted if name not in found]


def _listed(names: list[str]) -> str:
    """The first names, and how many more there are."""
    more = [f"and {len(names) - SHOWN} more"] if len(names) > SHOWN else []
    return ", ".join(names[:SHOWN] + more)


def plain_params(model: BaseCCA) -> dict[str, Any]:
    """The parameters of a model as JSON can hold them; None for what it cannot, such as a callback."""
    return {name: _plain(value) for name, value in model.get_params().items()}


def is_one_dimensional(y: Any) -> bool:
    """True if y is given, as an array or nested lists of one dimension."""
    if y is None:
        return False
    require_unmasked(y, "y")
    return (len(y.shape) if hasattr(y, "shape") else np.asarray(y).ndim) == 1


def _chunk_scores(chunk: Any, model: Projection) -> Array:
    """Scores of a chunk of any type: array, sparse matrix or data frame."""
    return model(as_matrix(as_column(chunk), model.label, min_rows=0))


def _plain(value: Any) -> Any:
    """A parameter as JSON can hold it; None for what it cannot, such as a callback."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str) else None
