"""The two kinds of streams, sums and steps, and the choice between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data.views import Views
from ...machine.memory import budget
from ...solvers import registry
from ...solvers.costs import matrices_needed
from ...solvers.problem import Problem
from ...solvers.protocol import Options
from .steps import Steps, StepStream
from .sums import Sums, SumStream


class Stream(NamedTuple):
    """A stream as a file holds it."""

    problem: Problem
    options: Options
    kept: Sums | Steps


def stream_for(
    rows: Views, problem: Problem, options: Options, rng: np.random.Generator
) -> SumStream | StepStream:
    """Return a stream that begins with these rows; "auto" keeps sums if they fit into the budget."""
    if options.solver == registry.AUTO:
        kind = registry.SUMS if matrices_needed(rows) <= budget() else registry.STEPS
    else:
        kind = kind_of(options.solver)
    return KINDS[kind](problem, options, rng)


def kept_by(solver: str) -> str | None:
    """What a stream keeps for this solver, None if the solver needs all rows at a time.

    "auto" keeps sums where there are no rows to tell otherwise.
    """
    return registry.SUMS if solver == registry.AUTO else registry.SOLVERS[solver].stream


def kind_of(solver: str) -> str:
    """Kind of stream of a solver; KeyError if it has none."""
    kind = registry.SOLVERS[solver].stream
    if kind is None:
        raise KeyError(solver)
    return kind


KINDS: dict[str, type[SumStream] | type[StepStream]] = {registry.SUMS: SumStream, registry.STEPS: StepStream}
