"""Sparse CCA: components that use few columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from ..data.derived import CountedViews
from ..fitting.parameters import checked, is_real, is_whole, pair_of
from ..fitting.remarks import best_columns
from ..machine.arrays import Array
from ..solvers import registry
from ..solvers.problem import Problem, Progress, Solution
from ..solvers.protocol import Options
from ..solvers.sparse.thresholds import PENALTIES, Sparsity
from .base import Prepared
from .cca import CCA

SUPPORTS = ("shared", "component")
# Default penalty: the correlation above which a column is worth using.
ALPHA = 0.1


class SparseCCA(CCA):
    """Canonical correlation analysis with weights that are zero for most columns.

    AppGrad with a threshold between its gradient step and the normalisation (Ma, Lu & Foster 2015, section
    5): views are whitened, unlike in the penalised matrix decomposition (Witten et al. 2009).

    Parameters
    ----------
    n_components : int, default=2
        Number of canonical pairs.
    alpha : float or pair of floats, optional
        Penalty of each view, in units of correlation. A column enters when what is left of its correlation
        with the other view's scores is above alpha; with "l0" it stays while its weight, in units of the
        column, is above alpha. Default 0.1, unless `n_nonzero` is given; 0 gives `CCA`.
    n_nonzero : int or pair of ints, optional
        Number of columns to use in each view, instead of a penalty.
    penalty : {"l0", "l1"}, default="l0"
        "l0" leaves the weights of columns in use as they are, "l1" shrinks them by alpha: better where many
        columns matter a little, worse at telling which do (docs/decisions/0008).
    support : {"shared", "component"}, default="shared"
        "shared" uses the same columns for all components. "component" gives each component its own: they
        are found one after the other, with earlier ones taken out of the covariances, and their scores are
        not exactly uncorrelated.
    solver : {"auto", "pursuit", "appgrad", "stochastic"}, default="auto"
        "pursuit" computes the step on the covariances of the columns in play, two passes an iteration;
        "appgrad" takes the step on all columns, one pass an iteration; "stochastic" on minibatches.
    warm_start : bool, default=False
        Start from the last fit, as `sparse_path` does; not with support="component".
    ridge, center, scale, tol, max_iter, max_passes, max_seconds, max_flops, step_size, batch_size, \
normaliser, checkpoint, callback, n_jobs, random_state, verbose
        As in `CCA`. The ridge counts as variance: columns with a variance far below it hardly ever enter.
        `tol` is the relative change of the weights in an iteration ("pursuit"). Budgets are checked between
        iterations: a start takes some 25 passes a component before the first iteration.

    Attributes
    ----------
    x_weights_, y_weights_ : ndarray of shape (n_features, n_components)
        Rows ("shared") or entries ("component") of columns that are not used are exactly zero.
    n_nonzero_ : pair of ints
        Number of columns of each view with a weight.

    residuals_ : ndarray of shape (n_components,)
        Residuals in the equations of CCA without sparsity: how far the components are from it.

    All other attributes, and `predict`, `transform` and `score`, are those of `CCA`.

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

    _no_theory = "the columns of sparse components are chosen by their correlations"

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
        step_size: str | float | tuple[float, float] = "auto",
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
        """Number of columns of each view with a weight in any component."""
        return tuple(int(np.any(W != 0, axis=1).sum()) for W in (self.x_weights_, self.y_weights_))  # type: ignore[return-value]

    @classmethod
    def from_covariance(cls, *args: Any, **params: Any) -> Self:
        """Raise TypeError: sparse components need rows, not only covariances."""
        raise TypeError(f"{cls.__name__} needs rows: use fit")

    def _refuses_streams(self) -> str | None:
        return f"{type(self).__name__} needs all rows at a time: use fit, which also takes files of any size"

    def problem_and_options(self) -> tuple[Problem, Options]:
        """The problem that the parameters ask for, and how to solve it; ValueError if they are wrong."""
        params = self.get_params(deep=False)
        rest = {"oversampling": 0, "preconditioner": "jacobi", "covariance": "auto", "forget": None}
        problem, options = checked({**params, **rest}, registry.SPARSE)
        sparsity = asked_sparsity(params)
        if not isinstance(self.warm_start, bool | np.bool_):
            raise ValueError(f"warm_start must be True or False, got {self.warm_start!r}")
        if options.solver != registry.AUTO:
            refusal = registry.solver(options.solver).refuses(options._replace(sparsity=sparsity))
            if refusal is not None:
                raise ValueError(refusal)
        if sparsity.alpha == (0.0, 0.0):
            # No penalty: this is CCA without sparsity.
            rest |= {"oversampling": "auto", "preconditioner": "auto"}
            linear = self.solver in registry.names(registry.LINEAR)
            solver = self.solver if linear else registry.AUTO
            return checked({**params, **rest, "solver": solver})
        return problem, options._replace(sparsity=sparsity, first=self._first(problem))

    def _first(self, problem: Problem) -> tuple[Array, Array] | None:
        """Start of a warm fit: the last weights, scaled like those of regressions; None for a cold start."""
        if not self.warm_start or self._fitted is None or self.support == "component":
            return None
        rho = self.canonical_correlations_
        if len(rho) != problem.n_components:
            return None
        first = self.x_weights_ * rho, self.y_weights_ * rho
        return first[0].astype(np.float64), first[1].astype(np.float64)

    def _overfit(self, n: int, p1: int, p2: int, solution: Solution) -> list[str]:
        used = [int(np.any(W != 0, axis=1).sum()) for W in (solution.x_weights, solution.y_weights)]
        return best_columns(n, (p1, p2), (used[0], used[1]), solution)

    def _prepared(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator
    ) -> Prepared:
        columns = views.n_features_x, views.n_features_y
        if options.sparsity is not None and options.sparsity.n_nonzero is not None:
            for count, p, label in zip(options.sparsity.n_nonzero, columns, views.view_names, strict=True):
                if count > p:
                    raise ValueError(
                        f"n_nonzero={count} is above the {p} columns of {label}: a pair, such as "
                        f"n_nonzero=(10, 3), is one number for each view"
                    )
        if options.first is not None and (len(options.first[0]), len(options.first[1])) != columns:
            raise ValueError(
                f"warm_start=True, but the last fit had {len(options.first[0])} + {len(options.first[1])} "
                f"columns, these are {columns[0]} + {columns[1]}: use warm_start=False"
            )
        return super()._prepared(views, problem, options, rng)


def asked_sparsity(params: dict[str, Any]) -> Sparsity:
    """The sparsity set by these parameters; ValueError names a parameter that is wrong."""
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
