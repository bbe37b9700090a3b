"""Lost workers, schedulers and clients of a cluster, and runs that go on afterwards."""

import logging
import os
import signal
import time

import numpy as np
import pytest

from appgrad import CCA
from appgrad.data.sources import as_views
from dask_helpers import MARKS, PATIENCE, chunked, da, dask_module, distributed
from helpers import fitted

pytestmark = MARKS


def test_data_that_are_lost_are_loaded_again(doomed, slow):
    """Everything on the cluster is gone at once."""
    data = chunked(*slow)
    expected = fitted(*data, solver="lobpcg")

    def restart(progress):
        if progress.iteration == 3:
            doomed.restart(timeout=PATIENCE)

    model = fitted(*data, solver="lobpcg", callback=restart)
    np.testing.assert_array_equal(model.x_weights_, expected.x_weights_)


def test_groups_are_recorded_and_taken_over(client, slow, tmp_path):
    path = tmp_path / "run.ckpt"
    params = {"solver": "lobpcg", "checkpoint": (path, 0), "tol": 1e-9}
    full = fitted(*chunked(*slow), solver="lobpcg", tol=1e-9)
    with pytest.raises(RuntimeError, match="enough"):
        fitted(*chunked(*slow), callback=_stop_at(5), **params)
    views = as_views(*chunked(*slow))
    views.regroup(1)
    model = fitted(views, None, **params)
    assert views.groups == 2
    assert model.resumed_from_iteration_ == 5
    np.testing.assert_array_equal(model.x_weights_, full.x_weights_)


def _stop_at(iteration):
    def stop(progress):
        if progress.iteration == iteration:
            raise RuntimeError("enough")

    return stop


@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("solver", ["lobpcg", "stochastic"])
def test_a_killed_worker_changes_nothing(doomed, slow, solver, victim):
    params = {"solver": solver, "max_passes": 20}
    data = chunked(*slow)
    expected = fitted(*data, **params)
    pids, iterations = list(doomed.run(os.getpid).values()), []

    def kill(progress):
        iterations.append(progress.iteration)
        if progress.iteration == 4:
            os.kill(pids[victim], signal.SIGKILL)

    model = fitted(*data, callback=kill, **params)
    assert iterations[-1] > 4
    np.testing.assert_array_equal(model.x_weights_, expected.x_weights_)


def test_streamed_rows_survive_a_killed_worker(doomed, streamed, slow):
    data = chunked(*slow)
    expected = fitted(*data, solver="lobpcg")
    before = list(doomed.run(os.getpid).values())

    def kill(progress):
        if progress.iteration == 3:
            os.kill(before[0], signal.SIGKILL)

    np.testing.assert_array_equal(
        fitted(*data, solver="lobpcg", callback=kill).x_weights_, expected.x_weights_
    )


def test_a_lost_scheduler_leaves_a_checkpoint_to_go_on_from(own_cluster, slow, tmp_path):
    scheduler, address = own_cluster("first")
    path = tmp_path / "run.ckpt"
    # Written at the end alone: what was reached is not lost for want of a write.
    params = {"solver": "lobpcg", "checkpoint": (path, 1e9), "tol": 1e-9}

    def kill(progress):
        if progress.iteration == 6:
            scheduler.send_signal(signal.SIGKILL)
            scheduler.wait()

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    data = chunked(*slow)
    client = distributed.Client(address)
    client.wait_for_workers(2, timeout=PATIENCE)
    # Seconds for which it looks for a lost scheduler: 30 would pass in vain.
    client._timeout = 2
    full = fitted(*data, solver="lobpcg", tol=1e-9)
    with pytest.raises(ConnectionError, match="scheduler is gone"):
        fitted(*data, callback=kill, **params)
    client.close(timeout=1)
    _, address = own_cluster("second")
    with distributed.Client(address) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
        model = fitted(*data, **params)
    assert model.resumed_from_iteration_ == 6
    np.testing.assert_array_equal(model.x_weights_, full.x_weights_)


@pytest.mark.parametrize("solver", ["lobpcg", "stochastic"])
def test_all_workers_killed_at_once_come_back(doomed, slow, solver):
    data = chunked(*slow)
    reference = fitted(*data, solver=solver, max_passes=20)
    pids = list(doomed.run(os.getpid).values())

    def kill(progress):
        if progress.iteration == 3:
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

    model = fitted(*data, solver=solver, max_passes=20, callback=kill)
    np.testing.assert_array_equal(model.x_weights_, reference.x_weights_)


def test_a_closed_client_is_said_and_leaves_a_checkpoint(cluster, slow, tmp_path):
    for solver in ("lobpcg", "stochastic"):
        path = tmp_path / solver
        with distributed.Client(cluster) as client, pytest.raises(ConnectionError, match="client was closed"):
            fitted(
                *chunked(*slow),
                solver=solver,
                checkpoint=(path, 1e9),
                callback=lambda progress, client=client: client.close() if progress.iteration == 3 else None,
            )
        assert path.exists()


def test_a_cluster_without_workers_is_not_waited_for_forever(own_cluster, slow, monkeypatch):
    _, address = own_cluster("lonely", "--no-nanny")
    with distributed.Client(address) as client:
        client.wait_for_workers(1, timeout=PATIENCE)
        pids = client.run(os.getpid).values()

        def kill(progress):
            monkeypatch.setattr(dask_module, "PATIENCE", 2)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

        with pytest.raises(ConnectionError, match="no workers for 2 s"):
            fitted(*chunked(*slow), solver="lobpcg", callback=kill)


def test_workers_killed_for_their_memory_say_what_would_fit(tmp_path):
    """A chunk that turns out larger than anyone could know."""

    def greedy(block):
        hold = [np.ones(10**6) for _ in range(200)]
        time.sleep(5)
        return block + 0 * hold[0][0]

    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, memory_limit="700MB", dashboard_address=":0", silence_logs=60
        ) as cluster,
        distributed.Client(cluster),
    ):
        cluster.scheduler.allowed_failures = 0
        x = da.ones((4000, 10), chunks=(1000, -1)) + da.arange(4000, chunks=1000)[:, None]
        with pytest.raises(MemoryError, match=r"take more memory than they may: .*rechunk\(\(500, -1\)\)"):
            CCA(1).fit(x.map_blocks(greedy, dtype=float, meta=np.empty((0, 0))), x)
