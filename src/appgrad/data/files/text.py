"""Tables as text: numbers between commas or tabs, also gzipped."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from operator import itemgetter
from typing import Any, NamedTuple, TextIO

import numpy as np

from ...machine.arrays import Array
from ..row_labels import Labels, labels_of_file
from .headers import LOOKED_AT, Head, head_of, is_missing, is_text
from .notes import Note, noted
from .second_headers import with_second_line
from .selection import Selection
from .semicolons import require_no_semicolons
from .spool import Spool

# Cells that are parsed at a time.
CELLS = 2**20
# Records with the numbers of the lines they begin in.
Records = Iterator[tuple[int, list[str]]]


class Lines:
    """Lines of a text file, one after the other, or many at a time if they hold nothing but plain cells."""

    def __init__(self, file: TextIO, delimiter: str) -> None:
        self.file, self.delimiter, self.taken = file, delimiter, 0
        self.pending: Iterator[str] = iter(file)

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self.pending)

    def plain(self, count: int, cells: int) -> list[str]:
        """Up to so many lines of so many cells without quotes; none if one of them is different."""
        lines = list(islice(self.pending, count))
        separators = cells - 1
        if all(
            line.count(self.delimiter) == separators and '"' not in line and not line.isspace()
            for line in lines
        ):
            self.taken += len(lines)
            return lines
        self.pending = chain(lines, self.pending)
        return []


class Start(NamedTuple):
    """The first record of a text file, some below it and those that follow; and what was decided."""

    first: list[str]
    below: list[tuple[int, list[str]]]
    rest: Records
    head: Head
    lines: Lines

    @property
    def names(self) -> Array | None:
        """Names of the columns, if the first line holds them."""
        return np.array([cell.strip() for cell in self.first], dtype=object) if self.head.header else None

    @property
    def labels(self) -> int:
        """Number of cells of a row before its first column."""
        return int(self.head.row_names)

    def has_row_labels(self, used: Iterable[int]) -> bool:
        """True if the first cells of rows are labels, and no numbers that are used."""
        return self.head.row_names or (self.head.unnamed > 0 and min(used) >= self.head.unnamed)

    def label(self, row: str | Sequence[str]) -> str:
        """The label of a row, or of a plain line; those of several levels are put together."""
        levels = max(1, self.head.unnamed)
        cells = row.split(self.lines.delimiter, levels) if isinstance(row, str) else row
        return ", ".join(cell.strip() for cell in cells[:levels])

    @property
    def known(self) -> list[tuple[int, list[str]]]:
        """Rows that were looked at to decide."""
        return self.below if self.head.header else [(1, self.first), *self.below]

    def rows(self, records: Iterable[tuple[int, list[str]]]) -> Iterator[list[str]]:
        """Records as rows; an error names the first line with another number of cells."""
        cells = len(self.first) + self.labels
        line = f"line {self.below[0][0]}" if self.labels else "the first line"
        for number, record in records:
            if len(record) != cells:
                shorter = number == self.below[0][0] and len(record) == cells + 1
                hint = "; if the first line holds column names, add '::header=yes'" if shorter else ""
                raise ValueError(f"line {number} has {len(record)} cells, {line} has {cells}{hint}")
            yield record

    def numeric(self) -> Array:
        """Which columns hold numbers, as far as the first rows say; row labels do not."""
        rows = [record for _, record in self.below] + ([] if self.head.header else [self.first])
        found = np.zeros(len(self.first), bool)
        for j in range(self.head.unnamed, len(self.first)):
            column = [row[j + self.labels] for row in rows if len(row) > j + self.labels]
            found[j] = not any(map(is_text, column)) and not all(map(is_missing, column))
        return found


def read_text(path: str, asked: Selection) -> tuple[Array, Array | None, Note, Labels | None]:
    """Numbers separated by commas or tabs, maybe below column names; also facts about row labels."""
    with open_text(path) as file:
        start = started(path, file, asked)
        names, head = start.names, start.head
        used, left_out = used_columns(start, asked)
        sure = head.sure and not head.row_names and not left_out and not head.second
        note = Note(f"{path}: {head.said(left_out)}", sure)
        spool, labelled = Spool(), start.has_row_labels(used)
        with noted([note.text]):
            # In one pass, piece by piece: neither rows nor labels need fit into memory.
            labels = labels_of_file(_spooled(spool, start, used.tolist(), labelled))
    matrix = spool.array() if spool.size else np.empty((0, len(used)))
    return matrix, None if names is None else names[used], note, labels if labelled else None


def used_columns(start: Start, asked: Selection) -> tuple[Array, bool]:
    """Positions of the columns that a source asks for, and whether row labels were left out of them."""
    p = len(start.first)
    index = asked.positions(p, start.names, start.numeric)
    if index is None:
        return np.arange(start.head.unnamed, p), start.head.unnamed > 0
    return index, False


def _spooled(spool: Spool, start: Start, used: list[int], labelled: bool) -> Iterator[list[str]]:
    """Put numbers into the spool, and yield the row labels beside them if there are any."""
    for numbers, rows in _arrays(start, used):
        spool.append(numbers)
        if labelled:
            yield list(map(start.label, rows))


def started(path: str, file: TextIO, asked: Selection) -> Start:
    """The first record and some below it, and what was decided about the first."""
    source = Lines(file, "\t" if path.lower().endswith((".tsv", ".tsv.gz")) else ",")
    with open_text(path) as again:
        require_no_semicolons(again, source.delimiter)
    records = _records(source)
    _, first = next(records, (1, []))
    if not first:
        raise ValueError("its first line is empty; expected column names or numbers")
    below = list(islice(records, max(2, min(LOOKED_AT, CELLS // len(first)))))
    with open_text(path) as again:
        lines = list(islice(again, below[1][0] - 1 if len(below) > 1 else None))
    end = below[0][0] - 1 if below else len(lines)
    quoted = _in_quotes(lines[:end]) and not _in_quotes(lines[end:])
    rows = [record for _, record in below]
    head = head_of(first, rows, quoted, asked.header, asked.wanted)
    if asked.header is None:
        head = with_second_line(head, first, rows)
    return Start(first, below, records, head, source)


def _records(lines: Lines) -> Records:
    """Records, which may span lines; an empty line between them is an error, because it would shift rows."""
    reader = csv.reader(lines, delimiter=lines.delimiter, skipinitialspace=True, strict=True)
    line, blank = 1, 0
    try:
        while (record := next(reader, None)) is not None:
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
            line = reader.line_num + lines.taken + 1
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


def _arrays(start: Start, used: list[int]) -> Iterator[tuple[Array, Sequence[Any]]]:
    """The numbers in some columns, many rows at a time, with the rows: lists of cells, or plain lines."""
    cells = len(start.first) + start.labels
    step, columns = max(1, CELLS // cells), [j + start.labels for j in used]
    done = len(start.known)
    if done:
        known = list(start.rows(start.known))
        yield _parsed(known, used, start, 0), known
    # Lines without quotes are parsed as a whole, which takes half the time.
    while lines := start.lines.plain(step, cells):
        delimiter = start.lines.delimiter
        try:
            numbers = np.loadtxt(lines, delimiter=delimiter, usecols=columns, ndmin=2, comments=None)
        except ValueError:
            numbers = _parsed([line.rstrip("\n").split(delimiter) for line in lines], used, start, done)
        yield numbers, lines
        done += len(lines)
    rows = start.rows(start.rest)
    while chunk := list(islice(rows, step)):
        yield _parsed(chunk, used, start, done), chunk
        done += len(chunk)


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
