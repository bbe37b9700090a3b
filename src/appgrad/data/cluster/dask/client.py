"""A Dask client as a cluster: tasks, copies of values on all workers, and lost workers."""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import dask
from distributed import (
    Client,
    Future,
    KilledWorker,
    LocalCluster,
    as_completed,
    default_client,
    get_worker,
)
from distributed.comm import CommClosedError

from ....machine.memory import physical_memory
from ....machine.threads import blas_threads
from ..protocol import UNKNOWN_MEMORY, LostError, Worker

# Seconds to wait for the first worker, for a worker to answer, and before checking which are alive.
PATIENCE, GREETING, LOOK = 30, 3, 5


# Number of workers that one of them sends copies to.
FAN_OUT = 4


class Spread(NamedTuple):
    """A value on all workers."""

    futures: dict[str | None, Future]

    def at(self, pin: str | None) -> Future:
        """The future from which a task on this worker takes the value."""
        return self.futures[pin]


class DaskCluster:
    """The workers of a Dask client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        # Workers that were alive at the last check.
        self._alive: set[str | None] = set()
        self._await_workers()
        self.workers = self._workers()
        # The worker that each task is meant for.
        self._pins: WeakKeyDictionary[Future, str | None] = WeakKeyDictionary()
        self.direct = self._reaches_workers()

    @property
    def threads(self) -> Callable[[], int]:
        """A function that returns the number of threads of the worker that calls it."""
        return worker_threads

    def submit(self, f: Callable[..., Any], *args: Any, pin: str | None) -> Future:
        """Future of a task, on the given worker if that is alive."""
        # A new name: the result of an earlier task may have been lost with its worker.
        name = f"appgrad{f.__name__}-{os.urandom(8).hex()}"
        args = tuple(arg.at(pin) if isinstance(arg, Spread) else arg for arg in args)
        there = pin in self._alive
        with self._at_work():
            future = self.client.submit(
                f, *args, key=name, workers=[pin] if there else None, allow_other_workers=there
            )
        if there:
            self._pins[future] = pin
        return future

    def spread(self, value: Any) -> Any:
        """A value on all workers.

        Each worker gets it from an earlier one, and none sends more than a few copies. (Dask's own way to do
        this waits forever for a worker that is lost meanwhile.)
        """
        with self._at_work():
            root = self._scattered(value)
        futures: list[Future] = []
        for i, worker in enumerate(self.workers):
            source = root if i <= FAN_OUT else futures[(i - 1) // FAN_OUT]
            relayed = len(self.workers) > FAN_OUT + 1
            futures.append(self.submit(relay, source, pin=worker.address) if relayed else root)
        return Spread(dict(zip((worker.address for worker in self.workers), futures, strict=True)))

    def _workers(self) -> list[Worker]:
        found = self.client.scheduler_info(n_workers=-1)["workers"]
        # Without a limit, assume that all workers share one machine like this one.
        rest = (physical_memory() or UNKNOWN_MEMORY) / max(1, len(found))
        return [Worker(a, float(found[a]["memory_limit"] or rest)) for a in sorted(found)]

    def _scattered(self, value: Any) -> Future:
        try:
            # In a list: Dask takes a tuple for several values.
            return self.client.scatter([value], hash=False, direct=self.direct, timeout=PATIENCE)[0]
        except (OSError, TimeoutError) as error:
            self._require_scheduler(error)
            self._await_workers()
            raise LostError(str(error)) from error

    def lost(self, future: Future) -> bool:
        """True if a task was cancelled, its data are gone, or it may wait for a worker that is gone.

        If a worker is lost, another does its tasks; but not if all workers were lost at once.
        """
        waits = future.status == "pending" and self._pins.get(future, None) not in {None, *self._alive}
        return waits or future.status in ("cancelled", "lost")

    def result(self, future: Future) -> Any:
        """The result of a task."""
        for _ in self.finished([future]):
            with self._at_work():
                return self.client.gather(future, direct=self.direct)

    def finished(self, futures: Sequence[Future]) -> Iterator[int]:
        """Yield the positions of tasks as they end; wait as long as there are workers."""
        waiting = {future.key: i for i, future in enumerate(futures)}
        while waiting:
            rest = [futures[i] for i in waiting.values()]
            with self._at_work():
                try:
                    for future in as_completed(rest, loop=self.client.loop, timeout=LOOK):
                        yield waiting.pop(future.key)
                except TimeoutError as error:
                    self._look_around(error, rest)

    def _look_around(self, error: Exception, futures: list[Future]) -> None:
        """Raise `LostError` if workers that tasks may wait for are gone; any worker may then do these."""
        self._require_scheduler(error)
        before, self._alive = self._alive, {worker.address for worker in self._workers()}
        if not self._alive:
            self._await_workers()
        if not before <= self._alive or any(self.lost(future) for future in futures):
            raise LostError("workers have gone") from error

    def _await_workers(self) -> None:
        try:
            self.client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError as error:
            raise ConnectionError(
                f"the Dask cluster has had no workers for {PATIENCE} s: start some and fit again; a run that "
                "has a checkpoint goes on from there"
            ) from error
        self._alive = {worker.address for worker in self._workers()}

    def _reaches_workers(self) -> bool:
        """True if this process can talk to workers; else the scheduler passes data on."""
        try:
            with dask.config.set({"distributed.comm.timeouts.connect": f"{GREETING}s"}):
                self.client.scatter([0], workers=[self.workers[0].address], hash=False, direct=True)
        except (OSError, TimeoutError):
            return False
        return True

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Turn errors of Dask into errors that say what happened to the cluster."""
        if self.client.status in ("closing", "closed"):
            raise ConnectionError(
                "the Dask client was closed: make another one and fit again; a run that has a checkpoint "
                "goes on from there"
            )
        try:
            yield
        except KilledWorker as error:
            raise MemoryError(
                f"workers were killed at work ({error.task}), as those are that take more memory than they "
                "may"
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


@contextmanager
def connected(scheduler: str) -> Iterator[Client]:
    """A client of the scheduler at an address, or of workers of this machine: `local`, or `local:4`."""
    # Silence its log: errors report lost connections in fewer words.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    if scheduler.partition(":")[0] != "local":
        if not re.fullmatch(r"((tcp|tls|ws|wss|ucx)://)?[^/:]+:\d+", scheduler):
            raise ValueError(f"{scheduler!r} is no address such as tcp://host:8786, nor local or local:4")
        try:
            client = Client(scheduler, timeout=PATIENCE, set_as_default=False)
        except (OSError, TimeoutError) as error:
            raise ConnectionError(f"there is no Dask scheduler at {scheduler}: {error}") from error
        with client:
            yield client
        return
    count = scheduler.partition(":")[2]
    if scheduler != "local" and not (count.isdecimal() and int(count)):
        raise ValueError(f"{scheduler!r} is not local, or local:N with a number of workers")
    with _uninterrupted():
        cluster = LocalCluster(
            n_workers=int(count) if count else os.cpu_count(),
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        )
    with cluster, Client(cluster, set_as_default=False) as client:
        yield client


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Make processes started meanwhile ignore Ctrl-C, which a terminal sends to all of them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def active_client() -> Client | None:
    """The client that Dask would use here, if there is one.

    None inside of a task, which would wait for others that only its own thread could do.
    """
    try:
        get_worker()
        return None
    except ValueError:
        pass
    try:
        return default_client()
    except ValueError:
        return None


def relay(value: Any) -> Any:
    """The value itself: a task that copies it from one worker to the next."""
    return value


def worker_threads() -> int:
    """Number of threads of the worker that this is called on."""
    try:
        return int(get_worker().state.nthreads)
    except ValueError:
        return blas_threads()
