"""How far to trust a solution: tests, the noise level, effective rows, held-out rows.

Estimators give all of it for their fits (`model.test()`, `noise_level_`, `effective_rows_`). These are the
functions of numbers behind it.

>>> from appgrad import inference
>>> round(inference.largest_limit(0.05, 20, 3, 3), 4)  # 20 rows, 3 + 3 columns
0.7575
"""

from __future__ import annotations

from importlib import import_module

# True for type checkers. Importing `typing` would take longer than the rest of this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .distributions import debiased, edge, largest_limit, largest_tail
    from .multivariate_tests import multivariate, step_down
    from .results import CanonicalTest

__all__ = [
    "CanonicalTest",
    "debiased",
    "edge",
    "largest_limit",
    "largest_tail",
    "multivariate",
    "step_down",
]

# The module of each public name, imported on first use.
_HOMES = {
    "CanonicalTest": "results",
    "debiased": "distributions",
    "edge": "distributions",
    "largest_limit": "distributions",
    "largest_tail": "distributions",
    "multivariate": "multivariate_tests",
    "step_down": "multivariate_tests",
}


def __getattr__(name: str) -> object:
    """A public name, imported from its module."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
