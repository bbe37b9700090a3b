import pytest

from appgrad.datasets import planted


@pytest.fixture(scope="module")
def data():
    p = planted(300, 6, 6, [0.9, 0.6, 0.3], random_state=0)
    return p.X, p.y
