import os
from pathlib import Path

import numpy as np
import pytest

# Hypothesis keeps examples of failures; timing on shared machines is no property of the code.
from hypothesis import settings

from appgrad.datasets import planted

settings.register_profile("house", deadline=None, max_examples=30, derandomize=True)
settings.load_profile("house")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def data_folder():
    folder = os.environ.get("APPGRAD_DATA")
    if not folder:
        pytest.skip("real data: set APPGRAD_DATA to the folder that holds them")
    if not Path(folder).is_dir():
        pytest.fail(f"APPGRAD_DATA={folder} is not a folder")
    return Path(folder)


@pytest.fixture(scope="session")
def long():
    """Rows for a stream that does not fit into memory."""
    p = planted(40000, 60, 50, [0.9, 0.8, 0.7], condition=20, random_state=0)
    return p.X, p.y
