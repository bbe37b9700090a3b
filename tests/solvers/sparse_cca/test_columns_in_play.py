"""Columns in play: their largest products, those taken out, and those that exclude each other."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone

from appgrad import SparseCCA
from appgrad.data.arrays import ArrayViews
from appgrad.data.derived import ColumnViews
from appgrad.solvers.sparse import columns_in_play as columns
from appgrad.solvers.sparse.batch import largest_alpha
from appgrad.solvers.sparse.columns_in_play import Columns, _largest_products
from appgrad.solvers.sparse.starts import first_pairs
from helpers import operator
from sparse_problems import small, standardised, support


def test_more_columns_in_play_than_allowed_take_steps_on_all(monkeypatch):
    p = small()
    model = SparseCCA(1, alpha=0.15, penalty="l1", tol=1e-6)
    reference = clone(model).fit(p.X, p.y)
    monkeypatch.setattr(
        "appgrad.solvers.sparse.columns_in_play.Columns.restricted",
        lambda *_: pytest.fail("matrices are gathered"),
    )
    monkeypatch.setattr("appgrad.solvers.sparse.starts._best", lambda field, A, B, size: (A[:, :1], B[:, :1]))
    for room in ("batch", "solver"):
        monkeypatch.setattr(f"appgrad.solvers.sparse.{room}.budget", lambda: 1)
    free = clone(model).fit(p.X, p.y)
    assert free.n_iter_[0] > reference.n_iter_[0]
    assert support(free.x_weights_) == support(reference.x_weights_)
    np.testing.assert_allclose(free.canonical_correlations_, reference.canonical_correlations_, atol=1e-3)


def test_the_largest_entries_are_found_by_blocks_of_columns(rng):
    X, Y = rng.standard_normal((50, 20)) + 3, rng.standard_normal((50, 15))
    C = standardised(X).T @ standardised(Y) / 50
    expected = np.sort(np.abs(C).ravel())[::-1][:12]
    for memory in (100, 1e-4):
        with config_context(working_memory=memory):
            found = Columns(operator(X, Y, ridge=0.0)).largest(12)
        np.testing.assert_allclose(np.abs(found.values), expected, atol=1e-10)
        np.testing.assert_allclose(C[found.rows, found.columns], found.values, atol=1e-10)


def test_what_is_taken_out_is_gone(rng):
    p = small()
    field = Columns(operator(p.X, p.y))
    a, b = first_pairs(field, 1, (6, 6))
    left = field.without(a, b)
    xy = left.products(a, b)[1]
    assert abs((a.T @ xy).item()) < 1e-10 * abs((a.T @ field.products(a, b)[1]).item())
    x, y = np.arange(30), np.arange(20, 50)
    A, B = rng.standard_normal((120, 2)), rng.standard_normal((100, 2))
    A[30:], B[:20], B[50:] = 0, 0, 0
    S, products = left.restricted(x, y), left.products(A, B)
    np.testing.assert_allclose(S.Sx @ A[x], products[0][x], atol=1e-10)
    np.testing.assert_allclose(S.Sxy @ B[y], products[1][x], atol=1e-10)
    np.testing.assert_allclose(S.Sxy.T @ A[x], products[2][y], atol=1e-10)
    np.testing.assert_allclose(S.Sy @ B[y], products[3][y], atol=1e-10)
    entries = left.largest(5)
    every = left.restricted(np.arange(120), np.arange(100)).Sxy
    np.testing.assert_allclose(every[entries.rows, entries.columns], entries.values, atol=1e-10)
    assert np.abs(entries.values[0]) == pytest.approx(np.abs(every).max())


def test_some_columns_of_views(rng):
    X, Y = rng.standard_normal((30, 6)), sp.csr_array(rng.poisson(0.5, (30, 5)))
    views = ColumnViews(
        ArrayViews(X, Y, names=(np.array(list("abcdef")), None)), np.array([4, 1]), np.array([0])
    )
    block = next(views.take(np.arange(3, 9)).blocks())
    np.testing.assert_array_equal(block.views[0], X[3:9][:, [4, 1]])
    np.testing.assert_array_equal(block.views[1].toarray(), Y.toarray()[3:9, :1])
    assert list(views.names[0]) == ["e", "b"]
    assert views.names[1] is None


def test_columns_of_sparse_rows_that_exclude_each_other(rng):
    c = rng.random(200) < 0.5
    X, Y = np.zeros((200, 30)), np.zeros((200, 20))
    # Nothing else to start from.
    X[:, 0], Y[:, 0] = c, ~c
    with config_context(working_memory=0.02):
        model = SparseCCA(1, n_nonzero=1).fit(sp.csr_array(X), sp.csr_array(Y))
    np.testing.assert_allclose(model.canonical_correlations_, 1, atol=1e-6)
    assert model.x_weights_[0, 0] * model.y_weights_[0, 0] < 0


def test_uncorrelated_columns_of_sparse_rows_are_not_taken_for_exclusive_ones():
    b = np.arange(64)
    X, Y = np.zeros((64, 40)), np.zeros((64, 40))
    X[:, 0], Y[:, 0] = b & 1, (b >> 1) & 1
    X[:, 1] = Y[:, 1] = (b >> 2) & 1
    Y[:4, 1] = 1 - Y[:4, 1]
    dense, sparse = operator(X, Y), operator(sp.csr_array(X), sp.csr_array(Y))
    assert largest_alpha(dense, 1) < 0.95
    np.testing.assert_allclose(largest_alpha(sparse, 1), largest_alpha(dense, 1))


def test_a_rare_column_that_excludes_a_common_one():
    X, Y = np.zeros((4000, 300)), np.zeros((4000, 300))
    X[40:, 0], Y[:10, 0] = 1, 1
    sparse = operator(sp.csr_array(X), sp.csr_array(Y))
    assert not Columns(sparse)._cross().__next__()[1].nnz
    found = Columns(sparse).largest(5)
    np.testing.assert_allclose(found.values, [np.corrcoef(X[:, 0], Y[:, 0])[0, 1]])


def test_exclusive_pairs_are_those_of_the_largest_products(rng, monkeypatch):
    x, y = rng.standard_normal(40), np.append(rng.standard_normal(30), 0.0)
    products = np.abs(np.outer(x, y))
    i, j = _largest_products(x, y)
    assert set(zip(i, j, strict=True)) == set(zip(*np.nonzero(products > 0.01), strict=True))
    monkeypatch.setattr(columns, "MOST_EXCLUSIVE", 50)
    i, j = _largest_products(x, y)
    assert 10 < len(i) <= 50
    assert products[i, j].min() >= np.sort(products, axis=None)[-len(i)]
