"""Which files a source stands for, in order, and of which kind they are."""

from __future__ import annotations

import glob
import os
from pathlib import Path

from .parts import in_order

# Endings of file names, by kind of file.
TEXT = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
SVM = (".svm", ".svm.gz", ".svmlight", ".svmlight.gz")
HDF5 = (".h5", ".hdf5")
KINDS = (*TEXT, *SVM, *HDF5, ".npy", ".npz", ".parquet", ".zarr")
# Kinds with named arrays, and kinds that may be many files.
KEYED, MANY = (".npz", *HDF5, ".zarr"), (*SVM, ".parquet")


def source_files(source: str) -> list[str]:
    """The files that a source is read from; empty if there are none."""
    try:
        return files_of(source.split("::")[0])[0]
    except (OSError, ValueError):
        return []


def files_of(path: str) -> tuple[list[str], str]:
    """The files that a source stands for, in order, and their kind."""
    if path.rstrip("/").endswith(".zarr") and os.path.isdir(path):
        return [path], ".zarr"
    if os.path.isdir(path):
        found = _inside(path)
        if not found:
            raise IsADirectoryError(f"{path} is a folder without {', '.join(MANY)} files; give a file")
    elif os.path.exists(path):
        found = [path]
    elif glob.has_magic(path):
        found = []
        for name in glob.glob(path, recursive=True):
            folder = os.path.isdir(name) and _kind(name) != ".zarr"
            found += _inside(name) if folder else [name]
        found = in_order(sorted(set(found)))
        if not found:
            raise FileNotFoundError(f"{path}: no such files")
    else:
        raise FileNotFoundError(f"{path}: no such file")
    kinds = {_kind(name) for name in found}
    kind = kinds.pop()
    if kinds:
        raise ValueError(f"{path} holds files of different kinds: {', '.join(sorted({kind, *kinds}))}")
    if kind not in KINDS:
        raise ValueError(f"{path}: unknown kind of file; expected one of {', '.join(sorted(KINDS))}")
    if len(found) > 1 and kind not in MANY:
        raise ValueError(f"{path}: {len(found)} files; only {', '.join(MANY)} may be several")
    for name in found:
        if os.path.getsize(name) == 0:
            raise ValueError(f"{name} is empty")
    return found, kind


def _inside(folder: str) -> list[str]:
    """The files of a folder and of those in it, such as `date=2026-11-01/`, of kinds that may be many.

    As other programs do, it leaves out names that begin with a dot or an underscore: unfinished work.
    """
    found = []
    for where, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name[0] not in "._" and _kind(name) != ".zarr"]
        found += [os.path.join(where, name) for name in names if name[0] not in "._" and _kind(name) in MANY]
    return in_order(found)


def _kind(path: str) -> str:
    suffixes = Path(path).suffixes[-2:] if path.endswith(".gz") else Path(path).suffixes[-1:]
    return "".join(suffixes).lower()
