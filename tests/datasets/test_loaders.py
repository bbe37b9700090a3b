"""Loaders of the paper's data sets, on small files of the original formats."""

import bz2
import hashlib
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad.datasets import loaders
from appgrad.datasets.loaders import load_mediamill, load_mnist, load_ptb, load_sparse
from appgrad.datasets.url_reputation import is_url_reputation, load_url_reputation
from appgrad.experiments import bilingual


@pytest.mark.parametrize("names", ["X_train y_train X_test y_test", "x_train y_train x_test y_test"])
def test_mnist_halves(tmp_path, rng, names):
    images = rng.integers(0, 256, (7, 28, 28), dtype=np.uint8)
    arrays = (images, np.arange(7), images[:3], np.arange(3))
    np.savez(tmp_path / "mnist.npz", **dict(zip(names.split(), arrays, strict=True)))
    data = load_mnist(tmp_path)
    assert data.X.shape == data.y.shape == (7, 392)
    assert data.X_test.shape == (3, 392)
    # Side by side again.
    whole = np.concatenate([data.X.reshape(7, 28, 14), data.y.reshape(7, 28, 14)], axis=2) * 255
    np.testing.assert_allclose(whole, images)
    assert data.labels.tolist() == list(range(7))


def test_mediamill_as_published(tmp_path, monkeypatch):
    lines = {"train": "0,100 1:0.5 120:0.25\n3 2:1.5\n", "test": "7 1:1\n"}
    for part, text in lines.items():
        (tmp_path / f"{part}-exp1.svm.bz2").write_bytes(bz2.compress(text.encode()))
    monkeypatch.setattr(loaders, "MEDIAMILL", {"train": (2, 3), "test": (1, 1)})
    data = load_mediamill(tmp_path)
    assert data.X.shape == (2, 120)
    assert data.X[0, [0, 119]].tolist() == [0.5, 0.25]
    assert np.argwhere(data.y).tolist() == [[0, 0], [0, 100], [1, 3]]
    monkeypatch.setattr(loaders, "MEDIAMILL", {"train": (2, 4), "test": (1, 1)})
    with pytest.raises(ValueError, match="2 rows with 3 labels, expected 2 with 4"):
        load_mediamill(tmp_path)


def test_words_and_their_context(tmp_path):
    # the: 3 times, <eos>: 2, others once; cow is not in the first text.
    (tmp_path / "ptb.train.txt").write_text(" the cat saw the dog \n the end \n")
    (tmp_path / "ptb.test.txt").write_text(" the dog saw the cow end \n")
    data = load_ptb(tmp_path)
    words = data.X.toarray().argmax(axis=1).tolist()
    assert data.X.shape == (8, 6)
    assert words[:1] == [0]
    assert words.count(0) == 3
    assert data.y.toarray().argmax(axis=1).tolist()[:-1] == words[1:]
    assert data.X_test.shape == (5, 6)
    around = load_ptb(tmp_path, "around")
    assert around.y.sum(axis=1).tolist() == [4.0] * 5
    # "saw": the, cat before; the, dog after.
    assert around.y[[0]].toarray()[0, 0] == 2
    with pytest.raises(ValueError, match="expected 'next' or 'around'"):
        load_ptb(tmp_path, "before")


def test_sparse_rows_are_split(tmp_path):
    (tmp_path / "debian_paths").mkdir()
    rows = sp.csr_array(np.arange(1, 41).reshape(20, 2))
    for name in ("X_dir", "X_file"):
        sp.save_npz(tmp_path / "debian_paths" / f"{name}.npz", rows)
    data = load_sparse("debian_paths", tmp_path)
    assert data.X.shape == (18, 2)
    assert (data.X.toarray() == data.y.toarray()).all()
    every = np.vstack([data.X.toarray(), data.X_test.toarray()])
    assert sorted(every[:, 0].tolist()) == rows.toarray()[:, 0].tolist()


