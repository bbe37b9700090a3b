"""Kernel CCA: relations between two views that are not linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import Tags

from ..covariance.units import KernelRidge
from ..data.derived import CountedViews
from ..data.inputs import is_dask
from ..data.kernel_fitting import Asked, FittedFeatures, default_ridge, features, grams
from ..data.kernels import KERNELS, Gram, Learned, Map, MappedViews, stored
from ..data.views import Views
from ..fitting.parameters import checked, is_real, is_whole, pair_of
from ..fitting.remarks import flexible, issue, memorised, said, trivial
from ..fitting.saved_state import same_parts
from ..machine.arrays import Array
from ..machine.memory import budget
from ..machine.threads import limit_for
from ..solvers import registry
from ..solvers.problem import Problem, Progress, Solution
from ..solvers.protocol import Options
from .base import BaseCCA, Prepared
from .fitted import Rows, without_features
from .streaming import StreamingCCA

APPROXIMATIONS = (None, "nystroem", "fourier")
# About as many rows as an estimate of gamma and variances needs.
FIRST_ROWS = 100


class KernelCCA(StreamingCCA, BaseEstimator):
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
        Degree of "poly"; 3 by default.
    coef0 : float, optional, or a pair
        Constant of "poly"; 1 by default.
    ridge : "auto", float or pair of floats, default="auto"
        Penalty: the ridge times the squared norm of a function. Without it, kernel CCA can fit any rows
        perfectly. A linear kernel with a ridge gives the result of `CCA` with the same ridge. "auto" leaves
        each view one effective dimension for twenty rows (docs/decisions/0007).
    approximation : {"nystroem", "fourier"}, optional
        None works on the n x n Gram matrices, which are computed anew in every pass if they do not fit into
        the memory budget (scikit-learn's `working_memory`). "nystroem" works with functions of
        `n_landmarks` random rows, "fourier" (rbf only) with as many random cosines and sines. Both are
        linear in the number of rows, and work for files and streams too. Their features are computed on the
        fly if those of all rows do not fit.
    n_landmarks : int, default=1000, or a pair
        Number of features of the approximations.
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
        Correlations of the problem with its ridge, descending, in [0, 1].
    training_correlations_ : ndarray of shape (n_components,)
        Correlations of the scores of the training rows. They say little: judge by `score` on other rows.
    x_weights_, y_weights_ : ndarray
        Weights of the training rows, or of the features of an approximation.
    gamma_, ridge_ : pair of floats
        The values used for each view; gamma is None for kernels without one.
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

    _of_rows: ClassVar[frozenset[str]] = BaseCCA._of_rows | {"gamma_", "ridge_"}

    _has_columns = False
    _no_theory = "functions of a kernel have no fixed number of dimensions"

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
        step_size: str | float | tuple[float, float] = "auto",
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
        """Raise TypeError: covariances of columns do not give those of a kernel's features."""
        raise TypeError("KernelCCA needs rows: covariances of columns do not tell those of features")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        kernel = self.kernel[0] if isinstance(self.kernel, tuple | list) and self.kernel else self.kernel
        # scikit-learn has this tag for X only: a precomputed kernel of y cannot be cut into folds.
        tags.input_tags.pairwise = isinstance(kernel, str) and kernel == "precomputed"
        return tags

    @property
    def gamma_(self) -> tuple[float | None, float | None]:
        """The gamma of each view; None for kernels without one."""
        return self._learned().gamma

    @property
    def ridge_(self) -> tuple[float, float]:
        """The ridge of each view."""
        return self._learned().ridge

    def problem_and_options(self) -> tuple[Problem, Options]:
        """The problem that the parameters ask for, and how to solve it; ValueError if they are wrong."""
        params = self.get_params(deep=False)
        problem, options = checked({**params, "scale": False, "covariance": "auto"}, registry.KERNEL)
        asked_kernels(params)
        return problem, options

    def _prepared(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator
    ) -> Prepared:
        """Features of the rows as views, in memory if they fit into the budget."""
        asked, counts = asked_kernels(self.get_params(deep=False))
        across = views.n_samples if self.approximation is None else sum(counts)
        with limit_for(float(views.n_samples) * across * max(views.entries, across)):
            return self._features(views, problem, rng, asked, counts)

    def _features(
        self,
        views: CountedViews,
        problem: Problem,
        rng: np.random.Generator,
        asked: tuple[Asked, Asked],
        counts: tuple[int, int],
    ) -> Prepared:
        if self.approximation is None:
            found = grams(views, asked, problem.center, rng)
            learned = learned_of(found, problem, views.n_samples)
            assert found.diagonals is not None
            rx, ry = map(KernelRidge, learned.ridge, found.diagonals)
            # Gram matrices are centred already.
            return Prepared(found.views, problem._replace(center=False, ridge=(rx, ry)), learned)
        found = features(views, asked, self.approximation, counts, problem.center, rng)
        mapped = MappedViews(views.views, *found.maps)
        learned = learned_of(found, problem, views.n_samples)
        # Features of rows on a cluster are made where the rows are.
        fits = 8 * views.n_samples * (mapped.n_features_x + mapped.n_features_y) <= budget() and views.local
        return Prepared(
            stored(found.views) if fits else mapped, problem._replace(ridge=learned.ridge), learned
        )

    def _prepared_stream(self, views: Views, problem: Problem, rng: np.random.Generator) -> Prepared:
        """Features of the first rows, from which landmarks or frequencies, gamma and variances come."""
        assert self.approximation is not None
        asked, counts = asked_kernels(self.get_params(deep=False))
        nystroem = self.approximation == "nystroem"
        if views.n_samples < (max(counts) if nystroem else FIRST_ROWS):
            least = f"n_landmarks={self.n_landmarks}" if nystroem else str(FIRST_ROWS)
            text = (
                f"{'landmarks, ' if nystroem else ''}gamma and what the ridge is made of come from the first "
                f"batch, which has {views.n_samples} rows, fewer than {least}: begin with more"
            )
            issue(said(text, UserWarning))
        found = features(views, asked, self.approximation, counts, problem.center, rng)
        for label, variances in zip(views.view_names, found.variances, strict=True):
            if problem.center and not np.any(variances > 0):
                raise ValueError(f"the first batch of {label} does not vary, and all else comes from it")
        learned = learned_of(found, problem, views.n_samples)
        return Prepared(found.views, problem._replace(ridge=learned.ridge), learned)

    def _refuses_streams(self) -> str | None:
        if self.approximation is not None:
            return super()._refuses_streams()
        return (
            "exact kernel CCA compares every row with all others, and a stream keeps none: use "
            "approximation='nystroem' or 'fourier'"
        )

    def _renewed(self, rows: Rows) -> Rows:
        """Update the ridge, which depends on the number of rows."""
        assert rows.learned is not None
        problem, _ = self.problem_and_options()
        ridge = _ridges(problem, rows.learned.variances, rows.n_samples, rows.learned.maps)
        return rows._replace(learned=rows.learned._replace(ridge=ridge))

    def merge(self, other: Any) -> Self:
        """Add the rows of another model with the same landmarks or frequencies.

        These come from the first batch. If both models began with the same one, its rows count twice.
        """
        ours, theirs = (model._fitted and model._fitted.rows.learned for model in (self, other))
        if ours and theirs and same_parts(ours.maps, theirs.maps):
            return super().merge(other)
        raise ValueError("features of other landmarks or frequencies cannot be added: use one stream, or fit")

    def _overfit(self, n: int, p1: int, p2: int, solution: Solution) -> list[str]:
        if self.approximation is None and any(solution.ranks):
            found = flexible(n, solution)
        else:
            because = f"functions with {p1} and {p2} weights fit {n} rows"
            found = trivial(n, p1, p2, solution, because, "Use a larger ridge")
        return found + memorised(solution)

    def _kept(self, solution: Solution) -> Solution:
        """The solution without what belongs to features of the kernel, which users do not see."""
        return without_features(solution)

    def _learned(self) -> Learned:
        """What the model has learned from its rows."""
        learned = self._known().rows.learned
        assert learned is not None
        return learned

    def _require_columns(self, p: int, names: Array | None, view: int, label: str) -> None:
        expected, f = self._known().rows.n_features[view], self._learned().maps[view]
        if p != expected and isinstance(f, Gram) and f.kernel.name == "precomputed":
            raise ValueError(
                f"{label} has {p} columns, but KernelCCA is expecting {expected} features as input: with a "
                "precomputed kernel, the values of new rows (rows) with all training rows (columns)"
            )
        super()._require_columns(p, names, view, label)


