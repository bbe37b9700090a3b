"""Canonical correlation analysis that is correct, honest and fast, on dense and sparse data."""

from . import datasets, plots
from .choose import plan
from .estimators import CCA
from .kernel_cca import KernelCCA
from .metrics import correlations, pcc, subspace_distance, tcc
from .models import load
from .remarks import OverfitWarning
from .sources import open_views
from .sparse_cca import SparseCCA
from .sparse_paths import SparseCCACV, sparse_path
from .version import __version__

__all__ = [
    "CCA",
    "KernelCCA",
    "OverfitWarning",
    "SparseCCA",
    "SparseCCACV",
    "__version__",
    "correlations",
    "datasets",
    "load",
    "open_views",
    "pcc",
    "plan",
    "plots",
    "sparse_path",
    "subspace_distance",
    "tcc",
]
