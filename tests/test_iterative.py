"""ALS, AppGrad and stochastic AppGrad: against their slow twins, on every back end, within every budget."""

import os
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

import naive
from appgrad import CCA
from appgrad.covariance import Covariance, DenseCovariance, units
from appgrad.datasets import planted
from appgrad.linalg import captured
from appgrad.moments import moments, second_moments
from appgrad.options import Options
from appgrad.preconditioners import jacobi
from appgrad.remarks import OverfitWarning
from appgrad.run import run
from appgrad.solve import Limits, Problem
from appgrad.solvers.als import ALS
from appgrad.solvers.appgrad import CALM, AppGrad, mean_square
from appgrad.solvers.stochastic import Stochastic
from appgrad.views import ArrayViews, CountedViews
from helpers import BACKENDS, ITERATIVE, memmap, minibatches, sparse_counts

RHO = [0.95, 0.8, 0.6, 0.3]


@pytest.fixture(scope="module")
def data():
    p = planted(2000, 15, 12, RHO, condition=20, random_state=0)
    return p.X, p.y


def operator(X, Y, ridge=0.0, dense=False):
    views = ArrayViews(X, Y)
    m = moments(views)
    u = units(m, views.dtype, ridge=ridge)
    return DenseCovariance(second_moments(views), u) if dense else Covariance(views, m, u)


def fitted(X, Y, k=3, quiet=True, working_memory=None, **params):
    with warnings.catch_warnings(), config_context(working_memory=working_memory):
        warnings.simplefilter("ignore" if quiet else "error", ConvergenceWarning)
        return CCA(k, random_state=0, **params).fit(X, Y)


def in_phase(phi, psi, Sxy):
    """phi rotated so that phi'Sxy psi is symmetric and positive."""
    P, _, Qt = np.linalg.svd(phi.T @ Sxy @ psi)
    return phi @ P @ Qt, psi


def starts(cov, k, seed=0):
    """The Gaussian start of a solver, normalised and in phase, by the textbook."""
    rng = np.random.default_rng(seed)
    p1, p2 = len(cov.units.scale_x), len(cov.units.scale_y)
    phi, psi = rng.standard_normal((p1, k)), rng.standard_normal((p2, k))
    Gx, Gxy, Gy = cov.grams(phi, psi)
    Nx, Ny = naive.symmetric_inverse_root(Gx), naive.symmetric_inverse_root(Gy)
    P, _, Qt = np.linalg.svd(Nx @ Gxy @ Ny)
    return phi @ Nx @ P @ Qt, psi @ Ny


# The algorithms, step by step


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("dense", [True, False])
def test_als_is_algorithm_1(k, dense, data):
    cov = operator(*data, dense=dense)
    factors = tuple(naive.inverse_root(S) for S in naive.covariances(*data)[::2]) if dense else None
    solver = ALS(k, jacobi(cov), factors, inner=200, inner_tol=1e-9)
    state, _ = solver.init(cov, k, np.random.default_rng(0))
    Sx, Sxy, Sy = naive.covariances(*data)
    phi, psi = state.phi, state.psi
    regressed = np.linalg.solve(Sy, Sxy.T @ phi)
    np.testing.assert_allclose(naive.projection(psi, Sy), naive.projection(regressed, Sy), atol=1e-6)
    for _ in range(5):
        state, _ = solver.step(state, cov)
    phi, psi = naive.als(*data, psi, phi, 5)
    np.testing.assert_allclose(state.phi, phi, atol=1e-6)
    np.testing.assert_allclose(state.psi, psi, atol=1e-6)
    np.testing.assert_allclose(state.phi.T @ Sx @ state.phi, np.eye(k), atol=1e-10)
    solver = ALS(k, jacobi(cov))
    state, report = solver.init(cov, k, np.random.default_rng(0))
    for _ in range(60):
        state, report = solver.step(state, cov)
    assert report.tcc == pytest.approx(naive.cca(*data, k)[0].sum(), abs=1e-4)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("dense", [True, False])
def test_appgrad_is_algorithms_3_and_4(k, dense, data):
    cov = operator(*data, dense=dense)
    solver = AppGrad(k, (0.3, 0.3))
    phi, psi = starts(cov, k)
    state, _ = solver.init(cov, k, np.random.default_rng(0))
    for _ in range(49):
        state, _ = solver.step(state, cov)
    zero = np.zeros_like(phi), np.zeros_like(psi)
    phi, psi, phi_t, psi_t = naive.appgrad(*data, phi, psi, *zero, 0.3, 50)
    np.testing.assert_allclose(state.phi_t, phi_t, atol=1e-9)
    np.testing.assert_allclose(state.psi_t, psi_t, atol=1e-9)
    np.testing.assert_allclose(state.phi_t @ state.normalisers[0], phi, atol=1e-8)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("normaliser", [None, 60])
