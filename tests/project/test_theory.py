"""Results that the paper proves, checked in numbers."""

import numpy as np
import pytest

import naive
from appgrad.baselines import NaiveGradient
from appgrad.covariance.moments import moments
from appgrad.covariance.rows import RowCovariance
from appgrad.covariance.units import units
from appgrad.data.arrays import ArrayViews
from appgrad.datasets import planted
from appgrad.solvers.appgrad import AppGrad

RHO = np.array([0.9, 0.7, 0.5, 0.3, 0.2])


def problem(seed, condition=3.0, p1=6, p2=5):
    """Data with all canonical pairs known, and their covariance operator without a ridge."""
    p = planted(400, p1, p2, RHO, condition=condition, exact=True, random_state=seed)
    views = ArrayViews(p.X, p.y)
    m = moments(views)
    return p, RowCovariance(views, m, units(m, views.dtype, ridge=0.0))


def states(solver, state, cov, steps):
    for _ in range(steps):
        state, _ = solver.step(state, cov)
        yield state


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("eta", [0.01, 0.1, 1.0])
def test_naive_gradient_leaves_the_true_pair(seed, eta):
    """Proposition 2.1: no canonical pair is a fixed point unless it is an eigenvector of its covariance."""
    p, cov = problem(seed)
    phi, psi = p.x_weights[:, :1], p.y_weights[:, :1]
    solver = NaiveGradient(1, (eta, eta))
    state, diagnostics = solver.start(cov, phi, psi)
    assert diagnostics.tcc == pytest.approx(RHO[0])
    *_, state = states(solver, state, cov, 10)
    assert np.linalg.norm(state.phi - phi) > 1e-3 * eta
    captured = [
        abs((s.phi.T @ cov.products(s.phi, s.psi)[1]).item()) for s in states(solver, state, cov, 300)
    ]
    assert captured[-1] < RHO[0] - 1e-4


@pytest.mark.parametrize("seed", range(3))
def test_naive_gradient_fails_at_rank_k(seed):
    p, cov = problem(seed)
    solver = NaiveGradient(3, (0.1, 0.1))
    state, diagnostics = solver.start(cov, p.x_weights[:, :3], p.y_weights[:, :3])
    assert diagnostics.tcc == pytest.approx(RHO[:3].sum())
    for _ in range(500):
        state, diagnostics = solver.step(state, cov)
    assert diagnostics.tcc < RHO[:3].sum() - 1e-3
    phi, psi = naive.naive_gradient(p.X, p.y, p.x_weights[:, :3], p.y_weights[:, :3], 0.1, 500)
    np.testing.assert_allclose(state.phi, phi, atol=1e-8)
    np.testing.assert_allclose(state.psi, psi, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("i", range(5))
@pytest.mark.parametrize("eta", [0.1, 1.0])
def test_every_pair_is_a_fixed_point(seed, i, eta):
    """Proposition 2.2, for ten steps: those with i > 1 are saddle points, which rounding leaves some day."""
    p, cov = problem(seed)
    phi_t, psi_t = RHO[i] * p.x_weights[:, [i]], RHO[i] * p.y_weights[:, [i]]
    solver = AppGrad(1, (eta, eta))
    state, _ = solver.start(cov, phi_t, psi_t)
    for s in states(solver, state, cov, 10):
        np.testing.assert_allclose(s.phi_t, phi_t, atol=1e-10)
        np.testing.assert_allclose(s.psi_t, psi_t, atol=1e-10)
        np.testing.assert_allclose(s.phi_t @ s.normalisers[0], p.x_weights[:, [i]], atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [2, 3, 5])
def test_every_rotation_of_the_leading_pairs_is_a_fixed_point(seed, k):
    """Proposition 2.3."""
    p, cov = problem(seed)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((k, k)))[0]
    phi_t, psi_t = p.x_weights[:, :k] * RHO[:k] @ Q, p.y_weights[:, :k] * RHO[:k] @ Q
    solver = AppGrad(k, (0.5, 0.5))
    state, _ = solver.start(cov, phi_t, psi_t)
    for s in states(solver, state, cov, 10):
        np.testing.assert_allclose(s.phi_t, phi_t, atol=1e-10)
        np.testing.assert_allclose(s.psi_t, psi_t, atol=1e-10)
        np.testing.assert_allclose(s.phi_t @ s.normalisers[0], p.x_weights[:, :k] @ Q, atol=1e-10)


