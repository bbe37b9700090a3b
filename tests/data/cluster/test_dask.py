"""Dask: fits to rows on a cluster have the same results as fits to rows in memory."""

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import CCA, KernelCCA, SparseCCA, SparseCCACV, plan
from appgrad.data.sources import as_views
from appgrad.solvers.lobpcg import solver as lobpcg_solver
from appgrad.solvers.lobpcg.all_columns import AllColumns
from appgrad.solvers.lobpcg.rare_pairs import RareColumns
from dask_helpers import MARKS, PATIENCE, chunked, da, difference, distributed, workers
from helpers import ITERATIVE, SOLVER_SETTINGS, fitted
from lobpcg_helpers import crowd

pytestmark = MARKS


SOLVERS = {"auto": ({}, 0), **SOLVER_SETTINGS}


@pytest.mark.parametrize("solver", SOLVERS)
def test_solvers_find_what_they_find_on_one_machine(client, problem, solver):
    params, _ = SOLVERS[solver]
    params = {"max_iter": 40, **params} if solver in ITERATIVE and "stochastic" not in solver else params
    here, there = fitted(*problem, **params), fitted(*chunked(*problem), **params)
    assert difference(here, there) < 1e-10
    assert here.n_passes_ == there.n_passes_
    assert here.solver_ == there.solver_


@pytest.mark.parametrize("solver", ["exact", "lobpcg"])
def test_streamed_rows_give_the_same(client, streamed, problem, solver):
    params, _ = SOLVERS[solver]
    assert difference(fitted(*problem, **params), fitted(*chunked(*problem), **params)) < 1e-10


def test_minibatches_of_streamed_rows_find_the_same(client, streamed, problem):
    params, tolerance = SOLVERS["stochastic"]
    here, there = fitted(*problem, solver="exact"), fitted(*chunked(*problem), **params)
    np.testing.assert_allclose(here.canonical_correlations_, there.canonical_correlations_, atol=tolerance)


def test_small_covariances_take_one_pass(client, problem):
    """And one more for effective rows."""
    model = fitted(*chunked(*problem))
    assert (model.solver_, model.n_passes_) == ("exact", 2)


def test_two_runs_are_identical(client, problem):
    for params in ({"solver": "lobpcg"}, {"solver": "exact"}):
        one, two = (fitted(*chunked(*problem), **params) for _ in range(2))
        np.testing.assert_array_equal(one.x_weights_, two.x_weights_)


def test_one_dimensional_y(client, problem):
    x, y = chunked(*problem)
    model = CCA(1).fit(x, y[:, 0])
    predicted = model.predict(x)
    assert predicted.shape == (600,)
    np.testing.assert_allclose(
        predicted.compute(), CCA(1).fit(problem[0], problem[1][:, 0]).predict(problem[0])
    )


def test_scores_are_lazy(client, problem):
    x, y = chunked(*problem)
    model, reference = CCA(2).fit(x, y), CCA(2).fit(*problem)
    U, V = model.transform(x, y)
    assert isinstance(U, da.Array)
    assert U.chunks == (x.chunks[0], (2,))
    for found, expected in zip((U, V), reference.transform(*problem), strict=True):
        np.testing.assert_allclose(found.compute(), expected, atol=1e-12)
    assert model.score(x, y) == pytest.approx(reference.score(*problem), abs=1e-12)
    np.testing.assert_allclose(model.predict(x).compute(), reference.predict(problem[0]), atol=1e-12)
    U, _ = CCA(2).fit_transform(x, y)
    np.testing.assert_allclose(U.compute(), reference.transform(problem[0]), atol=1e-12)
    assert model.transform(x.astype(np.float32)).dtype == np.float32


def test_score_of_constant_scores_is_zero(problem):
    X, Y = problem
    model = CCA(1).fit(X, Y)
    same = np.repeat(X[:1], 50, axis=0)
    assert model.score(as_views(same, Y[:50])) == pytest.approx(0, abs=1e-6)


