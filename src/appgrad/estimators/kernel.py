"""Kernel CCA: relations between two views that are not linear."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from ..covariance.units import KernelRidge
from ..data.derived import CountedViews
from ..data.kernel_fitting import Asked, Fitted, default_ridge, features, grams
from ..data.kernels import KERNELS, Fourier, Gram, Kernel, Learned, Map, MappedViews, Nystroem, stored
from ..data.matrices import is_dask
from ..data.views import BLOCK_BYTES, Views, describe, require_finite
from ..fitting import old_files
from ..fitting.parameters import checked, is_real, is_whole, pair_of
from ..fitting.saved_state import packed, same_parts, unpacked
from ..fitting.warnings import flexible, memorised, trivial
from ..machine.arrays import Array, Matrix
from ..machine.memory import budget
from ..solvers.problem import Problem, Progress, Solution
from ..solvers.setup import Options
from .base import BaseCCA, Prepared
from .streaming import FITTED

APPROXIMATIONS = (None, "nystroem", "fourier")
# Rows from which gamma and variances can be told, about.
FIRST_ROWS = 100
# Of a solution in feature space, what means something to those who only see rows.
KEPT = tuple(
    name for name in FITTED if name not in ("x_loadings_", "y_loadings_", "x_std_", "y_std_", "_y_slopes")
)


class KernelCCA(BaseCCA, BaseEstimator):
    """Canonical correlation analysis in the feature spaces of kernels.

    Finds functions f_i of the rows of X and g_i of the rows of y such that f_i(x) and g_i(y) have unit
    variance, are uncorrelated between components up to the ridge, and have the largest possible correlations.

    Parameters
    ----------
    n_components : int, default=2
        Number of canonical pairs.
    kernel : {"rbf", "linear", "poly", "cosine", "precomputed"} or callable, or a pair, default="rbf"
        exp(-gamma |x - y|^2), x'y, (gamma x'y + coef0)^degree, x'y / (|x| |y|). With "precomputed", X and y
        are the Gram matrices of the training rows, and in `transform` the kernel values of new rows (rows)
        with the training rows (columns). A callable takes two matrices and returns the value for each pair
        of their rows. A pair is one for each view, here and below.
    gamma : float, optional, or a pair
        By default one over the squared median distance of (up to 1000) rows.
    degree : int, optional, or a pair
        Of "poly"; 3 by default.
    coef0 : float, optional, or a pair
        Of "poly"; 1 by default.
    ridge : "auto", float or pair of floats, default="auto"
        Times the squared norm of a function: the penalty of kernel CCA, without which it can fit any rows
        perfectly. A linear kernel with a ridge gives what `CCA` gives with the same one. "auto" leaves each
        view one effective dimension for twenty rows (docs/decisions/0007).
    approximation : {"nystroem", "fourier"}, optional
        None works on the n x n Gram matrices, which are computed anew in every pass where they do not fit
        into the memory budget (scikit-learn's `working_memory`). "nystroem" works with functions of
        `n_landmarks` random rows, "fourier" (rbf alone) with as many random cosines and sines: linear in
        the number of rows, also for files and streams. Their features are computed on the fly where those
        of all rows do not fit.
    n_landmarks : int, default=1000, or a pair
        Features of the approximations.
    center : bool, default=True
        Centre in feature space.
    solver : {"auto", "exact", "qr", "lobpcg", "als", "appgrad", "stochastic"}, default="auto"
        As in `CCA`. On Gram matrices "exact" and "qr" are the same, from eigenvectors, in O(n^2) memory, as
        is "stochastic"; "lobpcg", "als" and "appgrad" need thin products alone.
    tol, max_iter, max_passes, max_seconds, max_flops, oversampling, preconditioner, step_size, batch_size, \
normaliser, forget, checkpoint, callback, n_jobs, random_state, verbose
        As in `CCA`. `random_state` also draws landmarks and frequencies.

    Attributes
    ----------
    canonical_correlations_ : ndarray of shape (n_components,)
        Descending, in [0, 1]: those of the problem with its ridge.
    training_correlations_ : ndarray of shape (n_components,)
        Correlations of the scores of the training rows. They say little: judge by `score` on other rows.
    x_weights_, y_weights_ : ndarray
        Weights of the training rows, or of the features of an approximation.
    gamma_, ridge_ : pair of floats
        What was taken for each view; gamma is None for kernels without one.
    x_mean_, y_mean_ : ndarray
        Means of the features.
    n_iter_, n_passes_, residuals_, error_bounds_, solver_, solver_reason_, history_, n_samples_, \
n_features_in_, n_features_y_, feature_names_in_, feature_names_y_ : as in `CCA`.

    Notes
    -----
    There are no loadings and no `predict`: a function of all columns has no weight for one of them.

    Examples
    --------
    An angle and a point on the circle are not linearly related, but one is a function of the other.

    >>> import numpy as np
    >>> from appgrad import CCA, KernelCCA
    >>> angle = np.random.default_rng(0).uniform(-np.pi, np.pi, (1000, 1))
    >>> X, y = np.cos(2 * angle), np.sin(angle)
    >>> bool(abs(CCA(1).fit(X[:500], y[:500]).score(X[500:], y[500:])) < 0.1)
    True
    >>> bool(KernelCCA(1).fit(X[:500], y[:500]).score(X[500:], y[500:]) > 0.99)
    True
    """

    _arrays: ClassVar[tuple[str, ...]] = KEPT
    _maps: tuple[Map, Map]
    _variances: tuple[Array, Array]
    gamma_: tuple[float | None, float | None]
    ridge_: tuple[float, float]

    def __init__(
        self,
        n_components: int = 2,
        *,
        kernel: Any = "rbf",
        gamma: Any = None,
        degree: Any = None,
        coef0: Any = None,
        ridge: str | float | tuple[float, float] = "auto",
        approximation: str | None = None,
        n_landmarks: Any = 1000,
        center: bool = True,
        solver: str = "auto",
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
        forget: float | None = None,
        checkpoint: Any = None,
        callback: Callable[[Progress], Any] | None = None,
        n_jobs: int | None = None,
        random_state: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.ridge = ridge
        self.approximation = approximation
        self.n_landmarks = n_landmarks
        self.center = center
        self.solver = solver
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
        self.forget = forget
        self.checkpoint = checkpoint
        self.callback = callback
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit to two views of the same rows, or to one `Views` object that holds both."""
        if self.approximation is None:
            for data in (X, y):
                _require_local(data)
        return super().fit(X, y)

    @classmethod
    def from_covariance(cls, *args: Any, **params: Any) -> Self:
        """Not for kernels: covariances of columns do not tell those of features."""
        raise TypeError("KernelCCA needs rows: covariances of columns do not tell those of features")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        kernel = self.kernel[0] if isinstance(self.kernel, tuple | list) and self.kernel else self.kernel
        # Of y nobody asks: a precomputed kernel of y cannot be cut into folds.
        tags.input_tags.pairwise = isinstance(kernel, str) and kernel == "precomputed"
        return tags

    def _asked(self) -> tuple[Problem, Options]:
        params = self.get_params(deep=False)
        problem, options = checked({**params, "scale": False, "covariance": "auto"})
        asked_kernels(params)
        return problem, options

    def _prepared(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator
    ) -> Prepared:
        """Features of the rows as views, in memory where they fit into the budget."""
        asked, counts = asked_kernels(self.get_params(deep=False))
        if self.approximation is None:
            found = grams(views, asked, problem.center, rng)
            facts = self._facts(found, problem, views.n_samples)
            assert found.diagonals is not None
            rx, ry = map(KernelRidge, facts["ridge_"], found.diagonals)
            # They are centred already.
            return Prepared(found.views, problem._replace(center=False, ridge=(rx, ry)), facts)
        found = features(views, asked, self.approximation, counts, problem.center, rng)
        mapped = MappedViews(views.views, *found.maps)
        facts = self._facts(found, problem, views.n_samples)
        # Features of rows on a cluster are made where the rows are.
        fits = 8 * views.n_samples * (mapped.n_features_x + mapped.n_features_y) <= budget() and views.local
        return Prepared(
            stored(found.views) if fits else mapped, problem._replace(ridge=facts["ridge_"]), facts
        )

    def _prepared_stream(
        self, views: Views, problem: Problem, rng: np.random.Generator
    ) -> tuple[Views, Problem, dict[str, Any]]:
        assert self.approximation is not None
        asked, counts = asked_kernels(self.get_params(deep=False))
        nystroem = self.approximation == "nystroem"
        if views.n_samples < (max(counts) if nystroem else FIRST_ROWS):
            least = f"n_landmarks={self.n_landmarks}" if nystroem else str(FIRST_ROWS)
            warnings.warn(
                f"{'landmarks, ' if nystroem else ''}gamma and what the ridge is made of come from the first "
                f"batch, which has {views.n_samples} rows, fewer than {least}: begin with more",
                UserWarning,
                stacklevel=4,
            )
        found = features(views, asked, self.approximation, counts, problem.center, rng)
        for label, variances in zip(views.view_names, found.variances, strict=True):
            if problem.center and not np.any(variances > 0):
                raise ValueError(f"the first batch of {label} does not vary, and all else comes from it")
        facts = self._facts(found, problem, views.n_samples)
        return found.views, problem._replace(ridge=facts["ridge_"]), facts

    def _refuses_streams(self) -> str | None:
        if self.approximation is not None:
            return super()._refuses_streams()
        return (
            "exact kernel CCA compares every row with all others, and a stream keeps none: use "
            "approximation='nystroem' or 'fourier'"
        )

    def _streamed(self, views: Views) -> Views:
        return MappedViews(views, *self._maps)

    def _forget_solution(self) -> None:
        super()._forget_solution()
        if "_stream" in self.__dict__ and "_maps" in self.__dict__:
            # The ridge is that of as many rows as there are by now.
            problem, _ = self._asked()
            self.ridge_ = _ridges(problem, self._variances, self.n_samples_, self._maps)
            self._stream.ridge(self.ridge_)

    def merge(self, other: Any) -> Self:
        """Add the rows that another model with the same landmarks or frequencies has seen.

        These come from the first batch: models that began with the same one both count its rows.
        """
        ours, theirs = (model.__dict__.get("_maps") for model in (self, other))
        if ours is not None and same_parts(ours, theirs):
            return super().merge(other)
        raise ValueError("features of other landmarks or frequencies cannot be added: use one stream, or fit")

    def _overfit(self, n: int, p1: int, p2: int, solution: Solution) -> list[str]:
        if self.approximation is None and any(solution.ranks):
            found = flexible(n, solution)
        else:
            because = f"functions with {p1} and {p2} weights fit {n} rows"
            found = trivial(n, p1, p2, solution, because, "Use a larger ridge")
        return found + memorised(solution)

    def _facts(self, found: Fitted, problem: Problem, n: int) -> dict[str, Any]:
        return {
            "_maps": found.maps,
            "_variances": found.variances,
            "gamma_": found.gammas,
            "ridge_": _ridges(problem, found.variances, n, found.maps),
        }

    def _widths(self) -> tuple[int, int]:
        return self._maps[0].n_features, self._maps[1].n_features

    def _project(self, m: Matrix, view: int, offset: int = 0) -> Array:
        """Scores of rows through their features, a few rows at a time."""
        f = self._maps[view]
        rows = max(1, BLOCK_BYTES // (8 * f.n_features))
        name = partial(describe, "y" if view else "X", self._names()[view])
        dtype = np.float32 if m.dtype.kind == "f" and m.dtype.itemsize <= 4 else np.float64
        scores = np.empty((m.shape[0], len(self.canonical_correlations_)), dtype)
        for start in range(0, len(scores), rows):
            part = m[start : start + rows]
            require_finite(part, name, offset + start)
            scores[start : start + rows] = super()._project(f(part), view, offset + start)
        return scores

    def _require_columns(self, p: int, names: Array | None, view: int, label: str) -> None:
        expected = self.n_features_y_ if view else self.n_features_in_
        f = self._maps[view]
        if p != expected and isinstance(f, Gram) and f.kernel.name == "precomputed":
            raise ValueError(
                f"{label} has {p} columns, but KernelCCA is expecting {expected} features as input: with a "
                "precomputed kernel, the values of new rows (rows) with all training rows (columns)"
            )
        super()._require_columns(p, names, view, label)

    def _packed_facts(self) -> tuple[Any, dict[str, Array]]:
        for f in self._maps:
            if isinstance(f, Gram | Nystroem) and f.kernel.function is not None:
                raise ValueError(
                    "a model with a kernel function of your own cannot be saved: a file holds no code. Use "
                    "one of the kernels by name, or kernel='precomputed'"
                )
        return packed(Learned(self._maps, self._variances, self.gamma_, self.ridge_), "more")

    def _unpack_facts(self, spec: Any, arrays: dict[str, Array], version: int) -> None:
        found: Learned = (old_files.kernel_facts if version == 1 else unpacked)(spec, arrays)
        self._maps, self._variances = found.maps, found.variances
        self.gamma_, self.ridge_ = found.gamma, found.ridge
        for f, p in zip(self._maps, (self.n_features_in_, self.n_features_y_), strict=True):
            _require_map(f, p)


def asked_kernels(params: dict[str, Any]) -> tuple[tuple[Asked, Asked], tuple[int, int]]:
    """The kernels and numbers of landmarks asked for, or an error that names the parameter."""
    approximation = params["approximation"]
    if not (approximation is None or (isinstance(approximation, str) and approximation in APPROXIMATIONS)):
        raise ValueError(f"approximation must be None, 'nystroem' or 'fourier', got {approximation!r}")
    pairs = {
        name: pair_of(name, params[name]) for name in ("kernel", "gamma", "degree", "coef0", "n_landmarks")
    }
    found = []
    for view in (0, 1):
        kernel, gamma, degree, coef0, landmarks = (pairs[name][view] for name in pairs)
        if not (callable(kernel) or (isinstance(kernel, str) and kernel in KERNELS)):
            raise ValueError(f"kernel must be callable or one of {list(KERNELS)}, got {kernel!r}")
        name = kernel if isinstance(kernel, str) else "a function"
        for parameter, value, kernels in (
            ("gamma", gamma, ("rbf", "poly")),
            ("degree", degree, ("poly",)),
            ("coef0", coef0, ("poly",)),
        ):
            if value is not None and name not in kernels:
                raise ValueError(
                    f"{parameter}={value!r} does not apply to kernel={name!r}, only to "
                    f"{' and '.join(kernels)}: leave it out, or give a pair with None for this view"
                )
        if gamma is not None and not (is_real(gamma) and 0 < gamma < np.inf):
            raise ValueError(f"gamma must be None or a finite number above 0, got {gamma!r}")
        if degree is not None and not (is_whole(degree) and degree >= 1):
            raise ValueError(f"degree must be an integer of at least 1, got {degree!r}")
        if coef0 is not None and not (is_real(coef0) and 0 <= coef0 < np.inf):
            raise ValueError(
                f"coef0 must be a finite number of at least 0, got {coef0!r}: below, it is no inner product"
            )
        if not (is_whole(landmarks) and landmarks >= 1):
            raise ValueError(f"n_landmarks must be an integer of at least 1, got {landmarks!r}")
        if approximation == "fourier" and name != "rbf":
            raise ValueError(
                f"approximation='fourier' is for kernel='rbf', got {name!r}: use approximation='nystroem'"
            )
        if approximation is not None and name == "precomputed":
            raise ValueError("a precomputed kernel is exact: use approximation=None, or a kernel by name")
        found.append(
            Asked(
                kernel,
                None if gamma is None else float(gamma),
                3 if degree is None else int(degree),
                1.0 if coef0 is None else float(coef0),
            )
        )
    counts = pairs["n_landmarks"]
    return (found[0], found[1]), (int(counts[0]), int(counts[1]))


def _ridges(
    problem: Problem, variances: tuple[Array, Array], n: int, maps: tuple[Map, Map]
) -> tuple[float, float]:
    """The ridges asked for, or those that rows and variances suggest."""
    asked = problem.ridge if isinstance(problem.ridge, tuple) else (problem.ridge, problem.ridge)
    x, y = (
        default_ridge(v, n, f.n_features) if ridge == "auto" else float(ridge)  # type: ignore[arg-type]
        for ridge, v, f in zip(asked, variances, maps, strict=True)
    )
    return x, y


def _require_local(data: Any) -> None:
    """Raise where rows live on a cluster: every row is compared with all others."""
    if is_dask(data) or not getattr(data, "local", True):
        raise TypeError(
            "exact kernel CCA compares every row with all others, and those of Dask are not in one place: "
            "use approximation='nystroem' or 'fourier'"
        )


def _require_map(f: Any, p: int) -> None:
    """Raise TypeError unless the parts of a loaded map fit together."""
    if not isinstance(f, Gram | Nystroem | Fourier):
        raise TypeError("a map is of no known kind")
    if isinstance(f, Fourier):
        sizes = [(f.frequencies.shape[0], p)]
    else:
        if not isinstance(f.kernel, Kernel) or f.kernel.name not in KERNELS:
            raise TypeError("a kernel is of no known kind")
        width = f.rows.shape[0] if isinstance(f, Gram) else f.root.shape[0]
        columns = 0 if f.kernel.name == "precomputed" else p
        sizes = [(f.rows.shape[0], width), (f.rows.shape[1], columns)]
    if len(f.shift):
        sizes.append((len(f.shift), p))
    if any(found != expected for found, expected in sizes):
        raise TypeError("the parts of a map do not fit together")