def test_stochastic_is_algorithm_5(k, normaliser, data):
    def batches():
        views = ArrayViews(*data)
        return minibatches(views, 40, normaliser, 50, np.random.default_rng(1), ridge=(0.0, 0.0))

    def centred(cov):
        return cov.views.x - cov.moments.mean_x, cov.views.y - cov.moments.mean_y

    # Running means would make both sides recompute each other's: all rows are at hand at once here.
    expected = [(centred(b.cov), centred(b.normaliser)) for b in batches()]
    solver = Stochastic(k, (0.1, 0.1))
    stream = iter(batches())
    rng = np.random.default_rng(0)
    state, _ = solver.init(next(stream), k, rng)
    for batch in stream:
        state, _ = solver.step(state, batch)
    rng = np.random.default_rng(0)
    phi, psi = rng.standard_normal((15, k)), rng.standard_normal((12, k))
    nx, ny = expected[0][1]
    phi = phi @ naive.symmetric_inverse_root(phi.T @ nx.T @ nx @ phi / len(nx))
    psi = psi @ naive.symmetric_inverse_root(psi.T @ ny.T @ ny @ psi / len(ny))
    x, y = expected[0][0]
    phi, psi = in_phase(phi, psi, x.T @ y / len(x))
    zero = np.zeros_like(phi), np.zeros_like(psi)
    phi, psi, phi_t, psi_t = naive.stochastic(expected[:1], phi, psi, *zero, 0.1)
    assert np.trace(phi_t.T @ nx.T @ nx @ phi_t) / len(nx) < k  # else the first iterate would be contained
    _, _, phi_t, psi_t = naive.stochastic(expected[1:], phi, psi, phi_t, psi_t, 0.1)
    np.testing.assert_allclose(state.trials[0].phi_t, phi_t, atol=1e-8)
    np.testing.assert_allclose(state.trials[0].psi_t, psi_t, atol=1e-8)


def test_the_ridge_is_in_the_gradient_and_in_the_normaliser(data):
    """The consistent form: with ridge r, the fixed point is that of the exact solution with ridge r."""
    rho, _, _ = naive.cca(*data, 3, ridge=0.1)
    model = fitted(*data, solver="appgrad", ridge=0.1, tol=0, max_iter=500)
    np.testing.assert_allclose(model.canonical_correlations_, rho, atol=1e-6)
    model = fitted(*data, solver="stochastic", ridge=0.1, max_passes=20)
    np.testing.assert_allclose(model.canonical_correlations_, rho, atol=0.02)


# Every solver on every back end


@pytest.mark.parametrize("solver", ITERATIVE)
@pytest.mark.parametrize("backend", [*BACKENDS, "float32"])
@pytest.mark.parametrize("seed", range(2))
def test_reaches_the_exact_solution(solver, backend, seed, tmp_path):
    p = planted(1500, 9, 7, RHO, condition=10, random_state=seed)
    if backend == "float32":
        views = ArrayViews(p.X.astype(np.float32), p.y.astype(np.float32))
    else:
        views = BACKENDS[backend](p.X, p.y, tmp_path)
    params, tolerance = ITERATIVE[solver]
    # Single precision has a ridge of 1e-6.
    tolerance += 1e-5 * (backend == "float32")
    model = fitted(views, None, **params)
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(p.X, p.y, 3)[0], atol=tolerance)
    assert model.solver_ == params["solver"]
    U = model.transform(p.X)
    np.testing.assert_allclose(U.std(axis=0), 1, atol=0.1 if "stochastic" in solver else 1e-3)
    assert model.x_weights_.dtype == views.dtype


@pytest.mark.parametrize("solver", ITERATIVE)
def test_sparse_counts(solver, rng):
    X, Y = sparse_counts(rng, n=3000)
    params, tolerance = ITERATIVE[solver]
    model = fitted(sp.csr_array(X), sp.csr_array(Y), k=2, **params)
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(X, Y, 2)[0], atol=5 * tolerance)


@pytest.mark.parametrize("solver", ITERATIVE)
@pytest.mark.parametrize("column", ["constant", "zero", "duplicate", "huge", "tiny"])
def test_awkward_columns(solver, column, data):
    X, Y = data
    extra = {
        "constant": np.full(len(X), 7.7),
        "zero": np.zeros(len(X)),
        "duplicate": X[:, 0],
        "huge": 1e100 * X[:, 1],
        "tiny": 1e-100 * X[:, 1],
    }[column]
    params, tolerance = ITERATIVE[solver]
    model = fitted(np.c_[extra, X], Y, **params)
    assert np.all(np.isfinite(model.x_weights_))
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(X, Y, 3)[0], atol=3 * tolerance)


