"""Simulated problems with known answers, and loaders of the paper's data sets."""

from .loaders import Paired, load_mediamill, load_mnist, load_ptb, load_sparse
from .planted import Planted, planted, sparse_planted
from .url_reputation import load_url_reputation

__all__ = [
    "Paired",
    "Planted",
    "load_mediamill",
    "load_mnist",
    "load_ptb",
    "load_sparse",
    "load_url_reputation",
    "planted",
    "sparse_planted",
]
