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
from .steps import Sketch, Steps
from .sums import Statistics, Sums


class Stream(NamedTuple):
    """A stream as a file holds it."""

    problem: Problem
    options: Options
    kept: Sums | Steps


def stream_for(
    rows: Views, problem: Problem, options: Options, rng: np.random.Generator
) -> Statistics | Sketch:
    """Return a stream that begins with these rows; "auto" keeps sums if they fit into the budget."""
    if options.solver == registry.AUTO:
        kind = registry.SUMS if matrices_needed(rows) <= budget() else registry.STEPS
    else:
        kind = kept_by(options.solver)
    return KINDS[kind](problem, options, rng)


def kept_by(solver: str) -> str:
    """Return what a stream keeps for this solver; "auto" keeps sums as long as no rows are known."""
    if solver == registry.AUTO:
        return registry.SUMS
    kind = registry.SOLVERS[solver].stream
    assert kind is not None
    return kind


# Classes of streams, by what they keep.
KINDS: dict[str, type[Statistics] | type[Sketch]] = {registry.SUMS: Statistics, registry.STEPS: Sketch}