@pytest.mark.parametrize("solver", ITERATIVE)
def test_columns_far_from_zero(solver, data):
    X, Y = data
    params, tolerance = ITERATIVE[solver]
    model = fitted(X + np.geomspace(1, 1e7, 15), Y - 1e6, **params)
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(X, Y, 3)[0], atol=3 * tolerance)


@pytest.mark.parametrize("solver", ITERATIVE)
def test_all_components_and_one_column(solver, data):
    X, Y = data
    params, tolerance = ITERATIVE[solver]
    model = fitted(X, Y[:, :1], k=1, **params)
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(X, Y[:, :1], 1)[0], atol=tolerance)
    model = fitted(X[:, :4], Y[:, :4], k=4, **params)
    expected = naive.cca(X[:, :4], Y[:, :4], 4)[0]
    np.testing.assert_allclose(model.canonical_correlations_, expected, atol=3 * tolerance)


@pytest.mark.parametrize("solver", ITERATIVE)
def test_above_the_rank(solver, data):
    X, Y = data
    with pytest.raises(ValueError, match="above the rank of the data"):
        fitted(X[:, :2] @ np.ones((2, 5)), Y, k=3, **ITERATIVE[solver][0])


@pytest.mark.parametrize("solver", ITERATIVE)
def test_equal_correlations(solver):
    p = planted(3000, 10, 10, [0.8, 0.8, 0.8, 0.2], exact=True, random_state=0)
    params, tolerance = ITERATIVE[solver]
    model = fitted(p.X, p.y, **params)
    np.testing.assert_allclose(model.canonical_correlations_, [0.8] * 3, atol=3 * tolerance)


@pytest.mark.parametrize("solver", ITERATIVE)
def test_seeds_repeat_to_the_last_bit(solver, data):
    first, second = (fitted(*data, **ITERATIVE[solver][0]) for _ in range(2))
    np.testing.assert_array_equal(first.x_weights_, second.x_weights_)


@pytest.mark.parametrize("solver", ["als", "appgrad", "lobpcg"])
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_invariance_to_units_and_swapping(solver, seed):
    """Preconditioned, neither units nor the order of rows or views matters."""
    rng = np.random.default_rng(seed)
    p = planted(300, 6, 5, [0.9, 0.6], random_state=seed)
    scale_x, scale_y = 10.0 ** rng.uniform(-6, 6, 6), 10.0 ** rng.uniform(-6, 6, 5)
    params = {"solver": solver, "tol": 1e-7, "max_iter": 3000}
    here = fitted(p.X, p.y, 2, **params).canonical_correlations_
    order = rng.permutation(300)
    other = fitted((p.y * scale_y)[order], (p.X * scale_x)[order], 2, **params).canonical_correlations_
    np.testing.assert_allclose(here, other, atol=1e-4)


@given(seed=st.integers(0, 10**6), size=st.sampled_from([20, 33, 64]))
def test_stochastic_does_not_depend_on_the_units(seed, size):
    p = planted(600, 6, 5, [0.9, 0.6], random_state=seed)
    scale = 2.0 ** np.random.default_rng(seed).integers(-30, 30, 6)
    first, second = (
        fitted(X, p.y, 2, solver="stochastic", batch_size=size, max_passes=3).canonical_correlations_
        for X in (p.X, p.X * scale)
    )
    np.testing.assert_allclose(first, second, atol=1e-6)


# Budgets, interrupts, divergence


@pytest.mark.parametrize("solver", ["als", "appgrad", "stochastic"])
def test_iterations_are_kept(solver, data):
    with pytest.warns(ConvergenceWarning, match=f"{solver} stopped at its max_iter after 7 iterations"):
        model = CCA(3, solver=solver, tol=0, max_iter=7, random_state=0).fit(*data)
    assert model.n_iter_ == [7] * 3
    assert [row["iteration"] for row in model.history_] == list(range(1, 8))


@pytest.mark.parametrize("solver", ["als", "appgrad"])
@pytest.mark.parametrize("passes", [5, 10, 25.5])
def test_passes_are_kept(solver, passes, data):
    params = {"solver": solver, "tol": 0, "max_passes": passes}
    if solver == "als":
        params |= {"working_memory": 0.01}
    model = fitted(*data, **params)
    step = 12 if solver == "als" else 1
    assert passes <= model.n_passes_ <= passes + step


@pytest.mark.parametrize("passes", [0.5, 1, 2, 4])
def test_stochastic_passes_are_kept(passes, data):
    model = fitted(*data, solver="stochastic", max_passes=passes, batch_size=50)
    assert passes - 0.1 <= model.n_passes_ <= passes


