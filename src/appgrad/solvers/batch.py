"""Shared by solvers on all rows: covariances, preconditioner, budgets, and how a run ends."""

from __future__ import annotations

import time
from copy import copy
from functools import partial
from itertools import repeat
from typing import Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from ..covariance.build import operator
from ..covariance.operators import Covariance, Rounding
from ..covariance.preconditioners import NARROW, Preconditioner, jacobi, sample_rows, warm_up_rows
from ..covariance.rows import RowCovariance
from ..data.derived import CountedViews
from ..data.views import Views
from ..machine.arrays import EPS
from .canonical import (
    FlatError,
    attainable,
    canonical,
    completed,
    directions,
    require_directions,
    solution,
)
from .costs import matrices_needed, require_memory
from .defaults import preconditioner_kind, width_of
from .head_start import Start, head_for, start_of
from .problem import Algorithm, Diagnostics, Limits, Problem, Solution
from .protocol import Options, Outcome, Run
from .shortfall import lost_in_rounding, out_of_budget, stalled

# Default number of iterations.
ITERATIONS = 1000
# Squares of correlations below this are lost to underflow.
TINY = 1e-50
# With fewer passes, none is spent on a sample of rows for the preconditioner.
SHORT = 6


class Ready(NamedTuple):
    """The parts from which an algorithm on all rows is built.

    `norm` is the norm of residuals. Without a preconditioner (`kind` is None) it is that of the diagonal:
    residuals would otherwise have the units of the data. `width` is the number of columns of the bases. At
    the time `began`, by `time.perf_counter`, no pass had been made, and `seconds` of those allowed were left.
    """

    views: CountedViews
    problem: Problem
    options: Options
    cov: Covariance
    kind: str | None
    preconditioner: Preconditioner
    norm: Preconditioner
    limits: Limits
    matrices: bool
    rng: np.random.Generator
    width: int
    began: float
    seconds: float