def test_kernels_of_landmarks(client, problem):
    params = {"approximation": "nystroem", "n_landmarks": 30, "random_state": 0}
    here, there = (KernelCCA(2, **params).fit(*data) for data in (problem, chunked(*problem)))
    np.testing.assert_allclose(here.canonical_correlations_, there.canonical_correlations_, atol=1e-10)
    np.testing.assert_allclose(
        here.transform(problem[0]), there.transform(chunked(*problem)[0]).compute(), atol=1e-7
    )
    with pytest.raises(TypeError, match="not in one place"):
        KernelCCA(2).fit(*chunked(*problem))
    with pytest.raises(TypeError, match="not in one place"):
        KernelCCA(2).fit(as_views(*chunked(*problem)))


@pytest.mark.parametrize("memory", [None, 0.005])
def test_sparse_components(client, problem, memory):
    from sklearn import config_context

    with config_context(working_memory=memory):
        here, there = (SparseCCA(2, n_nonzero=4).fit(*data) for data in (problem, chunked(*problem)))
    assert difference(here, there) < 1e-10


def test_sparse_components_chosen_by_held_out_rows(client, problem):
    here, there = (
        SparseCCACV(SparseCCA(1), n_nonzeros=[2, 4], cv=3).fit(*data) for data in (problem, chunked(*problem))
    )
    np.testing.assert_allclose(here.scores_, there.scores_, atol=1e-10)
    assert here.n_passes_ == there.n_passes_


def test_partial_fit_takes_dask_too(client, problem):
    model = CCA(3).partial_fit(*chunked(*problem))
    assert difference(model, CCA(3).fit(*problem)) < 1e-10


def test_plan_reads_no_more_than_a_chunk(client, problem):
    assert plan(*chunked(*problem), n_components=2).solver == "exact"


def test_progress_counts_rows(client, problem):
    seen = []
    model = CCA(2, solver="lobpcg", callback=lambda p: seen.append((p.rows, p.passes))).fit(
        *chunked(*problem)
    )
    assert seen[-1][0] == 600 * seen[-1][1]
    assert model.n_passes_ >= seen[-1][1]


def test_a_fit_within_a_task(problem):
    def fit():
        return fitted(*chunked(*problem)).canonical_correlations_

    with (
        workers(1, processes=False) as found,
        distributed.Client(found) as client,
    ):
        inside = client.submit(fit).result(timeout=PATIENCE)
    np.testing.assert_allclose(inside, fitted(*problem).canonical_correlations_, atol=1e-10)


def test_without_distributed_an_error_says_what_to_install(problem):
    code = (
        "import sys; sys.modules['distributed'] = None; import numpy as np, dask.array as da; "
        "from appgrad import CCA; CCA(1).fit(da.ones((9, 2)), da.ones((9, 2)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'appgrad[dask]'" in run.stderr.splitlines()[-1]


def test_dask_is_imported_by_its_users_alone():
    loaded = "'dask' in sys.modules or 'distributed' in sys.modules"
    code = f"import sys, appgrad, appgrad.cli.main; sys.exit({loaded})"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("few", [True, False])
def test_looks_of_lobpcg_are_the_same_on_workers(client, monkeypatch, few):
    """Clusters of rare columns, and the covariances of all columns where these are few."""
    if not few:
        monkeypatch.setattr(lobpcg_solver, "all_columns_for", lambda *args: None)
    X, y = crowd(4000, 520, 2, 10, 0.02, 3)
    asked, best = [], CCA(5, solver="exact", ridge=1e-5).fit(X, y).canonical_correlations_
    kind = AllColumns if few else RareColumns
    pairs = kind.pairs

    def counted(*args):
        asked.append(1)
        return pairs(*args)

    monkeypatch.setattr(kind, "pairs", counted)

    def in_chunks(Z):
        parts = (sp.csr_matrix(Z[i : i + 1000]) for i in range(0, Z.shape[0], 1000))
        return da.concatenate([da.from_array(part, asarray=False, chunks=-1) for part in parts])

    model = fitted(in_chunks(X), in_chunks(y), 5, solver="lobpcg", ridge=1e-5)
    assert asked
    np.testing.assert_allclose(model.canonical_correlations_, best, atol=1e-3)
    assert 1 - model.canonical_correlations_.sum() / best.sum() <= 3e-4
