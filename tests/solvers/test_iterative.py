"""ALS, AppGrad and stochastic AppGrad: budgets, interrupts, divergence and memory."""

import os
import signal
import subprocess
import sys
import textwrap
import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import hadamard
from sklearn.exceptions import ConvergenceWarning

import naive
from appgrad import CCA
from appgrad.datasets import planted
from appgrad.fitting.remarks import OverfitWarning
from helpers import fitted, memmap


def test_the_ridge_is_in_the_gradient_and_in_the_normaliser(data):
    """The consistent form: with ridge r, the fixed point is that of the exact solution with ridge r."""
    rho, _, _ = naive.cca(*data, 3, ridge=0.1)
    model = fitted(*data, solver="appgrad", ridge=0.1, tol=0, max_iter=500)
    np.testing.assert_allclose(model.canonical_correlations_, rho, atol=1e-6)
    model = fitted(*data, solver="stochastic", ridge=0.1, max_passes=20)
    np.testing.assert_allclose(model.canonical_correlations_, rho, atol=0.02)


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


# Budgets, interrupts, divergence


@pytest.mark.parametrize("solver", ["als", "appgrad"])
@pytest.mark.parametrize("passes", [5, 10, 25.5])
def test_passes_are_kept(solver, passes, data):
    params = {"solver": solver, "tol": 0, "max_passes": passes}
    if solver == "als":
        params |= {"working_memory": 0.01}
    model = fitted(*data, **params)
    step = 12 if solver == "als" else 1
    assert passes <= model.n_passes_ <= passes + step


def test_seconds_are_kept(data, clock):
    params = {"solver": "appgrad", "tol": 0, "max_iter": 10**6}
    with pytest.warns(ConvergenceWarning, match="stopped at its max_seconds"):
        model = CCA(3, max_seconds=3, callback=lambda progress: clock.go_on(0.5), **params).fit(*data)
    assert [row["seconds"] for row in model.history_] == [0, 0.5, 1, 1.5, 2, 2.5, 3]


def test_convergence_is_quiet(data):
    for solver in ("als", "appgrad"):
        model = fitted(*data, quiet=False, solver=solver)
        assert model.history_[-1]["iteration"] < 300


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_control_c_saves_the_best_model_so_far(tmp_path, data):
    for name, m in zip("xy", data, strict=True):
        memmap(m, tmp_path, name)
    script = """
        import sys, os, signal
        from appgrad.cli.main import main
        from appgrad.estimators import cca
        class CCA(cca.CCA):
            def fit(self, X, y=None):
                self.tol, self.max_iter, shown = 0, 10**9, self.callback
                def callback(progress):
                    if progress.iteration == 20:
                        os.kill(os.getpid(), signal.SIGINT)
                    return shown(progress)
                self.callback = callback
                return super().fit(X, y)
        import appgrad.cli.fit
        appgrad.cli.fit.CCA = CCA
        sys.argv = ["appgrad", "fit", "x.npy", "y.npy", "--solver", "appgrad", "-o", "m.cca"]
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert done.returncode == 130, done.stderr
    assert "interrupted; the best model so far is in m.cca" in done.stderr
    from appgrad import load

    model = load(tmp_path / "m.cca")
    assert model.canonical_correlations_[0] > 0.9
    (remark,) = model.provenance.remarks
    assert remark.startswith("the model is unfinished: appgrad was interrupted after 19 iterations and ")
    assert remark.endswith("was asked for. Its command, run again, finishes it")


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


# One pass, memory, defaults


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
        ({"step_size": -0.1}, "step_size must be 'auto', a finite number above 0 or a pair of them"),
        ({"step_size": (0.1, -0.1)}, "step_size must be"),
        ({"step_size": (0.1, "auto")}, "step_size must be"),
        ({"step_size": (0.1, 0.1, 0.1)}, "step_size must be"),
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


# What was once wrong


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


@pytest.mark.parametrize("solver", ["als", "appgrad", "stochastic"])
@pytest.mark.parametrize("scale", [1e-20, 1e35])
def test_float32_of_any_scale(solver, scale, data):
    X, Y = (data[0] * scale).astype(np.float32), data[1].astype(np.float32)
    found = fitted(X, Y, k=2, solver=solver).canonical_correlations_
    np.testing.assert_allclose(found, naive.cca(*data, 2)[0], atol=0.03)
