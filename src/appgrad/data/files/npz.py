"""Arrays in .npy files, arrays and sparse matrices in .npz files, checked before any number is used."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterable
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from ...machine.arrays import Array, Matrix
from ...machine.memory import physical_memory
from ..sparse_format import require_sound
from ..views import canonical_csr

# Arrays of a sparse matrix, besides "format", "shape" and "data", as scipy.sparse.save_npz names them.
PARTS = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}


def read_npy(path: str) -> Any:
    """The array of a file, which stays on disk until its numbers are used."""
    found = np.load(path, mmap_mode="r", allow_pickle=False)
    if hasattr(found, "files"):
        found.close()
        raise ValueError("it is an archive of arrays: rename it to .npz")
    return found


def read_npz(path: str, key: str | None) -> Matrix:
    """The array of a file that a key names, its only array, or its sparse matrix, as CSR."""
    with open(path, "rb") as file:
        archive = _opened(file)
        names = archive.files
        if key is None and {"format", "shape", "data"} <= set(names):
            return canonical_csr(_sparse(archive))
        if not names:
            raise ValueError("it holds no arrays")
        if key is None and len(names) != 1:
            raise ValueError(f"it holds the arrays {', '.join(names)}: choose one, as in {path}::{names[0]}")
        if key is not None and key not in names:
            raise ValueError(f"it has no array {key!r}; it has {', '.join(names)}")
        name = names[0] if key is None else key
        require_plausible(archive.zip, [name])
        return archive[name]


def read_sparse(path: Any) -> Any:
    """The sparse matrix that scipy.sparse.save_npz wrote, in its own format, checked in full."""
    with open(path, "rb") as file:
        return _sparse(_opened(file))


def _opened(file: IO[bytes]) -> Any:
    archive = np.load(file, allow_pickle=False)
    if not hasattr(archive, "files"):
        raise ValueError("it holds a single array: rename it to .npy")
    return archive


def _sparse(archive: Any) -> Any:
    require_plausible(archive.zip)
    kind = archive["format"]
    kind = kind.item() if kind.ndim == 0 else None
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else kind
    if not isinstance(kind, str) or kind not in PARTS:
        raise ValueError(f"it holds a sparse matrix of the format {kind!r}; expected {', '.join(PARTS)}")
    missing = [name for name in ("shape", "data", *PARTS[kind]) if name not in archive.files]
    if missing:
        raise ValueError(f"it holds a sparse matrix without {', '.join(missing)}")
    shape = _shape(archive["shape"])
    parts = [_index(name, archive[name]) for name in PARTS[kind]]
    m = _assembled(kind, _values(archive["data"]), parts, shape)
    require_sound(m, "it", full=True)
    return m


def _shape(found: Array) -> tuple[int, int]:
    """The shape of a matrix, checked before anything is made of that size."""
    if found.shape != (2,) or found.dtype.kind not in "iu" or np.any(found < 0):
        raise ValueError(f"its shape is {found.tolist()!r}; expected two whole numbers")
    rows, columns = map(int, found)
    have = physical_memory()
    if have is not None and 8 * max(rows, columns) > have:
        raise ValueError(f"its shape is {rows} x {columns}: more than this machine can hold")
    return rows, columns


def _values(found: Array) -> Array:
    """Values of a type that scipy's compiled code knows."""
    if found.dtype.kind not in "biuf":
        raise ValueError(f"it holds {found.dtype}, not real numbers")
    dtype = found.dtype.newbyteorder("=")
    if dtype.kind == "f":
        dtype = np.dtype(np.float32 if dtype.itemsize <= 4 else np.float64)
    return found.astype(dtype, copy=False)


def _index(name: str, found: Array) -> Array:
    """Indices as scipy's compiled code takes them: 32 or 64 bits, with a sign."""
    if found.dtype.kind not in "iu":
        raise ValueError(f"{name} of its sparse matrix has type {found.dtype}, expected integers")
    return found.astype(np.int32 if found.dtype.str[1:] == "i4" else np.int64, copy=False)


def _assembled(kind: str, data: Array, parts: list[Array], shape: tuple[int, int]) -> Any:
    """A sparse matrix of these parts, assigned one by one: constructors would look at them unchecked."""
    m = getattr(sp, f"{kind}_array")(shape, dtype=data.dtype)
    m.data = data
    if kind == "coo":
        m.coords = tuple(parts)
        return m
    for name, part in zip(PARTS[kind], parts, strict=True):
        setattr(m, name, part)
    return m


def require_plausible(archive: zipfile.ZipFile, names: Iterable[str] | None = None) -> None:
    """Raise an error, before allocating, if an npz claims more than it holds, or than memory can hold.

    Only arrays of these names are looked at, where they are given: others are not read.
    """
    total, wanted = 0, None if names is None else {f"{name}.npy" for name in names} | set(names)
    for info in archive.infolist():
        if wanted is not None and info.filename not in wanted:
            continue
        with archive.open(info) as member:
            version = np.lib.format.read_magic(member)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, _, dtype = read(member)
        # In Python's integers, which do not overflow.
        size = math.prod(shape) * dtype.itemsize
        if size > info.file_size and not dtype.hasobject:
            raise ValueError(f"{info.filename} claims {size} bytes and has {info.file_size}")
        total += info.file_size
    have = physical_memory()
    if have is not None and total > have:
        raise ValueError(f"its arrays would take {total / 1e9:.1f} GB; this machine has {have / 1e9:.1f} GB")
