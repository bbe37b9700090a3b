"""What a solver says of a run that fell short, one remark at a time."""

import numpy as np
import pytest

from appgrad import CCA
from appgrad.datasets import planted
from appgrad.solvers.problem import Progress
from appgrad.solvers.protocol import Options, Outcome
from appgrad.solvers.shortfall import contradicted


@pytest.fixture(scope="module")
def solution():
    p = planted(200, 5, 4, [0.9, 0.6], random_state=0)
    return CCA(2).fit(p.X, p.y)._fitted.fit.solution


def ended(solution, stopped="converged", **changes):
    """A run of lobpcg with tol=1e-4 that has ended with this solution, some parts of which are others."""
    progress = Progress(7, 8.0, 0.1, 0.0, 1.5, lambda: solution, stopped)
    return Outcome(progress, Options("lobpcg", tol=1e-4), 8.0, solution._replace(**changes))


@pytest.mark.parametrize(
    ("residual", "bound", "words"),
    [
        (1e-5, np.nan, None),
        (5e-4, np.nan, None),
        (5e-3, np.nan, "its result has residuals of up to 0.005"),
        (5e-4, 0.1, "correlations may be off by up to 0.1"),
        (5e-5, 0.1, None),
    ],
)
def test_a_result_that_contradicts_its_run(solution, residual, bound, words):
    changes = {"residuals": np.array([residual, 1e-6]), "error_bounds": np.array([bound, 1e-9])}
    found = contradicted(ended(solution, **changes))
    assert [words in text for text in found] == ([] if words is None else [True])
    assert not contradicted(ended(solution, "iterations", **changes))
