"""Crowds of correlations below 1, in columns that a run's own start does not hold: found, or warned of."""

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import CCA
from appgrad.covariance.head_columns import outside, shares_left
from appgrad.solvers.lobpcg.algebra import measured
from appgrad.solvers.lobpcg.scouts import best_beside
from helpers import operator
from lobpcg_helpers import crowd, fitted

# Without scouts, each of these ended after 9 to 18 iterations with 0.0003 to 0.002 of the correlation
# missing, and did not say so.
CROWDS = [
    *(((8000, 600, 2, 10, 0.02, seed), 10, 1e-5) for seed in range(4)),
    *(((8000, 400, 3, 5, 0.05, seed), 4, 1e-6) for seed in range(3)),
]


@pytest.mark.parametrize(("data", "k", "ridge"), CROWDS)
def test_pairs_of_a_crowd_are_found_or_said_to_be_missing(data, k, ridge):
    X, y = crowd(*data)
    model, warned = fitted(X, y, k, ridge=ridge)
    best, rho = (
        CCA(k, solver="exact", ridge=ridge).fit(X, y).canonical_correlations_,
        model.canonical_correlations_,
    )
    missing, worst = 1 - rho.sum() / best.sum(), np.max(best - rho)
    assert warned or (missing <= 3e-4 and worst <= 1e-3)
    # All of them have missed five times as much, or more.
    assert missing <= 1e-3


def test_a_fit_says_why_it_cannot_be_sure():
    X, y = crowd(8000, 600, 2, 10, 0.02, 2)
    with pytest.warns(UserWarning, match="Columns chosen at random led to pairs as good as the last"):
        CCA(10, solver="lobpcg", ridge=1e-5, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    X, y = (sp.random_array((400, p), density=0.2, rng=rng, format="csr") for p in (30, 20))
    # A constant column.
    X = sp.csr_array(X.multiply(np.arange(30) != 7))
    X.eliminate_zeros()
    return X, y


def test_scouts_come_from_columns_outside_of_the_head(views):
    cov, rng = operator(*views, ridge=1e-3), np.random.default_rng(0)
    known = np.arange(5), np.arange(15)
    x, y = outside(cov, known, 12, 0.99, rng)
    assert len(set(x)) == 12
    assert not set(x) & {*known[0], 7}
    # Where there are not as many, some of those known have to do.
    assert set(range(15, 20)) < set(y)
    assert len(set(y)) == 12
    assert set(outside(cov, known, 100, 0.99, rng)[0]) == set(range(30)) - {7}


def test_scouts_come_first_from_columns_that_the_ridge_leaves_enough(views):
    cov = operator(*views, ridge=1e-1)
    none, left = np.zeros(0, int), shares_left(cov)[1]
    most = np.argsort(-left)
    found = {
        tuple(sorted(outside(cov, (none, none), 3, np.sqrt(left[most[3]]), np.random.default_rng(seed))[1]))
        for seed in range(20)
    }
    assert len(found) > 1
    assert set(np.concatenate(list(found))) == set(most[:4])


def test_what_known_pairs_explain_does_not_count(views):
    cov, rng = operator(*views, ridge=1e-3), np.random.default_rng(1)
    best = CCA(4, solver="exact", ridge=1e-3).fit(*views)
    A, B = best.x_weights_, best.y_weights_
    A, B = (W / np.sqrt(np.sum(W * S, axis=0)) for W, S in zip((A, B), cov.squares(A, B), strict=True))
    known = measured(cov, A[:, :3], B[:, :3])
    grown = measured(cov, A @ rng.standard_normal((4, 4)), B @ rng.standard_normal((4, 4)))
    assert best_beside(grown, known) == pytest.approx(best.canonical_correlations_[3], rel=1e-6)
    assert best_beside(known, known) == 0.0
