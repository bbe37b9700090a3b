"""What the parameters of an estimator may be, checked before the first pass."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

from .choose import SOLVERS
from .covariance import Ridge
from .solve import Problem


def checked(params: dict[str, Any]) -> Problem:
    """The problem these parameters ask for, or an error that names the parameter."""
    k = params["n_components"]
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ValueError(f"n_components must be an integer of at least 1, got {k!r}")
    if params["solver"] not in ("auto", *SOLVERS):
        raise ValueError(f"solver must be one of {['auto', *SOLVERS]}, got {params['solver']!r}")
    for name, (is_allowed, expected) in PARAMETERS.items():
        if not is_allowed(params[name]):
            raise ValueError(f"{name} must be {expected}, got {params[name]!r}")
    for name in ("forget", "checkpoint"):
        if params[name] is not None:
            raise ValueError(f"{name}={params[name]!r} is not supported by this version; use None")
    return Problem(int(k), bool(params["center"]), bool(params["scale"]), _ridges(params["ridge"]))


def _number(low: float, *words: str | None, integer: bool = False) -> Callable[[Any], bool]:
    """Whether a value is one of the words or a number of at least `low`."""
    kind = Integral if integer else Real

    def is_allowed(value: Any) -> bool:
        if value is None or isinstance(value, str):
            return value in words
        return isinstance(value, kind) and not isinstance(value, bool) and bool(float(value) >= low)

    return is_allowed


def _word(*words: Any) -> Callable[[Any], bool]:
    return lambda value: any(value is word or (isinstance(word, str) and value == word) for word in words)


# What the other parameters may be, checked before the first pass.
PARAMETERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "center": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
    "scale": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
    "tol": (_number(0), "a number of at least 0"),
    "max_iter": (_number(1, None, integer=True), "None or an integer of at least 1"),
    "max_passes": (_number(0, None), "None or a number of at least 0"),
    "max_seconds": (_number(0, None), "None or a number of at least 0"),
    "max_flops": (_number(0, None), "None or a number of at least 0"),
    "oversampling": (_number(0, "auto", integer=True), "'auto' or an integer of at least 0"),
    "preconditioner": (_word("auto", "jacobi", "lowrank", None), "'auto', 'jacobi', 'lowrank' or None"),
    "step_size": (_number(0, "auto"), "'auto' or a number of at least 0"),
    "batch_size": (_number(1, integer=True), "an integer of at least 1"),
    "normaliser": (_number(1, "auto", "batch", integer=True), "'auto', 'batch' or an integer of at least 1"),
    "covariance": (_word("auto", "dense"), "'auto' or 'dense'"),
}


def _ridges(ridge: Any) -> tuple[Ridge, Ridge]:
    pair = [ridge, ridge] if isinstance(ridge, str) or np.ndim(ridge) == 0 else list(ridge)
    if len(pair) != 2:
        raise ValueError(f"ridge must be 'auto', a number or a pair, got {len(pair)} values")
    return _ridge(pair[0]), _ridge(pair[1])


def _ridge(value: Any) -> Ridge:
    if isinstance(value, str) and value == "auto":
        return value
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) < np.inf:
        raise ValueError(f"ridge must be 'auto' or finite numbers of at least 0, got {value!r}")
    return float(value)
