import pytest

from appgrad.datasets import planted
from helpers import RHO


@pytest.fixture(scope="module")
def data():
    p = planted(2000, 15, 12, RHO, condition=20, random_state=0)
    return p.X, p.y
