"""Rounding: error bounds hold, and what rounding may have changed is said, or solved from the data."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from appgrad import CCA, KernelCCA, OverfitWarning
from fuzzing.oracle import Exact
from helpers import quiet, said


def quiet_of_noise(model, X, Y):
    """The model, fitted, whatever it says of its correlations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OverfitWarning)
        return model.fit(X, Y)


DIRECT = ["exact", "qr", "als"]


def dependent(n, eps, seed, p=5, q=4):
    """Two columns that differ by eps, and what they differ by is related to a column of Y."""
    rng = np.random.default_rng(seed)
    X, Y, z = rng.standard_normal((n, p)), rng.standard_normal((n, q)), rng.standard_normal(n)
    X[:, 1] = X[:, 0] + eps * z
    Y[:, 0] = 0.9 * z + 0.4 * Y[:, 0]
    return X, Y


def true_correlations(X, Y, ridge, scale=False):
    """Those of these floats, in a hundred digits."""
    exact = Exact(X, Y, True)
    return np.array(exact.correlations(exact.ridges(ridge, scale, False)), dtype=float)


@pytest.mark.parametrize("solver", DIRECT)
@given(
    n=st.integers(20, 200),
    eps=st.floats(-12, 0).map(lambda e: 10.0**e),
    ridge=st.sampled_from(["auto", 0, 1e-6, 0.1]),
    scale=st.booleans(),
    seed=st.integers(0, 999),
)
@settings(max_examples=30)
def test_error_bounds_hold_and_no_error_is_silent(solver, n, eps, ridge, scale, seed):
    X, Y = dependent(n, eps, seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = CCA(3, solver=solver, ridge=ridge, scale=scale, tol=1e-8).fit(X, Y)
    found, bounds = model.canonical_correlations_, model.error_bounds_
    truth = true_correlations(X, Y, ridge, scale)[:3]
    off = np.abs(found - truth)
    assert np.all(off[~np.isnan(bounds)] <= bounds[~np.isnan(bounds)])
    warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert warned or off.max() < 1e-6


@pytest.mark.parametrize("solver", ["exact", "als"])
@pytest.mark.parametrize("eps", [1e-7, 1e-8, 1e-9])
def test_covariances_that_lose_a_direction_say_so(solver, eps):
    X, Y = dependent(500, eps, 0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = CCA(2, solver=solver, ridge=0).fit(X, Y)
    assert any("rounding may change the correlations by an unknown amount" in str(w.message) for w in caught)
    assert np.all(np.isnan(model.error_bounds_))


@pytest.mark.parametrize("solver", ["exact", "als"])
def test_exactly_dependent_columns_are_no_reason_to_warn(solver):
    """Rows can tell them from nearly dependent ones, where covariances cannot."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((300, 5)), rng.standard_normal((300, 4))
    Y[:, 0] += X[:, 0]
    best = CCA(2, solver=solver, ridge=0).fit(X, Y).canonical_correlations_
    twins = np.hstack([X, X[:, :2]])
    total = np.hstack([X, X[:, :3].sum(axis=1, keepdims=True)])
    levels = np.eye(6)[rng.integers(0, 6, 300)]
    for Z in (twins, total):
        model = CCA(2, solver=solver, ridge=0).fit(Z, Y)
        np.testing.assert_allclose(model.canonical_correlations_, best, atol=1e-6)
    model = CCA(2, solver=solver, ridge=0).fit(levels, Y)
    np.testing.assert_allclose(
        model.canonical_correlations_,
        CCA(2, solver="qr").fit(levels[:, 1:], Y).canonical_correlations_,
        atol=1e-6,
    )


@pytest.mark.parametrize("eps", [1e-8, 1e-9, 1e-10])
def test_auto_asks_the_data_before_it_refuses(eps):
    """Covariances have one direction, the data have two."""
    rng = np.random.default_rng(0)
    x, z, Y = rng.standard_normal(400), rng.standard_normal(400), rng.standard_normal((400, 3))
    X = np.column_stack([x, x + eps * z])
    with pytest.raises(ValueError, match="above the rank of the data"):
        CCA(2, solver="exact", ridge=0).fit(X, Y)
    model = quiet(CCA(2, ridge=0), X, Y)
    assert model.solver_ == "qr"
    truth = true_correlations(X, Y, 0)[:2]
    np.testing.assert_allclose(model.canonical_correlations_, truth, atol=1e-5)


@pytest.mark.parametrize("solver", ["exact", "als"])
@pytest.mark.parametrize("seed", range(4))
def test_unrelated_views_with_dependent_columns_have_pairs_that_vary(solver, seed):
    """A ridge keeps directions without variance: rounding must not relate them to the other view."""
    rng = np.random.default_rng(seed)
    levels = np.eye(4)[np.arange(400) % 4]
    # Equally many rows of each level, for each of the other view's: every correlation is zero.
    others = np.eye(5)[(np.arange(400) // 4) % 5]
    X, Y = (np.column_stack([Z, Z[:, :2].sum(axis=1)]) * rng.uniform(1, 9) for Z in (levels, others))
    model = CCA(1, solver=solver).fit(X, Y)
    assert model.canonical_correlations_[0] < 1e-6
    assert np.allclose(model.transform(X).std(axis=0), 1)


def test_a_ridge_keeps_weak_directions_that_are_related():
    """Their variance is below rounding, what they have in common with the other view is not."""
    X, Y = dependent(300, 2e-8, 0)
    truth = true_correlations(X, Y, "auto")[:4]
    for solver in ("exact", "als"):
        found = CCA(4, solver=solver, tol=1e-9).fit(X, Y).canonical_correlations_
        np.testing.assert_allclose(found, truth, atol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_gram_matrices_say_what_a_tiny_ridge_does_not_settle(seed):
    X, Y = dependent(60, 1e-6, seed)
    for solver in ("exact", "lobpcg", "als", "stochastic"):
        model = KernelCCA(2, kernel="linear", ridge=1e-14, solver=solver, random_state=0)
        _, warned = said(model, X, Y)
        assert any("rounding may change the correlations" in str(w.message) for w in warned)
    quiet_of_noise(KernelCCA(2, kernel="linear", ridge=1e-3), X, Y)


@pytest.mark.parametrize("seed", range(4))
def test_what_single_precision_leaves_in_doubt_is_said(seed):
    """Columns that differ by a few roundings of their values: without a ridge, noise or not, they count."""
    X, Y = (Z.astype(np.float32) for Z in dependent(80, 1e-6, seed, p=30))
    for solver in ("auto", "qr"):
        with pytest.warns(ConvergenceWarning, match="rounding may change the correlations by an unknown"):
            model = CCA(2, solver=solver, ridge=0).fit(X, Y)
        assert np.all(np.isnan(model.error_bounds_))
    for same in (2 * X[:, 0], X[:, 2] + X[:, 3] + X[:, 4]):
        X[:, 1] = same
        for solver in ("exact", "qr"):
            bounds = quiet_of_noise(CCA(2, solver=solver, ridge=0), X, Y).error_bounds_
            assert np.all(bounds < 1e-6)
    X, Y = (Z.astype(np.float32) for Z in dependent(80, 4e-6, seed))
    model = CCA(2, solver="qr", ridge=0).fit(X, Y)
    truth = true_correlations(X.astype(float), Y.astype(float), 0)[:2]
    np.testing.assert_allclose(model.canonical_correlations_, truth, atol=1e-7)


def test_unsquared_scores_are_asked_for_where_a_large_ridge_hides_theirs():
    """Correlations with the ridge are well known, those of scores that are small differences are not."""
    X, Y = dependent(300, 1.0, 0)
    X = X[:, :1] + 1e-6 * X
    params = {"n_components": 3, "ridge": 1e6}
    with pytest.warns(ConvergenceWarning, match="exact: rounding may change the correlations"):
        CCA(**params, solver="exact").fit(X, Y)
    model = CCA(**params).fit(X, Y)
    assert model.solver_ == "qr"
    U, V = model.transform(X, Y)
    found = [np.corrcoef(*uv)[0, 1] for uv in zip(U.T, V.T, strict=True)]
    np.testing.assert_allclose(model.training_correlations_, found, atol=1e-6)
    Sx, Sy, Sxy = np.cov(X.T, bias=True), np.cov(Y.T, bias=True), (X - X.mean(0)).T @ (Y - Y.mean(0)) / 300
    with pytest.warns(ConvergenceWarning, match="scores are small differences .* use fewer components"):
        _ = CCA.from_covariance(300, Sx, Sy, Sxy, **params).canonical_correlations_


@pytest.mark.parametrize("preconditioner", [None, "jacobi", "lowrank"])
def test_what_rows_cannot_show_is_said_by_any_preconditioner(preconditioner):
    X, Y = dependent(600, 4e-9, 0)
    _, warned = said(CCA(2, solver="lobpcg", ridge=0, preconditioner=preconditioner, random_state=0), X, Y)
    assert any("rounding may change the correlations by an unknown amount" in str(w.message) for w in warned)


def test_directions_that_only_rounding_relates_are_no_components():
    """A ridge keeps the sum of indicators, which is constant: there are four components, not five."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, Y = np.eye(5)[rng.integers(5, size=415)], np.eye(6)[rng.integers(6, size=415)] + 3
        for solver in ("exact", "auto"):
            with pytest.raises(ValueError, match="n_components=5 is above the rank of the data"):
                CCA(5, solver=solver, ridge=1.2e-8, scale=True).fit(X, Y)


def test_results_of_single_precision_are_measured_in_double():
    """AppGrad's steps on float32 rows: small differences of large columns are scores too."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((700, 4)), rng.standard_normal((700, 5))
    Y[:, 0] += 2 * X[:, 1]
    X, Y = (X[:, :1] + 0.01 * X).astype(np.float32), Y.astype(np.float32)
    model, _ = said(CCA(2, solver="appgrad", ridge=1e-9, random_state=0), X, Y)
    U, V = model.transform(X.astype(float), Y.astype(float))
    found = [np.corrcoef(*uv)[0, 1] for uv in zip(U.T, V.T, strict=True)]
    np.testing.assert_allclose(model.training_correlations_, found, atol=1e-8)


@pytest.mark.parametrize(("size", "eps"), [(1e12, 1e-10), (1e14, 1e-12)])
def test_a_ridge_that_vanishes_beside_the_variances_is_bounded(rng, size, eps):
    """Units in which it is seen have no digits left for small differences: it is raised, and that is said."""
    X, Y, z = rng.standard_normal((400, 3)), rng.standard_normal((400, 2)), rng.standard_normal(400)
    X[:, 1], Y[:, 0] = X[:, 0] + eps * z, 0.9 * z + 0.4 * Y[:, 0]
    model, warned = said(CCA(1, ridge=1e-9, solver="qr"), X * [size, size, 1], Y)
    right = quiet(CCA(1, ridge=0, solver="qr"), X, Y).canonical_correlations_
    assert abs(model.canonical_correlations_ - right) < model.error_bounds_
    assert warned


@pytest.mark.parametrize("first", [True, False])
def test_the_condition_is_that_of_the_worse_view(rng, first):
    X, Y = rng.standard_normal((300, 4)), rng.standard_normal((300, 4))
    X[:, 1] = X[:, 0] + 1e-4 * X[:, 1]
    views = (X, Y) if first else (Y, X)
    assert quiet(CCA(1, solver="exact", ridge=0), *views)._fitted.fit.solution.condition > 1e7
