"""Helpers of tests of clusters; without Dask, tests that import it are skipped."""

import numpy as np
import pytest

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
dask_module = pytest.importorskip("appgrad.data.cluster.dask.client")

# Seconds after which a process counts as hung: a busy machine takes a minute to start one.
PATIENCE = 600

# Dask on Dask: sockets that a killed worker leaves behind, and graphs that hold the data of a test.
MARKS = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:Sending large graph"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


class Workers(distributed.LocalCluster):
    """A local cluster that survives a worker lost before the cluster has heard of it.

    distributed looks such a worker up when it is removed. The KeyError ends the task that watches workers,
    and is raised when the cluster is closed, which then stays open.
    """

    def _update_worker_status(self, op, msg):
        if op != "remove" or msg in self.scheduler_info["workers"]:
            super()._update_worker_status(op, msg)


def workers(count, threads=1, processes=True):
    return Workers(
        n_workers=count,
        threads_per_worker=threads,
        processes=processes,
        dashboard_address=":0",
        silence_logs=50,
    )


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


def parts(folder, problem, count=4):
    pd = pytest.importorskip("pandas")
    both = pd.DataFrame(np.hstack(problem), columns=[f"c{j}" for j in range(21)])
    for i in range(count):
        both.iloc[600 // count * i : 600 // count * (i + 1)].to_parquet(folder / f"part-{i}.parquet")
    return f"{folder}/part-*.parquet"