def test_seconds_are_kept(data):
    start = time.perf_counter()
    with pytest.warns(ConvergenceWarning, match="stopped at its max_seconds"):
        model = CCA(3, solver="appgrad", tol=0, max_seconds=0.3, max_iter=10**6).fit(*data)
    assert time.perf_counter() - start < 2
    assert model.history_[-1]["seconds"] >= 0.3
    assert model.history_[-2]["seconds"] < 0.3


@pytest.mark.parametrize("solver", ["als", "appgrad", "stochastic"])
def test_flops_are_kept_and_grow(solver, data):
    model = fitted(*data, solver=solver, tol=0, max_iter=20)
    flops = [row["flops"] for row in model.history_]
    assert np.all(np.diff(flops) > 0)
    stopped = fitted(*data, solver=solver, tol=0, max_flops=flops[9], max_iter=20)
    assert stopped.n_iter_[0] == 10


def test_flops_are_those_of_the_formula(data):
    """docs/algorithms.md: 6 n (p1 + p2) c for the products, 6 (p1 + p2) c (c + 1) + 40 c^3 for the rest."""
    model = fitted(*data, solver="appgrad", preconditioner=None, tol=0, max_iter=3, oversampling=2)
    flops = np.diff([row["flops"] for row in model.history_])
    n, p, c = 2000, 27, 5
    np.testing.assert_allclose(flops, 6 * n * p * c + 6 * p * c * (c + 1) + 40 * c**3)


@pytest.mark.parametrize("solver", ["als", "appgrad", "stochastic"])
def test_a_callback_stops_without_a_warning(solver, data):
    def callback(progress):
        assert np.isfinite(progress.solution().x_weights).all()
        return progress.iteration == 4

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = CCA(2, solver=solver, callback=callback, random_state=0).fit(*data)
    assert model.n_iter_[0] == 4


def test_convergence_is_quiet(data):
    for solver in ("als", "appgrad"):
        model = fitted(*data, quiet=False, solver=solver)
        assert model.history_[-1]["iteration"] < 300


