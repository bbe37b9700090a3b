"""What all estimators share: fit, scores of new rows, and the file a model is saved to."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from ..covariance.moments import second_moments
from ..data.derived import CountedViews
from ..data.kernels import MappedViews
from ..data.matrices import as_column, as_matrix, feature_names, is_dask
from ..data.sources import as_views, dask_back_end, is_views
from ..data.views import BLOCK_BYTES, ENTRY_BYTES, Block, Views, describe, require_finite
from ..fitting import archive as persist
from ..fitting.checkpoint import EVERY, Checkpoint
from ..fitting.choose import solving
from ..fitting.parameters import checked
from ..fitting.progress import followed, logger
from ..fitting.warnings import overfit_warnings, warn_if_unconverged
from ..machine.arrays import Array, Matrix
from ..machine.threads import blas_limit
from ..metrics import correlations, paired_correlations
from ..solvers.problem import Problem, Progress, Solution
from ..solvers.setup import ITERATIVE, Options
from ..version import __version__
from .streaming import StreamingMixin, generator, ndim, require_components

COUNTS = ("n_samples_", "n_features_in_", "n_features_y_")
FACTS = (*COUNTS, "n_iter_", "n_passes_", "solver_", "solver_reason_")


class Prepared(NamedTuple):
    """What solvers are given, and the attributes that go with the solution they find."""

    views: Views
    problem: Problem
    facts: dict[str, Any]


class BaseCCA(StreamingMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Two views in, canonical pairs out. What is asked, and of which views, is up to the estimator."""

    x_weights_: Array
    y_weights_: Array

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to two views of the same rows, or to one `Views` object that holds both.

        Nothing is set unless all of it succeeds: an estimator that raises keeps its last fit. The one
        exception is a KeyboardInterrupt while an iterative solver runs: it is raised again after the
        model has been set to the best state so far.
        """
        problem, options = self._asked()
        if options.forget is not None:
            raise ValueError("forget is for streams: use partial_fit or fit_stream, or forget=None")
        threads = None if self.n_jobs is None else effective_n_jobs(int(self.n_jobs))
        one_dimensional = y is not None and ndim(y) == 1
        raw, rng = CountedViews(as_views(X, y), threads=threads), generator(self.random_state)
        prepared = self._prepared(raw, problem, options, rng)
        problem, views = prepared.problem, CountedViews(prepared.views, threads=threads)
        views.rows = raw.rows
        require_components(problem, views.n_samples, views.n_features_x, views.n_features_y)
        book = self._checkpoint(prepared.views)
        progress, history, interrupted = None, [], False
        with (
            followed("fit", self.verbose, self.callback, views) as callback,
            nullcontext() if threads is None else blas_limit(threads),
        ):
            if book is not None:
                rng, callback = book.follow(rng), _written(book, callback)
            saved = None if book is None else book.saved
            steps, choice = solving(views, problem, options, rng, callback, saved)
            try:
                for progress in steps:
                    history.append(progress.record())
            except KeyboardInterrupt:
                if progress is None:
                    raise
                interrupted = True
            except (ConnectionError, MemoryError):
                # What was reached before a cluster was lost is not.
                if book is not None and progress is not None:
                    book.write(progress)
                raise
            assert progress is not None
            if book is not None:
                book.write(progress)
            solution = progress.solution()
        shape = views.n_samples, views.n_features_x, views.n_features_y
        remarks = overfit_warnings(self._overfit(*shape, solution))
        if not interrupted:
            remarks += warn_if_unconverged(progress, options._replace(solver=choice.solver), views, solution)
        if self.verbose:
            logger.info("%s: %s; %.2f s", *choice, progress.seconds)
        self.__dict__.pop("_stream", None)
        self.__dict__.update(prepared.facts)
        self._set(solution, views.dtype)
        self.n_samples_, self.n_features_in_ = raw.n_samples, raw.n_features_x
        self.n_features_y_ = raw.n_features_y
        self._set_names(*raw.names)
        self.solver_, self.solver_reason_ = choice
        self.n_iter_, self.n_passes_ = [progress.iteration] * problem.n_components, views.passes
        self.history_ = history
        resumed = saved if choice.solver in ITERATIVE else None
        self.resumed_from_iteration_ = 0 if resumed is None else resumed.iteration
        self._y_1d, self._origin, self._remarks = one_dimensional, None, tuple(remarks)
        if interrupted:
            raise KeyboardInterrupt("fit was interrupted: the model is that of the best state so far")
        return self

    def transform(self, X: Any, y: Any = None) -> Array | tuple[Array, Array]:
        """Scores of X, or of both views when y is given or X is a `Views` object.

        Scores of Dask arrays and data frames are Dask arrays, computed when they are asked for.
        """
        check_is_fitted(self, "canonical_correlations_")
        if is_views(X):
            views = self._views(X, y)
            model = self._light()
            scores = views.reduce(partial(_scores_of, model), _joined)
            return np.vstack([u for u, _ in scores]), np.vstack([v for _, v in scores])
        if is_dask(X) or is_dask(y):
            U = self._lazy(X, 0)
            return U if y is None else (U, self._lazy(y, 1))
        m = as_matrix(X, "X")
        self._require_columns(m.shape[1], None, 0, "X")
        validate_data(self, X, reset=False, skip_check_array=True)
        U = self._project(m, 0)
        if y is None:
            return U
        m = as_matrix(as_column(y), "y")
        self._require_columns(m.shape[1], feature_names(y), 1, "y")
        if m.shape[0] != len(U):
            raise ValueError(f"y has {m.shape[0]} rows, X has {len(U)}: rows must be paired")
        return U, self._project(m, 1)

    def fit_transform(self, X: Any, y: Any = None) -> tuple[Array, Array]:
        """Fit and return the scores of both views."""
        return self.fit(X, y).transform(X, y)  # type: ignore[return-value]

    def score(self, X: Any, y: Any = None, sample_weight: None = None) -> float:
        """Mean over the components of the correlation of the two scores, weights fixed."""
        if sample_weight is not None:
            raise ValueError(f"sample_weight is not supported by {type(self).__name__}.score")
        if y is None and not is_views(X):
            raise ValueError("score needs both views: score(X, y)")
        if not (is_views(X) or is_dask(X) or is_dask(y)):
            U, V = self.transform(X, y)
            return float(np.mean(correlations(U, V)))
        # Of rows that may be many, no more is kept than sums.
        check_is_fitted(self, "canonical_correlations_")
        views, model = self._views(X, y), self._light()
        second = second_moments(MappedViews(views, Projection(model, 0), Projection(model, 1)))
        return float(np.mean(paired_correlations(*second)))

    def _views(self, X: Any, y: Any) -> Views:
        """Views on rows that have the columns of the fit."""
        views = as_views(X, y)
        self._require_columns(views.n_features_x, views.names[0], 0, views.view_names[0])
        self._require_columns(views.n_features_y, views.names[1], 1, views.view_names[1])
        return views

    def _lazy(self, data: Any, view: int) -> Any:
        """Scores of Dask data, to be computed."""
        back_end, label = dask_back_end(), "Xy"[view]
        if not is_dask(data):
            raise TypeError(f"{label} is not of Dask, and the other view is: use the same for both")
        columns = getattr(data, "columns", None)
        p = data.shape[1] if columns is None and data.ndim == 2 else 1 if columns is None else len(columns)
        names = None if columns is None else feature_names(data._meta)
        self._require_columns(p, names, view, label)
        k = len(self.canonical_correlations_)
        return back_end.lazily(data, partial(_scores, view=view), self._light(), k)

    def _light(self) -> Self:
        """The model without what workers have no use for."""
        model = copy.copy(self)
        model.__dict__.update(callback=None, checkpoint=None, random_state=None)
        model.__dict__.pop("_stream", None)
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, atomically; `appgrad.load` reads it back.

        Callbacks and random generators are not saved. A model of `partial_fit` is saved with its sums, or the
        state of its steps, so that rows can go on coming.
        """
        stream, sums = self._packed_stream()
        try:
            check_is_fitted(self, "canonical_correlations_")
            fitted = True
        except NotFittedError:
            raise
        except ValueError:
            # A stream of too few rows as yet has a state, but no solution.
            fitted = False
        params = {name: _plain(value) for name, value in self.get_params().items()}
        more, parts = self._packed_facts()
        arrays = sums | parts | ({name: getattr(self, name) for name in self._arrays} if fitted else {})
        meta = {
            "stream": stream,
            "library": __version__,
            "estimator": type(self).__name__,
            "params": params,
            "facts": {name: getattr(self, name) for name in (FACTS if fitted else COUNTS)},
            "fitted": fitted,
            "history": self.history_ if fitted else [],
            "remarks": [list(remark) for remark in getattr(self, "_remarks", ())] if fitted else [],
            "y_1d": self._y_1d,
            # Rows that came later are not of these files.
            "origin": None if stream is not None or self._origin is None else self._origin.packed(),
            "more": more,
            "feature_names": [
                None if names is None else [str(name) for name in names] for names in self._names()
            ],
        }
        persist.write(path, arrays, meta)

    @property
    def _n_features_out(self) -> int:
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
            raise ValueError(
                f"this {type(self).__name__} was pickled by {_named(found)}, and this is appgrad "
                f"{__version__}: a pickle is for one version. Write models with save, read them with "
                "appgrad.load: these files are read by all later versions"
            )
        super().__setstate__(state)

    def _asked(self) -> tuple[Problem, Options]:
        """What the parameters ask for."""
        return checked(self.get_params(deep=False))

    def _prepared(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator
    ) -> Prepared:
        """The views and the problem that solvers are given; here those of the user."""
        return Prepared(views.views, problem, {})

    def _widths(self) -> tuple[int, int]:
        """How many weights a component has in each view."""
        return self.n_features_in_, self.n_features_y_

    def _packed_facts(self) -> tuple[Any, dict[str, Array]]:
        """What a file must hold beyond arrays and counts."""
        return None, {}

    def _unpack_facts(self, spec: Any, arrays: dict[str, Array], version: int) -> None:
        """Set what `_packed_facts` has put into a file of this version."""

    def _checkpoint(self, views: Views) -> Checkpoint | None:
        """The file that follows a run, if one is asked for."""
        if self.checkpoint is None:
            return None
        pair = isinstance(self.checkpoint, tuple | list)
        path, every = self.checkpoint if pair else (self.checkpoint, EVERY)
        # Budgets may change, and what does not touch the numbers.
        free = (
            "max_iter",
            "max_passes",
            "max_seconds",
            "max_flops",
            "n_jobs",
            "verbose",
            "callback",
            "checkpoint",
        )
        params = {name: _plain(value) for name, value in self.get_params().items() if name not in free}
        return Checkpoint(path, float(every), views, params)

    def _set(self, solution: Solution, dtype: np.dtype[Any]) -> None:
        """Keep a solution, weights in the precision of the data where that can hold them."""
        s = solution
        found = {
            "canonical_correlations_": s.correlations,
            "training_correlations_": s.training_correlations,
            "x_weights_": _cast(s.x_weights, dtype),
            "y_weights_": _cast(s.y_weights, dtype),
            "x_loadings_": _cast(s.x_loadings, dtype),
            "y_loadings_": _cast(s.y_loadings, dtype),
            "x_mean_": s.mean_x,
            "y_mean_": s.mean_y,
            "x_std_": s.std_x,
            "y_std_": s.std_y,
            "residuals_": s.residuals,
            "error_bounds_": s.error_bounds,
            "_y_slopes": _cast(s.y_slopes, dtype),
        }
        self.__dict__.update({name: found[name] for name in self._arrays})

    def _names(self) -> tuple[Array | None, Array | None]:
        return getattr(self, "feature_names_in_", None), getattr(self, "feature_names_y_", None)

    def _set_names(self, x: Array | None, y: Array | None) -> None:
        for attribute, names in (("feature_names_in_", x), ("feature_names_y_", y)):
            if names is not None:
                setattr(self, attribute, np.asarray(names, dtype=object))
            elif hasattr(self, attribute):
                delattr(self, attribute)

    def _require_columns(self, p: int, names: Array | None, view: int, label: str) -> None:
        expected = self.n_features_y_ if view else self.n_features_in_
        if p != expected:
            other = self.n_features_in_ if view else self.n_features_y_
            swapped = "; are the two views swapped?" if p == other else ""
            raise ValueError(
                f"{label} has {p} features, but {type(self).__name__} is expecting {expected} features as "
                f"input{swapped}"
            )
        fitted = self._names()[view]
        if names is None or fitted is None or list(names) == list(fitted):
            return
        missing = [name for name in fitted if name not in set(names)]
        if not missing:
            raise ValueError(
                f"{label} has the feature names of the fit in another order: reorder its columns"
            )
        unexpected = [name for name in names if name not in set(fitted)]
        raise ValueError(
            f"{label} has other feature names than in fit: missing {missing[:5]}, unexpected {unexpected[:5]}"
        )

    def _project(self, m: Matrix, view: int, offset: int = 0) -> Array:
        """(m - mean) @ weights, a few rows at a time, in double precision."""
        mean, weights = (self.y_mean_, self.y_weights_) if view else (self.x_mean_, self.x_weights_)
        dtype = np.float32 if m.dtype.kind == "f" and m.dtype.itemsize <= 4 else np.float64
        out = np.empty((m.shape[0], weights.shape[1]), dtype=dtype)
        W = weights.astype(np.float64)
        sparse = hasattr(m, "nnz")
        width = ENTRY_BYTES * m.nnz / max(m.shape[0], 1) if sparse else 8 * m.shape[1]
        rows = max(1, int(BLOCK_BYTES / max(width, 8 * W.shape[1])))
        center = mean @ W
        for start in range(0, len(out), rows):
            part = m[start : start + rows]
            scores = part @ W - center if sparse else (part - mean) @ W
            if not np.all(np.isfinite(scores)):
                name = partial(describe, "y" if view else "X", self._names()[view])
                require_finite(part, name, offset + start)
            out[start : start + rows] = scores
        return out


