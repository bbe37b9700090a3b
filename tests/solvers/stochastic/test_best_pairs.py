"""The choice of the best pairs, by rows and by iterates, and their correlations on held-out rows."""

import numpy as np
import pytest

import naive
from appgrad.covariance.moments import moments
from appgrad.covariance.rows import RowCovariance
from appgrad.covariance.units import units
from appgrad.data.arrays import ArrayViews
from appgrad.solvers.problem import Diagnostics
from appgrad.solvers.stochastic.best_pairs import judged_correlations, leading, noise_share

RHO = np.linspace(0.8, 0.02, 30)


def rows_of(n, rng, rho=RHO):
    """Rows of canonical variables with correlations rho: Sx = Sy = I."""
    x, e = rng.standard_normal((2, n, len(rho)))
    return x, rho * x + np.sqrt(1 - rho**2) * e


def diagnostics_of(x, y, A, B, rows=None):
    """Bases A and B with the Gram matrices of some rows."""
    U, V = x @ A, y @ B
    n = len(x)
    grams = U.T @ U / n, U.T @ V / n, V.T @ V / n
    return Diagnostics(A, B, 0.0, 0.0, False, grams=grams, rows=n if rows is None else rows)


def turned(rng, c=30):
    return np.linalg.qr(rng.standard_normal((c, c)))[0]


def caught(A, B, rho=RHO):
    """The correlations of two spans, were all rows known."""
    A, B = np.linalg.qr(A)[0], np.linalg.qr(B)[0]
    return np.linalg.svd(A.T @ (rho[:, None] * B), compute_uv=False).sum()


@pytest.mark.parametrize("rows", [300, 2000])
@pytest.mark.parametrize("uneven", [1.0, 1.3])
def test_iterates_at_a_fixed_point_help(rows, uneven):
    """At a fixed point phi_t = Sxy psi = diag(rho) R: noise of rows alone costs more.

    Where one side is too long, and the other as much too short, their mean still is what it should be.
    """
    gains, k = [], 10
    for seed in range(10):
        rng = np.random.default_rng(seed)
        R = turned(rng)
        A, B = uneven * RHO[:, None] * R, (2 - uneven) * RHO[:, None] * R
        diagnostics = diagnostics_of(*rows_of(rows, rng), A, B)
        alone = caught(*leading(diagnostics._replace(rows=1e15), k))
        gains.append((caught(*leading(diagnostics, k)) - alone) / (RHO[:k].sum() - alone))
    assert np.median(gains) > 0.6


def test_rows_alone_where_they_are_many(rng):
    R = turned(rng)
    x, y = rows_of(500, rng)
    A, B = RHO[:, None] * R, RHO[:, None] * R
    _, U, V = naive.cca(x @ A, y @ B, 4)
    P, Q = leading(diagnostics_of(x - x.mean(0), y - y.mean(0), A, B, rows=1e15), 4)
    for found, expected in ((P, A @ U), (Q, B @ V)):
        turn = np.linalg.lstsq(found, expected, rcond=None)[0]
        np.testing.assert_allclose(found @ turn, expected, atol=1e-6)


def test_iterates_that_mislead_are_not_believed():
    """Lengths in the wrong order: the weakest pairs are the longest."""
    rng, k = np.random.default_rng(0), 5
    size = RHO[::-1]
    diagnostics = diagnostics_of(*rows_of(20000, rng), np.diag(size), np.diag(size))
    alone = caught(*leading(diagnostics._replace(rows=1e15), k))
    assert caught(*leading(diagnostics, k)) > 0.995 * alone
    assert caught(*leading(diagnostics._replace(rows=1.0), k)) < 0.2 * alone


@pytest.mark.parametrize("rho", [RHO, np.linspace(0.95, 0.5, 30)], ids=["weak", "strong"])
@pytest.mark.parametrize("rows", [100, 400, 3000])
def test_the_share_of_noise(rows, rho):
    """Half of the distance is noise, half is not: shares near a half, by samples of the rows themselves."""
    noise, c, shares = [], len(rho), []
    samples = []
    for seed in range(20):
        x, y = rows_of(rows, np.random.default_rng(seed), rho)
        diagnostics = diagnostics_of(x, y, np.eye(c), np.eye(c))
        Gx, Gxy, Gy = diagnostics.grams
        Nx, Ny = (v / np.sqrt(w) @ v.T for w, v in map(np.linalg.eigh, (Gx, Gy)))
        samples.append(Nx @ Gxy @ Ny)
        noise.append(np.sum((samples[-1] - np.diag(rho)) ** 2))
    away = np.random.default_rng(1).standard_normal((c, c))
    away *= np.sqrt(np.mean(noise)) / np.linalg.norm(away)
    shares = [noise_share(T, np.diag(rho) + away, rows) for T in samples]
    assert 0.3 < np.mean(shares) < 0.7


def test_too_few_rows_say_nothing():
    T = np.diag(np.linspace(0.9, 0.1, 10))
    assert noise_share(T, np.zeros((10, 10)), 20) == 1.0
    assert noise_share(T, np.zeros((10, 10)), 1e6) < 0.01
    assert noise_share(T, T, 1e6) == 1.0


def test_directions_that_only_one_side_has():
    """Three pairs are there, and found, though the other side would have a fourth."""
    Gx, Gy = np.diag([0.81, 0.64, 0.09, 0.0]), np.diag([0.81, 0.64, 0.09, 0.81])
    Gxy = np.diag([0.9, 0.8, 0.3, 0.0]) * np.sqrt(np.outer(np.diag(Gx), np.diag(Gy)))
    A, B = leading(Diagnostics(np.eye(4), np.eye(4), 0.0, 0.0, False, grams=(Gx, Gxy, Gy), rows=10), 3)
    assert np.linalg.matrix_rank(A) == np.linalg.matrix_rank(B) == 3


def covariances_of(x, y, halves=2):
    found = []
    for part in range(halves):
        views = ArrayViews(x[part::halves].copy(), y[part::halves].copy())
        found.append(RowCovariance(views, m := moments(views), units(m, views.dtype)))
    return tuple(found)


def test_rows_held_out_do_not_flatter(rng):
    x, y = rng.standard_normal((600, 30)), rng.standard_normal((600, 30))
    diagnostics = Diagnostics(np.eye(30), np.eye(30), 0.0, 0.0, False)
    judged = judged_correlations(diagnostics, covariances_of(x, y), 3)
    assert np.all(judged < 0.12)
    assert np.all(naive.cca(x, y, 3)[0] > 0.3)
    x, y = rows_of(20000, rng)
    np.testing.assert_allclose(judged_correlations(diagnostics, covariances_of(x, y), 3), RHO[:3], atol=0.05)


def test_too_few_rows_to_judge_by(rng):
    x, y = rng.standard_normal((100, 30)), rng.standard_normal((100, 30))
    diagnostics = Diagnostics(np.eye(30), np.eye(30), 0.0, 0.0, False)
    assert judged_correlations(diagnostics, covariances_of(x, y), 3) is None
    assert judged_correlations(diagnostics, covariances_of(np.ones((200, 30)), np.ones((200, 30))), 3) is None
