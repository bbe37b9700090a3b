"""The inverse of the coupled covariances of a head."""

import numpy as np
import scipy.sparse as sp

from appgrad.covariance.heads import head_of
from appgrad.covariance.joint import joint
from appgrad.covariance.preconditioners import jacobi
from helpers import operator
from naive import covariances


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
