"""Exact CCA of the two halves of the MNIST images: ours, its peers, and the bare product Z'Z, in one run.

    APPGRAD_DATA=folder python -m benchmarks exact_mnist [--full]

The unit is the BLAS product Z.T @ Z for Z = [X Y] in double precision, which any solution by covariances has
to do. scikit-learn runs on a subset of the rows unless --full is given (about four minutes).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np

from .measure import in_fresh_process, peak_extra_memory, save, seconds

K = 20
SUBSET = 3000
ROUNDS = 9


def halves() -> tuple[np.ndarray, np.ndarray]:
    """The left and right halves of the training images, as doubles."""
    path = Path(os.environ.get("APPGRAD_DATA", "")) / "mnist" / "mnist.npz"
    if not path.exists():
        sys.exit("set APPGRAD_DATA to the folder that holds mnist/mnist.npz, with an array X_train")
    with np.load(path) as archive:
        images = archive["X_train"]
    return tuple(  # type: ignore[return-value]
        np.ascontiguousarray(half.reshape(len(half), -1), dtype=np.float64)
        for half in (images[:, :, :14], images[:, :, 14:])
    )


def fits(X: np.ndarray, Y: np.ndarray) -> dict[str, Callable[[], object]]:
    """The other packages that are installed, each as a call."""
    from sklearn.cross_decomposition import CCA as SklearnCCA  # noqa: N811

    import appgrad

    calls = {
        "appgrad": lambda: appgrad.CCA(K).fit(X, Y).canonical_correlations_,
        "appgrad qr": lambda: appgrad.CCA(K, solver="qr").fit(X, Y).canonical_correlations_,
        "scikit-learn": lambda: SklearnCCA(K, scale=False).fit(X, Y),
    }
    try:
        from cca_zoo.linear import CCA as ZooCCA  # noqa: N811

        calls["cca_zoo"] = lambda: ZooCCA(K).fit([X, Y])
    except ImportError:
        pass
    return calls


def against_the_bare_product(Z: np.ndarray, fit: Callable[[], object]) -> tuple[list[float], list[float]]:
    """Seconds of Z.T @ Z and of a fit, interleaved, so that a busy moment of the machine hits both."""
    rounds = [(seconds(lambda: Z.T @ Z), seconds(fit)) for _ in range(ROUNDS)]
    return [bare for bare, _ in rounds], [ours for _, ours in rounds]


def memory_of(name: str) -> None:
    """In a process of its own: print the peak extra memory of one fit."""
    X, Y = halves()
    if name == "scikit-learn":
        X, Y = X[:SUBSET], Y[:SUBSET]
    # A small fit first: it loads what is loaded only once, such as the threads of BLAS.
    fits(X[:1500], Y[:1500])["appgrad"]()
    print(json.dumps({"extra": peak_extra_memory(fits(X, Y)[name]), "data": X.nbytes + Y.nbytes}))


def main() -> None:
    """Measure, print the table and write the record."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--full", action="store_true", help="scikit-learn on all rows")
    arguments.add_argument("--memory-of", help=argparse.SUPPRESS)
    arguments.add_argument("--record", type=Path, help="write the figures to this JSON file")
    options = arguments.parse_args()
    if options.memory_of:
        memory_of(options.memory_of)
        return
    X, Y = halves()
    calls = fits(X, Y)
    calls["appgrad"]()
    bare, ours = against_the_bare_product(np.hstack([X, Y]), calls["appgrad"])
    unit = statistics.median(bare)
    rows = {"Z.T @ Z": unit, "appgrad": statistics.median(ours), "appgrad qr": seconds(calls["appgrad qr"])}
    if "cca_zoo" in calls:
        rows["cca_zoo"] = seconds(calls["cca_zoo"])
    n = len(X) if options.full else SUBSET
    rows["scikit-learn"] = seconds(fits(X[:n], Y[:n])["scikit-learn"])
    record = {
        "date": datetime.date.today().isoformat(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {p: version(p) for p in ("appgrad", "numpy", "scipy", "scikit-learn")},
        "problem": f"{len(X)} x {X.shape[1]} + {Y.shape[1]}, k = {K}, float64",
        "rounds": {"bare": bare, "appgrad": ours},
        "results": {},
    }
    if "cca_zoo" in calls:
        record["versions"]["cca-zoo"] = version("cca-zoo")
    print(f"MNIST halves, {record['problem']}; medians of {ROUNDS} rounds for the first two")
    print(f"{'':14} {'seconds':>9} {'x Z.T @ Z':>10} {'x ours':>8} {'memory':>9} {'x data':>7}")
    for name, time in rows.items():
        line = f"{name:14} {time:9.2f} {time / unit:10.2f} {time / rows['appgrad']:8.1f}"
        entry = {"seconds": time, "ratio_to_bare": time / unit, "ratio_to_ours": time / rows["appgrad"]}
        if name != "Z.T @ Z":
            memory = in_fresh_process(__file__, "--memory-of", name)
            entry["memory"] = memory
            if "extra" in memory:
                line += f" {memory['extra'] / 2**20:6.0f} MB {memory['extra'] / memory['data']:7.2f}"
        if name == "scikit-learn":
            entry["rows"] = n
            line += f"   ({n} of {len(X)} rows)"
        record["results"][name] = entry
        print(line)
    if options.record:
        save(options.record, record)
