"""Which solver is taken where none is asked for, and why."""

from __future__ import annotations

from typing import NamedTuple, cast

from ..data.views import Views
from ..machine.memory import budget, size
from ..solvers import registry
from ..solvers.costs import NOMINAL, Cost, Rates, gram_memory
from ..solvers.problem import Problem
from ..solvers.protocol import DirectSolver, Options
from ..solvers.sparse.solver import PursuitSolver

# How many times as long as expected LOBPCG may take: passes over full rows were 24 to 191 where 41 are
# expected (benchmarks/cost_growth.py). Covariances take one pass, and leave no error but rounding.
UNSURE = 5
ASKED = "asked for"


class Choice(NamedTuple):
    """The solver taken and one sentence why."""

    solver: str
    reason: str


def choice_of(views: Views, problem: Problem, options: Options) -> Choice:
    """The solver asked for, or the one that suits these data."""
    if options.solver != registry.AUTO:
        return Choice(options.solver, ASKED)
    if problem.on_gram:
        return _chosen_for_gram(views, problem)
    if options.sparsity is not None:
        return Choice(registry.FEW_COLUMNS, PursuitSolver.because)
    return chosen(views, costs(views, problem.n_components))


def costs(views: Views, k: int, rates: Rates = NOMINAL) -> dict[str, Cost]:
    """The expected cost of k components by each solver of linear problems."""
    _, *names = registry.names(registry.LINEAR)
    return {name: registry.solver(name).cost(views, k, rates) for name in names}


def direct_solver(name: str) -> DirectSolver:
    """The direct solver of this name."""
    return cast(DirectSolver, registry.solver(name))


def _chosen_for_gram(views: Views, problem: Problem) -> Choice:
    """Gram matrices and their factors where these fit into the memory budget, else thin products."""
    need, what = gram_memory(views), direct_solver(registry.DIRECT).matrices(views, problem)
    if need <= budget():
        return Choice(registry.DIRECT, f"{what} and their factors fit into the memory budget")
    return Choice(
        registry.ITERATIVE,
        f"{what} and their factors would need {size(need)}, more than the budget of "
        f"{size(budget())} (scikit-learn's working_memory), so it iterates on thin products",
    )


def chosen(views: Views, expected: dict[str, Cost]) -> Choice:
    """Covariances where they fit into the memory budget, unless iterating is far cheaper; else LOBPCG."""
    # Matrices of linear problems do not depend on the number of components.
    problem = Problem(1)
    solver = direct_solver(registry.DIRECT)
    direct, iterative = expected[registry.DIRECT], expected[registry.ITERATIVE]
    need, limit = direct.memory, budget()
    if solver.successor is not None:
        # Should the covariances turn out to be ill-conditioned, it takes over.
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
