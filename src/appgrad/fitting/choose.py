"""Choose a solver where none is asked for, and say why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from ..data.views import Views
from ..machine.memory import budget
from ..machine.units import size
from ..solvers import registry
from ..solvers.costs import NOMINAL, Cost, Rates
from ..solvers.problem import Problem
from ..solvers.protocol import DirectSolver, Options

# LOBPCG may take this many times as long as expected: passes over full rows were 24 to 191 where 41 are
# expected (benchmarks/cost_growth.py). Covariances take one pass, and their only error is rounding.
UNSURE = 5
ASKED = "asked for"
SPARSE = "components are sparse: thresholds are worked out on the columns in play"


class Choice(NamedTuple):
    """The chosen solver and one sentence why."""

    solver: str
    reason: str


def choice_of(views: Views, problem: Problem, options: Options) -> Choice:
    """Return the solver asked for, or the one that suits these data."""
    if options.solver != registry.AUTO:
        return Choice(options.solver, ASKED)
    if options.sparsity is not None:
        return Choice(registry.FEW_COLUMNS, SPARSE)
    if problem.kind == registry.LINEAR:
        return chosen(views, costs(views, problem.n_components, names=(registry.DIRECT, registry.ITERATIVE)))
    return _by_memory(views, direct_solver(registry.DIRECT, problem.kind))


def costs(
    views: Views, k: int, rates: Rates = NOMINAL, names: Sequence[str] | None = None
) -> dict[str, Cost]:
    """The expected cost of k components by each of these solvers, by default all of linear problems."""
    names = registry.names(registry.LINEAR)[1:] if names is None else names
    return {name: registry.solver(name).cost(views, k, rates) for name in names}


def direct_solver(name: str, kind: str = registry.LINEAR) -> DirectSolver:
    """The direct solver of this name, for this kind of problem."""
    return cast(DirectSolver, registry.solver(name, kind))


def _by_memory(views: Views, solver: DirectSolver) -> Choice:
    """Choose the direct solver if its matrices fit into the memory budget, else thin products."""
    need, what, limit = _bytes_needed(views, solver), solver.matrices(views), budget()
    if need <= limit:
        return Choice(registry.DIRECT, f"{what} and their factors fit into the memory budget")
    return Choice(
        registry.ITERATIVE,
        f"{what} and their factors would need {size(need)}, more than the budget of {size(limit)} "
        "(scikit-learn's working_memory), so it iterates on thin products",
    )


def _bytes_needed(views: Views, solver: DirectSolver) -> int:
    """The bytes of a direct solver and of its successor, which may have to take over."""
    need = solver.memory(views)
    return need if solver.successor is None else max(need, direct_solver(solver.successor).memory(views))


def chosen(views: Views, expected: dict[str, Cost]) -> Choice:
    """Choose covariances if they fit into the memory budget and iterating is not far cheaper, else LOBPCG."""
    solver = direct_solver(registry.DIRECT)
    by_memory = _by_memory(views, solver)
    if by_memory.solver != registry.DIRECT:
        return by_memory
    direct, iterative = expected[registry.DIRECT], expected[registry.ITERATIVE]
    what = solver.matrices(views)
    if direct.seconds > UNSURE * iterative.seconds:
        return Choice(
            registry.ITERATIVE,
            f"some {iterative.passes:.0f} passes with thin products are expected to take "
            f"{iterative.seconds / direct.seconds:.2g} of the time of {what}",
        )
    if max(views.n_features_x, views.n_features_y) > views.n_samples:
        return Choice(registry.DIRECT, f"there are more columns than rows, so it works on {what}")
    less = "is expected to take less time than iterating"
    if direct.seconds > iterative.seconds:
        less = "leaves no error but rounding"
    need = size(_bytes_needed(views, solver))
    return Choice(registry.DIRECT, f"{what} fit into the memory budget ({need}), and one pass {less}")
