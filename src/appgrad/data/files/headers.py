"""Headers of text files: is the first line a row, or does it name the columns? do rows begin with names?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

# How missing values are written: a first line with these and numbers is a row, not a header.
MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}
# Most rows below the first line that are looked at.
LOOKED_AT = 1000
# A first line of whole numbers is a header if fewer of the rows than this would hold whole numbers only.
CHANCE = 0.01
# Columns from which on any equal steps (400, 402, 404 ...) are as telling as steps of one.
STEPPED = 5

Rows = Sequence[Sequence[str]]


class Head(NamedTuple):
    """What was decided about the first line: a header or a row, and why.

    `sure` is False if a reader of the file could think otherwise. `row_names` are first cells of rows that
    the header has no cell for; `unnamed` is the number of first cells below empty ones. `second` says that
    the line below the header may be one too.
    """

    header: bool
    why: str
    sure: bool = True
    row_names: bool = False
    unnamed: int = 0
    second: bool = False

    def said(self, left_out: bool) -> str:
        """The decision in words; `left_out` if a column without a name was."""
        text = f"the first line was read as {'column names' if self.header else 'a row'}: {self.why}"
        if self.row_names:
            text += "; rows have one cell more: the first was taken as row labels and left out"
        elif self.unnamed and left_out:
            first = "column has" if self.unnamed == 1 else f"{self.unnamed} columns have"
            text += f"; the first {first} no name: taken as row labels and left out"
        if not self.sure:
            text += f"; '::header={'no' if self.header else 'yes'}' decides otherwise"
        if self.second:
            text += (
                "; the second line was read as a row: if it names columns too, remove it or join both lines"
            )
        return text


def head_of(
    first: Sequence[str],
    below: Rows,
    quoted: bool,
    asked: bool | None,
    wanted: Sequence[str] | None = None,
) -> Head:
    """The decision about a first line, from rows below it; `asked` is that of the user, if any.

    `quoted` says that all cells of the first line are in quotes and those of the next line are not; `wanted`
    are names of columns that a model looks for.
    """
    first = [cell.strip() for cell in first]
    longer = bool(below) and len(below[0]) == len(first) + 1
    if longer and not any(row[-1].strip() for row in below if len(row) > len(first)):
        raise ValueError(
            "its rows have one cell more than the first line, an empty one at the end: remove what separates "
            "it from the others, or add it to the first line"
        )
    # Cells stand above those of the rows without their names.
    rows = [row[1:] for row in below] if longer else below
    rows = [row for row in rows if len(row) == len(first)]
    found = _decided(first, rows, quoted)
    if wanted and set(wanted) <= set(first):
        found = Head(True, "it has the column names of the model")
    if asked is not None:
        found = Head(asked, f"'::header={'yes' if asked else 'no'}' was given")
    unnamed = 0 if longer or not found.header else leading(first)
    return found._replace(row_names=found.header and longer, unnamed=unnamed)


def leading(first: Sequence[str]) -> int:
    """The number of empty cells before the first name; one at most if there is no name."""
    empty = next((j for j, cell in enumerate(first) if cell.strip()), 1)
    return min(empty, len(first) - 1)


def _decided(first: list[str], rows: Rows, quoted: bool) -> Head:
    text = [j for j, cell in enumerate(first) if is_text(cell)]
    words = {j for j in range(len(first)) if any(is_text(row[j]) for row in rows)}
    if rows and not words.issuperset(text):
        return Head(True, "it has text above numbers")
    if quoted:
        return Head(True, "its cells are in quotes, unlike those below")
    before = leading(first)
    if any(j in words or _is_index([row[j] for row in rows]) for j in range(before)):
        return Head(True, "its first cell is empty, above row labels")
    numbers = [j for j in range(before, len(first)) if not is_text(first[j]) and j not in words]
    if text and not numbers:
        return Head(True, "it holds text")
    return numbers_head([first[j] for j in numbers], [[row[j] for j in numbers] for row in rows], bool(text))


def numbers_head(named: list[str], rows: Rows, text: bool = False) -> Head:
    """The decision about a first line of numbers, in columns that hold numbers; `text` if others do not."""
    cells = [[cell.strip() for cell in row] for row in rows]
    if named in cells:
        return Head(False, "the same numbers occur again below")
    if len(set(named)) < len(named) or not named or not rows or any(map(is_missing, named)):
        return Head(False, "it holds numbers as the rows do", sure=not text)
    values = [[float(cell) for cell in row if not is_missing(cell)] for row in cells]
    line, whole = [float(cell) for cell in named], all(cell.isdecimal() for cell in named)
    natural = line == [line[0] + j for j in range(len(line))] and line[0] in (0, 1) and len(line) > 2
    low, high = _range(values)
    # Years above small numbers are no row, whatever the steps of these are.
    far = min(line) - high > high - low
    if len(line) == 1:
        # One number tells too little, but a year above small numbers may be a name.
        return Head(False, "it holds a number as the rows do", sure=not text and not (whole and far))
    if whole and whole_by_chance(cells) < CHANCE:
        return Head(True, "it holds whole numbers, and the rows below do not", sure=natural)
    if not far and 2 * sum(_alike(line, row) for row in values) > len(values):
        return Head(False, "most rows are like it")
    if (whole or len(line) >= STEPPED) and _counts(line, values):
        return Head(True, "it counts in equal steps, and the rows below do not", sure=natural)
    fractions = not all(_is_whole(cell) for row in cells for cell in row)
    steps = _step(line) is not None if len(line) > 2 else _step(line) in (1, -1)
    odd = whole and (fractions or steps)
    return Head(False, "it holds numbers as the rows do", sure=not odd and not text)


def whole_by_chance(rows: Rows) -> float:
    """The chance that a row holds whole numbers only, from the shares of whole numbers in each column."""
    chance = 1.0
    for column in zip(*rows, strict=True):
        chance *= (1 + sum(map(_is_whole, column))) / (2 + len(column))
    return chance


def _is_whole(cell: str) -> bool:
    """True if a cell holds a whole number, or may hold one: missing values say nothing."""
    return cell.lstrip("+-").isdecimal() or is_missing(cell)


def _alike(line: list[float], row: list[float]) -> bool:
    """True if a row goes in equal steps too, or holds the same numbers in another order."""
    # Two numbers are always in equal steps.
    steps = _step(row) == _step(line) if len(line) == 2 else _step(row) is not None
    return steps or sorted(row) == sorted(line)


def _counts(line: list[float], rows: list[list[float]]) -> bool:
    """True if numbers go in equal steps, and the data below would hardly do so by chance.

    Either the numbers are no values of the data, or the data have so many values that steps of one are no
    coincidence. Two numbers below all others may begin columns that grow.
    """
    step, p = _step(line), len(line)
    if step is None:
        return False
    low, high = _range(rows)
    outside = sum(not low <= value <= high for value in line)
    close = abs(step) == 1 or p >= STEPPED
    if outside == p and (p > 2 or (close and min(line) > high)):
        return True
    levels = len({value for row in rows for value in row})
    if p == 2 and line[0] < min((row[0] for row in rows if row), default=line[0]):
        return False
    return close and ((p > 2 and outside > 0 and step > 0) or levels ** (p - 1) >= 1 / CHANCE)


def _range(rows: list[list[float]]) -> tuple[float, float]:
    """The smallest and the largest number."""
    values = [value for row in rows for value in row]
    return min(values, default=0.0), max(values, default=0.0)


def _step(line: list[float]) -> float | None:
    """The step of numbers in equal steps; None if they are not, or do not move."""
    steps = [b - a for a, b in pairwise(line)]
    # As numbers are written: 400.1, 400.3, 400.5 are not equally far apart in binary digits.
    same = steps and steps[0] and all(abs(s - steps[0]) < 1e-6 * abs(steps[0]) for s in steps)
    return round(steps[0], 9) if same else None


def _is_index(cells: list[str]) -> bool:
    """True if cells count up by one, as row numbers do."""
    if len(cells) < 2 or not all(cell.strip().isdecimal() for cell in cells):
        return False
    return all(int(b) == int(a) + 1 for a, b in pairwise(cells))


def is_missing(cell: str) -> bool:
    """True if a cell is empty, or holds a word for a missing value."""
    return cell.strip().lower() in MISSING


def is_text(cell: str) -> bool:
    """True if a cell holds neither a number nor a missing value."""
    return not _is_number(cell) and not is_missing(cell)


def _is_number(cell: str) -> bool:
    # Python reads 1_000 as a number, other programs do not.
    if "_" in cell:
        return False
    try:
        float(cell)
    except ValueError:
        return False
    return True
