import numpy as np
import pytest


@pytest.fixture
def X(rng):
    return np.round(rng.standard_normal((30, 4)), 6)
