"""Threads: how many, which of them BLAS may use, and work given to them in a fixed order."""

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

# Rows of a p x 3k matrix that stay in the cache through several operations.
CACHED_ROWS = 4096


def blas_threads() -> int:
    """Number of threads BLAS would use here. Sparse products use as many, so threadpoolctl limits hold."""
    return max(1, min((pool.num_threads for pool in _pools().lib_controllers), default=1))


@cache
def _pools() -> ThreadpoolController:
    """The BLAS libraries of numpy and scipy, found once: a search costs 5 ms, most of a small fit."""
    return ThreadpoolController().select(user_api="blas")


_blas_owner = RLock()


def _after_fork() -> None:
    """Give a child process a new lock: its parent's threads, one of which may hold the old one, are gone."""
    global _blas_owner
    _blas_owner = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def blas_limit(threads: int) -> Iterator[bool]:
    """Limit the threads of BLAS; yields False, with no limit set, while another thread holds one.

    The limit belongs to the process. If two overlapping limits each restored what they found, one of them
    would stay behind.
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
    """Number of tasks of this process that want one BLAS thread, and the limit to lift after the last."""

    def __init__(self) -> None:
        self.lock, self.users, self.limit = Lock(), 0, ExitStack()


_shared = _Shared()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while any task in this process wants that.

    Sums that BLAS forms on several threads depend on their number, and so on what else is running.
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

    One thread works on each item, BLAS included. For blocks of rows this is faster than a parallel BLAS block
    by block (subtracting and converting are parallel too), and no result depends on the number of threads.
    A single item may use all threads of BLAS.
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


def over_rows(f: Callable[[slice], T], p: int) -> list[T]:
    """List of f(rows) for ranges of the p rows of thin matrices, in order, on as many threads as BLAS has.

    Ranges fit into a cache: several operations on one cost little more than reading it once.
    """
    ranges = [slice(start, min(start + CACHED_ROWS, p)) for start in range(0, p, CACHED_ROWS)]
    # Asking BLAS for its threads takes as long as a small task.
    threads = 1 if len(ranges) == 1 else min(blas_threads(), len(ranges))
    with blas_limit(1) as alone:
        if not alone or threads <= 1:
            return [f(rows) for rows in ranges]
        # One task per thread: one per range would spend a tenth of the time on scheduling.
        share = [ranges[i::threads] for i in range(threads)]
        # Copy the context: numpy keeps its settings for overflow warnings there.
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
    """Thread pool of this process: starting threads for every pass would take a tenth of a small one."""
    return _workers(threads, os.getpid())


@cache
def _workers(threads: int, process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="appgrad")
