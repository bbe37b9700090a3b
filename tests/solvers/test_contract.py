"""Contract of solvers: tests that every solver of linear problems must pass, with each of its settings."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import naive
from appgrad import CCA, load, plan
from appgrad.data.arrays import ArrayViews
from appgrad.datasets import planted
from appgrad.solvers import registry
from helpers import BACKENDS, ITERATIVE, RHO, SOLVER_SETTINGS, fitted, sparse_counts


def test_every_solver_of_linear_problems_is_listed():
    listed = {params["solver"] for params, _ in SOLVER_SETTINGS.values()}
    assert listed == set(registry.names(registry.LINEAR)) - {registry.AUTO}


def without_memory(params):
    """The parameters of an estimator among those of `helpers.fitted`."""
    return {name: value for name, value in params.items() if name != "working_memory"}


@pytest.mark.parametrize("solver", SOLVER_SETTINGS)
class TestSolverContract:
    """What every solver must do. A line of `helpers.SOLVER_SETTINGS` is all that a new one needs."""

    @pytest.fixture
    def params(self, solver):
        return SOLVER_SETTINGS[solver][0]

    @pytest.fixture
    def tolerance(self, solver):
        return SOLVER_SETTINGS[solver][1]

    @pytest.mark.parametrize("backend", [*BACKENDS, "float32"])
    @pytest.mark.parametrize("seed", range(2))
    def test_reaches_the_exact_solution(self, params, tolerance, backend, seed, tmp_path):
        p = planted(1500, 9, 7, RHO, condition=10, random_state=seed)
        if backend == "float32":
            views = ArrayViews(p.X.astype(np.float32), p.y.astype(np.float32))
        else:
            views = BACKENDS[backend](p.X, p.y, tmp_path)
        # Single precision has a ridge of 1e-6.
        tolerance += 1e-5 * (backend == "float32")
        model = fitted(views, None, **params)
        np.testing.assert_allclose(model.canonical_correlations_, naive.cca(p.X, p.y, 3)[0], atol=tolerance)
        assert model.solver_ == params["solver"]
        U = model.transform(p.X)
        np.testing.assert_allclose(U.std(axis=0), 1, atol=np.clip(10 * tolerance, 1e-3, 0.1))
        assert model.x_weights_.dtype == views.dtype

    def test_sparse_counts(self, params, tolerance, rng):
        X, Y = sparse_counts(rng, n=3000)
        model = fitted(sp.csr_array(X), sp.csr_array(Y), k=2, **params)
        np.testing.assert_allclose(model.canonical_correlations_, naive.cca(X, Y, 2)[0], atol=5 * tolerance)

    @pytest.mark.parametrize("column", ["constant", "zero", "duplicate", "huge", "tiny"])
    def test_awkward_columns(self, params, tolerance, column, data):
        X, Y = data
        extra = {
            "constant": np.full(len(X), 7.7),
            "zero": np.zeros(len(X)),
            "duplicate": X[:, 0],
            "huge": 1e100 * X[:, 1],
            "tiny": 1e-100 * X[:, 1],
        }[column]
        model = fitted(np.c_[extra, X], Y, **params)
        assert np.all(np.isfinite(model.x_weights_))
        np.testing.assert_allclose(model.canonical_correlations_, naive.cca(X, Y, 3)[0], atol=3 * tolerance)

    def test_columns_far_from_zero(self, params, tolerance, data):
        X, Y = data
        model = fitted(X + np.geomspace(1, 1e7, 15), Y - 1e6, **params)
        np.testing.assert_allclose(model.canonical_correlations_, naive.cca(X, Y, 3)[0], atol=3 * tolerance)

    @pytest.mark.parametrize("center", [True, False])
    def test_a_ridge_centred_or_not(self, params, tolerance, center, data):
        X, Y = data[0] + 0.3, data[1]
        model = fitted(X, Y, ridge=0.1, center=center, **params)
        rho, _, _ = naive.cca(X, Y, 3, ridge=0.1, center=center)
        np.testing.assert_allclose(model.canonical_correlations_, rho, atol=3 * tolerance)

    def test_all_components_and_one_column(self, params, tolerance, data):
        X, Y = data
        model = fitted(X, Y[:, :1], k=1, **params)
        expected = naive.cca(X, Y[:, :1], 1)[0]
        np.testing.assert_allclose(model.canonical_correlations_, expected, atol=tolerance)
        model = fitted(X[:, :4], Y[:, :4], k=4, **params)
        expected = naive.cca(X[:, :4], Y[:, :4], 4)[0]
        np.testing.assert_allclose(model.canonical_correlations_, expected, atol=3 * tolerance)

    def test_above_the_rank(self, params, data):
        X, Y = data
        with pytest.raises(ValueError, match="above the rank of the data"):
            fitted(X[:, :2] @ np.ones((2, 5)), Y, k=3, **params)

    def test_equal_correlations(self, params, tolerance):
        p = planted(3000, 10, 10, [0.8, 0.8, 0.8, 0.2], exact=True, random_state=0)
        model = fitted(p.X, p.y, **params)
        np.testing.assert_allclose(model.canonical_correlations_, [0.8] * 3, atol=3 * tolerance)

    def test_the_solver_asked_for_is_taken_on_any_data(self, params, rng):
        X, Y = rng.standard_normal((500, 5)), rng.standard_normal((500, 4))
        # Nearly dependent: "auto" would go on to another solver.
        X[:, 1] = X[:, 0] + 1e-9 * X[:, 1]
        model = fitted(X, Y, k=1, ridge=0, **params)
        assert (model.solver_, model.solver_reason_) == (params["solver"], "asked for")

    def test_seeds_repeat_to_the_last_bit(self, params, data):
        first, second = (fitted(*data, **params) for _ in range(2))
        np.testing.assert_array_equal(first.x_weights_, second.x_weights_)

    def test_progress_is_told_and_kept(self, params, data, tmp_path):
        told = []
        model = fitted(*data, callback=lambda progress: told.append(progress.record()), **params)
        assert told == model.history_
        assert [step["iteration"] for step in told] == list(range(1, len(told) + 1))
        assert [step["passes"] for step in told] == sorted(step["passes"] for step in told)
        assert 1 <= told[-1]["passes"] <= model.n_passes_
        model.save(tmp_path / "model.cca")
        # NaN, which is not equal to itself, where a direct solver counts no operations.
        assert repr(load(tmp_path / "model.cca").history_) == repr(model.history_)

    def test_true_from_a_callback_ends_the_run(self, params, data):
        model = fitted(*data, callback=lambda progress: True, **params)
        assert model.n_iter_[0] == 1
        assert np.all(np.isfinite(model.x_weights_))

    def test_an_interrupt_before_the_first_step_leaves_nothing(self, params, data):
        def callback(progress):
            raise KeyboardInterrupt

        model = CCA(2, callback=callback, random_state=0, **without_memory(params))
        with pytest.raises(KeyboardInterrupt):
            model.fit(*data)
        assert not hasattr(model, "canonical_correlations_")

    def test_its_cost_is_planned(self, params, data):
        (cost,) = (cost for cost in plan(*data).costs if cost.solver == params["solver"])
        assert min(cost[1:]) > 0


@pytest.mark.parametrize("solver", sorted({params["solver"] for params, _ in ITERATIVE.values()}))
class TestBudgets:
    """What every iterative solver does with its budgets, and when it is stopped."""

    def test_iterations_are_kept(self, solver, data):
        with pytest.warns(ConvergenceWarning, match=f"{solver} stopped at its max_iter after 7 iterations"):
            model = CCA(3, solver=solver, tol=0, max_iter=7, random_state=0).fit(*data)
        assert model.n_iter_ == [7] * 3
        assert [row["iteration"] for row in model.history_] == list(range(1, 8))

    def test_flops_are_kept_and_grow(self, solver, data):
        model = fitted(*data, solver=solver, tol=0, max_iter=20)
        flops = [row["flops"] for row in model.history_]
        assert np.all(np.diff(flops) > 0)
        stopped = fitted(*data, solver=solver, tol=0, max_flops=flops[9], max_iter=20)
        assert stopped.n_iter_[0] == 10

    def test_seconds_are_kept(self, solver, data, clock):
        """A run ends with the first step after its seconds."""
        params = {"tol": 0, "max_seconds": 3, "max_iter": 10**6, "max_passes": 10**6}
        model = fitted(*data, solver=solver, callback=lambda progress: clock.go_on(0.5), **params)
        assert [row["seconds"] for row in model.history_] == [0, 0.5, 1, 1.5, 2, 2.5, 3]
        assert np.all(np.isfinite(model.x_weights_))

    def test_a_callback_stops_without_a_warning(self, solver, data):
        def callback(progress):
            assert np.isfinite(progress.solution().x_weights).all()
            return progress.iteration == 4

        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = CCA(2, solver=solver, tol=0, callback=callback, random_state=0).fit(*data)
        assert model.n_iter_[0] == 4

    def test_an_interrupt_leaves_a_model(self, solver, data):
        def callback(progress):
            if progress.iteration == 6:
                raise KeyboardInterrupt

        model = CCA(2, solver=solver, tol=0, callback=callback, random_state=0)
        with pytest.raises(KeyboardInterrupt):
            model.fit(*data)
        assert model.n_iter_[0] == 5
        assert model.canonical_correlations_[0] > 0.3
        assert model.transform(data[0]).shape == (2000, 2)
