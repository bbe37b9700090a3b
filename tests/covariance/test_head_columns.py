"""Which columns are in a head."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context

from appgrad.covariance.build import on_rows
from appgrad.covariance.head_columns import columns_of, counting, orders, sizes_of, strengths
from appgrad.data.arrays import ArrayViews
from helpers import operator


def test_coupling_tells_how_strongly_columns_are_correlated(rng):
    n = 5000
    X, Y = (sp.csr_array((rng.random((n, p)) < 0.1) * 1.0) for p in (40, 30))
    Y = Y.tolil()
    Y[:, [5]] = 3 * X[:, [7]]
    none = np.zeros(0, int)
    x, y = strengths(operator(1e3 * X, sp.csr_array(Y)), none, none)
    r = np.abs(np.corrcoef(X.toarray().T, Y.toarray().T))[:40, 40:]
    np.testing.assert_allclose(x, r.max(axis=1), atol=1e-6)
    np.testing.assert_allclose(y, r.max(axis=0), atol=1e-6)
    assert (np.argmax(x), np.argmax(y)) == (7, 5)
    # A partner that the ridge shrinks counts less.
    _, shrunk = strengths(operator(X, sp.csr_array(Y), ridge=0.05), none, none)
    assert shrunk[5] < 0.1
    # Columns of the head are partners, and have no strength of their own.
    x, y = strengths(operator(1e3 * X, sp.csr_array(Y)), np.array([7, 9]), np.array([2]))
    assert x[7] == x[9] == y[2] == 0
    assert np.argmax(y) == 5
    np.testing.assert_allclose(np.delete(y, 2), np.delete(r.max(axis=0), 2), atol=1e-6)
    np.testing.assert_allclose(np.delete(x, [7, 9]), np.delete(r.max(axis=1), [7, 9]), atol=1e-6)


def test_coupling_is_unknown_where_its_sums_may_not_fit(rng):
    cov = operator(*(sp.csr_array((rng.random((2000, 300)) < 0.1) * 1.0) for _ in "xy"))
    with config_context(working_memory=1):
        assert strengths(cov, np.zeros(0, int), np.zeros(0, int)) == (None, None)


def test_one_long_row_does_not_fill_the_memory(rng):
    """On average rows are short: only the rows tell."""
    X = sp.lil_array((3000, 4000))
    X[np.arange(3000), rng.integers(0, 4000, 3000)] = 1.0
    X[17, :3500] = 1.0
    cov = operator(X.tocsr(), X.tocsr())
    with config_context(working_memory=30):
        assert strengths(cov, np.zeros(0, int), np.zeros(0, int)) == (None, None)


def test_a_head_has_the_largest_variances_and_the_strongest_coupling():
    order, coupled = np.array([4, 3, 2, 1, 0]), np.array([9.0, 0, 1, 0, 0])
    np.testing.assert_array_equal(columns_of(order, None, 3, 0.5), [2, 3, 4])
    np.testing.assert_array_equal(columns_of(order, coupled, 3, 0.5), [0, 3, 4])
    np.testing.assert_array_equal(columns_of(order, coupled, 3, 0.0), [2, 3, 4])
    np.testing.assert_array_equal(columns_of(order, coupled, 9, 0.5), np.arange(5))


@pytest.mark.parametrize("scale", [False, True])
def test_columns_are_ordered_by_variance_or_else_by_frequency(scale, rng):
    """Constant columns are left out."""
    shares = rng.permutation(np.geomspace(0.4, 0.01, 30))
    X = np.hstack([(rng.random((20000, 30)) < shares).astype(float), np.ones((20000, 2))])
    cov = on_rows(ArrayViews(sp.csr_array(X), X[:, :3]), center=True, scale=scale, ridge="auto")
    np.testing.assert_array_equal(orders(cov)[0], np.argsort(-X[:, :30].mean(axis=0)))


def test_rare_columns_count_where_the_ridge_is_small(rng):
    X = (rng.random((5000, 60)) < np.geomspace(0.5, 0.01, 60)).astype(float)
    assert counting(operator(X, X, ridge="auto"), 20)[0] == pytest.approx(1.0)
    assert 0 < counting(operator(X, X, ridge=1.0), 20)[0] < 0.02
    assert counting(operator(X, X, ridge=1.0), 60) == (0.0, 0.0)


def test_columns_go_to_the_view_that_the_ridge_shrinks_less(rng):
    Z = rng.standard_normal((1000, 100))
    even, much = operator(Z, Z, ridge="auto"), operator(Z, 100 * Z, ridge=1.0)
    assert sizes_of(even, 20) == (20, 20)
    x, y = sizes_of(much, 20)
    assert x + y == 40
    assert x == 15
    # A narrow view leaves its place to the other one.
    assert sizes_of(operator(Z[:, :5], Z, ridge="auto"), 20) == (5, 35)
    assert sizes_of(operator(Z, Z[:, :5], ridge=1.0), 20) == (35, 5)
