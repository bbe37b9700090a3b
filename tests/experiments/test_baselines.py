"""The heuristics of section 4.2: each does what its name says, and none is CCA."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import naive
from appgrad.baselines import dw_cca, heuristic_flops, nw_cca, pca_cca
from appgrad.data.arrays import ArrayViews
from appgrad.solvers.problem import Problem
from helpers import BACKENDS, sparse_counts


def captured_by(X, Y, A, B):
    """TCC of two bases, by the textbook."""
    return naive.tcc((X - X.mean(axis=0)) @ A, (Y - Y.mean(axis=0)) @ B)


@pytest.fixture
def problem(rng):
    Z = rng.standard_normal((300, 4))
    X = np.c_[Z, rng.standard_normal((300, 6))] * np.geomspace(10, 0.1, 10)
    Y = np.c_[Z + rng.standard_normal((300, 4)), rng.standard_normal((300, 4))] @ rng.standard_normal((8, 8))
    return X, Y


@pytest.mark.parametrize("backend", BACKENDS)
def test_nw_cca_is_the_svd_of_the_cross_covariance(backend, problem, tmp_path, rng):
    X, Y = problem
    found = nw_cca(BACKENDS[backend](X, Y, tmp_path), Problem(3), rng)
    P, _, Qt = np.linalg.svd(naive.covariances(X, Y)[1])
    assert found.correlations.sum() == pytest.approx(captured_by(X, Y, P[:, :3], Qt[:3].T), abs=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_dw_cca_is_the_svd_of_the_correlations(backend, problem, tmp_path, rng):
    X, Y = problem
    found = dw_cca(BACKENDS[backend](X, Y, tmp_path), Problem(3), rng)
    dx, dy = 1 / X.std(axis=0), 1 / Y.std(axis=0)
    P, _, Qt = np.linalg.svd(naive.covariances(X * dx, Y * dy)[1])
    A, B = dx[:, None] * P[:, :3], dy[:, None] * Qt[:3].T
    assert found.correlations.sum() == pytest.approx(captured_by(X, Y, A, B), abs=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_pca_cca_is_the_cca_of_principal_components(backend, problem, tmp_path, rng):
    X, Y = problem
    found = pca_cca(BACKENDS[backend](X, Y, tmp_path), Problem(3), 5, rng)
    Sx, _, Sy = naive.covariances(X, Y)
    A, B = (np.linalg.eigh(S)[1][:, -5:] for S in (Sx, Sy))
    np.testing.assert_allclose(found.correlations, naive.cca(X @ A, Y @ B, 3)[0], atol=1e-6)


@pytest.mark.parametrize("m", [10, 11, 500])
def test_pca_cca_with_all_components_is_cca(m, problem, rng):
    X, Y = problem
    found = pca_cca(ArrayViews(X, Y), Problem(4), m, rng)
    np.testing.assert_allclose(found.correlations, naive.cca(X, Y, 4)[0], atol=1e-9)


def test_none_of_them_is_cca(problem, rng):
    X, Y = problem
    exact = naive.cca(X, Y, 3)[0].sum()
    views = ArrayViews(X, Y)
    for found in (
        nw_cca(views, Problem(3), rng),
        dw_cca(views, Problem(3), rng),
        pca_cca(views, Problem(3), 4, rng),
    ):
        assert found.correlations.sum() < exact - 0.01


def test_too_few_principal_components(problem, rng):
    with pytest.raises(ValueError, match="m=2 components cannot hold n_components=3: use more"):
        pca_cca(ArrayViews(*problem), Problem(3), 2, rng)


def test_sparse_data_are_never_filled(rng):
    X, Y = (sp.random_array((40000, 3000), density=0.001, rng=rng, format="csr") for _ in range(2))
    for solve in (nw_cca, dw_cca, lambda *args: pca_cca(args[0], args[1], 10, args[2])):
        tracemalloc.start()
        solve(ArrayViews(X, Y), Problem(2), rng)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 60 * 2**20 < X.shape[0] * X.shape[1] * 8 / 10


def test_sparse_counts_agree_with_dense_ones(rng):
    X, Y = sparse_counts(rng)
    for solve in (nw_cca, dw_cca):
        dense = solve(ArrayViews(X, Y), Problem(2), np.random.default_rng(0)).correlations
        sparse = solve(ArrayViews(sp.csr_array(X), sp.csr_array(Y)), Problem(2), np.random.default_rng(0))
        np.testing.assert_allclose(sparse.correlations, dense, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_singular_values_that_hardly_decay(seed):
    """Two hundred correlations from 0.9 to 0.3: two rounds of powers do not find the leading ones."""
    rng, rho = np.random.default_rng(seed), np.linspace(0.9, 0.3, 200)
    X = rng.standard_normal((3000, 200))
    Y = rho * X + np.sqrt(1 - rho**2) * rng.standard_normal((3000, 200))
    found = dw_cca(ArrayViews(X, Y), Problem(10), rng)
    dx, dy = 1 / X.std(axis=0), 1 / Y.std(axis=0)
    P, _, Qt = np.linalg.svd(naive.covariances(X * dx, Y * dy)[1])
    best = captured_by(X, Y, dx[:, None] * P[:, :10], dy[:, None] * Qt[:10].T)
    assert found.correlations.sum() > 0.99 * best


def test_what_heuristics_cost():
    """By hand: 30 rows of 5 + 4 full columns, one component."""
    rng = np.random.default_rng(0)
    views = ArrayViews(rng.standard_normal((30, 5)), rng.standard_normal((30, 4)))
    products, factors = 6 * 30 * 9 * 11, 4 * 9 * 11**2
    assert heuristic_flops(views, 1, rounds=3) == 3 * (products + factors)
    squares, factors = 4 * 30 * 9 * 12, 4 * 9 * 12**2
    rest = 6 * 30 * 9 * 2 + 4 * 9 * 12 * 2 + 3 * 9 * 4 + 40 * 8
    assert heuristic_flops(views, 1, rounds=4, m=2) == 4 * (squares + factors) + rest
