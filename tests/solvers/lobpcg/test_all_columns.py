"""A look at the covariances of all columns, where these are few: it knows what iterations may miss."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from appgrad import CCA
from appgrad.data.arrays import ArrayViews
from appgrad.solvers.lobpcg import iteration, solver
from appgrad.solvers.lobpcg.all_columns import AllColumns, all_columns_for
from helpers import operator
from lobpcg_helpers import crowd, fitted, topics

# Without the look, each of them missed 0.0004 to 0.0016 of the correlation, one component 0.0006 to 0.005.
CROWDS = [
    ((8000, 600, 2, 10, 0.02, 1), 10, 1e-5, "sparse"),
    ((10000, 567, 2, 5, 0.05, 0), 4, 1e-5, "sparse"),
    ((8000, 400, 2, 5, 0.05, 1), 4, 1e-7, "array"),
    ((20000, 500, 2, 10, 0.02, 1), 10, 1e-7, "matrices"),
]


@pytest.fixture(scope="module", params=CROWDS, ids=[c[-1] + str(i) for i, c in enumerate(CROWDS)])
def problem(request):
    """The data, components and parameters, and the best correlations."""
    data, k, ridge, kind = request.param
    X, y = crowd(*data)
    best = CCA(k, solver="exact", ridge=ridge).fit(X, y).canonical_correlations_
    if kind == "array":
        X, y = X.toarray(), y.toarray()
    params = {"ridge": ridge} | ({"covariance": "dense"} if kind == "matrices" else {})
    return X, y, k, params, best


def test_crowds_are_known_and_not_warned_of(problem):
    X, y, k, params, best = problem
    model, warned = fitted(X, y, k, **params)
    np.testing.assert_allclose(model.canonical_correlations_, best, atol=1e-5)
    assert not warned


@pytest.mark.parametrize("oversampling", ["auto", 0])
def test_a_crowd_without_a_look_is_warned_of(oversampling):
    """Dense rows, or most columns in many rows, where the covariances of all do not fit into memory."""
    X, y = (Z.toarray() for Z in crowd(8000, 400, 2, 5, 0.05, 1))
    params = {"solver": "lobpcg", "random_state": 0, "oversampling": oversampling, "ridge": 1e-7}
    with config_context(working_memory=1), pytest.warns(ConvergenceWarning, match="no look at all columns"):
        CCA(4, **params).fit(X, y)


def test_sparse_rows_of_frequent_columns_are_warned_of(rng, monkeypatch):
    """The look at clusters is one at rare columns only, and narrow views have none."""
    monkeypatch.setattr(solver, "all_columns_for", lambda *args: None)
    S, rho = rng.standard_normal((4000, 800)), rng.uniform(0.998, 0.9991, 800)
    T, full = rho * S + np.sqrt(1 - rho**2) * rng.standard_normal(S.shape), rng.random(S.shape) < 0.05
    X, y = sp.csr_array(S * full), sp.csr_array(T * full)
    with pytest.warns(ConvergenceWarning, match="no look at all columns"):
        CCA(4, solver="lobpcg", ridge=1e-6, random_state=0).fit(X, y)


def test_strong_pairs_above_others_are_no_crowd(rng):
    S = rng.standard_normal((4000, 300))
    rho = np.concatenate([[0.999, 0.998, 0.996, 0.99], np.full(296, 0.3)])
    X, y = S, rho * S + np.sqrt(1 - rho**2) * rng.standard_normal(S.shape)
    with config_context(working_memory=1):
        model, warned = fitted(X, y, 4, ridge=1e-6)
    assert not warned
    best = CCA(4, solver="exact", ridge=1e-6).fit(X, y).canonical_correlations_
    np.testing.assert_allclose(model.canonical_correlations_, best, atol=1e-4)


def test_a_run_that_knows_all_ends(monkeypatch):
    looks, looked = [], iteration.LOBPCG._with_all_pairs

    def counted(self, state, cov):
        looks.append(len(looks))
        return looked(self, state, cov)

    monkeypatch.setattr(iteration.LOBPCG, "_with_all_pairs", counted)
    X, y = crowd(2000, 550, 2, 10, 0.02, 3)
    best = CCA(5, solver="exact", ridge=1e-5).fit(X, y).canonical_correlations_
    model, _ = fitted(X, y, 5, ridge=1e-5)
    assert looks == [0]
    assert best.sum() - model.history_[-2]["tcc"] > 1e-7
    assert abs(best.sum() - model.history_[-1]["tcc"]) < 1e-7


def test_a_run_on_few_columns_probes_no_more(monkeypatch):
    X, y = (Z.toarray() for Z in topics(8000, 300, 200))
    model, _ = fitted(X, y, 3)
    monkeypatch.setattr(iteration.LOBPCG, "_looks_at_all", lambda *args: False)
    longer, _ = fitted(X, y, 3)
    assert model.n_passes_ < longer.n_passes_ / 2
    best = CCA(3, solver="exact").fit(X, y).canonical_correlations_
    np.testing.assert_allclose(model.canonical_correlations_, best, atol=1e-4)


def test_no_look_where_the_matrices_do_not_fit():
    views = ArrayViews(*crowd(2000, 600))
    assert all_columns_for(None, views, 4, np.inf).in_crowds
    with config_context(working_memory=1):
        assert all_columns_for(None, views, 4, np.inf) is None


def test_no_look_where_it_would_take_long():
    rng = np.random.default_rng(0)
    wide = ArrayViews(rng.standard_normal((200, 1700)), rng.standard_normal((200, 1700)))
    assert all_columns_for(None, wide, 4, np.inf).steps > 40
    assert all_columns_for(None, ArrayViews(*crowd(2000, 900, 2)), 4, np.inf).steps > 40
    assert all_columns_for(None, wide, 4, 1.0) is None


def test_a_look_keeps_the_passes_allowed():
    X, y = crowd(8000, 600, 2, 10, 0.02, 1)
    for passes in (12, 104, 110):
        model, _ = fitted(X, y, 10, ridge=1e-5, max_passes=passes)
        assert model.n_passes_ <= passes


@pytest.mark.parametrize("dense", [False, True])
def test_all_pairs_are_those_of_the_exact_solver(dense):
    X, y = crowd(2000, 100)
    cov = operator(X, y, ridge=1e-4, dense=dense)
    found = AllColumns(cov).pairs(5)
    Gx, Gxy, Gy = cov.grams(found.A, found.B)
    best = CCA(5, solver="exact", ridge=1e-4).fit(X, y).canonical_correlations_
    np.testing.assert_allclose(Gxy, np.diag(best), atol=1e-8)
    np.testing.assert_allclose(Gx, np.eye(5), atol=1e-8)
    np.testing.assert_allclose(Gy, np.eye(5), atol=1e-8)
