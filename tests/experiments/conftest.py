"""Small data sets in the folders that experiments look for, and short runs."""

import sys

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad.datasets import planted
from appgrad.experiments import bilingual, curves, mnist


@pytest.fixture(scope="session")
def data_sets(tmp_path_factory):
    """Small stand-ins for all data sets, in the folders that loaders look for."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    (folder / "mnist").mkdir()
    shapes = rng.random((10, 28, 28))
    labels = np.arange(1500) % 10
    images = (255 * (0.6 * shapes[labels] + 0.4 * rng.random((1500, 28, 28)))).astype(np.uint8)
    np.savez(
        folder / "mnist" / "mnist.npz",
        X_train=images[:1200],
        y_train=labels[:1200],
        X_test=images[1200:],
        y_test=labels[1200:],
    )
    (folder / "mediamill").mkdir()
    p = planted(900, 40, 30, np.linspace(0.9, 0.3, 22), random_state=0)
    np.savez(
        folder / "mediamill" / "mediamill.npz",
        X_train=p.X[:600],
        Y_train=p.y[:600],
        X_test=p.X[600:],
        Y_test=p.y[600:],
    )
    (folder / "ptb").mkdir()
    words = np.minimum(rng.geometric(0.05, 6000), 60).astype(np.uint16) - 1
    np.savez(folder / "ptb" / "ptb_ids.npz", train=words[:5000], test=words[5000:])
    topics = rng.integers(0, 30, 800)
    for place, x, y in (
        ("malicious_urls", "host", "path"),
        ("debian_paths", "dir", "file"),
        ("bilingual_en_it", "en", "it"),
    ):
        (folder / place).mkdir()
        for name in (x, y):
            rows = (rng.random((800, 60)) < 0.05) | (np.arange(60) // 2 == topics[:, None])
            sp.save_npz(folder / place / f"X_{name}.npz", sp.csr_array(rows.astype(np.uint8)))
    return folder


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Fewer points, and rows for the fit of what is there."""
    monkeypatch.setattr(curves, "checkpoints", lambda last, each_decade=8: [1, 3, 10])
    for name in ("mnist", "url"):
        monkeypatch.setattr(f"appgrad.experiments.{name}.checkpoints", lambda last, each_decade=8: [1, 3, 10])
    # The letter's points are looked at beside these, up to a thousand iterations.
    all_points = mnist.curves
    monkeypatch.setattr(
        mnist, "curves", lambda quick: [curve._replace(iterations=[1, 3, 10]) for curve in all_points(quick)]
    )
    monkeypatch.setattr(mnist, "PENALTIES", mnist.PENALTIES[::3])
    monkeypatch.setattr(bilingual, "TRAIN", 600)
    monkeypatch.setattr(bilingual, "CANDIDATES", 100)


# The command, with as few points as the runs of these tests.
PROGRAM = """
import signal
from appgrad.cli.main import main
from appgrad.experiments import curves

curves.checkpoints = lambda last, each_decade=8: [1, 3, 10]
# A process that is started in the background may have been told to ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


@pytest.fixture
def program():
    """The command `appgrad experiment`, in a process of its own."""
    return [sys.executable, "-c", PROGRAM, "experiment"]
