"""Pairs in directions of tiny variance: a solver finds them, or says that it may have missed something."""

import warnings
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context

from appgrad import CCA, KernelCCA, SparseCCA
from appgrad.covariance.preconditioners import NARROW, diagonal, sampled
from helpers import quiet, said

FORMS = {
    "dense": lambda X, Y: (X, Y),
    "float32": lambda X, Y: (X.astype(np.float32), Y.astype(np.float32)),
    "csr": lambda X, Y: (sp.csr_array(X), sp.csr_array(Y)),
    "far from zero": lambda X, Y: (X + 100, Y - 50),
    "in other units": lambda X, Y: (X * 10.0 ** np.arange(-3, 4)[np.arange(X.shape[1]) % 7], Y),
}


OPTIONS = [
    {},
    {"preconditioner": "jacobi"},
    {"preconditioner": "lowrank"},
    {"preconditioner": None},
    {"covariance": "dense"},
    {"max_passes": 60, "preconditioner": "lowrank"},
    {"max_passes": 200, "preconditioner": "jacobi"},
]


def hidden(n, p, eps, how, seed, sides=1, strong=0):
    """Noise, but for what two columns differ by, or a total misses: that is related to a column of Y.

    Beside it there are `strong` pairs that every solver sees; the hidden one is stronger.
    """
    rng = np.random.default_rng(seed)
    X, Y, z = rng.standard_normal((n, p)), rng.standard_normal((n, p)), rng.standard_normal(n)
    if how == "twins":
        X[:, 1] = X[:, 0] + eps * z
    else:
        X[:, -1] = X[:, : p // 2].sum(axis=1) + eps * z
    Y[:, 0] = 0.9 * z + (0.1 if strong else 0.4) * Y[:, 0]
    for j in range(2, 2 + strong):
        Y[:, j] = X[:, j] + 0.1 * (j + 1) * Y[:, j]
    if sides == 2:
        Y[:, 0], Y[:, 1] = Y[:, 1] + eps * Y[:, 0], Y[:, 1].copy()
    return X, Y


@pytest.mark.parametrize("solver", ["lobpcg", "appgrad", "als", "stochastic"])
@given(
    n=st.sampled_from([300, 700, 2000, 5000, 12000]),
    p=st.integers(6, 60),
    eps=st.sampled_from([0.1, 1e-2, 1e-3, 3e-4, 1e-4, 2e-5]),
    how=st.sampled_from(["twins", "total"]),
    form=st.sampled_from(sorted(FORMS)),
    sides=st.sampled_from([1, 2]),
    strong=st.sampled_from([0, 2]),
    options=st.sampled_from(OPTIONS),
    seed=st.integers(0, 99),
)
@settings(max_examples=15)
def test_a_hidden_pair_is_found_or_something_is_said(
    solver, n, p, eps, how, form, sides, strong, options, seed
):
    X, Y = FORMS[form](*hidden(n, p, eps, how, seed, sides, strong))
    if solver == "stochastic":
        options = {name: value for name, value in options.items() if name == "preconditioner"}
    best = quiet(CCA(2, solver="qr"), X, Y).canonical_correlations_
    model, warned = said(CCA(2, solver=solver, random_state=seed, **options), X, Y)
    assert warned or np.abs(model.canonical_correlations_ - best).max() < 2e-3


@pytest.mark.parametrize("solver", ["lobpcg", "appgrad"])
def test_hidden_pairs_are_found_without_a_word(solver):
    """Where they can be found, they are."""
    for seed in range(5):
        X, Y = hidden(2000, 50, 1e-2, "twins", seed)
        best = CCA(2, solver="exact").fit(X, Y).canonical_correlations_
        model = CCA(2, solver=solver, random_state=seed).fit(X, Y)
        assert best[0] > 0.85
        np.testing.assert_allclose(model.canonical_correlations_, best, atol=3e-4)


@pytest.mark.parametrize("solver", ["lobpcg", "appgrad", "stochastic"])
@pytest.mark.parametrize("seed", range(3))
def test_what_covariances_cannot_see_is_said(solver, seed):
    """Without a ridge, a difference of 1e-8 counts; its variance is lost in rounding."""
    X, Y = hidden(400, 6, 1e-8, "twins", seed)
    _, warned = said(CCA(1, solver=solver, ridge=0, random_state=seed), X, Y)
    assert any("rounding may change the correlations by an unknown amount" in str(w.message) for w in warned)
    X[:, 1] = X[:, 0]
    _, warned = said(CCA(1, solver=solver, ridge=0, random_state=seed), X, Y)
    assert not any("rounding" in str(w.message) for w in warned)


@pytest.mark.parametrize("seed", range(3))
def test_small_stochastic_fits_know_what_they_miss(seed):
    """Their steps end at the second pair, whose residual is small: all rows are in memory to compare with."""
    X, Y = hidden(300, 8, 5e-4, "twins", seed)
    model, warned = said(CCA(1, solver="stochastic", random_state=seed), X, Y)
    best = CCA(1, solver="qr").fit(X, Y).canonical_correlations_[0]
    assert warned or model.canonical_correlations_[0] == pytest.approx(best, abs=1e-3)
    assert any("it may miss" in str(w.message) for w in warned)


@pytest.mark.parametrize("solver", ["appgrad", "als", "lobpcg"])
@pytest.mark.parametrize("seed", range(6))
def test_few_rows_with_a_ridge_far_above_the_variances_are_probed(solver, seed):
    """The columns that a probe adds may hide those that are there."""
    rng = np.random.default_rng(seed)
    X, Y = (rng.random((11, 9)) < 0.4) * 1.0, (rng.random((11, 4)) < 0.4) * 1.0
    X[:, 0], Y[:, 3] = [1.0] + [0.0] * 10, Y[:, :2].sum(axis=1) + 6e-3 * rng.standard_normal(11)
    params = {"n_components": 2, "ridge": 2.71e6, "scale": True}
    model, warned = said(CCA(**params, solver=solver, tol=1e-3, random_state=0), sp.csr_array(X), Y)
    best = quiet(CCA(**params, solver="qr"), X, Y).canonical_correlations_
    assert warned or np.abs(model.canonical_correlations_ - best).max() < 1e-3


@pytest.mark.parametrize(("solver", "most"), [("lobpcg", 12), ("appgrad", 200)])
def test_matrices_are_preconditioned_by_their_inverse(solver, most):
    """A solver on p x p matrices does no worse than on the rows themselves."""
    X, Y = hidden(2000, 50, 1e-2, "twins", 0, strong=2)
    best = CCA(2, solver="qr").fit(X, Y).canonical_correlations_
    model = CCA(2, solver=solver, covariance="dense", random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.canonical_correlations_, best, atol=3e-4)
    assert model.n_iter_[0] < most


@cache
def wide(strong):
    """Views of too many columns for the covariance of a sample, and their correlations."""
    X, Y = hidden(2600, NARROW + 20, 1e-3, "twins", 0, strong=strong)
    Y = Y[:, :30]
    return X, Y, quiet(CCA(2, solver="qr"), X, Y).canonical_correlations_


@pytest.mark.parametrize("solver", ["lobpcg", "appgrad", "als"])
@pytest.mark.parametrize("strong", [0, 2])
def test_wide_views_are_probed(solver, strong):
    """Conjugate gradients look for what is missing."""
    X, Y, best = wide(strong)
    # No room for p x p matrices.
    with config_context(working_memory=1):
        model, _ = said(CCA(2, solver=solver, random_state=0), X, Y)
    assert np.abs(model.canonical_correlations_ - best).max() < 1e-3


def test_a_run_without_passes_for_a_probe_says_so():
    X, Y, _ = wide(2)
    for passes, expected in ((60, True), (400, False)):
        model, warned = said(CCA(1, solver="lobpcg", max_passes=passes, random_state=0), X, Y)
        assert model.history_[-1]["passes"] < passes
        assert any("takes no look at directions" in str(w.message) for w in warned) == expected


@pytest.mark.parametrize("solver", ["lobpcg", "appgrad"])
@pytest.mark.parametrize(("eps", "ridge", "seed"), [(1e-2, 0, 1), (1e-2, 0, 2), (3e-2, "auto", 1)])
def test_what_the_sample_does_not_show_is_looked_at(solver, eps, ridge, seed):
    """Columns that differ in five rows, in both views: a sample of 2000 rows may hold none of them."""
    rng, n = np.random.default_rng(seed), 20_000
    X, Y, z = rng.standard_normal((n, 30)), rng.standard_normal((n, 30)), np.zeros(n)
    Y[:, 2] += X[:, 2]
    z[rng.choice(n, 5, replace=False)] = rng.standard_normal(5)
    X[:, 1], Y[:, 1] = X[:, 0] + eps * z, Y[:, 0] + eps * z
    model, _ = said(CCA(1, solver=solver, ridge=ridge, random_state=0), X, Y)
    assert model.canonical_correlations_[0] > 0.99


def test_exactly_dependent_columns_cost_one_pass(rng):
    """Dummies of all levels have directions without variance in the sample, and in all rows."""
    X, Y = rng.standard_normal((10_000, 6)), rng.standard_normal((10_000, 6))
    Y[:, 0] += X[:, 0]
    dummies = np.hstack([X, np.eye(5)[rng.integers(0, 5, 10_000)], np.ones((10_000, 1))])
    without = quiet(CCA(1, solver="lobpcg", random_state=0), dummies[:, :-2], Y)
    model = quiet(CCA(1, solver="lobpcg", random_state=0), dummies, Y)
    assert model.n_passes_ <= without.n_passes_ + 2


@pytest.mark.parametrize("solver", ["lobpcg", "appgrad", "als"])
@pytest.mark.parametrize("preconditioner", ["jacobi", "lowrank", None])
def test_matrices_are_probed_whatever_the_passes(solver, preconditioner):
    X, Y = hidden(2000, 60, 1e-2, "twins", 1, strong=1)
    model = CCA(1, solver=solver, ridge=0, covariance="dense", preconditioner=preconditioner, random_state=0)
    found = quiet(model.set_params(max_passes=60), X, Y).canonical_correlations_
    assert abs(found - quiet(CCA(1, solver="qr", ridge=0), X, Y).canonical_correlations_) < 1e-3


@pytest.mark.parametrize("solver", ["lobpcg", "appgrad"])
@pytest.mark.parametrize("passes", [30, 60, 100])
def test_rare_columns_without_passes_for_a_probe_are_said(solver, passes, rng):
    """A sample does not show columns that few rows have: they are not known to the preconditioner."""
    n = 20_000
    X, Y, g = rng.standard_normal((n, 20)), rng.standard_normal((n, 20)), rng.standard_normal(100)
    rows = rng.choice(n, 100, replace=False)
    Y[:, 5] += X[:, 5]
    X[:, 0], X[rows, 0] = 0, 1 + rng.random(100)
    X[:, 1] = X[:, 0]
    X[rows, 1] += 1e-3 * g
    Y[:, 0] *= 0.01
    Y[rows, 0] += g
    model, warned = said(CCA(1, solver=solver, ridge=0, max_passes=passes, random_state=0), X, Y)
    assert model.canonical_correlations_[0] > 0.98 or warned


def test_passes_kept_for_a_probe_are_said(rng):
    X, Y = rng.standard_normal((300, 20)), rng.standard_normal((300, 20))
    model = CCA(2, solver="appgrad", preconditioner="jacobi", tol=1e-12, random_state=0)
    _, warned = said(model.set_params(max_passes=110), X, Y)
    assert any("69.0 passes (others were kept for a look" in str(w.message) for w in warned)
    _, warned = said(model.set_params(max_passes=50), X, Y)
    assert any("50.0 passes and" in str(w.message) for w in warned)


def test_kernels_without_passes_for_a_probe_say_so_and_matrices_need_none():
    rng = np.random.default_rng(0)
    X, Y, z = rng.standard_normal((170, 5)), rng.standard_normal((170, 4)), rng.standard_normal(170)
    X[:, 1], Y[:, 0] = X[:, 0] + 2e-3 * z, 0.95 * z + 0.3 * Y[:, 0]
    model = KernelCCA(1, kernel="linear", ridge=1e-6, solver="als", max_passes=60, random_state=0)
    _, warned = said(model, X, Y)
    assert any("takes no look at directions" in str(w.message) for w in warned)
    X, Y = rng.standard_normal((2500, NARROW + 20)), rng.standard_normal((2500, 5))
    Y[:, 0] += 3 * X[:, 0]
    _, warned = said(CCA(1, solver="als", max_passes=60, random_state=0), X, Y)
    assert not warned


def test_sparse_components_are_not_blamed_for_what_they_leave_out():
    """Pairs of all columns are stronger than any of two, and there are more of them."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((9000, 20)), rng.standard_normal((9000, 3))
    Y[:, :2] = X @ np.sign(rng.standard_normal((20, 2))) + 0.1 * Y[:, :2]
    for passes in (1, 3):
        model = SparseCCA(1, n_nonzero=(2, 1), solver="stochastic", max_passes=passes, random_state=0)
        _, warned = said(model, X, Y)
        assert not any("has not found pairs" in str(w.message) for w in warned)


@pytest.mark.parametrize("strong", [0, 2])
def test_stochastic_fits_and_streams_say_what_rows_in_memory_show(strong):
    """Beyond the rows in memory, residuals of pairs that were found do not show one that was not."""
    X, Y = hidden(9000, 20, 1e-3, "twins", 0, strong=strong)
    assert _warned_of_pairs(_fitted, X, Y)
    assert _warned_of_pairs(_streamed, X, Y)
    X, Y = hidden(9000, 20, 1.0, "twins", 0, strong=strong)
    assert not _warned_of_pairs(_fitted, X, Y)
    assert not _warned_of_pairs(_streamed, X, Y)


def _fitted(X, Y):
    CCA(2, solver="stochastic", random_state=0).fit(X, Y)


def _streamed(X, Y):
    model = CCA(2, solver="stochastic", random_state=0)
    for start in range(0, len(X), 1000):
        model.partial_fit(X[start : start + 1000], Y[start : start + 1000])
    return model.canonical_correlations_


def _warned_of_pairs(fit, X, Y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(X, Y)
    return any("stochastic has not found pairs with" in str(w.message) for w in caught)


@pytest.mark.parametrize("seed", range(6))
def test_kernels_find_pairs_in_low_variance_or_say_something(seed):
    rng = np.random.default_rng(seed)
    X, Y, z = rng.standard_normal((190, 3)), rng.standard_normal((190, 2)), rng.standard_normal(190)
    X[:, 1], Y[:, 0] = X[:, 0] + 2e-3 * z, 0.95 * z + 0.3 * Y[:, 0]
    best = CCA(1, solver="qr", ridge=1e-6).fit(X, Y).canonical_correlations_
    for solver in ("als", "lobpcg", "appgrad"):
        model = KernelCCA(1, kernel="linear", ridge=1e-6, solver=solver, random_state=0)
        model, warned = said(model, X, Y)
        assert warned or np.abs(model.canonical_correlations_ - best).max() < 1e-3


def test_columns_of_few_rows_keep_their_diagonal(rng):
    """Two rows of a sample cannot tell columns apart: their difference would seem to have no variance."""
    Z = rng.standard_normal((400, 4))
    Z[:, 2:] = 0.0
    Z[0, 2:] = 20.0
    side = sampled(Z, np.full(4, 1e-10), diagonal(np.ones(4)), whole=False).side
    assert side.V.shape == (4, 2)
    np.testing.assert_allclose(side.solve(np.eye(4))[2:, 2:], np.eye(2))
    np.testing.assert_allclose(
        side.solve(np.eye(4))[:2, :2], np.linalg.inv(Z[:, :2].T @ Z[:, :2] / 400), rtol=1e-6
    )


@pytest.mark.parametrize("preconditioner", ["auto", "jacobi"])
@pytest.mark.parametrize("seed", range(3))
def test_appgrad_does_not_stop_far_from_the_solution(seed, preconditioner):
    """Correlations of noise crowd together: a step gains little while much is missing."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((700, 250)), rng.standard_normal((700, 240))
    best = quiet(CCA(2, solver="qr"), X, Y).canonical_correlations_.sum()
    model, warned = said(CCA(2, solver="appgrad", preconditioner=preconditioner, random_state=seed), X, Y)
    assert warned or model.canonical_correlations_.sum() > (1 - 1e-3) * best


@pytest.mark.parametrize("preconditioner", ["auto", "jacobi", None])
@pytest.mark.parametrize("seed", range(3))
def test_stochastic_says_when_it_is_far_from_the_solution(seed, preconditioner):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((1500, 20)), rng.standard_normal((1500, 15))
    X, Y = X * 10.0 ** rng.uniform(-1, 1, 20), Y * 10.0 ** rng.uniform(-1, 1, 15)
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    model, warned = said(CCA(3, solver="stochastic", preconditioner=preconditioner, random_state=seed), X, Y)
    best = CCA(3, solver="qr").fit(X, Y).canonical_correlations_
    assert warned or np.abs(model.canonical_correlations_ - best).max() < 1e-3
