"""The covariances of the head of two views."""

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad.covariance.heads import head_of
from appgrad.data.arrays import ArrayViews
from appgrad.data.views import Block
from helpers import operator
from naive import covariances


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_covariances_of_the_head_are_those_of_its_columns(views, ridge):
    X, Y = views
    x, y = np.array([0, 3, 7, 20]), np.array([1, 3, 9])
    head = head_of(operator(X, Y, ridge=ridge), x, y)
    Sx, Sxy, Sy = covariances(*(np.asarray(sp.csr_array(Z).toarray()) for Z in views))
    found, d = head.cov.matrices, np.split(head.d, [4])
    expected = Sx[np.ix_(x, x)] + ridge * np.eye(4), Sxy[np.ix_(x, y)], Sy[np.ix_(y, y)] + ridge * np.eye(3)
    for S, T, left, right in zip(found, expected, (d[0], d[0], d[1]), (d[0], d[1], d[1]), strict=True):
        np.testing.assert_allclose(S, left[:, None] * T * right, atol=1e-7)
    np.testing.assert_allclose(np.diag(found.Sx), 1, atol=1e-7)


def test_a_share_of_the_rows_tells_about_the_same(views):
    cov, columns = operator(*views, ridge=0.1), (np.array([0, 3, 7]), np.array([1, 3]))
    whole, some = head_of(cov, *columns), head_of(cov, *columns, share=0.5)
    for S, T in zip(whole.cov.matrices, some.cov.matrices, strict=True):
        np.testing.assert_allclose(S, T, atol=0.15)
        assert not np.array_equal(S, T)
    for S in (some.cov.matrices.Sx, some.cov.matrices.Sy):
        np.testing.assert_array_equal(np.diag(S), 1)
        assert np.linalg.eigvalsh(S)[0] > 0


def test_the_rows_of_a_share_do_not_depend_on_blocks(views):
    columns = (np.array([0, 3, 7]), np.array([1, 3]))
    X, Y = (sp.csr_array(Z) for Z in views)
    whole, cut = operator(X, Y), operator(X, Y)
    parts = [ArrayViews(X[rows], Y[rows]) for rows in (slice(0, 1100), slice(1100, None))]
    offsets = (0, 1100)
    cut.views.reduce = lambda f, combine, **kwargs: combine(
        *(f(Block(at, (part.x, part.y))) for at, part in zip(offsets, parts, strict=True))
    )
    found = (head_of(cov, *columns, share=0.3).cov.matrices for cov in (whole, cut))
    for S, T in zip(*found, strict=True):
        np.testing.assert_allclose(S, T, atol=1e-8)


def test_a_share_without_a_column_is_still_a_head(rng):
    """No row of the share has it: it is then uncorrelated with all others."""
    X = sp.csr_array((rng.random((400, 6)) < 0.3) * 1.0).tolil()
    X[:, 5] = 0.0
    X[3, 5] = 1.0
    X = X.tocsr()
    S = head_of(operator(X, X), np.arange(6), np.arange(6), share=0.05).cov.matrices.Sx
    assert np.all(np.isfinite(S))
    assert np.linalg.eigvalsh(S)[0] > -1e-9


@pytest.mark.parametrize(("ridge", "dtype"), [(1e-2, np.float32), (1e-9, np.float64)])
def test_a_head_is_in_single_precision_where_its_ridge_allows_it(views, ridge, dtype):
    """Rounding of single precision would be more than a small ridge."""
    head = head_of(operator(*views, ridge=ridge), np.array([0, 3, 7]), np.array([1, 3]))
    assert head.cov.dtype == dtype
    products = head.cov.products(np.eye(3, dtype=dtype), np.eye(2, dtype=dtype))
    assert all(part.dtype == dtype for part in products)
