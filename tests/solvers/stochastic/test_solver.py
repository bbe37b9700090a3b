"""The stochastic solver on stored rows: what it reports is measured on every row, once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appgrad import CCA
from appgrad.datasets import planted
from appgrad.solvers.problem import Progress
from appgrad.solvers.protocol import Options, Outcome
from appgrad.solvers.shortfall import unfinished
from helpers import quiet


@given(n=st.integers(20, 2200), size=st.sampled_from([None, 17]), seed=st.integers(0, 99))
@settings(max_examples=15)
def test_correlations_are_those_of_all_rows(n, size, seed):
    data = planted(n, 5, 4, [0.9, 0.5], random_state=seed)
    given_size = {} if size is None else {"batch_size": size}
    model = quiet(CCA(2, solver="stochastic", random_state=seed, **given_size), data.X, data.y)
    U, V = model.transform(data.X, data.y)
    best = CCA(2, solver="qr").fit(data.X, data.y).canonical_correlations_
    assert np.allclose(
        model.training_correlations_, [np.corrcoef(*uv)[0, 1] for uv in zip(U.T, V.T, strict=True)], atol=1e-9
    )
    assert np.allclose(U.std(axis=0), 1)
    assert np.all(model.canonical_correlations_ <= best + 1e-9)


@pytest.mark.parametrize("n", [400, 6000])
def test_the_result_is_measured_in_double_precision(n):
    """Scores of nearly dependent columns are small differences, which single precision gets wrong."""
    data = planted(n, 5, 4, [0.9, 0.5], random_state=0)
    X, Y = data.X.astype(np.float32), data.y.astype(np.float32)
    X = (X[:, :1] + 1e-4 * X).astype(np.float32)
    model = quiet(CCA(2, solver="stochastic", ridge=1e-9, random_state=0), X, Y)
    U, V = model.transform(X.astype(float), Y.astype(float))
    found = [np.corrcoef(*uv)[0, 1] for uv in zip(U.T, V.T, strict=True)]
    assert np.allclose(model.training_correlations_, found, atol=1e-4)


@pytest.mark.parametrize("n", [300, 5000])
def test_columns_that_are_constant_but_for_rounding_count_for_nothing(n):
    """Shares add up to one, or nearly: the last digit of their sum may be related to anything."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((n, 6)), rng.random((n, 30))
    Y /= Y.sum(axis=1)[:, None]
    Y = np.column_stack([Y, Y.sum(axis=1)])
    assert 0 < Y[:, -1].std() < 1e-15
    model = quiet(CCA(1, solver="stochastic", random_state=0), X, Y)
    best = CCA(1, solver="qr").fit(X, Y).canonical_correlations_[0]
    assert model.canonical_correlations_[0] <= best + 1e-9
    assert model.y_weights_[-1, 0] == 0


def test_fewer_rows_than_a_minibatch_are_one_minibatch():
    data = planted(60, 4, 4, [0.9, 0.5], random_state=0)
    model = CCA(2, solver="stochastic", random_state=0).fit(data.X, data.y)
    exact = CCA(2, solver="exact").fit(data.X, data.y)
    assert np.allclose(model.canonical_correlations_, exact.canonical_correlations_, atol=1e-6)


def test_a_minibatch_asked_for_must_have_its_rows():
    data = planted(60, 4, 4, [0.9, 0.5], random_state=0)
    with pytest.raises(ValueError, match="batch_size=100 is above the 60 rows there are"):
        CCA(2, solver="stochastic", batch_size=100).fit(data.X, data.y)


def test_components_without_correlation_are_there():
    """Their columns vanish from the iterate: that is no reason to refuse them."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((170, 4)) * [1, 30, 900, 1e5], rng.standard_normal((170, 6)) * 1e-3
    model = quiet(CCA(4, solver="stochastic", ridge=3.2, batch_size=47, random_state=0), X, Y)
    best = CCA(4, solver="qr", ridge=3.2).fit(X, Y)
    assert np.allclose(model.canonical_correlations_, best.canonical_correlations_, atol=1e-3)


def test_oversampling_needs_rows():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((5, 9)), rng.standard_normal((5, 9))
    with pytest.raises(ValueError, match=r"5 rows cannot normalise 8 columns .* use a smaller oversampling"):
        CCA(1, solver="stochastic", oversampling=7).fit(X, Y)


@pytest.mark.parametrize(("missed", "said"), [(2e-4, False), (4e-4, True), (-4e-4, True)])
def test_a_small_fit_that_misses_a_thousandth_says_so(missed, said):
    """In all, not of the total, whatever its residuals are; above the optimum too."""
    data = planted(60, 4, 4, [0.95, 0.95, 0.95, 0.95], random_state=0)
    solution = CCA(4, solver="qr").fit(data.X, data.y)._fitted.fit.solution._replace(missed=missed)
    progress = Progress(7, 9.0, 1.0, 0.0, 1.0, lambda: solution, "data")
    outcome = Outcome(progress, Options("stochastic", 1e-5), 9.0, solution)
    assert bool(unfinished(outcome)) == said
