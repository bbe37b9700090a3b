"""Problems with a known answer, and the data sets of the paper."""

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
