"""Threads: how many, which of them BLAS may use, and work given to them in a fixed order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from itertools import chain
from threading import RLock, get_ident, local
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

S = TypeVar("S")
T = TypeVar("T")

# Rows of a p x 3k matrix that stay in the cache through several operations.
CACHED_ROWS = 4096
# Multiplications that one thread does in about 5 ms. Two threads save half of that at best. Beside busy
# processes they wait for each other, some ms each time (benchmarks/small_fits.py).
FEW = 1e8


def blas_threads() -> int:
    """Number of threads BLAS would use here. Sparse products use as many, so threadpoolctl limits hold."""
    return max(1, min((library.num_threads for library in _libraries()), default=1))


@cache
def _libraries(per_thread: bool | None = None) -> tuple[Any, ...]:
    """The BLAS libraries of numpy and scipy, found once: a search costs 5 ms, most of a small fit.

    With `per_thread`, only those whose number of threads is one for each thread that calls them (True), or
    one for the process (False).
    """
    if per_thread is None:
        return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)
    return tuple(library for library in _libraries() if _is_per_thread(library) is per_thread)


def _is_per_thread(library: Any) -> bool:
    return library.internal_api == "mkl" or getattr(library, "threading_layer", "") == "openmp"


class BlasLimits:
    """Limits on the threads of BLAS, several of which may be held at a time: the lowest counts.

    The first holder notes what it finds, and the last one restores that, in whatever order they come and
    go. If each restored what it had found, the wrong limit would stay behind.
    """

    def __init__(self, per_thread: bool) -> None:
        self.per_thread, self.lock = per_thread, RLock()
        # The limit and the thread of each holder, what the first one found, and the limit set last.
        self.held: dict[object, tuple[int, int]] = {}
        self.found: list[int] | None = None
        self.current = 0

    def hold(self, holder: object, threads: int) -> None:
        """Limit BLAS to so many threads, or to fewer while another holder asks for fewer."""
        with self.lock:
            # Before anything is set: if an interrupt comes, `release` undoes what was done.
            self.held[holder] = threads, get_ident()
            if self.found is None:
                self.found = [library.num_threads for library in self._libraries()]
            if len(self.held) == 1:
                self.current = 0
            self._follow()

    def release(self, holder: object) -> None:
        """Give up a limit, if it is held."""
        with self.lock:
            if self.held.pop(holder, None) is not None:
                self._follow()

    def forked(self) -> None:
        """In a child process: drop the limits of other threads, which do not exist there, and their lock."""
        self.lock = RLock()
        self.held = {holder: held for holder, held in self.held.items() if held[1] == get_ident()}
        if self.found is not None:
            self._follow()

    def _follow(self) -> None:
        """Set the lowest limit that is held; without any, restore what the first holder found."""
        if self.held:
            lowest = min(threads for threads, _ in self.held.values())
            if lowest != self.current:
                self.current = lowest
                for library in self._libraries():
                    _set_threads(library, lowest)
            return
        if self.found is None:
            # An interrupt came before anything was set.
            return
        for library, found in zip(self._libraries(), self.found, strict=True):
            # Another number was set by someone else in the meantime, and is theirs.
            if library.num_threads == self.current != found:
                _set_threads(library, found)
        self.found = None

    def _libraries(self) -> tuple[Any, ...]:
        return _libraries(self.per_thread)


def _set_threads(library: Any, threads: int) -> None:
    """Set the number of threads of a library, from any thread.

    `set_num_threads` of OpenBLAS obeys one thread at a time, and ignores all others in silence: a limit set
    in one thread could not be lifted in another.
    """
    getattr(library, "_real_set_num_threads", library.set_num_threads)(threads)


_of_process = BlasLimits(per_thread=False)


class _OfThread(local):
    """Limits of a thread on libraries that have a number of threads for each."""

    def __init__(self) -> None:
        self.limits = BlasLimits(per_thread=True)


_of_thread = _OfThread()
# Held by the thread that uses the thread pool: tasks of a pool must not wait for others of the same pool.
_pool_user = RLock()


def _after_fork() -> None:
    """Renew the locks of a child process: its parent's threads, which may hold them, are gone."""
    global _pool_user
    _pool_user = RLock()
    _of_process.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def blas_limit(threads: int) -> Iterator[None]:
    """Limit the threads of BLAS. Most libraries have one number for the process: it lasts for all holders.

    Sums that BLAS forms on several threads depend on their number.
    """
    holder, limits = object(), [_of_process]
    if _libraries(per_thread=True):
        limits.append(_of_thread.limits)
    try:
        for each in limits:
            each.hold(holder, threads)
        yield
    finally:
        for each in limits:
            each.release(holder)


