"""Memory: the budget of a fit, and what the machine has."""

from __future__ import annotations

import os

from sklearn import get_config


def budget() -> int:
    """Bytes a solver may take beyond the data and a few thin matrices: scikit-learn's `working_memory`."""
    return int(get_config()["working_memory"] * 2**20)


def physical_memory() -> int | None:
    """Bytes of memory of this machine, or None if the system does not report it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
