import gc
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

# Hypothesis keeps examples of failures; timing on shared machines is no property of the code.
from hypothesis import settings
from threadpoolctl import threadpool_limits

from appgrad.datasets import planted

if "PYTEST_XDIST_WORKER_COUNT" in os.environ:
    # Workers share the cores: threads of BLAS beyond them spin, and tests take three times as long.
    share = max(1, (os.cpu_count() or 1) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"]))
    threadpool_limits(share)
    # Processes that tests start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(share))

# Folders have fixtures of their own; to look for examples in them would import two modules of one name.
collect_ignore_glob = ["*conftest.py"]

# A failed assertion of a contract shows its values, as those of test files do.
pytest.register_assert_rewrite("helpers", "views_contract")

settings.register_profile("house", deadline=None, max_examples=30, derandomize=True)
settings.load_profile("house")


class Clock:
    """A clock that stands still until it is told to go on: no test of time depends on the machine's load."""

    def __init__(self):
        self.now = 1000.0

    def go_on(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    """The clock that fits look at."""
    found = Clock()
    monkeypatch.setattr(time, "perf_counter", lambda: found.now)
    return found


@pytest.fixture(autouse=True)
def _figures_closed():
    """Close the figures of a test: from the twentieth on, matplotlib warns in a test that is not to blame."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture
def _sockets_collected():
    """Collect what Dask leaves behind here: a socket would be found, and be an error, in a later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


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