@pytest.mark.parametrize("solver", ["als", "appgrad", "stochastic"])
def test_an_interrupt_leaves_a_model(solver, data):
    def callback(progress):
        if progress.iteration == 6:
            raise KeyboardInterrupt

    model = CCA(2, solver=solver, tol=0, callback=callback, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    assert model.n_iter_[0] == 5
    assert model.canonical_correlations_[0] > 0.3
    assert model.transform(data[0]).shape == (2000, 2)


def test_an_interrupt_before_the_first_step_leaves_nothing(data):
    def callback(progress):
        raise KeyboardInterrupt

    model = CCA(2, solver="appgrad", callback=callback)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    assert not hasattr(model, "canonical_correlations_")


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_control_c_saves_the_best_model_so_far(tmp_path, data):
    for name, m in zip("xy", data, strict=True):
        memmap(m, tmp_path, name)
    script = """
        import sys, threading, os, signal, time
        from appgrad.cli import main
        from appgrad import estimators
        class CCA(estimators.CCA):
            def fit(self, X, y=None):
                self.tol, self.max_iter = 0, 10**9
                threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
                return super().fit(X, y)
        import appgrad.cli
        appgrad.cli.CCA = CCA
        sys.argv = ["appgrad", "fit", "x.npy", "y.npy", "--solver", "appgrad", "-o", "m.cca"]
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == 1, done.stderr
    assert "interrupted; the best model so far is in m.cca" in done.stderr
    from appgrad import load

    assert load(tmp_path / "m.cca").canonical_correlations_[0] > 0.9


@pytest.mark.parametrize("step", [3.0, 100.0, 1e10, 1e300])
@pytest.mark.parametrize("solver", ["appgrad", "stochastic"])
@pytest.mark.parametrize("preconditioner", [None, "jacobi"])
def test_divergence_is_caught(step, solver, preconditioner, data):
    model = fitted(*data, solver=solver, step_size=step, preconditioner=preconditioner, tol=0, max_iter=150)
    assert np.all(np.isfinite(model.x_weights_))
    assert np.all(np.isfinite(model.y_weights_))
    events = [row["event"] for row in model.history_ if "event" in row]
    assert events
    assert all("step cut to" in event for event in events)
    assert model.canonical_correlations_.sum() > 0.75 * naive.cca(*data, 3)[0].sum()


def test_a_step_that_is_short_enough_is_never_cut(data):
    model = fitted(*data, solver="appgrad", preconditioner=None, step_size=0.5, tol=0, max_iter=100)
    assert not any("event" in row for row in model.history_)


def test_momentum_restarts_when_less_is_captured(data):
    cov = operator(*data)
    M = jacobi(cov)
    solver = AppGrad(3, (0.3, 0.3), M, momentum=0.99)
    state, _ = solver.init(cov, 3, np.random.default_rng(0))
    ages = []
    for _ in range(200):
        state, _ = solver.step(state, cov)
        ages.append(state.age)
    assert 0 in ages[1:]
    assert max(ages) > 5


# One pass, memory, defaults


class Once(CountedViews):
    """Views that refuse to deliver a row twice, or all rows at a time."""

    def __init__(self, views):
        super().__init__(views)
        self.delivered = np.zeros(views.n_samples, dtype=int)

    def take(self, rows):
        self.delivered[rows] += 1
        assert self.delivered.max() == 1
        return super().take(rows)

    def parts(self, dtype=None):
        raise AssertionError("all rows were read at a time")


def test_one_pass_reads_no_row_twice(data):
    views = Once(ArrayViews(*data))
    steps = run(
        views,
        Problem(3),
        Options("stochastic", limits=Limits(passes=1), batch_size=50),
        np.random.default_rng(0),
    )
    *_, progress = steps
    solution = progress.solution()
    assert np.all(views.delivered == 1)
    np.testing.assert_allclose(solution.correlations, RHO[:3], atol=0.1)
    np.testing.assert_allclose(solution.mean_x, data[0].mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(solution.std_y, data[1].std(axis=0), atol=1e-12)
    assert np.all(np.isfinite(solution.y_slopes))


@pytest.mark.parametrize("solver", ["appgrad", "stochastic"])
def test_memory_grows_with_k_times_p_and_not_with_n(solver):
    """Peak memory beyond the data: linear in p, with a slope of so many bases; flat in n."""

    def peak(n, p, k):
        rng = np.random.default_rng(0)
        X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, p))
        tracemalloc.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverfitWarning)
            fitted(X, Y, k=k, solver=solver, preconditioner=None, max_iter=4, tol=0, batch_size=50)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    def slope(k):
        """Doubles a feature; a p x p matrix would be 8000 on the way from 1000 to 3000 columns a view."""
        return (peak(400, 3000, k) - peak(400, 1000, k)) / (2 * 2000 * 8)

    # Some twenty bases of k + 5 columns, and the rows in memory: minibatch, normaliser, read ahead.
    rows = 6 * 400 if solver == "stochastic" else 0
    assert slope(5) < 30 * 10 + rows
    assert slope(25) < 30 * 30 + rows
    # A block of 32 MB of rows at most, whatever their number.
    assert peak(20000, 300, 5) < peak(10000, 300, 5) + 12 * 2**20 < 20000 * 600 * 8


def test_no_p_by_p_matrix_for_sparse_data(rng):
    X, Y = (sp.random_array((3000, 20000), density=0.0005, rng=rng, format="csr") for _ in range(2))
    for solver in ("appgrad", "stochastic", "als"):
        tracemalloc.start()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OverfitWarning)
            fitted(X, Y, k=2, solver=solver, max_iter=3, tol=0)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 250 * 2**20 < 20000**2 * 8 / 10


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"step_size": -0.1}, "step_size must be 'auto' or a finite number above 0"),
        ({"step_size": 0}, "step_size must be"),
        ({"step_size": np.nan}, "step_size must be"),
        ({"step_size": np.inf}, "step_size must be"),
        ({"batch_size": 3000}, "batch_size=3000 is above the 2000 rows there are: use a smaller one"),
        ({"batch_size": 2, "normaliser": "batch"}, "batch_size=2 rows cannot normalise 3 columns"),
        ({"normaliser": 2}, r"normaliser=2 rows cannot normalise 3 columns .* use at least 3"),
        ({"normaliser": "rows"}, "normaliser must be"),
        ({"preconditioner": "ilu"}, "preconditioner must be 'auto', 'jacobi', 'lowrank' or None"),
        ({"solver": "sgd"}, "solver must be one of"),
        ({"covariance": "dense"}, "leaves no minibatches"),
        ({"max_passes": 0}, "max_passes must be None or a number above 0"),
        ({"solver": "appgrad", "max_passes": 1}, "max_passes=1 is too few for solver='appgrad'"),
        ({"oversampling": -1}, "oversampling must be"),
    ],
)
def test_bad_parameters(params, message, data):
    with pytest.raises(ValueError, match=message):
        CCA(3, **{"solver": "stochastic", **params}).fit(*data)


def test_dense_covariances_give_the_same_iterates(data):
    """Up to rounding, and without a pass an iteration."""
    params = {"solver": "appgrad", "preconditioner": "jacobi", "tol": 0, "max_iter": 30}
    rows, matrices = (fitted(*data, covariance=c, **params) for c in ("auto", "dense"))
    np.testing.assert_allclose(rows.canonical_correlations_, matrices.canonical_correlations_, atol=1e-10)
    assert matrices.n_passes_ < 2 < 30 < rows.n_passes_


def test_correlations_of_one_are_not_reported_in_silence(rng):
    X, Y = rng.standard_normal((40, 60)), rng.standard_normal((40, 50))
    with pytest.warns(OverfitWarning):
        fitted(X, Y, k=2, solver="als", tol=0.01)


def test_saved_models_keep_their_history(tmp_path, data):
    from appgrad import load

    model = fitted(*data, solver="stochastic", max_passes=1)
    model.save(tmp_path / "m.cca")
    again = load(tmp_path / "m.cca")
    assert again.history_ == model.history_
    assert again.solver == "stochastic"
    np.testing.assert_array_equal(again.error_bounds_, model.error_bounds_)


def test_auto_steps_beat_a_range_of_constant_ones(data):
    """The bar of benchmarks/steps.py on a small problem: nearly as good as the best constant."""
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


# What was once wrong


def test_independent_views_are_not_reported_as_correlated(rng):
    """One pass over noise: estimates come from rows the pairs were not fitted to."""
    X, Y = rng.standard_normal((12000, 10)), rng.standard_normal((12000, 10))
    for params in ({}, {"batch_size": 20}, {"max_seconds": 60, "max_passes": None}):
        model = fitted(X, Y, k=5, solver="stochastic", **{"max_passes": 1, **params})
        assert model.canonical_correlations_.max() < 0.1


def test_als_is_not_fooled_by_a_common_factor(data):
    X, Y = data
    f = 1e4 * np.random.default_rng(1).standard_normal((2000, 1))
    expected = CCA(3, solver="exact").fit(X + f, Y + f).canonical_correlations_
    np.testing.assert_allclose(
        fitted(X + f, Y + f, solver="als").canonical_correlations_, expected, atol=1e-3
    )
    expected = CCA(3, solver="exact", ridge=1e6).fit(X, Y).canonical_correlations_
    found = fitted(X, Y, solver="als", ridge=1e6).canonical_correlations_
    np.testing.assert_allclose(found, expected, rtol=1e-2)


@pytest.mark.parametrize(
    ("n", "params"),
    [(250, {"max_passes": 1}), (300, {"max_passes": 2}), (1000, {"max_iter": 1}), (1000, {"batch_size": 1})],
)
def test_runs_of_one_step_or_one_row(n, params, data):
    model = fitted(data[0][:n], data[1][:n], k=2, solver="stochastic", **params)
    assert model.canonical_correlations_[0] > 0.2


@pytest.mark.parametrize("solver", ["als", "appgrad", "stochastic"])
def test_components_without_any_correlation(solver):
    H = np.tile(hadamard(16).astype(float), (40, 1))
    model = fitted(H[:, [1, 2]], H[:, [1, 3]], k=2, solver=solver, batch_size=50)
    tolerance = 0.1 if solver == "stochastic" else 1e-6
    np.testing.assert_allclose(model.canonical_correlations_, [1, 0], atol=tolerance)


def test_a_wide_view_beside_a_narrow_one(rng):
    """The strong directions of X are levelled however few columns y has."""
    F = rng.standard_normal((3000, 30))
    X = 10 * F @ rng.standard_normal((30, 300)) + rng.standard_normal((3000, 300))
    Y = X[:, :4] - 10 * F @ np.linalg.lstsq(10 * F, X[:, :4], rcond=None)[0] + rng.standard_normal((3000, 4))
    exact = CCA(2, solver="exact").fit(X, Y).canonical_correlations_.sum()
    assert fitted(X, Y, k=2, solver="appgrad", max_iter=100).canonical_correlations_.sum() > 0.98 * exact


@pytest.mark.parametrize("seed", range(4))
def test_rare_features_do_not_explode(seed):
    """Forty ordinary columns and three hundred that are lit in four rows each, dense: one pass."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((20000, 5))
    X, Y = (
        np.hstack(
            [Z @ rng.standard_normal((5, 40)) + rng.standard_normal((20000, 40)), np.zeros((20000, 300))]
        )
        for _ in range(2)
    )
    for M in (X, Y):
        for j in range(40, 340):
            M[rng.choice(20000, 4, replace=False), j] = 1.0
    exact = CCA(5, solver="exact", ridge=1e-3).fit(X, Y).canonical_correlations_.sum()
    model = fitted(X, Y, k=5, solver="stochastic", ridge=1e-3, max_passes=1, batch_size=200)
    U, V = model.transform(X, Y)
    assert np.mean([np.corrcoef(u, v)[0, 1] for u, v in zip(U.T, V.T, strict=True)]) * 5 > 0.9 * exact


def test_solutions_on_the_way_change_nothing(data):
    params = {"solver": "stochastic", "max_passes": 3, "batch_size": 50}
    plain = fitted(*data, **params)
    asked = fitted(*data, callback=lambda progress: progress.solution() and None, **params)
    np.testing.assert_array_equal(plain.x_weights_, asked.x_weights_)
    np.testing.assert_allclose(asked.x_mean_, data[0].mean(axis=0), atol=1e-12)
    assert asked.n_passes_ <= 3


def test_steps_asked_for_are_steps_made(data):
    for n, size, steps in ((100, 3, 19), (100, 7, 11), (97, 5, 13)):
        model = fitted(data[0][:n], data[1][:n], k=1, solver="stochastic", batch_size=size, max_iter=steps)
        assert model.n_iter_ == [steps]


def test_too_short_a_step_is_not_convergence(data):
    with pytest.warns(ConvergenceWarning):
        CCA(3, solver="appgrad", preconditioner=None, step_size=1e-6, max_iter=300).fit(*data)


def test_infinite_budgets_are_none(data):
    model = fitted(*data, solver="stochastic", max_passes=np.inf, max_iter=20)
    assert model.n_iter_[0] == 20


@pytest.mark.parametrize("solver", ["als", "appgrad", "stochastic"])
@pytest.mark.parametrize("scale", [1e-20, 1e35])
def test_float32_of_any_scale(solver, scale, data):
    X, Y = (data[0] * scale).astype(np.float32), data[1].astype(np.float32)
    found = fitted(X, Y, k=2, solver=solver).canonical_correlations_
    np.testing.assert_allclose(found, naive.cca(*data, 2)[0], atol=0.03)


def test_a_default_schedule_that_is_completed_does_not_warn(data):
    fitted(*data, quiet=False, solver="stochastic")


def test_scaling_is_a_change_of_units_for_stochastic_steps_too(data):
    X = data[0] * 10.0 ** np.linspace(-3, 3, 15)
    model = fitted(X, data[1], k=2, solver="stochastic", scale=True, preconditioner=None)
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(*data, 2)[0], atol=0.03)


