"""Checkpoints: save the state of an iterative solver in a file, and resume from it."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..data.arrays import gathered
from ..data.fingerprint import Identity, RowSums
from ..data.views import Views
from ..machine.arrays import Array
from ..solvers.problem import Progress, Saved
from ..version import __version__
from . import archive, old_files
from .saved_state import packed, plain_generator, restored_generator, unpacked

FORMAT = "appgrad-checkpoint"
# Seconds between two writes.
EVERY = 30.0
# Number of rows whose values identified a data set in files without a fingerprint of all rows.
SAMPLED = 64
# Array of a file: the rows that had been read, as bits, while these were not yet all.
READ = "rows_read"


# What is said of facts that would not be understood if they were shown.
SAID = {"names": "its columns had other names", "values": "its rows had other values, or names"}


class CheckpointFile(NamedTuple):
    """Path of a checkpoint, the seconds between two writes, and the parameters of the run."""

    path: str | os.PathLike[str]
    every: float
    params: dict[str, Any]


class Checkpoint:
    """A file with the state of a run, from which another run can resume.

    `params` are the parameters that determine the run. A run with others, or on other data, is refused.
    """

    def __init__(self, file: CheckpointFile, views: Views) -> None:
        self.path, self.every = Path(file.path), file.every
        self.views = views
        self.facts = {"data": _facts(views), "params": file.params}
        self.saved: Saved | None = None
        self.rng: Any = None
        self.identity = Identity(views.n_samples)
        self._last = time.perf_counter()
        archive.require_writable(self.path)
        if self.path.exists():
            self._read()

    def follow(self, rng: np.random.Generator) -> np.random.Generator:
        """Return the generator of the run; when resuming, as it was at the start of the saved run."""
        if self.rng is None:
            self.rng = plain_generator(rng)
            return rng
        return restored_generator(self.rng)

    def watching(self, callback: Callable[[Progress], Any] | None) -> Callable[[Progress], Any]:
        """A callback that also writes checkpoints."""

        def write(progress: Progress) -> Any:
            self.write_if_due(progress)
            return None if callback is None else callback(progress)

        return write

    def write_if_due(self, progress: Progress) -> None:
        """Write the state of a run if `every` seconds have passed since the last write."""
        if time.perf_counter() - self._last >= self.every:
            self.write(progress)

    def write(self, progress: Progress) -> None:
        """Write the state of a run; the old file stays until the new one is complete.

        If the file cannot be written, the run continues with a warning.
        """
        if progress.saved is None:
            return
        spec, arrays = packed(progress.saved())
        arrays |= self._rows_read()
        meta = {
            "fingerprint": [str(part) for part in self.identity.sums],
            "library": __version__,
            "state": spec,
            "rng": self.rng,
            "groups": self.views.groups,
            **self.facts,
        }
        try:
            archive.write(self.path, arrays, meta, FORMAT)
        except OSError as error:
            warnings.warn(f"the checkpoint {self.path} cannot be written: {error}", UserWarning, stacklevel=2)
        self._last = time.perf_counter()

    def _rows_read(self) -> dict[str, Array]:
        """The rows that the fingerprint is of, as an array; none if it is of all."""
        if self.identity.complete:
            return {}
        seen = self.identity.seen
        return {READ: np.packbits(np.zeros(self.identity.n, bool) if seen is None else seen)}

    def _read(self) -> None:
        arrays, meta = archive.read(self.path, FORMAT)
        ours = self.facts["data"]
        theirs = meta.get("data")
        if not isinstance(theirs, dict) or not isinstance(meta.get("params"), dict):
            raise ValueError(f"{self.path} is damaged (it holds no facts of a run): remove it to start anew")
        facts, params = dict(ours), self.facts["params"]
        if "fingerprint" not in meta:
            # Written before all rows were looked at.
            del facts["names"]
            facts["values"] = _values(self.views)
        for found, expected in ((theirs, facts), (meta["params"], params)):
            for name, value in expected.items():
                if found.get(name) != value:
                    self._refuse(SAID.get(name, f"{name} was {found.get(name)!r}, and is {value!r}"))
        if "fingerprint" in meta:
            self._expect(meta["fingerprint"], arrays.pop(READ, None))
        try:
            read = old_files.run if meta["version"] == 1 else unpacked
            self.saved, self.rng = read(meta["state"], arrays), meta["rng"]
            if not isinstance(self.saved, Saved):
                raise TypeError("it holds no state of a run")
            restored_generator(self.rng)
            groups = meta.get("groups")
            if groups is not None and self.views.groups not in (None, int(groups)):
                # Keep the groups of the saved run, however many workers there are now, so that sums are added
                # in the same order.
                self.views.regroup(int(groups))
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            raise ValueError(f"{self.path} is damaged ({error!r}): remove it to start anew") from error

    def _expect(self, sums: Any, rows: Array | None) -> None:
        """Have rows compared with those of the saved run, in the first pass over them."""
        n = self.identity.n
        try:
            expected = RowSums(*map(int, sums))
            among = None if rows is None else np.unpackbits(rows, count=n).astype(bool)
            if expected.rows != (n if among is None else int(among.sum())):
                raise ValueError("its fingerprint is of other rows")
        except (TypeError, ValueError) as error:
            raise ValueError(f"{self.path} is damaged ({error!r}): remove it to start anew") from error
        self.identity = Identity(n, (expected, among), self._differ)

    def _differ(self, theirs: RowSums, ours: RowSums) -> None:
        self._refuse(theirs.difference(ours, self.views.view_names) or "its rows differ")

    def _refuse(self, found: str) -> None:
        raise ValueError(f"{self.path} is of another run: {found}; give another file, or remove it")


def _facts(views: Views) -> dict[str, Any]:
    """Return what identifies the data before any row is read: shape, precision and names."""
    named = [None if names is None else list(map(str, names)) for names in views.names]
    return {
        "rows": views.n_samples,
        "columns": [views.n_features_x, views.n_features_y],
        "precision": str(views.dtype),
        "names": hashlib.sha256(repr(named).encode()).hexdigest()[:32],
    }


def _values(views: Views) -> str:
    """Return a hash of names and a few rows, as files had it before all rows were looked at."""
    n = views.n_samples
    digest = hashlib.sha256()
    rows = np.sort(np.random.default_rng(0).choice(n, min(n, SAMPLED), replace=False))
    sample = gathered(views.take(rows))
    for m in (sample.x, sample.y):
        for part in (m.data, m.indices, m.indptr) if sp.issparse(m) else (m,):
            digest.update(np.ascontiguousarray(part).astype(np.float64).tobytes())
    for names in views.names:
        digest.update(repr(None if names is None else list(map(str, names))).encode())
    return digest.hexdigest()[:32]
