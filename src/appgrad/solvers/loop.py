"""The one loop, and how its result, or a direct solver's, becomes a solution."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..covariance.linalg import column_dots, leading_svd, whitening
from ..covariance.operators import Covariance, DenseCovariance, Ridge
from ..covariance.preconditioners import Preconditioner, jacobi
from ..machine.arrays import Array

Operator = Covariance | DenseCovariance
Products = tuple[Array, Array, Array, Array]
# States whose captured correlations differ by less than this share capture the same.
ROUNDING = 1e-10
# Correlation with residuals so many times as large as another state's is feigned.
FEIGNED = 100
# A bound on the error of a correlation that is above this says nothing.
MEANINGFUL = 0.1


class Problem(NamedTuple):
    """What is asked: the number of components, and the units and ridge it is asked in."""

    n_components: int
    center: bool = True
    scale: bool = False
    ridge: Ridge | tuple[Ridge, Ridge] = "auto"


class Solution(NamedTuple):
    """Canonical pairs in the units of the data, best first, scores of unit variance.

    `correlations` are those of the problem with its ridge, `training_correlations` those of the scores
    of the rows it was solved on; without a ridge they are the same. `y_slopes` are the coefficients of
    the regression of y on the scores of X. `residuals` are relative residuals of the canonical equations
    in the norm of the covariances' diagonals; `error_bounds` bound the distance of each correlation to a
    true one, NaN where unknown; `condition` is that of the matrices factored, NaN where none was squared;
    `ranks` are those of the two views, 0 where unknown.
    """

    correlations: Array
    training_correlations: Array
    x_weights: Array
    y_weights: Array
    x_loadings: Array
    y_loadings: Array
    y_slopes: Array
    mean_x: Array
    mean_y: Array
    std_x: Array
    std_y: Array
    residuals: Array
    error_bounds: Array
    condition: float
    ranks: tuple[int, int]


class Report(NamedTuple):
    """What one step found out on the way: diagnostics travel apart from the state.

    A and B are the best bases the step knows of, `products` and `grams` theirs if they are at hand (from as
    much as `rows` rows), `correlations` theirs if they are canonical pairs of their spans already, and
    `residual` the largest of theirs where it is known. An `estimate` of the correlation captured, from some
    of the rows or in low precision, does not compete with earlier ones: the newest counts. `event` says what
    went wrong and was mended; `stalled` that going on is no use. `judged` are correlations on rows that no
    step had used when they were looked at.
    """

    A: Array
    B: Array
    tcc: float
    flops: float
    converged: bool
    products: Products | None = None
    grams: tuple[Array, Array, Array] | None = None
    correlations: Array | None = None
    residual: float = np.inf
    estimate: bool = False
    event: str | None = None
    stalled: bool = False
    rows: float = np.inf
    judged: Array | None = None


class Solver(Protocol):
    """Hyper-parameters and one step; no loop, no printing."""

    def init(self, cov: Any, k: int, rng: np.random.Generator) -> tuple[Any, Report]:
        """The first state, for bases of k columns."""

    def step(self, state: Any, cov: Any) -> tuple[Any, Report]:
        """The next state: a NamedTuple with only what the step after it needs."""


class Limits(NamedTuple):
    """Budgets of a run; None is unlimited."""

    iterations: int | None = None
    passes: float | None = None
    seconds: float | None = None
    flops: float | None = None


class Saved(NamedTuple):
    """All that a run needs to go on: what a checkpoint holds."""

    state: Any
    best: Report
    report: Report
    iteration: int
    flops: float
    seconds: float
    passes: float


class Progress(NamedTuple):
    """Where a run stands after an iteration; `solution()` makes a model of the best state so far.

    `residual` is the largest of all components', infinite where it is not known; `rows` are those delivered
    so far, `left` the seconds to the end as things stand, None where there is nothing to tell from.
    """

    iteration: int
    passes: float
    seconds: float
    flops: float
    tcc: float
    solution: Callable[[], Solution]
    stopped: str | None = None
    event: str | None = None
    residual: float = np.inf
    saved: Callable[[], Saved] | None = None
    rows: int = 0
    left: float | None = None

    def record(self) -> dict[str, Any]:
        """What `history_` keeps: the numbers, and the event if there was one."""
        event = {} if self.event is None else {"event": self.event}
        return event | {
            "iteration": self.iteration,
            "passes": self.passes,
            "seconds": self.seconds,
            "flops": self.flops,
            "tcc": self.tcc,
        }


def iterate(
    solver: Solver,
    covs: Iterator[Any],
    k: int,
    rng: np.random.Generator,
    *,
    finish: Callable[[Report, str | None], Solution],
    limits: Limits,
    rows: Callable[[], int],
    n: int,
    expected: Limits | None = None,
    tol: float = 0.0,
    start: float | None = None,
    callback: Callable[[Progress], Any] | None = None,
    saved: Saved | None = None,
) -> Iterator[Progress]:
    """Run a solver step by step until it converges, a budget or `covs` is spent, or the callback says True.

    `covs` gives what each step works on: always the same covariance, or one minibatch after the other.
    The best state is kept; `finish` makes a solution of it, and is told why
    the run has ended, None while it goes on: "converged", the budget's name, "stalled", "data" or "callback".
    With `saved`, the run goes on from there, and `covs` begins with what the next step works on. `rows` says
    how many have been delivered so far, of n in a pass. The run is `expected` to use up one of these, or to
    end with residuals of `tol`: from that come the seconds left.
    """
    start = time.perf_counter() if start is None else start
    iteration, flops = 0, 0.0
    state: Any = None
    report: Report | None = None
    best: Report | None = None
    trail = deque[tuple[Limits, float]](maxlen=50)
    if saved is not None:
        state, best, report, iteration, flops = saved[:5]
        start -= saved.seconds
    cov = None if report is not None else next(covs, None)
    while cov is not None or report is not None:
        if cov is not None:
            state, report = solver.init(cov, k, rng) if state is None else solver.step(state, cov)
            iteration += 1
            flops += report.flops
            if best is None or _is_better(report, best):
                best = report
        assert report is not None
        assert best is not None
        now = Saved(state, best, report, iteration, flops, time.perf_counter() - start, rows() / n)
        spent = Limits(iteration, now.passes, now.seconds, flops)
        trail.append((spent, report.residual))
        progress = Progress(
            iteration,
            now.passes,
            now.seconds,
            flops,
            best.tcc,
            partial(finish, best, None),
            event=report.event,
            residual=report.residual,
            saved=partial(_itself, now),
            rows=rows(),
            left=_left(trail, limits if expected is None else expected, tol),
        )
        stopped = "converged" if report.converged else _exhausted(spent, limits)
        if stopped is None and report.stalled:
            stopped = "stalled"
        answer = None if callback is None or cov is None else callback(progress)
        if stopped is None and says_stop(answer):
            stopped = "callback"
        if stopped is None:
            cov = next(covs, None)
            stopped = "data" if cov is None else None
        yield progress._replace(stopped=stopped, solution=partial(finish, best, stopped))
        if stopped is not None:
            return


def says_stop(answer: Any) -> bool:
    """Whether what a callback returned ends the run: True of Python or numpy, nothing else."""
    return isinstance(answer, bool | np.bool_) and bool(answer)


def _itself(value: Saved) -> Saved:
    return value


def _is_better(report: Report, best: Report) -> bool:
    """Whether a report takes the place of an earlier one: more correlation, or as much with less residual.

    Rounding can feign correlation where columns nearly depend on each other: such a state has residuals far
    larger than others.
    """
    if report.converged or report.estimate or best.estimate or not np.isfinite(best.tcc):
        return True
    if abs(report.tcc - best.tcc) <= ROUNDING * abs(best.tcc):
        return report.residual <= best.residual
    if report.tcc > best.tcc:
        return not report.residual > FEIGNED * best.residual
    return report.residual < best.residual / FEIGNED


def _exhausted(spent: Limits, limits: Limits) -> str | None:
    """The name of the first budget that is used up."""
    for name, used, limit in zip(Limits._fields, spent, limits, strict=True):
        if limit is not None and used is not None and used >= limit:
            return name
    return None


def _left(trail: Sequence[tuple[Limits, float]], limits: Limits, tol: float) -> float | None:
    """Seconds to the end of the first budget, or of residuals that go on as they do; None if unknown.

    `trail` is what the last iterations had spent, and their residuals.
    """
    (first, before), (last, now) = trail[0], trail[-1]
    took = (last.seconds or 0.0) - (first.seconds or 0.0)
    found = [] if limits.seconds is None else [limits.seconds - (last.seconds or 0.0)]
    for start, end, limit in zip(first, last, limits, strict=True):
        if limit is not None and start is not None and end is not None and end > start:
            found.append(took * (limit - end) / (end - start))
    if tol > 0 and len(trail) >= 5 and 0 < now < before < np.inf:
        found.append(took * float(np.log(now / tol) / np.log(before / now)))
    return max(0.0, min(found)) if found else None


def canonical(
    cov: Operator,
    A: Array,
    B: Array,
    k: int | None = None,
    products: Products | None = None,
    ridged: tuple[Array, Array] | None = None,
    norm: Preconditioner | None = None,
) -> Solution:
    """One last Rayleigh-Ritz on the spans of A and B: order, unit variance, signs, residuals.

    The best k pairs, by default as many as there are. `products` are those of A and B without the ridge, and
    `ridged` those with the ridge alone; `norm` is that of residuals, by default that of the covariances'
    diagonals.
    """
    xx, xy, yx, yy = cov.products(A, B, ridge=False) if products is None else products
    ridge_x, ridge_y = cov.ridged(A, B) if ridged is None else ridged
    grams = A.T @ (xx + ridge_x), B.T @ (yy + ridge_y)
    wx, wy = (whitening((G + G.T) / 2, np.zeros(len(G)), cov.precision).W for G in grams)
    found = min(wx.shape[1], wy.shape[1])
    if k is not None:
        require_rank(k, wx.shape[1], wy.shape[1])
    P, rho, Q, _ = leading_svd(wx.T @ (A.T @ xy) @ wy, found if k is None else k)
    P, Q = wx @ P, wy @ Q
    ridged = ridge_x @ P, ridge_y @ Q
    return solution(cov, rho, A @ P, B @ Q, (xx @ P, xy @ Q, yx @ P, yy @ Q), ridged=ridged, norm=norm)


def solution(
    cov: Operator,
    rho: Array,
    A: Array,
    B: Array,
    products: Products | None = None,
    *,
    ridged: tuple[Array, Array] | None = None,
    norm: Preconditioner | None = None,
    error_bounds: Array | None = None,
    condition: float = np.nan,
    ranks: tuple[int, int] = (0, 0),
) -> Solution:
    """Canonical pairs A, B with A'SxA = B'SyB = I in working units, as a solution in the data's units.

    `products` are those of A and B without the ridge: covariances of the columns with the scores; `ridged`
    those with the ridge alone.
    """
    xx, xy, yx, yy = cov.products(A, B, ridge=False) if products is None else products
    u = cov.units
    ridge_x, ridge_y = cov.ridged(A, B) if ridged is None else ridged
    rx, ry = xy - (xx + ridge_x) * rho, yx - (yy + ridge_y) * rho
    zx, zy = (jacobi(cov) if norm is None else norm)(rx, ry)
    squares = column_dots(rx, zx) + column_dots(ry, zy)
    if error_bounds is None:
        error_bounds = _error_bounds(cov, rho, rx, ry)
    var_u, var_v = column_dots(A, xx), column_dots(B, yy)
    if not (np.all(var_u > 0) and np.all(var_v > 0)):
        raise ValueError(f"only {int(np.sum((var_u > 0) & (var_v > 0)))} components have scores that vary")
    fx, fy = 1 / np.sqrt(var_u), 1 / np.sqrt(var_v)
    x_weights = A * u.scale_x[:, None]
    sign = np.sign(x_weights[np.argmax(np.abs(x_weights), axis=0), np.arange(len(rho))])
    fx, fy = fx * sign, fy * sign
    return Solution(
        correlations=np.clip(rho, 0.0, 1.0),
        training_correlations=np.clip(column_dots(A, xy) * fx * fy, 0.0, 1.0),
        x_weights=x_weights * fx,
        y_weights=B * u.scale_y[:, None] * fy,
        x_loadings=_unscaled(xx, u.scale_x) * fx,
        y_loadings=_unscaled(yy, u.scale_y) * fy,
        # With a ridge the scores are correlated a little: regress on all of them together.
        y_slopes=np.linalg.solve((A.T @ xx) * np.outer(fx, fx), (_unscaled(yx, u.scale_y) * fx).T).T,
        mean_x=u.mean_x,
        mean_y=u.mean_y,
        std_x=np.sqrt(cov.moments.var_x),
        std_y=np.sqrt(cov.moments.var_y),
        residuals=relative(squares, rho, cov),
        error_bounds=error_bounds,
        condition=condition,
        ranks=ranks,
    )


def require_rank(k: int, rank_x: int, rank_y: int) -> None:
    """Raise unless both views have at least k independent columns."""
    if k > min(rank_x, rank_y):
        raise ValueError(
            f"n_components={k} is above the rank of the data (X {rank_x}, y {rank_y}): "
            f"use at most {min(rank_x, rank_y)}"
            + (", and remove constant columns" if min(rank_x, rank_y) == 0 else "")
        )


def directions(cov: Operator, A: Array, B: Array, plain: Products) -> tuple[int, int]:
    """How many independent scores the columns of A and B have: variances above the rounding of their sums.

    `plain` are their products without the ridge, which would hide what the data lack.
    """
    found = []
    m, u = cov.moments, cov.units
    variances = m.var_x * u.scale_x**2, m.var_y * u.scale_y**2
    for C, SC, var in zip((A, B), (plain[0], plain[3]), variances, strict=True):
        size = np.sqrt(column_dots(C, C, var))
        inverse = np.where(size > 0, 1 / np.where(size > 0, size, 1.0), 0.0)
        G = (C.T @ SC) * inverse * inverse[:, None]
        values = np.linalg.eigvalsh((G + G.T) / 2)
        found.append(int(np.count_nonzero(values > 16 * cov.precision)))
    return found[0], found[1]


def require_directions(k: int, x: int, y: int) -> None:
    """Raise unless both views have k directions; how many more there are is not known here."""
    view, found = ("X", x) if x <= y else ("y", y)
    if found < k:
        raise ValueError(
            f"n_components={k} is above the rank of the data: {view} has {found} directions that can be told "
            f"apart: use at most {found}" + (", or solver='qr'" if found else ", and remove constant columns")
        )


def relative(squares: Array, rho: Array, cov: Operator) -> Array:
    """Residuals of pairs over the largest correlation, from the squared norms of both sides together.

    Where there is hardly any, over a millionth of what the ridge would leave of a perfect one: rounding has
    no correlation to be compared with.
    """
    return np.asarray(
        np.sqrt(np.maximum(squares, 0) / 2) / max(float(rho[0]), 1e-6 * attainable(cov), 1e-300)
    )


def attainable(cov: Operator) -> float:
    """What the ridge leaves of a perfect correlation, about."""
    m, u = cov.moments, cov.units
    most = 1.0
    for var, scale, ridge in ((m.var_x, u.scale_x, u.ridge_x), (m.var_y, u.scale_y, u.ridge_y)):
        var = var * scale * scale
        left = var / np.where(var > 0, var + ridge, 1.0)
        most *= float(np.sqrt(left.max(initial=0.0)))
    return most


def _error_bounds(cov: Operator, rho: Array, rx: Array, ry: Array) -> Array:
    """How far each value is from a canonical correlation at most, NaN where that is not known.

    The residual in the norm of S^-1 bounds the distance to an eigenvalue of the symmetric pencil (Parlett
    1998, theorem 15.9.1), which are the correlations, their negatives and, where one view is wider, zero:
    below rho, it is a bound to a correlation. Where S is not at hand, it is the ridge at least, which says
    something only where the bound is below 0.1.
    """
    squares = np.zeros(rx.shape[1])
    if cov.units.kernel is not None:
        # Gram matrices are singular, and so is r K.
        return np.full(rx.shape[1], np.nan)
    u, most = cov.units, np.inf
    if isinstance(cov, DenseCovariance):
        for S, ridge, r in ((cov.Sx, u.ridge_x, rx), (cov.Sy, u.ridge_y, ry)):
            squares += np.sum((whitening(S, ridge).W.T @ r) ** 2, axis=0)
    else:
        most = MEANINGFUL
        for ridge, scale, r in ((u.ridge_x, u.scale_x, rx), (u.ridge_y, u.scale_y, ry)):
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                # A column that is absent has no residual; one without a ridge leaves the bound unknown.
                squares += np.einsum("i,ij,ij->j", np.where(scale > 0, 1 / ridge, 0.0), r, r)
    bounds = np.sqrt(squares / 2)
    return np.where((bounds < most) & ((bounds < rho) | (len(rx) == len(ry))), bounds, np.nan)


def _unscaled(M: Array, scale: Array) -> Array:
    return np.asarray(M * np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)[:, None])
