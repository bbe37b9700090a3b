"""LOBPCG on hard problems: clusters, dependent columns, precision, units, few rows."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

import naive
from appgrad import CCA
from appgrad.datasets import planted
from helpers import quiet
from lobpcg_helpers import fitted


@pytest.mark.parametrize("k", [3, 20, 50])
def test_fifty_equal_correlations(k):
    p = planted(3000, 80, 70, [0.7] * 50, exact=True, random_state=0)
    model, unsure = fitted(p.X, p.y, k)
    np.testing.assert_allclose(model.canonical_correlations_, 0.7, atol=1e-8)
    assert not unsure


def test_a_correlation_of_one():
    p = planted(2000, 20, 20, [1.0, 1.0, 0.9, 0.5], exact=True, random_state=0)
    model, unsure = fitted(p.X, p.y, 4)
    np.testing.assert_allclose(model.canonical_correlations_, [1, 1, 0.9, 0.5], atol=1e-6)
    assert not unsure


def test_more_components_than_correlations():
    p = planted(2000, 20, 20, [0.9, 0.5], exact=True, random_state=0)
    model, unsure = fitted(p.X, p.y, 8)
    np.testing.assert_allclose(model.canonical_correlations_, [0.9, 0.5, 0, 0, 0, 0, 0, 0], atol=1e-8)
    U, _ = model.transform(p.X, p.y)
    np.testing.assert_allclose(np.cov(U.T, bias=True), np.eye(8), atol=1e-6)
    assert not unsure


@pytest.mark.parametrize("ridge", ["auto", 0.0])
def test_every_column_twice(ridge, rng):
    Z = rng.standard_normal((1000, 12))
    W = Z[:, :6] + rng.standard_normal((1000, 6))
    model, unsure = fitted(np.hstack([Z, Z]), np.hstack([W, W]), 6, ridge=ridge)
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(Z, W, 6)[0], atol=1e-8)
    assert not unsure


@pytest.mark.parametrize("condition", [1e4, 1e6, 1e9, 1e12])
@pytest.mark.parametrize(
    "params", [{}, {"preconditioner": "jacobi"}, {"ridge": 0.0}, {"covariance": "dense"}]
)
def test_nearly_dependent_columns_converge_or_say_so(condition, params):
    p = planted(2000, 30, 20, [0.9, 0.7, 0.5], condition=condition, random_state=0)
    model, unsure = fitted(p.X, p.y, 3, **params)
    best = quiet(CCA(3, solver="qr", ridge=params.get("ridge", "auto")), p.X, p.y)
    gap = np.abs(model.canonical_correlations_ - best.canonical_correlations_).max()
    assert unsure or gap < 1e-3
    assert np.all(np.isfinite(model.x_weights_))
    # Rounding never feigns correlation.
    assert np.all(model.canonical_correlations_ < best.canonical_correlations_ + 1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("noise", [1e-2, 1e-3])
def test_weak_directions_beside_a_few_factors(dtype, noise):
    """The start has as many directions as there are factors, as far as rounding goes; more come later."""
    rng = np.random.default_rng(0)
    N = rng.standard_normal((3000, 50))
    X = rng.standard_normal((3000, 3)) @ rng.standard_normal((3, 50)) + noise * N
    Y = N[:, :40] + rng.standard_normal((3000, 40))
    X, Y = X.astype(dtype), Y.astype(dtype)
    model, unsure = fitted(X, Y, 8, ridge=0.0)
    best = CCA(8, solver="qr", ridge=0.0).fit(X, Y).canonical_correlations_
    np.testing.assert_allclose(model.canonical_correlations_, best, atol=1e-3)
    assert unsure == (noise == 1e-3)


def test_weak_directions_that_cannot_be_had_are_not_passed_over():
    rng = np.random.default_rng(0)
    N = rng.standard_normal((3000, 50))
    X = rng.standard_normal((3000, 3)) @ rng.standard_normal((3, 50)) + 1e-7 * N
    _, unsure = fitted(X, N[:, :40] + rng.standard_normal((3000, 40)), 8, ridge=0.0)
    assert unsure


@pytest.mark.parametrize("solver", ["lobpcg", "als", "appgrad"])
@pytest.mark.parametrize("ridge", [1e8, 1e12, 1e16])
def test_a_ridge_far_above_the_variances(solver, ridge, data):
    """In the limit, directions of greatest covariance; correlations far below one are still to be found."""
    exact_ = CCA(2, solver="exact", ridge=ridge).fit(*data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = CCA(2, solver=solver, ridge=ridge, random_state=0).fit(*data)
    np.testing.assert_allclose(model.canonical_correlations_, exact_.canonical_correlations_, rtol=0.01)
    np.testing.assert_allclose(model.training_correlations_, exact_.training_correlations_, atol=0.01)


def test_the_view_that_is_short_of_directions_is_named(rng):
    X = rng.standard_normal((500, 3)) @ rng.standard_normal((3, 50)) + 1e-9 * rng.standard_normal((500, 50))
    with pytest.raises(
        ValueError, match=r"rank of the data: X has \d directions .* use at most \d, or solver='qr'"
    ):
        CCA(8, solver="lobpcg", ridge=0.0, random_state=0).fit(X, rng.standard_normal((500, 40)))


@pytest.mark.parametrize(("p1", "p2", "k"), [(1, 60, 1), (60, 1, 1), (3, 500, 2), (2, 2, 2), (1, 1, 1)])
def test_views_of_very_different_width(p1, p2, k, rng):
    X = rng.standard_normal((1000, p1))
    Y = rng.standard_normal((1000, p2))
    Y[:, 0] += X[:, 0]
    model, unsure = fitted(X, Y, k)
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(X, Y, k)[0], atol=1e-7)
    assert not unsure


@pytest.mark.parametrize("center", [True, False])
def test_indicators_centred_or_not(center, words):
    """Without centring the first pair is the constant, with a correlation of one."""
    X, Y = words
    model, unsure = fitted(X, Y, 8, center=center, tol=1e-8)
    best = CCA(8, solver="exact", center=center).fit(X, Y).canonical_correlations_
    np.testing.assert_allclose(model.canonical_correlations_, best, atol=1e-6)
    assert not unsure
    if not center:
        assert best[0] > 1 - 1e-9


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
@pytest.mark.parametrize("to", [np.asarray, sp.csr_array])
def test_units_do_not_matter(scale, to, data):
    X, Y = data
    found, expected = (fitted(to(X * s), to(Y), 3)[0].canonical_correlations_ for s in (scale, 1.0))
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("solver", ["lobpcg", "als"])
@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_do_not_matter_to_tol_without_a_preconditioner(solver, scale, data):
    """Residuals are relative: they have no units, whatever the steps have."""
    X, Y = data
    with config_context(working_memory=0.01):
        model = CCA(3, solver=solver, preconditioner=None, random_state=0).fit(X * scale, Y * scale)
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(X, Y, 3)[0], atol=1e-4)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_sparse_columns_of_any_scale_without_a_preconditioner(scale):
    A, B = (sp.random_array((300, 50), density=0.1, rng=seed, format="csr") for seed in (0, 1))
    model, unsure = fitted(A * scale, B, 2, preconditioner=None)
    best = CCA(2, solver="exact").fit(A, B).canonical_correlations_
    assert unsure or np.abs(model.canonical_correlations_ - best).max() < 1e-3


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("center", [True, False])
def test_a_handful_of_rows(seed, center):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 7))
    X, Y = rng.standard_normal((n, 30)), rng.standard_normal((n, 30))
    params = {"ridge": (0.0, 1.0), "center": center}
    found = fitted(X, Y, 1, covariance="dense", **params)[0].canonical_correlations_
    np.testing.assert_allclose(
        found, CCA(1, solver="exact", **params).fit(X, Y).canonical_correlations_, atol=1e-3
    )


def test_a_view_of_constants_is_refused(rng):
    with pytest.raises(ValueError, match="X has 0 directions"):
        fitted(np.ones((100, 3)), rng.standard_normal((100, 3)), 1)


def test_constant_columns_have_no_weight(data):
    X, Y = data
    model, _ = fitted(np.c_[np.full(len(X), 3.3), X], Y, 3)
    assert np.all(model.x_weights_[0] == 0)
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(X, Y, 3)[0], atol=1e-7)


def test_more_columns_than_rows(rng):
    X, Y = rng.standard_normal((120, 300)), rng.standard_normal((120, 200))
    model, unsure = fitted(X, Y, 4, ridge=5.0, tol=1e-8)
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(X, Y, 4, ridge=5.0)[0], atol=1e-7)
    assert not unsure
