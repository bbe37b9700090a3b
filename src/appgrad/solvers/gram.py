"""Kernel CCA from the eigenvectors of Gram matrices, which are its views."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..covariance.gram import GramCovariance
from ..covariance.linalg import Factor, condition_of, factor_cca
from ..covariance.moments import moments
from ..covariance.operators import Rounding
from ..covariance.units import kernel_ridges, units
from ..data.arrays import ArrayViews
from ..data.kernels import stored
from ..data.views import Views
from ..machine.arrays import EPS, Array
from ..machine.threads import limit_for_factor
from .canonical import require_rank, solution
from .costs import gram_memory
from .direct import DirectBase
from .problem import Problem, Solution
from .protocol import Outcome
from .shortfall import rounded


def by_grams(views: Views, problem: Problem) -> Solution:
    """Exact CCA of centred Gram matrices K = U diag(s^2) U' with the ridge r K.

    In the coordinates U diag(s) of the rows the ridge is r I, and the data are U diag(s): K is not squared.
    """
    k, kept = problem.n_components, stored(views)
    (fx, condition_x), (fy, condition_y) = _factors(kept, problem)
    require_rank(k, len(fx.s), len(fy.s))
    a, b, rho, residual, _ = factor_cca(fx, fy, views.n_samples, k)
    m = moments(kept, center=False)
    cov = GramCovariance(kept, m, units(m, kept.dtype, ridge=problem.ridge), (fx.c, fy.c))
    A, B = fx.U @ (a / fx.s[:, None]), fy.U @ (b / fy.s[:, None])
    condition = max(condition_x, condition_y)
    ranks = fx.dimensions(views.n_samples), fy.dimensions(views.n_samples)
    found = solution(cov, rho, A, B, error_bounds=np.full(k, np.nan), ranks=ranks)
    rounding = _rounding((fx, fy), condition, rho, (a, b)) + float(np.max(residual))
    return found._replace(condition=condition, rounding=rounding)


def _rounding(
    factors: tuple[Factor, Factor], condition: float, rho: Array, pairs: tuple[Array, Array]
) -> float:
    """What rounding of Gram matrices may change correlations by, for pairs in coordinates of their factors.

    Eigenvalues of K are known to eps times the largest one. How well its entries are known is the kernel's
    secret: this is no bound to rely on, and ten times as much is said, so that a warning comes early.
    """
    n = len(factors[0].U)
    sizes = sum(f.s.max() ** 2 / n * np.sum(c * c, axis=0) for f, c in zip(factors, pairs, strict=True))
    lost = max(f.neglected(n) for f in factors)
    return 10 * float(Rounding(EPS, condition, neglected=lost).bounds(rho, np.asarray(sizes), n).max())


class Coordinates(NamedTuple):
    """Rows of Gram matrices in coordinates in which the ridge r K is r I, and the factors that lead back."""

    views: ArrayViews
    problem: Problem
    factors: tuple[Factor, Factor]
    condition: float

    def returned(self, found: Solution) -> Solution:
        """Convert a solution in these coordinates to one of the Gram matrices, except for loadings."""
        pairs, zero = (found.x_weights, found.y_weights), np.zeros(self.views.n_samples)
        x, y = (f.U @ (c / f.s[:, None]) for f, c in zip(self.factors, pairs, strict=True))
        return found._replace(
            x_weights=x,
            y_weights=y,
            mean_x=zero,
            mean_y=zero,
            std_x=zero,
            std_y=zero,
            error_bounds=np.full(len(found.correlations), np.nan),
            condition=self.condition,
            rounding=_rounding(self.factors, self.condition, found.correlations, pairs),
        )


def coordinates(views: Views, problem: Problem) -> Coordinates:
    """Return Gram matrices K = U diag(s^2) U' as data U diag(s), for solvers that work on some rows."""
    (fx, condition_x), (fy, condition_y) = _factors(stored(views), problem)
    require_rank(problem.n_components, len(fx.s), len(fy.s))
    rows = ArrayViews(fx.U * fx.s, fy.U * fy.s, view_names=views.view_names, threads=views.threads)
    ridged = problem._replace(ridge=(fx.c, fy.c))
    return Coordinates(rows, ridged, (fx, fy), max(condition_x, condition_y))


def _factors(views: ArrayViews, problem: Problem) -> tuple[tuple[Factor, float], tuple[Factor, float]]:
    ridges = kernel_ridges(problem.ridge)
    assert ridges is not None
    return _factor(views.x, ridges[0]), _factor(views.y, ridges[1])


def _factor(K: Array, r: float) -> tuple[Factor, float]:
    """U and s of the rows from their Gram matrix, without directions at rounding level."""
    with limit_for_factor(len(K)):
        E, U = np.linalg.eigh((K + K.T) / 2)
    # Entries of K are sums before they are centred: as large as the largest eigenvalue, at most.
    keep = len(K) * EPS * max(E[-1], 0.0) < E
    condition = condition_of(E + len(K) * r, keep, ridged=r > 0, null=1)
    lost = len(K) * EPS * max(E[-1], 0.0) if np.count_nonzero(~keep) > 1 else 0.0
    return Factor(U[:, keep], np.sqrt(E[keep]), r, float(np.sqrt(lost))), condition


# Advice where Gram matrices and their factors do not fit into memory.
APPROXIMATE = "an approximation"


class GramSolver(DirectBase):
    """Exact CCA of Gram matrices; `exact` and `qr` are the same here."""

    alternative = APPROXIMATE

    def __init__(self, name: str) -> None:
        self.name = name

    def solve(self, views: Views, problem: Problem) -> Solution:
        """Return the solution from the eigenvectors of both Gram matrices."""
        return by_grams(views, problem)

    def shortfalls(self, outcome: Outcome) -> list[str]:
        """Return a warning if rounding of Gram matrices may have changed the correlations."""
        return rounded(outcome, np.array([outcome.solution.rounding]), "use a larger ridge")

    def memory(self, views: Views) -> int:
        """Return the bytes of both Gram matrices and their factors."""
        return gram_memory(views)

    def matrices(self, views: Views) -> str:
        """Describe these matrices in words."""
        return f"the {views.n_samples} x {views.n_samples} Gram matrices"
