import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context

from appgrad.covariance.moments import moments, second_moments, triangle
from appgrad.covariance.units import units
from appgrad.data.arrays import ArrayViews
from helpers import BACKENDS, small_blocks, statistics_problem


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["dense", "sparse", "years"])
def test_moments_second_moments_and_triangle_agree(kind, backend, rng, tmp_path):
    X, Y = statistics_problem(kind, rng)
    views = BACKENDS[backend](X, Y, tmp_path)
    Z = np.hstack([X, Y])
    m, second, tri = moments(views), second_moments(views), triangle(views)
    expected = (Z - Z.mean(axis=0)).T @ (Z - Z.mean(axis=0))
    np.testing.assert_allclose(second.scatter, expected, rtol=1e-6, atol=1e-4 if kind == "years" else 1e-9)
    np.testing.assert_allclose(tri.R.T @ tri.R, expected, rtol=1e-6, atol=1e-4 if kind == "years" else 1e-9)
    np.testing.assert_allclose(np.concatenate([v.var for v in m.views]), np.diag(expected) / 300, rtol=1e-7)
    for mean in (second.mean, tri.mean, np.concatenate([v.mean for v in m.views])):
        np.testing.assert_allclose(mean, Z.mean(axis=0), rtol=1e-14, atol=1e-14)
    assert m.n == second.n == tri.n == 300


@pytest.mark.parametrize("statistic", [moments, second_moments])
@pytest.mark.parametrize("to", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("value", [0.1, 1e8 / 3, -7.0])
def test_a_constant_column_has_exactly_no_variance(statistic, to, value):
    X = np.full((5000, 1), value)
    views = small_blocks(ArrayViews(to(X), to(np.arange(5000.0)[:, None])), rows=617)
    m = statistic(views)
    m = m if statistic is moments else m.moments(views.widths)
    assert m.views[0].var == 0
    scale = units(m, views.dtype).views[0].scale
    assert scale == 0


def test_an_outlying_first_row_costs_no_precision(rng):
    X = rng.standard_normal((5000, 2))
    X[0] = 1e6
    views = ArrayViews(X, X)
    expected = np.cov(X.T, bias=True)
    np.testing.assert_allclose(second_moments(views).scatter[:2, :2] / 5000, expected, rtol=1e-13)


def test_merging_in_any_split_gives_the_same(rng):
    X, Y = rng.standard_normal((200, 3)) + 5, rng.standard_normal((200, 2))
    whole = second_moments(ArrayViews(X, Y))
    for rows in (1, 2, 7, 199):
        parts = second_moments(small_blocks(ArrayViews(X, Y), rows))
        np.testing.assert_allclose(parts.scatter, whole.scatter, atol=1e-11)
        tri = triangle(small_blocks(ArrayViews(X, Y), rows))
        np.testing.assert_allclose(tri.R.T @ tri.R, whole.scatter, atol=1e-11)


@pytest.mark.parametrize("kind", ["bytes", "large", "counts then fractions", "indicators"])
def test_integers_lose_no_bit(kind, rng):
    p = 300
    Z = {
        "bytes": rng.integers(0, 256, (2000, p)),
        "large": rng.integers(0, 9000, (2000, p)),  # sums of squares above 2^24
        "counts then fractions": rng.integers(0, 3, (2000, p)),
        "indicators": rng.integers(0, 2, (2000, p)),
    }[kind].astype(np.float64)
    if kind == "counts then fractions":
        Z[1500, 7] += 2.0**-30  # which single precision would round away
    second = second_moments(small_blocks(ArrayViews(Z[:, :140], Z[:, 140:]), rows=1700))
    exact = np.round(Z * 2**30).astype(object)  # integers of any length
    gram = exact.T[[7, 0]] @ exact  # two columns against all: objects are slow
    scatter = (2000 * gram - np.outer(exact[:, [7, 0]].sum(axis=0), exact.sum(axis=0))) / 2000
    expected = (scatter / 2**60).astype(np.float64)
    np.testing.assert_allclose(second.scatter[[7, 0]], expected, rtol=1e-13, atol=1e-11)
    off = abs(second.scatter - (Z - Z.mean(axis=0)).T @ (Z - Z.mean(axis=0))).max()
    assert off < 1e-14 * second.scatter.max() * 2000


@pytest.mark.parametrize(("matrices", "most"), [(6, 1), (9, 4), (1000, 995)])
def test_the_matrices_of_blocks_keep_to_the_budget(matrices, most, rng):
    """Five matrices are the sums and what is made of them; the rest is for blocks, on however many cores."""
    asked = []

    class Watched(ArrayViews):
        def reduce(self, f, combine, dtype=None, most=None):
            asked.append(most)
            return super().reduce(f, combine, dtype, most)

    with config_context(working_memory=matrices * 8 * 7**2 / 2**20):
        second_moments(Watched(rng.standard_normal((50, 4)), rng.standard_normal((50, 3))))
    assert asked == [most]
