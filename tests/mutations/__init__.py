"""List of mistakes that a change of the code might make, each with a test that notices it; see mutate.py."""

from . import above_solvers, below_solvers, inference, solvers, starts_and_ends
from .mutation import Mutation

MUTATIONS: list[Mutation] = [
    *below_solvers.MUTATIONS,
    *solvers.MUTATIONS,
    *starts_and_ends.MUTATIONS,
    *inference.MUTATIONS,
    *above_solvers.MUTATIONS,
]
