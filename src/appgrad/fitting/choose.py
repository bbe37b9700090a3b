"""Choose a solver where none is asked for, and say why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from ..data.views import Views
from ..machine.memory import budget
from ..machine.units import size
from ..solvers import registry
from ..solvers.costs import NOMINAL, Cost, Rates, gram_memory
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
    if problem.on_gram:
        return _chosen_for_gram(views, problem)
    if options.sparsity is not None:
        return Choice(registry.FEW_COLUMNS, SPARSE)
    return chosen(views, costs(views, problem.n_components, names=(registry.DIRECT, registry.ITERATIVE)))


def costs(
    views: Views, k: int, rates: Rates = NOMINAL, names: Sequence[str] | None = None
) -> dict[str, Cost]:
    """The expected cost of k components by each of these solvers, by default all of linear problems."""
    names = registry.names(registry.LINEAR)[1:] if names is None else names
    return {name: registry.solver(name).cost(views, k, rates) for name in names}


def direct_solver(name: str) -> DirectSolver:
    """The direct solver of this name."""
    return cast(DirectSolver, registry.solver(name))


def _chosen_for_gram(views: Views, problem: Problem) -> Choice:
    """Choose Gram matrices if they and their factors fit into the memory budget, else thin products."""
    need, what = gram_memory(views), direct_solver(registry.DIRECT).matrices(views, problem)
    if need <= budget():
        return Choice(registry.DIRECT, f"{what} and their factors fit into the memory budget")
    return Choice(
        registry.ITERATIVE,
        f"{what} and their factors would need {size(need)}, more than the budget of "
        f"{size(budget())} (scikit-learn's working_memory), so it iterates on thin products",
    )


def chosen(views: Views, expected: dict[str, Cost]) -> Choice:
    """Choose covariances if they fit into the memory budget and iterating is not far cheaper, else LOBPCG."""
    # Matrices of linear problems do not depend on the number of components.
    problem = Problem(1)
    solver = direct_solver(registry.DIRECT)
    direct, iterative = expected[registry.DIRECT], expected[registry.ITERATIVE]
    need, limit = direct.memory, budget()
    if solver.successor is not None:
        # The successor takes over if the covariances turn out to be ill-conditioned.
        need = max(need, direct_solver(solver.successor).memory(views, problem))
    what = solver.matrices(views, problem)
    if need > limit:
        return Choice(
            registry.ITERATIVE,
            f"{what} and their factors would need {size(need)}, more than the budget of {size(limit)} "
            "(scikit-learn's working_memory), so it iterates on thin products",
        )
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
    return Choice(registry.DIRECT, f"{what} fit into the memory budget ({size(need)}), and one pass {less}")
