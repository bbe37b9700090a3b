"""Arrays that arrive in pieces: kept in memory while they fit, in a temporary file from then on."""

from __future__ import annotations

import shutil
import tempfile
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...machine.arrays import Array
from ...machine.memory import budget


class Spool:
    """Pieces of an array, one after the other along the first axis.

    Text and compressed files are decoded once. Data that do not fit into the memory budget go to a file of
    plain numbers in the folder for temporary files, which is mapped into memory and vanishes with the array.
    """

    def __init__(self) -> None:
        self.pieces: list[Array] = []
        self.size = 0
        self.file: Any = None
        self.dtype: np.dtype[Any] | None = None
        # A quarter: there may be two views, and work on them needs memory too.
        self.limit = budget() // 4

    def append(self, piece: Array) -> None:
        """Add a piece; the first one sets the number type."""
        if self.dtype is None:
            self.dtype, self.tail = piece.dtype, piece.shape[1:]
        self.pieces.append(np.ascontiguousarray(piece, dtype=self.dtype))
        self.size += piece.nbytes
        if self.size > self.limit:
            self._spill()

    def array(self) -> Array:
        """All pieces as one array, in memory or mapped."""
        if self.file is None:
            return self.pieces[0] if len(self.pieces) == 1 else np.concatenate(self.pieces)
        self._spill()
        self.file.flush()
        mapped: Any = np.memmap(self.file, dtype=self.dtype, mode="r")  # type: ignore[call-overload]
        # The mapping outlives the file's name and this handle.
        self.file.close()
        return np.asanyarray(mapped.reshape(-1, *self.tail))

    def __del__(self) -> None:
        """Close the temporary file, which removes it."""
        if self.file is not None:
            self.file.close()

    def _spill(self) -> None:
        if self.file is None:
            self.file = tempfile.TemporaryFile(prefix="appgrad-")
        need = sum(piece.nbytes for piece in self.pieces)
        folder = tempfile.gettempdir()
        if need > shutil.disk_usage(folder).free:
            raise OSError(
                f"no space left in {folder} for the numbers of a file that does not fit into memory: set "
                "TMPDIR to another folder, or raise scikit-learn's working_memory"
            )
        for piece in self.pieces:
            piece.tofile(self.file)
        self.pieces = []


class SparseSpool:
    """Rows of a sparse matrix that arrive in CSR pieces; later ones may have more columns."""

    def __init__(self) -> None:
        self.data, self.indices, self.indptr = Spool(), Spool(), Spool()
        self.nnz, self.columns, self.rows = 0, 0, 0
        self.indptr.append(np.zeros(1, np.int64))

    def append(self, piece: Any) -> None:
        """Add a piece."""
        self.data.append(piece.data)
        self.indices.append(piece.indices.astype(np.int32, copy=False))
        self.indptr.append(piece.indptr[1:].astype(np.int64) + self.nnz)
        self.nnz += piece.nnz
        self.rows += piece.shape[0]
        self.columns = max(self.columns, piece.shape[1])

    def matrix(self, columns: int | None = None) -> Any:
        """All rows as one CSR matrix."""
        indptr = self.indptr.array()
        m = sp.csr_array((len(indptr) - 1, self.columns if columns is None else columns))
        # Assigned one by one: the constructor would copy mapped arrays.
        m.data, m.indices, m.indptr = self.data.array(), self.indices.array(), indptr
        m.has_sorted_indices = m.has_canonical_format = True
        return m