def asked_kernels(params: dict[str, Any]) -> tuple[tuple[Asked, Asked], tuple[int, int]]:
    """The kernels and numbers of landmarks set by these parameters; ValueError names a wrong parameter."""
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


def learned_of(found: FittedFeatures, problem: Problem, n: int) -> Learned:
    """What a kernel model has learned from n rows: maps, variances, gammas and ridges."""
    ridge = _ridges(problem, found.variances, n, found.maps)
    return Learned(found.maps, found.variances, found.gammas, ridge)


def _ridges(
    problem: Problem, variances: tuple[Array, Array], n: int, maps: tuple[Map, Map]
) -> tuple[float, float]:
    """The ridge of each view: the number asked for, or the default for n rows of these variances."""
    asked = problem.ridge if isinstance(problem.ridge, tuple) else (problem.ridge, problem.ridge)
    x, y = (
        default_ridge(v, n, f.n_features) if ridge == "auto" else float(ridge)  # type: ignore[arg-type]
        for ridge, v, f in zip(asked, variances, maps, strict=True)
    )
    return x, y


def _require_local(data: Any) -> None:
    """Raise if rows are on a cluster: exact kernel CCA compares every row with all others."""
    if is_dask(data) or not getattr(data, "local", True):
        raise TypeError(
            "exact kernel CCA compares every row with all others, and those of Dask are not in one place: "
            "use approximation='nystroem' or 'fourier'"
        )
