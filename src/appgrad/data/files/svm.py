"""Lines of svmlight files, `label index:value ...`, also gzipped."""

from __future__ import annotations

import io
from typing import Any

from ...machine.arrays import Matrix
from ...machine.memory import physical_memory
from .selection import Selection
from .spool import SparseSpool
from .text import CELLS, open_bytes

# Bytes of lines that are parsed at a time.
LINES_BYTES = 2**24
# Columns that may be chosen from a file, even if it has fewer.
SVM_COLUMNS = 10**7
# Bytes of memory per column in the smallest models.
THIN_BYTES = 8 * 20


def read_svm(paths: list[str], asked: Selection) -> tuple[Matrix, list[int]]:
    """Lines `label index:value ...` of one file or several, and the number of rows of each.

    Columns are numbered as in the files.
    """
    spool, counts = SparseSpool(), list[int]()
    for path in paths:
        number, before = 0, spool.rows
        with open_bytes(path) as file:
            while lines := file.readlines(LINES_BYTES):
                blank = next((i for i, line in enumerate(lines, number + 1) if not line.strip()), None)
                if blank is not None and (any(map(bytes.strip, lines[blank - number :])) or file.read(1)):
                    raise ValueError(
                        f"line {blank} of {path} is empty: rows that follow would be paired with others"
                    )
                spool.append(_parsed(path, lines, number))
                number += len(lines)
        counts.append(spool.rows - before)
    # Zeros are not written: a column that this file does not have may exist in another.
    index = asked.positions(max(spool.columns, SVM_COLUMNS))
    memory = physical_memory()
    if index is None and memory is not None and spool.columns * THIN_BYTES > memory:
        raise ValueError(f"there are {spool.columns} columns: is an index wrong? choose some by '::columns='")
    m = spool.matrix(spool.columns if index is None else max(spool.columns, int(index.max()) + 1))
    if index is None:
        return m, counts
    chosen, rows = SparseSpool(), max(1, CELLS // max(1, m.nnz // m.shape[0]))
    for start in range(0, m.shape[0], rows):
        chosen.append(m[start : start + rows][:, index])
    return chosen.matrix(len(index)), counts


def _parsed(path: str, lines: list[bytes], number: int) -> Any:
    """Lines as a CSR matrix; an error names the first malformed line."""
    # Slow to import, and only svmlight files need it.
    from sklearn.datasets import load_svmlight_file

    try:
        return load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=True)[0]
    except (ValueError, OverflowError):
        for i, line in enumerate(lines, number + 1):
            try:
                load_svmlight_file(io.BytesIO(line), zero_based=True)
            except (ValueError, OverflowError) as error:
                shown = line.decode("utf-8", "replace").strip()[:60]
                raise ValueError(
                    f"line {i} of {path} is not 'label index:value ...': {shown!r} ({error})"
                ) from error
        raise
