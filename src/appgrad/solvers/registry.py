"""Solvers by name, a line each. Nothing heavy is imported before a solver is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from .protocol import KernelSolver, Solver

# Kinds of problems: covariances of columns, Gram matrices of kernels, components of few columns.
LINEAR, KERNEL, SPARSE = "linear", "kernel", "sparse"
# What a stream keeps: second moments of its rows, or the state of steps taken on them.
SUMS, STEPS = "sums", "steps"


class Entry(NamedTuple):
    """A solver: its module, what it does in one line, and the problems it solves.

    `module` is below `appgrad.solvers` and holds the solver as SOLVER. `stream` says what is kept of rows
    that come batch by batch, None if the solver needs all rows at a time.
    """

    module: str
    summary: str
    problems: tuple[str, ...]
    iterative: bool = True
    stream: str | None = None


SOLVERS: dict[str, Entry] = {
    "exact": Entry("exact", "covariances gathered in one pass", (LINEAR, KERNEL), False, SUMS),
    "qr": Entry("qr", "triangular factor of the data, for ill-conditioned ones", (LINEAR, KERNEL), False),
    "lobpcg": Entry("lobpcg.solver", "thin products, one pass an iteration, no step size", (LINEAR, KERNEL)),
    "als": Entry("als", "alternating least squares", (LINEAR, KERNEL)),
    "pursuit": Entry("sparse.solver", "sparse steps on the columns in play", (SPARSE,)),
    "appgrad": Entry("appgrad", "one gradient step a pass", (LINEAR, KERNEL, SPARSE)),
    "stochastic": Entry(
        "stochastic.solver", "one gradient step a minibatch", (LINEAR, KERNEL, SPARSE), stream=STEPS
    ),
}
AUTO = "auto"
# What "auto" chooses from.
DIRECT, ITERATIVE, FEW_COLUMNS = "exact", "lobpcg", "pursuit"
# What streams are solved by that do not fit into sums.
MINIBATCHES = "stochastic"


def solver(name: str, kind: str = LINEAR) -> Solver:
    """The solver of this name, in the form for this kind of problem."""
    found: Solver = import_module(f"{__package__}.{SOLVERS[name].module}").SOLVER
    return cast("KernelSolver", found).for_kernels() if kind == KERNEL else found


def names(kind: str) -> tuple[str, ...]:
    """Names of the solvers of a kind of problem, "auto" first."""
    return AUTO, *(name for name, entry in SOLVERS.items() if kind in entry.problems)


def is_iterative(name: str) -> bool:
    """True if a solver of this name works step by step."""
    return name in SOLVERS and SOLVERS[name].iterative


def streaming(*kept: str) -> tuple[str, ...]:
    """Names of the solvers of streams that keep one of these, by default sums or steps; "auto" first."""
    kinds = kept or (SUMS, STEPS)
    return AUTO, *(name for name, entry in SOLVERS.items() if entry.stream in kinds)
