"""The real data sets as views, from the folder named by APPGRAD_DATA."""

from __future__ import annotations

import os
from pathlib import Path

import scipy.sparse as sp

from appgrad.data.arrays import ArrayViews
from appgrad.datasets.loaders import load_mediamill, load_mnist, load_ptb


def folder() -> Path:
    """The folder of the data sets."""
    if "APPGRAD_DATA" not in os.environ:
        raise SystemExit("set APPGRAD_DATA to the folder of the data sets")
    return Path(os.environ["APPGRAD_DATA"])


def mnist():
    """Left and right halves of the digits, pixels in [0, 1]."""
    return load_mnist(folder())[:2]


def mediamill():
    """Features of video frames and their labels."""
    return load_mediamill(folder())[:2]


def ptb():
    """A word against the bag of the two words on either side: indicators and counts."""
    return load_ptb(folder(), "around")[:2]


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
