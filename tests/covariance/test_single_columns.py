"""Single columns as the start of pairs: which are chosen, and what the ridge leaves of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad.covariance.single_columns import columns_alone, random_columns, shares_left
from helpers import operator


@pytest.fixture(scope="module")
def views():
    rng = np.random.default_rng(0)
    X, y = (sp.random_array((400, p), density=0.2, rng=rng, format="csr") for p in (30, 20))
    # A constant column.
    X = sp.csr_array(X.multiply(np.arange(30) != 7))
    X.eliminate_zeros()
    return X, y


def test_columns_outside_of_those_known_are_chosen(views):
    cov, rng = operator(*views, ridge=1e-3), np.random.default_rng(0)
    known = np.arange(5), np.arange(15)
    x, y = random_columns(cov, known, 12, 0.99, rng)
    assert len(set(x)) == 12
    assert not set(x) & {*known[0], 7}
    # Where there are not as many, some of those known have to do.
    assert set(range(15, 20)) < set(y)
    assert len(set(y)) == 12
    assert set(random_columns(cov, known, 100, 0.99, rng)[0]) == set(range(30)) - {7}


def test_columns_that_the_ridge_leaves_enough_are_preferred(views):
    cov = operator(*views, ridge=1e-1)
    none, left = np.zeros(0, int), shares_left(cov)[1]
    most, least = np.argsort(-left)[:4], np.sqrt(np.sort(left)[-4])
    found = [
        tuple(sorted(random_columns(cov, (none, none), 3, least, np.random.default_rng(seed))[1]))
        for seed in range(20)
    ]
    assert len(set(found)) > 1
    assert set(np.concatenate(found)) == set(most)


def test_one_weight_for_each_column(views):
    cov = operator(*views, ridge=1e-1)
    A = columns_alone(np.array([3, 5]), cov.diagonal()[0])
    assert np.count_nonzero(A) == 2
    np.testing.assert_allclose(np.diag(A.T @ cov.squares(A, A[:20])[0]), 1)
