"""Dask: everything that fits rows in memory fits rows on a cluster, and survives what happens to clusters."""

import json
import logging
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from appgrad import CCA, KernelCCA, SparseCCA, SparseCCACV, load, open_views, plan
from appgrad.data.cluster import views as cluster_module
from appgrad.data.cluster import workers as cluster_base
from appgrad.data.derived import CountedViews
from appgrad.data.sources import as_views
from appgrad.data.views import Sweep
from appgrad.datasets import planted
from helpers import ITERATIVE, fitted
from test_views import ViewsContract

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
dask_module = pytest.importorskip("appgrad.data.cluster.dask")

# Dask on Dask: sockets that a killed worker leaves behind, and graphs that hold the data of a test.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def workers(count, threads=1, processes=True):
    return distributed.LocalCluster(
        n_workers=count,
        threads_per_worker=threads,
        processes=processes,
        dashboard_address=":0",
        silence_logs=50,
    )


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes of one thread each."""
    with workers(2) as found:
        yield found


@pytest.fixture
def client(cluster):
    cluster.scheduler.allowed_failures = 3
    with distributed.Client(cluster) as found:
        found.wait_for_workers(2, timeout=60)
        yield found


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


def chunked(X, Y, rows=37):
    return da.from_array(X, chunks=(rows, -1)), da.from_array(Y, chunks=(rows, -1))


def frames(X, Y, npartitions=5):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    return tuple(
        dd.from_pandas(pd.DataFrame(m, columns=[f"{v}{j}" for j in range(m.shape[1])]), npartitions)
        for m, v in ((X, "x"), (Y, "y"))
    )


def difference(a, b):
    """The largest difference of two models, signs and all."""
    return max(
        float(np.abs(getattr(a, name) - getattr(b, name)).max())
        for name in ("canonical_correlations_", "x_weights_", "y_weights_", "x_mean_")
    )


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


SOLVERS = {"exact": ({"solver": "exact"}, 0), "qr": ({"solver": "qr"}, 0), "auto": ({}, 0), **ITERATIVE}


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_find_what_they_find_on_one_machine(client, problem, solver):
    params, _ = SOLVERS[solver]
    params = {"max_iter": 40, **params} if solver in ITERATIVE and "stochastic" not in solver else params
    here, there = fitted(*problem, **params), fitted(*chunked(*problem), **params)
    assert difference(here, there) < 1e-10
    assert here.n_passes_ == there.n_passes_
    assert here.solver_ == there.solver_


@pytest.mark.parametrize("solver", ["exact", "lobpcg"])
def test_streamed_rows_give_the_same(client, streamed, problem, solver):
    params, _ = SOLVERS[solver]
    assert difference(fitted(*problem, **params), fitted(*chunked(*problem), **params)) < 1e-10


def test_minibatches_of_streamed_rows_find_the_same(client, streamed, problem):
    params, tolerance = SOLVERS["stochastic"]
    here, there = fitted(*problem, solver="exact"), fitted(*chunked(*problem), **params)
    np.testing.assert_allclose(here.canonical_correlations_, there.canonical_correlations_, atol=tolerance)


def test_small_covariances_take_one_pass(client, problem):
    model = fitted(*chunked(*problem))
    assert (model.solver_, model.n_passes_) == ("exact", 1)


def test_two_runs_are_identical(client, problem):
    for params in ({"solver": "lobpcg"}, {"solver": "exact"}):
        one, two = (fitted(*chunked(*problem), **params) for _ in range(2))
        np.testing.assert_array_equal(one.x_weights_, two.x_weights_)


@pytest.mark.parametrize("format", [sp.csr_array, sp.csr_matrix, sp.csc_array, np.asarray])
def test_chunks_may_be_sparse(client, problem, format):
    X, Y = (np.where(np.abs(m) < 0.5, 0, m) for m in problem)
    x, y = (m.map_blocks(format, dtype=float) for m in chunked(X, Y))
    there = fitted(x, y, solver="lobpcg", tol=1e-9)
    assert difference(fitted(sp.csr_array(X), sp.csr_array(Y), solver="lobpcg", tol=1e-9), there) < 1e-9


def test_data_frames_have_names_and_unknown_lengths(client, problem):
    x, y = frames(*problem)
    model = fitted(x, y)
    assert difference(model, fitted(*problem)) < 1e-10
    assert list(model.feature_names_in_[:2]) == ["x0", "x1"]
    with pytest.raises(ValueError, match="other feature names"):
        model.transform(x.rename(columns={"x0": "other"}))


def test_a_frame_with_an_array_and_an_array_in_memory(client, problem):
    x, _ = frames(*problem)
    for y in (problem[1], chunked(*problem, 120)[1]):
        assert difference(fitted(x, y), fitted(*problem)) < 1e-10


def test_persisted_data_and_what_is_made_of_them(client, problem):
    x, y = (m.persist() for m in chunked(*problem))
    assert difference(fitted(x, y), fitted(*problem)) < 1e-10
    assert (
        difference(fitted(x * 2 - x.mean(axis=0), y), fitted(2 * problem[0] - problem[0].mean(0), problem[1]))
        < 1e-10
    )


def test_what_two_views_share_is_computed_once(client, streamed, problem, tmp_path, monkeypatch):
    monkeypatch.setattr("appgrad.data.cluster.workers.LOOKED_AT", 1)

    def read(i):
        with open(tmp_path / f"{i}-{os.urandom(4).hex()}", "w"):
            return np.hstack(problem)[100 * i : 100 * i + 100]

    both = da.concatenate(
        [da.from_delayed(dask.delayed(read)(i), (100, 21), dtype=float) for i in range(6)], axis=0
    )
    model = fitted(both[:, :12], both[:, 12:], solver="exact")
    assert difference(model, fitted(*problem)) < 1e-10
    # The first chunk of each view is looked at, then each is read in the only pass.
    assert len(list(tmp_path.iterdir())) == 2 + 6


def test_misaligned_chunks_are_rechunked_with_a_warning(client, problem):
    x, y = da.from_array(problem[0], chunks=(70, -1)), da.from_array(problem[1], chunks=(41, -1))
    with pytest.warns(UserWarning, match=r"split at different places, into 9 and 15 chunks: rechunked"):
        assert difference(CCA(3).fit(x, y), CCA(3).fit(*problem)) < 1e-10


def test_split_columns_are_rechunked_with_a_warning(client, problem):
    x, y = da.from_array(problem[0], chunks=(70, 5)), da.from_array(problem[1], chunks=(70, -1))
    with pytest.warns(UserWarning, match=r"columns of X are split into 3 chunks: rechunked"):
        model = CCA(3).fit(x, y)
    assert difference(model, CCA(3).fit(*problem)) < 1e-10
    np.testing.assert_allclose(model.transform(x).compute(), model.transform(problem[0]))


def test_shuffled_data_are_computed_first(client, problem):
    x, y = frames(*problem)
    both = x.join(y).shuffle(on="x0")
    names = [list(m.columns) for m in (x, y)]
    model = fitted(both[names[0]], both[names[1]])
    assert difference(model, fitted(*problem)) < 1e-10


def test_empty_partitions(client, problem):
    x, y = frames(*problem, npartitions=6)
    x, y = (frame.map_partitions(lambda part: part[part.index < 150]) for frame in (x, y))
    model = fitted(x, y)
    assert difference(model, fitted(problem[0][:150], problem[1][:150])) < 1e-10
    assert model.transform(x).compute().shape == (150, 3)


@pytest.mark.parametrize("on_cluster", [True, False])
def test_what_all_chunks_need_is_computed_once(request, streamed, problem, tmp_path, monkeypatch, on_cluster):
    if on_cluster:
        request.getfixturevalue("client")
    monkeypatch.setattr("appgrad.data.cluster.workers.LOOKED_AT", 1)

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
import os, numpy as np, dask.array as da
from distributed import Client, LocalCluster
from appgrad.data.sources import as_views
from appgrad.machine.threads import blas_threads
x = da.ones((600, 3), chunks=(300, 3))
with LocalCluster(n_workers=2, threads_per_worker=2, processes=False, dashboard_address=":0") as c, Client(c):
    views = as_views(x, x)
    used = [views.reduce(lambda b: [blas_threads()], lambda a, b: a + b) for _ in range(5)]
print(set(sum(used, [])), blas_threads() == os.cpu_count())
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


def test_data_that_are_lost_are_loaded_again(slow):
    """Everything on the cluster is gone at once."""
    data = chunked(*slow)
    with (
        workers(2) as found,
        distributed.Client(found) as client,
    ):
        expected = fitted(*data, solver="lobpcg")

        def restart(progress):
            if progress.iteration == 3:
                client.restart()

        model = fitted(*data, solver="lobpcg", callback=restart)
    np.testing.assert_array_equal(model.x_weights_, expected.x_weights_)


def test_a_series_is_one_column(client, problem):
    x, y = frames(*problem)
    assert difference(CCA(1).fit(x, y["y0"]), CCA(1).fit(problem[0], problem[1][:, 0])) < 1e-10


def test_one_dimensional_y(client, problem):
    x, y = chunked(*problem)
    model = CCA(1).fit(x, y[:, 0])
    predicted = model.predict(x)
    assert predicted.shape == (600,)
    np.testing.assert_allclose(
        predicted.compute(), CCA(1).fit(problem[0], problem[1][:, 0]).predict(problem[0])
    )


def test_scores_are_lazy(client, problem):
    x, y = chunked(*problem)
    model, reference = CCA(2).fit(x, y), CCA(2).fit(*problem)
    U, V = model.transform(x, y)
    assert isinstance(U, da.Array)
    assert U.chunks == (x.chunks[0], (2,))
    for found, expected in zip((U, V), reference.transform(*problem), strict=True):
        np.testing.assert_allclose(found.compute(), expected, atol=1e-12)
    assert model.score(x, y) == pytest.approx(reference.score(*problem), abs=1e-12)
    np.testing.assert_allclose(model.predict(x).compute(), reference.predict(problem[0]), atol=1e-12)
    U, _ = CCA(2).fit_transform(x, y)
    np.testing.assert_allclose(U.compute(), reference.transform(problem[0]), atol=1e-12)
    assert model.transform(x.astype(np.float32)).dtype == np.float32


def test_score_of_constant_scores_is_zero(problem):
    X, Y = problem
    model = CCA(1).fit(X, Y)
    same = np.repeat(X[:1], 50, axis=0)
    assert model.score(as_views(same, Y[:50])) == pytest.approx(0, abs=1e-6)


def test_kernels_of_landmarks(client, problem):
    params = {"approximation": "nystroem", "n_landmarks": 30, "random_state": 0}
    here, there = (KernelCCA(2, **params).fit(*data) for data in (problem, chunked(*problem)))
    np.testing.assert_allclose(here.canonical_correlations_, there.canonical_correlations_, atol=1e-10)
    np.testing.assert_allclose(
        here.transform(problem[0]), there.transform(chunked(*problem)[0]).compute(), atol=1e-7
    )
    with pytest.raises(TypeError, match="not in one place"):
        KernelCCA(2).fit(*chunked(*problem))
    with pytest.raises(TypeError, match="not in one place"):
        KernelCCA(2).fit(as_views(*chunked(*problem)))


@pytest.mark.parametrize("memory", [None, 0.005])
def test_sparse_components(client, problem, memory):
    from sklearn import config_context

    with config_context(working_memory=memory):
        here, there = (SparseCCA(2, n_nonzero=4).fit(*data) for data in (problem, chunked(*problem)))
    assert difference(here, there) < 1e-10


def test_sparse_components_chosen_by_held_out_rows(client, problem):
    here, there = (
        SparseCCACV(SparseCCA(1), n_nonzeros=[2, 4], cv=3).fit(*data) for data in (problem, chunked(*problem))
    )
    np.testing.assert_allclose(here.scores_, there.scores_, atol=1e-10)
    assert here.n_passes_ == there.n_passes_


def test_partial_fit_takes_dask_too(client, problem):
    model = CCA(3).partial_fit(*chunked(*problem))
    assert difference(model, CCA(3).fit(*problem)) < 1e-10


def test_plan_reads_no_more_than_a_chunk(client, problem):
    assert plan(*chunked(*problem), n_components=2).solver == "exact"


def test_progress_counts_rows(client, problem):
    seen = []
    model = CCA(2, solver="lobpcg", callback=lambda p: seen.append((p.rows, p.passes))).fit(
        *chunked(*problem)
    )
    assert seen[-1][0] == 600 * seen[-1][1]
    assert model.n_passes_ >= seen[-1][1]


@pytest.mark.parametrize("shelf", [128, 24])
def test_minibatches_read_each_chunk_once_a_pass(client, streamed, tmp_path, monkeypatch, shelf):
    monkeypatch.setattr("appgrad.data.cluster.workers.LOOKED_AT", 1)
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
    """The scheduler's own count of the bytes that workers have sent."""
    time.sleep(1.2)

    def metric(dask_scheduler):
        return dask_scheduler.cumulative_worker_metrics.get(("get-data", "memory-read", "bytes"), 0)

    return client.run_on_scheduler(metric)


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
def test_a_killed_worker_changes_nothing(client, slow, solver, victim):
    params = {"solver": solver, "max_passes": 20}
    data = chunked(*slow)
    expected = fitted(*data, **params)
    before, iterations = client.run(os.getpid), []

    def kill(progress):
        iterations.append(progress.iteration)
        if progress.iteration == 4:
            os.kill(list(before.values())[victim], signal.SIGKILL)

    model = fitted(*data, callback=kill, **params)
    assert iterations[-1] > 4
    np.testing.assert_array_equal(model.x_weights_, expected.x_weights_)
    client.wait_for_workers(2, timeout=60)
    deadline = time.monotonic() + 60
    while len(after := client.run(os.getpid)) < 2 or list(before.values())[victim] in after.values():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_streamed_rows_survive_a_killed_worker(client, streamed, slow):
    data = chunked(*slow)
    expected = fitted(*data, solver="lobpcg")
    before = list(client.run(os.getpid).values())

    def kill(progress):
        if progress.iteration == 3:
            os.kill(before[0], signal.SIGKILL)

    np.testing.assert_array_equal(
        fitted(*data, solver="lobpcg", callback=kill).x_weights_, expected.x_weights_
    )


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
        deadline = time.monotonic() + 60
        while True:
            try:
                return scheduler, json.loads(file.read_text())["address"]
            except (OSError, ValueError):
                assert time.monotonic() < deadline
                time.sleep(0.1)

    yield started
    for process in running:
        process.kill()
        process.wait()


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
    client.wait_for_workers(2, timeout=60)
    full = fitted(*data, solver="lobpcg", tol=1e-9)
    started = time.monotonic()
    with pytest.raises(ConnectionError, match="scheduler is gone"):
        fitted(*data, callback=kill, **params)
    assert time.monotonic() - started < 60
    client.close(timeout=1)
    _, address = own_cluster("second")
    with distributed.Client(address) as client:
        client.wait_for_workers(2, timeout=60)
        model = fitted(*data, **params)
    assert model.resumed_from_iteration_ == 6
    np.testing.assert_array_equal(model.x_weights_, full.x_weights_)


