"""Dask workers on this machine: against one process, with little memory, and against a model of their cost.

    APPGRAD_DATA=folder python -m benchmarks dask_cluster [--only paths streamed model] [--record FILE]

`paths`: debian_paths on two worker processes of one thread each, and in one process with two threads, in
turns; LOBPCG, the same number of iterations. Bytes are what workers sent, by the scheduler's own count.
`streamed`: 20 GB of dense .npy files, read in every pass by workers that may use 2 GB each.
`model`: seconds of a pass as predicted from constants measured on other sizes, also over a network that
is slowed down: every transfer of the reduction waits as long as its bytes would take (docs/scaling.md).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import warnings
from functools import partial
from pathlib import Path

import dask.array as da
import numpy as np
import scipy.sparse as sp
from distributed import Client, LocalCluster

from appgrad import CCA, open_views
from appgrad.covariance.moments import moments
from appgrad.covariance.rows import RowCovariance
from appgrad.covariance.units import units
from appgrad.data.cluster.dask import DaskCluster, cluster_views
from appgrad.data.cluster.dask.client import FAN_OUT
from appgrad.data.cluster.views import ClusterViews, _combined, _swept

from .data_sets import folder
from .larger_than_memory import make
from .measure import save, seconds

K, ITERATIONS = 20, 15
# Seconds of an iteration of LOBPCG beyond its products, for each column: 2.1 s of 15 on debian_paths.
ALGEBRA = 2.1 / 15 / 176_548


def workers(count: int, memory: str | None = None) -> LocalCluster:
    """A cluster of worker processes of one thread each."""
    return LocalCluster(
        n_workers=count,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        memory_limit=memory or "auto",
    )


def sent(client: Client) -> float:
    """Bytes that workers have sent so far, to each other and to the client."""
    # Workers report with their heartbeats: wait for these.
    time.sleep(2.5)

    def count(dask_scheduler):
        return dask_scheduler.cumulative_worker_metrics.get(("get-data", "memory-read", "bytes"), 0)

    return float(client.run_on_scheduler(count))


def paths() -> dict:
    """Times of one process with two threads, and of two processes with one thread, in turns."""
    files = [str(folder() / "debian_paths" / name) for name in ("X_dir.npz", "X_file.npz")]
    here, found = open_views(*files), {"in_process": [], "cluster": [], "ratio": []}

    def fit(views):
        return CCA(K, solver="lobpcg", max_iter=ITERATIONS, tol=0, random_state=0).fit(views)

    with workers(2) as cluster, Client(cluster) as client:
        found["load"] = seconds(lambda: fit(open_views(*files, client=client)))
        there = open_views(*files, client=client)
        model, reference = fit(there), fit(here)
        for _ in range(5):
            found["in_process"].append(seconds(lambda: fit(here)))
            found["cluster"].append(seconds(lambda: fit(there)))
        found["ratio"] = statistics.median(
            b / a for a, b in zip(found["in_process"], found["cluster"], strict=True)
        )
        before = sent(client)
        passes = fit(there).n_passes_
        found["bytes_per_pass"] = (sent(client) - before) / passes
        p, c = here.n_features_x + here.n_features_y, K + 5
        found["groups"], found["thin_bytes"] = there.groups, 4 * p * c
    apart = np.abs(model.canonical_correlations_ - reference.canonical_correlations_).max()
    found["difference"] = float(apart)
    return found


def streamed(gigabytes: float, columns: int) -> dict:
    """Times of fits to rows that neither worker could hold: one pass of covariances, and iterations."""
    found = {"gigabytes": gigabytes, "columns": columns, "memory_limit": "2 GB"}
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as place:
        found["make"] = seconds(lambda: make(Path(place), gigabytes, columns))
        with workers(2, "2GB") as cluster, Client(cluster) as client:
            views = open_views(f"{place}/x.npy", f"{place}/y.npy", client=client)
            found["rows"], found["kept"] = views.n_samples, views.kept
            before = set(client.run(os.getpid).values())
            for solver, params in (
                ("exact", {}),
                ("lobpcg", {"max_iter": 4}),
                ("stochastic", {"max_passes": 1}),
            ):
                model = CCA(5, solver=solver, random_state=0, **params)
                found[solver] = seconds(lambda model=model: model.fit(views))
                found[f"{solver}_correlations"] = model.canonical_correlations_.tolist()
                found[f"{solver}_passes"] = model.n_passes_
                print(solver, found[solver], flush=True)
            found["killed"] = len(before - set(client.run(os.getpid).values()))
    return found


class Slow(DaskCluster):
    """A cluster with a slow network: `bandwidth` bytes a second, and a delay in seconds."""

    def __init__(self, client: Client, bandwidth: float, delay: float) -> None:
        super().__init__(client)
        self.wait = partial(waited, bandwidth, delay)

    def submit(self, f, *args, pin):
        """Submit a task that first waits for the transfer of its operands, or of the other of two sums."""
        if f is _swept:
            return super().submit(partial_named(f, self.wait, 1), *args, pin=pin)
        if f is _combined:
            return super().submit(partial_named(f, self.wait, 2), *args, pin=pin)
        return super().submit(f, *args, pin=pin)

    def result(self, future):
        """The result of a task, after the time that the transfer of sums to the client would take."""
        found = super().result(future)
        if isinstance(found, tuple):
            self.wait(found)
        return found


class partial_named:  # noqa: N801
    """A function that waits for the transfer of one of its arguments before it is called."""

    def __init__(self, f, wait, place) -> None:
        self.f, self.wait, self.place, self.__name__ = f, wait, place, f.__name__

    def __call__(self, *args):
        """Wait, then call the function."""
        self.wait(args[self.place])
        return self.f(*args)


def waited(bandwidth: float, delay: float, value) -> None:
    """Wait as long as the transfer of the arrays in a value takes."""
    time.sleep(delay + array_bytes(value) / bandwidth)


def array_bytes(value) -> int:
    """Bytes of the arrays that a value, or the function in it, holds."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, tuple | list):
        return sum(map(array_bytes, value))
    if callable(value) and getattr(value, "__closure__", None):
        return sum(array_bytes(cell.cell_contents) for cell in value.__closure__)
    return 0


