"""Tables as text: numbers between commas or tabs, also gzipped."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple, TextIO

import numpy as np

from ...machine.arrays import Array
from .headers import LOOKED_AT, Head, head_of, is_missing, is_text
from .notes import Note, noted
from .selection import Selection
from .spool import Spool

# Cells that are parsed at a time.
CELLS = 2**20
# Records with the numbers of the lines they begin in.
Records = Iterator[tuple[int, list[str]]]


class Start(NamedTuple):
    """The first record of a text file, some below it and those that follow; and what was decided."""

    first: list[str]
    below: list[tuple[int, list[str]]]
    rest: Records
    head: Head

    @property
    def names(self) -> Array | None:
        """Names of the columns, if the first line holds them."""
        return np.array([cell.strip() for cell in self.first], dtype=object) if self.head.header else None

    @property
    def labels(self) -> int:
        """Number of cells of a row before its first column."""
        return int(self.head.row_names)

    def rows(self) -> Iterator[list[str]]:
        """All rows; an error names the first line with another number of cells."""
        line, cells = "the first line", len(self.first)
        if self.head.row_names:
            line, cells = f"line {self.below[0][0]}", cells + 1
        first = [] if self.head.header else [(1, self.first)]
        for number, record in chain(first, self.below, self.rest):
            if len(record) != cells:
                shorter = number == self.below[0][0] and len(record) == cells + 1
                hint = "; if the first line holds column names, add '::header=yes'" if shorter else ""
                raise ValueError(f"line {number} has {len(record)} cells, {line} has {cells}{hint}")
            yield record

    def numeric(self) -> Array:
        """Which columns hold numbers, as far as the first rows say; row labels do not."""
        rows = [record for _, record in self.below] + ([] if self.head.header else [self.first])
        found = np.zeros(len(self.first), bool)
        for j in range(int(self.head.unnamed), len(self.first)):
            column = [row[j + self.labels] for row in rows if len(row) > j + self.labels]
            found[j] = not any(map(is_text, column)) and not all(map(is_missing, column))
        return found


def read_text(path: str, asked: Selection) -> tuple[Array, Array | None, Note]:
    """Numbers separated by commas or tabs, with or without a line of column names."""
    with open_text(path) as file:
        start = started(path, file, asked)
        first, names, head = start.first, start.names, start.head
        index = asked.positions(len(first), names, start.numeric)
        left_out = index is None and head.unnamed
        if left_out:
            index = np.arange(1, len(first))
        used = np.arange(len(first)) if index is None else index
        note = Note(f"{path}: {head.said(left_out)}", head.sure and not head.row_names and not left_out)
        spool, rows, done = Spool(), start.rows(), 0
        with noted([note.text]):
            while chunk := list(islice(rows, max(1, CELLS // len(first)))):
                spool.append(_parsed(chunk, used.tolist(), start, done))
                done += len(chunk)
    matrix = spool.array() if done else np.empty((0, len(used)))
    return matrix, None if names is None else names[used], note


def started(path: str, file: TextIO, asked: Selection) -> Start:
    """The first record and some below it, and what was decided about the first."""
    records = _records(file, "\t" if path.lower().endswith((".tsv", ".tsv.gz")) else ",")
    _, first = next(records, (1, []))
    if not first:
        raise ValueError("its first line is empty; expected column names or numbers")
    below = list(islice(records, max(2, min(LOOKED_AT, CELLS // len(first)))))
    with open_text(path) as again:
        lines = list(islice(again, below[1][0] - 1 if len(below) > 1 else None))
    end = below[0][0] - 1 if below else len(lines)
    quoted = _in_quotes(lines[:end]) and not _in_quotes(lines[end:])
    rows = [record for _, record in below]
    return Start(first, below, records, head_of(first, rows, quoted, asked.header, asked.wanted))


def _records(lines: TextIO, delimiter: str) -> Records:
    """Records, which may span lines; an empty line between them is an error, because it would shift rows."""
    reader, line, blank = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True), 1, 0
    try:
        for record in reader:
            if len(record) > 1 or (record and record[0].strip()):
                if blank:
                    raise ValueError(
                        f"line {blank} is empty: rows that follow would be paired with other rows"
                        if blank > 1
                        else "its first line is empty; expected column names or numbers"
                    )
                yield line, record
            else:
                blank = blank or line
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"the record that begins in line {line} is broken ({error}): check its quotes"
        ) from error


def _in_quotes(lines: list[str]) -> bool:
    """True if all cells of a record are in quotes."""
    if not lines or '"' not in lines[0]:
        return False
    try:
        # Reads cells without quotes as numbers, and refuses other text without quotes.
        (cells,) = csv.reader(
            lines, quoting=csv.QUOTE_NONNUMERIC, delimiter="\t" if "\t" in lines[0] else ","
        )
    except (ValueError, csv.Error):
        return False
    return all(isinstance(cell, str) for cell in cells)


def _parsed(rows: list[list[str]], used: list[int], start: Start, done: int) -> Array:
    """The numbers in some columns of rows; `done` were parsed before."""
    columns = [j + start.labels for j in used]
    if columns != list(range(len(rows[0]))):
        pick: Any = itemgetter(*columns) if len(columns) > 1 else (lambda row: (row[columns[0]],))
        rows = list(map(pick, rows))
    try:
        # Python reads 1_000 as a number; other programs do not.
        if any("_" in "".join(row) for row in rows):
            raise ValueError
        numbers = map(float, chain.from_iterable(rows))
        return np.fromiter(numbers, np.float64, len(rows) * len(columns)).reshape(len(rows), -1)
    except ValueError:
        places = ((i, j) for i, row in enumerate(rows) for j in range(len(row)) if not _is_float(row[j]))
        i, j = next(places)
        raise ValueError(_explained(rows[i][j], done + i, used[j], start)) from None


def _is_float(cell: str) -> bool:
    return not is_text(cell) and (not is_missing(cell) or cell.strip().lower() == "nan")


def _explained(cell: str, row: int, column: int, start: Start) -> str:
    """A message about a cell that holds no number, with row and column counted from zero."""
    if len(start.first) == 1 and ";" in start.first[0]:
        return "cells are separated by semicolons; expected commas (.csv) or tabs (.tsv)"
    name = "" if start.names is None else f" ({start.names[column]!r})"
    return (
        f"{cell!r} in row {row}, column {column}{name} is not a number: fill missing values, and leave text "
        "columns out by choosing the others, as in '::columns=1-5', '::columns=age,height' or "
        "'::columns=numeric'"
    )


def open_text(path: str) -> TextIO:
    """A text file, unzipped on the way if its name ends in .gz."""
    opener: Any = gzip.open if path.endswith(".gz") else open
    file: TextIO = opener(path, "rt", encoding="utf-8-sig")
    return file


def open_bytes(path: str) -> Any:
    """A file of bytes, unzipped on the way if its name ends in .gz."""
    return gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb")