def test_all_workers_killed_at_once_come_back(slow):
    data = chunked(*slow)
    with (
        workers(2) as found,
        distributed.Client(found) as client,
    ):
        expected = {
            solver: fitted(*data, solver=solver, max_passes=20) for solver in ("lobpcg", "stochastic")
        }
        for solver, reference in expected.items():
            client.wait_for_workers(2, timeout=60)
            pids = list(client.run(os.getpid).values())

            def kill(progress, pids=pids):
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


def test_futures_within_tasks(client, problem):
    parts = [client.submit(np.array, problem[0][100 * i : 100 * i + 100]) for i in range(6)]
    x = da.concatenate(
        [da.from_delayed(dask.delayed(np.negative)(part), (100, 12), dtype=float) for part in parts]
    )
    assert difference(fitted(x, chunked(*problem, 100)[1]), fitted(-problem[0], problem[1])) < 1e-10


def test_a_fit_within_a_task(problem):
    def fit():
        return fitted(*chunked(*problem)).canonical_correlations_

    with (
        workers(1, processes=False) as found,
        distributed.Client(found) as client,
    ):
        inside = client.submit(fit).result(timeout=60)
    np.testing.assert_allclose(inside, fitted(*problem).canonical_correlations_, atol=1e-10)


def test_a_cluster_without_workers_is_not_waited_for_forever(own_cluster, slow, monkeypatch):
    _, address = own_cluster("lonely", "--no-nanny")
    with distributed.Client(address) as client:
        client.wait_for_workers(1, timeout=60)
        pids = client.run(os.getpid).values()

        def kill(progress):
            monkeypatch.setattr(dask_module, "PATIENCE", 2)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)

        with pytest.raises(ConnectionError, match="no workers for 2 s"):
            fitted(*chunked(*slow), solver="lobpcg", callback=kill)


