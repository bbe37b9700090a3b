"""Correlations that noise alone reaches are said to be such, and no others."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV

from appgrad import CCA
from appgrad.fitting.noise import noise_edge, noise_limit
from appgrad.fitting.remarks import OverfitWarning


def overfit(model, X, Y):
    """What a fit says of its correlations."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, Y)
    return [w for w in caught if issubclass(w.category, OverfitWarning)]


shapes = st.tuples(st.integers(30, 400), st.floats(0.05, 0.7), st.floats(0.05, 0.7))


@given(shape=shapes, solver=st.sampled_from(["auto", "qr", "lobpcg"]), seed=st.integers(0, 10**6))
@settings(max_examples=30)
def test_noise_is_called_noise(shape, solver, seed):
    n, x, y = shape
    p, q = max(1, int(n * x)), max(1, int(n * y))
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
    texts = [str(w.message) for w in overfit(CCA(1, solver=solver, tol=1e-3, random_state=0), X, Y)]
    assert len(texts) == (noise_edge(n, p, q) > 0.3)
    assert all(f"{noise_edge(n, p, q):.2f}" in text or "close to 1" in text for text in texts)


@given(n=st.integers(60, 500), x=st.floats(0.02, 0.3), seed=st.integers(0, 10**6))
@settings(max_examples=20)
def test_a_pair_above_noise_is_no_noise(n, x, seed):
    rng, p = np.random.default_rng(seed), max(2, int(n * x))
    X, Y, z = rng.standard_normal((n, p)), rng.standard_normal((n, p)), rng.standard_normal(n)
    X[:, 0], Y[:, 0] = z, z + 0.01 * Y[:, 0]
    assert not overfit(CCA(1), X, Y)


def test_ranks_count_and_not_columns():
    """Views of few dimensions are related, however many columns they have."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((60, 2))
    X, Y = (
        Z @ rng.standard_normal((2, 40)),
        (Z + 0.1 * rng.standard_normal((60, 2))) @ rng.standard_normal((2, 40)),
    )
    assert not overfit(CCA(1), X, Y)


def test_dimensions_are_what_the_ridge_leaves():
    """The trace of S (S + R)^-1, of columns some of which depend on others."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 6)) * [1, 1, 2, 3, 4, 5]
    twice = np.hstack([X, X[:, :3]])
    for Z, ridge in ((X, 0.5), (X, 1e-12), (twice, 0.5), (twice, 1e-12), (twice, 0.0)):
        values = np.linalg.eigvalsh(np.cov(Z.T, bias=True))
        values = values[values > 1e-9]
        trace = int(np.sum(values / (values + ridge)) + 1e-6)
        for solver in ("exact", "qr"):
            assert CCA(1, solver=solver, ridge=ridge).fit(Z, X)._fitted.fit.solution.ranks[0] == trace
        assert CCA(1, solver="lobpcg", ridge=ridge).fit(Z, X)._fitted.fit.solution.ranks[0] >= trace


def test_who_has_set_a_ridge_is_not_told_to():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, 40)), rng.standard_normal((60, 40))
    assert "Set a ridge" in str(overfit(CCA(1), X, Y)[0].message)
    text = str(overfit(CCA(1, ridge=0.1), X, Y)[0].message)
    assert "Set a ridge" not in text
    assert "that the ridge leaves" in text
    # A ridge that leaves few dimensions leaves noise little.
    assert not overfit(CCA(1, ridge=1000.0), X, Y)


def test_searches_say_it_once_a_fit_at_the_line_of_the_user():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((90, 30)), rng.standard_normal((90, 30))
    search = GridSearchCV(CCA(1), {"ridge": [0.0, 1e-3]}, cv=3)
    caught = overfit(search, X, Y)
    assert len(caught) == 2 * 3 + 1
    assert {w.filename for w in caught} == {__file__}


def test_the_limit_is_that_of_simulated_noise():
    rng, above = np.random.default_rng(0), 0
    for _ in range(200):
        X, Y = (np.linalg.qr(Z - Z.mean(axis=0))[0] for Z in rng.standard_normal((2, 80, 8)))
        above += np.linalg.norm(X.T @ Y, 2) > noise_limit(80, 8, 8)
    assert above <= 3
    assert noise_limit(80, 8, 8) < noise_edge(80, 8, 8) + 0.12
    assert noise_edge(100, 49, 49) == pytest.approx(1.0, abs=1e-3)
    assert noise_edge(50, 30, 30) == noise_limit(50, 30, 30) == 1.0
