"""Views on rows in memory: blocks, rows by number and at random, and checks that rows are paired."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from appgrad import open_views
from appgrad.data import arrays
from appgrad.data.arrays import ArrayViews
from appgrad.data.derived import CountedViews
from appgrad.data.inputs import as_matrix
from appgrad.data.views import canonical_csr
from helpers import BACKENDS, small_blocks
from views_contract import ViewsContract, batches


class TestDense(ViewsContract):
    make = staticmethod(BACKENDS["dense"])


class TestBlocks(ViewsContract):
    make = staticmethod(BACKENDS["blocks"])


class TestSparse(ViewsContract):
    make = staticmethod(BACKENDS["csr"])


class TestMixed(ViewsContract):
    make = staticmethod(BACKENDS["mixed"])


class TestMemmap(ViewsContract):
    make = staticmethod(BACKENDS["memmap"])


class TestRows(ViewsContract):
    make = staticmethod(BACKENDS["rows"])


class TestCounted(ViewsContract):
    def make(self, X, Y, folder):
        return CountedViews(small_blocks(ArrayViews(X, Y)))


def test_counted_views_count_passes(rng):
    seen = []
    views = CountedViews(small_blocks(ArrayViews(rng.random((100, 2)), rng.random((100, 2)))), seen.append)
    views.sum(lambda block: (block.views[0].sum(axis=0),))
    list(views.blocks())
    assert views.passes == 2.0
    assert seen == [37, 74, 100, 137, 174, 200]


def test_minibatches_count_as_passes(rng):
    views = CountedViews(ArrayViews(rng.random((100, 2)), rng.random((100, 2))))
    for batch in batches(views, 30, rng):
        list(batch.blocks())
    assert views.passes == 1.0


def test_blocks_stay_within_their_size(rng):
    views = ArrayViews(np.zeros((20000, 600), np.uint8), np.zeros((20000, 424), np.float32))
    rows = [block.views[0].shape[0] for block in views.blocks()]
    assert max(rows) * 1024 * 8 <= 32 * 2**20
    assert sum(rows) == 20000


def test_sparse_blocks_are_coalesced():
    views = ArrayViews(sp.csr_array((10**6, 10**5)), sp.csr_array((10**6, 10**5)))
    assert len(list(views.blocks())) <= 2


def test_float32_stays_float32(rng):
    single = rng.random((10, 2), dtype=np.float32)
    assert ArrayViews(single, single.astype(np.float16)).dtype == np.float32
    assert ArrayViews(single, single.astype(float)).dtype == np.float64
    assert ArrayViews(single, single.astype(np.uint8)).dtype == np.float64


def test_result_does_not_depend_on_threads(rng):
    X, Y = rng.standard_normal((500, 20)), rng.standard_normal((500, 20))
    sums = [
        small_blocks(ArrayViews(X, Y, threads=t)).sum(lambda b: (b.views[0].T @ b.views[1],))[0]
        for t in (2, 2, 3, 4)
    ]
    for other in sums[1:]:
        np.testing.assert_array_equal(sums[0], other)


def test_rows_must_be_paired(rng):
    with pytest.raises(ValueError, match="y has 90 rows, X has 100: rows must be paired"):
        ArrayViews(rng.random((100, 2)), rng.random((90, 2)))


def test_blocks_are_of_equal_length():
    views = ArrayViews(np.zeros((9_000, 1000)), np.zeros((9_000, 1000)))
    lengths = [len(block.views[0]) for block in views.blocks()]
    assert len(lengths) == 5  # 2097 rows of 2000 columns are 32 MB
    assert max(lengths) - min(lengths) <= len(lengths)


def test_sparse_blocks_share_what_they_can(rng):
    """Consecutive rows of a sparse matrix are cut without copying its indices,."""
    m = sp.csr_array(rng.standard_normal((1000, 30)) * (rng.random((1000, 30)) < 0.2))
    views = ArrayViews(m, m)
    views.block_rows = 100
    for block in views.blocks():
        assert np.shares_memory(block.views[0].indices, m.indices)
        assert np.shares_memory(block.views[0].data, m.data)
        rows = slice(block.offset, block.offset + block.n_rows)
        np.testing.assert_array_equal(block.views[0].toarray(), m[rows].toarray())
    (block, *_) = views.blocks(np.float32)
    assert block.views[0].data.dtype == np.float32
    assert m.data.dtype == np.float64


@pytest.mark.parametrize("chosen", [None, slice(1, None, 2)])
def test_sparse_blocks_have_as_many_entries_each(chosen, rng):
    """Rows at one end are longer, many are empty, and one is longer than a block."""
    density = np.linspace(0.5, 0.0, 1000)[:, None]
    density[700] = 1.0
    X, Y = (rng.random((1000, p)) < density for p in (40, 200))
    Y[:700], Y[701:] = False, False
    views = ArrayViews(*(sp.csr_array(m.astype(float)) for m in (X, Y)))
    index = np.arange(1000)
    if chosen is not None:
        index = rng.permutation(1000)[chosen]
        views = views.take(index)
    views.block_rows = 100
    blocks = list(views.blocks())
    assert [block.offset for block in blocks] == list(np.cumsum([0, *(b.n_rows for b in blocks)])[:-1])
    np.testing.assert_array_equal(np.vstack([b.views[0].toarray() for b in blocks]), X[index])
    costs = [arrays.ROW_COST * b.n_rows + sum(m.nnz for m in b.views) for b in blocks]
    longest = np.hstack([X, Y]).sum(axis=1).max() + arrays.ROW_COST
    assert 1 < len(blocks) <= -(-len(index) // 100)
    assert max(costs) <= sum(costs) / -(-len(index) // 100) + longest


def test_blocks_of_a_sparse_view_without_entries():
    views = ArrayViews(sp.csr_array((1000, 3)), sp.csr_array((1000, 2)))
    views.block_rows = 300
    assert [block.n_rows for block in views.blocks()] == [250] * 4


@pytest.mark.parametrize("kind", [sp.csr_array, np.zeros])
def test_no_rows_are_no_blocks(kind):
    assert list(ArrayViews(kind((9, 3)), kind((9, 2))).take(np.zeros(0, int)).blocks()) == []


@pytest.mark.parametrize(("entries", "count"), [(7, 1), (17, 2), (31, 2), (33, 4), (63, 4), (72, 8)])
def test_sparse_blocks_come_in_twos_and_fours(entries, count, monkeypatch):
    """So many entries for each column; the size of their values would ask for more blocks."""
    monkeypatch.setattr(arrays, "block_count", lambda n, row_bytes: 16)
    p = 20000
    x = sp.csr_array((2 * p, p))
    x.indptr = np.arange(2 * p + 1) * entries // 2
    x.indices, x.data = np.zeros(entries * p, np.int32), np.ones(entries * p)
    views = ArrayViews(x, sp.csr_array((2 * p, 1)))
    assert len(list(views.blocks())) == count


def test_a_dense_view_beside_a_sparse_one_keeps_blocks_small():
    x = sp.csr_array((10**6, 10**5))
    x.indptr = np.arange(10**6 + 1)
    x.indices, x.data = np.zeros(10**6, np.int32), np.ones(10**6)
    views = ArrayViews(x, np.broadcast_to(0.0, (10**6, 1000)))
    assert views.block_rows * 1000 * 8 <= 32 * 2**20


def test_views_say_what_they_hold(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((10, 3), np.float32))
    (tmp_path / "y.csv").write_text("left,right,up,down\n" + 10 * "1,2,3,4\n")
    text = repr(open_views(tmp_path / "x.npy", f"{tmp_path}/y.csv"))
    assert text.startswith("<StoredViews of 10 rows, float64; ")
    assert "x.npy: 3 columns; " in text
    assert "y.csv: 4 columns (left, right, up, ...)>" in text
    one = repr(CountedViews(ArrayViews(np.zeros((5, 2), np.float32), np.zeros((5, 1), np.float32))))
    assert one == "<CountedViews of 5 rows, float32; X: 2 columns; y: 1 column>"


def _entries(form, values, rows, columns, shape):
    """Entries of a sparse matrix as they are given, those of the same place side by side."""
    order = np.lexsort((columns, rows)) if form != "csc" else np.lexsort((rows, columns))
    values, rows, columns = values[order], rows[order], columns[order]
    if form == "coo":
        return sp.coo_array((values, (rows, columns)), shape=shape)
    major, minor, size = (rows, columns, shape[0]) if form == "csr" else (columns, rows, shape[1])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(major, minlength=size))])
    return (sp.csr_array if form == "csr" else sp.csc_array)((values, minor, indptr), shape=shape)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.bool_])
@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 60))
@settings(max_examples=15, deadline=None)
def test_entries_given_twice_add_up_in_any_type(form, dtype, seed, count):
    rng = np.random.default_rng(seed)
    shape = (6, 3)
    high = 2 if dtype == np.bool_ else min(np.iinfo(dtype).max, 10**6)
    values = rng.integers(0, high, count, endpoint=dtype != np.bool_).astype(dtype)
    rows, columns = rng.integers(0, 6, count), rng.integers(0, 3, count)
    expected = np.zeros(shape)
    np.add.at(expected, (rows, columns), values.astype(float))
    given_twice = _entries(form, values, rows, columns, shape)
    for found in (canonical_csr(given_twice), as_matrix(given_twice, "X")):
        np.testing.assert_array_equal(found.toarray(), expected)
    assert given_twice.dtype == dtype
    assert given_twice.nnz == count


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_])
def test_small_integers_given_once_stay_small(dtype):
    m = sp.csr_array(np.eye(4, dtype=dtype))
    assert as_matrix(m, "X").dtype == dtype
    assert np.shares_memory(as_matrix(m, "X").data, m.data)
