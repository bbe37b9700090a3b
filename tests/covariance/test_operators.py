import numpy as np
import pytest
import scipy.sparse as sp

from appgrad.covariance import thin
from appgrad.covariance.build import operator
from appgrad.covariance.matrices import MatrixCovariance
from appgrad.covariance.moments import moments, second_moments
from appgrad.covariance.rows import RowCovariance
from appgrad.covariance.units import KernelRidge, units
from appgrad.data.arrays import ArrayViews
from appgrad.machine.threads import over_rows
from helpers import BACKENDS, small_blocks, sparse_counts, statistics_problem
from naive import covariances, dense


def textbook(X, Y, u, center=True):
    """Sx, Sxy, Sy in working units, ridge included."""
    Sx, Sxy, Sy = covariances(X, Y, center)
    ux, uy = u.views
    sx, sy = ux.scale, uy.scale
    return (
        Sx * np.outer(sx, sx) + np.diag(ux.ridge),
        Sxy * np.outer(sx, sy),
        Sy * np.outer(sy, sy) + np.diag(uy.ridge),
    )


@pytest.mark.parametrize("kind", ["dense", "sparse", "years"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scale", [False, True])
def test_operator_against_the_textbook(kind, backend, scale, rng, tmp_path):
    X, Y = statistics_problem(kind, rng)
    views = BACKENDS[backend](X, Y, tmp_path)
    m = moments(views)
    u = units(m, views.dtype, scale=scale, ridge=(0.3, 0.01))
    A, B = rng.standard_normal((X.shape[1], 3)), rng.standard_normal((Y.shape[1], 2))
    Sx, Sxy, Sy = textbook(X, Y, u)
    tight = {"rtol": 0, "atol": 1e-6 if kind == "years" else 1e-11}
    for cov in (RowCovariance(views, m, u), MatrixCovariance.of_moments(second_moments(views), u)):
        for found, expected in zip(cov.products(A, B), (Sx @ A, Sxy @ B, Sxy.T @ A, Sy @ B), strict=True):
            np.testing.assert_allclose(found, expected, **tight)
        for found, expected in zip(cov.squares(A, B), (Sx @ A, Sy @ B), strict=True):
            np.testing.assert_allclose(found, expected, **tight)
        if cov.matrices is None:
            B3, P, Q = rng.standard_normal((Y.shape[1], 3)), *rng.standard_normal((2, 3, 3))
            gx, gy = cov.gradients(A, B3, P, Q)
            np.testing.assert_allclose(gx, Sx @ A - Sxy @ B3 @ Q, **tight)
            np.testing.assert_allclose(gy, Sy @ B3 - Sxy.T @ A @ P, **tight)
        grams = A.T @ Sx @ A, A.T @ Sxy @ B, B.T @ Sy @ B
        for found, expected in zip(cov.grams(A, B), grams, strict=True):
            np.testing.assert_allclose(found, expected, **tight)
        for found, expected in zip(cov.diagonal(), (np.diag(Sx), np.diag(Sy)), strict=True):
            np.testing.assert_allclose(found, expected, **tight)


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_centring(backend, rng, tmp_path):
    X, Y = statistics_problem("dense", rng)
    views = BACKENDS[backend](X, Y, tmp_path)
    m = moments(views, center=False)
    u = units(m, views.dtype, ridge=0.0)
    A, B = rng.standard_normal((6, 3)), rng.standard_normal((5, 2))
    Sx, Sxy, Sy = textbook(X, Y, u, center=False)
    for cov in (
        RowCovariance(views, m, u),
        MatrixCovariance.of_moments(second_moments(views, center=False), u),
    ):
        for found, expected in zip(cov.products(A, B), (Sx @ A, Sxy @ B, Sxy.T @ A, Sy @ B), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-10)


def test_operator_on_gram_matrices(rng):
    """Sx = K^2 / n + r K, chosen by the ridge alone."""
    n, r = 30, (0.3, 0.01)
    roots = rng.standard_normal((n, 5)), rng.standard_normal((n, 4))
    Kx, Ky = ((Z - Z.mean(axis=0)) @ (Z - Z.mean(axis=0)).T for Z in roots)
    ridge = KernelRidge(r[0], np.diag(Kx)), KernelRidge(r[1], np.diag(Ky))
    views = small_blocks(ArrayViews(Kx, Ky), rows=7)
    cov = operator(views, center=False, scale=False, ridge=ridge, matrices=True)
    assert cov.matrices is None
    A, B = rng.standard_normal((n, 3)), rng.standard_normal((n, 2))
    Sx, Sxy, Sy = Kx @ Kx / n + r[0] * Kx, Kx @ Ky / n, Ky @ Ky / n + r[1] * Ky
    for found, expected in (
        (cov.products(A, B), (Sx @ A, Sxy @ B, Sxy.T @ A, Sy @ B)),
        (cov.squares(A, B), (Sx @ A, Sy @ B)),
        (cov.grams(A, B), (A.T @ Sx @ A, A.T @ Sxy @ B, B.T @ Sy @ B)),
        (cov.ridged(A, B), (r[0] * Kx @ A, r[1] * Ky @ B)),
        (cov.diagonal(), (np.diag(Sx), np.diag(Sy))),
    ):
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(f, e, atol=1e-10)


@pytest.mark.parametrize("kind", ["dense", "sparse", "years"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_row_grams_and_combinations(kind, backend, rng, tmp_path):
    X, Y = statistics_problem(kind, rng)
    views = BACKENDS[backend](X, Y, tmp_path)
    m = moments(views)
    u = units(m, views.dtype, scale=True)
    tx, ty = rng.random(X.shape[1]), rng.random(Y.shape[1])
    Xw = (X - X.mean(axis=0)) * u.views[0].scale * tx
    Yw = (Y - Y.mean(axis=0)) * u.views[1].scale * ty
    cov = RowCovariance(views, m, u)
    H = np.eye(300) - 1 / 300
    Kx, Ky = cov.row_grams(tx, ty)
    np.testing.assert_allclose(H @ Kx @ H, Xw @ Xw.T, atol=1e-6)
    np.testing.assert_allclose(H @ Ky @ H, Yw @ Yw.T, atol=1e-6)
    P, Q = rng.standard_normal((300, 2)), rng.standard_normal((300, 3))
    PX, QY = cov.combinations(P, Q)
    np.testing.assert_allclose(PX * tx[:, None], Xw.T @ P, atol=1e-5)
    np.testing.assert_allclose(QY * ty[:, None], Yw.T @ Q, atol=1e-5)


def test_row_grams_with_little_memory(rng):
    from sklearn import config_context

    X, Y = rng.standard_normal((300, 600)), rng.standard_normal((300, 5))
    views = small_blocks(ArrayViews(X, Y))
    m = moments(views)
    u = units(m, views.dtype)
    ones = np.ones(600), np.ones(5)
    whole = RowCovariance(views, m, u).row_grams(*ones)
    with config_context(working_memory=0.5):
        parts = RowCovariance(views, m, u).row_grams(*ones)
    np.testing.assert_allclose(parts, whole, atol=1e-10)


def test_sparse_data_far_from_zero_stay_sparse(rng):
    """A sparse matrix with a column of timestamps: only this column is shifted, entry by entry."""
    X = sp.random_array((2000, 50), density=0.02, rng=rng).tolil()
    X[:, 7] = rng.standard_normal((2000, 1)) + 1e8
    X = sp.csr_array(X)
    views = small_blocks(ArrayViews(X, X[:, 5:9]), rows=300)
    m = moments(views)
    cov = RowCovariance(views, m, units(m, views.dtype, ridge=0.0))
    assert list(np.flatnonzero(cov.shifts[0])) == [7]
    A = np.eye(50)[:, 5:9]
    Z = dense(X) - dense(X).mean(axis=0)
    np.testing.assert_allclose(cov.squares(A, np.eye(4))[0], Z.T @ Z @ A / 2000, atol=1e-6)


def test_float32_products_are_right_to_single_precision(rng):
    X, Y = rng.random((50, 3), dtype=np.float32), rng.random((50, 2), dtype=np.float32)
    views = ArrayViews(X, Y)
    m = moments(views)
    cov = RowCovariance(views, m, units(m, views.dtype, ridge=0.0))
    Sx, double = np.cov(X.T, bias=True), RowCovariance(views, m, cov.units, dtype=np.float64)
    error, less = (np.abs(c.squares(np.eye(3), np.eye(2))[0] - Sx).max() for c in (cov, double))
    assert error < 1e-6
    assert less < 1e-14 < error


def test_ridge_forms(rng):
    X, Y = rng.standard_normal((50, 3)) * [1, 10, 100], rng.standard_normal((50, 2))
    m = moments(ArrayViews(X, Y))
    auto, single, scaled = (
        units(m, np.dtype(dtype), scale=scale).views[0].ridge
        for dtype, scale in ((float, False), (np.float32, False), (float, True))
    )
    np.testing.assert_allclose(auto, 1e-10 * m.views[0].var)
    np.testing.assert_allclose(single, 1e-6 * m.views[0].var)
    np.testing.assert_allclose(scaled, 1e-10)
    x, y = units(m, np.dtype(float), ridge=(0.1, 0.2)).views
    assert set(x.ridge) == {0.1}
    assert set(y.ridge) == {0.2}


@pytest.mark.parametrize("kinds", ["sparse", "mixed", "dense"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernels", [True, False])
def test_tiles_add_up(kinds, dtype, kernels, rng, monkeypatch):
    """Products by tiles are those of the whole, with scipy's kernels and with its public products."""
    monkeypatch.setattr(thin, "TILE_ROWS", 7)
    monkeypatch.setattr(thin, "SCORE_BYTES", 300)
    if not kernels:
        monkeypatch.setattr(thin, "_add_scores", thin._public_scores)
        monkeypatch.setattr(thin, "_add_gathered", thin._public_gathered)
    else:
        assert thin._kernels_work()
    X, Y = sparse_counts(rng)
    x = X if kinds == "dense" else sp.csr_array(X)
    views = small_blocks(ArrayViews(x, sp.csr_array(Y) if kinds == "sparse" else Y), rows=50)
    m = moments(views)
    cov = RowCovariance(views, m, units(m, views.dtype, ridge=0.1), dtype)
    A, B = (rng.standard_normal((p, 3)).astype(dtype) for p in (X.shape[1], Y.shape[1]))
    Sx, Sxy, Sy = covariances(X, Y)
    Sx, Sy = Sx + 0.1 * np.eye(len(Sx)), Sy + 0.1 * np.eye(len(Sy))
    atol = 1e-5 if dtype == np.float32 else 1e-12
    for found, expected in zip(cov.products(A, B), (Sx @ A, Sxy @ B, Sxy.T @ A, Sy @ B), strict=True):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, atol=atol)
    for found, expected in zip(cov.squares(A, B), (Sx @ A, Sy @ B), strict=True):
        np.testing.assert_allclose(found, expected, atol=atol)
    for found, expected in zip(cov.grams(A, B), (A.T @ Sx @ A, A.T @ Sxy @ B, B.T @ Sy @ B), strict=True):
        np.testing.assert_allclose(found, expected, atol=10 * atol)


@pytest.mark.parametrize("p", [0, 1, 4096, 20000])
def test_ranges_of_rows_come_in_order(p):
    found = over_rows(lambda rows: np.arange(rows.start, rows.stop), p)
    np.testing.assert_array_equal(np.concatenate([*found, []]), np.arange(p))
