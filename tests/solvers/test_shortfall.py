"""What a solver says of a run that fell short, one remark at a time."""

import numpy as np
import pytest

from appgrad import CCA
from appgrad.datasets import planted
from appgrad.solvers.problem import Progress
from appgrad.solvers.protocol import Options, Outcome
from appgrad.solvers.shortfall import contradicted, crowded, slow, unlooked


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
        (1e-2, np.nan, None),
        (5e-2, np.nan, "up to 0.05, say that 0.002 of the correlation is missing"),
        (1e-3, 0.1, "say that 0.008 of the correlation is missing"),
        (1e-3, 0.02, None),
    ],
)
def test_a_result_that_contradicts_its_run(solution, residual, bound, words):
    changes = {"residuals": np.array([residual, 1e-6]), "error_bounds": np.array([bound, 1e-9])}
    found = contradicted(ended(solution, **changes))
    assert [words in text for text in found] == ([] if words is None else [True])
    assert not contradicted(ended(solution, "iterations", **changes))


@pytest.mark.parametrize(
    ("count", "least", "tol", "warned"),
    [
        (48, 0.6, 1e-4, False),
        (49, 0.6, 1e-4, True),
        (90, 0.6, 1e-8, False),
        (32, 0.95, 1e-4, False),
        (33, 0.95, 1e-4, True),
        (900, 0.95, 0.0, False),
    ],
)
def test_a_slow_run_says_that_a_pair_may_come_late(solution, count, least, tol, warned):
    outcome = ended(solution, correlations=np.array([0.96, least]), crowded=False)
    outcome = outcome._replace(
        progress=outcome.progress._replace(iteration=count), options=Options("lobpcg", tol=tol)
    )
    assert bool(slow(outcome)) == warned
    assert not slow(outcome._replace(progress=outcome.progress._replace(stopped="callback")))
    # Where rows are not sparse, there is no look at clusters, and nothing is known of crowds.
    elsewhere = outcome._replace(solution=outcome.solution._replace(crowded=None))
    assert bool(slow(elsewhere)) == (warned and count > 48)


@pytest.mark.parametrize(
    ("rho", "said"),
    [((0.9, 0.6), True), ((0.99995, 0.9999), False), ((0.9995, 0.9995), True), ((1, 0.998), True)],
)
def test_a_crowd_is_mentioned_where_it_leaves_something_to_miss(solution, rho, said):
    found = crowded(ended(solution, crowded=True, correlations=np.array(rho)))
    assert ["better pairs may be missing" in text for text in found] == [True] * said
    assert not crowded(ended(solution, correlations=np.array(rho)))
    assert not crowded(ended(solution, "stalled", crowded=True, correlations=np.array(rho)))


@pytest.mark.parametrize(
    ("rho", "outside", "said"),
    [
        ((0.999, 0.997), 0.9956, True),
        ((0.999, 0.997), 0.9954, False),
        ((0.999, 0.997), np.nan, True),
        ((0.999, 0.997), 0.0, False),
        ((0.95, 0.91), 0.9, True),
        ((0.95, 0.89), 0.89, False),
        ((0.99995, 0.9999), 0.9999, False),
        ((0.9995, 0.9995), 0.9995, True),
    ],
)
def test_a_crowd_that_was_not_looked_at_is_mentioned(solution, rho, outside, said):
    changes = {"correlations": np.array(rho), "outside": outside}
    found = unlooked(ended(solution, **changes))
    assert ["no look at all columns" in text for text in found] == [True] * said
    assert bool(unlooked(ended(solution, "passes", **changes))) == said
    assert not unlooked(ended(solution, "callback", **changes))