class BatchSolver:
    """A solver on all rows, or on p x p matrices gathered from them. Each subclass has its own algorithm."""

    name: ClassVar[str]
    records: ClassVar[dict[str, Any]] = {}
    # Passes to the first result: moments, the start and its products.
    first_passes: ClassVar[int] = 3
    # True if thin products end in double precision, whatever the precision of the data.
    double: ClassVar[bool] = False
    # True if residuals of the result are measured in the norm of the run.
    own_norm: ClassVar[bool] = False
    # False on Gram matrices of kernels.
    gathers: bool = True

    def for_kernels(self) -> Self:
        """Return a copy that never gathers p x p matrices: Gram matrices are as large as the data."""
        found = copy(self)
        found.gathers = False
        return found

    def algorithm(self, ready: Ready) -> tuple[Algorithm, Limits]:
        """Return the algorithm, and the budgets to run it with."""
        raise NotImplementedError

    def uses_matrices(self, views: Views, options: Options) -> bool:
        """True if a run gathers p x p matrices."""
        return options.dense

    def kind(self, views: Views, options: Options, matrices: bool) -> str | None:
        """Return the kind of preconditioner, None for none.

        By default it is that of a sample of rows for narrow views, and the inverse itself of p x p matrices.
        """
        kind, passes = preconditioner_kind(options.preconditioner, views), options.limits.passes
        narrow = (max if kind == "lowrank" else min)(views.widths) <= NARROW
        if (
            options.preconditioner == "auto"
            and self.gathers
            and narrow
            and (passes is None or passes >= SHORT)
        ):
            return "exact" if matrices else "sample"
        return kind

    def head(self, views: Views, options: Options, matrices: bool) -> int:
        """Return the columns of each view in the head that a run may start from, 0 for none."""
        return 0 if matrices or not self.gathers else head_for(views, options, self.first_passes)

    def start(self, ready: Ready, limits: Limits, dtype: Any = None) -> Start:
        """Return what a run starts from: the pairs of a head in this precision, or nothing."""
        m = self.head(ready.views, ready.options, ready.matrices)
        if not m:
            return Start()
        cov = cast(RowCovariance, ready.cov if dtype is None else ready.cov.at(dtype))
        k, tol = ready.problem.n_components, ready.options.tol
        return start_of(cov, k, ready.width, m, ready.rng, _spare(ready, limits, self.first_passes), tol)

    def least_passes(self, views: Views, options: Options, kind: str | None) -> float:
        """Return the passes that moments, preconditioner, step and first iterate take without matrices."""
        rows = {"lowrank": warm_up_rows(views), "sample": sample_rows(views)}.get(str(kind), 0)
        return self.first_passes + rows / views.n_samples

    def refuses(self, options: Options) -> str | None:
        """Return None: all parameters are accepted."""
        return None

    def require(self, views: Views, problem: Problem, options: Options) -> None:
        """Raise if p x p matrices are asked for and do not fit into this machine."""
        if self.gathers and self.uses_matrices(views, options):
            need, advice = matrices_needed(views), "leave covariance at 'auto'"
            require_memory(views, need, "covariance='dense'", advice)

    def shortfalls(self, outcome: Outcome) -> list[str]:
        """Return warnings about a run that ended on a budget."""
        return lost_in_rounding(outcome) + stalled(outcome) + out_of_budget(outcome)

    def prepare(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator, start: float
    ) -> Run:
        """Set up a run on all rows."""
        began = time.perf_counter()
        seconds = np.inf if options.limits.seconds is None else options.limits.seconds - (began - start)
        k, matrices = problem.n_components, self.gathers and self.uses_matrices(views, options)
        limits = options.limits.with_iterations(ITERATIONS, by_passes=not matrices)
        kind = self.kind(views, options, matrices)
        self._require_passes(views, options, 1 if matrices else self.least_passes(views, options, kind))
        cov = operator(
            views,
            center=problem.center,
            scale=problem.scale,
            ridge=problem.ridge,
            matrices=matrices,
            dtype=np.float64 if self.double else None,
        )
        self._require_correlations(cov)
        if self.gathers:
            # A ridge would hide that constant columns have no scores.
            varying = (int(np.count_nonzero(m.var)) for m in cov.moments.views)
            require_directions(k, *varying)
        width = width_of(options, k, views, views.n_samples + (not problem.center))
        M = cov.preconditioner(kind, rng)
        norm = jacobi(cov) if kind is None else M
        known, share, passes = M, sample_rows(views) / views.n_samples, limits.passes
        unseen = not matrices and self.gathers and _lacks_ridge(cov) and kind != "sample"
        if unseen and (passes is None or passes >= SHORT + share):
            known = cov.preconditioner("sample", np.random.default_rng(0))
            limits = limits if passes is None else limits._replace(passes=passes - share)
        ready = Ready(
            views, problem, options, cov, kind, M, norm, limits, matrices, rng, width, began, seconds
        )
        algorithm, limits = self.algorithm(ready)
        limited = not matrices and not M.is_complete and options.limits.passes is not None
        unprobed = limited and getattr(algorithm, "probe", 0) == 0
        rounding = Rounding(EPS, np.inf) if known.is_blind else cov.rounding(views)
        # Products that cost no pass are computed again for the result: those of a run have drifted.
        precise = cov if matrices else None
        if cov.dtype == np.float32 and (limits.passes is None or limits.passes >= SHORT):
            # Keep a pass to measure the result in double precision.
            precise = cov.at(np.float64)
            limits = limits if limits.passes is None else limits._replace(passes=limits.passes - 1)

        def finish(diagnostics: Diagnostics, stopped: str | None) -> Solution:
            found = finished(cov, k, norm, self.own_norm, rounding, precise, diagnostics, stopped)
            return _with_looks(found._replace(unprobed=unprobed), diagnostics)

        return Run(algorithm, repeat(cov), width, finish, limits, views)

    def _require_passes(self, views: Views, options: Options, least: float) -> None:
        """Raise if the passes allowed do not suffice for a first result."""
        allowed = options.limits.passes
        if allowed is not None and allowed < least:
            raise ValueError(
                f"max_passes={allowed:g} is too few for solver={self.name!r}, which needs "
                f"{int(np.ceil(least))} for its first result: allow more, or use solver='stochastic'"
            )

    def _require_correlations(self, cov: Covariance) -> None:
        """Raise if the ridge leaves correlations whose squares vanish."""
        if 0 < attainable(cov) < TINY:
            raise ValueError(
                f"the ridge is so far above the variances that correlations are at most "
                f"{attainable(cov):.0e}, which solver={self.name!r} cannot find: use a smaller ridge, or "
                "solver='exact'"
            )


