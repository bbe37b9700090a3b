"""Convert states of runs and streams to JSON and arrays and back, so that files need no unpickling."""

from __future__ import annotations

from dataclasses import MISSING, fields, is_dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..covariance.moments import Moments, SecondMoments, ViewMoments
from ..covariance.preconditioners import Preconditioner, ViewPreconditioner
from ..data.kernels import Fourier, Gram, Kernel, Learned, Nystroem
from ..data.sparse_format import require_sound
from ..machine.arrays import Array
from ..solvers import registry
from ..solvers.convergence import Watch
from ..solvers.problem import Diagnostics, Limits, Problem, Saved
from ..solvers.protocol import Options
from ..solvers.sparse.thresholds import Sparsity
from .field_types import require_types
from .streams.kinds import Stream
from .streams.steps import Buffered, Steps
from .streams.sums import Sums

# Records that files may hold, besides those of the solvers' states. A tag names a record and the version of
# its fields; it never names a Python module, so that moving a file orphans no model. Nothing else is ever
# built from a file.
RECORDS: dict[str, Any] = {
    "buffered-rows/1": Buffered,
    "fourier-map/1": Fourier,
    "gram-map/1": Gram,
    "kernel/1": Kernel,
    "kernel-facts/1": Learned,
    "limits/1": Limits,
    "moments/1": Moments,
    "nystroem-map/1": Nystroem,
    "options/1": Options,
    "preconditioner/1": Preconditioner,
    "problem/1": Problem,
    "diagnostics/1": Diagnostics,
    "run/1": Saved,
    "second-moments/1": SecondMoments,
    "sparsity/1": Sparsity,
    "stream/1": Stream,
    "stream-steps/1": Steps,
    "stream-sums/1": Sums,
    "view-moments/1": ViewMoments,
    "view-preconditioner/1": ViewPreconditioner,
    "watch/1": Watch,
}


# Fields that were added to a record after 0.2.0, by its tag: files may lack them. What 0.1.0 lacked is in
# `old_files`.
ADDED: dict[str, tuple[str, ...]] = {}


def records() -> dict[str, Any]:
    """Return all records by their tags, including those of solvers' states."""
    return RECORDS | {
        tag: cls for name in registry.SOLVERS for tag, cls in registry.solver(name).records.items()
    }


def packed(tree: Any, prefix: str = "a") -> tuple[Any, dict[str, Array]]:
    """Return a tree of records and tuples as JSON, and its arrays by names that begin with the prefix."""
    arrays: dict[str, Array] = {}
    tags = {cls: tag for tag, cls in records().items()}

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
        tag = tags.get(type(tree))
        if tag is None:
            return {"tuple": [pack(part) for part in tree]}
        return {"record": tag, "fields": {name: pack(getattr(tree, name)) for name in _fields(type(tree))}}

    return pack(tree), arrays


def unpacked(spec: Any, arrays: dict[str, Array]) -> Any:
    """Return the tree that was packed; raise KeyError, TypeError or ValueError if the spec is invalid."""
    classes = records()

    def unpack(spec: Any) -> Any:
        if not isinstance(spec, dict):
            return spec
        if "array" in spec:
            return arrays[spec["array"]]
        if "csr" in spec:
            return _sparse(*(unpack(part) for part in spec["csr"]))
        if "tuple" in spec:
            return tuple(unpack(part) for part in spec["tuple"])
        found = {name: unpack(part) for name, part in spec["fields"].items()}
        tag = spec["record"]
        if tag in classes:
            lacking = [name for name in _fields(classes[tag]) if name not in (*found, *ADDED.get(tag, ()))]
            if lacking:
                raise ValueError(f"{tag} lacks {', '.join(lacking)}")
        return record(tag, found, classes)

    return unpack(spec)


def _sparse(data: Any, indices: Any, indptr: Any, rows: Any, columns: Any) -> Any:
    """Return a CSR matrix from its parts; TypeError or ValueError if these are not such."""
    if (
        not all(isinstance(part, np.ndarray) for part in (data, indices, indptr))
        or data.dtype.kind not in "biuf"
    ):
        raise TypeError("a sparse matrix is not of arrays of numbers")
    if not all(isinstance(size, int) and 0 <= size < 2**48 for size in (rows, columns)):
        raise TypeError(f"a sparse matrix has {rows!r} rows and {columns!r} columns")
    # Rows cost memory before anything is checked: there are no more than pointers.
    if len(indptr.shape) != 1 or len(indptr) != rows + 1:
        raise ValueError(f"a sparse matrix of {rows} rows has {indptr.size} pointers")
    m = sp.csr_array((rows, columns), dtype=data.dtype)
    m.data, m.indices, m.indptr = data, indices, indptr
    require_sound(m, "a matrix", full=True)
    return sp.csr_array(m)


def record(tag: str, found: dict[str, Any], classes: dict[str, Any] | None = None) -> Any:
    """Return the record with this tag and these fields; ValueError if some are missing or unknown.

    TypeError if a field is not of the type that the record says.

    `classes` are all records by their tags, where these are at hand.
    """
    cls = (records() if classes is None else classes).get(tag) if isinstance(tag, str) else None
    if cls is None:
        raise ValueError(f"there is no record {tag!r}: of another version?")
    known = _fields(cls)
    wrong = [name for name in found if name not in known]
    wrong += [name for name, required in known.items() if required and name not in found]
    if wrong:
        raise ValueError(f"the fields of {tag} are not these: {', '.join(wrong)}; of another version?")
    require_types(cls, found)
    return cls(**found)


def _fields(cls: Any) -> dict[str, bool]:
    """Return the fields of a record; True marks those that must be given."""
    if is_dataclass(cls):
        return {f.name: f.default is MISSING and f.default_factory is MISSING for f in fields(cls)}
    return {name: name not in cls._field_defaults for name in cls._fields}


def same_parts(a: Any, b: Any) -> bool:
    """True if two trees of tuples are equal, arrays by their values."""
    if isinstance(a, tuple):
        pairs = type(a) is type(b) and len(a) == len(b)
        return pairs and all(map(same_parts, a, b))
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and np.array_equal(a, b)
    if sp.issparse(a):
        return bool(sp.issparse(b) and a.shape == b.shape and (a != b).nnz == 0)
    return bool(a == b)


def plain_generator(rng: np.random.Generator) -> Any:
    """Return the state of a generator in types that JSON can hold."""

    def plain(state: Any) -> Any:
        if isinstance(state, dict):
            return {name: plain(part) for name, part in state.items()}
        if isinstance(state, np.ndarray):
            return {"array": state.tolist(), "dtype": str(state.dtype)}
        return state.item() if isinstance(state, np.generic) else state

    return plain(rng.bit_generator.state)


def restored_generator(plain: dict[str, Any]) -> np.random.Generator:
    """Return numpy's generator with this state."""

    def parts(value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"array", "dtype"}:
            return np.array(value["array"], dtype=value["dtype"])
        return {name: parts(part) for name, part in value.items()} if isinstance(value, dict) else value

    kinds = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
    if plain["bit_generator"] not in kinds:
        raise ValueError(f"{plain['bit_generator']!r} is no generator of numpy's")
    generator = np.random.Generator(getattr(np.random, plain["bit_generator"])())
    generator.bit_generator.state = parts(plain)
    return generator
