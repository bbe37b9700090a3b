"""The head of two views: which columns it takes, their covariances, and the inverse of all together."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context

from appgrad.covariance.heads import columns_of, counting, coupling, head_of, joint, sizes_of
from appgrad.covariance.preconditioners import jacobi
from helpers import operator
from naive import covariances


@pytest.fixture(params=["sparse", "dense", "far from zero"])
def views(request, rng):
    """Sparse rows with columns of many frequencies; dense ones; or with a column that is never zero."""
    n, shares = 3000, np.geomspace(0.5, 0.01, 30)
    X = (rng.random((n, 30)) < shares) * rng.integers(1, 4, (n, 30)).astype(float)
    Y = np.where(rng.random((n, 20)) < 0.7, X[:, :20], rng.random((n, 20)) < shares[:20])
    if request.param == "far from zero":
        X[:, 3] = 1e6 + rng.standard_normal(n)
    if request.param == "dense":
        return X, Y
    return sp.csr_array(X), sp.csr_array(Y)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_covariances_of_the_head_are_those_of_its_columns(views, ridge):
    X, Y = views
    x, y = np.array([0, 3, 7, 20]), np.array([1, 3, 9])
    head = head_of(operator(X, Y, ridge=ridge), x, y)
    Sx, Sxy, Sy = covariances(*(np.asarray(sp.csr_array(Z).toarray()) for Z in views))
    found, d = head.cov.matrices, np.split(head.d, [4])
    expected = Sx[np.ix_(x, x)] + ridge * np.eye(4), Sxy[np.ix_(x, y)], Sy[np.ix_(y, y)] + ridge * np.eye(3)
    for S, T, left, right in zip(found, expected, (d[0], d[0], d[1]), (d[0], d[1], d[1]), strict=True):
        np.testing.assert_allclose(S, left[:, None] * T * right, atol=1e-7)
    np.testing.assert_allclose(np.diag(found.Sx), 1, atol=1e-7)


def test_the_joint_inverse_knows_how_the_views_go_together(views, rng):
    X, Y = views
    cov = operator(X, Y, ridge=0.1)
    x, y = np.array([0, 3, 7]), np.array([1, 3])
    J = joint(head_of(cov, x, y), coupling=0.9)
    Sx, Sxy, Sy = covariances(*(np.asarray(sp.csr_array(Z).toarray()) for Z in views))
    cross = -0.9 * Sxy[np.ix_(x, y)]
    K = np.block([[Sx[np.ix_(x, x)] + 0.1 * np.eye(3), cross], [cross.T, Sy[np.ix_(y, y)] + 0.1 * np.eye(2)]])
    rx, ry = rng.standard_normal((30, 4)), rng.standard_normal((20, 4))
    expected = np.linalg.solve(K, np.vstack([rx[x], ry[y]]))
    zx, zy = jacobi(cov)(rx, ry)
    before = np.sum(rx * zx, axis=0) + np.sum(ry * zy, axis=0)
    elsewhere = np.delete(zx, x, axis=0)
    more = J.solve(zx, zy)
    np.testing.assert_allclose(np.vstack([zx[x], zy[y]]), expected, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(np.delete(zx, x, axis=0), elsewhere)
    np.testing.assert_allclose(before + more, np.sum(rx * zx, axis=0) + np.sum(ry * zy, axis=0), rtol=1e-4)


def test_columns_that_coincide_leave_a_factor(rng):
    """Correlations of 1 and equal columns make the matrix singular: its diagonal is shifted."""
    Z = sp.csr_array((rng.random((500, 8)) < 0.2).astype(float))
    twice = sp.hstack([Z, Z], format="csr")
    J = joint(head_of(operator(twice, twice, ridge=0.0), np.arange(16), np.arange(16)), coupling=1.0)
    zx, zy = (np.ones((16, 2)) for _ in "xy")
    J.solve(zx, zy)
    assert np.all(np.isfinite(zx))
    assert np.all(np.isfinite(zy))


def test_coupling_tells_how_strongly_columns_are_correlated(rng):
    n = 5000
    X, Y = (sp.csr_array((rng.random((n, p)) < 0.1) * 1.0) for p in (40, 30))
    Y = Y.tolil()
    Y[:, [5]] = 3 * X[:, [7]]
    none = np.zeros(0, int)
    x, y = coupling(operator(1e3 * X, sp.csr_array(Y)), none, none)
    r = np.abs(np.corrcoef(X.toarray().T, Y.toarray().T))[:40, 40:]
    np.testing.assert_allclose(x, r.max(axis=1), atol=1e-6)
    np.testing.assert_allclose(y, r.max(axis=0), atol=1e-6)
    assert (np.argmax(x), np.argmax(y)) == (7, 5)
    # A partner that the ridge shrinks counts less.
    _, shrunk = coupling(operator(X, sp.csr_array(Y), ridge=0.05), none, none)
    assert shrunk[5] < 0.1
    # Columns of the head are partners, and have no strength of their own.
    x, y = coupling(operator(1e3 * X, sp.csr_array(Y)), np.array([7, 9]), np.array([2]))
    assert x[7] == x[9] == y[2] == 0
    assert np.argmax(y) == 5
    np.testing.assert_allclose(np.delete(y, 2), np.delete(r.max(axis=0), 2), atol=1e-6)
    np.testing.assert_allclose(np.delete(x, [7, 9]), np.delete(r.max(axis=1), [7, 9]), atol=1e-6)


def test_coupling_is_unknown_where_its_sums_may_not_fit(rng):
    cov = operator(*(sp.csr_array((rng.random((2000, 300)) < 0.1) * 1.0) for _ in "xy"))
    with config_context(working_memory=1):
        assert coupling(cov, np.zeros(0, int), np.zeros(0, int)) == (None, None)


def test_a_head_has_the_largest_variances_and_the_strongest_coupling():
    variances, strengths = np.array([5.0, 4, 3, 2, 1, 0]), np.array([0.0, 0, 1, 0, 9, 10])
    np.testing.assert_array_equal(columns_of(variances, None, 3, 0.5), [0, 1, 2])
    np.testing.assert_array_equal(columns_of(variances, strengths, 3, 0.5), [0, 1, 4])
    np.testing.assert_array_equal(columns_of(variances, strengths, 3, 0.0), [0, 1, 2])
    # Constant columns are left out.
    np.testing.assert_array_equal(columns_of(variances, strengths, 9, 0.5), np.arange(5))


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
