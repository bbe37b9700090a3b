"""Single columns as the start of pairs, and what the ridge leaves of them."""

import numpy as np
import scipy.sparse as sp

from appgrad.covariance.single_columns import columns_alone, shares_left
from helpers import operator


def test_one_weight_for_each_column(rng):
    X, y = (sp.random_array((400, p), density=0.2, rng=rng, format="csr") for p in (30, 20))
    cov = operator(X, y, ridge=1e-1)
    A = columns_alone(np.array([3, 5]), cov.diagonal()[0])
    assert np.count_nonzero(A) == 2
    np.testing.assert_allclose(np.diag(A.T @ cov.squares(A, A[:20])[0]), 1)


def test_the_ridge_leaves_nothing_of_a_constant_column(rng):
    X, y = rng.standard_normal((50, 3)), rng.standard_normal((50, 2))
    X[:, 1] = 4.0
    left = shares_left(operator(X, y, ridge=0.5))[0]
    variances = X.var(axis=0)
    np.testing.assert_allclose(left, np.where(np.arange(3) == 1, 0, variances / (variances + 0.5)))
