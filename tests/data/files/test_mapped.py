"""Views on files: the contract for every kind of file, reading ahead, and detection of changes."""

import itertools
import os
import threading
import time

import numpy as np
import pytest
from sklearn import config_context

from appgrad import CCA, open_views
from appgrad.data.arrays import ArrayViews
from appgrad.data.files.hdf5_zarr import StoredRows
from appgrad.data.files.mapped import StoredViews
from appgrad.data.sources import as_views
from helpers import memmap, small_blocks, write
from naive import dense
from views_contract import ViewsContract, batches


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


def test_memmap_is_not_loaded(rng, tmp_path):
    m = memmap(rng.random((10, 2)), tmp_path, "m")
    assert np.shares_memory(ArrayViews(m, m).x, m)


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


def test_npy_is_mapped_not_read(X, tmp_path):
    np.save(tmp_path / "x.npy", X)
    views = open_views(tmp_path / "x.npy", f"{tmp_path / 'x.npy'}::columns=1-2")
    assert isinstance(views.x, np.memmap)
    assert isinstance(views.y, np.memmap)


@pytest.mark.parametrize("kind", [".npy", ".h5"])
def test_a_file_that_changes_between_passes_is_noticed(kind, rng, tmp_path):
    X, Y = rng.standard_normal((300, 5)), rng.standard_normal((300, 4))
    write(kind, tmp_path / f"x{kind}", X)
    np.save(tmp_path / "y.npy", Y)
    views = open_views(tmp_path / f"x{kind}", tmp_path / "y.npy")

    def change(progress):
        if progress.iteration == 2:
            os.utime(tmp_path / "y.npy", ns=(1, 1))

    with pytest.raises(ValueError, match=r"y\.npy has changed since it was opened: open it again"):
        CCA(2, solver="lobpcg", tol=0, max_iter=5, random_state=0, callback=change).fit(views)


@pytest.mark.parametrize("kind", [".npy", ".h5", ".csv"])
def test_minibatches_of_sorted_files_are_mixed(kind, rng, tmp_path, monkeypatch):
    """Rows sorted by a label: every minibatch holds rows of everywhere."""
    # Some 18 rows a run, 64 runs at a time: a twentieth of all rows.
    monkeypatch.setattr("appgrad.data.files.mapped.RUN_BYTES", 1024)
    n = 20000
    X = np.c_[np.arange(n) / n, rng.standard_normal((n, 3))]
    write(kind, tmp_path / f"x{kind}", X)
    with config_context(working_memory=0.1):
        views = open_views(tmp_path / f"x{kind}", f"{tmp_path / f'x{kind}'}::columns=1-3")
        means = []
        for batch in itertools.islice(batches(views, 200, rng), 30):
            labels = np.concatenate([dense(block.views[0])[:, 0] for block in batch.blocks()])
            means.append(labels.mean())
            assert labels.std() > 0.2
    assert np.std(means) < 0.1
    order = views.order(np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(order), np.arange(n))


def test_zarr_that_changes_is_noticed(rng, tmp_path):
    zarr = pytest.importorskip("zarr")
    write(".zarr", tmp_path / "x.zarr", rng.standard_normal((300, 5)))
    np.save(tmp_path / "y.npy", rng.standard_normal((300, 4)))
    views = open_views(tmp_path / "x.zarr", tmp_path / "y.npy")

    def change(progress):
        if progress.iteration == 2:
            store = zarr.open(tmp_path / "x.zarr", mode="r+")
            array = store if isinstance(store, zarr.Array) else next(iter(dict(store.members()).values()))
            array[:] = 0.0

    with pytest.raises(ValueError, match=r"x\.zarr has changed since it was opened"):
        CCA(2, solver="lobpcg", tol=0, max_iter=5, random_state=0, callback=change).fit(views)
