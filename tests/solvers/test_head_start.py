"""The start from the head: what it holds before the first iteration, and where a run has one."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from appgrad import CCA, plan
from appgrad.covariance.heads import head_of
from appgrad.covariance.joint import joint
from appgrad.data.arrays import ArrayViews
from appgrad.solvers.head_start import LEAST, LEAST_ROWS, head_size, least_ridge, start_of, summed_share
from appgrad.solvers.lobpcg.solver import SOLVER
from appgrad.solvers.problem import Limits
from appgrad.solvers.protocol import Options
from helpers import operator
from lobpcg_helpers import fitted, topics


@pytest.fixture(scope="module")
def texts():
    return topics(8000, 1500, 1200)


@pytest.fixture(scope="module")
def best(texts):
    return CCA(5, solver="exact", ridge=1e-3).fit(*texts).canonical_correlations_


def test_three_passes_give_the_answer_of_the_head(texts, best):
    """Moments, sums of the head, and the products of its pairs."""
    model, _ = fitted(*texts, 5, ridge=1e-3, max_passes=3)
    assert model.n_passes_ == 3
    assert model.canonical_correlations_.sum() > 0.9 * best.sum()
    without, _ = fitted(*texts, 5, ridge=1e-3, max_passes=3, preconditioner="jacobi")
    assert without.canonical_correlations_.sum() < 0.7 * best.sum()
    # The first iteration says so at once.
    assert model.history_[0]["tcc"] > 0.9 * best.sum()


@pytest.mark.parametrize("ridge", [1e-3, 1e-4])
def test_more_passes_capture_more(ridge, texts):
    found = [
        fitted(*texts, 5, ridge=ridge, max_passes=n)[0].canonical_correlations_.sum() for n in range(2, 14)
    ]
    assert np.all(np.diff(found) > -1e-4)


@pytest.mark.parametrize("ridge", ["auto", 1e-3, (1e-2, 1e-4)])
@pytest.mark.parametrize("params", [{}, {"center": False}, {"scale": True}, {"oversampling": 0}])
def test_a_start_does_not_change_the_answer(ridge, params, texts):
    if params.get("scale") and ridge != "auto":
        ridge = 1.0
    model, _ = fitted(*texts, 4, ridge=ridge, **params)
    known = {name: value for name, value in params.items() if name != "oversampling"}
    exact = CCA(4, solver="exact", ridge=ridge, **known).fit(*texts).canonical_correlations_
    assert 1 - model.canonical_correlations_.sum() / exact.sum() < 3e-4
    assert np.all(model.canonical_correlations_ < exact + 1e-6)


@pytest.mark.parametrize("widths", [(5, 1500), (1500, 1), (1200, 40)])
def test_views_of_very_different_width(widths, texts):
    X, Y = texts[0][:, : widths[0]], sp.csr_array(texts[0][:, 3 : 3 + widths[1]])
    k = min(3, *widths)
    model, _ = fitted(sp.csr_array(X), Y, k, ridge=1e-2)
    exact = CCA(k, solver="exact", ridge=1e-2).fit(X, Y).canonical_correlations_
    np.testing.assert_allclose(model.canonical_correlations_, exact, atol=1e-3)


def test_a_head_is_for_sparse_rows_of_wide_views(texts, rng):
    views, options = ArrayViews(*texts), Options("lobpcg")
    assert SOLVER.kind(views, options, matrices=False) == "jacobi"
    assert SOLVER.head(views, options, matrices=False) > 0
    for other in (
        options._replace(preconditioner="jacobi"),
        options._replace(preconditioner=None),
        options._replace(limits=Limits(passes=2)),
    ):
        assert SOLVER.head(views, other, matrices=False) == 0
    assert SOLVER.head(views, options, matrices=True) == 0
    assert SOLVER.for_kernels().head(views, options, matrices=False) == 0
    dense = ArrayViews(rng.standard_normal((50, 1100)), rng.standard_normal((50, 3)))
    assert SOLVER.head(dense, options, matrices=False) == 0
    narrow = ArrayViews(texts[0][:, :500], texts[1][:, :500])
    assert SOLVER.head(narrow, options, matrices=False) == 0


def test_the_size_of_a_head_follows_the_cost_of_a_pass_and_the_memory(texts):
    views = ArrayViews(*texts)
    many = ArrayViews(*(sp.vstack([m] * 8, format="csr") for m in texts))
    assert 50 <= head_size(views) < head_size(many) <= 2000
    with config_context(working_memory=1):
        assert head_size(many) < 100
    with config_context(working_memory=0.1):
        assert head_size(many) == 0


def long_rows(rng, n, p, density):
    """Two sparse views of n rows of many entries; their p columns correlate in pairs, by 0 to 0.9."""
    S, rho, full = rng.standard_normal((n, p)), rng.uniform(0, 0.9, p), rng.random((n, p)) < density
    T = rho * S + np.sqrt(1 - rho**2) * rng.standard_normal((n, p))
    return sp.csr_array(S * full), sp.csr_array(T * full)


def test_sums_of_some_rows_are_for_fewer_columns(rng):
    """A head of more columns than its rows tell apart is worse than none."""
    short, long = (ArrayViews(*long_rows(rng, 3000, 1100, density)) for density in (0.015, 0.08))
    assert summed_share(short) == 1
    assert summed_share(long) < 0.5
    assert head_size(short) > 100
    assert LEAST <= head_size(long) <= summed_share(long) * 3000 / (2 * LEAST_ROWS)
    assert head_size(ArrayViews(*long_rows(rng, 500, 1100, 0.2))) == 0


@pytest.mark.parametrize("solver", ["auto", "lobpcg"])
def test_rows_without_entries_have_no_directions(solver):
    Z = sp.csr_array((1000, 2000))
    assert summed_share(ArrayViews(Z, Z)) == 1
    assert plan(Z, Z, 2).costs
    with pytest.raises(ValueError, match="0 directions"):
        CCA(2, solver=solver).fit(Z, Z)


def test_a_head_does_not_slow_down_long_rows(rng):
    data = long_rows(rng, 3000, 1100, 0.08)
    assert head_size(ArrayViews(*data)) > 0
    head, without = (fitted(*data, 5, ridge=1e-3, preconditioner=M)[0] for M in ("auto", "jacobi"))
    assert head.n_iter_[0] < 1.5 * without.n_iter_[0]
    np.testing.assert_allclose(head.canonical_correlations_, without.canonical_correlations_, atol=1e-3)


def als(data, **params):
    """A model by ALS on rows, and whether it says that it falls short."""
    with config_context(working_memory=20), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = CCA(5, solver="als", ridge=1e-3, random_state=0, **params).fit(*data)
    return model, any(issubclass(w.category, ConvergenceWarning) for w in caught)


def test_als_starts_from_the_head(texts, best):
    """It saves passes."""
    (model, _), (without, _) = (als(texts, max_passes=40, preconditioner=M) for M in ("auto", "jacobi"))
    assert model.history_[0]["tcc"] > 0.95 * best.sum()
    missing, before = (1 - m.canonical_correlations_.sum() / best.sum() for m in (model, without))
    assert -1e-9 < missing < 0.2 * before


@pytest.mark.parametrize("iterations", [1, 3, 6, 10, 20, 40, 80])
def test_als_that_ends_early_holds_tol_or_says_so(iterations, texts, best):
    model, warned = als(texts, max_iter=iterations)
    assert warned or 1 - model.canonical_correlations_.sum() / best.sum() < 3e-4


@pytest.mark.parametrize("solver", ["lobpcg", "als"])
@pytest.mark.parametrize("ridge", ["auto", 1e-3])
def test_a_view_without_columns_that_vary_is_named(solver, ridge, texts):
    Y = sp.csr_array(np.tile([1.0, 0.0], (8000, 10)))
    with config_context(working_memory=20), pytest.raises(ValueError, match="y has 0 directions"):
        CCA(1, solver=solver, ridge=ridge).fit(texts[0], Y)
    with config_context(working_memory=20), pytest.raises(ValueError, match="y has 2 directions"):
        CCA(3, solver=solver, ridge=ridge).fit(texts[0], sp.hstack([Y, texts[1][:, :2]], format="csr"))
    few = sp.hstack([texts[0][:, :3], sp.csr_array((8000, 1097))], format="csr")
    with config_context(working_memory=20), pytest.raises(ValueError, match="X has 3 directions"):
        CCA(4, solver=solver, ridge=ridge).fit(few, texts[1])


def test_the_result_does_not_depend_on_the_number_of_threads():
    """Sums and factors are in the same order."""
    data, found = topics(30000, 4000, 3000), []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(fitted(*data, 5, ridge=1e-3, max_iter=4)[0].x_weights_)
    np.testing.assert_array_equal(*found)


def test_random_columns_guard_the_pairs_of_the_head(texts):
    """They have parts in columns that the head does not have."""
    cov = operator(*texts, ridge=1e-3)
    A, _ = start_of(cov, 5, 10, 100, np.random.default_rng(0), np.inf, 1e-4).first
    assert A.shape[1] == 10
    shares = np.count_nonzero(A, axis=0) / np.count_nonzero(cov.diagonal()[0] > 0)
    assert np.all(shares[:7] < 0.15)
    assert np.all(shares[7:] > 0.9)
    # Without guards, a run starts from random columns, and has the head as its preconditioner.
    start = start_of(cov, 5, 5, 100, np.random.default_rng(0), np.inf, 1e-4)
    assert start.first is None
    assert start.joint is not None


def test_the_least_ridge_is_that_of_columns_outside_of_the_head(texts):
    cov = operator(*texts, ridge=1e-3)
    dx, dy = cov.diagonal()
    assert least_ridge(cov, None) == pytest.approx(1e-3 / max(dx.max(), dy.max()))
    x, y = np.argsort(-dx)[:50], np.argsort(-dy)[:50]
    J = joint(head_of(cov, np.sort(x), np.sort(y)))
    assert least_ridge(cov, J) == pytest.approx(1e-3 / max(np.delete(dx, x).max(), np.delete(dy, y).max()))
    assert least_ridge(operator(*texts, ridge=0.0), J) == 0


def test_a_resumed_run_ends_where_it_would_have(texts, tmp_path):
    """The head is gathered again, and the same."""
    whole, _ = fitted(*texts, 5, ridge=1e-4)
    path = tmp_path / "c.npz"
    first, _ = fitted(*texts, 5, ridge=1e-4, checkpoint=path, max_iter=4)
    assert first.n_iter_[0] == 4
    model, _ = fitted(*texts, 5, ridge=1e-4, checkpoint=path)
    assert model.n_iter_ == whole.n_iter_
    np.testing.assert_allclose(model.canonical_correlations_, whole.canonical_correlations_, atol=1e-9)


def coinciding(rng, count):
    """Sparse rows; so many rare columns of one view coincide with columns of the other."""
    X, Y = ((rng.random((4000, p)) < 0.004).astype(float) for p in (1200, 1100))
    Y[:, 50 : 50 + count] = X[:, 90 : 90 + count] * rng.integers(1, 5, count)
    X[:, 90 : 90 + count] *= 10.0 ** rng.integers(-3, 3, count)
    return sp.csr_array(X), sp.csr_array(Y)


def test_columns_that_coincide_are_the_answer_where_there_is_no_ridge(rng):
    X, Y = coinciding(rng, 8)
    model, warned = fitted(X, Y, 5)
    assert not warned
    np.testing.assert_allclose(model.canonical_correlations_, 1.0, atol=1e-6)
    # Moments, the look for such columns, their covariances, their products, these in double
    # precision, and effective rows.
    assert model.n_passes_ == 6
    # Those that occur most often are taken. Their correlations are equal: the pairs are any basis of these.
    taken = [np.flatnonzero(np.abs(W).max(axis=1) > 1e-3) for W in (model.x_weights_, model.y_weights_)]
    np.testing.assert_array_equal(taken[0] - 90, taken[1] - 50)
    counts = np.diff(X.tocsc().indptr)[90:98]
    assert set(taken[0] - 90) == set(np.argsort(-counts, kind="stable")[:5])


def test_columns_that_coincide_are_taken_if_they_are_independent(rng):
    """The most frequent ones are sums of others: fewer dimensions than pairs."""
    X, Y = (m.toarray() for m in coinciding(rng, 0))
    for i in range(0, 24, 3):
        X[:, i + 1] *= 1 - X[:, i]
        X[:, i + 2] = X[:, i] + X[:, i + 1]
    Y[:, 100:124] = X[:, :24]
    start = start_of(operator(sp.csr_array(X), sp.csr_array(Y)), 16, 21, 100, rng, np.inf, 1e-4)
    assert start.head is None
    assert np.linalg.matrix_rank(X @ start.first[0][:, :16]) == 16
    model, warned = fitted(sp.csr_array(X), sp.csr_array(Y), 16)
    assert not warned
    assert model.n_iter_[0] <= 2
    np.testing.assert_allclose(model.canonical_correlations_, 1.0, atol=1e-6)


@pytest.mark.parametrize(("count", "params"), [(4, {}), (8, {"ridge": 1e-3}), (8, {"tol": 0, "max_iter": 3})])
def test_elsewhere_a_run_starts_from_a_head(count, params, rng):
    """Too few columns coincide, the ridge leaves less of them, or there is no tolerance to reach."""
    cov = operator(*coinciding(rng, count), ridge=params.get("ridge", "auto"))
    found = start_of(cov, 5, 10, 100, np.random.default_rng(0), np.inf, params.get("tol", 1e-4))
    assert found.joint is not None


def test_dependent_columns_that_coincide_do_not_end_a_run(rng):
    """Two columns and their sum are three pairs, but two dimensions."""
    X, Y = (m.toarray() for m in coinciding(rng, 0))
    for i in range(4):
        X[:, 3 * i + 2] = X[:, 3 * i] + X[:, 3 * i + 1]
        Y[:, 3 * i : 3 * i + 3] = X[:, 3 * i : 3 * i + 3]
    X, Y = sp.csr_array(X), sp.csr_array(Y)
    model, warned = fitted(X, Y, 10, ridge=1e-9)
    exact = CCA(10, solver="exact", ridge=1e-9).fit(X, Y).canonical_correlations_
    assert warned or model.canonical_correlations_.sum() > (1 - 3e-4) * exact.sum()
    assert np.all(model.canonical_correlations_ < exact + 1e-6)


def test_a_start_takes_no_longer_than_the_seconds_allowed():
    """Two passes for the choice of a larger head are left out where they would leave none to iterate."""
    rng = np.random.default_rng(0)
    X, y = (sp.random_array((4000, 3000), density=0.002, rng=rng, format="csr") for _ in range(2))
    params = {"ridge": 1e-4, "max_iter": 1}
    with config_context(working_memory=4):
        long, short = (fitted(X, y, 5, **params, **more)[0] for more in ({}, {"max_seconds": 1e-6}))
    assert long.n_passes_ == short.n_passes_ + 2
