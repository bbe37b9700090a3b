"""Canonical correlation analysis that is correct, honest and fast, on dense and sparse data."""

from . import datasets, plots
from .data.sources import open_views
from .estimators.cca import CCA
from .estimators.kernel import KernelCCA
from .estimators.model_file import load
from .estimators.sparse import SparseCCA
from .estimators.sparse_path import SparseCCACV, sparse_path
from .fitting.plan import plan
from .fitting.warnings import OverfitWarning
from .metrics import correlations, pcc, subspace_distance, tcc
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
