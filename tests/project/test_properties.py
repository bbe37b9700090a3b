"""Invariances of canonical correlations, whatever the data."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from appgrad import CCA
from appgrad.covariance.moments import moments, second_moments, triangle
from appgrad.data.arrays import ArrayViews

SOLVERS = ["exact", "qr"]


@st.composite
def problems(draw):
    """Two related views of a few rows, without near-degenerate columns."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    p1, p2 = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    n = draw(st.integers(p1 + p2 + 5, 60))
    shared = min(p1, p2, draw(st.integers(0, 3)))
    X, Y = rng.standard_normal((n, p1)), rng.standard_normal((n, p2))
    Y[:, :shared] += draw(st.floats(0, 3)) * X[:, :shared]
    return X, Y, rng


def correlations_of(X, Y, solver, **params):
    return (
        CCA(min(X.shape[1], Y.shape[1]), solver=solver, ridge=0.0, **params).fit(X, Y).canonical_correlations_
    )


@pytest.mark.parametrize("solver", SOLVERS)
@given(problem=problems())
def test_sorted_and_within_bounds(solver, problem):
    X, Y, _ = problem
    rho = correlations_of(X, Y, solver)
    assert np.all((rho >= 0) & (rho <= 1))
    assert np.all(np.diff(rho) <= 0)


@pytest.mark.parametrize("solver", SOLVERS)
@given(problem=problems())
def test_invariances(solver, problem):
    X, Y, rng = problem
    rho = correlations_of(X, Y, solver)
    rows = rng.permutation(len(X))
    columns = rng.permutation(X.shape[1])
    mix = rng.standard_normal((Y.shape[1], Y.shape[1])) + 3 * np.eye(Y.shape[1])
    for other in (
        correlations_of(Y, X, solver),
        correlations_of(X[rows], Y[rows], solver),
        correlations_of(X[:, columns], Y, solver),
        correlations_of(X * 10.0 ** rng.integers(-30, 30, X.shape[1]), Y, solver),
        correlations_of(X + rng.standard_normal(X.shape[1]) * 1000, Y, solver),
        correlations_of(X, Y, solver, scale=True),
        correlations_of(sp.csr_array(X), Y, solver),
    ):
        np.testing.assert_allclose(other, rho, atol=1e-8)
    if np.linalg.cond(mix) < 1e4:
        np.testing.assert_allclose(correlations_of(X, Y @ mix, solver), rho, atol=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
@given(problem=problems())
def test_weights_follow_the_views(solver, problem):
    """Swapping the views swaps the scores, up to signs, where correlations are distinct."""
    X, Y, _ = problem
    model, swapped = (CCA(1, solver=solver, ridge=0.0).fit(*views) for views in ((X, Y), (Y, X)))
    rho = correlations_of(X, Y, solver)
    if len(rho) > 1 and rho[0] - rho[1] < 0.01:
        return
    U, V = model.transform(X, Y)
    V2, U2 = swapped.transform(Y, X)
    np.testing.assert_allclose(np.abs(U), np.abs(U2), atol=1e-6)
    np.testing.assert_allclose(np.abs(V), np.abs(V2), atol=1e-6)
    np.testing.assert_allclose(U.T @ V, U2.T @ V2, atol=1e-6)


@given(problem=problems(), ridge=st.floats(0.001, 10))
def test_ridge_shrinks(problem, ridge):
    X, Y, _ = problem
    k = min(X.shape[1], Y.shape[1])
    less, more = (CCA(k, ridge=r).fit(X, Y).canonical_correlations_ for r in (ridge, 2 * ridge))
    assert np.all(more <= less + 1e-12)


@given(problem=problems(), cuts=st.lists(st.integers(1, 30), max_size=3))
def test_moments_merge_over_any_split(problem, cuts):
    X, Y, _ = problem
    edges = sorted({0, len(X), *(c for c in cuts if c < len(X))})
    parts = [ArrayViews(X[a:b], Y[a:b]) for a, b in itertools.pairwise(edges)]
    whole = ArrayViews(X, Y)
    second, tri, first = (f(parts[0]) for f in (second_moments, triangle, moments))
    for part in parts[1:]:
        second, tri = second.merge(second_moments(part)), tri.merge(triangle(part))
        first = first.merge(moments(part))
    np.testing.assert_allclose(second.scatter, second_moments(whole).scatter, atol=1e-10)
    np.testing.assert_allclose(tri.R.T @ tri.R, second.scatter, atol=1e-10)
    for found, expected in zip(first.views, moments(whole).views, strict=True):
        np.testing.assert_allclose(found.var, expected.var, atol=1e-12)
        np.testing.assert_allclose(found.mean, expected.mean, atol=1e-12)