def test_columns_of_sparse_rows_are_in_order(tmp_path):
    """Rows are compared by their columns."""
    (tmp_path / "debian_paths").mkdir()
    rows = sp.csr_array((np.ones(3), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3))
    for name in ("X_dir", "X_file"):
        sp.save_npz(tmp_path / "debian_paths" / f"{name}.npz", rows)
    X, _ = loaders.sparse_views("debian_paths", tmp_path)
    assert X.indices.tolist() == [0, 2, 1]


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no mnist/mnist\.npz; it comes from https://"):
        load_mnist(tmp_path)
    with pytest.raises(ValueError, match="debian_paths cannot be downloaded: give the folder"):
        load_sparse("debian_paths", None)
    with pytest.raises(ValueError, match=r"no sparse views are called 'nope': there are malicious_urls, "):
        load_sparse("nope", tmp_path)


@pytest.fixture
def url_folder(tmp_path):
    """Three days of the original format; columns 1 to 5, of which 2 and 4 are real-valued."""
    days = {
        0: "+1 1:1 2:0.5 4:0.25\n-1 1:1 3:1 5:1\n",
        1: "-1 2:0.75 3:1\n",
        10: "+1 1:1 4:0.5 5:1\n-1 3:1\n",
    }
    for day, text in days.items():
        (tmp_path / f"Day{day}.svm").write_text(text)
    (tmp_path / "FeatureTypes").write_text("2\n4\n")
    return tmp_path