def test_one_of_several_passes_measures_the_result():
    """More rows than stay in memory: the last pass is an exact Rayleigh-Ritz, within the budget."""
    p = planted(6000, 10, 8, RHO, random_state=0)
    model = fitted(p.X, p.y, solver="stochastic", max_passes=3)
    assert model.n_passes_ == 3
    np.testing.assert_allclose(model.transform(p.X).std(axis=0), 1, atol=1e-9)
    one = fitted(p.X, p.y, solver="stochastic", max_passes=1)
    assert np.abs(one.transform(p.X).std(axis=0) - 1).max() > 1e-6


def test_only_calm_states_are_returned_to(data):
    """A step a little too long grows slowly: the state to return to is from before that."""
    L = max(np.linalg.eigvalsh(S)[-1] for S in naive.covariances(*data)[::2])
    solver = Stochastic(3, (2.3 / L, 2.3 / L))
    stream = iter(minibatches(ArrayViews(*data), 200, 100, 300, np.random.default_rng(0)))
    state, _ = solver.init(next(stream), 3, np.random.default_rng(0))
    restless = 0
    for batch in stream:
        state, report = solver.step(state, batch)
        trial = state.trials[0]
        Gx, _, Gy = batch.normaliser.grams(trial.phi_t, trial.psi_t)
        if report.event is None and mean_square(Gx, Gy) > CALM:
            restless += 1
            assert trial.good[0] is not trial.phi_t
    assert restless > 3


