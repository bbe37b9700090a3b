"""Checks of sparse matrices: compiled code trusts their indices, and would read past the ends."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

import numpy as np

from ..machine.arrays import Array


def require_sound(m: Any, name: str, full: bool = False) -> None:
    """Raise ValueError unless the parts of a sparse matrix fit together and all its indices are in bounds.

    Any format of scipy. One look at each index, no copy. With `full`, arrays may not be longer than what
    they store, either: in memory that is spare room, in a file it is damage.
    """
    check = FORMATS.get(m.format)
    if check is None:
        raise ValueError(f"{name} has the sparse format {m.format!r}; expected one of {', '.join(FORMATS)}")
    if len(m.shape) != 2:
        raise ValueError(f"{name} is a sparse array of {len(m.shape)} dimensions; a view is rows x columns")
    try:
        check(m, full)
    except _BrokenError as error:
        raise ValueError(
            f"{name} is a broken sparse matrix of {m.shape[0]} x {m.shape[1]} ({m.format}): {error}; "
            "make it anew from what it was made of"
        ) from None


class _BrokenError(Exception):
    """What is wrong with a sparse matrix."""


def _require(is_true: Any, text: str) -> None:
    if not is_true:
        raise _BrokenError(text)


def _require_compressed(
    indptr: Array, indices: Array, stored: int, shape: tuple[int, int], full: bool
) -> None:
    """Check the arrays of a compressed format; `shape` is along its pointers, and across them."""
    _require_whole_numbers(indptr, "indptr")
    _require_whole_numbers(indices, "indices")
    _require(len(indptr) == shape[0] + 1, f"indptr has {len(indptr)} numbers, expected {shape[0] + 1}")
    _require(indptr[0] == 0, f"indptr begins with {indptr[0]}, expected 0")
    _require(np.all(indptr[1:] >= indptr[:-1]), "indptr is not in ascending order")
    _require(len(indices) == stored, f"there are {len(indices)} indices of {stored} values")
    end = int(indptr[-1])
    _require(end <= stored, f"indptr ends with {end}, and there are {stored} values")
    _require(end == stored or not full, f"indptr ends with {end}, and there are {stored} values")
    _require_within(indices[:end], shape[1], "an index")


def _require_whole_numbers(numbers: Any, what: str) -> None:
    _require(isinstance(numbers, np.ndarray) and numbers.ndim == 1, f"{what} is not a row of numbers")
    _require(numbers.dtype.kind in "iu", f"{what} has type {numbers.dtype}, expected integers")


def _require_within(indices: Array, size: int, what: str) -> None:
    """Check that all indices are from 0 to size - 1; negative ones are huge as unsigned numbers."""
    if not len(indices):
        return
    unsigned = indices.view(indices.dtype.str.replace("i", "u"))
    if int(unsigned.max()) >= size:
        wrong = indices[unsigned >= size][0]
        raise _BrokenError(f"{what} is {wrong}, and there are {size}")


def _row_compressed(m: Any, full: bool) -> None:
    _require_values(m.data)
    _require_compressed(m.indptr, m.indices, len(m.data), m.shape, full)


def _column_compressed(m: Any, full: bool) -> None:
    _require_values(m.data)
    _require_compressed(m.indptr, m.indices, len(m.data), (m.shape[1], m.shape[0]), full)


def _require_values(values: Any) -> None:
    _require(isinstance(values, np.ndarray) and values.ndim == 1, "its values are not a row of numbers")


def _blocks(m: Any, full: bool) -> None:
    _require(m.data.ndim == 3, "its values are not a row of blocks")
    rows, columns = m.data.shape[1:]
    fits = rows > 0 and columns > 0 and m.shape[0] % rows == 0 and m.shape[1] % columns == 0
    _require(fits, f"blocks of {rows} x {columns} do not fill it")
    shape = m.shape[0] // rows, m.shape[1] // columns
    _require_compressed(m.indptr, m.indices, len(m.data), shape, full)


def _coordinates(m: Any, full: bool) -> None:
    _require_values(m.data)
    _require(len(m.coords) == 2, f"it has {len(m.coords)} arrays of coordinates, expected 2")
    for indices, size, what in zip(m.coords, m.shape, ("row", "column"), strict=True):
        _require_whole_numbers(indices, f"its {what}s")
        _require(len(indices) == len(m.data), f"there are {len(indices)} {what}s of {len(m.data)} values")
        _require_within(indices, size, f"a {what}")


def _diagonals(m: Any, full: bool) -> None:
    _require_whole_numbers(m.offsets, "offsets")
    _require(m.data.ndim == 2, "its values are not rows of diagonals")
    _require(len(m.offsets) == len(m.data), f"there are {len(m.offsets)} offsets of {len(m.data)} diagonals")
    _require(len(np.unique(m.offsets)) == len(m.offsets), "two diagonals have the same offset")
    outside = m.offsets[(m.offsets <= -m.shape[0]) | (m.offsets >= m.shape[1])]
    _require(not len(outside), f"the diagonal {outside[:1]} is outside of it")


def _lists(m: Any, full: bool) -> None:
    sizes = [[len(found) for found in lists] for lists in (m.rows, m.data)]
    _require(len(sizes[0]) == len(sizes[1]) == m.shape[0], "it does not have a list for each row")
    _require(sizes[0] == sizes[1], "lists of columns and of values have different lengths")
    _require_within(_whole(chain.from_iterable(m.rows), sum(sizes[0])), m.shape[1], "a column")


def _keys(m: Any, full: bool) -> None:
    found = _whole(chain.from_iterable(m.keys()), 2 * len(m.keys()))
    for view, what in enumerate(("row", "column")):
        _require_within(np.ascontiguousarray(found[view::2]), m.shape[view], f"a {what}")


def _whole(numbers: Any, count: int) -> Array:
    try:
        return np.fromiter(numbers, np.int64, count)
    except (TypeError, ValueError, OverflowError) as error:
        raise _BrokenError(f"its indices are not integers ({error})") from None


FORMATS: dict[str, Callable[[Any, bool], None]] = {
    "csr": _row_compressed,
    "csc": _column_compressed,
    "bsr": _blocks,
    "coo": _coordinates,
    "dia": _diagonals,
    "lil": _lists,
    "dok": _keys,
}
