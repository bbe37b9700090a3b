"""The real data sets as views, from the folder named by APPGRAD_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from appgrad.views import ArrayViews


def folder() -> Path:
    """The folder of the data sets."""
    if "APPGRAD_DATA" not in os.environ:
        raise SystemExit("set APPGRAD_DATA to the folder of the data sets")
    return Path(os.environ["APPGRAD_DATA"])


def mnist():
    """Left and right halves of the digits, pixels in [0, 1]."""
    with np.load(folder() / "mnist" / "mnist.npz") as archive:
        images = archive["X_train"]
    return tuple(half.reshape(len(images), -1) / 255 for half in (images[:, :, :14], images[:, :, 14:]))


def mediamill():
    """Features of video frames and their labels."""
    with np.load(folder() / "mediamill" / "mediamill.npz") as archive:
        return archive["X_train"].astype(float), archive["Y_train"].astype(float)


def ptb():
    """A word against the bag of the two words on either side: indicators and counts."""
    with np.load(folder() / "ptb" / "ptb_ids.npz") as archive:
        ids = archive["train"].astype(np.int64)
    middle = np.arange(2, len(ids) - 2)
    around = np.stack([ids[middle + d] for d in (-2, -1, 1, 2)], axis=1)
    rows = np.repeat(np.arange(len(middle)), 4)
    shape = (len(middle), 10000)
    X = sp.csr_array((np.ones(len(middle)), (np.arange(len(middle)), ids[middle])), shape=shape)
    Y = sp.csr_array((np.ones(4 * len(middle)), (rows, around.ravel())), shape=shape)
    return X, Y


def sparse(directory: str, x: str, y: str):
    """Two sparse matrices of counts or indicators, as they are stored."""
    return tuple(sp.csr_array(sp.load_npz(folder() / directory / f"{name}.npz")) for name in (x, y))


DATA = {
    "mnist": mnist,
    "mediamill": mediamill,
    "ptb": ptb,
    "debian_paths": lambda: sparse("debian_paths", "X_dir", "X_file"),
    "bilingual_en_it": lambda: sparse("bilingual_en_it", "X_en", "X_it"),
    "malicious_urls": lambda: sparse("malicious_urls", "X_host", "X_path"),
}


def views_of(name: str) -> ArrayViews:
    """One data set as views."""
    return ArrayViews(*DATA[name]())
