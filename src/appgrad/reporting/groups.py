"""Colours of points, by groups of rows or by numbers."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..machine.arrays import Array

# Paul Tol's "muted" colours, which all kinds of colour vision tell apart, and grey for the remaining groups.
COLOURS = (
    *("#332288", "#88ccee", "#cc6677", "#117733", "#ddcc77", "#882255", "#44aa99", "#aa4499", "#999933"),
    "#888888",
)


class Groups(NamedTuple):
    """The group of each row, as a position in `names`; at most as many groups as there are colours."""

    codes: Array
    names: list[str]


def groups_or_numbers(labels: npt.ArrayLike) -> Groups | Array:
    """Groups of rows by their labels; or the labels as numbers, if these have more values than colours.

    With more groups than colours, the largest are kept and all others become one group.
    """
    values = np.asarray(labels)
    if values.ndim != 1:
        raise ValueError(f"labels have shape {values.shape}: expected one for each row")
    if values.dtype.kind not in "biuf":
        texts = [str(value) for value in values]
        values = np.array(texts, dtype=object)
        if len(set(texts)) > len(COLOURS):
            with suppress(ValueError):
                values = np.array([float(text) for text in texts])
    kinds, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    if len(kinds) <= len(COLOURS):
        return Groups(codes, [str(kind) for kind in kinds])
    if values.dtype.kind in "iuf":
        return values.astype(np.float64)
    kept = np.sort(np.argsort(-counts, kind="stable")[: len(COLOURS) - 1])
    place = np.full(len(kinds), len(kept))
    place[kept] = np.arange(len(kept))
    return Groups(place[codes], [*(str(kinds[i]) for i in kept), "all others"])
