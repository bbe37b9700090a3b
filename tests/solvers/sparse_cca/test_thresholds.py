"""Thresholds: soft, hard, and by number."""

import numpy as np

import naive
from appgrad.solvers.sparse.thresholds import Threshold


def test_thresholds():
    A = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [0.0, 1.0]])
    soft = Threshold("l1", 2.0, None)(A, 0.25)
    np.testing.assert_allclose(soft, naive.shrunk(A, 0.5))
    np.testing.assert_allclose(soft[1], 0)
    np.testing.assert_array_equal(Threshold("l0", 2.0, None)(A, 0.25), [[3, 4], [0, 0], [0, 0], [0, 1]])
    np.testing.assert_array_equal(Threshold("l0", None, 1)(A, 0.25), [[3, 4], [0, 0], [0, 0], [0, 0]])
    np.testing.assert_allclose(Threshold("l1", None, 1)(A, 0.25), naive.shrunk(A, 1.0))
    # Of equal rows the first; none of nothing.
    np.testing.assert_array_equal(Threshold("l0", None, 3)(np.eye(4)[:, :2], 1.0), np.eye(4)[:, :2])
    np.testing.assert_array_equal(Threshold("l0", None, 1)(np.ones((3, 1)), 1.0).ravel(), [1, 0, 0])
