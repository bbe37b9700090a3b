"""Canonical correlation analysis that is correct, honest and fast, on dense and sparse data."""

from __future__ import annotations

from importlib import import_module

from .version import __version__

# True for type checkers. Importing `typing` would take longer than the rest of this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import baselines as baselines
    from . import datasets, plots
    from . import inference as inference
    from . import metrics as metrics
    from .data.sources import open_views
    from .estimators.cca import CCA
    from .estimators.kernel import KernelCCA
    from .estimators.model_file import load
    from .estimators.sparse import SparseCCA
    from .estimators.sparse_path import SparseCCACV, sparse_path
    from .fitting.plan import plan
    from .fitting.remarks import OverfitWarning
    from .metrics import correlations, pcc, subspace_distance, tcc
    from .reporting.report import report

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
    "report",
    "sparse_path",
    "subspace_distance",
    "tcc",
]

# Modules that are public themselves.
_MODULES = ("baselines", "datasets", "inference", "metrics", "plots")
# The module of each public name, imported on first use: a fit should not wait for what it does not need.
_HOMES = {
    "CCA": "estimators.cca",
    "KernelCCA": "estimators.kernel",
    "OverfitWarning": "fitting.remarks",
    "SparseCCA": "estimators.sparse",
    "SparseCCACV": "estimators.sparse_path",
    "correlations": "metrics",
    "load": "estimators.model_file",
    "open_views": "data.sources",
    "pcc": "metrics",
    "plan": "fitting.plan",
    "report": "reporting.report",
    "sparse_path": "estimators.sparse_path",
    "subspace_distance": "metrics",
    "tcc": "metrics",
}


def __getattr__(name: str) -> object:
    """A public name, imported from its module."""
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # All of them need it, and Python 3.11 takes up to a tenth longer to import it from deeper in the stack.
    import sklearn.base  # noqa: F401

    found = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return found


def __dir__() -> list[str]:
    """Public names, also those not imported yet."""
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__, *_MODULES})
