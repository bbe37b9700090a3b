"""Multivariate tests, against published tables and statsmodels."""

import numpy as np
import pytest
from sklearn.datasets import load_linnerud

import naive
from appgrad.inference.multivariate_tests import hotelling_lawley, multivariate, roy, step_down

# Exercise against physiology of twenty men, as SAS and R print them.
WILKS, F, DF2 = [0.35039053, 0.95472266, 0.99473355], [2.05, 0.18, 0.08], [34.223, 30, 16]
P, CHI2 = [0.0635, 0.9491, 0.7748], [16.2550, 0.7182, 0.0818]
# scipy.stats.chi2.sf of these with 9, 4 and 1 degrees of freedom.
P_CHI2 = [0.0617, 0.9491, 0.7748]
# statsmodels 0.14.5, MANOVA(Y, [1, X]).mv_test: value, degrees of freedom, F, p of four statistics, for rows
# of `data`. Its p-value of Roy's root is that of an upper bound of F, and is left out.
STATSMODELS = {
    (30, 2, 5, 1): [
        [0.5664889, 10.0, 46.0, 1.511701, 0.1659155],
        [0.4565211, 10.0, 48.0, 1.419716, 0.2005463],
        [0.7246408, 10.0, 31.86667, 1.623648, 0.1446845],
        [0.663414, 5.0, 24.0, 3.184387],
    ],
    (30, 5, 2, 2): [
        [0.5025051, 10.0, 46.0, 1.889147, 0.07139208],
        [0.5482509, 10.0, 48.0, 1.812713, 0.0836772],
        [0.8890238, 10.0, 31.86667, 1.991969, 0.06833302],
        [0.7552932, 5.0, 24.0, 3.625407],
    ],
    (50, 1, 4, 3): [
        [0.6640796, 4.0, 45.0, 5.690739, 0.0008557296],
        [0.3359204, 4.0, 45.0, 5.690739, 0.0008557296],
        [0.5058435, 4.0, 45.0, 5.690739, 0.0008557296],
        [0.5058435, 4.0, 45.0, 5.690739],
    ],
    (200, 10, 7, 4): [
        [0.5507886, 70.0, 1073.881, 1.652186, 0.0008189968],
        [0.5312824, 70.0, 1323.0, 1.552276, 0.002884032],
        [0.6776336, 70.0, 708.3892, 1.757128, 0.0002493109],
        [0.4342224, 10.0, 189.0, 8.206804],
    ],
}


def squared(X, Y):
    """Squared canonical correlations, by the definition."""
    U, V = (np.linalg.qr(Z - Z.mean(axis=0))[0] for Z in (X, Y))
    return np.linalg.svd(U.T @ V, compute_uv=False) ** 2


def data(n, p, q, seed):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
    Y[:, 0] += 0.6 * X[:, 0]
    return X, Y


@pytest.fixture(scope="module")
def linnerud():
    return squared(*load_linnerud(return_X_y=True))


def test_steps_are_those_published(linnerud):
    found = step_down(linnerud, 20, 3, 3)
    np.testing.assert_allclose(found.wilks, WILKS, atol=5e-9)
    np.testing.assert_allclose(found.f, F, atol=5e-3)
    np.testing.assert_allclose(found.df2, DF2, atol=5e-4)
    np.testing.assert_allclose(found.p_f, P, atol=5e-5)
    np.testing.assert_allclose(found.chi2, CHI2, atol=5e-5)
    np.testing.assert_allclose(found.p_chi2, P_CHI2, atol=1e-4)
    np.testing.assert_array_equal(found.df1, [9, 4, 1])


@pytest.mark.parametrize("k", [1, 2])
def test_a_step_is_the_first_one_of_what_is_left(k):
    """With the true pairs known, step k is Wilks' test of p - k and q - k columns, but for the rows."""
    squares = np.array([0.6, 0.3, 0.1, 0.05])
    found = step_down(squares, 40, 4, 7)
    left = naive.wilks(squares[k:], 40, 4, 7, k)
    np.testing.assert_allclose([found.wilks[k], found.df1[k], found.df2[k], found.f[k]], left)


def test_multivariate_statistics_are_those_published(linnerud):
    _, pillai, hotelling, largest = multivariate(linnerud, 20, 3, 3).values()
    assert pillai[:5] == pytest.approx((0.67848151, 9, 48, 1.5587, 0.15511), abs=5e-5)
    assert hotelling[:5] == pytest.approx((1.77194146, 9, 19.053, 2.6397, 0.03573), abs=5e-4)
    assert largest[:4] == pytest.approx((1.72473874, 3, 16, 9.1986), abs=5e-5)
    assert largest.p == pytest.approx(0.020547, abs=5e-7)


@pytest.mark.parametrize("case", STATSMODELS)
def test_statistics_are_those_of_statsmodels(case):
    n, p, q, _ = case
    found = multivariate(squared(*data(*case)), n, p, q)
    for test, expected in zip(found.values(), STATSMODELS[case], strict=True):
        assert test[: len(expected)] == pytest.approx(expected, rel=2e-6)


def test_two_groups_have_one_test():
    """With one column, all statistics are the same test, and that is the F test of a regression."""
    X, Y = data(40, 1, 3, 0)
    squares = squared(X, Y)
    p_values = [test.p for test in multivariate(squares, 40, 1, 3).values()]
    np.testing.assert_allclose(p_values, p_values[0], rtol=1e-9)


def test_a_correlation_of_one_is_significant_and_no_nan():
    squares = np.array([1.0, 0.3, 0.1])
    found = step_down(squares, 30, 3, 4)
    assert (found.p_f[0], found.p_chi2[0], found.wilks[0]) == (0, 0, 0)
    assert np.all(np.isfinite(found.p_f))
    for test in multivariate(squares, 30, 3, 4).values():
        assert 0 <= test.p < 0.05, test


def test_few_rows_leave_some_tests_without_a_distribution():
    squares = np.array([0.9, 0.5, 0.2])
    found = hotelling_lawley(squares, 8, 3, 3)
    assert (found.value > 0, np.isnan(found.p)) == (True, True)
    assert found.reference == "none: too few rows"
    assert 0 < roy(squares, 8, 3, 3).p < 1
    with pytest.raises(ValueError, match="fewer than rows"):
        step_down(squares, 6, 3, 3)


def test_hotelling_lawley_where_mckeons_b_is_infinite():
    """r = 1: between the values on both sides of it."""
    squares = np.array([0.6, 0.3, 0.1])
    p_values = [hotelling_lawley(squares, n, 3, 3).p for n in (9, 10, 11)]
    assert p_values[0] > p_values[1] > p_values[2]


def test_steps_are_uniform_on_noise():
    """Wilks' test of the first step rejects 5 % of normal noise."""
    rng, p_values = np.random.default_rng(0), []
    for _ in range(400):
        squares = squared(rng.standard_normal((40, 4)), rng.standard_normal((40, 6)))
        p_values.append([step_down(squares, 40, 4, 6).p_f[0], roy(squares, 40, 4, 6).p])
    rejected = np.mean(np.array(p_values) <= 0.05, axis=0)
    assert np.all((rejected > 0.025) & (rejected < 0.08))
    assert np.all(np.abs(np.mean(p_values, axis=0) - 0.5) < 0.05)
