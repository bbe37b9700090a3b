import numpy as np
import pytest
import scipy.sparse as sp

from appgrad.datasets import planted


@pytest.fixture(scope="module")
def data():
    p = planted(2000, 40, 30, [0.95, 0.9, 0.7, 0.5, 0.3], condition=30, random_state=0)
    return p.X, p.y


@pytest.fixture(scope="module")
def words():
    """Indicators of words and of words near them, the rare ones in single rows."""
    rng = np.random.default_rng(0)
    n, p = 20000, 400
    ids = np.minimum(rng.zipf(1.3, n), p) - 1
    near = np.where(rng.random(n) < 0.7, ids, np.minimum(rng.zipf(1.3, n), p) - 1)
    return tuple(sp.csr_array((np.ones(n), i, np.arange(n + 1)), shape=(n, p)) for i in (ids, near))