@pytest.mark.parametrize("at", [None, 15, 25])
def test_an_unusual_minibatch_is_left_out(at):
    """Once a step has proved itself, rows that make the iterate run away cost half of it, and no more."""
    p = planted(8000, 15, 12, RHO, random_state=0)
    calm, wild = (
        list(minibatches(ArrayViews(f * p.X, f * p.y), 200, 100, 40, np.random.default_rng(1)))
        for f in (1.0, 30.0)
    )
    solver = Stochastic(3, (0.1, 0.1), adaptive=True)
    state, _ = solver.init(calm[0], 3, np.random.default_rng(0))
    for i, batch in enumerate(calm[1:], 1):
        before = state.trials[0]
        state, report = solver.step(state, batch._replace(cov=wild[i].cov) if i == at else batch)
        assert (report.event is not None) == (i == at)
        if i == at:
            after = state.trials[0]
            assert after.phi_t is before.good[0]
            assert (after.multiple, after.caution) == (before.multiple, 0.5)
        elif at is not None and i == at + 4:
            assert state.trials[0].caution == pytest.approx(0.5**0.5)
    cov = Covariance(views := ArrayViews(p.X, p.y), m := moments(views), units(m, views.dtype))
    found = captured(*cov.grams(report.A, report.B), 3)[2]
    # 2.14 without such a minibatch.
    assert found > 2.0


