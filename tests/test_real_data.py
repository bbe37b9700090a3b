"""The same on real data: image halves, video features and labels, sparse word counts."""

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import CCA, correlations
from appgrad.files import read_table
from naive import cca, dense

pytestmark = pytest.mark.realdata


def test_mnist_halves(data_folder):
    """Constant and collinear pixels, integers: both solvers, from uint8 and from doubles."""
    with np.load(data_folder / "mnist" / "mnist.npz") as archive:
        images = archive["X_train"][:20000]
    X, Y = (half.reshape(len(images), -1) for half in (images[:, :, :14], images[:, :, 14:]))
    model = CCA(20).fit(X, Y)
    assert model.solver_ == "exact"
    expected = CCA(20, solver="qr").fit(X.astype(float), Y.astype(float)).canonical_correlations_
    np.testing.assert_allclose(model.canonical_correlations_, expected, atol=1e-8)
    np.testing.assert_allclose(model.canonical_correlations_, cca(X, Y, 20)[0], atol=1e-7)
    U, V = model.transform(X, Y)
    np.testing.assert_allclose(correlations(U, V), model.canonical_correlations_, atol=1e-7)


def test_mediamill(data_folder):
    """float32 features against uint8 labels, one of them constant."""
    with np.load(data_folder / "mediamill" / "mediamill.npz") as archive:
        X, Y, X_test, Y_test = (archive[f"{v}_{s}"] for s in ("train", "test") for v in "XY")
    model = CCA(20).fit(X, Y)
    np.testing.assert_allclose(model.canonical_correlations_, cca(X, Y, 20)[0], atol=1e-6)
    held_out = correlations(*model.transform(X_test, Y_test))
    assert np.all(held_out <= model.canonical_correlations_ + 0.05)
    assert held_out[0] > 0.6


def test_sparse_columns(data_folder):
    """The three hundred most frequent columns a side of 169,024 sparse binary rows."""
    folder = data_folder / "malicious_urls"
    X, Y = (read_table(f"{folder / name}.npz::columns=0-299").matrix for name in ("X_host", "X_path"))
    assert sp.issparse(X)
    model = CCA(10).fit(X, Y)
    np.testing.assert_allclose(model.canonical_correlations_, cca(dense(X), dense(Y), 10)[0], atol=1e-7)
