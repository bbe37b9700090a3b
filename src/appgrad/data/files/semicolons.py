"""Files whose cells are separated by semicolons, as spreadsheets and R write them where 0,5 is a half."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

# Cells in quotes, numbers with a decimal comma, and text without commas.
CELL = re.compile(r'"[^"]*"|[-+]?\d*,\d+([eE][-+]?\d+)?|[^",]*')
DECIMAL = re.compile(r"(^|;)[-+]?\d*,\d")
# Lines below the first that are looked at.
BELOW = 20


def require_no_semicolons(lines: Iterable[str], delimiter: str) -> None:
    """Raise if the cells of a file are separated by semicolons, as far as its first two lines say."""
    lines = iter(lines)
    first, second = (next(lines, "").rstrip("\r\n") for _ in range(2))
    a, b = _cells(first, delimiter), _cells(second, delimiter)
    # The header of R's write.table has one cell less than the rows.
    if a < 2 or b not in (a, a + 1):
        return
    if any(map(DECIMAL.search, (first, second, *islice(lines, BELOW)))):
        raise ValueError(
            "cells are separated by semicolons and numbers have decimal commas, as R's write.csv2 writes; "
            "expected commas (.csv) or tabs (.tsv) between cells, and decimal points, as write.csv does"
        )
    raise ValueError("cells are separated by semicolons; expected commas (.csv) or tabs (.tsv)")


def _cells(line: str, delimiter: str) -> int:
    """The number of cells between semicolons; 0 if other separators divide the line."""
    if ";" not in line or (delimiter == "\t" and delimiter in line):
        return 0
    cells = [cell.strip() for cell in line.split(";")]
    return len(cells) if all(map(CELL.fullmatch, cells)) else 0
