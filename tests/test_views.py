import multiprocessing
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context

from appgrad import open_views
from appgrad.data.arrays import ArrayViews
from appgrad.data.derived import CountedViews
from appgrad.data.files.binary import StoredRows
from appgrad.data.files.mapped import StoredViews
from appgrad.data.sources import as_views
from appgrad.machine.threads import blas_threads
from helpers import BACKENDS, memmap, small_blocks, write
from naive import dense


class ViewsContract:
    """What every back end must do; a test class per back end says how to make one."""

    def make(self, X, Y, folder):
        raise NotImplementedError

    @pytest.fixture
    def data(self, rng):
        X = rng.integers(0, 5, (101, 4)).astype(float)
        return X, rng.standard_normal((101, 3)) * (rng.random((101, 3)) < 0.5)

    @pytest.fixture
    def views(self, data, tmp_path):
        return self.make(*data, tmp_path)

    def test_shapes(self, views):
        assert (views.n_samples, views.n_features_x, views.n_features_y) == (101, 4, 3)
        assert views.dtype == np.float64

    def test_blocks_deliver_every_row_once_in_order(self, views, data):
        blocks = list(views.blocks())
        assert [b.offset for b in blocks] == list(np.cumsum([0] + [b.views[0].shape[0] for b in blocks[:-1]]))
        np.testing.assert_array_equal(np.vstack([dense(b.views[0]) for b in blocks]), data[0])
        np.testing.assert_array_equal(np.vstack([dense(b.views[1]) for b in blocks]), data[1])
        assert all(b.views[0].dtype == views.dtype and b.views[1].dtype == views.dtype for b in blocks)

    def test_reduce_combines_in_order(self, views):
        ranges = views.reduce(lambda b: [(b.offset, b.offset + b.views[0].shape[0])], lambda a, b: a + b)
        assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
        assert ranges[-1][1] == 101

    def test_sum(self, views, data):
        x, y = views.sum(lambda block: (dense(block.views[0]).sum(axis=0), dense(block.views[1]).sum(axis=0)))
        np.testing.assert_allclose(x, data[0].sum(axis=0))
        np.testing.assert_allclose(y, data[1].sum(axis=0))

    def test_take(self, views, data):
        rows = np.array([3, 1, 99, 40])
        taken = views.take(rows)
        (block,) = taken.blocks()
        np.testing.assert_array_equal(dense(block.views[0]), data[0][rows])
        (block,) = taken.take(np.array([2, 0])).blocks()
        np.testing.assert_array_equal(dense(block.views[1]), data[1][[99, 3]])

    def test_batches_partition_the_rows_at_random(self, views, data):
        def delivered(seed):
            batches = list(views.batches(20, np.random.default_rng(seed)))
            assert [b.n_samples for b in batches] == [20, 20, 20, 20, 20, 1]
            return [np.vstack([dense(block.views[1]) for block in b.blocks()]) for b in batches]

        first, again, other = delivered(0), delivered(0), delivered(1)
        np.testing.assert_array_equal(np.vstack(first), np.vstack(again))
        assert not np.array_equal(first[0], other[0])
        assert not np.array_equal(first[0], data[1][:20])
        np.testing.assert_array_equal(
            np.sort(np.vstack(first), axis=0), np.sort(data[1], axis=0), strict=True
        )

    def test_errors_in_a_block_reach_the_caller(self, views):
        def fail(block):
            raise RuntimeError("inside")

        with pytest.raises(RuntimeError, match="inside"):
            views.reduce(fail, lambda a, b: a)


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


class FilesContract(ViewsContract):
    """Views on files of one kind, with hardly any memory to keep them in."""

    kind = ""

    def make(self, X, Y, folder):
        write(self.kind, folder / f"x{self.kind}", X)
        write(self.kind, folder / f"y{self.kind}", Y)
        with config_context(working_memory=0.001):
            return small_blocks(open_views(folder / f"x{self.kind}", folder / f"y{self.kind}"))


class TestNpy(FilesContract):
    kind = ".npy"


class TestSparseNpz(FilesContract):
    kind = "sparse.npz"


class TestCsv(FilesContract):
    kind = ".csv"


class TestZippedTsv(FilesContract):
    kind = "bare.tsv.gz"


class TestParquet(FilesContract):
    kind = ".parquet"


class TestFolder(FilesContract):
    kind = "folder"


class TestSvm(FilesContract):
    kind = ".svm"


class TestH5(FilesContract):
    kind = ".h5"


class TestZarr(FilesContract):
    kind = ".zarr"


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
    for batch in views.batches(30, rng):
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


def test_memmap_is_not_loaded(rng, tmp_path):
    m = memmap(rng.random((10, 2)), tmp_path, "m")
    assert np.shares_memory(ArrayViews(m, m).x, m)


def test_a_block_has_one_thread_of_blas_and_a_single_block_has_all(rng):
    views = ArrayViews(rng.random((100, 2)), rng.random((100, 2)), threads=2)
    assert views.reduce(lambda block: [blas_threads()], list.__add__) == [blas_threads()]
    assert small_blocks(views).reduce(lambda block: [blas_threads()], list.__add__) == [1, 1, 1]


def test_the_limit_on_blas_is_lifted_after_an_error(rng):
    views = small_blocks(ArrayViews(rng.random((100, 2)), rng.random((100, 2)), threads=2))
    before = blas_threads()

    def fail(a, b):
        raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside") as caught:
        views.reduce(lambda block: block.offset, fail)
    assert blas_threads() == before, caught


