"""What a fit may use of the machine: memory, threads, which of them BLAS may use, work in a fixed order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import copy_context
from functools import cache
from itertools import chain
from threading import Lock, RLock
from typing import TypeVar

from threadpoolctl import ThreadpoolController

S = TypeVar("S")
T = TypeVar("T")

# Rows of a p x 3k matrix that stay in the cache while several things are done to them.
CACHED_ROWS = 4096


def blas_threads() -> int:
    """Threads that BLAS would use here, so that threadpoolctl limits hold for sparse products too."""
    pools = [pool["num_threads"] for pool in _pools().info() if pool["user_api"] == "blas"]
    return max(1, min(pools, default=1))


@cache
def _pools() -> ThreadpoolController:
    """The BLAS libraries of numpy and scipy, looked for once: a search costs 5 ms, most of a small fit."""
    return ThreadpoolController()


_blas_owner = RLock()


def _after_fork() -> None:
    """A child has the threads of its parent no more, nor may it wait for a lock one of them holds."""
    global _blas_owner
    _blas_owner = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def blas_limit(threads: int) -> Iterator[bool]:
    """Limit the threads of BLAS; yields False, with no limit set, while another thread holds one.

    The limit belongs to the process: were two that overlap each to restore what they found, one of them
    would leave its limit behind.
    """
    owner = _blas_owner
    if not owner.acquire(blocking=False):
        yield False
        return
    try:
        with _pools().limit(limits=threads, user_api="blas"):
            yield True
    finally:
        owner.release()


class _Shared:
    """How many tasks of this process want BLAS to have one thread, and what ends that."""

    def __init__(self) -> None:
        self.lock, self.users, self.limit = Lock(), 0, ExitStack()


_shared = _Shared()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS with one thread, for as long as any of several tasks in this process wants that.

    Sums that BLAS forms on several threads depend on how many these are, and so on who else is at work.
    """
    with _shared.lock:
        if not _shared.users:
            _shared.limit.enter_context(_pools().limit(limits=1, user_api="blas"))
        _shared.users += 1
    try:
        yield
    finally:
        with _shared.lock:
            _shared.users -= 1
            if not _shared.users:
                _shared.limit.close()


def ordered_map(f: Callable[[S], T], items: Iterator[S], threads: int) -> Generator[T, None, None]:
    """`map` in order over a thread pool, with at most `threads + 1` items in flight.

    Each item is worked on by one thread, BLAS included: for blocks of rows faster than a parallel BLAS block
    by block (subtracting and converting are parallel too), and no result depends on how many threads
    there are. A single item is left to BLAS.
    """
    first, second = next(items), next(items, None)
    items = chain([first], [] if second is None else [second], items)
    with nullcontext(False) if threads == 1 or second is None else blas_limit(1) as alone:
        if not alone:
            yield from map(f, items)
            return
        pool, pending = workers(threads), deque[Future[T]]()
        try:
            for item in items:
                pending.append(pool.submit(copy_context().run, f, item))
                if len(pending) > threads:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            # Whatever ends this early, nothing goes on behind its back.
            for future in pending:
                future.cancel()
            wait(pending)


def read_ahead(reads: Iterator[Callable[[], T]]) -> Generator[Callable[[], T], None, None]:
    """The same calls, made one after the other in a thread of their own, each before it is asked for."""
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
        # Not waited for: whoever drops this may be the reader itself, or a child without its thread.
        reader.shutdown(wait=False, cancel_futures=not whole)


def over_rows(f: Callable[[slice], T], p: int) -> list[T]:
    """f(rows) for ranges of the p rows of thin matrices, on as many threads as BLAS has; results in order.

    Ranges fit into a cache: what is done to one costs little more than reading it once.
    """
    ranges = [slice(start, min(start + CACHED_ROWS, p)) for start in range(0, p, CACHED_ROWS)]
    # Asking takes as long as a small task.
    threads = 1 if len(ranges) == 1 else min(blas_threads(), len(ranges))
    with blas_limit(1) as alone:
        if not alone or threads <= 1:
            return [f(rows) for rows in ranges]
        # One task a thread: a task for each range would spend a tenth of the time on handing them out.
        share = [ranges[i::threads] for i in range(threads)]
        # In a context like this one, which is where numpy keeps what it is to say of overflows.
        futures = [
            workers(threads).submit(copy_context().run, lambda part: [f(rows) for rows in part], part)
            for part in share
        ]
        try:
            found = [future.result() for future in futures]
        finally:
            wait(futures)
    return [found[i % threads][i // threads] for i in range(len(ranges))]


def workers(threads: int) -> ThreadPoolExecutor:
    """The threads of this process: starting new ones for every pass would take a tenth of a small one."""
    return _workers(threads, os.getpid())


@cache
def _workers(threads: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="appgrad")
