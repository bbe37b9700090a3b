"""Dask: the only file that imports it. Its collections as chunks, its clients as a cluster."""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
import scipy.sparse as sp
from cloudpickle import dumps
from dask.optimization import cull
from distributed import (
    Client,
    Future,
    KilledWorker,
    LocalCluster,
    default_client,
    get_worker,
    wait,
)
from distributed.comm import CommClosedError

from .chunks import Chunk
from .cluster import Here, LostError, Source, Worker
from .cluster_views import ClusterViews
from .file_parts import file_facts, listed, pieces_of
from .matrices import as_column, as_matrix, feature_names
from .threads import blas_threads
from .views import Array

# Seconds to wait for the first worker, and for one to answer.
PATIENCE, GREETING = 30, 3
# Workers that one of them sends copies to.
FAN_OUT = 4
REPARTITION = "use partitions of at most {0} rows, as {1}.repartition(npartitions=...) gives"


class Spread(NamedTuple):
    """A value on all workers."""

    futures: dict[str | None, Future]

    def at(self, pin: str | None) -> Future:
        """What a task for some worker takes it from."""
        return self.futures[pin]


class DaskCluster:
    """The workers of a Dask client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise ConnectionError(
                f"the Dask cluster has no workers after {PATIENCE} s: start some"
            ) from error
        self.workers = self._workers()
        self.direct = self._reaches_workers()

    @property
    def threads(self) -> Callable[[], int]:
        """Those of the worker that asks."""
        return worker_threads

    def submit(self, f: Callable[..., Any], *args: Any, pin: str | None) -> Future:
        """A task, for a worker if that is there."""
        # Named anew: a task that was done before may have been lost with its worker.
        name = f"appgrad{f.__name__}-{os.urandom(8).hex()}"
        args = tuple(arg.at(pin) if isinstance(arg, Spread) else arg for arg in args)
        with self._at_work():
            return self.client.submit(f, *args, key=name, workers=[pin], allow_other_workers=True)

    def spread(self, value: Any, pin: str | None = None) -> Any:
        """A value on one worker, or on all of them.

        Each has it from one of those before it, and none sends more than a few copies. (Dask's own way to do
        this waits forever for a worker that is lost meanwhile.)
        """
        with self._at_work():
            there = pin is not None and pin in self.client.scheduler_info(n_workers=-1)["workers"]
            # In a list: Dask takes a tuple for several values.
            root = self._scattered([value], [pin] if there else None)
        if pin is not None:
            return root
        futures: list[Future] = []
        for i, worker in enumerate(self.workers):
            source = root if i <= FAN_OUT else futures[(i - 1) // FAN_OUT]
            relayed = len(self.workers) > FAN_OUT + 1
            futures.append(self.submit(relay, source, pin=worker.address) if relayed else root)
        return Spread(dict(zip((worker.address for worker in self.workers), futures, strict=True)))

    def _workers(self) -> list[Worker]:
        found = self.client.scheduler_info(n_workers=-1)["workers"]
        return [Worker(a, float(found[a]["memory_limit"] or np.inf)) for a in sorted(found)]

    def _scattered(self, values: list[Any], workers: list[str | None] | None) -> Future:
        try:
            return self.client.scatter(
                values, workers=workers, hash=False, direct=self.direct, timeout=PATIENCE
            )[0]
        except (OSError, TimeoutError) as error:
            self._require_scheduler(error)
            self._require_workers(error)
            raise LostError(str(error)) from error

    def result(self, future: Future) -> Any:
        """The result of a task."""
        with self._at_work():
            self._wait([future])
            return self.client.gather(future, direct=self.direct)

    def finished(self, futures: Sequence[Future]) -> Iterator[int]:
        """Tasks as they end."""
        waiting = dict(enumerate(futures))
        while waiting:
            with self._at_work():
                self._wait(list(waiting.values()))
            for i in [i for i, future in waiting.items() if future.done()]:
                del waiting[i]
                yield i

    def _wait(self, futures: list[Future]) -> None:
        """Wait for one of these tasks, as long as there is anyone to do them."""
        while True:
            try:
                with self.client.as_current():
                    wait(futures, timeout=PATIENCE, return_when="FIRST_COMPLETED")
                return
            except TimeoutError as error:
                self._require_workers(error)

    def _require_workers(self, error: Exception) -> None:
        if self.client.status == "running" and not self._workers():
            raise ConnectionError(
                f"the Dask cluster has had no workers for {PATIENCE} s: start some and fit again; a run that "
                "has a checkpoint goes on from there"
            ) from error

    def _reaches_workers(self) -> bool:
        """Whether this process can talk to workers; else the scheduler passes on what is sent."""
        try:
            with dask.config.set({"distributed.comm.timeouts.connect": f"{GREETING}s"}):
                self.client.scatter([0], workers=[self.workers[0].address], hash=False, direct=True)
        except (OSError, TimeoutError):
            return False
        return True

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Errors of the cluster in words of those who use it."""
        try:
            yield
        except KilledWorker as error:
            raise MemoryError(
                f"workers were killed at work ({error.task}), as they are when they take more memory than "
                "they may"
            ) from error
        except (CancelledError, CommClosedError) as error:
            self._require_scheduler(error)
            raise LostError(str(error)) from error
        except (OSError, TimeoutError) as error:
            self._require_scheduler(error)
            raise

    def _require_scheduler(self, error: Exception) -> None:
        if "scheduler-connection-lost" in str(error) or self.client.status != "running":
            raise ConnectionError(
                "the Dask scheduler is gone: start a new cluster and fit again; a run that has a checkpoint "
                "goes on from there"
            ) from error


