"""The fingerprint of all rows: the same for the same numbers, another one for any others."""

import struct
from functools import reduce

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from appgrad.data.arrays import ArrayViews
from appgrad.data.derived import CountedViews
from appgrad.data.fingerprint import TILE_BYTES, Identity, RowSums, row_hashes, row_sums
from appgrad.data.inputs import as_matrix
from appgrad.data.views import Block

WORD = 2**64


def sums(X, Y):
    return row_sums(Block(0, (X, Y)))


def mixed(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def textbook(row, single):
    """The hash of one row, number by number."""
    total = 0
    for j, value in enumerate(row):
        word = j // 2 if single else j
        bits = struct.unpack("<I" if single else "<Q", struct.pack("<f" if single else "<d", value + 0.0))[0]
        bits <<= 32 * (single and j % 2)
        total += (bits + (bits >> 32) * (0xA4093822299F31D3 if single else 1)) * (
            mixed((word + 1) * 0x9E3779B97F4A7C15 % WORD) | 1
        )
    return total % WORD


@st.composite
def tables(draw):
    """Numbers of several kinds, from indicators to full precision, some of them zero."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    shape = draw(st.integers(1, 30)), draw(st.integers(1, 9))
    kind = draw(st.sampled_from(["normal", "counts", "indicators", "huge"]))
    X = {
        "normal": rng.standard_normal(shape),
        "counts": rng.poisson(1.0, shape).astype(float),
        "indicators": (rng.random(shape) < 0.3).astype(float),
        "huge": rng.standard_normal(shape) * 10.0 ** rng.integers(-30, 30, shape),
    }[kind]
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    return (X * (rng.random(shape) < 0.7)).astype(dtype), rng


@given(table=tables())
def test_hashes_are_those_of_the_textbook_in_every_form(table):
    X, rng = table
    expected = np.array([textbook(row, X.dtype == np.float32) for row in X.tolist()], np.uint64)
    signed = np.where(X == 0, X.dtype.type(-0.0), X)
    stored = sp.coo_array((X.ravel(), np.indices(X.shape).reshape(2, -1)), shape=X.shape).tocsr()
    shuffled = stored.copy()
    for start, stop in zip(stored.indptr[:-1], stored.indptr[1:], strict=True):
        order = start + rng.permutation(stop - start)
        shuffled.indices[start:stop], shuffled.data[start:stop] = stored.indices[order], stored.data[order]
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    for form in (X, np.asfortranarray(X), strided, X[::-1][::-1], signed, sp.csr_array(X), stored, shuffled):
        np.testing.assert_array_equal(row_hashes(form), expected)


@given(table=tables(), data=st.data())
def test_duplicates_count_as_their_sum(table, data):
    X, _ = table
    X = np.round(X.astype(float).clip(-100, 100))
    i, j = np.nonzero(X)
    half = sp.coo_array((np.r_[X[i, j] - 1, np.ones(len(i))], (np.r_[i, i], np.r_[j, j])), shape=X.shape)
    np.testing.assert_array_equal(row_hashes(as_matrix(half, "X")), row_hashes(X))


@given(table=tables(), data=st.data())
def test_one_cell_that_differs_in_one_bit_is_noticed(table, data):
    X, rng = table
    Y, Z = rng.standard_normal((len(X), 2)).astype(X.dtype), X.copy()
    i, j = (data.draw(st.integers(0, size - 1)) for size in X.shape)
    bits = Z.view(f"u{X.itemsize}")
    bits[i, j] ^= bits.dtype.type(1 << data.draw(st.integers(0, 8 * X.itemsize - 1)))
    if Z[i, j] == 0 and X[i, j] == 0:
        assert sums(X, Y) == sums(Z, Y)
        return
    assert sums(X, Y).difference(sums(Z, Y)) == "X had other values"
    assert sums(Y, X).difference(sums(Y, Z)) == "y had other values"
    assert sums(X, X).difference(sums(Z, Z), ("a", "b")) == "a and b had other values"
    assert np.sum(row_hashes(X) != row_hashes(Z)) == 1


@given(table=tables(), data=st.data())
def test_cells_or_rows_that_change_places_are_noticed(table, data):
    X, rng = table
    Y = rng.integers(0, 2, (len(X), 3)).astype(X.dtype)
    Z = X.copy()
    i, j, k = (data.draw(st.integers(0, size - 1)) for size in (X.shape[0], X.shape[1], X.shape[1]))
    Z[i, [j, k]] = Z[i, [k, j]]
    assert (sums(X, Y) == sums(Z, Y)) == np.array_equal(X, Z)
    order = rng.permutation(len(X))
    found = sums(X, Y).difference(sums(X[order], Y[order]))
    if np.array_equal(np.c_[X, Y], np.c_[X, Y][order]):
        assert found is None
    else:
        assert found == "rows were in another order"
    found = sums(X, Y).difference(sums(X, Y[order]))
    if np.array_equal(Y, Y[order]):
        assert found is None
    else:
        assert found in ("rows of X and y were paired otherwise", "rows were in another order")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_indicators_spread_over_all_bits(dtype):
    """Numbers that differ in their highest bits alone: no two of 2000 x 2000 rows have the same hash."""
    hashes = row_hashes(np.eye(2000, dtype=dtype) + 1)
    assert len(np.unique(hashes >> np.uint64(20))) == 2000
    pairs = (hashes[:, None] + hashes)[np.triu_indices(2000, 1)]
    # About seven of two million numbers of 38 bits would be the same by chance.
    assert len(np.unique(pairs >> np.uint64(26))) > len(pairs) - 40


def test_tiles_do_not_matter(rng):
    p = TILE_BYTES // 8 // 10
    X = rng.standard_normal((35, p))
    np.testing.assert_array_equal(row_hashes(X), [int(row_hashes(X[[i]])[0]) for i in range(35)])


def test_sums_are_added_in_any_order(rng):
    X, Y = rng.standard_normal((50, 3)), rng.standard_normal((50, 2))
    parts = [row_sums(Block(i, (X[i : i + 7], Y[i : i + 7]))) for i in range(0, 50, 7)]
    assert reduce(RowSums.merge, [parts[i] for i in rng.permutation(len(parts))], RowSums()) == sums(X, Y)


def test_rows_taken_in_any_order_give_the_same(rng):
    """As minibatches take them: once each, though some come again."""
    X, Y = rng.standard_normal((60, 3)), rng.standard_normal((60, 2))
    views = CountedViews(ArrayViews(X, Y))
    views.identity = identity = Identity(60)
    order = rng.permutation(60)
    for start in range(0, 60, 13):
        assert not identity.complete
        rows = np.r_[order[start : start + 13], order[:start][:3]]
        list(views.take(rows).blocks())
        known = np.isin(np.arange(60), order[: start + 13])
        assert identity.sums == row_sums(Block(0, (X, Y)), counts=known)
    assert identity.complete
    assert identity.sums == sums(X, Y)


def test_the_first_pass_is_enough(rng):
    X, Y = rng.standard_normal((60, 3)), rng.standard_normal((60, 2))
    views = CountedViews(ArrayViews(X, Y))
    views.identity = identity = Identity(60)
    views.reduce(lambda block: 0, max, dtype=np.float32)
    assert not identity.complete
    assert views.reduce(lambda block: block.n_rows, lambda a, b: a + b) == 60
    assert identity.sums == sums(X, Y)
    before = views.rows
    views.verify()
    assert views.rows == before
