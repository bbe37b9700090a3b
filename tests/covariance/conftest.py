"""Views whose columns have many frequencies."""

import numpy as np
import pytest
import scipy.sparse as sp


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
