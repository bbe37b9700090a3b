"""What people use: CCA as a scikit-learn estimator, and models loaded from files."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from . import persist
from .checkpoint import EVERY, Checkpoint
from .choose import solving
from .metrics import correlations
from .options import ITERATIVE
from .parameters import checked
from .remarks import warn_if_trivial, warn_if_unconverged
from .solve import Progress, Solution
from .sources import as_column, as_matrix, as_views, feature_names, is_views
from .streaming import FITTED, StreamingMixin, generator, ndim, require_components
from .threads import blas_limit
from .version import __version__
from .views import (
    BLOCK_BYTES,
    ENTRY_BYTES,
    Array,
    CountedViews,
    Matrix,
    Views,
    describe,
    require_finite,
)
from .watch import followed, logger

COUNTS = ("n_samples_", "n_features_in_", "n_features_y_")
FACTS = (*COUNTS, "n_iter_", "n_passes_", "solver_", "solver_reason_")


class CCA(
    StreamingMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    RegressorMixin,
    MultiOutputMixin,
    BaseEstimator,
):
    """Canonical correlation analysis of two views of the same rows.

    Finds weights phi_i, psi_i such that the scores X phi_i and y psi_i have unit variance, are
    uncorrelated between components, and have the largest possible correlations, in descending order.

    Parameters
    ----------
    n_components : int, default=2
        Number of canonical pairs.
    solver : {"auto", "exact", "qr", "lobpcg", "als", "appgrad", "stochastic"}, default="auto"
        "exact" works on covariances gathered in one pass, or on n x n matrices when a view has more
        columns than there are rows; "qr" on a triangular factor of the data, slower, and accurate where
        the covariances are ill-conditioned. "lobpcg" iterates on thin products, one pass an iteration, in
        O(k p) memory. "auto" takes "exact" where its matrices fit into scikit-learn's `working_memory`,
        unless iterating is expected to take less than a fifth of the time, "qr" when that would lose
        precision, and "lobpcg" otherwise; `appgrad.plan` tells beforehand. The others are the paper's, in
        O(k p) memory too: "als" alternates least squares, "appgrad" takes one gradient step a pass,
        "stochastic" one a minibatch.
    ridge : "auto", float or pair of floats, default="auto"
        Added to the covariance diagonals. "auto" is 1e-10 (float32 data: 1e-6) times each column's own
        variance: it settles collinear columns, and matters only to directions in which columns differ by
        less than about 1e-4 of their size; for those, use 0 and solver="qr". A number is absolute, in
        units of the (optionally scaled) data; a pair is one per view. With fewer rows than columns, choose
        a number: see `OverfitWarning`.
    center : bool, default=True
        Remove the column means. Without, means are taken to be zero in all that is reported: variances
        are mean squares.
    scale : bool, default=False
        Divide columns by their standard deviations. Without a numeric ridge this changes nothing.
    tol : float, default=1e-4
        When iterative solvers stop: "lobpcg" and "als" when the relative residuals of all pairs are below it,
        "appgrad" when an iteration gains less than this share of the captured correlation; 0 runs to the
        budget. "stochastic" always does.
    max_iter, max_passes, max_seconds, max_flops : number, optional
        Budgets of iterative solvers, kept to within one step; what was reached is kept, with a
        ConvergenceWarning. By default 1000 iterations; for "stochastic" 5 passes or 300 steps, if more, and
        one pass to measure the result. With max_passes=1 it reads no row twice, and the correlations are
        estimates: pairs found on one half of the last rows and correlated on the other. So they are with
        max_seconds.
    oversampling : "auto" or int, default="auto"
        Columns carried beyond n_components, of which the best are extracted; "auto" is 5, and as many as
        n_components for "stochastic" and streams, if that is more.
    preconditioner : {"auto", "jacobi", "lowrank", None}, default="auto"
        Coordinates of the gradient steps: columns in units of their standard deviations ("jacobi"), with
        80 leading directions levelled as well ("lowrank"), or as they are (None, the paper). "auto" is
        "lowrank" for dense and "jacobi" for sparse data, and the inverse itself for "lobpcg" on matrices.
    step_size : "auto" or float, default="auto"
        A number is a constant step, in units of the inverse of the largest eigenvalue where there is a
        preconditioner. "auto" measures that eigenvalue and adds momentum ("appgrad"), or tries steps side by
        side on rows to come, and averages ("stochastic").
    batch_size : int, default=200
        Rows of a minibatch.
    normaliser : "auto", "batch" or int, default="auto"
        Rows that normalise a stochastic step: the minibatch itself ("batch", the paper), or as many of the
        rows that follow it; "auto" is ten for every column carried.
    covariance : {"auto", "dense"}, default="auto"
        "dense" lets "appgrad" and "lobpcg" iterate on p x p matrices gathered in one pass; "als" does if they
        are small.
    forget : float, optional
        For `partial_fit` and `fit_stream`: rows count half after this many later ones.
    checkpoint : str, Path or pair of these and seconds, optional
        A file to which an iterative solver writes its state every 30 seconds, or as often as said, and from
        which `fit` goes on where it exists and is of the same data and parameters.
    callback : callable, optional
        Called with a `Progress` (iteration, passes, seconds, flops, tcc, solution()) after each iteration;
        returning True stops an iterative solver.
    n_jobs : int, optional
        Threads to use; None follows the limits of threadpoolctl, by default all cores.
    random_state : int, RandomState or Generator, optional
        Start and row order of iterative solvers; the direct ones need none.
    verbose : int, default=0
        1 logs what is being done through `logging.getLogger("appgrad")`; 2 shows it as a line on the terminal
        instead, where there is one.

    Attributes
    ----------
    canonical_correlations_ : ndarray of shape (n_components,)
        Descending, in [0, 1]. With a ridge these are the values of the regularised problem.
    training_correlations_ : ndarray of shape (n_components,)
        Correlations of the scores of the training rows: the same without a ridge, higher with one.
    x_weights_, y_weights_ : ndarray of shape (n_features, n_components)
        Scores are (X - x_mean_) @ x_weights_. Signs: the largest x weight is positive. Also available as
        `x_rotations_`, `y_rotations_`.
    x_loadings_, y_loadings_ : ndarray of shape (n_features, n_components)
        Covariances of the columns with the scores of their own view.
    coef_, intercept_ : ndarray
        Linear prediction of y: X @ coef_.T + intercept_. Computed when asked for.
    x_mean_, y_mean_, x_std_, y_std_ : ndarray
        Column means and standard deviations; x_loadings_ / x_std_[:, None] are correlations.
    n_iter_ : list of int
        Number of steps of each component; direct solvers take one.
    n_passes_ : float
        How often all rows were read, for any purpose.
    residuals_ : ndarray of shape (n_components,)
        Relative residual of each pair in the canonical equations, in the norm of the preconditioner: an
        estimate of its quality.
    error_bounds_ : ndarray of shape (n_components,)
        How far each value is at most from a canonical correlation, not necessarily the one of its rank. NaN
        where nothing is known: iterative solvers without `covariance="dense"` bound S by the ridge alone,
        and what that gives is above 0.1 (docs/choosing.md).
    solver_, solver_reason_ : str
        What was taken, and why.
    history_ : list of dict
        iteration, passes, seconds, flops, tcc of each step, and the event where a step had to be cut; flops
        are NaN for direct solvers (docs/algorithms.md says how they are counted).
    n_samples_, n_features_in_, n_features_y_, feature_names_in_, feature_names_y_ : what was fitted.

    Notes
    -----
    `predict` regresses y on the scores of X, which is least squares of rank n_components; scikit-learn's
    CCA leaves the correlations out of it and predicts values that are too large. `score` is the mean
    correlation of paired scores with the weights fixed, not R^2.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from appgrad import CCA
    >>> X, y = load_linnerud(return_X_y=True)
    >>> model = CCA(n_components=3).fit(X, y)
    >>> model.canonical_correlations_.round(6)
    array([0.795608, 0.200556, 0.07257 ])
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        solver: str = "auto",
        ridge: str | float | tuple[float, float] = "auto",
        center: bool = True,
        scale: bool = False,
        tol: float = 1e-4,
        max_iter: int | None = None,
        max_passes: float | None = None,
        max_seconds: float | None = None,
        max_flops: float | None = None,
        oversampling: str | int = "auto",
        preconditioner: str | None = "auto",
        step_size: str | float = "auto",
        batch_size: int = 200,
        normaliser: str | int = "auto",
        covariance: str = "auto",
        forget: float | None = None,
        checkpoint: Any = None,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.ridge = ridge
        self.center = center
        self.scale = scale
        self.tol = tol
        self.max_iter = max_iter
        self.max_passes = max_passes
        self.max_seconds = max_seconds
        self.max_flops = max_flops
        self.oversampling = oversampling
        self.preconditioner = preconditioner
        self.step_size = step_size
        self.batch_size = batch_size
        self.normaliser = normaliser
        self.covariance = covariance
        self.forget = forget
        self.checkpoint = checkpoint
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to two views of the same rows, or to one `Views` object that holds both.

        Nothing is set unless all of it succeeds: an estimator that raises keeps its last fit. The one
        exception is a KeyboardInterrupt while an iterative solver runs: it is raised again after the
        model has been set to the best state so far.
        """
        problem, options = checked(self.get_params(deep=False))
        if options.forget is not None:
            raise ValueError("forget is for streams: use partial_fit or fit_stream, or forget=None")
        threads = None if self.n_jobs is None else effective_n_jobs(int(self.n_jobs))
        one_dimensional = y is not None and ndim(y) == 1
        views = CountedViews(as_views(X, y), threads=threads)
        require_components(problem, views.n_samples, views.n_features_x, views.n_features_y)
        rng, book = generator(self.random_state), self._checkpoint(views.views)
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
            assert progress is not None
            if book is not None:
                book.write(progress)
            solution = progress.solution()
        warn_if_trivial(views.n_samples, views.n_features_x, views.n_features_y, solution)
        if not interrupted:
            warn_if_unconverged(progress, options._replace(solver=choice.solver), views, solution)
        if self.verbose:
            logger.info("%s: %s; %.2f s", *choice, progress.seconds)
        self.__dict__.pop("_stream", None)
        self._set(solution, views.dtype)
        self.n_samples_, self.n_features_in_ = views.n_samples, views.n_features_x
        self.n_features_y_ = views.n_features_y
        self._set_names(*views.names)
        self.solver_, self.solver_reason_ = choice
        self.n_iter_, self.n_passes_ = [progress.iteration] * problem.n_components, views.passes
        self.history_ = history
        resumed = saved if choice.solver in ITERATIVE else None
        self.resumed_from_iteration_ = 0 if resumed is None else resumed.iteration
        self._y_1d = one_dimensional
        if interrupted:
            raise KeyboardInterrupt("fit was interrupted: the model is that of the best state so far")
        return self

    def transform(self, X: Any, y: Any = None) -> Array | tuple[Array, Array]:
        """Scores of X, or of both views when y is given or X is a `Views` object."""
        check_is_fitted(self, "canonical_correlations_")
        if is_views(X):
            views = as_views(X, y)
            self._require_columns(views.n_features_x, views.names[0], 0, views.labels[0])
            self._require_columns(views.n_features_y, views.names[1], 1, views.labels[1])
            scores = [
                (self._project(block.x, 0, block.offset), self._project(block.y, 1, block.offset))
                for block in views.blocks()
            ]
            return np.vstack([u for u, _ in scores]), np.vstack([v for _, v in scores])
        m = as_matrix(X, "X")
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

    def predict(self, X: Any) -> Array:
        """Least-squares prediction of y from the scores of X."""
        check_is_fitted(self, "canonical_correlations_")
        U = self.transform(X)
        U = U[0] if isinstance(U, tuple) else np.asarray(U)
        predicted = U @ self._y_slopes.T + self.y_mean_.astype(self._y_slopes.dtype)
        return np.asarray(predicted.ravel() if self._y_1d else predicted)

    def inverse_transform(self, X: Any, y: Any = None) -> Array | tuple[Array, Array]:
        """Rows that have these scores, reconstructed from the components kept."""
        check_is_fitted(self, "canonical_correlations_")
        rows_x = self._reconstructed(X, self.x_weights_, self.x_loadings_, self.x_mean_, "X")
        if y is None:
            return rows_x
        return rows_x, self._reconstructed(y, self.y_weights_, self.y_loadings_, self.y_mean_, "y")

    def score(self, X: Any, y: Any = None, sample_weight: None = None) -> float:
        """Mean over the components of the correlation of the two scores, weights fixed."""
        if sample_weight is not None:
            raise ValueError("sample_weight is not supported by CCA.score")
        if y is None and not is_views(X):
            raise ValueError("score needs both views: score(X, y)")
        U, V = self.transform(X, y)
        return float(np.mean(correlations(U, V)))

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
        arrays = sums | ({name: getattr(self, name) for name in FITTED} if fitted else {})
        meta = {
            "stream": stream,
            "library": __version__,
            "estimator": type(self).__name__,
            "params": params,
            "facts": {name: getattr(self, name) for name in (FACTS if fitted else COUNTS)},
            "fitted": fitted,
            "history": self.history_ if fitted else [],
            "y_1d": self._y_1d,
            "feature_names": [
                None if names is None else [str(name) for name in names] for names in self._names()
            ],
        }
        persist.write(path, arrays, meta)

    @property
    def x_rotations_(self) -> Array:
        """The x weights under scikit-learn's other name."""
        return self.x_weights_

    @property
    def y_rotations_(self) -> Array:
        """The y weights under scikit-learn's other name."""
        return self.y_weights_

    @property
    def coef_(self) -> Array:
        """Coefficients (n_features_y, n_features_x) of the linear prediction of y."""
        return np.asarray(self._y_slopes @ self.x_weights_.T)

    @property
    def intercept_(self) -> Array:
        """Intercept of the linear prediction of y."""
        return np.asarray(self.y_mean_ - self._y_slopes @ (self.x_weights_.T @ self.x_mean_))

    @property
    def _n_features_out(self) -> int:
        return len(self.canonical_correlations_)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        tags.regressor_tags.poor_score = True
        return tags

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
        s = solution
        self.canonical_correlations_ = s.correlations
        self.training_correlations_ = s.training_correlations
        self.x_weights_, self.y_weights_ = _cast(s.x_weights, dtype), _cast(s.y_weights, dtype)
        self.x_loadings_, self.y_loadings_ = _cast(s.x_loadings, dtype), _cast(s.y_loadings, dtype)
        self._y_slopes = _cast(s.y_slopes, dtype)
        self.x_mean_, self.y_mean_ = s.mean_x, s.mean_y
        self.x_std_, self.y_std_ = s.std_x, s.std_y
        self.residuals_, self.error_bounds_ = s.residuals, s.error_bounds

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
                f"{label} has {p} features, but CCA is expecting {expected} features as input{swapped}"
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

    def _reconstructed(self, scores: Any, weights: Array, loadings: Array, mean: Array, name: str) -> Array:
        """Least squares of the columns on all scores together; their covariance is weights'loadings."""
        scores = as_matrix(scores, name)
        require_finite(scores, partial(describe, name, None))
        if scores.shape[1] != loadings.shape[1]:
            raise ValueError(
                f"{name} has {scores.shape[1]} columns, but there are {loadings.shape[1]} components"
            )
        coefficients = np.linalg.solve(weights.T @ loadings, loadings.T)
        return np.asarray(scores @ coefficients + mean.astype(loadings.dtype))


