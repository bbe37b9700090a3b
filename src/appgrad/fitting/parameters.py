"""Check the parameters of an estimator before the first pass."""

from __future__ import annotations

import os
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..covariance.units import Ridge
from ..solvers import registry
from ..solvers.problem import Limits, Problem
from ..solvers.protocol import Options


def checked(params: dict[str, Any], kind: str = registry.LINEAR) -> tuple[Problem, Options]:
    """Return the problem and options of these parameters, or raise an error that names the parameter.

    `kind` is the kind of problem; it determines which solvers may be asked for.
    """
    solvers = registry.names(kind)
    k = params["n_components"]
    if not is_whole(k) or k < 1:
        raise ValueError(f"n_components must be an integer of at least 1, got {k!r}")
    if params["solver"] not in solvers:
        raise ValueError(f"solver must be one of {list(solvers)}, got {params['solver']!r}")
    for name, (is_allowed, expected) in PARAMETERS.items():
        if not is_allowed(params[name]):
            raise ValueError(f"{name} must be {expected}, got {params[name]!r}")
    problem = Problem(int(k), bool(params["center"]), bool(params["scale"]), _ridges(params["ridge"]))
    return problem, _options(params)


def _options(params: dict[str, Any]) -> Options:
    oversampling, step, normaliser = (params[name] for name in ("oversampling", "step_size", "normaliser"))
    return Options(
        solver=params["solver"],
        tol=float(params["tol"]),
        limits=Limits(*(_budget(params[f"max_{name}"]) for name in ("iter", "passes", "seconds", "flops"))),
        oversampling=None if isinstance(oversampling, str) else int(oversampling),
        preconditioner=params["preconditioner"],
        step_size=_step_size(step),
        batch_size=int(params["batch_size"]),
        normaliser=normaliser if isinstance(normaliser, str) else int(normaliser),
        dense=params["covariance"] == "dense",
        forget=None if params["forget"] is None else float(params["forget"]),
    )


def _step_size(value: Any) -> float | tuple[float, float] | None:
    """Return a step size as a Python number, as a pair of them, or None if the solver chooses it."""
    if isinstance(value, str):
        return None
    eta1, eta2 = map(float, pair_of("step_size", value))
    return (eta1, eta2) if np.ndim(value) else eta1


def require_settings(problem: Problem, options: Options) -> None:
    """Raise ValueError unless a problem and options are such as `checked` returns."""
    limits = options.limits
    checked(
        problem._asdict()
        | options._asdict()
        | {"max_iter": limits.iterations, "max_passes": limits.passes}
        | {"max_seconds": limits.seconds, "max_flops": limits.flops}
        | {name: "auto" for name in ("oversampling", "step_size") if getattr(options, name) is None}
        | {"covariance": "dense" if options.dense else "auto"}
        | dict.fromkeys(("checkpoint", "callback", "verbose"))
    )


def _budget(value: Any) -> Any:
    """Return a budget as a Python number, None if it is infinite."""
    if value is None or float(value) == np.inf:
        return None
    return int(value) if isinstance(value, Integral) else float(value)


def pair_of(name: str, value: Any) -> tuple[Any, Any]:
    """Return a parameter for each view, from a pair or from one value for both."""
    if not isinstance(value, tuple | list | np.ndarray) or np.ndim(value) == 0:
        return value, value
    if len(value) != 2:
        raise ValueError(f"{name} must be one value or a pair, got {len(value)} values")
    return value[0], value[1]


def is_real(value: Any) -> bool:
    """True if a value is a number and not a truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """True if a value is a whole number and not a truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def _number(
    low: float, *words: str | None, integer: bool = False, above: bool = False
) -> Callable[[Any], bool]:
    """Return a check that a value is one of the words or a number of at least, or `above`, `low`."""
    kind = Integral if integer else Real

    def is_allowed(value: Any) -> bool:
        if value is None or isinstance(value, str):
            return value in words
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        return is_number and bool(value > low if above else value >= low)

    return is_allowed


def _is_half_life(value: Any) -> bool:
    # No stream has 1e300 rows, so no longer half-life is needed; twice as many rows are still finite.
    return _number(1, None)(value) and (value is None or value < 1e300)


def _is_step_size(value: Any) -> bool:
    if isinstance(value, tuple | list | np.ndarray) and np.ndim(value):
        return len(value) == 2 and all(is_real(eta) and 0 < eta < np.inf for eta in value)
    return _number(0, "auto", above=True)(value) and (isinstance(value, str) or float(value) < np.inf)


def _word(*words: Any) -> Callable[[Any], bool]:
    return lambda value: any(value is word or (isinstance(word, str) and value == word) for word in words)


def _is_checkpoint(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return len(value) == 2 and isinstance(value[0], str | os.PathLike) and _number(0)(value[1])
    return value is None or isinstance(value, str | os.PathLike)


# Checks of the other parameters, and how errors describe the values allowed.
PARAMETERS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "center": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
    "scale": (lambda value: isinstance(value, bool | np.bool_), "True or False"),
    "tol": (_number(0), "a number of at least 0"),
    "max_iter": (_number(1, None, integer=True), "None or an integer of at least 1"),
    "max_passes": (_number(0, None, above=True), "None or a number above 0"),
    "max_seconds": (_number(0, None, above=True), "None or a number above 0"),
    "max_flops": (_number(0, None, above=True), "None or a number above 0"),
    "oversampling": (_number(0, "auto", integer=True), "'auto' or an integer of at least 0"),
    "preconditioner": (_word("auto", "jacobi", "lowrank", None), "'auto', 'jacobi', 'lowrank' or None"),
    "step_size": (_is_step_size, "'auto', a finite number above 0 or a pair of them"),
    "batch_size": (_number(1, integer=True), "an integer of at least 1"),
    "normaliser": (_number(1, "auto", "batch", integer=True), "'auto', 'batch' or an integer of at least 1"),
    "forget": (_is_half_life, "None or a finite number of rows, at least 1"),
    "checkpoint": (_is_checkpoint, "None, the name of a file, or a name and a number of seconds"),
    "covariance": (_word("auto", "dense"), "'auto' or 'dense'"),
    "callback": (lambda value: value is None or callable(value), "None or callable"),
    "verbose": (lambda value: value is None or isinstance(value, Integral | np.bool_), "an integer"),
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