def limit_for(multiplications: float) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for a product of so many multiplications, if they are few."""
    return blas_limit(1) if are_few(multiplications) else nullcontext()


def are_few(multiplications: float) -> bool:
    """True if the multiplications of one operation are too few to be shared by threads."""
    return multiplications <= FEW


def limit_for_factor(order: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for factors and eigenvectors of a matrix of this order, if it is small.

    Threads meet at every column or two, and pay only where these are long: from about 1000 on.
    """
    return limit_for(order**3 / 10)


@contextmanager
def _one_thread_each(threads: int) -> Iterator[Callable[..., Future[Any]] | None]:
    """Limit BLAS to one thread. Yields what gives work to so many threads, None if these are in use.

    The work then is for the caller: so it is inside of work given to them.
    """
    user = _pool_user
    with blas_limit(1):
        if threads == 1 or not user.acquire(blocking=False):
            yield None
            return
        try:
            yield lambda f, *args: workers(threads).submit(copy_context().run, _limited, f, *args)
        finally:
            user.release()


def _limited(f: Callable[..., T], *args: Any) -> T:
    """f(*args) with one thread of BLAS, of those libraries too that have a number for each thread."""
    with blas_limit(1):
        return f(*args)


def ordered_map(f: Callable[[S], T], items: Iterator[S], threads: int) -> Generator[T, None, None]:
    """`map` in order over a thread pool, with at most `threads + 1` items in flight.

    One thread works on each item, BLAS included. For blocks of rows this is faster than a parallel BLAS block
    by block (subtracting and converting are parallel too), and no result depends on the number of threads.
    A single item may use all threads of BLAS.
    """
    first, second = next(items), next(items, None)
    if threads == 1 or second is None:
        yield f(first)
        yield from map(f, items if second is None else chain([second], items))
        return
    items = chain([first, second], items)
    with _one_thread_each(threads) as submit:
        if submit is None:
            yield from map(f, items)
            return
        pending = deque[Future[T]]()
        try:
            for item in items:
                # A copy of the context: numpy keeps its settings for overflow warnings there.
                pending.append(submit(f, item))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            # On an early exit, no task may go on running.
            for future in pending:
                future.cancel()
            wait(pending)


def read_ahead(reads: Iterator[Callable[[], T]]) -> Generator[Callable[[], T], None, None]:
    """Yield calls that return the results of `reads`, which run in order, ahead of use, in one thread."""
    reader = ThreadPoolExecutor(1, thread_name_prefix="appgrad-reader")
    before: Future[T] | None = None
    whole = False
    try:
        for read in reads:
            now = reader.submit(copy_context().run, read)
            if before is not None:
                yield before.result
            before = now
        if before is not None:
            yield before.result
        whole = True
    finally:
        # Do not wait: this may run in the reader thread itself, or in a child process without it.
        reader.shutdown(wait=False, cancel_futures=not whole)


def over_rows(f: Callable[[slice], T], p: int, step: int = CACHED_ROWS) -> list[T]:
    """List of f(rows) for ranges of the p rows of matrices, in order, on as many threads as BLAS has.

    Ranges of `step` rows fit into a cache: several operations on one cost little more than reading it once.
    """
    ranges = [slice(start, min(start + step, p)) for start in range(0, p, step)]
    # Asking BLAS for its threads takes as long as a small task.
    threads = 1 if len(ranges) == 1 else min(blas_threads(), len(ranges))
    with _one_thread_each(threads) as submit:
        if submit is None:
            return [f(rows) for rows in ranges]
        # One task per thread: one per range would spend a tenth of the time on scheduling.
        share = [ranges[i::threads] for i in range(threads)]
        futures = [submit(lambda part: [f(rows) for rows in part], part) for part in share]
        try:
            found = [future.result() for future in futures]
        finally:
            wait(futures)
    return [found[i % threads][i // threads] for i in range(len(ranges))]


def workers(threads: int) -> ThreadPoolExecutor:
    """Thread pool of this process: starting threads for every pass would take a tenth of a small one."""
    return _workers(threads, os.getpid())


@cache
def _workers(threads: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="appgrad")
