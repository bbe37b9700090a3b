import numpy as np
import pytest

from appgrad import correlations, pcc, subspace_distance, tcc
from naive import cca, covariances, projection
from naive import tcc as naive_tcc


def test_correlations_are_pearson(rng):
    U, V = rng.standard_normal((50, 3)), rng.standard_normal((50, 3))
    expected = [np.corrcoef(u, v)[0, 1] for u, v in zip(U.T, V.T, strict=True)]
    np.testing.assert_allclose(correlations(U, V), expected)
    assert min(expected) < 0


def test_correlation_of_a_constant_is_zero(rng):
    U = np.c_[np.full(20, 0.1), rng.standard_normal(20)]
    np.testing.assert_allclose(correlations(U, U), [0, 1])


def test_correlations_take_any_scale(rng):
    u = rng.standard_normal((30, 1))
    v = u + rng.standard_normal((30, 1))
    np.testing.assert_allclose(correlations(u * 1e-200, v * 1e200), correlations(u, v), rtol=1e-12)
    np.testing.assert_allclose(correlations(u + 1e8, v), correlations(u, v), atol=1e-6)


def test_tcc_against_the_textbook(rng):
    U = rng.standard_normal((80, 4))
    V = U[:, :3] @ rng.standard_normal((3, 3)) + rng.standard_normal((80, 3))
    assert tcc(U, V) == pytest.approx(naive_tcc(U, V), abs=1e-10)
    assert tcc(U @ rng.standard_normal((4, 4)), V + 7) == pytest.approx(tcc(U, V), abs=1e-10)
    assert tcc(np.c_[U, U[:, 0]], V) == pytest.approx(tcc(U, V), abs=1e-10)


def test_tcc_reoptimises_on_noise(rng):
    U, V = rng.standard_normal((20, 5)), rng.standard_normal((20, 5))
    assert tcc(U, V) / 5 > 0.3
    assert abs(correlations(U, V).mean()) < 0.3


def test_pcc(rng):
    X, Y = rng.standard_normal((300, 6)), rng.standard_normal((300, 5))
    Y[:, :2] += X[:, :2]
    _, A, B = cca(X, Y, 2)
    assert pcc(X @ A, Y @ B, X @ A, Y @ B) == pytest.approx(1)
    worse = pcc(X[:, 2:4], Y[:, 2:4], X @ A, Y @ B)
    assert worse == pytest.approx(naive_tcc(X[:, 2:4], Y[:, 2:4]) / naive_tcc(X @ A, Y @ B))
    with pytest.raises(ValueError, match="same rows"):
        pcc(X[:50, :2], Y[:50, :2], X[:, :2], Y[:, :2])
    with pytest.raises(ValueError, match="no correlation"):
        pcc(X, Y, np.ones((300, 1)), Y)


def test_subspace_distance_is_the_norm_of_the_projections(rng):
    X = rng.standard_normal((100, 5)) @ rng.standard_normal((5, 5))
    S = covariances(X, X)[0]
    A, B = rng.standard_normal((5, 2)), rng.standard_normal((5, 2))
    E, V = np.linalg.eigh(S)
    root, inverse = (V * np.sqrt(E)) @ V.T, (V / np.sqrt(E)) @ V.T
    expected = np.linalg.norm(root @ (projection(A, S) - projection(B, S)) @ inverse, 2)
    assert subspace_distance(A, B, S) == pytest.approx(expected, abs=1e-9)
    Xc = X - X.mean(axis=0)
    assert subspace_distance(Xc @ A, Xc @ B) == pytest.approx(expected, abs=1e-9)


def test_subspace_distance_of_equal_and_nearly_equal_spans(rng):
    A = rng.standard_normal((6, 2))
    assert subspace_distance(A, A @ rng.standard_normal((2, 2))) < 1e-13
    assert subspace_distance(A, A + 1e-9 * rng.standard_normal((6, 2))) < 1e-8
    assert subspace_distance(A, A[:, :1]) == 1.0


@pytest.mark.parametrize("metric", [correlations, tcc, subspace_distance])
def test_bad_input(metric, rng):
    U = rng.standard_normal((10, 2))
    with pytest.raises(ValueError, match="NaN"):
        metric(np.where(U[0, 0] == U, np.nan, U), U)
    with pytest.raises(ValueError, match=r"shape|rows"):
        metric(U[:5], U)
    with pytest.raises(ValueError, match="shape"):
        metric(np.empty((0, 2)), U)
