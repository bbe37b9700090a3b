"""LOBPCG as a solver: precision, preconditioner, cost, and its warnings."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import numpy as np

from ...covariance.matrices import MatrixCovariance
from ...covariance.operators import Covariance
from ...covariance.rows import RowCovariance
from ...covariance.units import working_dtype
from ...data.views import Views
from ...machine.memory import budget
from ..batch import BatchSolver, Ready
from ..costs import Cost, Rates, is_full, matrices_needed, thin, thin_memory
from ..head_start import head_memory, least_ridge
from ..probe import probing
from ..problem import Limits
from ..protocol import Options, Outcome
from ..shortfall import (
    contradicted,
    crowded,
    is_dependent,
    lost_in_rounding,
    out_of_budget,
    slow,
    stalled,
    unlooked,
    unprobed,
)
from . import all_columns, rare_pairs
from .algebra import Grams, Vectors
from .all_columns import AllColumns, all_columns_for
from .iteration import LOBPCG, State
from .rare_pairs import RareColumns

# With fewer passes, single precision saves less than it costs: one pass, which measures its result in double
# precision.
SHORT = 10
# With fewer passes, none is kept for a look at all columns.
ROOM = 30
# Passes to the default tolerance, for full rows and for sparse ones, preparation and looks at the end too:
# sparse data with the default ridge 5 to 8 where columns of the views coincide, 90 where none do, and 35 to
# 77 with other ridges; full rows of few columns, where a look at all takes the place of a probe, 7 to 23
# (benchmarks/stopping.py, test_counts.py).
EXPECTED, OF_FEW = {True: 40, False: 33}, 12
# How many passes of all columns take as long: a probe has six columns.
AS_LONG = {True: 20, False: 33}
# Doubles for each feature and column carried, at the peak (benchmarks/peak_memory.py: 24 to 27).
DOUBLES = 27


class LOBPCGSolver(BatchSolver):
    """LOBPCG on all rows; it begins in single precision where that suffices, and ends in double."""

    name = "lobpcg"
    records: ClassVar[dict[str, Any]] = {
        "lobpcg-grams/1": Grams,
        "lobpcg-state/1": State,
        "lobpcg-vectors/1": Vectors,
    }
    # Moments, and the products of the start.
    first_passes = 2
    double = True
    own_norm = True

    def kind(self, views: Views, options: Options, matrices: bool) -> str | None:
        """Return the kind of preconditioner: by default the inverse itself if there are matrices.

        With a head, the variances: the head has all columns of a narrow view.
        """
        if matrices and options.preconditioner == "auto":
            return "exact"
        if self.head(views, options, matrices):
            return "jacobi"
        return super().kind(views, options, matrices)

    def algorithm(self, ready: Ready) -> tuple[LOBPCG, Limits]:
        """Return LOBPCG, first in single precision if that suffices and enough passes are allowed."""
        limits = ready.limits
        # Without a preconditioner, numbers are as large as the data are, which float32 may not hold.
        single = not ready.matrices and ready.kind is not None and suffices_single(ready.views, ready.cov)
        if limits.passes is not None and limits.passes < SHORT:
            single = False
        elif single and limits.passes is not None:
            # Keep a pass to measure in double precision what ends in single.
            limits = limits._replace(passes=limits.passes - 1)
        norm = ready.norm if ready.kind is None else None
        k, tol = ready.problem.n_components, ready.options.tol
        probe = 0
        if tol > 0:
            probe, limits = probing(ready.preconditioner, limits, ready.matrices)
        start = self.start(ready, limits, np.float32 if single else None)
        rare, every = self._rare_columns(ready, probe), self._all_columns(ready, probe)
        if limits.passes is not None and not ready.matrices:
            kept = max(rare_pairs.PASSES * (rare is not None), all_columns.PASSES * (every is not None))
            limits = limits._replace(passes=limits.passes - kept)
        algorithm = LOBPCG(
            k,
            ready.preconditioner,
            tol,
            single=single,
            norm=norm,
            probe=probe,
            joint=start.joint,
            first=start.first,
            floor=least_ridge(ready.cov, start.joint),
            spent=start.flops,
            rare_columns=rare,
            all_columns=every,
        )
        return algorithm, limits

    def _rare_columns(self, ready: Ready, probe: int) -> RareColumns | None:
        """Return the clusters to look at: those of sparse rows, where passes suffice for a probe."""
        if not probe or not self.gathers or ready.matrices or is_full(ready.views):
            return None
        return RareColumns(cast(RowCovariance, ready.cov))

    def _all_columns(self, ready: Ready, probe: int) -> AllColumns | None:
        """Return when a run looks at all columns, None for never."""
        k, passes = ready.problem.n_components, ready.options.limits.passes
        if not self.gathers or ready.options.tol == 0:
            return None
        if ready.matrices:
            return AllColumns(cast(MatrixCovariance, ready.cov))
        enough = probe > 0 or (ready.preconditioner.is_complete and (passes is None or passes >= ROOM))
        return (
            all_columns_for(cast(RowCovariance, ready.cov), ready.views, k, ready.seconds) if enough else None
        )

    def cost(self, views: Views, k: int, rates: Rates) -> Cost:
        """Return the expected cost: one pass an iteration, and those for the start and a probe."""
        part, full = thin(views, k, rates), is_full(views)
        memory = thin_memory(views, part.width, DOUBLES)
        memory += int(head_memory(self.head(views, Options(self.name), matrices=False)))
        passes, matrices = EXPECTED[full], matrices_needed(views)
        if matrices <= budget():
            passes, memory = OF_FEW if full else passes, max(memory, matrices)
        return Cost(self.name, float(passes), AS_LONG[full] * (part.one + part.algebra), memory)

    def shortfalls(self, outcome: Outcome) -> list[str]:
        """Return warnings about misleading residuals, a run that stalls, or one that ended on a budget."""
        unsure = bool(np.any(np.isnan(outcome.solution.error_bounds)))
        found = []
        if unsure and outcome.progress.stopped == "converged" and is_dependent(outcome.solution):
            found.append(
                "lobpcg: the components are differences of columns that nearly depend on each other. "
                "Residuals, which are estimates, may understate the error: check with solver='qr', or use a "
                "ridge"
            )
        found += lost_in_rounding(outcome) + contradicted(outcome) + stalled(outcome)
        # One remark is enough. A run cut off says so; the others are of one that seems to have converged.
        short = out_of_budget(outcome, by_residual=True) or unprobed(outcome)
        return found + (short or crowded(outcome) or slow(outcome) or unlooked(outcome))


def suffices_single(views: Views, cov: Covariance) -> bool:
    """True if the first iterations may run in single precision: float32 halves the work on sparse rows.

    Dense rows, unless stored as float32, would be converted in every pass without gain. False also if
    rounding of the means would matter.
    """
    useful = not is_full(views) or views.dtype == np.float32
    if not useful or working_dtype(cov.moments, np.dtype(np.float32)) != np.float32:
        return False
    means, variances = (np.concatenate(parts) for parts in zip(*cov.moments.views, strict=True))
    return bool(np.all(np.abs(means) <= np.sqrt(1e3 * variances), where=variances > 0) and np.any(variances))


SOLVER = LOBPCGSolver()