def test_url_reputation_with_its_own_feature_types(url_folder):
    assert is_url_reputation(url_folder)
    with pytest.warns(UserWarning, match="names no types: the 2 columns it lists"):
        data = load_url_reputation(url_folder)
    # Five rows: two train. Columns that no training row has are left out: 5 stays, 2 and 4 as well.
    np.testing.assert_array_equal(data.X.toarray(), [[0.5, 0.25], [0, 0]])
    np.testing.assert_array_equal(data.y.toarray(), [[1, 0, 0], [1, 1, 1]])
    # Day 10 comes after day 1.
    np.testing.assert_array_equal(data.X_test.toarray(), [[0.75, 0], [0, 0.5], [0, 0]])
    np.testing.assert_array_equal(data.y_test.toarray(), [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_url_reputation_by_types_and_by_lists(url_folder):
    (url_folder / "FeatureTypes").write_text("1 host\n2 host\n3 lexical\n5 lexical\n4 real\n")
    typed = load_url_reputation(url_folder)
    np.testing.assert_array_equal(typed.X.toarray(), [[1, 0.5], [1, 0]])
    np.testing.assert_array_equal(typed.y.toarray(), [[0, 0], [1, 1]])
    (url_folder / "host.txt").write_text("4\n")
    (url_folder / "lexical.txt").write_text("1\n")
    listed = load_url_reputation(url_folder)
    np.testing.assert_array_equal(listed.X.toarray(), [[0.25], [0]])
    given = load_url_reputation(url_folder, host=[2], lexical=[1, 3])
    np.testing.assert_array_equal(given.X.toarray(), [[0.5], [0]])
    assert given.y.shape == (2, 2)


def test_url_reputation_keeps_the_frequent_columns(url_folder):
    data = load_url_reputation(url_folder, host=[2, 4], lexical=[1, 3, 5], n_features=1)
    assert data.y.shape == (2, 1)
    assert data.y.toarray().ravel().tolist() == [1, 1]
    lists = {"host": [2, 4], "lexical": [1, 3, 5]}
    assert load_url_reputation(url_folder, **lists, n_samples=4).X_test.shape[0] == 2


def test_url_reputation_says_what_is_wrong(url_folder, tmp_path):
    with pytest.raises(ValueError, match="1 columns are in both views"):
        load_url_reputation(url_folder, host=[1, 2], lexical=[2, 3])
    with pytest.raises(ValueError, match="columns run from 0 to 3231961, got 1 to 4000000"):
        load_url_reputation(url_folder, host=[1, 4_000_000], lexical=[2])
    (url_folder / "FeatureTypes").write_text("² one\n")
    with pytest.raises(ValueError, match="line 1: expected a column number, found '² one'"):
        load_url_reputation(url_folder)
    (url_folder / "FeatureTypes").unlink()
    with pytest.raises(ValueError, match="does not say which columns are host-based"):
        load_url_reputation(url_folder)
    (tmp_path / "empty").mkdir()
    assert not is_url_reputation(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match=r"no Day0\.svm"):
        load_url_reputation(tmp_path / "empty")


def test_downloads_are_checked(tmp_path, monkeypatch, rng):
    """A server is played by a file: pooch takes the address, checks the sum, keeps the file."""
    pooch = pytest.importorskip("pooch")
    images = rng.integers(0, 256, (2, 28, 28), dtype=np.uint8)
    np.savez(tmp_path / "there.npz", x_train=images, y_train=[0, 1], x_test=images, y_test=[0, 1])
    content = (tmp_path / "there.npz").read_bytes()
    monkeypatch.setattr(pooch, "os_cache", lambda _: tmp_path / "cache")

    class Downloader:
        def __call__(self, url, output_file, _):
            with open(output_file, "wb") as file:
                file.write(content)

    monkeypatch.setattr("pooch.core.choose_downloader", lambda *_, **__: Downloader())
    good = f"sha256:{hashlib.sha256(content).hexdigest()}"
    for checksum, fits in ((good, True), ("sha256:" + 64 * "0", False)):
        monkeypatch.setitem(loaders.SOURCES, "mnist.npz", ("https://example.org/mnist.npz", checksum))
        for file in (tmp_path / "cache").glob("*"):
            file.unlink()
        if fits:
            assert load_mnist().X.shape == (2, 392)
        else:
            with pytest.raises(ValueError, match=r"mnist\.npz.*checksum|hash"):
                load_mnist()


def test_offline_it_says_what_to_do(tmp_path, monkeypatch):
    pooch = pytest.importorskip("pooch")
    monkeypatch.setattr(pooch, "os_cache", lambda _: tmp_path / "cache")
    # Nothing listens there.
    monkeypatch.setitem(loaders.SOURCES, "mnist.npz", ("http://127.0.0.1:9/mnist.npz", None))
    with pytest.raises(
        OSError, match=r"could not be downloaded .*: download http://127\.0\.0\.1:9/mnist\.npz"
    ):
        load_mnist()


def test_damaged_files_are_called_so(tmp_path):
    np.savez(tmp_path / "mnist.npz", x_train=np.zeros((9, 28, 28)))
    whole = (tmp_path / "mnist.npz").read_bytes()
    (tmp_path / "mnist.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="the files of MNIST are damaged"):
        load_mnist(tmp_path)
    np.savez(tmp_path / "mnist.npz", x_test=np.zeros((1, 28, 28)))
    with pytest.raises(ValueError, match=r"the files of MNIST are damaged .*x_train"):
        load_mnist(tmp_path)


@pytest.mark.parametrize("load", [bilingual.load, partial(load_sparse, "bilingual_en_it")])
def test_damaged_sparse_views_are_named(load, tmp_path):
    (tmp_path / "bilingual_en_it").mkdir()
    for name in ("X_en", "X_it"):
        (tmp_path / "bilingual_en_it" / f"{name}.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(ValueError, match="the files of bilingual_en_it are damaged or of another kind"):
        load(tmp_path)


def test_views_that_are_not_pairs(tmp_path):
    (tmp_path / "debian_paths").mkdir()
    for name, rows in (("X_dir", 3), ("X_file", 4)):
        sp.save_npz(tmp_path / "debian_paths" / f"{name}.npz", sp.csr_array(np.eye(rows)))
    with pytest.raises(ValueError, match="debian_paths: 3 rows in one view, 4 in the other"):
        load_sparse("debian_paths", tmp_path)
