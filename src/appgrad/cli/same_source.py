"""Columns that both views of a fit are made of: their correlations are 1 and say nothing."""

from __future__ import annotations

import os

import numpy as np

from ..data.files.listing import source_files
from ..data.files.selection import Selection
from ..data.views import Views

# Columns assumed of a file whose number is not known here.
MANY = 10**7
# Names in a warning.
SHOWN = 5


def shared_columns(x: str, y: str, views: Views) -> list[str]:
    """Return a warning if two sources have columns of the same file in common."""
    asked_x, asked_y = Selection.of(x), Selection.of(y)
    files = [[os.path.realpath(file) for file in source_files(source)] for source in (x, y)]
    if not files[0] or files[0] != files[1] or asked_x.key != asked_y.key:
        return []
    if asked_x.columns == asked_y.columns:
        return [f"x and y are the same columns of {x}: their correlations are 1, and say nothing"]
    common = _common(asked_x, asked_y, views)
    if not common:
        return []
    more = " ..." if len(common) > SHOWN else ""
    which = ", ".join(common[:SHOWN]) + more
    return [f"x and y have columns of {x} in common ({which}): correlations of 1 come from these"]


def _common(x: Selection, y: Selection, views: Views) -> list[str]:
    """Names of the columns that two selections from one file have in common, or their positions."""
    names = views.names
    if names[0] is not None and names[1] is not None:
        return [str(name) for name in names[0] if name in set(names[1])]
    try:
        first, second = (
            set(np.arange(p) if asked.columns is None else np.asarray(asked.positions(MANY)))
            for asked, p in ((x, views.n_features_x), (y, views.n_features_y))
        )
    except ValueError:
        return []
    return [str(position) for position in sorted(first & second)]
