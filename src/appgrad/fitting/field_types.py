"""Checks of records from files: every field has the type that its record says."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp

# Counts of rows that are fractions where rows are forgotten, and may then be any number.
FRACTIONS = ("n",)


def require_types(cls: Any, found: dict[str, Any]) -> None:
    """Raise TypeError unless fields of a record have the types of their annotations."""
    for name, value in found.items():
        hint = _hints(cls).get(name, Any)
        if name in FRACTIONS and hint is int:
            hint = float
        if not fits(value, hint):
            raise TypeError(f"{name} of {cls.__name__} is a {type(value).__name__}")


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls)


def fits(value: Any, hint: Any) -> bool:
    """True if a value has the type of an annotation; arrays are of real numbers, and functions never fit."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(fits(value, part) for part in get_args(hint))
    if origin is tuple:
        parts = get_args(hint)
        if not isinstance(value, tuple):
            return False
        if len(parts) == 2 and parts[1] is Ellipsis:
            return all(fits(part, parts[0]) for part in value)
        return len(value) == len(parts) and all(map(fits, value, parts))
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    if origin is Callable:
        return False
    if hint in (int, float):
        return isinstance(value, int if hint is int else int | float) and not isinstance(value, bool)
    if hint in (bool, str, NoneType):
        return isinstance(value, hint)
    if hint is Any:
        # Matrices, of which a file may hold some, are of real numbers too.
        arrays = isinstance(value, np.ndarray) or sp.issparse(value)
        return not arrays or value.dtype.kind in "biuf"
    # A protocol cannot be asked; what has one is checked where it is used.
    return getattr(hint, "_is_protocol", False) or isinstance(value, hint)