def test_a_chunk_that_raises_is_named(client, streamed, problem):
    def broken(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 3:
            raise KeyError("corrupt")
        return block

    x, y = chunked(*problem)
    x = x.map_blocks(broken, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match=r"chunk 3 of X cannot be read: 'corrupt'"):
        CCA(2).fit(x, y)


def parts(folder, problem, count=4):
    pd = pytest.importorskip("pandas")
    both = pd.DataFrame(np.hstack(problem), columns=[f"c{j}" for j in range(21)])
    for i in range(count):
        both.iloc[600 // count * i : 600 // count * (i + 1)].to_parquet(folder / f"part-{i}.parquet")
    return f"{folder}/part-*.parquet"


def damage(path):
    with open(path, "r+b") as file:
        file.seek(4)
        file.write(b"garbage" * 300)


def test_a_corrupt_part_is_named(client, problem, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    source = parts(tmp_path, problem)
    damage(tmp_path / "part-2.parquet")
    with pytest.raises(ValueError, match=r"part-2\.parquet"):
        CCA(1).fit(open_views(f"{source}::columns=0-11", f"{source}::columns=12-20", client=client))
    both = dd.read_parquet(source)
    with pytest.raises(ValueError, match=r"part-2\.parquet"):
        CCA(1).fit(both[["c0", "c1"]], both[["c12", "c13"]])


def test_chunks_too_large_for_a_worker_are_refused_with_a_size_that_fits(client, problem, monkeypatch):
    small = [worker._replace(memory=2e4) for worker in as_views(*chunked(*problem)).cluster.workers]
    monkeypatch.setattr("appgrad.data.cluster.dask.DaskCluster._workers", lambda self: small)
    with pytest.raises(MemoryError, match=r"X\.rechunk\(\((\d+), -1\)\)") as caught:
        CCA(1).fit(*chunked(*problem, 100))
    rows = int(str(caught.value).split("X.rechunk((")[1].split(",")[0])
    assert difference(fitted(*chunked(*problem, rows)), fitted(*problem)) < 1e-10


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


def test_nan_is_named_by_row_and_column(client, problem):
    X = problem[0].copy()
    X[333, 4] = np.nan
    with pytest.raises(ValueError, match=r"column 4 of X contains NaN, first in row 333"):
        CCA(1).fit(*chunked(X, problem[1]))


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda x, y: (x, y[:500]), ValueError, "y has 500 rows, X has 600"),
        (lambda x, y: (x[:1], y[:1]), ValueError, "at least 2"),
        (lambda x, y: (x[:, :, None], y), ValueError, "3 dimensions"),
        (lambda x, y: (x.astype(complex), y), TypeError, "real numbers"),
        (lambda x, y: (dask.delayed(np.ones)(3), y), TypeError, "Dask array or a Dask data frame"),
    ],
)
def test_wrong_input(client, problem, make, error, match):
    with pytest.raises(error, match=match):
        CCA(1).fit(*make(*chunked(*problem)))


