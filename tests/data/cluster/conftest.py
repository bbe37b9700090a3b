import gc
import json
import subprocess
import sys
import time

import pytest

from appgrad.data.cluster import views as cluster_module
from appgrad.datasets import planted


@pytest.fixture(autouse=True)
def _nothing_left(_sockets_collected):
    """Leave no sockets of a test to the next one."""


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes of one thread each; tests that kill them have `doomed`."""
    from dask_helpers import workers

    with workers(2) as found:
        yield found
    gc.collect()


@pytest.fixture
def client(cluster):
    from distributed import Client

    from dask_helpers import PATIENCE

    cluster.scheduler.allowed_failures = 3
    with Client(cluster) as found:
        found.wait_for_workers(2, timeout=PATIENCE)
        yield found


@pytest.fixture
def doomed(monkeypatch):
    """A client of two workers that a test may kill: nobody else waits until they are back."""
    from distributed import Client

    from dask_helpers import PATIENCE, dask_module, workers

    # A fit waits for new workers, if all are gone, as long as a busy machine needs to start them.
    monkeypatch.setattr(dask_module, "PATIENCE", PATIENCE)
    # And looks for lost workers more often, so that tests wait less.
    monkeypatch.setattr(dask_module, "LOOK", 2)
    with workers(2) as found, Client(found) as client:
        found.scheduler.allowed_failures = 3
        client.wait_for_workers(2, timeout=PATIENCE)
        yield client


@pytest.fixture
def streamed(monkeypatch):
    """No memory to keep rows in: they are read in every pass."""
    monkeypatch.setattr(cluster_module, "KEPT_SHARE", 0.0)


@pytest.fixture(scope="module")
def problem():
    p = planted(600, 12, 9, [0.9, 0.7, 0.5], condition=5, random_state=0)
    return p.X + 3, p.y - 1


@pytest.fixture(scope="module")
def slow():
    """A problem that takes iterative solvers a while."""
    p = planted(2000, 60, 50, [0.9, 0.85, 0.8, 0.7, 0.6], condition=30, random_state=0)
    return p.X, p.y


SERVICES = {"scheduler": "distributed.cli.dask_scheduler", "worker": "distributed.cli.dask_worker"}


def start(kind, *arguments):
    return subprocess.Popen(
        [sys.executable, "-m", SERVICES[kind], *map(str, arguments), "--no-dashboard"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.fixture
def own_cluster(tmp_path):
    """Scheduler and workers as processes of their own, for those who kill them; call for another one."""
    running = []

    def started(name, *more):
        file = tmp_path / f"{name}.json"
        running.append(start("scheduler", "--port", 0, "--scheduler-file", file))
        scheduler = running[-1]
        running.append(
            start("worker", "--scheduler-file", file, *(more or ("--nworkers", 2)), "--nthreads", 1)
        )
        while scheduler.poll() is None:
            try:
                return scheduler, json.loads(file.read_text())["address"]
            except (OSError, ValueError):
                time.sleep(0.1)
        raise RuntimeError("the scheduler has not started")

    yield started
    for process in running:
        process.kill()
        process.wait()
