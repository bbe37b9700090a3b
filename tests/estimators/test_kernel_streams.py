"""KernelCCA on streams: landmarks of the first rows, sums, and saved streams that go on."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from appgrad import CCA, KernelCCA, load
from appgrad.data.arrays import ArrayViews
from appgrad.data.kernels import MappedViews
from helpers import pairs
from kernel_problems import assert_same_scores, related


def test_a_stream_is_a_fit_with_the_landmarks_of_its_first_rows(rng):
    X, Y, Xt, Yt = related(rng, n=900, extra=50)
    model = KernelCCA(2, approximation="nystroem", n_landmarks=25, ridge=0.01, random_state=0)
    for x, y in pairs(X, Y, 300):
        model.partial_fit(x, y)
    features = MappedViews(ArrayViews(X, Y), *model._fitted.rows.learned.maps)
    linear = CCA(2, ridge=0.01).fit(features)
    np.testing.assert_allclose(model.canonical_correlations_, linear.canonical_correlations_, atol=1e-10)
    expected = linear.transform(MappedViews(ArrayViews(Xt, Yt), *model._fitted.rows.learned.maps))
    assert_same_scores(model.transform(Xt, Yt), expected, 1e-8)
    assert (model.n_samples_, model.n_features_in_, model.n_features_y_) == (900, 4, 2)
    again = clone(model).fit_stream(pairs(X, Y, 300))
    np.testing.assert_allclose(again.canonical_correlations_, model.canonical_correlations_, atol=1e-12)
    with pytest.raises(ValueError, match="expecting 4"):
        model.partial_fit(X[:, :3], Y)


def test_the_default_ridge_of_a_stream_is_that_of_the_rows_so_far(rng):
    X, Y, *_ = related(rng, n=3000)
    model = KernelCCA(1, approximation="nystroem", n_landmarks=100, random_state=0).partial_fit(
        X[:200], Y[:200]
    )
    assert model.canonical_correlations_[0] < 1
    early = model.ridge_
    model.partial_fit(X[200:], Y[200:])
    assert model.canonical_correlations_[0] < 1
    assert model.ridge_[0] < early[0] / 10


def test_few_first_rows_for_the_landmarks_are_said(rng):
    X, Y, *_ = related(rng)
    with pytest.warns(UserWarning, match="first batch, which has 120"):
        KernelCCA(1, approximation="nystroem").partial_fit(X, Y)


def test_exact_kernel_cca_refuses_streams(rng):
    X, Y, *_ = related(rng)
    for call in (
        lambda: KernelCCA(1).partial_fit(X, Y),
        lambda: KernelCCA(1).fit_stream([(X, Y)]),
    ):
        with pytest.raises((AttributeError, TypeError), match="'nystroem' or 'fourier'"):
            call()
    with pytest.raises(TypeError, match="needs rows"):
        KernelCCA.from_covariance(10, np.eye(2), np.eye(2), np.eye(2))


def test_a_saved_stream_goes_on(rng, tmp_path):
    X, Y, *_ = related(rng, n=400)
    model = KernelCCA(1, approximation="fourier", n_landmarks=10, random_state=0).partial_fit(
        X[:200], Y[:200]
    )
    model.save(tmp_path / "m.cca")
    again = load(tmp_path / "m.cca").partial_fit(X[200:], Y[200:])
    model.partial_fit(X[200:], Y[200:])
    np.testing.assert_array_equal(again.canonical_correlations_, model.canonical_correlations_)


def test_streams_of_other_landmarks_have_no_sum(rng):
    X, Y, *_ = related(rng, n=400)
    model, other, same = (
        KernelCCA(1, approximation="nystroem", n_landmarks=20, random_state=seed).partial_fit(
            X[:200], Y[:200]
        )
        for seed in (0, 1, 0)
    )
    with pytest.raises(ValueError, match="other landmarks"):
        model.merge(other)
    assert model.merge(same).n_samples_ == 400
    with pytest.raises(ValueError, match="other landmarks"):
        KernelCCA(1, approximation="nystroem").merge(KernelCCA(1, approximation="nystroem"))


def test_streams_with_the_same_kernel_function_have_a_sum(rng):
    X, Y, *_ = related(rng, n=400)
    model, other = (
        KernelCCA(1, kernel=rbf_kernel, approximation="nystroem", n_landmarks=20, random_state=0).partial_fit(
            X[:200], Y[:200]
        )
        for _ in range(2)
    )
    assert model.merge(other).n_samples_ == 400


def test_a_stream_by_steps_has_the_ridge_it_says(rng):
    X, Y, *_ = related(rng, n=6000)
    model = KernelCCA(1, approximation="nystroem", n_landmarks=20, solver="stochastic", random_state=0)
    for x, y in pairs(X, Y, 2000):
        model.partial_fit(x, y)
    assert model._stream.buffer.ridge == model._stream.problem.ridge == model.ridge_


def test_a_first_batch_that_does_not_vary_is_refused(rng):
    model = KernelCCA(1, approximation="fourier", n_landmarks=20)
    with pytest.raises(ValueError, match="first batch of X does not vary"):
        model.partial_fit(np.zeros((200, 2)), rng.standard_normal((200, 2)))


@pytest.mark.parametrize("wrong", [{"ridge": -1}, {"n_components": 0}, {"kernel": "none"}])
def test_parameters_that_became_wrong_add_no_rows(wrong, rng):
    X, Y, *_ = related(rng, n=400)
    first, other = (
        KernelCCA(2, approximation="nystroem", n_landmarks=20, random_state=0).partial_fit(X[:200], Y[:200])
        for _ in range(2)
    )
    before, right = first.canonical_correlations_, {name: getattr(first, name) for name in wrong}
    first.set_params(**wrong)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        first.partial_fit(X[200:], Y[200:])
    with pytest.raises(ValueError, match=next(iter(wrong))):
        first.merge(other)
    first.set_params(**right)
    assert first.n_samples_ == 200
    np.testing.assert_array_equal(first.canonical_correlations_, before)
    for model in (first, other):
        model.partial_fit(X[200:], Y[200:])
    np.testing.assert_array_equal(first.canonical_correlations_, other.canonical_correlations_)
