import numpy as np
import pytest

from appgrad.covariance.linalg import column_dots, equilibration, leading_svd, whitening


def covariance(rng, p, eigenvalues):
    V = np.linalg.qr(rng.standard_normal((p, p)))[0]
    return (V * eigenvalues) @ V.T


def test_equilibration_is_by_powers_of_two():
    variances = np.array([0.0, 1e-300, 1.0, 3.0, 1e300])
    t = equilibration(variances)
    np.testing.assert_array_equal(np.frexp(t)[0], 0.5)
    sd = np.sqrt(variances[1:]) * t[1:]
    assert np.all((sd > 0.7) & (sd < 1.42))
    assert t[0] == 1


@pytest.mark.parametrize("ridge", [0.0, 1e-10, 0.3])
def test_whitening_well_conditioned(ridge, rng):
    S = covariance(rng, 8, np.geomspace(1, 1e-3, 8))
    w = whitening(S, np.full(8, ridge))
    np.testing.assert_allclose(w.W.T @ (S + ridge * np.eye(8)) @ w.W, np.eye(8), atol=1e-10)
    assert w.rank == 8


@pytest.mark.parametrize("ridge", [0.0, 1e-12, 0.3])
def test_whitening_finds_the_rank(ridge, rng):
    S = covariance(rng, 8, np.r_[np.geomspace(1, 1e-3, 5), np.zeros(3)])
    w = whitening(S, np.full(8, ridge))
    assert w.rank == 5
    M = w.W.T @ (S + ridge * np.eye(8)) @ w.W
    # The tiny ridge of directions without variance is known to a few digits.
    np.testing.assert_allclose(M, np.eye(len(M)), atol=1e-3 if ridge == 1e-12 else 1e-8)


def test_whitening_ignores_units(rng):
    S = covariance(rng, 6, np.geomspace(1, 1e-2, 6))
    d = 10.0 ** np.array([-150, -80, -3, 0, 70, 150])
    w = whitening(S * d[:, None] * d, np.zeros(6))
    assert w.rank == 6
    assert w.condition < 1e6
    np.testing.assert_allclose(w.W.T * d @ S @ (w.W * d[:, None]), np.eye(6), atol=1e-10)


def test_whitening_of_nothing():
    assert whitening(np.zeros((3, 3)), np.zeros(3)).rank == 0


def test_whitening_reports_the_condition(rng):
    S = covariance(rng, 6, np.geomspace(1, 1e-11, 6))
    t = 1 / np.sqrt(np.diag(S))
    true = np.linalg.cond(S * t[:, None] * t)
    assert 0.01 < whitening(S, np.zeros(6)).condition / true < 100


@pytest.mark.parametrize("shape", [(40, 40), (40, 60), (60, 40)])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_leading_svd(shape, k, rng):
    T = rng.standard_normal(shape) / 15
    U, s, V, residual = leading_svd(T, k)
    np.testing.assert_allclose(s, np.linalg.svd(T, compute_uv=False)[:k], atol=1e-13)
    np.testing.assert_allclose(U.T @ U, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(V.T @ V, np.eye(k), atol=1e-12)
    np.testing.assert_allclose(T @ V, U * s, atol=1e-12)
    assert residual.max() < 1e-12


def test_leading_svd_with_clusters_and_zeros(rng):
    P, Q = (np.linalg.qr(rng.standard_normal((60, 60)))[0] for _ in range(2))
    s = np.r_[np.ones(3), np.full(10, 0.5), np.zeros(47)]
    found = leading_svd((P * s) @ Q, 15)[1]
    np.testing.assert_allclose(found, s[:15], atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("p", [1, 4095, 9000])
def test_column_dots(p, dtype, rng):
    A, B = rng.standard_normal((2, p, 3)).astype(dtype)
    w = rng.random(p)
    rtol = 1e-3 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(column_dots(A, B), (A * B).sum(axis=0), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(column_dots(A, B, w), (A * B * w[:, None]).sum(axis=0), rtol=rtol, atol=rtol)
