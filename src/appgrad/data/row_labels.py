"""Row labels of data frames and files: rows are paired by position, and labels that differ are an error."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import reduce
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from ..machine.arrays import Array
from .display import shown
from .plain_labels import plain_label

# Odd, so that its powers modulo 2^64 are never zero; the golden ratio spreads their bits.
BASE = np.uint64(0x9E3779B97F4A7C15)
# Whole numbers as they are printed, of 64 bits.
WHOLE = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
# Labels of a range that are hashed at a time.
ROWS = 2**20
# What to do if rows are paired as they are.
AS_THEY_ARE = "If rows are paired by position, drop the index: y = y.reset_index(drop=True)"


def index_of(data: Any) -> Any:
    """The row index of a data frame or series; None for data without one."""
    index = getattr(data, "index", None)
    # Lists have a method of this name.
    return index if hasattr(data, "loc") and hasattr(index, "equals") else None


def require_same_labels(X: Any, y: Any) -> None:
    """Raise if both views are frames in memory whose indexes differ, unless one of them only counts rows."""
    x, z = index_of(X), index_of(y)
    if x is None or z is None or x.equals(z) or counts_rows(x) or counts_rows(z):
        return
    raise ValueError(f"rows of X and y have different labels: {_difference(x, z)}. {AS_THEY_ARE}")


def counts_rows(index: Any) -> bool:
    """True if labels are 0, 1, 2 and so on, which say nothing about what a row is."""
    return _first(index) == 0


def _first(index: Any) -> int | None:
    """The first label if labels are consecutive integers; otherwise, and of no rows, None."""
    whole = index.nlevels == 1 and getattr(index.dtype, "kind", "O") in "iu"
    if not whole or not len(index) or index.hasnans:
        return None
    first = int(index[0])
    # The last label is read first: this settles most cases without a look at the others.
    consecutive = int(index[-1]) == first + len(index) - 1 and np.all(np.diff(index.to_numpy()) == 1)
    return first if consecutive else None


def _difference(x: Any, z: Any) -> str:
    """How the labels of two frames differ, and what to do."""
    if x.nlevels != z.nlevels:
        return f"the index of X has levels: {x.nlevels}, that of y: {z.nlevels}; give both the same ones"
    repeated = z.duplicated()
    if repeated.any():
        return (
            f"{_label(z[repeated][0])} occurs more than once in y, so that labels do not say which rows "
            "belong together; make them unique, then align the rows, y = y.loc[X.index]"
        )
    missing = ~x.isin(z)
    if missing.any():
        return (
            f"{int(missing.sum())} of {len(x)} labels of X are not in y, {_label(x[missing][0])} for one; "
            "keep the rows of both, X = X.loc[X.index.isin(y.index)], and align them, y = y.loc[X.index]"
        )
    if len(x) == len(z) and z.isin(x).all():
        place = int(np.argmin([a == b for a, b in zip(x, z, strict=True)]))
        return (
            f"they are in another order (row {place} is {_label(x[place])} in X, {_label(z[place])} in y); "
            "align them, y = y.loc[X.index]"
        )
    return f"y has rows that X does not have ({len(z)} and {len(x)}); align them, y = y.loc[X.index]"


def _label(label: Any) -> str:
    """A label for messages."""
    return shown(repr(label.item() if isinstance(label, np.generic) else label), 60)


class Labels(NamedTuple):
    """Facts about the labels of consecutive rows, which can be put together for the rows of all chunks.

    `first` is the first label if labels are consecutive integers. `restarts` is true if they are counted from
    zero in every chunk. `ordered` and `unordered` are hashes of the labels with and without their order.
    """

    rows: int
    first: int | None
    restarts: bool
    ordered: int
    unordered: int

    @property
    def counted(self) -> bool:
        """True if labels count rows, in all or chunk by chunk."""
        return self.restarts or self.first == 0


def labels_of(data: Any) -> Labels | None:
    """Facts about the labels of a pandas frame; None for data without an index."""
    index = index_of(data)
    if index is None:
        return None
    first = _first(index)
    return _summed(_hashes(index), first, first == 0)


def labels_in(texts: Sequence[str]) -> Labels:
    """Facts about labels as files hold them: text, and maybe counted from one, as R does."""
    plain = [plain_label(text) for text in texts]
    whole = np.array([WHOLE.fullmatch(text) is not None for text in plain], bool)
    hashes = np.empty(len(plain), np.uint64)
    numbers = [int(text) for text, number in zip(plain, whole, strict=True) if number]
    hashes[whole] = _mixed(np.array(numbers, np.int64))
    others = (text.encode() for text, number in zip(plain, whole, strict=True) if not number)
    digests = b"".join(blake2b(text, digest_size=8).digest() for text in others)
    hashes[~whole] = np.frombuffer(digests, "<u8")
    first = _first_of(plain)
    return _summed(hashes, first, first in (0, 1))


def labels_of_range(numbers: range) -> Labels:
    """Facts about a range of numbers as labels: those of their texts, without the texts."""
    if not numbers or max(abs(numbers[0]), abs(numbers[-1])) >= 10**18:
        return labels_of_file([list(map(str, numbers))])
    counts = numbers.step == 1 and numbers.start >= 0
    found = labels_in([])
    for i in range(0, len(numbers), ROWS):
        piece = numbers[i : i + ROWS]
        hashes = _mixed(np.arange(piece.start, piece.stop, piece.step))
        found = _joined(found, _summed(hashes, piece.start if counts else None, False))
    return found._replace(restarts=found.first in (0, 1))


def labels_of_file(pieces: Iterable[Sequence[str]]) -> Labels:
    """Facts about all labels of a file, which come in pieces."""
    found = reduce(_joined, map(labels_in, pieces), labels_in([]))
    return found._replace(restarts=found.first in (0, 1) or not found.rows)


def together(parts: list[Labels | None]) -> Labels | None:
    """Facts about the labels of all chunks, in order; None if one of them has none."""
    known = [part for part in parts if part is not None]
    return reduce(_joined, known) if known and len(known) == len(parts) else None


def require_same_hashes(x: Labels | None, z: Labels | None) -> None:
    """Raise if both views are frames in chunks whose labels differ, unless those of one only count rows."""
    if x is None or z is None or x.counted or z.counted or x[-2:] == z[-2:]:
        return
    same = (x.rows, x.unordered) == (z.rows, z.unordered)
    raise ValueError(different_labels("they are in another order" if same else "not all are in both"))


def different_labels(how: str) -> str:
    """What to say about frames in chunks whose labels differ."""
    return (
        f"rows of X and y have different labels: {how}; align them, as y = y.loc[X.index] does in pandas: "
        f"both = X.join(y, how='inner', rsuffix='_y'), then columns of it. {AS_THEY_ARE}"
    )


def _first_of(texts: list[str]) -> int | None:
    """The first label if texts are consecutive whole numbers; otherwise, and of no rows, None."""
    if not texts or not texts[0].isdecimal():
        return None
    first = int(texts[0])
    # The last one settles most cases.
    if texts[-1] != str(first + len(texts) - 1):
        return None
    return first if all(text == str(first + i) for i, text in enumerate(texts)) else None


def _mixed(numbers: Array) -> Array:
    """A hash of each number: the last steps of SplitMix64 (Steele, Lea and Flood 2014)."""
    found = numbers.astype(np.int64).view(np.uint64) + BASE
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        found = (found ^ (found >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(found ^ (found >> np.uint64(31)))


def _summed(hashes: Array, first: int | None, counted: bool) -> Labels:
    """Facts about labels with these hashes."""
    rows, powers = len(hashes), np.cumprod(np.full(len(hashes), BASE))
    return Labels(rows, first, counted or not rows, int((hashes * powers).sum()), int(hashes.sum()))


def _joined(a: Labels, b: Labels) -> Labels:
    if not a.rows or not b.rows:
        return a if a.rows else b
    follows = a.first is not None and b.first == a.first + a.rows
    shift = pow(int(BASE), a.rows, 2**64)
    return Labels(
        a.rows + b.rows,
        a.first if follows else None,
        a.restarts and b.restarts,
        (a.ordered + shift * b.ordered) % 2**64,
        (a.unordered + b.unordered) % 2**64,
    )


def _hashed(labels: Any) -> Array:
    """A hash of each of these labels of one type."""
    # Whoever has such an index has pandas.
    from pandas import Series
    from pandas.util import hash_pandas_object

    return np.asarray(hash_pandas_object(Series(labels), index=False, categorize=False).to_numpy())


def _numbers(labels: Array) -> Array:
    """Numbers as bits that are equal for equal labels, one by one: a chunk may hold whole ones alone.

    Whole numbers beyond the precision of floats, up to 2^62, are integers; all others are floats.
    """
    found = labels.astype(np.float64) + 0.0
    large = (np.abs(found) > 2.0**53) & (np.abs(found) <= 2.0**62)
    return np.asarray(np.where(large, np.where(large, labels, 0).astype(np.int64), found.view(np.int64)))


def _hashes(index: Any) -> Array:
    """A hash of each label: equal for equal labels, whatever type holds them."""
    found = np.zeros(len(index), np.uint64)
    for level in range(index.nlevels):
        labels = index.get_level_values(level)
        kind = getattr(labels.dtype, "kind", "O")
        if kind in "iufb" and not labels.hasnans:
            labels = _numbers(labels.to_numpy())
        elif kind in "mM" and hasattr(labels, "as_unit"):
            labels = labels.as_unit("ns")
        else:
            labels = labels.astype(object)
        found = found * BASE + _hashed(labels)
    return found
