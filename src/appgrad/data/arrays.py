"""Views on two matrices in memory or memory-mapped."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..machine.arrays import Array, Matrix
from ..machine.threads import blas_threads
from .blocks import block_count, least_entries
from .finite import Place
from .views import BaseViews, Block, Part, Titles, Views

# A sparse row takes as long as so many of its entries: its scores are set, copied and summed. With 1, passes
# over the URLs took a tenth longer (docs/decisions/0001).
ROW_COST = 4


class ArrayViews(BaseViews):
    """Views on two matrices in memory or memory-mapped: ndarray, memmap or CSR, each of any number type.

    Blocks are cut from the matrices as they stand; only a block is ever converted to floats.
    `rows` restricts the views to a selection without copying it.
    """

    def __init__(
        self,
        x: Matrix,
        y: Matrix,
        *,
        rows: Array | None = None,
        names: tuple[Array | None, Array | None] = (None, None),
        view_names: tuple[str, str] = ("X", "y"),
        threads: int | None = None,
        places: tuple[Place | None, Place | None] = (None, None),
    ) -> None:
        if x.shape[0] != y.shape[0]:
            raise ValueError(
                f"{view_names[1]} has {y.shape[0]} rows, {view_names[0]} has {x.shape[0]}: "
                "rows must be paired; drop or align the unmatched ones"
            )
        self.x, self.y, self.rows, self.names, self.view_names = x, y, rows, names, view_names
        self.places = places
        self.n_samples = x.shape[0] if rows is None else len(rows)
        self.widths = x.shape[1], y.shape[1]
        self.dtype = np.dtype(np.float32 if _is_single(x) and _is_single(y) else np.float64)
        self.sparse = sp.issparse(x) and sp.issparse(y)
        self.threads = blas_threads() if threads is None else threads
        self.block_rows = self._block_rows()

    @property
    def entries(self) -> float:
        """Stored entries of a row of both views, on average."""
        return float(
            sum(m.nnz / max(m.shape[0], 1) if sp.issparse(m) else m.shape[1] for m in (self.x, self.y))
        )

    @property
    def titles(self) -> Titles:
        """Names of views, columns and rows."""
        return super().titles._replace(rows=self.rows)

    def _block_rows(self) -> int:
        row_bytes, row_entries = 0.0, 0.0
        for m in (self.x, self.y):
            if sp.issparse(m):
                entries = m.nnz / max(m.shape[0], 1)
                row_entries += entries
                # Only values are copied; column indices are those of the matrix.
                row_bytes += (entries + 1) * self.dtype.itemsize
            else:
                row_bytes += m.shape[1] * self.dtype.itemsize
        n = max(self.n_samples, 1)
        count = block_count(n, row_bytes)
        if self.sparse:
            # A block's partial sums are dense, O(k p): it has about as many values, even if that is more than
            # BLOCK_BYTES. Threads come in twos and fours, and none should wait for another's last block.
            few = int(n * row_entries / least_entries(sum(self.widths)))
            few = min(few, 2) if few < 4 else few // 4 * 4
            count = max(1, min(few, 4 * -(-count // 4)))
        return -(-n // count)

    def blocks(self, dtype: Any = None) -> Iterator[Block]:
        """Every row once, in order."""
        return (part.block() for part in self.parts(dtype))

    def parts(self, dtype: Any = None) -> Generator[Part, None, None]:
        """Parts whose blocks are cut and converted on demand."""
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        for start, stop in pairwise(self._bounds()):
            yield Part(stop - start, partial(self._block, start, stop, dtype))

    def _bounds(self) -> list[int]:
        """Where blocks begin, and the end of the rows; sparse blocks cost as much each.

        Each thread then has as much to do, also where rows at one end are longer.
        """
        n = self.n_samples
        count = -(-n // self.block_rows)
        if not self.sparse or count <= 1:
            return [*range(0, n, self.block_rows), n]
        x, y = self.x.indptr, self.y.indptr
        cost_before: Callable[[int], int] = partial(_cost_before, x, y)
        if self.rows is not None:
            sizes = np.diff(x)[self.rows] + np.diff(y)[self.rows] + ROW_COST
            cost_before = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)]).item
        costs = (i * cost_before(n) // count for i in range(count + 1))
        return sorted({bisect_left(range(n + 1), cost, key=cost_before) for cost in costs})

    def _block(self, start: int, stop: int, dtype: np.dtype[Any]) -> Block:
        index: Any = slice(start, stop) if self.rows is None else self.rows[start:stop]
        return Block(start, (_cut(self.x, index, dtype), _cut(self.y, index, dtype)))

    def take(self, rows: Array) -> ArrayViews:
        """The views restricted to these rows, not copied."""
        selected = rows if self.rows is None else self.rows[rows]
        return type(self)(self.x, self.y, rows=selected, **self._about())

    def _about(self) -> dict[str, Any]:
        """Arguments shared with views on other rows of the same matrices."""
        return {
            "names": self.names,
            "view_names": self.view_names,
            "threads": self.threads,
            "places": self.places,
        }


def _cost_before(x: Array, y: Array, row: int) -> int:
    """The cost of the rows before this one, from index pointers: their entries, and that of each row."""
    return int(x[row]) + int(y[row]) + ROW_COST * row


def _cut(m: Matrix, index: Any, dtype: np.dtype[Any]) -> Matrix:
    """Rows of a matrix in a given precision; consecutive sparse rows share its column indices."""
    if isinstance(index, slice) and sp.issparse(m):
        start, stop = m.indptr[index.start], m.indptr[index.stop]
        cut = sp.csr_array((index.stop - index.start, m.shape[1]), dtype=dtype)
        # Assigned one by one: the constructor would copy slices of larger arrays.
        cut.indptr = (m.indptr[index.start : index.stop + 1] - start).astype(m.indices.dtype, copy=False)
        cut.indices, cut.data = m.indices[start:stop], m.data[start:stop].astype(dtype, copy=False)
        return cut
    return m[index].astype(dtype, copy=False)


def gathered(views: Views, *more: Views) -> ArrayViews:
    """The rows of one or several views in memory, each read once, as for a minibatch."""
    blocks = [block for part in (views, *more) for block in part.blocks()]
    x, y = map(stacked, zip(*(block.views for block in blocks), strict=True))
    return ArrayViews(x, y, names=views.names, view_names=views.view_names, threads=views.threads)


def stacked(parts: Sequence[Matrix]) -> Matrix:
    """Matrices one below the other; sparse if any of them is."""
    if len(parts) == 1:
        return parts[0]
    if any(sp.issparse(part) for part in parts):
        return sp.vstack([sp.csr_array(part) for part in parts], format="csr")
    return np.concatenate(parts)


def _is_single(m: Matrix) -> bool:
    return bool(m.dtype.kind == "f" and m.dtype.itemsize <= 4)
