"""Views on a cluster: the contract, what is kept and sent, and the same sums on any worker."""

import logging
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from appgrad import CCA, open_views
from appgrad.data.cluster import protocol as cluster_base
from appgrad.data.cluster import views as cluster_module
from appgrad.data.derived import CountedViews
from appgrad.data.sources import as_views
from appgrad.data.views import Sweep
from appgrad.datasets import planted
from dask_helpers import MARKS, chunked, da, dask, difference, distributed, workers
from helpers import fitted
from views_contract import ViewsContract

pytestmark = MARKS


class TestKept(ViewsContract):
    @pytest.fixture(autouse=True)
    def _on_cluster(self, client):
        pass

    def make(self, X, Y, folder):
        return as_views(*chunked(X, Y, 10))


class TestStreamed(TestKept):
    @pytest.fixture(autouse=True)
    def _streamed(self, streamed):
        pass


class TestWithoutClient(ViewsContract):
    def make(self, X, Y, folder):
        return as_views(*chunked(X, Y, 10))


class TestFiles(TestKept):
    def make(self, X, Y, folder):
        np.save(folder / "x.npy", X)
        sp.save_npz(folder / "y.npz", sp.csr_array(Y))
        return open_views(folder / "x.npy", folder / "y.npz", client=distributed.default_client())


def test_what_two_views_share_is_computed_once(client, streamed, problem, tmp_path, monkeypatch):
    monkeypatch.setattr("appgrad.data.cluster.protocol.LOOKED_AT", 1)

    def read(i):
        with open(tmp_path / f"{i}-{os.urandom(4).hex()}", "w"):
            return np.hstack(problem)[100 * i : 100 * i + 100]

    both = da.concatenate(
        [da.from_delayed(dask.delayed(read)(i), (100, 21), dtype=float) for i in range(6)], axis=0
    )
    model = fitted(both[:, :12], both[:, 12:], solver="exact")
    assert difference(model, fitted(*problem)) < 1e-10
    # The first chunk of each view is looked at, then each is read once in both passes.
    assert len(list(tmp_path.iterdir())) == 2 + 6 + 6


@pytest.mark.parametrize("on_cluster", [True, False])
def test_what_all_chunks_need_is_computed_once(request, streamed, problem, tmp_path, monkeypatch, on_cluster):
    if on_cluster:
        request.getfixturevalue("client")
    monkeypatch.setattr("appgrad.data.cluster.protocol.LOOKED_AT", 1)

    def read(i):
        with open(tmp_path / f"{i}-{os.urandom(4).hex()}", "w"):
            return problem[0][100 * i : 100 * i + 100]

    x = da.concatenate([da.from_delayed(dask.delayed(read)(i), (100, 12), dtype=float) for i in range(6)])
    x, y = (x - x.mean(axis=0)) / x.std(axis=0), chunked(*problem, 100)[1]
    X = (problem[0] - problem[0].mean(axis=0)) / problem[0].std(axis=0)
    assert difference(fitted(x, y, solver="exact"), fitted(X, problem[1], solver="exact")) < 1e-10
    # For the mean and the deviation, for a look at one of them, and in the pass; not for every other one.
    assert len(list(tmp_path.iterdir())) <= 2 * 6 + 1 + 6


def test_many_groups_are_added_in_a_fixed_tree(problem):
    """Seven workers: relays, sums of sums, and groups that are more or fewer than workers."""
    with (
        workers(7, processes=False) as found,
        distributed.Client(found) as client,
    ):
        reference = fitted(*problem, solver="lobpcg")
        for groups in (7, 5, 11):
            weights = []
            for _ in range(2):
                views = as_views(*chunked(*problem))
                views.regroup(groups)
                assert views.groups == groups
                model = fitted(views, None, solver="lobpcg")
                assert difference(model, reference) < 1e-10
                weights.append(model.x_weights_)
            np.testing.assert_array_equal(*weights)
        client.retire_workers([views.pins[0], views.pins[3]])
        np.testing.assert_array_equal(fitted(views, None, solver="lobpcg").x_weights_, weights[0])


def test_sums_of_two_groups_leave_these_as_they_are():
    """Another worker may ask for them, when this one is lost."""

    def add(total, part):
        total[0] += part[0]
        return total

    work = cluster_module.Work(Sweep(len, add, None, 1), 1, int)
    a, b = [np.ones(3)], [np.ones(3)]
    np.testing.assert_array_equal(cluster_module._combined(work, a, b)[0], 2)
    np.testing.assert_array_equal(a[0], 1)


ONE_THREAD = """
import numpy as np, dask.array as da
from distributed import Client, LocalCluster
from appgrad.data.sources import as_views
from appgrad.machine.threads import blas_threads
import scipy.linalg
before = blas_threads()
x = da.ones((600, 3), chunks=(300, 3))
with LocalCluster(n_workers=2, threads_per_worker=2, processes=False, dashboard_address=":0") as c, Client(c):
    views = as_views(x, x)
    used = [views.reduce(lambda b: [blas_threads()], lambda a, b: a + b) for _ in range(5)]
print(set(sum(used, [])), blas_threads() == before)
"""