def local_rate(seed, share, condition=2.0, steps=300):
    """Errors of AppGrad from inside the contraction region and the bounds of Theorem 2.1, for every t."""
    p, cov = problem(seed, condition)
    Sx, _, Sy = naive.covariances(p.X, p.y)
    eigenvalues = np.concatenate([np.linalg.eigvalsh(Sx), np.linalg.eigvalsh(Sy)])
    L1, L2 = max(1.0, eigenvalues.max()), max(1.0, 1 / eigenvalues.min())
    gap = RHO[0] ** 2 - RHO[1] ** 2
    rng = np.random.default_rng(seed)
    dx, dy = rng.standard_normal((6, 1)), rng.standard_normal((5, 1))
    size = np.sqrt(share * 2 * gap / L1 / (np.sum(dx**2) + np.sum(dy**2)))
    target = RHO[0] * p.x_weights[:, :1], RHO[0] * p.y_weights[:, :1]

    def error(s):
        return np.sum((s.phi_t - target[0]) ** 2) + np.sum((s.psi_t - target[1]) ** 2)

    e0 = size**2 * (np.sum(dx**2) + np.sum(dy**2))
    delta = 1 - np.sqrt(1 - (2 * gap - L1 * e0) / (2 * RHO[0] ** 2))
    solver = AppGrad(1, (delta / (6 * L1),) * 2)
    state, _ = solver.start(cov, target[0] + size * dx, target[1] + size * dy)
    errors = np.array([error(state), *(error(s) for s in states(solver, state, cov, steps))])
    return errors, e0 * (1 - delta**2 / (6 * L1 * L2)) ** np.arange(steps + 1)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_local_linear_rate(seed, share):
    """Theorem 2.1: the error is below the bound at every step tried."""
    errors, bounds = local_rate(seed, share)
    assert np.all(errors <= bounds * (1 + 1e-12))
    assert errors[-1] < 0.9 * errors[0]


@pytest.mark.parametrize("seed", range(3))
def test_appgrad_targets_the_least_squares_of_the_leading_pair(seed):
    """Lemma 2.3: rho_1 phi_1 is the regression of Y psi_1 on X."""
    p, _ = problem(seed)
    X, Y = p.X - p.X.mean(axis=0), p.y - p.y.mean(axis=0)
    best = np.linalg.lstsq(X, Y @ p.y_weights[:, 0], rcond=None)[0]
    np.testing.assert_allclose(best, RHO[0] * p.x_weights[:, 0], atol=1e-10)
    best = np.linalg.lstsq(Y, X @ p.x_weights[:, 0], rcond=None)[0]
    np.testing.assert_allclose(best, RHO[0] * p.y_weights[:, 0], atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_cross_covariance_from_the_canonical_pairs(seed):
    """Lemma 2.2: Sxy = Sx Phi Lambda Psi' Sy."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((80, 6)), rng.standard_normal((80, 4))
    rho, phi, psi = naive.cca(X, Y, 4)
    Sx, Sxy, Sy = naive.covariances(X, Y)
    np.testing.assert_allclose(Sx @ (phi * rho) @ psi.T @ Sy, Sxy, atol=1e-12)


def sampled_gram_error(p, m, k=5, rows=4000, repeats=20):
    """Relative error of phi' S_m phi, S_m from m sampled rows, against that of S_m itself."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, p))
    S = X.T @ X / rows
    phi = rng.standard_normal((p, k)) / np.sqrt(p)
    thin, full = [], []
    for _ in range(repeats):
        x = X[rng.choice(rows, m, replace=False)]
        G, sampled = phi.T @ S @ phi, phi.T @ (x.T @ x / m) @ phi
        thin.append(np.linalg.norm(sampled - G, 2) / np.linalg.norm(G, 2))
        full.append(np.linalg.norm(x.T @ x / m - S, 2) / np.linalg.norm(S, 2))
    return np.mean(thin), np.mean(full)


def test_a_few_rows_normalise_however_many_columns_there_are():
    """Section 3: m in O(k) rows give the k x k Gram matrix, while S itself needs O(p)."""
    errors = {p: sampled_gram_error(p, m=50) for p in (20, 100, 500)}
    thin = [errors[p][0] for p in errors]
    # p grows 25-fold: the k x k error by less than a half, and not at all in the end; that of S sixfold.
    assert max(thin) < 1.5 * min(thin)
    full = [errors[p][1] for p in errors]
    assert full[2] > 6 * full[0]
    halved = sampled_gram_error(500, m=200)[0]
    assert halved == pytest.approx(thin[2] / 2, rel=0.3)


@pytest.mark.parametrize("seed", range(3))
def test_starting_at_the_normalised_basis_loses_early_on(seed):
    """phi_t = phi leaves a random start in phi_t that small steps forget slowly; phi_t = 0 has none."""
    p = planted(1000, 60, 50, [0.9, 0.8, 0.7], condition=30, random_state=seed)
    views = ArrayViews(p.X, p.y)
    m = moments(views)
    cov = RowCovariance(views, m, units(m, views.dtype))
    eta = 1 / max(np.linalg.eigvalsh(S)[-1] for S in naive.covariances(p.X, p.y)[::2])
    solver = AppGrad(3, (eta, eta))
    from_zero, diagnostics = solver.init(cov, 3, np.random.default_rng(seed))
    rng = np.random.default_rng(seed)
    phi, psi = rng.standard_normal((60, 3)), rng.standard_normal((50, 3))
    Gx, _, Gy = cov.grams(phi, psi)
    phi, psi = phi @ naive.symmetric_inverse_root(Gx), psi @ naive.symmetric_inverse_root(Gy)
    P, _, Qt = np.linalg.svd(cov.grams(phi, psi)[1])
    phi = phi @ P @ Qt
    from_phi, other = solver.start(cov, phi, psi)
    for _ in range(6):
        from_zero, diagnostics = solver.step(from_zero, cov)
        from_phi, other = solver.step(from_phi, cov)
    assert other.tcc < 0.8 * diagnostics.tcc
