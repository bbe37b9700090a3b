"""States of runs and streams as JSON and arrays, and back: what files can hold without being unpickled."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from .columns import Taken
from .kernels import Fourier, Gram, Kernel, Nystroem
from .moments import Moments, SecondMoments
from .options import Options
from .preconditioners import Preconditioner, Side
from .solve import Limits, Problem, Report
from .solvers import als, appgrad, lobpcg, pursuit, stochastic
from .thresholds import Sparsity
from .views import Array

# What states are made of, by name: nothing else is ever built from a file.
CLASSES: dict[str, Any] = {
    f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}": cls
    for cls in (
        Fourier,
        Gram,
        Kernel,
        Limits,
        Moments,
        Nystroem,
        Options,
        Preconditioner,
        Problem,
        Report,
        SecondMoments,
        Side,
        Sparsity,
        Taken,
        als.State,
        appgrad.State,
        lobpcg.State,
        lobpcg.Vectors,
        lobpcg.Grams,
        pursuit.State,
        stochastic.State,
        stochastic.Trial,
    )
}


def packed(tree: Any, prefix: str = "a") -> tuple[Any, dict[str, Array]]:
    """A tree of tuples as JSON, and its arrays by names that begin with the prefix."""
    arrays: dict[str, Array] = {}

    def pack(tree: Any) -> Any:
        if isinstance(tree, np.ndarray):
            name = f"{prefix}{len(arrays)}"
            arrays[name] = tree
            return {"array": name}
        if sp.issparse(tree):
            return {"csr": [pack(part) for part in (tree.data, tree.indices, tree.indptr)] + [*tree.shape]}
        if isinstance(tree, np.generic):
            return tree.item()
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree
        name = f"{type(tree).__module__.rpartition('.')[2]}.{type(tree).__name__}"
        parts = [pack(part) for part in tree]
        return {"class": name, "parts": parts} if name in CLASSES else {"tuple": parts}

    return pack(tree), arrays


def unpacked(spec: Any, arrays: dict[str, Array]) -> Any:
    """The tree again; KeyError, TypeError or ValueError where it is none of ours."""
    if not isinstance(spec, dict):
        return spec
    if "array" in spec:
        return arrays[spec["array"]]
    (key,) = spec.keys() & {"csr", "parts", "tuple"}
    parts = tuple(unpacked(part, arrays) for part in spec[key])
    if key == "csr":
        m = sp.csr_array(parts[:3], shape=parts[3:])
        m.check_format(full_check=True)
        return m
    if key == "tuple":
        return parts
    cls = CLASSES[spec["class"]]
    if len(parts) != len(cls._fields):
        raise ValueError(
            f"{spec['class']} has {len(cls._fields)} parts, not {len(parts)}: of another version?"
        )
    return cls(*parts)


def same_parts(a: Any, b: Any) -> bool:
    """Whether two trees of tuples are equal, arrays by their values."""
    if isinstance(a, tuple):
        pairs = type(a) is type(b) and len(a) == len(b)
        return pairs and all(map(same_parts, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and np.array_equal(a, b)
    if sp.issparse(a):
        return bool(sp.issparse(b) and a.shape == b.shape and (a != b).nnz == 0)
    return bool(a == b)


def plain_generator(rng: np.random.Generator) -> Any:
    """The state of a generator as JSON holds it."""

    def plain(state: Any) -> Any:
        if isinstance(state, dict):
            return {name: plain(part) for name, part in state.items()}
        if isinstance(state, np.ndarray):
            return {"array": state.tolist(), "dtype": str(state.dtype)}
        return state.item() if isinstance(state, np.generic) else state

    return plain(rng.bit_generator.state)


def restored_generator(plain: dict[str, Any]) -> np.random.Generator:
    """The generator with this state, one of numpy's."""

    def parts(value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"array", "dtype"}:
            return np.array(value["array"], dtype=value["dtype"])
        return {name: parts(part) for name, part in value.items()} if isinstance(value, dict) else value

    kinds = {"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
    if plain["bit_generator"] not in kinds:
        raise ValueError(f"{plain['bit_generator']!r} is no generator of numpy's")
    generator = np.random.Generator(getattr(np.random, plain["bit_generator"])())
    generator.bit_generator.state = parts(plain)
    return generator
