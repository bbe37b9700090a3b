"""Rounding: error bounds hold, and what rounding may have changed is said, or solved from the data."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from appgrad import CCA
from fuzzing.oracle import Exact
from helpers import quiet

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