@pytest.mark.parametrize(("size", "normaliser"), [(20, 50), (50, 20)])
def test_rows_behind_averaged_gram_matrices(size, normaliser, data):
    """Weights rise from 1 to w: the mean is worth 3/4 of the rows, as many as its variance tells."""
    solver = Stochastic(3, (0.1, 0.1), adaptive=True)
    views = ArrayViews(*data)
    stream = iter(minibatches(views, size, normaliser, 2000 // size, np.random.default_rng(0)))
    state, _ = solver.init(next(stream), 3, np.random.default_rng(0))
    for batch in stream:
        state, report = solver.step(state, batch)
        if state.trials[0].weight and state.averaging:
            w = np.arange(1, state.trials[0].weight + 1)
            assert report.rows == pytest.approx(20 * w.sum() ** 2 / (w**2).sum())
    assert state.averaging


def test_rows_read_again_are_not_new_rows(data):
    solver = Stochastic(3, (0.01, 0.01), adaptive=True)
    stream = iter(minibatches(ArrayViews(*data), 100, 100, 200, np.random.default_rng(0), passes=10))
    state, _ = solver.init(next(stream), 3, np.random.default_rng(0))
    most = 0.0
    for batch in stream:
        state, report = solver.step(state, batch)
        most = max(most, 0.0 if report.grams is None else report.rows)
    assert most == 2000


def test_a_step_recovers_from_unusual_minibatches():
    """One in ten: each is left out, and the others find what they would have found."""
    p = planted(30000, 15, 12, RHO, random_state=0)
    found = {}
    for every in (None, 10):
        X, Y = p.X.copy(), p.y.copy()
        solver = Stochastic(3, (0.2, 0.2), adaptive=True)
        calm, wild = (
            minibatches(ArrayViews(f * X, f * Y), 200, 100, 150, np.random.default_rng(1))
            for f in (1.0, 30.0)
        )
        state, _ = solver.init(next(stream := zip(calm, wild, strict=True))[0], 3, np.random.default_rng(0))
        events = 0
        for i, (batch, other) in enumerate(stream):
            odd = every is not None and i % every == every - 1 and batch.share > 0.3
            state, report = solver.step(state, batch._replace(cov=other.cov) if odd else batch)
            events += report.event is not None and "left out" in report.event
        cov = Covariance(views := ArrayViews(X, Y), m := moments(views), units(m, views.dtype))
        found[every] = captured(*cov.grams(report.A, report.B), 3)[2], events, state.trials[0].caution
    assert found[None][1:] == (0, 1.0)
    assert found[10][1] >= 10
    assert found[10][2] > 0.4
    assert found[10][0] > 0.99 * found[None][0]


@pytest.mark.parametrize(
    ("left", "most", "begun"), [(10**6, 0.0, True), (0, 0.0, False), (10**6, 3.0, False)]
)
def test_averages_begin_anew_when_the_newest_is_ahead(left, most, begun, data, rng):
    """Of rows no step has used, and of all that was captured before: rows may have changed instead."""
    solver = Stochastic(3, (0.05, 0.05), adaptive=True)
    batches = list(minibatches(ArrayViews(*data), 50, 100, 40, np.random.default_rng(0)))
    state, _ = solver.init(batches[0], 3, np.random.default_rng(0))
    for batch in batches[1:]:
        state, _ = solver.step(state, batch._replace(share=min(batch.share, 0.6)))
    (trial,) = state.trials
    assert trial.weight > 3
    assert 0 < state.before <= state.most
    noise = tuple(rng.standard_normal(m.shape) for m in trial.means)
    state = state._replace(trials=(trial._replace(means=noise),), most=most)
    state, _ = solver.step(state, batches[20]._replace(share=0.64, left=left))
    assert (state.trials[0].weight == 0) == begun


@pytest.mark.parametrize("passes", [1, 1.5])
@pytest.mark.parametrize("normaliser", ["auto", "batch"])
def test_one_pass_over_noise_finds_nothing(passes, normaliser, rng):
    """Rows that steps were taken on have correlations that other rows have not."""
    X, Y = rng.standard_normal((6000, 200)), rng.standard_normal((6000, 200))
    model = fitted(X, Y, k=2, solver="stochastic", max_passes=passes, normaliser=normaliser)
    assert model.canonical_correlations_.max() < 0.08
    assert model.training_correlations_.max() > 0.12