def cluster_views(X: Any, y: Any, min_rows: int = 2) -> ClusterViews:
    """Views on arrays or data frames of Dask, on the active client; without one, in this process."""
    client = active_client()
    X, y = _collection(X, y, "X"), _collection(y, X, "y")
    x, y = (_with_own_chunks(client, _optimized(as_dask_column(data))) for data in (X, y))
    sources = _sources(x, y)
    if client is None and any(source.futures for source in sources):
        raise ValueError("the data are on a Dask cluster, and no client of it is active: make one first")
    _warn_of_chunks(x, y)
    return ClusterViews(Here() if client is None else DaskCluster(client), *sources, min_rows)


def open_on(client: Client, x: str, y: str) -> ClusterViews:
    """Views on two sources of files, read by the workers of a client."""
    cluster, found = DaskCluster(client), []
    pins = [worker.address for worker in cluster.workers]
    for label in (x, y):
        # Workers may have been started in another folder.
        source = label if "://" in label else os.path.abspath(label)
        try:
            paths, kind = cluster.result(cluster.submit(listed, source, pin=pins[0]))
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{error} where workers are, which look for it there") from error
        asked = [
            cluster.submit(file_facts, source, kind, path, pin=pins[i * len(pins) // len(paths)])
            for i, path in enumerate(paths)
        ]
        pieces = pieces_of(source, kind, paths, [cluster.result(future) for future in asked], len(pins))
        chunks = tuple(Chunk(part.read, part.name, part.rows) for part in pieces.parts)
        smaller = "cut the files of {1} into parts of at most {0} rows"
        found.append(Source(chunks, label, pieces.names, None, pieces.row_bytes, smaller))
    return ClusterViews(cluster, found[0], found[1])


def lazily(data: Any, f: Callable[[Any], Array], columns: int) -> da.Array:
    """A Dask array of what a function makes of the rows of each chunk, computed when it is asked for."""
    x = as_dask_column(data.to_dask_array() if hasattr(data, "to_dask_array") else data)
    if x.numblocks[1] > 1:
        x = x.rechunk({1: -1})
    dtype = np.float32 if x.dtype.kind == "f" and x.dtype.itemsize <= 4 else np.float64
    return x.map_blocks(f, dtype=dtype, meta=np.empty((0, 0), dtype), chunks=(x.chunks[0], (columns,)))


@contextmanager
def connected(scheduler: str) -> Iterator[Client]:
    """A client of the scheduler at an address, or of workers of this machine: `local`, or `local:4`."""
    if scheduler.partition(":")[0] != "local":
        try:
            client = Client(scheduler, timeout=PATIENCE, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise ConnectionError(f"there is no Dask scheduler at {scheduler}: {error}") from error
        with client:
            yield client
        return
    count = scheduler.partition(":")[2]
    if scheduler != "local" and not (count.isdigit() and int(count)):
        raise ValueError(f"{scheduler!r} is not an address, local, or local:N with a number of workers")
    with (
        LocalCluster(
            n_workers=int(count) if count else os.cpu_count(),
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def as_dask_column(data: Any) -> Any:
    """One-dimensional Dask data as one column."""
    if hasattr(data, "to_frame") and not hasattr(data, "columns"):
        return data.to_frame()
    return data[:, None] if isinstance(data, da.Array) and data.ndim == 1 else data


def active_client() -> Client | None:
    """The client that Dask would use here, if there is one."""
    try:
        return default_client()
    except ValueError:
        return None


def relay(value: Any) -> Any:
    """A value, from one worker to the next."""
    return value


def worker_threads() -> int:
    """Threads of the worker that this is called on."""
    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return blas_threads()


class Graph:
    """The piece of a Dask graph that makes one chunk; column chunks are put side by side."""

    def __init__(self, graph: dict[Any, Any], keys: list[Any]) -> None:
        self.graph, self.keys = graph, keys

    def __call__(self, values: dict[Any, Any] | None = None) -> Any:
        """The rows of the chunk; some of what it is made of may be there already."""
        return _joined(_computed({**self.graph, **(values or {})}, self.keys))


class Together:
    """Two chunks, one of each view, that come from the same data: what they share is computed once."""

    def __init__(self, x: Graph, y: Graph) -> None:
        self.x, self.y = x, y
        self.other: Any = None

    def first(self) -> Any:
        """The chunk of the first view."""
        found = _computed({**self.x.graph, **self.y.graph}, [*self.x.keys, *self.y.keys])
        self.other = _joined(found[len(self.x.keys) :])
        return _joined(found[: len(self.x.keys)])

    def second(self) -> Any:
        """The chunk of the second view, at hand when that of the first has just been asked for."""
        other, self.other = self.other, None
        return self.y() if other is None else other


def _computed(graph: dict[Any, Any], keys: list[Any]) -> Sequence[Any]:
    """The values of keys, computed right here; an error says which files it may be about."""
    try:
        found: Sequence[Any] = dask.get(graph, keys)
        return found
    except Exception as error:
        files = [file for file in _files_named(graph) if os.path.basename(file) not in str(error)]
        if files:
            raise ValueError(f"{error} (in {', '.join(files)})") from error
        raise


def _joined(parts: Sequence[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    ms = [as_matrix(part, "a chunk") for part in parts]
    return sp.hstack(ms, format="csr") if any(map(sp.issparse, ms)) else np.hstack(ms)


def _sources(x: Any, y: Any) -> tuple[Source, Source]:
    """Both collections as chunks."""
    graphs, futures = zip(*(_graphs(data) for data in (x, y)), strict=True)
    rows = [_known_rows(data) for data in (x, y)]
    chunks: list[list[Chunk]] = []
    for view, label in enumerate("Xy"):
        chunks.append([])
        for i, (graph, needs) in enumerate(graphs[view]):
            chunks[view].append(Chunk(graph, f"chunk {i} of {label}", rows[view][i], needs))
    if rows[0] == rows[1]:
        for i, ((a, needs_a), (b, needs_b)) in enumerate(zip(*graphs, strict=True)):
            if not (needs_a or needs_b or a.graph.keys().isdisjoint(b.graph)):
                both = Together(a, b)
                chunks[0][i] = chunks[0][i]._replace(read=both.first)
                chunks[1][i] = chunks[1][i]._replace(read=both.second)
    found = []
    for view, data in enumerate((x, y)):
        source = Source(tuple(chunks[view]), "Xy"[view], futures=futures[view])
        if not isinstance(data, da.Array):
            source = source._replace(names=feature_names(data._meta), smaller=REPARTITION)
        elif isinstance(data._meta, np.ndarray):
            source = source._replace(row_bytes=8.0 * data.shape[1])
        found.append(source)
    return found[0], found[1]


def _graphs(data: Any) -> tuple[list[tuple[Graph, tuple[Any, ...]]], dict[Any, Future]]:
    """The graph of each chunk of rows with the keys of futures in it, and all of these."""
    whole, found, futures = dict(data.__dask_graph__()), [], dict[Any, Future]()
    for keys in data.__dask_keys__():
        keys = keys if isinstance(keys, list) else [keys]
        graph, _ = cull(whole, keys)
        needs = {key: task for key, task in graph.items() if isinstance(task, Future)}
        futures |= needs
        rest = {key: task for key, task in graph.items() if key not in needs}
        found.append((Graph(rest, keys), tuple(needs)))
    return found, futures


def _known_rows(data: Any) -> list[int | None]:
    if not isinstance(data, da.Array):
        return [None] * data.npartitions
    return [None if np.isnan(rows) else int(rows) for rows in data.chunks[0]]


def _collection(data: Any, other: Any, label: str) -> Any:
    """A Dask collection as it is; anything else in chunks like those of the other view."""
    if not hasattr(data, "__dask_graph__"):
        data = as_matrix(as_column(data), label)
        alike = isinstance(other, da.Array) and other.shape[0] == data.shape[0]
        return da.from_array(data, chunks=(other.chunks[0] if alike else "auto", -1), asarray=False)
    if isinstance(data, da.Array):
        if data.ndim not in (1, 2):
            raise ValueError(f"{label} is an array of {data.ndim} dimensions: a view is rows x columns")
        if data.dtype.kind not in "biufO":
            raise TypeError(f"{label} has dtype {data.dtype}: CCA needs real numbers")
    elif not type(data).__module__.startswith("dask.dataframe"):
        raise TypeError(f"{label} is a {type(data).__name__}: use a Dask array or a Dask data frame")
    return data


def _optimized(data: Any) -> Any:
    """A data frame that reads no more than it needs.

    One at a time: `dask.optimize` takes two data frames for each other (2026.8). Arrays stay as they are: a
    chunk is computed in one go, and what it shares with that of the other view can be told.
    """
    return data if isinstance(data, da.Array) else data.optimize()


def _with_own_chunks(client: Client | None, data: Any) -> Any:
    """A collection whose chunks can be computed one by one; one that takes a whole cluster is computed."""
    if client is None:
        return data
    # Tasks that move rows between workers, as shuffles do, are those of the package for clusters.
    tasks = (getattr(task, "func", None) for task in dict(data.__dask_graph__()).values())
    modules = (getattr(task, "__module__", None) or "" for task in tasks)
    return client.persist(data) if any(module.startswith("distributed.") for module in modules) else data


def _warn_of_chunks(x: Any, y: Any) -> None:
    """Say what chunks cost that are not ranges of rows, the same ones in both views."""
    for data, label in ((x, "X"), (y, "y")):
        if isinstance(data, da.Array) and data.numblocks[1] > 1:
            warnings.warn(
                f"the columns of {label} are split into {data.numblocks[1]} chunks: rechunked wherever they "
                f"are read, which takes a copy of them; {label}.rechunk({{1: -1}}) avoids it",
                UserWarning,
                stacklevel=5,
            )
    rows = _known_rows(x), _known_rows(y)
    known = [[count for count in counts if count is not None] for counts in rows]
    if known[0] != known[1] and known == list(rows) and sum(known[0]) == sum(known[1]):
        warnings.warn(
            f"the rows of X and y are split at different places, into {len(rows[0])} and {len(rows[1])} "
            "chunks: rechunked where they are read, and those at the edges of a worker's share read twice; "
            "y.rechunk((X.chunks[0], -1)) avoids it",
            UserWarning,
            stacklevel=5,
        )


def _files_named(graph: dict[Any, Any]) -> list[str]:
    """Files whose paths occur in a graph, wherever its tasks keep them; a byte before may be of other use."""
    found = set()
    for text in re.findall(rb"[\w.=\-/@ ]{4,}", dumps(graph)):
        path = text.decode()
        starts = {0, 1, *(match.start() for match in re.finditer("/", path))}
        found |= {path[start:] for start in starts if "." in path[start:] and os.path.isfile(path[start:])}
    return sorted(found)
