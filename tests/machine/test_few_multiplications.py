"""Small fits, steps and scores run on one thread of BLAS; large ones keep all threads."""

import numpy as np
import pytest
import scipy.sparse as sp
from machine_helpers import BEFORE, four_threads

from appgrad import CCA, KernelCCA, SparseCCA
from appgrad.data.arrays import ArrayViews
from appgrad.fitting.fit import threads_for
from appgrad.fitting.projection import Projection
from appgrad.machine import threads as module
from appgrad.machine.threads import blas_threads
from appgrad.solvers.stochastic import racing


@pytest.fixture(autouse=True)
def _four_threads():
    with four_threads() as now:
        yield
        assert now() == {BEFORE}


@pytest.fixture
def data(rng):
    # Gram matrices of more rows take seconds on more threads than there are cores.
    Z = rng.standard_normal((100, 2))
    return tuple(Z @ rng.standard_normal((2, p)) + rng.standard_normal((100, p)) for p in (12, 9))


@pytest.fixture
def products():
    """Threads that BLAS had at each product of two matrices: asked by the right one of them."""
    found = []

    class Asking(np.ndarray):
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            if ufunc is np.matmul:
                found.append(blas_threads())
            plain = [np.asarray(z) if isinstance(z, Asking) else z for z in inputs]
            return getattr(ufunc, method)(*plain, **kwargs)

    return found, lambda m: m.view(Asking)


def fits():
    yield from (CCA(2, solver=s) for s in ("exact", "qr", "lobpcg", "als", "appgrad"))
    yield CCA(2, solver="exact", n_jobs=3)
    yield CCA(2, solver="stochastic", max_passes=3, batch_size=50, random_state=0)
    yield from (KernelCCA(2, solver=s, ridge=0.1) for s in ("exact", "lobpcg"))
    yield from (SparseCCA(1, solver=s, n_nonzero=3) for s in ("pursuit", "appgrad"))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
@pytest.mark.parametrize("model", [*fits()], ids=lambda model: f"{type(model).__name__}-{model.solver}")
@pytest.mark.parametrize("few", [True, False])
def test_a_small_fit_has_one_thread_and_a_large_one_has_all(data, monkeypatch, model, few):
    if not few:
        monkeypatch.setattr(module, "FEW", 0)
    seen = []
    model.set_params(callback=lambda progress: seen.append(blas_threads())).fit(*data)
    assert set(seen) == {1 if few else model.n_jobs or BEFORE}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_steps_on_minibatches_have_one_thread_in_a_large_fit_too(data, monkeypatch):
    seen, stepped = [], racing.stepped
    monkeypatch.setattr(racing, "stepped", lambda *a: seen.append(blas_threads()) or stepped(*a))
    monkeypatch.setattr("appgrad.estimators.base.threads_for", lambda *a: None)
    model = CCA(2, solver="stochastic", max_passes=3, batch_size=50, random_state=0)
    model.fit(*data)
    assert set(seen) == {1}


@pytest.mark.parametrize("few", [True, False])
def test_scores_of_few_rows_have_one_thread(data, monkeypatch, products, few):
    found, asking = products
    model = CCA(2).fit(*data)
    solution = model._solved().solution
    if not few:
        monkeypatch.setattr(module, "FEW", 0)
    U = Projection(solution.mean_x, asking(solution.x_weights), "X")(data[0])
    np.testing.assert_allclose(U, model.transform(data[0]))
    assert set(found) == {1 if few else BEFORE}


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("kept", ["exact", "stochastic"])
def test_rows_of_a_stream_have_one_thread_if_they_are_few(data, monkeypatch, kept, few):
    model = CCA(2, solver=kept, batch_size=50, random_state=0).partial_fit(*data)
    if not few:
        monkeypatch.setattr(module, "FEW", 0)
    seen, add = [], type(model._stream).add
    monkeypatch.setattr(
        type(model._stream), "add", lambda self, rows: seen.append(blas_threads()) or add(self, rows)
    )
    model.partial_fit(*data)
    assert seen == [1 if few else BEFORE]


def shaped(n, p1, p2, density=None):
    """Views of this shape whose values do not matter, and take no memory."""
    if density is None:
        return ArrayViews(*(np.broadcast_to(0.0, (n, p)) for p in (p1, p2)))
    return ArrayViews(*(sp.csr_array(sp.random(n, p, density, random_state=0)) for p in (p1, p2)))


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(
    ("views", "small"),
    [
        (shaped(200, 10, 10), True),
        (shaped(1000, 100, 100), True),
        (shaped(200, 1000, 1000), True),
        (shaped(10**6, 4, 4), False),
        (shaped(10**5, 100, 100), False),
        (shaped(4000, 600, 600), False),
        (shaped(100, 10**6, 10**6), False),
        (shaped(500, 300, 200, 0.02), True),
        (shaped(20_000, 3000, 2000, 0.001), False),
    ],
    ids=lambda value: None if isinstance(value, bool) else f"{value.n_samples} x {value.widths}",
)
def test_what_is_small(views, small, n_jobs):
    assert threads_for(views, 2, n_jobs) == (1 if small else n_jobs)