def test_chunks_of_other_widths(client, problem):
    x = da.concatenate(
        [da.from_delayed(dask.delayed(np.ones)((9, p)), (np.nan, 3), dtype=float) for p in (3, 4)]
    )
    with pytest.raises(ValueError, match=r"chunks of X have \[3, 4\] columns"):
        CCA(1).fit(x, da.from_array(problem[1][:18], chunks=9))


def test_without_distributed_an_error_says_what_to_install(problem):
    code = (
        "import sys; sys.modules['distributed'] = None; import numpy as np, dask.array as da; "
        "from appgrad import CCA; CCA(1).fit(da.ones((9, 2)), da.ones((9, 2)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'appgrad[dask]'" in run.stderr.splitlines()[-1]


def test_dask_is_imported_by_its_users_alone():
    loaded = "'dask' in sys.modules or 'distributed' in sys.modules"
    code = f"import sys, appgrad, appgrad.cli.main; sys.exit({loaded})"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


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


def command(*arguments, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "appgrad", *map(str, arguments)], capture_output=True, text=True, **kwargs
    )


def test_command_line_on_workers_of_this_machine(problem, tmp_path):
    source = parts(tmp_path, problem)
    x, y = f"{source}::columns=0-11", f"{source}::columns=12-20"
    options = ("-k", 3, "--solver", "lobpcg", "--json")
    runs = [
        command("fit", x, y, *options, *more)
        for more in ((), ("--scheduler", "local:2", "-o", tmp_path / "m"))
    ]
    assert [run.returncode for run in runs] == [0, 0], runs[1].stderr
    here, there = (json.loads(run.stdout) for run in runs)
    for name in ("correlations", "held_out_correlations"):
        np.testing.assert_allclose(here[name], there[name], atol=1e-10)
    assert list(load(tmp_path / "m").feature_names_in_[:2]) == ["c0", "c1"]