def load(path: str | os.PathLike[str]) -> CCA:
    """The model in a file written by `save`. Nothing is unpickled, whatever the file holds.

    Examples
    --------
    >>> import tempfile, os, appgrad
    >>> from sklearn.datasets import load_linnerud
    >>> X, y = load_linnerud(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "m.cca")
    ...     appgrad.CCA(2).fit(X, y).save(path)
    ...     round(appgrad.load(path).score(X, y), 6)
    0.498082
    """
    arrays, meta = persist.read(path)
    if meta.get("estimator") != "CCA":
        raise ValueError(f"{path} holds a {meta.get('estimator')}, which this version of appgrad cannot read")
    try:
        model: CCA = CCA().set_params(
            **{name: tuple(v) if isinstance(v, list) else v for name, v in meta["params"].items()}
        )
        fitted, model._y_1d = meta.get("fitted", True), meta["y_1d"]
        for name in FACTS if fitted else COUNTS:
            setattr(model, name, meta["facts"][name])
        model._set_names(*meta["feature_names"])
        if fitted:
            model.history_ = meta["history"]
            for name in FITTED:
                setattr(model, name, arrays[name])
            _require_whole(model)
        if meta.get("stream") is not None or not fitted:
            model._unpack_stream(meta["stream"], arrays)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, OverflowError) as error:
        raise ValueError(f"{path} is damaged or not an appgrad model file ({error!r})") from error
    return model


def _require_whole(model: CCA) -> None:
    """Raise TypeError unless the arrays of a loaded model fit together and are finite."""
    k, p1, p2 = len(model.canonical_correlations_), model.n_features_in_, model.n_features_y_
    names = zip(model._names(), (p1, p2), strict=True)
    if not all(found is None or found.shape == (p,) for found, p in names):
        raise TypeError("feature names do not match the number of columns")
    for name in FITTED:
        array = getattr(model, name)
        p = p2 if name in ("y_weights_", "y_loadings_", "y_mean_", "y_std_", "_y_slopes") else p1
        shape = (p,) if name.endswith(("mean_", "std_")) else (p, k)
        shape = shape if name[1] == "_" or name == "_y_slopes" else (k,)
        if array.shape != shape or array.dtype.kind != "f":
            raise TypeError(f"{name} has shape {array.shape} and type {array.dtype}, expected {shape}")
        if name != "error_bounds_" and not np.all(np.isfinite(array)):
            raise TypeError(f"{name} is not finite")


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


def _plain(value: Any) -> Any:
    """A parameter as JSON can hold it; None for what it cannot, such as a callback."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str) else None
