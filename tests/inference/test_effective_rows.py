"""Rows that components rest on: planted ones, and what must not change their number."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from appgrad import CCA
from appgrad.data.arrays import ArrayViews
from appgrad.data.derived import CountedViews
from appgrad.datasets import planted
from appgrad.fitting.fit import fit
from appgrad.inference.effective_rows import components as module
from appgrad.inference.effective_rows.columns import ColumnRows
from appgrad.inference.effective_rows.components import (
    effective_rows,
    few_rows,
    of_columns_and_scores,
    rotation,
)
from appgrad.inference.effective_rows.sample import RowSample
from helpers import small_blocks

N = 2000


def solved(views, k, **params):
    problem, options = CCA(k, random_state=0, **params).problem_and_options()
    return fit(CountedViews(views), problem, options, np.random.default_rng(0)).solution


def numbers(X, Y, k, **params):
    views = ArrayViews(X, Y)
    return effective_rows(views, solved(views, k, **params))


def indicators(counts, n=N, seed=0):
    """Columns that are 1 in so many rows each, no row in two of them."""
    order, found = np.random.default_rng(seed).permutation(n), np.zeros((n, len(counts)))
    for j, (start, m) in enumerate(zip(np.cumsum([0, *counts]), counts, strict=False)):
        found[order[start : start + m], j] = 1
    return found


def with_noise(column, rng, wide=4):
    return np.column_stack([rng.standard_normal((len(column), wide)), column])


@pytest.mark.parametrize("m", [1, 2, 3, 7, 30, 300])
@pytest.mark.parametrize("kind", [np.asarray, np.float32, sp.csr_array])
def test_a_pair_of_columns_rests_on_the_rows_that_have_both(m, kind, rng):
    column = indicators([m])[:, 0]
    X, Y = with_noise(column, rng), with_noise(column, rng)
    found = numbers(kind(X), kind(Y), 2)
    assert found[0] == pytest.approx(m, rel=1e-3)
    # A correlation of noise, of 0.1 or less, rests on the largest scores.
    assert found[1] > 0.02 * N


def test_columns_are_rare_whatever_their_usual_value_is(rng):
    column = indicators([3])[:, 0]
    shifted = 5 - 2 * column
    assert numbers(with_noise(shifted, rng), with_noise(column / 3 - 1, rng), 1) == pytest.approx(3, rel=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("mixed", [False, True])
def test_pairs_of_correlation_one_come_out_mixed_and_are_counted_apart(mixed, kind, rng):
    X = indicators([3] * 10)
    Q, far = (rng.standard_normal((10, 10)), 5) if mixed else (np.eye(10), 0)
    # Columns that are mixtures themselves are not rare: it is the scores that tell.
    found = numbers(kind(X @ Q + far), kind(X @ Q.T + far), 10)
    np.testing.assert_allclose(found, 3, rtol=0.01)


def test_a_mixture_of_pairs_has_the_mean_of_their_shares():
    X = indicators([2, 2, 2, 50, 50])
    views = ArrayViews(X, X)
    solution = solved(views, 5)
    Q = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 5)))[0]
    W, L = solution.x_weights @ Q, solution.x_loadings @ Q
    mixed = solution._replace(x_weights=W, y_weights=W, x_loadings=L, y_loadings=L)
    of_columns, of_scores = of_columns_and_scores(views, mixed)
    share = (W * L)[:3].sum(axis=0)
    np.testing.assert_allclose(of_columns, 1 / (share / 2 + (1 - share) / 50), rtol=1e-6)
    np.testing.assert_array_equal(np.sort(of_scores), [2, 2, 2, 50, 50])


def test_a_direction_is_said_of_the_component_it_is_most_of():
    counts = np.array([60, 3, 9, 27])
    X = indicators(counts)
    views = ArrayViews(X, X)
    solution = solved(views, 4)
    # Scores are the columns, turned a little.
    turn = np.linalg.qr(np.eye(4) + 0.2 * np.random.default_rng(0).standard_normal((4, 4)))[0]
    W = np.diag(1 / X.std(axis=0)) @ turn
    _, of_scores = of_columns_and_scores(views, solution._replace(x_weights=W, y_weights=W))
    np.testing.assert_array_equal(of_scores, counts)


def test_one_rare_pair_among_wide_ones_of_the_same_correlation(rng):
    wide = rng.standard_normal((N, 4))
    shared = np.column_stack([wide, indicators([4])])
    Q, P = (rng.standard_normal((5, 5)) for _ in range(2))
    found = np.sort(numbers(shared @ Q, shared @ P, 5))
    assert found[0] == pytest.approx(4, rel=0.01)
    assert found[1] > 0.1 * N


def test_gaussian_scores_rest_on_a_good_part_of_all_rows():
    p = planted(N, 8, 7, [0.9, 0.7, 0.5], random_state=0)
    assert np.all(numbers(p.X, p.y, 3) > 0.1 * N)


def test_an_outlier_in_both_views_is_one_row(rng):
    X, Y = rng.standard_normal((N, 4)), rng.standard_normal((N, 3))
    X[7], Y[7] = 1000, 1000
    found = numbers(X, Y, 2)
    assert found[0] == 1
    assert found[1] > 0.05 * N


def test_columns_that_differ_in_three_rows_only(rng):
    rare, common = indicators([3])[:, 0], (rng.random(N) < 0.4).astype(float)
    X = np.column_stack([common, np.abs(common - rare), rng.standard_normal(N)])
    noise = (rng.random(N) < 0.3).astype(float)
    Y = np.column_stack([noise, np.abs(noise - rare), rng.standard_normal(N)])
    # Signs differ where one indicator is lit and the other is not: some of the three rows carry all.
    assert numbers(X, Y, 1)[0] <= 3


def test_one_heavy_row_of_a_wide_component_is_not_all_it_rests_on(rng):
    u = np.exp(2 * rng.standard_normal(N))
    u[5] = 60 * u.std()
    X = np.column_stack([u, rng.standard_normal((N, 2))])
    Y = np.column_stack([u * (1 + 0.1 * rng.standard_normal(N)), rng.standard_normal((N, 2))])
    assert numbers(X, Y, 1)[0] > 20


def test_threads_blocks_and_kinds_of_rows_do_not_matter(rng):
    X, Y = rng.poisson(0.05, (500, 12)).astype(float), rng.poisson(0.05, (500, 9)).astype(float)
    Y[:, :4] += X[:, :4]
    views = ArrayViews(X, Y, threads=1)
    solution = solved(views, 4)
    expected = effective_rows(views, solution)
    one = effective_rows(small_blocks(ArrayViews(X, Y, threads=1)), solution)
    two = effective_rows(small_blocks(ArrayViews(X, Y, threads=2)), solution)
    np.testing.assert_array_equal(one, two)
    for other in (ArrayViews(sp.csr_array(X), sp.csr_array(Y)), ArrayViews(sp.csr_array(X), Y)):
        np.testing.assert_allclose(effective_rows(small_blocks(other), solution), expected, rtol=1e-3)
    np.testing.assert_allclose(one, expected, rtol=1e-3)


def test_one_pass():
    p = planted(200, 4, 3, [0.9], random_state=0)
    views = CountedViews(ArrayViews(p.X, p.y))
    solution = solved(views, 1)
    before = views.passes
    effective_rows(views, solution)
    assert views.passes == before + 1


def test_what_is_sent_to_workers_can_be_sent(monkeypatch):
    cloudpickle = pytest.importorskip("cloudpickle")
    p = planted(200, 4, 3, [0.9, 0.5], random_state=0)
    views = ArrayViews(p.X, p.y)
    solution = solved(views, 2)
    expected = effective_rows(views, solution)

    def there_and_back(f, combine, dtype=None):
        f, combine = cloudpickle.loads(cloudpickle.dumps((f, combine)))
        parts = [
            cloudpickle.loads(cloudpickle.dumps(f(block))) for block in small_blocks(views).blocks(dtype)
        ]
        assert len(parts) == 6
        total = parts[0]
        for part in parts[1:]:
            total = combine(total, part)
        return total

    monkeypatch.setattr(views, "reduce", there_and_back)
    np.testing.assert_allclose(effective_rows(views, solution), expected, rtol=1e-3)


@pytest.mark.parametrize("n", [3, 5])
def test_hardly_any_rows(n, rng):
    X, Y = rng.standard_normal((n, 2)), rng.standard_normal((n, 2))
    found = numbers(X, Y, 1, ridge=0.1)
    assert 1 <= found[0] <= n


def test_scores_without_variance_have_no_number(rng):
    X = rng.standard_normal((50, 3))
    views = ArrayViews(X, X)
    solution = solved(views, 2)
    none = np.array([1.0, 0.0])
    flat = solution._replace(x_weights=solution.x_weights * none, x_loadings=solution.x_loadings * none)
    found = effective_rows(views, flat)
    assert found[0] > 5
    assert np.isnan(found[1])


def test_more_rows_than_are_kept(monkeypatch, rng):
    """Few rows are counted exactly, many roughly."""
    n = 20_000
    X, Y = (np.column_stack([rng.standard_normal((n, 3)), indicators([2, 9], n)]) for _ in range(2))
    Y[:, 0] += 3 * X[:, 0]
    views = small_blocks(ArrayViews(X, Y), 3000)
    solution = solved(views, 4)
    _, everything = of_columns_and_scores(views, solution)
    monkeypatch.setattr(module, "KEPT_ROWS", 2000)
    _, sampled = of_columns_and_scores(views, solution)
    few = everything < 100
    assert few.sum() == 2
    np.testing.assert_array_equal(sampled[few], everything[few])
    assert np.all(np.abs(np.log2(sampled[~few] / everything[~few])) < 1)
    # The same rows are kept however they are cut into blocks.
    _, whole = of_columns_and_scores(small_blocks(ArrayViews(X, Y), 9000), solution)
    np.testing.assert_allclose(sampled, whole, rtol=1e-3)


def test_a_sample_estimates_fourth_powers_and_does_not_depend_on_how_rows_came(rng):
    scores = rng.standard_t(5, (9000, 4))
    groups = [np.array([0]), np.array([1])]
    samples = []
    for size in (9000, 1000, 700):
        parts = [
            RowSample.empty(1500, 4).add(scores[i : i + size], groups, np.arange(i, min(i + size, 9000)))
            for i in range(0, 9000, size)
        ]
        total = parts[0]
        for part in parts[1:]:
            total = total.merge(part)
        samples.append(total)
    kept = [sample.weighted() for sample in samples]
    for values, times in kept:
        assert len(values) == 1500
        np.testing.assert_allclose(times @ values**4, (scores**4).sum(axis=0), rtol=0.1)
        np.testing.assert_array_equal(values, kept[0][0])
    np.testing.assert_allclose(samples[2].sums, scores.sum(axis=0), atol=0.01)
    np.testing.assert_allclose(samples[2].products[0, [0, 2]], scores[:, 0] @ scores[:, [0, 2]], rtol=1e-4)


def test_rotation_finds_directions_of_few_rows(rng):
    counts = [1, 2, 5, 20, 100]
    Z = indicators(counts) * np.sqrt(N / np.array(counts))
    Z = np.column_stack([Z, rng.standard_normal((N, 3))])
    Q = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    found = Q @ rotation(Z @ Q, np.ones(N))
    np.testing.assert_allclose(found.T @ found, np.eye(8), atol=1e-8)
    assert np.all(np.abs(found[:5]).max(axis=1) > 0.99)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_rows_of_columns(kind):
    X = np.zeros((6, 4))
    X[:2, 0], X[3, 1], X[:, 2], X[:, 3] = 1, -2, [1, 2, 3, 4, 5, 6], 0
    parts = [ColumnRows.of(kind(X[rows])) for rows in (slice(0, 2), slice(2, 3), slice(3, 6))]
    found = parts[0].merge(parts[1]).merge(parts[2])
    expected = [2, 1, 5 if kind is np.asarray else 6, 6]
    np.testing.assert_array_equal(found.rows(), expected)
    np.testing.assert_array_equal(ColumnRows.of(kind(X)).rows(), expected)


problems = st.tuples(st.integers(0, 10**6), st.sampled_from([2, 5, 40]), st.booleans())


def drawn(problem):
    """Views with one rare pair beside a wide one, dense or counts."""
    seed, m, counts = problem
    rng = np.random.default_rng(seed)
    X, Y = (rng.poisson(0.3, (300, 4)) if counts else rng.standard_normal((300, 4)) for _ in range(2))
    Y = Y + 2.0 * X
    column = indicators([m], 300, seed)
    return np.column_stack([X, column]), np.column_stack([Y, column]), rng


@given(problems)
def test_the_order_of_rows_does_not_matter(problem):
    X, Y, rng = drawn(problem)
    views, order = ArrayViews(X, Y), rng.permutation(300)
    solution = solved(views, 3)
    found = effective_rows(ArrayViews(X[order], Y[order]), solution)
    np.testing.assert_allclose(found, effective_rows(views, solution), rtol=1e-6)


@given(problems, st.lists(st.floats(-6, 6), min_size=10, max_size=10))
def test_the_units_of_columns_do_not_matter(problem, logarithms):
    X, Y, _ = drawn(problem)
    units = 10.0 ** np.array(logarithms)
    found = numbers(X * units[:5], Y * units[5:], 3)
    np.testing.assert_allclose(found, numbers(X, Y, 3), rtol=1e-3, atol=1.1)
    assert found[0] == pytest.approx(problem[1], rel=1e-3)


@given(problems)
def test_the_views_may_be_swapped(problem):
    X, Y, _ = drawn(problem)
    np.testing.assert_allclose(numbers(X, Y, 3), numbers(Y, X, 3), rtol=1e-3, atol=1.1)


@pytest.mark.parametrize(
    ("found", "named"),
    [
        ([1, 2, 1.5, 9, 2], "components 1 to 3 and 5 each rest on fewer than 3 rows"),
        ([9, 1], "component 2 rests on fewer than 3 rows"),
        ([1, 1, np.nan, 9], "components 1 and 2 each rest"),
        ([1, 9] * 20, "components 1, 3, 5, 7, 9, 11 and 14 more each rest"),
    ],
)
def test_a_warning_names_the_components(found, named):
    (text,) = few_rows(np.array(found), 1000, np.ones(len(found)))
    assert text.startswith(named)
    assert "Set a ridge" in text


@pytest.mark.parametrize("order", [1, -1])
def test_rows_in_runs_are_counted(order):
    """A run of lit rows fills whole tiles before the usual value comes."""
    A = np.zeros((30_000, 1))
    A[:5000] = 1
    A = A[::order]
    assert ColumnRows.of(A).rows()[0] == 5000
    assert ColumnRows.of(A - A.mean()).rows()[0] == pytest.approx(5000, abs=2048)
    parts = [ColumnRows.of(part) for part in np.array_split(A - A.mean(), 7)]
    one = parts[0]
    for part in parts[1:]:
        one = one.merge(part)
    assert one.rows()[0] == pytest.approx(5000, abs=2048)


def test_zeros_that_are_stored_are_zeros():
    X = sp.csr_array(np.eye(4))
    X.data[:2] = 0
    np.testing.assert_array_equal(ColumnRows.of(X).zeros, [4, 4, 3, 3])


def test_no_warning_without_few_rows():
    assert few_rows(np.array([3.0, np.nan, 500.0]), 1000, np.ones(3)) == []
    # 2.5 of 20 rows are a good part of them.
    assert few_rows(np.array([2.5]), 20, np.ones(1)) == []
