"""Modules that a few common calls go through, and the number of borders they cross between two of them.

    python -m benchmarks walks [--only sparse stream report dask] [--list] [--rooms FILE] [--record FILE]

A crossing is what sends a reader elsewhere: a function that calls into another module (or room). Each pair of
function and module (or room) counts once, however often it runs and whatever it calls there. Reading a
property does not count. Nor does a call back: a function that is handed down to a room below is read where it
stands, so crossings between rooms are those that go down. The caller is the nearest function of
appgrad up the stack, so that calls by way of scipy, functools or a `with` count; the first call in a thread
has no caller. Lambdas and comprehensions belong to the function around them. Each walk runs twice and the
second run counts: no imports, and nothing that is computed once and kept. BLAS has two threads, on any
machine. The room of a module is its first name below appgrad; `--rooms` names a JSON file that gives other
rooms to modules, named without "appgrad.". `--list` shows the crossings between rooms.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import re
import runpy
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import dask.array as da
import numpy as np
import scipy.sparse as sp
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_limits

from appgrad import CCA

from .measure import save

ANONYMOUS = re.compile(r"(\.<locals>)?\.<(genexpr|lambda|listcomp|setcomp|dictcomp)>")
# Rooms from the top down.
ROOMS = (
    *("__main__", "cli", "experiments", "reporting", "estimators", "inference", "fitting", "solvers"),
    *("covariance", "datasets", "data", "metrics", "machine"),
)
COMMAND = ["appgrad", "fit", "x.npy", "y.npy", "-k", "2", "--report", "out.html", "-o", "m.cca"]


def views(n: int = 500, p: int = 8, q: int = 6) -> list[np.ndarray]:
    """Two dense views that share five latent columns."""
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((n, 5))
    return [rng.standard_normal((n, m)) + shared @ rng.standard_normal((5, m)) for m in (p, q)]


def sparse() -> None:
    """LOBPCG on sparse rows."""
    big = views(3000, 400, 300)
    CCA(5, solver="lobpcg", random_state=0).fit(*(sp.csr_array(np.where(v > 4, v, 0)) for v in big))


def stream() -> None:
    """The first rows of a stream, and their solution."""
    _ = CCA(2).partial_fit(*views()).canonical_correlations_


def report() -> None:
    """A fit on the command line, with a report."""
    said = io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(stack.enter_context(tempfile.TemporaryDirectory())))
        for name, data in zip("xy", views(), strict=True):
            np.save(name, data)
        stack.enter_context(patch.object(sys, "argv", COMMAND))
        stack.enter_context(contextlib.redirect_stdout(said))
        stack.enter_context(contextlib.redirect_stderr(said))
        try:
            runpy.run_module("appgrad", run_name="__main__")
        except SystemExit as end:
            if end.code:
                raise RuntimeError(said.getvalue()) from end


def dask() -> None:
    """Exact CCA on two Dask workers, which are threads of this process, so that their calls are seen too."""
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(**options, silence_logs=logging.CRITICAL) as cluster, Client(cluster):
        CCA(2, solver="exact").fit(*(da.from_array(data, chunks=(500, -1)) for data in views(2000)))


WALKS = {walk.__name__: walk for walk in (sparse, stream, report, dask)}


def module_of(frame: FrameType) -> str | None:
    """The module whose function a frame runs, without "appgrad."; None outside of appgrad."""
    package, _, module = str(frame.f_globals.get("__name__")).partition(".")
    return module if package == "appgrad" and frame.f_code.co_name != "<module>" else None


def is_property(frame: FrameType) -> bool:
    """True if a frame runs the property of an object."""
    owner = type(frame.f_locals.get("self"))
    return isinstance(getattr(owner, frame.f_code.co_name, None), property)


def is_below(room: str, other: str) -> bool:
    """True if a room is below another."""
    return ROOMS.index(room) > ROOMS.index(other)


class Seen:
    """A profiler of all threads: modules, and crossings (module, function, module)."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.crossings: set[tuple[str, str, str]] = set()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        """Record one call."""
        if event != "call" or (module := module_of(frame)) is None:
            return
        self.modules.add(module)
        caller = frame.f_back
        while caller is not None and (source := module_of(caller)) is None:
            caller = caller.f_back
        if caller is not None and source != module and not is_property(frame):
            self.modules.add(source)
            self.crossings.add((source, ANONYMOUS.sub("", caller.f_code.co_qualname), module))


def main() -> None:
    """Walk, print, record."""
    parser = argparse.ArgumentParser(description="Count modules and crossings of a few common calls.")
    parser.add_argument("--only", nargs="+", choices=WALKS, default=list(WALKS))
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--rooms", type=Path)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    others = json.loads(args.rooms.read_text()) if args.rooms else {}
    # One for all walks: threads that appgrad keeps from one walk to the next go on reporting to it.
    record, seen = {}, Seen()
    threading.setprofile(seen)
    for name in args.only:
        with threadpool_limits(2), warnings.catch_warnings(action="ignore"):
            sys.setprofile(seen)
            WALKS[name]()
            seen.modules, seen.crossings = set(), set()
            WALKS[name]()
            sys.setprofile(None)
        room = {module: others.get(module, module.partition(".")[0]) for module in seen.modules}
        between = sorted({(a, f, room[b]) for a, f, b in seen.crossings if is_below(room[b], room[a])})
        counts = len(room), len(seen.crossings), len({*room.values()}), len(between)
        record[name] = dict(zip(("modules", "crossings", "rooms", "room crossings"), counts, strict=True))
        print(f"{name:7}", ", ".join(f"{count} {what}" for what, count in record[name].items()), flush=True)
        for module, function, below in between if args.list else ():
            print(f"  {room[module]} -> {below}: {module}.{function}")
    if args.record:
        save(args.record, record)