def _with_looks(solution: Solution, diagnostics: Diagnostics) -> Solution:
    """Return the solution with what the run knows of pairs that it has not found."""
    crowded, known, outside = diagnostics.crowded, diagnostics.known, diagnostics.outside
    return solution._replace(crowded=crowded, known=known, outside=outside)


def finished(
    cov: Covariance,
    k: int,
    norm: Preconditioner,
    own_norm: bool,
    rounding: Rounding | None,
    precise: Covariance | None,
    diagnostics: Diagnostics,
    stopped: str | None,
) -> Solution:
    """Return the solution at the best state of a run; of one that has ended, by the `precise` operator."""
    A, B = diagnostics.A.astype(np.float64, copy=False), diagnostics.B.astype(np.float64, copy=False)
    products, rho = diagnostics.products, diagnostics.correlations
    if precise is not None and stopped is not None:
        cov, products, rho = precise, None, None
    # Computed once: with Gram matrices, it takes a pass.
    ridged = cov.ridged(A, B)
    if products is None or _hides_variances(cov):
        plain = cov.products(A, B, ridge=False)
    else:
        xx, xy, yx, yy = products
        plain = xx - ridged[0], xy, yx, yy - ridged[1]
    most = directions(cov, A, B, plain)
    if min(most) < k:
        A, B = completed(cov, A, B, k)
        plain, ridged = cov.products(A, B, ridge=False), cov.ridged(A, B)
        # Checked without the ridge, which hides missing directions.
        most = directions(cov, A, B, plain)
        require_directions(k, *most)
    elif rho is not None and not np.any(np.diff(rho) > 0):
        return solution(cov, rho, A, B, plain, ridged=ridged, norm=norm, rounding=rounding)
    measured = partial(canonical, cov, A, B, k, plain, ridged, norm if own_norm else None, rounding)
    try:
        return measured()
    except FlatError:
        # Rounding has kept columns that do not vary, and related them.
        return measured(most=most)


def _spare(ready: Ready, limits: Limits, first: int) -> float:
    """The passes left beside the `first` ones and one of a head, by the budgets of passes and of seconds.

    A pass is taken to last as long as those so far.
    """
    passes = np.inf if limits.passes is None else limits.passes
    if np.isfinite(ready.seconds) and ready.views.passes > 0:
        one = (time.perf_counter() - ready.began) / ready.views.passes
        passes = min(passes, ready.seconds / max(one, 1e-9))
    return float(passes) - first - 1


def _lacks_ridge(cov: Covariance) -> bool:
    """True if a view has columns without a ridge: directions that vary little count as much as others."""
    return any(bool(np.any(u.ridge == 0)) for u in cov.units.views)


def _hides_variances(cov: Covariance) -> bool:
    """True if the ridge is so large that variances are lost when it is taken off products."""
    eps = np.finfo(cov.dtype).eps
    variances = (
        (m.var * u.scale**2, u.ridge) for m, u in zip(cov.moments.views, cov.units.views, strict=True)
    )
    return any(bool(np.any((ridge * eps > 1e-8 * var) & (var > 0))) for var, ridge in variances)
