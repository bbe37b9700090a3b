"""Rows times thin matrices, and transposed rows times scores: the parts of every product with the data."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from ..machine.arrays import Array, Matrix

try:
    # scipy's own kernels add to an array instead of making a new one of p x k for each tile. They are not
    # public: if they are missing, or give other results, the public product is used.
    from scipy.sparse._sparsetools import csc_matvecs, csr_matvecs
except ImportError:  # pragma: no cover
    csc_matvecs = csr_matvecs = None

# Rows that stay in the cache from one operation to the next: measured best of 512 to 16384 at 40 to 800
# columns (20 + 20 dense ones: half the time of blocks as a whole; 300 + 300: the same).
TILE_ROWS = 2048
# Bytes of the scores of a tile of sparse rows: these, not the entries, must stay in the cache. Measured best
# of tiles of 1024 to 32768 rows at 5, 25 and 100 columns in both precisions (5 columns: a tenth to a fifth
# less time than by 2048 rows).
SCORE_BYTES = 800 * 2**10


def tiles(n: int, rows: int) -> list[slice]:
    """Ranges of at most so many rows that cover the n rows of a block."""
    return [slice(start, min(start + rows, n)) for start in range(0, n, rows)]


def tile_rows(x: Matrix, y: Matrix, score_bytes: int) -> int:
    """Rows of a tile of a block of both views, where the scores of a row take so many bytes."""
    return max(1, SCORE_BYTES // max(score_bytes, 1)) if sp.issparse(x) and sp.issparse(y) else TILE_ROWS


def add_scores(x: Matrix, rows: slice, A: Array, out: Array) -> None:
    """out += x[rows] @ A."""
    if sp.issparse(x):
        _add_scores(x, rows, A, out)
    else:
        out += x[rows] @ A


def add_gathered(x: Matrix, rows: slice, U: Array, out: Array) -> None:
    """out += x[rows].T @ U."""
    if sp.issparse(x):
        _add_gathered(x, rows, U, out)
    else:
        out += x[rows].T @ U


def _public_scores(x: Matrix, rows: slice, A: Array, out: Array) -> None:
    out += x[rows] @ A


def _public_gathered(x: Matrix, rows: slice, U: Array, out: Array) -> None:
    out += x[rows].T @ U


def _kernel_scores(x: Matrix, rows: slice, A: Array, out: Array) -> None:
    # Rows are a range of indptr; indices and data are those of the whole block. `out` must be
    # contiguous: otherwise reshape makes a copy, and the sums are lost.
    assert out.flags.c_contiguous
    indptr = x.indptr[rows.start : rows.stop + 1]
    csr_matvecs(len(out), x.shape[1], A.shape[1], indptr, x.indices, x.data, A.reshape(-1), out.reshape(-1))


def _kernel_gathered(x: Matrix, rows: slice, U: Array, out: Array) -> None:
    # The rows of a CSR matrix are the columns of its transpose in CSC.
    assert out.flags.c_contiguous
    indptr = x.indptr[rows.start : rows.stop + 1]
    csc_matvecs(x.shape[1], len(U), U.shape[1], indptr, x.indices, x.data, U.reshape(-1), out.reshape(-1))


def _kernels_work() -> bool:
    """True if the kernels give the same as the public products on an example."""
    if csr_matvecs is None:
        return False
    rows, right = slice(1, 4), True
    for dtype, index in ((np.float32, np.int32), (np.float64, np.int32), (np.float64, np.int64)):
        x = sp.csr_array(np.array([[0, 1, 2], [3, 0, 0], [0, 0, 4], [5, 6, 0]], dtype=dtype))
        x.indices, x.indptr = x.indices.astype(index), x.indptr.astype(index)
        A = np.arange(6, dtype=dtype).reshape(3, 2)
        out, gathered = np.ones((3, 2), dtype), np.ones((3, 2), dtype)
        try:
            _kernel_scores(x, rows, A, out)
            _kernel_gathered(x, rows, A, gathered)
        except (TypeError, ValueError):
            return False
        d = x.toarray()[rows]
        right = right and np.array_equal(out, 1 + d @ A) and np.array_equal(gathered, 1 + d.T @ A)
    return right


_Adder = Callable[[Matrix, slice, Array, Array], None]
_add_scores: _Adder = _public_scores
_add_gathered: _Adder = _public_gathered
if _kernels_work():
    _add_scores, _add_gathered = _kernel_scores, _kernel_gathered
