"""Choose a solver where none is asked for, and say why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from ..data.views import Views
from ..machine.memory import budget
from ..machine.readable import size
from ..solvers import registry
from ..solvers.costs import NOMINAL, Cost, Rates, is_wide
from ..solvers.problem import Problem
from ..solvers.protocol import DirectSolver, LinearSolver, Options

# LOBPCG may take this many times as long as expected: passes over full rows were 24 to 191 where 41 are
# expected (benchmarks/cost_growth.py). Covariances take one pass, and their only error is rounding.
UNSURE = 5
ASKED = "asked for"
ON_FEW_COLUMNS = "components are sparse: thresholds are worked out on the columns in play"


class Choice(NamedTuple):
    """The chosen solver and one sentence why."""

    solver: str
    reason: str


def choice_of(views: Views, problem: Problem, options: Options) -> Choice:
    """Return the solver asked for, or the one that suits these data."""
    if options.solver != registry.AUTO:
        return Choice(options.solver, ASKED)
    if options.sparsity is not None:
        return Choice(registry.FEW_COLUMNS, ON_FEW_COLUMNS)
    if problem.kind == registry.LINEAR:
        return chosen(views, costs(views, problem.n_components, names=(registry.DIRECT, registry.ITERATIVE)))
    solver = direct_solver(registry.DIRECT, problem.kind)
    fits = f"{solver.matrices(views)} and their factors fit into the memory budget"
    return _too_large(views, solver) or Choice(registry.DIRECT, fits)


def costs(
    views: Views, k: int, rates: Rates = NOMINAL, names: Sequence[str] | None = None
) -> dict[str, Cost]:
    """The expected cost of k components by each of these solvers, by default all of linear problems."""
    names = registry.names(registry.LINEAR)[1:] if names is None else names
    return {name: cast(LinearSolver, registry.solver(name)).cost(views, k, rates) for name in names}


def direct_solver(name: str, kind: str = registry.LINEAR) -> DirectSolver:
    """The direct solver of this name, for this kind of problem."""
    return cast(DirectSolver, registry.solver(name, kind))


def chosen(views: Views, expected: dict[str, Cost]) -> Choice:
    """Choose covariances if they fit into the memory budget and iterating is not far cheaper, else LOBPCG."""
    solver = direct_solver(registry.DIRECT)
    too_large = _too_large(views, solver)
    if too_large is not None:
        return too_large
    direct, iterative = expected[registry.DIRECT], expected[registry.ITERATIVE]
    what = solver.matrices(views)
    if direct.seconds > UNSURE * iterative.seconds:
        return Choice(
            registry.ITERATIVE,
            f"some {iterative.passes:.0f} passes with thin products are expected to take "
            f"{iterative.seconds / direct.seconds:.2g} of the time of {what}",
        )
    if is_wide(views):
        return Choice(registry.DIRECT, f"there are more columns than rows, so it works on {what}")
    less = "is expected to take less time than iterating"
    if direct.seconds > iterative.seconds:
        less = "leaves no error but rounding"
    need = size(max(one.memory(views) for one in _with_successor(solver)))
    return Choice(registry.DIRECT, f"{what} fit into the memory budget ({need}), and one pass {less}")


def _too_large(views: Views, solver: DirectSolver) -> Choice | None:
    """Thin products if the matrices of a direct solver do not fit into the memory budget, None if they do."""
    largest, limit = max(_with_successor(solver), key=lambda one: one.memory(views)), budget()
    need = largest.memory(views)
    if need <= limit:
        return None
    return Choice(
        registry.ITERATIVE,
        f"{largest.matrices(views)} and their factors would need {size(need)}, more than the budget of "
        f"{size(limit)} (scikit-learn's working_memory), so it iterates on thin products",
    )


def _with_successor(solver: DirectSolver) -> list[DirectSolver]:
    """A direct solver, and the one that may have to take over."""
    return [solver] if solver.successor is None else [solver, direct_solver(solver.successor)]