class Projection:
    """The scores of rows in one view, as features of them."""

    def __init__(self, model: BaseCCA, view: int) -> None:
        self.model, self.view = model, view

    @property
    def n_features(self) -> int:
        """One for each component."""
        return len(self.model.canonical_correlations_)

    def __call__(self, x: Matrix) -> Array:
        """Scores."""
        return self.model._project(x, self.view)


def _scores(chunk: Any, model: BaseCCA, view: int) -> Array:
    """Scores of a chunk, whatever it is."""
    return model._project(as_matrix(as_column(chunk), "Xy"[view], min_rows=0), view)


def _scores_of(model: BaseCCA, block: Block) -> list[tuple[Array, Array]]:
    x, y = block.views
    return [(model._project(x, 0, block.offset), model._project(y, 1, block.offset))]


def _joined(a: list[Any], b: list[Any]) -> list[Any]:
    return a + b


def _written(book: Checkpoint, callback: Callable[[Progress], Any] | None) -> Callable[[Progress], Any]:
    """A callback that also writes checkpoints."""

    def write(progress: Progress) -> Any:
        book.write_if_due(progress)
        return None if callback is None else callback(progress)

    return write


def _cast(values: Array, dtype: np.dtype[Any]) -> Array:
    """In the precision of the data, unless that cannot hold the values."""
    with np.errstate(over="ignore", under="ignore"):
        cast = values.astype(dtype)
    fits = np.all(np.isfinite(cast)) and np.all(np.abs(cast) >= np.finfo(dtype).tiny, where=values != 0)
    return cast if fits else values


def _named(version: Any) -> str:
    return "another version of appgrad" if version is None else f"appgrad {version}"


def _plain(value: Any) -> Any:
    """A parameter as JSON can hold it; None for what it cannot, such as a callback."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str) else None
