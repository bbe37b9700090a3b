"""NaN and infinity: errors that name the column and the row, and the file if there are several."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..machine.arrays import Array, Matrix

# Function from the number of a row to a text that says where it is.
Place = Callable[[int], str]


class Naming(NamedTuple):
    """Names of the columns and rows of one view, for messages.

    `place` says where a row is if there are several files; `rows` are the numbers of rows if they are a
    selection.
    """

    view_name: str
    names: Array | None = None
    place: Place | None = None
    rows: Array | None = None

    def column(self, column: int) -> str:
        """A column: its position, its name if it has one, and its view."""
        return describe(self.view_name, self.names, column)

    def row(self, row: int) -> str:
        """A row, counted from zero."""
        row = row if self.rows is None else int(self.rows[row])
        return f"row {row}" if self.place is None else self.place(row)


def describe(view_name: str, names: Array | None, column: int) -> str:
    """A column for messages: its position, its name if it has one, and its view."""
    return f"column {column}{'' if names is None else f' ({names[column]!r})'} of {view_name}"


def require_finite(m: Matrix, naming: Naming, offset: int = 0) -> None:
    """Raise an error that names the first column of these rows with a NaN or an infinity.

    The first row of `m` is row `offset` of the view.
    """
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
            f"Input {naming.column(int(columns[first]))} contains {found}, first in "
            f"{naming.row(offset + int(rows[first]))}, counted from 0: drop or impute such values first"
        )
