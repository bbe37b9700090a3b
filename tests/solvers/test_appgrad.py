"""AppGrad: against its slow twin, step by step; its steps, its momentum and what they cost."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import naive
from appgrad import CCA, KernelCCA, SparseCCA, load
from appgrad.covariance.preconditioners import jacobi
from appgrad.solvers.appgrad import AppGrad
from helpers import fitted, operator


def starts(cov, k, seed=0):
    """The Gaussian start of a solver, normalised and in phase, by the textbook."""
    rng = np.random.default_rng(seed)
    p1, p2 = cov.units.widths
    phi, psi = rng.standard_normal((p1, k)), rng.standard_normal((p2, k))
    Gx, Gxy, Gy = cov.grams(phi, psi)
    Nx, Ny = naive.symmetric_inverse_root(Gx), naive.symmetric_inverse_root(Gy)
    P, _, Qt = np.linalg.svd(Nx @ Gxy @ Ny)
    return phi @ Nx @ P @ Qt, psi @ Ny


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("eta", [(0.3, 0.3), (0.15, 0.4)])
def test_appgrad_is_algorithms_3_and_4(k, dense, eta, data):
    cov = operator(*data, ridge=0.0, dense=dense)
    solver = AppGrad(k, eta)
    phi, psi = starts(cov, k)
    state, _ = solver.init(cov, k, np.random.default_rng(0))
    for _ in range(49):
        state, _ = solver.step(state, cov)
    zero = np.zeros_like(phi), np.zeros_like(psi)
    phi, psi, phi_t, psi_t = naive.appgrad(*data, phi, psi, *zero, eta, 50)
    np.testing.assert_allclose(state.phi_t, phi_t, atol=1e-9)
    np.testing.assert_allclose(state.psi_t, psi_t, atol=1e-9)
    np.testing.assert_allclose(state.phi_t @ state.normalisers[0], phi, atol=1e-8)


def test_flops_are_those_of_the_formula(data):
    """docs/algorithms.md: 6 n (p1 + p2) c for the products, 6 (p1 + p2) c (c + 1) + 40 c^3 for the rest."""
    model = fitted(*data, solver="appgrad", preconditioner=None, tol=0, max_iter=3, oversampling=2)
    flops = np.diff([row["flops"] for row in model.history_])
    n, p, c = 2000, 27, 5
    np.testing.assert_allclose(flops, 6 * n * p * c + 6 * p * c * (c + 1) + 40 * c**3)


def test_a_step_that_is_short_enough_is_never_cut(data):
    model = fitted(*data, solver="appgrad", preconditioner=None, step_size=0.5, tol=0, max_iter=100)
    assert not any("event" in row for row in model.history_)


def test_momentum_restarts_when_less_is_captured(data):
    cov = operator(*data, ridge=0.0)
    M = jacobi(cov)
    solver = AppGrad(3, (0.3, 0.3), M, momentum=0.99)
    state, _ = solver.init(cov, 3, np.random.default_rng(0))
    ages = []
    for _ in range(200):
        state, _ = solver.step(state, cov)
        ages.append(state.age)
    assert 0 in ages[1:]
    assert max(ages) > 5


def test_dense_covariances_give_the_same_iterates(data):
    """Up to rounding, and without a pass an iteration."""
    params = {"solver": "appgrad", "preconditioner": "jacobi", "tol": 0, "max_iter": 30}
    rows, matrices = (fitted(*data, covariance=c, **params) for c in ("auto", "dense"))
    np.testing.assert_allclose(rows.canonical_correlations_, matrices.canonical_correlations_, atol=1e-10)
    assert matrices.n_passes_ < 3 < 30 < rows.n_passes_


def test_auto_steps_beat_a_range_of_constant_ones(data):
    """The bar of benchmarks/step_sizes.py on a small problem: nearly as good as the best constant."""
    X, Y = data[0] * np.geomspace(1, 5, 15), data[1]
    L = max(np.linalg.eigvalsh(S)[-1] for S in naive.covariances(X, Y)[::2])
    stochastic = {"solver": "stochastic", "batch_size": 20, "max_passes": 5}
    for params in ({"solver": "appgrad", "max_iter": 20}, stochastic):
        tccs = {
            c: fitted(X, Y, preconditioner=None, tol=0, step_size=c, **params)
            for c in ("auto", *(c / L for c in (0.1, 0.3, 0.5, 1.0, 1.5, 2.0)))
        }
        found = {c: model.canonical_correlations_.sum() for c, model in tccs.items()}
        assert found.pop("auto") > 0.99 * max(found.values())


def test_too_short_a_step_is_not_convergence(data):
    with pytest.warns(ConvergenceWarning):
        CCA(3, solver="appgrad", preconditioner=None, step_size=1e-6, max_iter=300).fit(*data)


RUNS = {
    "appgrad": {"solver": "appgrad", "max_iter": 15},
    "stochastic": {"solver": "stochastic", "max_passes": 3, "batch_size": 50, "normaliser": "batch"},
}
PLAIN = {"preconditioner": None, "oversampling": 0, "tol": 0, "random_state": 0}


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_pair_of_steps_is_one_for_each_view(run, seed, data):
    """X in other units, c X, with eta1 / c^2 is the same run: eta1 belongs to X and eta2 to y."""
    X, Y = data
    rng = np.random.default_rng(seed)
    c, eta = rng.choice([0.5, 2.0, 4.0]), rng.uniform(0.05, 0.3)
    params = {**PLAIN, **run, "random_state": seed, "ridge": 0.0}
    expected = [row["tcc"] for row in CCA(2, step_size=eta, **params).fit(X, Y).history_]
    for X_, Y_, steps in (
        (X, Y, (eta, eta)),
        (c * X, Y, (eta / c**2, eta)),
        (X, c * Y, np.array([eta, eta / c**2])),
    ):
        found = CCA(2, step_size=steps, **params).fit(X_, Y_)
        np.testing.assert_allclose([row["tcc"] for row in found.history_], expected, rtol=1e-8)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS.keys())
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_pairs_of_steps_of_other_estimators_and_files(run, data, tmp_path):
    X, Y = data[0][:300], data[1][:300]

    def way(model):
        return [row["tcc"] for row in model.fit(X, Y).history_]

    for make in (
        lambda eta: CCA(2, step_size=eta, **run, random_state=0),
        lambda eta: KernelCCA(2, ridge=0.1, step_size=eta, **run, random_state=0),
        lambda eta: KernelCCA(
            2, approximation="fourier", n_landmarks=20, step_size=eta, **run, random_state=0
        ),
        lambda eta: SparseCCA(2, n_nonzero=5, step_size=eta, **run, random_state=0),
    ):
        if isinstance(make(0.3), KernelCCA) and make(0.3).approximation is None and "batch_size" in run:
            continue
        np.testing.assert_array_equal(way(make((0.3, 0.3))), way(make(0.3)))
        assert way(make((0.3, 0.1))) != way(make((0.1, 0.3)))
        model = make((0.3, 0.1)).fit(X, Y)
        model.save(tmp_path / "m.cca")
        assert load(tmp_path / "m.cca").step_size == (0.3, 0.1)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_stream_and_a_checkpoint_keep_their_pair_of_steps(data, tmp_path):
    X, Y = data
    params = {**PLAIN, "solver": "stochastic", "batch_size": 50, "step_size": (0.3, 0.1)}
    whole, half = CCA(2, **params), CCA(2, **params)
    whole.partial_fit(X[:1000], Y[:1000]).partial_fit(X[1000:], Y[1000:])
    half.partial_fit(X[:1000], Y[:1000]).save(tmp_path / "m.cca")
    again = load(tmp_path / "m.cca").partial_fit(X[1000:], Y[1000:])
    np.testing.assert_allclose(again.x_weights_, whole.x_weights_, rtol=1e-9)
    file = {**PLAIN, "solver": "appgrad", "step_size": (0.3, 0.1), "checkpoint": (tmp_path / "c", 0)}
    CCA(2, **file, max_iter=5).fit(X, Y)
    model = CCA(2, **file, max_iter=9).fit(X, Y)
    assert model.resumed_from_iteration_ == 5
    with pytest.raises(ValueError, match="step_size"):
        CCA(2, **(file | {"step_size": (0.1, 0.3)}), max_iter=9).fit(X, Y)
