"""What models say of themselves: explained variance, the noise level, effective rows."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_linnerud

from appgrad import CCA, KernelCCA, OverfitWarning, inference
from appgrad.datasets import planted
from appgrad.inference.results import CanonicalTest
from trust_problems import FEW, quiet, silent_models

# Men's physiology against their exercises: shares of variance that SAS prints.
OWN_X, OPPOSITE_X = [0.4508, 0.2470, 0.3022], [0.2854, 0.0099, 0.0016]
OWN_Y, OPPOSITE_Y = [0.4081, 0.4345, 0.1574], [0.2584, 0.0175, 0.0008]


@pytest.fixture(scope="module")
def linnerud():
    exercise, physiology = load_linnerud(return_X_y=True)
    return physiology, exercise


@pytest.fixture(scope="module")
def data():
    p = planted(300, 8, 6, [0.8, 0.5], random_state=0)
    return p.X, p.y


def test_variance_is_that_of_sas(linnerud):
    model = quiet(CCA(3), *linnerud)
    np.testing.assert_allclose(model.x_explained_variance_, OWN_X, atol=5e-5)
    np.testing.assert_allclose(model.x_redundancy_, OPPOSITE_X, atol=5e-5)
    np.testing.assert_allclose(model.y_explained_variance_, OWN_Y, atol=5e-5)
    np.testing.assert_allclose(model.y_redundancy_, OPPOSITE_Y, atol=5e-5)


@pytest.mark.parametrize(
    "params", [{}, {"ridge": 0.3}, {"ridge": (0.5, 0.0), "scale": True}, {"center": False}]
)
@pytest.mark.parametrize("solver", ["exact", "qr", "lobpcg"])
def test_variance_is_the_mean_squared_correlation(params, solver, data):
    """By the definition, with the scores of the rows; also with a ridge, and of a constant column."""
    X, Y = np.hstack([data[0], np.zeros((300, 1))]), data[1]
    model = quiet(CCA(2, solver=solver, tol=1e-10, random_state=0, **params), X, Y)
    U, V = model.transform(X, Y)
    center = params.get("center", True)

    def explained(Z, scores):
        Z, scores = Z[:, Z.any(axis=0)], scores.copy()
        if center:
            Z, scores = Z - Z.mean(axis=0), scores - scores.mean(axis=0)
        cross = Z.T @ scores / np.linalg.norm(Z, axis=0)[:, None] / np.linalg.norm(scores, axis=0)
        return np.mean(cross**2, axis=0)

    np.testing.assert_allclose(model.x_explained_variance_, explained(X, U), atol=1e-6)
    np.testing.assert_allclose(model.x_redundancy_, explained(X, V), atol=1e-6)
    np.testing.assert_allclose(model.y_explained_variance_, explained(Y, V), atol=1e-6)
    np.testing.assert_allclose(model.y_redundancy_, explained(Y, U), atol=1e-6)


def test_a_column_twice_counts_once(data):
    X, Y = data
    once, twice = CCA(2).fit(X, Y), CCA(2).fit(np.hstack([X, X[:, :3]]), Y)
    assert twice.test().ranks == (8, 6)
    np.testing.assert_allclose(twice.test().p_values, once.test().p_values, rtol=1e-5)
    assert twice.noise_level_ == once.noise_level_
    # Iterative solvers do not know, and give an upper bound.
    unknown = quiet(CCA(2, solver="lobpcg", random_state=0), np.hstack([X, X[:, :3]]), Y)
    assert unknown.noise_level_ > once.noise_level_
    assert not unknown.noise.known
    assert np.all(np.isnan(unknown.debiased_correlations()))


def test_rows_that_are_not_centred_are_one_more(data):
    model = CCA(2, center=False).fit(*data)
    assert model.noise.dimensions.n == 301


@FEW
def test_where_theory_is_silent_the_level_is_nan_with_a_reason(data):
    for reason, model in silent_models(*data).items():
        assert np.isnan(model.noise_level_), reason
        assert np.isnan(model.noise_edge_), reason
        assert reason in model.noise_level_reason_
        with pytest.raises(ValueError, match=reason) as raised:
            model.test()
        assert "ive rows, test(X, y)" in str(raised.value)


def test_the_overfitting_warning_uses_the_level():
    rng = np.random.default_rng(0)
    for _ in range(30):
        X, Y = rng.standard_normal((40, 3)), rng.standard_normal((40, 4))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = CCA(1).fit(X, Y)
        said = [str(w.message) for w in caught if issubclass(w.category, OverfitWarning)]
        above = model.canonical_correlations_[0] > model.noise_level_
        assert any("not clearly above what noise" in text for text in said) == (not above)
        if not above:
            assert any(
                f"reaches: {model.noise_level_:.2f}, which 5 of 100 data sets" in text for text in said
            )


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("budget", [{"max_passes": 3}, {"solver": "exact", "max_passes": 1}])
def test_budgets_leave_no_pass_for_effective_rows(data, budget):
    model = quiet(CCA(1, **{"solver": "lobpcg", "random_state": 0, **budget}), *data)
    assert np.all(np.isnan(model.effective_rows_))
    assert model.n_passes_ <= budget.get("max_passes", np.inf)
    more = quiet(CCA(1, solver="lobpcg", random_state=0), *data)
    assert np.all(np.isfinite(more.effective_rows_))


def test_streams_and_kernels_have_no_effective_rows(data):
    stream = CCA(1).partial_fit(*data)
    assert np.all(np.isnan(stream.effective_rows_))
    assert np.all(np.isnan(quiet(KernelCCA(1, ridge=1.0), *data).effective_rows_))


def test_steps_of_forgotten_rows_have_no_level():
    rng = np.random.default_rng(0)
    model = CCA(1, solver="stochastic", forget=300)
    for _ in range(4):
        model.partial_fit(rng.standard_normal((500, 30)), rng.standard_normal((500, 20)))
    assert "age" in model.noise_level_reason_
    assert np.isnan(model.noise_level_)


def test_fractions_of_rows_have_no_level(data):
    S = np.cov(np.hstack(data).T, bias=True)
    model = CCA.from_covariance(200.5, S[:8, :8], S[8:, 8:], S[:8, 8:], n_components=1)
    assert model.noise_level_reason_ == "200.5 rows are no whole number"
    with pytest.raises(ValueError, match="no whole number: no theory holds"):
        model.test()


def test_the_public_functions():

    assert inference.CanonicalTest is CanonicalTest
    for name in inference.__all__:
        assert getattr(inference, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        inference.nothing  # noqa: B018
