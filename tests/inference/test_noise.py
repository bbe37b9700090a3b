"""Correlations that noise alone reaches are said to be such, and no others."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV

from appgrad import CCA
from appgrad.fitting.remarks import OverfitWarning
from appgrad.inference.distributions import edge, largest_limit


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
    if p + q >= n - 1:
        assert len(texts) == 1
        return
    level = largest_limit(0.05, n, p, q)
    first = CCA(1).fit(X, Y).canonical_correlations_[0]
    assert len(texts) == (level > 0.3 and first <= level)
    assert all(f"reaches: {level:.2f}, which 5 of 100" in text for text in texts)


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


# A share of high variances (as of a spike), falling ones, and columns that depend on others.
SPECTRA = {
    "equal": lambda p: np.ones(p),
    "falling": lambda p: 1 / np.arange(1, p + 1),
    "spiked": lambda p: np.where(np.arange(p) < 3, 100.0, 1.0),
}


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize(
    ("n", "p", "q", "ridge"),
    [(100, 49, 49, 0.5), (60, 40, 40, 0.1), (100, 20, 60, 2.0), (60, 150, 9, 0.5), (100, 49, 49, (0.5, 0.0))],
)
def test_noise_with_a_ridge_is_called_noise(spectrum, n, p, q, ridge):
    """Always above a level of 0.3; and the level said is about the one reached, or above."""
    rng, found, said = np.random.default_rng(0), [], []
    for seed in range(10):
        X = rng.standard_normal((n, p)) * np.sqrt(SPECTRA[spectrum](p))
        Y = rng.standard_normal((n, q)) * np.sqrt(SPECTRA[spectrum](q))
        model = CCA(1, ridge=ridge, solver=("qr", "lobpcg")[seed % 2], tol=1e-3, random_state=0)
        texts = [str(w.message) for w in overfit(model, X, Y)]
        found.append(float(model.canonical_correlations_[0]))
        levels = (re.search(r"about ([\d.]+)", text) for text in texts)
        said += [1.0 if level is None else float(level[1]) for level in levels]
        assert texts or found[-1] < 0.32
    if said:
        assert np.mean(said) > np.mean(found) - 0.03
        # A spike has the variance, and hides how much the rest is shrunk.
        assert np.mean(said) < np.mean(found) + (0.25 if spectrum == "spiked" else 0.1)


@pytest.mark.parametrize("scale", [False, True])
def test_a_signal_above_ridged_noise_is_no_noise(scale):
    """The level of dimensions alone, 0.90, would call these noise: they hold on other rows."""
    rng = np.random.default_rng(0)
    for _ in range(5):
        z = rng.standard_normal(1100)
        X, Y = rng.standard_normal((1100, 49)), rng.standard_normal((1100, 49))
        # In five columns each: neither a spike nor lost in the ridge.
        X[:, :5], Y[:, :5] = z[:, None] + 0.4 * X[:, :5], z[:, None] + 0.4 * Y[:, :5]
        train, test = slice(0, 100), slice(100, None)
        model = CCA(1, ridge=0.5, scale=scale)
        assert not overfit(model, X[train], Y[train])
        assert model.canonical_correlations_[0] < 0.93
        assert model.score(X[test], Y[test]) > 0.8


def test_units_of_columns_change_nothing_with_scale():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((100, 49)), rng.standard_normal((100, 49))
    texts = [str(overfit(CCA(1, ridge=0.5, scale=True), X * f, Y)[0].message) for f in (1.0, 1000.0)]
    assert texts[0] == texts[1]
    assert "up to about 0.7" in texts[0]


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
        above += np.linalg.norm(X.T @ Y, 2) > largest_limit(0.001, 80, 8, 8)
    assert above <= 3
    assert largest_limit(0.001, 80, 8, 8) < edge(80, 8, 8) + 0.12
    assert edge(100, 49, 49) == pytest.approx(1.0, abs=1e-3)
    assert edge(50, 30, 30) == 1.0


def test_columns_that_force_a_correlation_say_nothing_about_the_views():
    """Related views with too many columns: held-out rows may confirm what training rows cannot show."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((60, 3))
    near = (Z + 0.1 * rng.standard_normal((60, 3)) for _ in range(2))
    X, Y = (np.hstack([view, rng.standard_normal((60, 50))]) for view in near)
    text = str(overfit(CCA(1), X, Y)[0].message)
    assert "any data with 106 columns for 60 rows" in text
    assert "these numbers show nothing" in text
    assert "related" not in text
