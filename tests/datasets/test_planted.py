"""Planted problems: the correlations and the columns that were asked for."""

import numpy as np
import pytest

from appgrad import CCA
from appgrad.datasets import sparse_planted


def test_planted_sparse_problems():
    p = sparse_planted(4000, 30, 20, correlations=[0.9, 0.5], n_active=4, random_state=0)
    U, V = p.X @ p.x_weights, p.y @ p.y_weights
    np.testing.assert_allclose(U.T @ U / 4000, np.eye(2), atol=0.1)
    np.testing.assert_allclose(V.T @ V / 4000, np.eye(2), atol=0.1)
    np.testing.assert_allclose(U.T @ V / 4000, np.diag([0.9, 0.5]), atol=0.1)
    np.testing.assert_allclose(np.corrcoef(p.y.T)[3, 4], 0.6, atol=0.1)
    np.testing.assert_allclose(CCA(3).fit(p.X, p.y).canonical_correlations_, [0.9, 0.5, 0.1], atol=0.1)
    for params, message in (
        ({"correlations": [0.5, 0.9]}, "largest first"),
        ({"shared": False}, "autocorrelation=0"),
        ({"n_features_x": 5}, "do not fit"),
    ):
        with pytest.raises(ValueError, match=message):
            sparse_planted(**params)
