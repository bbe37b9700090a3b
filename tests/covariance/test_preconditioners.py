"""Preconditioners: their values, and that rare and unseen features do not explode."""

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad.covariance.preconditioners import (
    Preconditioner,
    ViewPreconditioner,
    damped,
    diagonal,
    jacobi,
    largest,
    low_rank,
    shielded,
    trace,
    warm_up_rows,
)
from appgrad.data.arrays import ArrayViews
from helpers import operator
from naive import covariances


@pytest.fixture
def problem(rng):
    """Columns of very different spread that share a few strong directions."""
    factors = rng.standard_normal((600, 5)) * [20, 10, 5, 3, 2]
    X = (factors @ rng.standard_normal((5, 40)) + rng.standard_normal((600, 40))) * np.geomspace(1, 1e4, 40)
    Y = factors @ rng.standard_normal((5, 30)) + rng.standard_normal((600, 30))
    return X, Y


def matrix(side):
    """M as the docstring of ViewPreconditioner has it."""
    tail = np.eye(len(side.d)) - side.V @ side.V.T
    inner = side.V @ np.diag(side.values) @ side.V.T + side.tail * tail
    return np.diag(1 / side.d) @ inner @ np.diag(1 / side.d)


def test_a_side_solves_what_it_says(problem, rng):
    cov = operator(*problem, ridge=0.0)
    for side in low_rank(cov, jacobi(cov), rng):
        G = rng.standard_normal((len(side.d), 3))
        np.testing.assert_allclose(side.solve(G), np.linalg.solve(matrix(side), G), rtol=1e-8)
        np.testing.assert_allclose(
            side.d[:, None] * side.root(side.root(side.d[:, None] * G)), side.solve(G), rtol=1e-8
        )


def condition(side, S):
    C = np.linalg.solve(matrix(side), S)
    E = np.linalg.eigvals(C).real
    return E.max() / E.min()


def test_each_level_improves_the_condition(problem, rng):
    cov = operator(*problem, ridge=0.0)
    Sx = covariances(*problem)[0]
    plain, level1 = diagonal(np.ones(40)), jacobi(cov).x
    level2 = low_rank(cov, jacobi(cov), rng).x
    assert condition(plain, Sx) > 1e3 * condition(level1, Sx) > 1e4 * condition(level2, Sx)


@pytest.mark.parametrize("kind", ["none", "jacobi", "lowrank"])
@pytest.mark.parametrize("to", [np.asarray, sp.csr_array])
def test_largest_eigenvalues(kind, to, problem, rng):
    X, Y = problem
    cov = operator(to(X), to(Y), ridge=0.0)
    M = {"none": Preconditioner(), "jacobi": jacobi(cov), "lowrank": low_rank(cov, jacobi(cov), rng)}[kind]
    found = largest(cov, M, rng)
    for L, side, S in zip(found, M, covariances(X, Y)[::2], strict=True):
        true = np.linalg.eigvals(S if side is None else np.linalg.solve(matrix(side), S)).real.max()
        assert 0.97 * true < L < 1.06 * true


def test_trace(problem, rng):
    cov = operator(*problem, ridge=0.0)
    M = low_rank(cov, jacobi(cov), rng)
    for side, S in zip(M, covariances(*problem)[::2], strict=True):
        assert trace(side, np.diag(S)) == pytest.approx(np.trace(np.linalg.solve(matrix(side), S)), rel=1e-6)


def test_columns_that_do_not_vary_stay_out(rng):
    side = diagonal(np.array([4.0, 0.0]))
    np.testing.assert_array_equal(side.solve(np.ones((2, 1))).ravel(), [0.25, 0.0])


def test_rare_features_take_shorter_steps_than_common_ones():
    """A common column has a peak near its variance, one seen in a row of a thousand far above it."""
    variances, peaks = np.array([1.0, 1e-3, 0.0]), np.array([1.2, 1.0, 0.0])
    step = damped(variances, peaks).solve(np.ones((3, 1))).ravel()
    assert step[1] < step[0]
    assert step[2] == 0
    # Units cancel: a column in thousandths steps a million times as far.
    other = damped(variances * 1e-6, peaks * 1e-6).solve(np.ones((3, 1))).ravel()
    np.testing.assert_allclose(other, step * 1e6)
    # Where there is little but the ridge, steps are those of the ridge, also for rare columns.
    step = damped(variances, peaks, 1e6).solve(np.ones((3, 1))).ravel()
    np.testing.assert_allclose(step, [1e-6, 1e-6, 0], rtol=1e-5)


def test_sparse_rows_stay_sparse(rng):
    import tracemalloc

    X, Y = (sp.random_array((2000, 20000), density=0.001, rng=rng, format="csr") for _ in range(2))
    cov = operator(X, Y, ridge=0.0)
    tracemalloc.start()
    M = low_rank(cov, jacobi(cov), rng)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert M.x.V.shape == (20000, 80)
    assert peak < 200 * 2**20 < 2000 * 20000 * 8


def test_low_rank_needs_a_diagonal(problem, rng):
    with pytest.raises(ValueError, match="needs a diagonal preconditioner"):
        low_rank(operator(*problem, ridge=0.0), Preconditioner(), rng)


@pytest.mark.parametrize(("p", "rows"), [(10, 2000), (2000, 1398), (10**6, 160)])
def test_long_rows_are_few(p, rows):
    views = ArrayViews(np.broadcast_to(0.0, (5000, p // 2)), np.broadcast_to(0.0, (5000, p // 2)))
    assert warm_up_rows(views) == rows


def test_a_rank_one_view_leaves_no_directions(rng):
    x = rng.standard_normal((100, 1))
    cov = operator(x @ np.ones((1, 6)), rng.standard_normal((100, 6)), ridge=0.0)
    M = low_rank(cov, jacobi(cov), rng)
    assert isinstance(M.x, ViewPreconditioner)
    assert np.all(np.isfinite(M.x.solve(rng.standard_normal((6, 2)))))


def test_each_view_has_directions_of_its_own(rng):
    """A narrow view does not take its directions from a wide one."""
    cov = operator(rng.standard_normal((500, 300)), rng.standard_normal((500, 2)), ridge=0.0)
    M = low_rank(cov, jacobi(cov), rng)
    assert M.x.V.shape[1] == 80
    assert M.y.V.shape[1] == 1


def test_rare_columns_are_not_lifted_by_the_tail(rng):
    side = ViewPreconditioner(np.ones(3), np.array([[1.0], [0.0], [0.0]]), np.array([5.0]), 0.01)
    np.testing.assert_allclose(shielded(side).solve(np.ones((3, 1))).ravel(), [0.2, 1.0, 1.0])
