"""Threads of BLAS: one for each block, all for a single block, and limits that are always undone."""

import multiprocessing
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from appgrad.data.arrays import ArrayViews
from appgrad.machine.threads import blas_threads
from helpers import small_blocks


def test_a_block_has_one_thread_of_blas_and_a_single_block_has_all(rng):
    views = ArrayViews(rng.random((100, 2)), rng.random((100, 2)), threads=2)
    assert views.reduce(lambda block: [blas_threads()], list.__add__) == [blas_threads()]
    assert small_blocks(views).reduce(lambda block: [blas_threads()], list.__add__) == [1, 1, 1]


def test_the_limit_on_blas_is_lifted_after_an_error(rng):
    views = small_blocks(ArrayViews(rng.random((100, 2)), rng.random((100, 2)), threads=2))
    before = blas_threads()

    def fail(a, b):
        raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside") as caught:
        views.reduce(lambda block: block.offset, fail)
    assert blas_threads() == before, caught


def test_blas_threads_follow_threadpoolctl():
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        assert blas_threads() == 1


def test_concurrent_reductions_leave_no_limit_behind(rng):
    before = blas_threads()
    views = small_blocks(ArrayViews(rng.random((1000, 20)), rng.random((1000, 20)), threads=2))

    def work(_):
        for _ in range(20):
            views.sum(lambda block: (block.views[0].T @ block.views[1],))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert blas_threads() == before


def test_a_fork_has_threads_of_its_own(rng):
    """A pool of the parent has no threads in a child: work given to it would wait for ever."""
    views = ArrayViews(rng.standard_normal((1000, 3)), rng.standard_normal((1000, 3)), threads=2)
    views.block_rows = 100
    total = views.sum(lambda block: (block.views[0].sum(axis=0),))[0]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.apply_async(_sum_of, (views,)).get(timeout=600)
    np.testing.assert_array_equal(found, total)


def _sum_of(views):
    return views.sum(lambda block: (block.views[0].sum(axis=0),))[0]
