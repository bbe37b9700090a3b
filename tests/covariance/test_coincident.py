"""Columns of two views that coincide: found whatever their units, and no others."""

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad.covariance.build import on_rows
from appgrad.covariance.coincident import coincident
from appgrad.data.arrays import ArrayViews
from helpers import operator


@pytest.fixture
def views(rng):
    X, Y = ((rng.random((3000, p)) < 0.02).astype(float) for p in (40, 30))
    # The same rows in another unit; all other rows; two columns that coincide in one view.
    Y[:, 5] = 3 * X[:, 7]
    Y[:, 2] = 1 - X[:, 4]
    X[:, 9] = X[:, 7]
    # All but one row; constant columns.
    Y[:, 11] = X[:, 12]
    Y[np.flatnonzero(X[:, 12])[0], 11] = 0
    X[:, 20], Y[:, 20] = 0, 1
    return X, Y


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_columns_that_coincide_are_found(views, make):
    i, j = coincident(operator(*map(make, views)))
    assert sorted(zip(i.tolist(), j.tolist(), strict=True)) == [(4, 2), (7, 5)]


def test_without_centring_a_complement_does_not_coincide(views):
    cov = on_rows(ArrayViews(*views), center=False, scale=False, ridge="auto")
    i, j = coincident(cov)
    assert (7, 5) in zip(i.tolist(), j.tolist(), strict=True)
    assert 4 not in i


def test_columns_far_from_zero_coincide(views):
    X, Y = views
    i, j = coincident(operator(X, Y + 1e5))
    assert sorted(zip(i.tolist(), j.tolist(), strict=True)) == [(4, 2), (7, 5)]


def test_views_without_such_columns_have_none(rng):
    i, j = coincident(operator(rng.standard_normal((50, 4)), rng.standard_normal((50, 3))))
    assert len(i) == len(j) == 0


def test_columns_in_another_unit_coincide_in_single_precision(rng):
    X = sp.csr_array((rng.random((3000, 8)) < 0.05) * rng.random((3000, 8)), dtype=np.float32)
    i, j = coincident(operator(X, (X * np.float32(3.1))[:, ::-1]))
    np.testing.assert_array_equal(i + j, 7)
    assert len(i) == 8


def test_one_pass_is_enough(views):
    cov, calls = operator(*views), []
    blocks = cov.views.parts
    cov.views.parts = lambda dtype=None: (calls.append(dtype), blocks(dtype))[1]
    coincident(cov)
    assert len(calls) == 1
