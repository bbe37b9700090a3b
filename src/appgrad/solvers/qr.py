"""Exact CCA from the triangular factor of [X Y]: the accurate choice for ill-conditioned data."""

from __future__ import annotations

import numpy as np

from ..covariance.linalg import Factor, factor_cca, isotropic
from ..covariance.moments import Moments, triangle
from ..covariance.operators import Rounding
from ..covariance.rows import RowCovariance
from ..covariance.units import Units, ViewUnits, units
from ..data.views import Views
from ..machine.arrays import EPS, Array
from ..machine.threads import limit_for_factor
from .canonical import require_rank, solution
from .costs import MATRICES, Cost, Rates
from .direct import DirectBase
from .gram import GramSolver
from .problem import Problem, Solution, Whitened, spectrum

# A column rounded to the precision eps is off by at most eps / 2 of its values, and its combinations with
# others by less than this many eps of all of theirs.
ROUNDED = 2
# A smaller ridge is raised to this share of a column's variance. In units in which the ridge is 1, standard
# deviations are then at most 1e12. Doubles have 16 digits: what is of size 1 beside that keeps four of them.
FLOOR = 1e-24


def qr(views: Views, problem: Problem) -> Solution:
    """Bjorck & Golub (1973): canonical correlations are the singular values of Qx'Qy.

    The condition number is never squared. Rows are read once for the factor and once for residuals.
    """
    k = problem.n_components
    m, u, (fx, vx, tx), (fy, vy, ty) = _factors(views, problem)
    n = m.n
    require_rank(k, len(fx.s), len(fy.s))
    a, b, rho, residual, squares = factor_cca(fx, fy, n, k)
    cov = RowCovariance(views, m, u, dtype=np.float64)
    A, B = tx[:, None] * (vx @ a), ty[:, None] * (vy @ b)
    condition = max(float(f.s[0] / np.sqrt(f.s[-1] ** 2 + n * f.c)) for f in (fx, fy))
    lost = max(fx.neglected(n), fy.neglected(n))
    rounding = Rounding(EPS, condition, squared=False, neglected=lost)
    ranks = fx.dimensions(n), fy.dimensions(n)
    found = solution(cov, rho, A, B, error_bounds=residual, rounding=rounding, ranks=ranks)
    left = fx.left(n), fy.left(n)
    return found._replace(spectrum=spectrum(squares, (len(fx.s), len(fy.s)), left, n, problem.center))


Side = tuple[Factor, Array, Array]


def _factors(views: Views, problem: Problem) -> tuple[Moments, Units, Side, Side]:
    """Moments and units of the rows, and U, s, V and units t of each view."""
    p = views.n_features_x
    n, mean, R = triangle(views, problem.center)
    var = _mean_squares(R, n)
    m = Moments.of_columns(n, mean, var, views.widths)
    u = units(m, views.dtype, scale=problem.scale, ridge=problem.ridge)
    eps = float(np.finfo(views.dtype).eps)
    noise = EPS * np.sqrt(n) * np.abs(mean)
    (mx, my), (ux, uy) = m.views, u.views
    x = _factor(R[:, :p], mx.var, ux, noise[:p], eps)
    return m, u, x, _factor(R[:, p:], my.var, uy, noise[p:], eps)


def _factor(R: Array, var: Array, units: ViewUnits, noise: Array, eps: float) -> tuple[Factor, Array, Array]:
    """U, s and V of one view's columns of R, in units in which the ridge is isotropic.

    `noise` is the norm of the rounding errors of each column's values: a direction is kept only if it is
    longer than these make it, and than those of the columns it combines, whose values have a precision of
    `eps`. The same values in two units, far from zero, agree no better. A column is not judged by the length
    of others: with a ridge they may be in any units.
    """
    scale = units.scale
    t, c = isotropic(var * scale * scale, units.ridge, floor=FLOOR)
    R = R * (scale * t)
    with limit_for_factor(max(R.shape)):
        U, s, Vt = np.linalg.svd(R, full_matrices=False)
    rounding = np.linalg.norm(Vt * (noise * scale * t), axis=1)
    values = np.linalg.norm(Vt * np.linalg.norm(R, axis=0), axis=1)
    varies = (s > max(R.shape) * EPS * np.maximum(s[0], values)) & (s > rounding)
    keep = varies & (s > R.shape[1] * eps * values)
    # Without a ridge, a direction that varies a little more than rounded values do may be noise or not.
    left = s[~keep] if c > 0 else s[varies & ~keep & (s > ROUNDED * eps * values)]
    raised = Vt[keep] ** 2 @ np.maximum(c - units.ridge * t * t, 0.0) if c > 0 else 0.0
    return Factor(U[:, keep], s[keep], c, max(left, default=0.0), raised), Vt[keep].T, t


def _mean_squares(R: Array, n: int) -> Array:
    """Column sums of squares over n, without overflow on the way."""
    largest = np.abs(R).max(axis=0)
    safe = np.where(largest > 0, largest, 1.0)
    return np.asarray(np.sum((R / safe) ** 2, axis=0) / n * safe * safe)


class QRSolver(DirectBase):
    """CCA from the triangular factor of the data."""

    name = "qr"

    def for_kernels(self) -> GramSolver:
        """Return the solver on Gram matrices; like QR, it works on unsquared data."""
        return GramSolver(self.name)

    def solve(self, views: Views, problem: Problem) -> Solution:
        """Return the solution from the triangular factor."""
        return qr(views, problem)

    def whitened(self, views: Views, problem: Problem) -> Whitened:
        """Return all directions that `solve` works with."""
        m, u, *sides = _factors(views, problem)
        x, y = (
            (view.scale * t)[:, None] * (V / np.sqrt(f.s**2 / m.n + f.c))
            for view, (f, V, t) in zip(u.views, sides, strict=True)
        )
        return Whitened((u.views[0].mean, u.views[1].mean), (x, y))

    def memory(self, views: Views) -> int:
        """Return the bytes of the factor, a merge of two, and the orthogonal factors of both sides."""
        p = views.n_features_x + views.n_features_y
        return 8 * MATRICES * min(views.n_samples, p) * p

    def matrices(self, views: Views) -> str:
        """Describe these matrices in words."""
        return f"the triangular matrices of {views.n_features_x} + {views.n_features_y} columns"

    def cost(self, views: Views, k: int, rates: Rates) -> Cost:
        """Return the expected cost: rows are read once for the factor and once for residuals."""
        n, p = views.n_samples, views.n_features_x + views.n_features_y
        least = min(n, p)
        seconds = 5 * n * p * least * rates.square + 20 * least**2 * p * rates.factor
        return Cost(self.name, 2.0, seconds, self.memory(views))


SOLVER = QRSolver()
