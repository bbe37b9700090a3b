"""Sparse CCA on the columns in play, as a solver."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import numpy as np

from ...covariance.operators import ColumnCovariance
from ...data.derived import CountedViews
from ...data.views import Views
from ...machine.memory import budget
from ..problem import Problem
from ..protocol import Options, Outcome, Run
from ..shortfall import lost_in_rounding, out_of_budget
from .batch import sparse_run, unit_steps, warm_start
from .columns_in_play import Taken
from .pursuit import Pursuit, State


class PursuitSolver:
    """Sparse CCA with thresholds worked out on the covariances of the columns in play."""

    name = "pursuit"
    records: ClassVar[dict[str, Any]] = {"pursuit-state/1": State, "pursuit-taken/1": Taken}

    def refuses(self, options: Options) -> str | None:
        """Return None: every kind of sparsity is accepted."""
        return None

    def require(self, views: Views, problem: Problem, options: Options) -> None:
        """Require nothing: it works on as many columns as the memory budget allows."""

    def prepare(
        self, views: CountedViews, problem: Problem, options: Options, rng: np.random.Generator, start: float
    ) -> Run:
        """Set up a run on all rows."""
        return sparse_run(views, problem, options, partial(_pursuit, options=options, rng=rng))

    def shortfalls(self, outcome: Outcome) -> list[str]:
        """Return warnings about a run whose scores are lost in rounding, or that ended on a budget."""
        return lost_in_rounding(outcome, "use a larger ridge") + out_of_budget(outcome)


def _pursuit(cov: ColumnCovariance, k: int, options: Options, rng: np.random.Generator) -> Pursuit:
    """Return the algorithm; the matrices of its columns in play take a part of the memory budget at most."""
    assert options.sparsity is not None
    most, p = int(np.sqrt(budget() / 128)), max(cov.units.widths)
    step = unit_steps(cov, rng) if p > most else (1.0, 1.0)
    return Pursuit(k, options.sparsity, options.tol, most, step, warm_start(cov, options))


SOLVER = PursuitSolver()
