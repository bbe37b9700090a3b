"""Canonical correlation analysis that is correct, honest and fast, on dense and sparse data."""

from . import datasets
from .estimators import CCA, OverfitWarning, load
from .files import open_views
from .metrics import correlations, pcc, subspace_distance, tcc

__version__ = "0.1.0"
__all__ = [
    "CCA",
    "OverfitWarning",
    "correlations",
    "datasets",
    "load",
    "open_views",
    "pcc",
    "subspace_distance",
    "tcc",
]
