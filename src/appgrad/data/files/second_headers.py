"""A second line of column names, of numbers: pandas writes one for each level of the columns of a frame."""

from __future__ import annotations

from collections.abc import Sequence

from .headers import CHANCE, Head, Rows, is_text, leading, numbers_head, whole_by_chance

# What to do about it.
ADVICE = "remove it, or join both lines into one"


def with_second_line(head: Head, first: Sequence[str], below: Rows) -> Head:
    """The decision about a header, with a doubt about the line below it; an error if that is one too.

    A second line is looked at if names in the first occur more than once, as in `g,g,h` above `1,2,1`, or if
    only the second line has no row label.
    """
    if not head.header or head.row_names or len(below) < 2 or len(below[0]) != len(first):
        return head
    before, line = leading(first), [cell.strip() for cell in below[0]]
    names, numbers = [cell.strip() for cell in first[before:]], line[before:]
    if not all(map(str.isdecimal, numbers)) or len(set(zip(names, numbers, strict=True))) < len(names):
        return head
    rows = [row for row in _without_index_names(below[1:], before) if len(row) == len(first)]
    repeated = len(set(names)) < len(names)
    unlabelled = before > 0 and not any(line[:before]) and all("".join(row[:before]).strip() for row in rows)
    if not repeated and not unlabelled:
        return head
    found = _decided(names, numbers, [row[before:] for row in rows])
    if found.header or (repeated and unlabelled):
        raise ValueError(
            f"its second line ({','.join(line)[:40]}) looks like a second line of column names: {ADVICE}; if "
            "it is a row, add '::header=yes'"
        )
    return head if found.sure else head._replace(second=True)


def _without_index_names(rows: Rows, before: int) -> Rows:
    """Rows without a first line that holds the names of row labels alone."""
    names = rows and before and not "".join(rows[0][before:]).strip()
    return rows[1:] if names else rows


def _decided(names: list[str], numbers: list[str], rows: Rows) -> Head:
    """The decision about a second line of whole numbers, by the rules for a first one.

    Those about steps look at the columns of each name: all of them must say the same.
    """
    known = [j for j in range(len(names)) if not any(is_text(row[j]) for row in rows)]
    cells = [[row[j].strip() for j in known] for row in rows]
    if not rows or not known or [numbers[j] for j in known] in cells:
        return Head(False, "the same numbers occur again below")
    if len(known) > 1 and whole_by_chance(cells) < CHANCE:
        return Head(True, "it holds whole numbers, and the rows below do not")
    groups = [[j for j in known if names[j] == name] for name in dict.fromkeys(names)]
    groups = [group for group in groups if len(group) > 1] or [known]
    found = [
        numbers_head([numbers[j] for j in group], [[row[j] for j in group] for row in rows])
        for group in groups
    ]
    doubts = all(one.header or not one.sure for one in found) or _alike(groups, numbers, rows)
    return Head(all(one.header for one in found), "as numbers in a first line", sure=not doubts)


def _alike(groups: list[list[int]], numbers: list[str], rows: Rows) -> bool:
    """True if a line has the same numbers for each of several names, and no row below has."""
    return len(groups) > 1 and [
        len({tuple(row[j].strip() for j in group) for group in groups}) == 1 for row in (numbers, *rows)
    ] == [True, *(False for _ in rows)]
