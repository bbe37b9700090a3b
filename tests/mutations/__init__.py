"""List of mistakes that a change of the code might make, each with a test that notices it; see mutate.py."""

from . import above_solvers, below_solvers, solvers
from .mutation import Mutation

MUTATIONS: list[Mutation] = [*below_solvers.MUTATIONS, *solvers.MUTATIONS, *above_solvers.MUTATIONS]