def test_command_line_on_a_cluster_that_dies(own_cluster, problem, tmp_path):
    scheduler, address = own_cluster("first")
    source, checkpoint = parts(tmp_path, problem), tmp_path / "run.ckpt"
    fit = (
        "fit", f"{source}::columns=0-11", f"{source}::columns=12-20", "-k", 3, "--solver", "appgrad",
        "--holdout", 0, "--checkpoint", checkpoint, "--checkpoint-every", 0, "--json",
    )  # fmt: skip
    run = subprocess.Popen(
        [sys.executable, "-m", "appgrad", *map(str, fit), "--scheduler", address],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not checkpoint.exists() and run.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    scheduler.send_signal(signal.SIGKILL)
    _, said = run.communicate(timeout=100)
    assert run.returncode == 1
    assert "scheduler is gone" in said.splitlines()[-1]
    _, address = own_cluster("second")
    again = command(*fit, "--resume", "--scheduler", address)
    assert again.returncode == 0, again.stderr
    found, plain = json.loads(again.stdout), json.loads(command(*fit[:-5], "--json").stdout)
    assert found["resumed_from_iteration"] > 0
    np.testing.assert_allclose(found["correlations"], plain["correlations"], atol=1e-10)


def test_ctrl_c_saves_the_model_and_says_so_in_a_line(slow, tmp_path):
    for name, m in zip("xy", slow, strict=True):
        np.save(tmp_path / f"{name}.npy", m)
    command = [sys.executable, "-m", "appgrad", "fit", "x.npy", "y.npy", "-k", "3", "--solver", "appgrad"]
    command += ["--passes", "1e6", "--checkpoint", "c", "--checkpoint-every", "0", "-o", "m.cca"]
    run = subprocess.Popen(
        [*command, "--scheduler", "local:2"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "c").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 1
    assert said.startswith("error: interrupted; the best model so far is in m.cca")
    assert "Traceback" not in said
    assert load(tmp_path / "m.cca").n_iter_[0] > 0


@pytest.mark.parametrize(
    ("scheduler", "match"),
    [
        ("tcp://127.0.0.1:1", "no Dask scheduler at"),
        ("local:x", "local:N"),
        ("local:0", "local:N"),
        ("foo", "no address"),
        ("http://127.0.0.1:1", "no address"),
    ],
)
def test_wrong_schedulers(problem, tmp_path, scheduler, match, monkeypatch):
    monkeypatch.setattr(dask_module, "PATIENCE", 1)
    with pytest.raises((ConnectionError, ValueError), match=match), dask_module.connected(scheduler):
        pass
