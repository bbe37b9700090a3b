"""CCA as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from ..data.finite import Naming, require_finite
from ..data.inputs import as_matrix
from ..fitting.projection import require_in_range
from ..machine.arrays import Array
from ..solvers.problem import Progress
from .attributes import ColumnAttributes
from .streaming import StreamingCCA


class CCA(ColumnAttributes, StreamingCCA, RegressorMixin, MultiOutputMixin, BaseEstimator):
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
        O(k p) memory. "auto" takes "exact" if its matrices fit into scikit-learn's `working_memory`, unless
        iterating is expected to take less than a fifth of the time; "qr" if "exact" would lose precision;
        "lobpcg" otherwise. `appgrad.plan` shows the choice beforehand. The other solvers are the paper's,
        in O(k p) memory too: "als" alternates least squares, "appgrad" takes one gradient step a pass,
        "stochastic" one a minibatch. Each fit ends with one pass more, for `effective_rows_`.
    ridge : "auto", float or pair of floats, default="auto"
        Added to the covariance diagonals. "auto" is 1e-10 (float32 data: 1e-6) times each column's own
        variance: it settles collinear columns, and matters only to directions in which columns differ by
        less than about 1e-4 of their size; for those, use 0 and solver="qr". A number is absolute, in
        units of the (optionally scaled) data; a pair is one per view. With fewer rows than columns, choose
        a number: see `OverfitWarning`.
    center : bool, default=True
        Remove the column means. If False, all results take the means to be zero: variances are mean
        squares.
    scale : bool, default=False
        Divide columns by their standard deviations. Without a numeric ridge this changes nothing.
    tol : float, default=1e-4
        The share of the total correlation that a run may still miss, as it estimates itself. Weights are then
        off by about its square root: for four digits of them, set 1e-8. With 0 iterative solvers run to the
        budget; "stochastic" always does.
    max_iter, max_passes, max_seconds, max_flops : number, optional
        Budgets of iterative solvers, kept to within one step. A fit that ends by its budget keeps the
        result so far, with a ConvergenceWarning. Default: 1000 iterations if no other budget ends the run;
        for "stochastic" 5 passes or 300 steps, whichever is more, and one pass to measure the result. With
        max_passes=1 "stochastic" reads no row twice, and the correlations are estimates: pairs are found on
        one half of the last rows and correlated on the other. The same holds with max_seconds.
    oversampling : "auto" or int, default="auto"
        Columns iterated beyond n_components; the best n_components are extracted. "auto" is 5; for
        "stochastic" and streams it is n_components, if that is more.
    preconditioner : {"auto", "jacobi", "lowrank", None}, default="auto"
        Coordinates of the gradient steps: columns in units of their standard deviations ("jacobi"), with
        80 leading directions levelled as well ("lowrank"), or as they are (None, the paper). "auto" is the
        inverse of the covariance of a sample of rows for views of up to 1000 columns, or of all rows for
        "lobpcg" on matrices; beyond, and for "stochastic", "lowrank" for dense and "jacobi" for sparse data.
        "lobpcg" and "als" on wide sparse data start from the canonical pairs of the columns that carry most;
        "lobpcg" also inverts the covariances of these columns, of both views together.
    step_size : "auto", float or pair of floats, default="auto"
        A number is a constant step, a pair one for each view (the paper's eta1 and eta2); with a
        preconditioner, in units of the inverse of the largest eigenvalue. "auto" measures that eigenvalue
        and adds momentum ("appgrad"), or tries steps side by side on the next rows, and averages
        ("stochastic").
    batch_size : int, default=200
        Number of rows of a minibatch.
    normaliser : "auto", "batch" or int, default="auto"
        Rows that normalise a stochastic step: the minibatch itself ("batch", the paper), or this number of
        the rows that follow it. "auto" is ten rows for every column iterated.
    covariance : {"auto", "dense"}, default="auto"
        "dense" lets "appgrad" and "lobpcg" iterate on p x p matrices gathered in one pass; "als" does so if
        they are small.
    forget : float, optional
        For `partial_fit` and `fit_stream`: a row counts half after this many later rows.
    checkpoint : str, Path or pair of these and seconds, optional
        A file to which an iterative solver writes its state, every 30 seconds unless the pair says
        otherwise. If the file exists and is of the same data and parameters, `fit` goes on from it.
    callback : callable, optional
        Called with a `Progress` (iteration, passes, seconds, flops, tcc, solution()) after each iteration;
        returning True stops an iterative solver.
    n_jobs : int, optional
        Number of threads; None follows the limits of threadpoolctl, by default all cores. Work too small to
        be shared has one thread: on a busy machine, several would wait for each other.
    random_state : int, RandomState or Generator, optional
        Draws the start and the row order of iterative solvers; direct solvers need none.
    verbose : int, default=0
        1 logs what is being done through `logging.getLogger("appgrad")`; 2 draws one line on stderr
        instead, where that is a terminal or a notebook.

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
    noise_level_, noise_edge_ : float
        The correlation that the first one of unrelated normal views exceeds in 5 % of all data sets, and
        where it is for large views. An upper bound for iterative solvers. NaN where no theory holds.
    noise_level_reason_ : str
        Why the noise level is not known; empty if it is.
    effective_rows_ : ndarray of shape (n_components,)
        On about how many rows each component rests; NaN where no pass was left for it.
    x_explained_variance_, y_explained_variance_ : ndarray of shape (n_components,)
        The share of the variance of each view that its own scores explain.
    x_redundancy_, y_redundancy_ : ndarray of shape (n_components,)
        The share that the scores of the other view explain.
    coef_, intercept_ : ndarray
        Linear prediction of y: X @ coef_.T + intercept_. Computed when read.
    x_mean_, y_mean_, x_std_, y_std_ : ndarray
        Column means and standard deviations; x_loadings_ / x_std_[:, None] are correlations.
    n_iter_ : list of int
        Number of steps of each component; direct solvers take one.
    n_passes_ : float
        How often all rows were read, for any purpose.
    residuals_ : ndarray of shape (n_components,)
        Relative residual r of each pair in the canonical equations, in the norm of the preconditioner: a pair
        misses about r^2 of its correlation.
    error_bounds_ : ndarray of shape (n_components,)
        Upper bound of the distance of each value to a canonical correlation, not necessarily the one of its
        rank; rounding is included. NaN where no bound is known: iterative solvers without
        `covariance="dense"` bound S by the ridge alone, and the result is above 0.1 (docs/choosing.md).
    solver_, solver_reason_ : str
        The solver taken, and why.
    history_ : list of dict
        iteration, passes, seconds, flops, tcc of each step, and an event if the step had to be cut; flops
        are NaN for direct solvers (docs/algorithms.md says how they are counted).
    n_samples_, n_features_in_, n_features_y_, feature_names_in_, feature_names_y_ : of the data fitted.

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
        step_size: str | float | tuple[float, float] = "auto",
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

    def predict(self, X: Any) -> Array:
        """Least-squares prediction of y from the scores of X."""
        check_is_fitted(self)
        U = self.array_scores(X)
        U = U[0] if isinstance(U, tuple) else U
        solution = self._solved().solution
        with np.errstate(over="ignore", invalid="ignore"):
            predicted = U @ solution.y_slopes.T + solution.mean_y.astype(solution.y_slopes.dtype)
        require_in_range(predicted, predicted.dtype, "predictions for X")
        found: Array = predicted[:, 0] if self._known().rows.y_1d else predicted
        return found

    def inverse_transform(self, X: Any, y: Any = None) -> Array | tuple[Array, Array]:
        """Rows that have these scores, reconstructed from the components kept."""
        check_is_fitted(self)
        rows_x = self._reconstructed(X, self.x_weights_, self.x_loadings_, self.x_mean_, "X")
        if y is None:
            return rows_x
        return rows_x, self._reconstructed(y, self.y_weights_, self.y_loadings_, self.y_mean_, "y")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags

    def _reconstructed(self, scores: Any, weights: Array, loadings: Array, mean: Array, name: str) -> Array:
        """Rows, by least squares of the columns on all scores; their covariance is weights'loadings."""
        scores = as_matrix(scores, name)
        require_finite(scores, Naming(name))
        if scores.shape[1] != loadings.shape[1]:
            raise ValueError(
                f"{name} has {scores.shape[1]} columns, but there are {loadings.shape[1]} components"
            )
        coefficients = np.linalg.solve(weights.T @ loadings, loadings.T)
        with np.errstate(over="ignore", invalid="ignore"):
            rows = np.asarray(scores @ coefficients + mean.astype(loadings.dtype))
        require_in_range(rows, rows.dtype, f"columns for the scores {name}")
        return rows
