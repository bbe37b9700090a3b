"""Readers of text: numbers between commas or tabs, and svmlight lines; also gzipped."""

from __future__ import annotations

import csv
import gzip
import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TextIO

import numpy as np

from ...machine.arrays import Array, Matrix
from ...machine.memory import physical_memory
from .spool import SparseSpool, Spool

# How missing values are written: a first line with these and numbers is a row, not a header.
MISSING = {"na", "n/a", "nan", "null", "none", "-"}
# Cells, and bytes of svmlight lines, that are parsed at a time.
CELLS, LINES_BYTES = 2**20, 2**24
# Columns that may be chosen from an svmlight file, even if it has fewer.
SVM_COLUMNS = 10**7
# Bytes of memory per column in the smallest models.
THIN_BYTES = 8 * 20
# Function from the number of columns and their names, if any, to the positions chosen; None for all.
Choose = Callable[[int, Array | None], Array | None]


def read_text(path: str, choose: Choose) -> tuple[Matrix, Array | None]:
    """Numbers separated by commas or tabs, with or without a line of column names."""
    delimiter = "\t" if path.lower().endswith((".tsv", ".tsv.gz")) else ","
    with open_text(path) as file:
        lines = csv.reader(file, delimiter=delimiter)
        first, second = next(lines, []), next(lines, [])
        header_lines = lines.line_num if not second else lines.line_num - 1
    if not first:
        raise ValueError("its first line is empty; expected column names or numbers")
    header = _is_header(first, second, path)
    names = np.array([cell.strip() for cell in first], dtype=object) if header else None
    index = choose(len(first), names)
    if index is None and names is not None and names[0] == "" and len(names) > 1:
        warnings.warn(f"{path}: the first column has no name: taken as row labels and left out", stacklevel=4)
        index = np.arange(1, len(first))
    used, spool, done = None if index is None else index.tolist(), Spool(), 0
    rows = max(1, CELLS // len(first))
    with open_text(path) as file, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "loadtxt: input contained no data", UserWarning)
        for _ in islice(file, header_lines if header else 0):
            pass
        lines_read = header_lines if header else 0
        body = _even_lines(file, delimiter, len(first), lines_read)
        while True:
            chunk = list(islice(body, rows))
            if not chunk:
                break
            try:
                part = np.loadtxt(
                    chunk, delimiter=delimiter, usecols=used, quotechar='"', ndmin=2, comments=None
                )
            except ValueError as error:
                raise ValueError(_explained(str(error), names, first, done)) from error
            if part.size:
                spool.append(part)
                done += len(part)
    if not done:
        return np.empty((0, len(first))), names
    matrix = spool.array()
    if names is not None and matrix.shape[1] != (len(names) if index is None else len(index)):
        raise ValueError(f"{len(names)} column names for {matrix.shape[1]} columns")
    return matrix, names if names is None or index is None else names[index]


def read_svm(paths: list[str], choose: Choose) -> tuple[Matrix, None]:
    """Lines `label index:value ...` of one file or several; columns are numbered as in the files."""
    spool = SparseSpool()
    for path in paths:
        number = 0
        with open_bytes(path) as file:
            while lines := file.readlines(LINES_BYTES):
                blank = next((i for i, line in enumerate(lines, number + 1) if not line.strip()), None)
                if blank is not None and (any(map(bytes.strip, lines[blank - number :])) or file.read(1)):
                    raise ValueError(
                        f"line {blank} of {path} is empty: rows that follow would be paired with others"
                    )
                spool.append(_parsed(path, lines, number))
                number += len(lines)
    # Zeros are not written: a column that this file does not have may exist in another.
    index = choose(max(spool.columns, SVM_COLUMNS), None)
    memory = physical_memory()
    if index is None and memory is not None and spool.columns * THIN_BYTES > memory:
        raise ValueError(f"there are {spool.columns} columns: is an index wrong? choose some by '::columns='")
    m = spool.matrix(spool.columns if index is None else max(spool.columns, int(index.max()) + 1))
    if index is None:
        return m, None
    chosen, rows = SparseSpool(), max(1, CELLS // max(1, m.nnz // m.shape[0]))
    for start in range(0, m.shape[0], rows):
        chosen.append(m[start : start + rows][:, index])
    return chosen.matrix(len(index)), None


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


def _even_lines(lines: Iterable[str], delimiter: str, cells: int, before: int) -> Iterator[str]:
    """Yield lines, checking that each has as many cells as the first, since numpy does not check all."""
    blank = 0
    for number, line in enumerate(lines, before + 1):
        if line.strip() in ("", '""'):
            blank = blank or number
            continue
        if blank:
            raise ValueError(f"line {blank} is empty: rows that follow would be paired with other rows")
        if '"' not in line and line.count(delimiter) + 1 != cells:
            raise ValueError(
                f"line {number} has {line.count(delimiter) + 1} cells, the first line has {cells}"
            )
        yield line


def _is_header(first: list[str], second: list[str], path: str) -> bool:
    """True if the first line holds names: not all numbers, or the column numbers 0, 1, 2 ..."""
    cells = [cell.strip() for cell in first]
    if any(cell and not _is_number(cell) and cell.lower() not in MISSING for cell in cells):
        return True
    named = cells[1:] if cells[:1] == [""] else cells
    if len(named) > 1 and named == [str(j) for j in range(len(named))]:
        return True
    fractions = any(_is_number(cell) and not cell.strip().lstrip("+-").isdigit() for cell in second)
    if fractions and len(set(first)) == len(first) > 1 and all(cell.strip().isdigit() for cell in first):
        warnings.warn(
            f"{path}: the first line holds whole numbers only and was read as data; if these are column "
            "names, put a letter in front of them",
            stacklevel=5,
        )
    return False


def _explained(message: str, names: Array | None, first: list[str], rows: int) -> str:
    """numpy's message about a cell, with row and column counted from zero; `rows` were read before."""
    found = re.search(r"could not convert string (.*) to float64 at row (\d+), column (\d+)", message)
    if found is None:
        return message.split(";")[0]
    cell, row, column = found[1], rows + int(found[2]), int(found[3]) - 1
    if len(first) == 1 and ";" in first[0]:
        return "cells are separated by semicolons; expected commas (.csv) or tabs (.tsv)"
    name = "" if names is None or column >= len(names) else f" ({names[column]!r})"
    return (
        f"{cell} in row {row}, column {column}{name} is not a number: fill missing values, and leave text "
        "columns out by choosing the others, as in '::columns=1-5' or '::columns=age,height'"
    )


def open_text(path: str) -> TextIO:
    """A text file, unzipped on the way if its name ends in .gz."""
    opener: Any = gzip.open if path.endswith(".gz") else open
    file: TextIO = opener(path, "rt", encoding="utf-8-sig")
    return file


def open_bytes(path: str) -> Any:
    """A file of bytes, unzipped on the way if its name ends in .gz."""
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
