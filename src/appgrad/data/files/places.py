"""Where a row of a source of many files is: in which file, and in which row of it."""

from __future__ import annotations

from .parquet import pyarrow_parquet
from .text import open_bytes


def place_in_files(paths: tuple[str, ...], kind: str, row: int) -> str:
    """A row of all files as a text that names the file and the row in it; both are counted from zero.

    The files are looked at only here, which is when a message needs them.
    """
    left = row
    for path in paths:
        rows = _rows(path, kind)
        if left < rows:
            return f"row {left} of {path} (row {row} of all files)"
        left -= rows
    return f"row {row}"


def _rows(path: str, kind: str) -> int:
    if kind == ".parquet":
        _, pq = pyarrow_parquet()
        return int(pq.read_metadata(path).num_rows)
    with open_bytes(path) as file:
        # Only svmlight files are several lines of text, and they may hold comments.
        return sum(1 for line in file if line.partition(b"#")[0].strip())
