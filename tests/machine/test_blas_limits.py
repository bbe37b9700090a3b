"""Limits on the threads of BLAS: held by many, in any order, and nothing is left behind."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from machine_helpers import BEFORE, four_threads
from threadpoolctl import OpenBLASController, threadpool_limits

from appgrad import CCA
from appgrad.machine import threads as module
from appgrad.machine.threads import blas_limit, blas_threads, over_rows


@pytest.fixture(autouse=True)
def _four_threads():
    with four_threads():
        yield
        assert not module._of_process.held
        # A limit without an end leaves this thread as the one that threadpoolctl obeys.
        OpenBLASController.clear_controlling_thread(force=True)


class Actor:
    """A thread that takes and gives up limits when told to."""

    def __init__(self):
        self.pool, self.held = ThreadPoolExecutor(1), []

    def take(self, threads):
        stack = ExitStack()
        self.pool.submit(stack.enter_context, blas_limit(threads)).result()
        self.held.append((threads, stack))

    def give_up(self, which):
        _, stack = self.held.pop(which)
        self.pool.submit(stack.close).result()


steps = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 9)), max_size=30)


@settings(max_examples=100, deadline=None)
@given(steps=steps)
def test_the_lowest_of_overlapping_limits_counts_and_the_last_restores(steps):
    """Four threads, each with several limits, given up in any order."""
    actors = [Actor() for _ in range(4)]

    def expected():
        return min([threads for actor in actors for threads, _ in actor.held], default=BEFORE)

    for who, threads, choice in [*steps, *((i % 4, 1, 9) for i in range(4 * len(steps)))]:
        actor = actors[who]
        if choice < 5:
            actor.take(threads)
        elif actor.held:
            actor.give_up(choice % len(actor.held))
        assert blas_threads() == expected()
        # A limit that was set by one thread is in force in all of them.
        assert actor.pool.submit(blas_threads).result() == expected()
    assert not any(actor.held for actor in actors)
    assert [library.num_threads for library in module._libraries()] == [BEFORE] * len(module._libraries())
    for actor in actors:
        actor.pool.shutdown()


@pytest.mark.parametrize("seed", range(5))
def test_threads_in_a_hurry_leave_no_limit_behind(seed):
    """Nobody waits for anybody: nested limits, errors and work given to threads, all at once."""
    start = threading.Barrier(8)

    def hurry(number):
        rng = np.random.default_rng([seed, number])
        start.wait()
        for _ in range(50):
            try:
                with blas_limit(int(rng.integers(1, 4))) as _, blas_limit(1):
                    assert blas_threads() == 1
                    found = over_rows(lambda rows: rows.start, int(rng.integers(1, 20_000)))
                    assert found == sorted(found)
                    if rng.random() < 0.2:
                        raise ZeroDivisionError
            except ZeroDivisionError:
                pass
            time.sleep(rng.choice([0, 1e-5]))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(hurry, range(8)))
    assert blas_threads() == BEFORE


def test_work_inside_of_work_is_done_by_its_own_thread():
    """If it waited for a free thread, all of them might wait."""
    found = over_rows(lambda rows: over_rows(lambda _: threading.get_ident(), 20_000), 20_000)
    assert all(len(set(inner)) == 1 for inner in found)


def test_limits_of_users_are_respected():
    with threadpool_limits(2, user_api="blas"):
        with blas_limit(1):
            assert blas_threads() == 1
        assert blas_threads() == 2
    assert blas_threads() == BEFORE


def test_a_limit_set_by_a_user_in_the_meantime_stays():
    with blas_limit(1):
        threadpool_limits(3, user_api="blas")
    assert blas_threads() == 3


def test_a_user_may_limit_blas_in_another_thread_afterwards():
    """threadpoolctl obeys one thread at a time: a fit in a thread that lives on must not stay that one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: CCA(1).fit(np.eye(20)[:, :3], np.eye(20)[:, 2:6])).result()
        with threadpool_limits(2, user_api="blas"):
            assert blas_threads() == 2


def test_an_interrupt_while_a_limit_is_lifted_is_made_good_by_the_next(monkeypatch):
    original = module._set_threads

    def interrupted(library, threads):
        if threads == BEFORE:
            raise KeyboardInterrupt
        original(library, threads)

    with pytest.raises(KeyboardInterrupt), blas_limit(1):
        monkeypatch.setattr(module, "_set_threads", interrupted)
    monkeypatch.undo()
    with blas_limit(2):
        assert blas_threads() == 2
    assert blas_threads() == BEFORE


class Library:
    """A BLAS library of which each thread has a number of threads of its own, as with MKL."""

    internal_api = "mkl"

    def __init__(self):
        self.of = threading.local()

    @property
    def num_threads(self):
        return getattr(self.of, "threads", 8)

    def set_num_threads(self, threads):
        self.of.threads = threads


def test_each_thread_limits_its_own_if_a_library_has_a_number_for_each(monkeypatch):
    library = Library()
    monkeypatch.setattr(
        module, "_libraries", lambda per_thread=None: () if per_thread is False else (library,)
    )
    first, second = Actor(), Actor()
    first.take(1)
    second.take(2)
    seen = [actor.pool.submit(blas_threads).result() for actor in (first, second)]
    first.give_up(0)
    second.give_up(0)
    after = [actor.pool.submit(blas_threads).result() for actor in (first, second)]
    # Work given to threads has one thread of BLAS there.
    inside = over_rows(lambda rows: blas_threads(), 20_000)
    assert (seen, after, set(inside), blas_threads()) == ([1, 2], [8, 8], {1}, 8)
    first.pool.shutdown()
    second.pool.shutdown()


FORK = """
import os, threading
from appgrad.machine.threads import blas_limit, blas_threads
from appgrad.machine import threads as module
import numpy, scipy.linalg
for library in module._libraries():
    module._set_threads(library, 4)

def child(f):
    pid = os.fork()
    if pid == 0:
        os._exit(f())
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

held, done = threading.Event(), threading.Event()
def hold():
    with blas_limit(1), module._of_process.lock:
        held.set()
        done.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
print(blas_threads(), child(blas_threads))
done.set()
thread.join()

def inside():
    with blas_limit(2):
        pass
    return 10 * blas_threads()
with blas_limit(3):
    print(blas_threads(), child(blas_threads), child(inside))
print(blas_threads())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_keeps_its_own_limits_and_drops_those_of_threads_it_does_not_have():
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, check=True
    )
    assert run.stdout.split("\n") == ["1 4", "3 3 30", "4", ""]


def test_fits_in_many_threads_leave_no_limit_behind(rng):
    """Each with another number of threads, and some with an error."""
    Z = rng.standard_normal((400, 2))
    X, Y = (np.hstack([Z, Z]) @ rng.standard_normal((4, p)) + rng.standard_normal((400, p)) for p in (12, 9))

    def fit(number):
        model = CCA(2, n_jobs=[None, 1, 2][number % 3], solver=["exact", "lobpcg", "qr"][number // 3 % 3])
        if number % 5 == 0:
            with pytest.raises(ValueError, match="NaN"):
                model.fit(np.where(X > 3, np.nan, X), Y)
        return model.fit(X, Y).canonical_correlations_

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(fit, range(36)))
    assert blas_threads() == BEFORE
    assert np.ptp(found, axis=0).max() < 1e-3
