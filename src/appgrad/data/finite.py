"""NaN and infinity: errors that name the column and the row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from ..machine.arrays import Array, Matrix


def describe(view_name: str, names: Array | None, column: int) -> str:
    """A column for messages: its position, its name if it has one, and its view."""
    return f"column {column}{'' if names is None else f' ({names[column]!r})'} of {view_name}"


def require_finite(m: Matrix, describe: Callable[[int], str], offset: int = 0) -> None:
    """Raise an error that names the first column of these rows with a NaN or an infinity."""
    if sp.issparse(m):
        bad = np.flatnonzero(~np.isfinite(m.data))
        rows, columns = np.searchsorted(m.indptr, bad, side="right") - 1, m.indices[bad]
        values = m.data[bad]
    else:
        rows, columns = np.nonzero(~np.isfinite(m))
        values = m[rows, columns]
    if len(columns):
        first = np.lexsort((rows, columns))[0]
        found = "NaN" if np.isnan(values[first]) else "infinity"
        raise ValueError(
            f"Input {describe(int(columns[first]))} contains {found}, first in row "
            f"{offset + int(rows[first])}: drop or impute such values first"
        )
