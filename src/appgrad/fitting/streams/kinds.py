"""What is kept of rows that keep coming, and which of the two ways is taken."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data.views import Views
from ...machine.memory import budget
from ...solvers import registry
from ...solvers.costs import matrices_needed
from ...solvers.problem import Problem
from ...solvers.protocol import Options
from .steps import Sketch, Steps
from .sums import Statistics, Sums


class Stream(NamedTuple):
    """What a file holds of a stream."""

    problem: Problem
    options: Options
    kept: Sums | Steps


def stream_for(
    rows: Views, problem: Problem, options: Options, rng: np.random.Generator
) -> Statistics | Sketch:
    """What keeps a stream whose first rows these are: second moments if they fit into the budget."""
    if options.solver == registry.AUTO:
        kind = registry.SUMS if matrices_needed(rows) <= budget() else registry.STEPS
    else:
        kind = kept_by(options.solver)
    return KINDS[kind](problem, options, rng)


def kept_by(solver: str) -> str:
    """What a stream keeps for this solver; "auto" keeps sums where there are no rows to tell otherwise."""
    if solver == registry.AUTO:
        return registry.SUMS
    kind = registry.SOLVERS[solver].stream
    assert kind is not None
    return kind


# What keeps a stream, by what it keeps.
KINDS: dict[str, type[Statistics] | type[Sketch]] = {registry.SUMS: Statistics, registry.STEPS: Sketch}
