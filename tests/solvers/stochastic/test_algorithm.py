"""Stochastic AppGrad: against its slow twin, step by step, and on rows it has not used."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from appgrad import CCA
from appgrad.covariance.linalg import captured
from appgrad.covariance.moments import moments
from appgrad.covariance.rows import RowCovariance
from appgrad.covariance.units import units
from appgrad.data.arrays import ArrayViews
from appgrad.data.derived import CountedViews
from appgrad.datasets import planted
from appgrad.fitting.solving import run
from appgrad.solvers.gradient import CALM, mean_square
from appgrad.solvers.problem import Limits, Problem
from appgrad.solvers.protocol import Options
from appgrad.solvers.stochastic.racing import Stochastic
from helpers import fitted, in_phase, minibatches

RHO = [0.95, 0.8, 0.6, 0.3]


@pytest.fixture(scope="module")
def data():
    p = planted(2000, 15, 12, RHO, condition=20, random_state=0)
    return p.X, p.y


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("normaliser", [None, 60])
def test_stochastic_is_algorithm_5(k, normaliser, data):
    def batches():
        views = ArrayViews(*data)
        return minibatches(views, 40, normaliser, 50, np.random.default_rng(1), ridge=(0.0, 0.0))

    def centred(cov):
        mx, my = cov.moments.views
        return cov.views.x - mx.mean, cov.views.y - my.mean

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


@given(seed=st.integers(0, 10**6), size=st.sampled_from([20, 33, 64]))
def test_stochastic_does_not_depend_on_the_units(seed, size):
    p = planted(600, 6, 5, [0.9, 0.6], random_state=seed)
    scale = 2.0 ** np.random.default_rng(seed).integers(-30, 30, 6)
    first, second = (
        fitted(X, p.y, 2, solver="stochastic", batch_size=size, max_passes=3).canonical_correlations_
        for X in (p.X, p.X * scale)
    )
    np.testing.assert_allclose(first, second, atol=1e-6)


@pytest.mark.parametrize("passes", [0.5, 1, 2, 4])
def test_stochastic_passes_are_kept(passes, data):
    model = fitted(*data, solver="stochastic", max_passes=passes, batch_size=50)
    assert passes - 0.1 <= model.n_passes_ <= passes


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


def test_independent_views_are_not_reported_as_correlated(rng):
    """One pass over noise: estimates come from rows the pairs were not fitted to."""
    X, Y = rng.standard_normal((12000, 10)), rng.standard_normal((12000, 10))
    for params in ({}, {"batch_size": 20}, {"max_seconds": 60, "max_passes": None}):
        model = fitted(X, Y, k=5, solver="stochastic", **{"max_passes": 1, **params})
        assert model.canonical_correlations_.max() < 0.1


@pytest.mark.parametrize(
    ("n", "params"),
    [(250, {"max_passes": 1}), (300, {"max_passes": 2}), (1000, {"max_iter": 1}), (1000, {"batch_size": 1})],
)
def test_runs_of_one_step_or_one_row(n, params, data):
    model = fitted(data[0][:n], data[1][:n], k=2, solver="stochastic", **params)
    assert model.canonical_correlations_[0] > 0.2


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


def test_infinite_budgets_are_none(data):
    model = fitted(*data, solver="stochastic", max_passes=np.inf, max_iter=20)
    assert model.n_iter_[0] == 20


def test_a_default_schedule_that_is_completed_does_not_warn(data):
    fitted(*data, quiet=False, solver="stochastic")


def test_scaling_is_a_change_of_units_for_stochastic_steps_too(data):
    X = data[0] * 10.0 ** np.linspace(-3, 3, 15)
    model = fitted(X, data[1], k=2, solver="stochastic", scale=True, preconditioner=None)
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(*data, 2)[0], atol=0.03)


@pytest.mark.parametrize("preconditioner", ["jacobi", "lowrank"])
def test_a_ridge_above_most_variances_is_part_of_the_steps(preconditioner, rng):
    """Steps in units of the variances alone would go far where the ridge leaves nothing."""
    p = 40
    sizes = 10.0 ** -np.linspace(0, 6, p)
    Z = rng.standard_normal((3000, p))
    X, Y = Z * sizes, (Z + rng.standard_normal(Z.shape)) * sizes
    exact = CCA(2, ridge=0.01).fit(X, Y)
    model = CCA(2, ridge=0.01, solver="stochastic", preconditioner=preconditioner, random_state=0).fit(X, Y)
    np.testing.assert_allclose(
        model.canonical_correlations_.sum(), exact.canonical_correlations_.sum(), rtol=0.01
    )


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
        state, diagnostics = solver.step(state, batch)
        trial = state.trials[0]
        Gx, _, Gy = batch.normaliser.grams(trial.phi_t, trial.psi_t)
        if diagnostics.event is None and mean_square(Gx, Gy) > CALM:
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
        state, diagnostics = solver.step(state, batch._replace(cov=wild[i].cov) if i == at else batch)
        assert (diagnostics.event is not None) == (i == at)
        if i == at:
            after = state.trials[0]
            assert after.phi_t is before.good[0]
            assert (after.multiple, after.caution) == (before.multiple, 0.5)
        elif at is not None and i == at + 4:
            assert state.trials[0].caution == pytest.approx(0.5**0.5)
    cov = RowCovariance(views := ArrayViews(p.X, p.y), m := moments(views), units(m, views.dtype))
    found = captured(*cov.grams(diagnostics.A, diagnostics.B), 3)[2]
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
        state, diagnostics = solver.step(state, batch)
        if state.trials[0].weight and state.averaging:
            w = np.arange(1, state.trials[0].weight + 1)
            assert diagnostics.rows == pytest.approx(20 * w.sum() ** 2 / (w**2).sum())
    assert state.averaging


def test_rows_read_again_are_not_new_rows(data):
    solver = Stochastic(3, (0.01, 0.01), adaptive=True)
    stream = iter(minibatches(ArrayViews(*data), 100, 100, 200, np.random.default_rng(0), passes=10))
    state, _ = solver.init(next(stream), 3, np.random.default_rng(0))
    most = 0.0
    for batch in stream:
        state, diagnostics = solver.step(state, batch)
        most = max(most, 0.0 if diagnostics.grams is None else diagnostics.rows)
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
        cov = RowCovariance(views := ArrayViews(X, Y), m := moments(views), units(m, views.dtype))
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
