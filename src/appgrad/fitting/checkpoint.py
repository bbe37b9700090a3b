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
from ..data.views import Views
from ..solvers.problem import Progress, Saved
from ..version import __version__
from . import archive, old_files
from .saved_state import packed, plain_generator, restored_generator, unpacked

FORMAT = "appgrad-checkpoint"
# Seconds between two writes.
EVERY = 30.0
# Number of rows whose values identify a data set.
SAMPLED = 64


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
        self.facts = {"data": _fingerprint(views), "params": file.params}
        self.saved: Saved | None = None
        self.rng: Any = None
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
        meta = {
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

    def _read(self) -> None:
        arrays, meta = archive.read(self.path, FORMAT)
        for what, ours in self.facts.items():
            theirs = meta.get(what, {})
            for name, value in ours.items():
                if theirs.get(name) != value:
                    found = f"{name} was {theirs.get(name)!r}, and is {value!r}"
                    if name == "values":
                        found = "its rows had other values, or names"
                    raise ValueError(
                        f"{self.path} is of another run: {found}; give another file, or remove it"
                    )
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


def _fingerprint(views: Views) -> dict[str, Any]:
    """Return what identifies the data: shape, precision, and a hash of names and a few rows."""
    n = views.n_samples
    digest = hashlib.sha256()
    rows = np.sort(np.random.default_rng(0).choice(n, min(n, SAMPLED), replace=False))
    sample = gathered(views.take(rows))
    for m in (sample.x, sample.y):
        for part in (m.data, m.indices, m.indptr) if sp.issparse(m) else (m,):
            digest.update(np.ascontiguousarray(part).astype(np.float64).tobytes())
    for names in views.names:
        digest.update(repr(None if names is None else list(map(str, names))).encode())
    return {
        "rows": n,
        "columns": [views.n_features_x, views.n_features_y],
        "precision": str(views.dtype),
        "values": digest.hexdigest()[:32],
    }
