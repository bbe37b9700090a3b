"""Runs that survive being killed: the state of an iterative solver in a file, and back."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from . import persist
from .moments import Moments
from .solve import Progress, Report, Saved
from .solvers import als, appgrad, lobpcg, stochastic
from .version import __version__
from .views import Array, Views, gathered

FORMAT = "appgrad-checkpoint"
# Seconds between two writes.
EVERY = 30.0
# What states are made of, by name: nothing else is ever built from a file.
CLASSES: dict[str, Any] = {
    f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}": cls
    for cls in (
        Report,
        Moments,
        als.State,
        appgrad.State,
        lobpcg.State,
        lobpcg.Vectors,
        lobpcg.Grams,
        stochastic.State,
        stochastic.Trial,
    )
}
# Rows whose values tell one data set from another.
SAMPLED = 64


class Checkpoint:
    """A file that follows a run, and from which another run goes on.

    `params` are those that shape the run: with others, or on other data, it is not continued.
    """

    def __init__(
        self, path: str | os.PathLike[str], every: float, views: Views, params: dict[str, Any]
    ) -> None:
        self.path, self.every = Path(path), every
        self.facts = {"data": _fingerprint(views), "params": params}
        self.saved: Saved | None = None
        self.rng: Any = None
        self._last = time.perf_counter()
        persist.require_writable(self.path)
        if self.path.exists():
            self._read()

    def follow(self, rng: np.random.Generator) -> np.random.Generator:
        """The generator of the run: as it was at the start of the one to go on with."""
        if self.rng is None:
            self.rng = _plain(rng.bit_generator.state)
            return rng
        return _restored(self.rng)

    def write_if_due(self, progress: Progress) -> None:
        """Write the state of a run, unless the last time is not long ago."""
        if time.perf_counter() - self._last >= self.every:
            self.write(progress)

    def write(self, progress: Progress) -> None:
        """Write the state of a run: the old file stays until the new one is whole."""
        if progress.saved is None:
            return
        arrays: list[Array] = []
        spec = _packed(progress.saved(), arrays)
        meta = {"library": __version__, "state": spec, "rng": self.rng, **self.facts}
        persist.write(self.path, {f"a{i}": a for i, a in enumerate(arrays)}, meta, FORMAT)
        self._last = time.perf_counter()

    def _read(self) -> None:
        arrays, meta = persist.read(self.path, None, FORMAT)
        for what, ours in self.facts.items():
            theirs = meta.get(what, {})
            for name, value in ours.items():
                if theirs.get(name) != value:
                    raise ValueError(
                        f"{self.path} is of another run: {name} was {theirs.get(name)!r}, and is "
                        f"{value!r}; give another file, or remove it"
                    )
        try:
            saved = _unpacked(meta["state"], arrays)
            self.saved, self.rng = Saved(*saved), meta["rng"]
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise ValueError(f"{self.path} is damaged ({error!r}): remove it to start anew") from error


def _fingerprint(views: Views) -> dict[str, Any]:
    """Shape, precision, names and the values of a few rows."""
    n = views.n_samples
    digest = hashlib.sha256()
    rows = np.sort(np.random.default_rng(0).permutation(n)[:SAMPLED])
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


def _packed(tree: Any, arrays: list[Array]) -> Any:
    """A state as JSON, its arrays apart."""
    if isinstance(tree, np.ndarray):
        arrays.append(tree)
        return {"array": len(arrays) - 1}
    if isinstance(tree, np.generic):
        return tree.item()
    if tree is None or isinstance(tree, bool | int | float | str):
        return tree
    name = f"{type(tree).__module__.rpartition('.')[2]}.{type(tree).__name__}"
    parts = [_packed(part, arrays) for part in tree]
    return {"class": name, "parts": parts} if name in CLASSES else {"tuple": parts}


def _unpacked(spec: Any, arrays: dict[str, Array]) -> Any:
    if not isinstance(spec, dict):
        return spec
    if "array" in spec:
        return arrays[f"a{spec['array']}"]
    parts = tuple(_unpacked(part, arrays) for part in spec["parts" if "class" in spec else "tuple"])
    return CLASSES[spec["class"]](*parts) if "class" in spec else parts


def _plain(state: Any) -> Any:
    """The state of a generator as JSON holds it."""
    if isinstance(state, dict):
        return {name: _plain(part) for name, part in state.items()}
    if isinstance(state, np.ndarray):
        return {"array": state.tolist(), "dtype": str(state.dtype)}
    return state.item() if isinstance(state, np.generic) else state


def _restored(plain: dict[str, Any]) -> np.random.Generator:
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
