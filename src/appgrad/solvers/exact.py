"""Exact CCA from covariances, or from row Gram matrices when there are more columns than rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..covariance.build import on_rows
from ..covariance.linalg import Factor, condition_of, factor_cca, isotropic, svd_and_squares
from ..covariance.matrices import MatrixCovariance
from ..covariance.moments import SecondMoments, second_moments
from ..covariance.operators import Rounding
from ..covariance.rows import RowCovariance
from ..covariance.units import units
from ..data.views import Views
from ..machine.arrays import EPS, Array
from ..machine.memory import budget
from ..machine.threads import limit_for_factor
from .canonical import require_rank, solution
from .costs import Cost, Rates, gram_memory, is_wide, matrices_needed, matrices_seconds
from .direct import DirectBase
from .gram import GramSolver
from .problem import Problem, Solution, Whitened, spectrum

# The least ridge over the variance of a column, where it enters row Gram matrices.
FLOOR = 1e-10


def exact(views: Views, problem: Problem) -> Solution:
    """Whiten both covariances and take the SVD of what remains: Lemma 1.1 of the paper.

    Sx^-1/2 Sxy Sy^-1/2 = P diag(rho) Q',  phi = Sx^-1/2 P,  psi = Sy^-1/2 Q
    """
    if is_wide(views):
        return by_rows(views, problem)
    second = second_moments(views, problem.center)
    return by_covariances(second, views.widths, views.dtype, problem, views)


def by_covariances(
    second: SecondMoments,
    widths: Sequence[int],
    dtype: np.dtype[Any],
    problem: Problem,
    views: Views | None = None,
) -> Solution:
    """Exact CCA from second moments of data with this precision, whose views have these widths.

    With the rows themselves, `views`, directions that seem to have no variance are checked on them.
    """
    with limit_for_factor(max(widths)):
        return _by_covariances(second, widths, dtype, problem, views)


def _by_covariances(
    second: SecondMoments,
    widths: Sequence[int],
    dtype: np.dtype[Any],
    problem: Problem,
    views: Views | None,
) -> Solution:
    k = problem.n_components
    cov = _covariances(second, widths, dtype, problem)
    wx, wy = cov.whitened
    x, y = (min(w.rank, w.W.shape[1]) for w in (wx, wy))
    require_rank(k, x, y)
    P, rho, Q, residual, squares = svd_and_squares(wx.W.T @ cov.matrices.Sxy @ wy.W, k)
    found = solution(cov, rho, wx.W @ P, wy.W @ Q, error_bounds=residual, rounding=cov.rounding(views))
    return found._replace(
        spectrum=spectrum(squares, (x, y), cov.left, second.n, problem.center, found.condition)
    )


def _covariances(
    second: SecondMoments, widths: Sequence[int], dtype: np.dtype[Any], problem: Problem
) -> MatrixCovariance:
    """Return the covariances of a problem, from second moments of data with this precision."""
    u = units(second.moments(widths), dtype, scale=problem.scale, ridge=problem.ridge)
    return MatrixCovariance.of_moments(second, u, max(EPS, float(np.finfo(dtype).eps) ** 2))


def by_rows(views: Views, problem: Problem) -> Solution:
    """Exact CCA from n x n matrices: K = X X' = U diag(s^2) U', never a p x p matrix.

    The canonical vectors are combinations of rows, phi = X'U diag(1 / s) a, with a from the CCA of U.
    """
    k, center = problem.n_components, problem.center
    cov, (fx, fy), (tx, ty), condition = _row_factors(views, problem)
    require_rank(k, len(fx.s), len(fy.s))
    a, b, rho, residual, squares = factor_cca(fx, fy, cov.n, k)
    X, Y = cov.combinations(fx.U @ (a / fx.s[:, None]), fy.U @ (b / fy.s[:, None]))
    A, B = X * tx[:, None] * tx[:, None], Y * ty[:, None] * ty[:, None]
    lost = max(fx.neglected(cov.n), fy.neglected(cov.n))
    # A ridge below the floor counts as that.
    raised = any(
        np.any((u.ridge > 0) & (u.ridge < FLOOR * m.var * u.scale * u.scale))
        for m, u in zip(cov.moments.views, cov.units.views, strict=True)
    )
    rounding = Rounding(max(EPS, FLOOR / cov.n if raised else 0.0), condition, terms=cov.n, neglected=lost)
    ranks = fx.dimensions(cov.n), fy.dimensions(cov.n)
    found = solution(cov, rho, A, B, error_bounds=residual, rounding=rounding, ranks=ranks)
    left = fx.left(cov.n), fy.left(cov.n)
    return found._replace(spectrum=spectrum(squares, (len(fx.s), len(fy.s)), left, cov.n, center, condition))


def _row_factors(
    views: Views, problem: Problem
) -> tuple[RowCovariance, tuple[Factor, Factor], tuple[Array, Array], float]:
    """The operator, both views as factors by their rows, the units t of these, and the worse condition."""
    center = problem.center
    cov = on_rows(views, center=center, scale=problem.scale, ridge=problem.ridge, dtype=np.float64)
    # Squared units enter K: with the floor a small ridge keeps six digits beside a large column.
    (tx, cx), (ty, cy) = (
        isotropic(m.var * u.scale * u.scale, u.ridge, floor=FLOOR)
        for m, u in zip(cov.moments.views, cov.units.views, strict=True)
    )
    precision = max(EPS, float(np.finfo(views.dtype).eps) ** 2)
    Kx, Ky = cov.row_grams(tx, ty)
    (fx, condition_x), (fy, condition_y) = (
        _factor(K, c, center, precision, p) for K, c, p in ((Kx, cx, len(tx)), (Ky, cy, len(ty)))
    )
    return cov, (fx, fy), (tx, ty), max(condition_x, condition_y)


def _whitened(views: Views, problem: Problem) -> Whitened:
    """All directions: of covariances, or of the rows where there are fewer of these."""
    if is_wide(views):
        cov, (fx, fy), _, _ = _row_factors(views, problem)
        root = np.sqrt(cov.n)
        ux, uy = cov.units.views
        scores = fx.U * (root * fx.shrinkage(cov.n)), fy.U * (root * fy.shrinkage(cov.n))
        return Whitened((ux.mean, uy.mean), scores=scores)
    second = second_moments(views, problem.center)
    matrices = _covariances(second, views.widths, views.dtype, problem)
    (wx, wy), (ux, uy) = matrices.whitened, matrices.units.views
    return Whitened((ux.mean, uy.mean), (ux.scale[:, None] * wx.W, uy.scale[:, None] * wy.W))


def _factor(K: Array, c: float, center: bool, precision: float, p: int) -> tuple[Factor, float]:
    """U and s of a view's centred rows from their Gram matrix, without directions at rounding level.

    Rows of p columns leave some directions empty.
    """
    # Rounding errors of K before centring, if they all add up, and of the steps after it.
    rounding = 4 * len(K) * precision * np.diag(K).max()
    if center:
        K = K - K.mean(axis=0)
        K -= K.mean(axis=1)[:, None]
    with limit_for_factor(len(K)):
        E, U = np.linalg.eigh(K)
    keep = np.maximum(E[-1] * len(K) * precision, rounding) < E
    condition = condition_of(E + len(K) * c, keep, ridged=c > 0, null=int(center))
    empty = len(K) - min(p, len(K) - int(center))
    more = np.count_nonzero(~keep) > empty
    most = max(rounding, E[-1] * len(K) * precision) if more else 0.0
    return Factor(U[:, keep], np.sqrt(E[keep]), c, float(np.sqrt(most))), condition


def exact_cost(views: Views, rates: Rates) -> Cost:
    """Return the expected cost of gathering covariances, or row Gram matrices, and solving with them."""
    n, entries, memory = views.n_samples, views.entries, _memory(views)
    if is_wide(views):
        # Moments, both n x n matrices (all rows, and again for each budget full of them), combinations of
        # rows, and their products.
        passes = 4 + np.ceil(8 * n * entries / max(budget(), 1))
        seconds = n * n * entries * rates.square * 2 + 20 * n**3 * rates.factor
        return Cost("exact", passes, seconds, memory)
    return Cost("exact", 1.0, matrices_seconds(views, rates), memory)


def _memory(views: Views) -> int:
    if is_wide(views):
        return gram_memory(views)
    return matrices_needed(views)


class ExactSolver(DirectBase):
    """Exact CCA from covariances, or from row Gram matrices if there are more columns than rows."""

    name = "exact"
    successor = "qr"

    def for_kernels(self) -> GramSolver:
        """Return the solver on Gram matrices."""
        return GramSolver(self.name)

    def solve(self, views: Views, problem: Problem) -> Solution:
        """Return the solution from covariances or row Gram matrices."""
        return exact(views, problem)

    def whitened(self, views: Views, problem: Problem) -> Whitened:
        """Return all directions that `solve` works with."""
        return _whitened(views, problem)

    def solve_moments(
        self, second: SecondMoments, widths: Sequence[int], dtype: np.dtype[Any], problem: Problem
    ) -> Solution:
        """Return the solution from the sums of a stream."""
        return by_covariances(second, widths, dtype, problem)

    def memory(self, views: Views) -> int:
        """Return the bytes of the dense matrices held at a time, beyond the data."""
        return _memory(views)

    def matrices(self, views: Views) -> str:
        """Describe these matrices in words."""
        n, p1, p2 = views.n_samples, views.n_features_x, views.n_features_y
        return f"the {n} x {n} side" if is_wide(views) else f"the covariances of {p1} + {p2} columns"

    def cost(self, views: Views, k: int, rates: Rates) -> Cost:
        """Return the expected cost: one pass, or a few for row Gram matrices."""
        return exact_cost(views, rates)


SOLVER = ExactSolver()