class Pass:
    """Cost of a pass of `products`: work in proportion to entries, thin sums, and transfers of both."""

    def __init__(self, n: int, p: int, entries: int, c: int, count: int) -> None:
        self.n, self.p, self.entries, self.c, self.count = n, p, entries, c, count

    def terms(self) -> np.ndarray:
        """Terms of the cost: entries, multiplications and sums of a worker, bytes sent in sequence, and 1."""
        thin = self.p * self.c
        levels = max(0, int(np.ceil(np.log2(self.count))) - 1)
        last = min(2, self.count)
        # Operands: to the first worker, and from it to the others one after the other. Sums: level by level,
        # then the last two to the client.
        moved = 4 * thin * (1 + (self.count > 1)) + 8 * thin * (levels + last)
        entries = self.n * self.entries / self.count
        return np.array([entries, entries * self.c, 2 * thin, moved, 1.0])

    def problem(self, rows_per_chunk: int = 25000):
        """Two sparse views of random entries."""
        rng, half = np.random.default_rng(0), self.p // 2
        count = self.entries // 2
        views = []
        for _ in range(2):
            indices = rng.integers(0, half, self.n * count, dtype=np.int32)
            ends = np.arange(0, len(indices) + 1, count, dtype=np.int32)
            m = sp.csr_array((np.ones(len(indices)), indices, ends), shape=(self.n, half))
            m.sum_duplicates()
            views.append(da.from_array(m, chunks=(rows_per_chunk, -1), asarray=False))
        return views

    def seconds(self, views: ClusterViews, repeats: int = 9) -> float:
        """Measured seconds of a pass: the median of the repeats."""
        m = moments(views)
        cov = RowCovariance(views, m, units(m, views.dtype), np.float32)
        rng = np.random.default_rng(0)
        A, B = (rng.standard_normal((self.p // 2, self.c)).astype(np.float32) for _ in range(2))
        cov.products(A, B)
        return statistics.median(seconds(lambda: cov.products(A, B)) for _ in range(repeats))


# Operands do not fit into a cache: if they did, work would take a third of the time.
FITTED = [
    Pass(200_000, 100_000, 20, 10, 1),
    Pass(200_000, 100_000, 20, 40, 1),
    Pass(400_000, 100_000, 10, 25, 1),
    Pass(100_000, 400_000, 20, 10, 1),
    Pass(100_000, 400_000, 20, 40, 1),
    Pass(200_000, 100_000, 20, 40, 2),
    Pass(100_000, 400_000, 20, 10, 2),
    Pass(100_000, 400_000, 20, 40, 2),
    Pass(2_000, 200, 4, 2, 2),
]
PREDICTED = [
    Pass(400_000, 100_000, 20, 25, 1),
    Pass(400_000, 100_000, 20, 25, 2),
    Pass(200_000, 200_000, 40, 25, 2),
    Pass(400_000, 200_000, 10, 20, 2),
    Pass(300_000, 150_000, 20, 15, 2),
    Pass(200_000, 400_000, 20, 20, 2),
]
SLOW = [(Pass(200_000, 100_000, 20, 25, 2), bandwidth) for bandwidth in (10e6, 50e6, 125e6)]


def model() -> dict:
    """Constants of the model fitted to some passes, and its predictions of others."""
    times: dict[int, float] = {}
    slow = []
    for count in (1, 2):
        with workers(count) as cluster, Client(cluster) as client:
            cases = [case for case in (*FITTED, *PREDICTED) if case.count == count]
            views = [cluster_views(*case.problem()) for case in cases]
            # In rounds, so that other load on the machine does not hit one case alone.
            rounds = [[case.seconds(v, 5) for case, v in zip(cases, views, strict=True)] for _ in range(5)]
            for i, case in enumerate(cases):
                times[id(case)] = statistics.median(found[i] for found in rounds)
                print(vars(case), round(times[id(case)], 4), flush=True)
            del views
            for case, bandwidth in SLOW if count == 2 else ():
                plain = cluster_views(*case.problem())
                fast = case.seconds(plain, 5)
                plain.cluster = Slow(client, bandwidth, 0.005)
                measured = case.seconds(plain, 3)
                # Operands, and two sums one after the other, each after the delay.
                added = 3 * 0.005 + (4 + 2 * 8) * case.p * case.c / bandwidth
                slow.append({"bandwidth": bandwidth, "predicted": fast + added, "measured": measured})
                print(slow[-1], flush=True)
    T = np.array([case.terms() for case in FITTED])
    y = np.array([times[id(case)] for case in FITTED])
    constants = nonnegative(T / y[:, None], np.ones(len(y)))
    predictions = [
        {
            **vars(case),
            "measured": times[id(case)],
            "predicted": float(case.terms() @ constants),
        }
        for case in PREDICTED
    ]
    names = ("entry", "multiplication", "addition", "byte", "latency")
    fits = [{**vars(c), "measured": times[id(c)], "fitted": float(c.terms() @ constants)} for c in FITTED]
    named, task = dict(zip(names, constants.tolist(), strict=True)), per_task()
    return {
        "constants": named,
        "fitted": fits,
        "predictions": predictions,
        "slow_network": slow,
        "task": task,
        "extrapolated": extrapolated(named, task, ALGEBRA),
    }


def extrapolated(constants: dict, task: float, algebra: float) -> list[dict]:
    """Seconds of an iteration on 10^9 rows of 100 entries and 10^6 columns, over 10 Gbit/s.

    `algebra` are seconds of the client for each column of both views.
    """
    n, p, entries, c, network = 1e9, 1e6, 100, K + 5, 1.25e9
    found = []
    for count in (1, 10, 100, 1000, 2000, 4000):
        levels = max(0, int(np.ceil(np.log2(count))) - 1)
        parts = {
            "work": n * entries / count * (constants["entry"] + c * constants["multiplication"]),
            # A worker's own sums, then those of each level.
            "sums": 2 * p * c * constants["addition"] * (1 + levels),
            "operands": FAN_OUT * 4 * p * c / network * np.ceil(np.log(max(count, 2)) / np.log(FAN_OUT)),
            "results": 8 * p * c / network * (levels + min(2, count)),
            "tasks": 3 * count * task + constants["latency"],
            "client": algebra * p,
        }
        total = float(sum(parts.values()))
        found.append({"workers": count, **{k: float(v) for k, v in parts.items()}, "total": total})
    for row in found:
        row["efficiency"] = found[0]["total"] / row["total"] / row["workers"]
    return found


def per_task(count: int = 2000) -> float:
    """Seconds of an empty task, one of many: the share of the scheduler and the client."""
    with workers(2) as cluster, Client(cluster) as client:

        def many() -> None:
            client.gather([client.submit(int, i, pure=False) for i in range(count)])

        many()
        return statistics.median(seconds(many) for _ in range(3)) / count


def nonnegative(T: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Constants of at least zero, by least squares of relative errors."""
    from scipy.optimize import nnls

    scale = np.abs(T).max(axis=0)
    return nnls(T / scale, y)[0] / scale


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=("paths", "streamed", "model"))
    parser.add_argument("--gigabytes", type=float, default=20)
    parser.add_argument("--columns", type=int, default=300)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    record = {}
    if options.record is not None and options.record.exists():
        record = json.loads(options.record.read_text())
    for name, call in (
        ("paths", paths),
        ("model", model),
        ("streamed", partial(streamed, options.gigabytes, options.columns)),
    ):
        if options.only is None or name in options.only:
            record[name] = call()
            print(name, json.dumps(record[name], indent=1))
            if options.record is not None:
                save(options.record, record)