def test_blas_threads_follow_threadpoolctl():
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        assert blas_threads() == 1


def test_rows_must_be_paired(rng):
    with pytest.raises(ValueError, match="y has 90 rows, X has 100: rows must be paired"):
        ArrayViews(rng.random((100, 2)), rng.random((90, 2)))


def test_concurrent_reductions_leave_no_limit_behind(rng):
    before = blas_threads()
    views = small_blocks(ArrayViews(rng.random((1000, 20)), rng.random((1000, 20)), threads=2))

    def work(_):
        for _ in range(20):
            views.sum(lambda block: (block.views[0].T @ block.views[1],))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert blas_threads() == before


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
        np.testing.assert_array_equal(
            block.views[0].toarray(), m[block.offset : block.offset + 100].toarray()
        )
    (block, *_) = views.blocks(np.float32)
    assert block.views[0].data.dtype == np.float32
    assert m.data.dtype == np.float64


def test_a_dense_view_beside_a_sparse_one_keeps_blocks_small():
    x = sp.csr_array((10**6, 10**5))
    x.indptr = np.arange(10**6 + 1)
    x.indices, x.data = np.zeros(10**6, np.int32), np.ones(10**6)
    views = ArrayViews(x, np.broadcast_to(0.0, (10**6, 1000)))
    assert views.block_rows * 1000 * 8 <= 32 * 2**20


def test_a_fork_has_threads_of_its_own(rng):
    """A pool of the parent has no threads in a child: work given to it would wait for ever."""
    views = ArrayViews(rng.standard_normal((1000, 3)), rng.standard_normal((1000, 3)), threads=2)
    views.block_rows = 100
    total = views.sum(lambda block: (block.views[0].sum(axis=0),))[0]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        found = pool.apply_async(_sum_of, (views,)).get(timeout=60)
    np.testing.assert_array_equal(found, total)


def _sum_of(views):
    return views.sum(lambda block: (block.views[0].sum(axis=0),))[0]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_next_block_is_read_while_one_is_worked_on(threads):
    """Work on the first block does not end before the next one has been asked for."""
    asked = [threading.Event() for _ in range(10)]

    def read(start, stop):
        asked[start // 10].set()
        return np.full((stop - start, 2), float(start))

    x = StoredRows((100, 2), np.float64, read)
    views = StoredViews(x, np.zeros((100, 1)), threads=threads)
    views.block_rows = 10
    found = views.reduce(
        lambda block: [block.offset] * asked[min(block.offset // 10 + 1, 9)].wait(20), lambda a, b: a + b
    )
    assert found == list(range(0, 100, 10))


def test_a_block_that_cannot_be_read(tmp_path):
    """The error is that of the reader, and no thread waits for what never comes."""

    def read(start, stop):
        if start >= 50:
            raise OSError("the disk is gone")
        return np.zeros((stop - start, 2))

    views = StoredViews(StoredRows((100, 2), np.float64, read), np.zeros((100, 1)))
    views.block_rows = 10
    with pytest.raises(OSError, match="the disk is gone"):
        views.sum(lambda block: (block.views[0].sum(axis=0),))
    assert sum(block.views[0].shape[0] for block in views.take(np.arange(50)).blocks()) == 50
    assert not [t for t in threading.enumerate() if "reader" in t.name and t.is_alive() and stuck(t)]


def stuck(thread):
    thread.join(5)
    return thread.is_alive()


def test_no_more_is_read_than_is_needed_next():
    """Two blocks are worked on, one waits for them, and one is read meanwhile."""
    reads, most = [], []

    def read(start, stop):
        reads.append(start)
        return np.zeros((stop - start, 2))

    views = StoredViews(StoredRows((1000, 2), np.float64, read), np.zeros((1000, 1)), threads=2)
    views.block_rows = 10
    done = []

    def work(block):
        time.sleep(0.002)
        most.append(len(reads) - len(done))
        done.append(1)
        return 1

    assert views.reduce(work, lambda a, b: a + b) == 100
    assert max(most) <= 6


def test_a_suspended_reader_that_is_dropped_elsewhere():
    """Even in the thread that reads: nothing waits for itself."""
    box = []

    def read(start, stop):
        box.clear()
        return np.zeros((stop - start, 2))

    views = StoredViews(StoredRows((100, 2), np.float64, read), np.zeros((100, 1)))
    views.block_rows = 10
    for _ in range(5):
        blocks = views.blocks()
        next(blocks)
        box.append(blocks)
        del blocks
        assert views.sum(lambda block: (block.views[0].sum(axis=0),))[0].shape == (2,)


def test_one_column_larger_than_a_block(tmp_path):
    x = np.random.default_rng(0).standard_normal(5000)
    np.save(tmp_path / "x.npy", x)
    with config_context(working_memory=0.01):
        views = open_views(tmp_path / "x.npy", tmp_path / "x.npy")
        assert views.block_rows < 5000
        np.testing.assert_allclose(views.sum(lambda b: (b.views[0].sum(axis=0),))[0], x.sum())


def test_a_mapped_file_given_as_an_array_is_stored(tmp_path, rng):
    """scikit-learn's checks make a plain array of it, which is still read from the disk."""
    np.save(tmp_path / "x.npy", rng.random((100, 3)))
    x = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert isinstance(as_views(x, x[:, 1:]), StoredViews)
    assert not isinstance(as_views(np.array(x), np.array(x)), StoredViews)