def test_sums_do_not_depend_on_who_else_is_at_work():
    """Two workers in one process: one thread of BLAS sums a block, also where a group is only one."""
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")}
    run = subprocess.run([sys.executable, "-c", ONE_THREAD], capture_output=True, text=True, env=environment)
    assert run.stdout.split() == ["{1}", "True"], run.stderr


def test_rows_count_once_when_a_pass_is_begun_anew(problem):
    """A cluster that loses a result after the first group has been counted."""

    class Forgetful(cluster_base.Here):
        def __init__(self):
            super().__init__()
            self.workers, self.losses = 3 * self.workers, 2

        def finished(self, futures):
            yield 0
            if self.losses:
                self.losses -= 1
                raise cluster_base.LostError("gone")
            yield from range(1, len(futures))

    views = as_views(*chunked(*problem))
    views.cluster = Forgetful()
    views.regroup(3)
    seen = []
    counted = CountedViews(views, seen.append)
    total = counted.sum(lambda block: (block.views[0].sum(axis=0),))[0]
    np.testing.assert_allclose(total, problem[0].sum(axis=0))
    assert counted.rows == 600


@pytest.mark.parametrize("shelf", [128, 24])
def test_minibatches_read_each_chunk_once_a_pass(client, streamed, tmp_path, monkeypatch, shelf):
    monkeypatch.setattr("appgrad.data.cluster.protocol.LOOKED_AT", 1)
    monkeypatch.setattr(cluster_module, "SHELF", shelf)
    monkeypatch.setattr("appgrad.covariance.preconditioners.WARM_UP_ROWS", 500)
    p = planted(4000, 5, 4, [0.9], random_state=0)

    def read(i):
        with open(tmp_path / f"{i}-{os.urandom(4).hex()}", "w"):
            return np.hstack([p.X, p.y])[100 * i : 100 * i + 100]

    both = da.concatenate(
        [da.from_delayed(dask.delayed(read)(i), (100, 9), dtype=float) for i in range(40)], axis=0
    )
    fitted(both[:, :5], both[:, 5:], k=1, solver="stochastic", max_passes=1, batch_size=20)
    counts = [sum(path.name.startswith(f"{i}-") for path in tmp_path.iterdir()) for i in range(40)]
    assert counts[0] == 3
    assert set(counts[1:]) == {1}


def test_minibatches_come_from_few_chunks_at_a_time(client, streamed, problem, monkeypatch):
    monkeypatch.setattr(cluster_module, "SHELF", 6)
    views = as_views(*chunked(*problem, 20))
    order = views.order(np.random.default_rng(0))
    assert sorted(order) == list(range(600))
    for start in range(0, 600, 60):
        assert len(set(order[start : start + 60] // 20)) == 3
    assert not np.array_equal(order, views.order(np.random.default_rng(1)))
    chosen = views.take(np.arange(10, 590, 3))
    assert sorted(chosen.order(np.random.default_rng(0))) == list(range(chosen.n_samples))


@pytest.mark.filterwarnings("ignore::appgrad.fitting.remarks.OverfitWarning")
def test_thin_matrices_go_over_the_network_once_for_each_worker(client):
    """Bytes that workers send in a pass: O(groups k p), however many chunks there are."""
    rng = np.random.default_rng(0)
    p, k = 6000, 10
    X, Y = (sp.random(3000, p, 0.01, format="csr", random_state=rng) for _ in range(2))
    sent = {}
    for chunks in (4, 60):
        x, y = (da.from_array(m, chunks=(3000 // chunks, -1), asarray=False) for m in (X, Y))
        views = as_views(x, y)
        assert views.groups == 2
        # Rows go to their groups once.
        views.sum(lambda block: (np.ones(1),))
        before, passes = _sent(client), []
        fitted(
            views,
            None,
            k=k,
            solver="lobpcg",
            max_iter=10,
            tol=0,
            preconditioner="jacobi",
            ridge=1e-3,
            oversampling=0,
            callback=lambda p, passes=passes: passes.append(p.passes),
        )
        sent[chunks] = (_sent(client) - before) / passes[-1]
    # Products of 2 p k numbers a group, in single precision, and operands of p k for the second worker.
    thin = 2 * p * k * 4
    assert abs(sent[4] - sent[60]) < 0.5 * thin
    assert sent[60] < 2 * (2 * thin) + 2 * thin


def _sent(client):
    """The workers' own counts of the bytes they have sent: the scheduler hears of them later."""
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def test_views_say_whether_rows_are_kept(client, problem, caplog):
    with caplog.at_level(logging.INFO, "appgrad"):
        CCA(1).fit(*chunked(*problem))
    assert "600 rows in 17 chunks and 2 groups, kept in memory" in caplog.text


def test_views_say_when_rows_are_streamed(client, streamed, problem, caplog):
    with caplog.at_level(logging.INFO, "appgrad"):
        CCA(1).fit(*chunked(*problem))
    assert "read from their source in every pass" in caplog.text


def test_workers_of_several_threads(problem):
    with (
        workers(1, 3, processes=False) as c,
        distributed.Client(c),
        threadpool_limits(1),
    ):
        assert (
            difference(fitted(*chunked(*problem), solver="lobpcg"), fitted(*problem, solver="lobpcg")) < 1e-10
        )
