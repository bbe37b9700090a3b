"""This code against another version: both in turns, ratios of medians of time and memory, passes, FLOP.

    python -m benchmarks versions FOLDER [--rounds 5] [--only NAME] [--record FILE]

FOLDER is the `src` of the other version, a checkout beside this one. Every fit runs in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

# Each script fits, and sets `model` and `seconds`. They use the public API only: versions differ in the rest.
START = """
import json, os, resource, sys, time, warnings
import numpy as np, scipy.sparse as sp
warnings.simplefilter("ignore")
from appgrad import CCA
folder = os.environ.get("APPGRAD_DATA", ".")
"""
END = """
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
history = model.history_[-1]
print(json.dumps({"seconds": seconds, "passes": model.n_passes_, "flops": history["flops"], "memory": peak}))
"""
FITS = {
    "mnist exact": """
from appgrad.datasets import load_mnist
X, y, *_ = load_mnist(folder)
CCA(20).fit(X[:2000], y[:2000])
start = time.perf_counter()
model = CCA(20).fit(X, y)
seconds = time.perf_counter() - start
""",
    "debian_paths, ten iterations of lobpcg": """
X, y = (sp.csr_array(sp.load_npz(f"{folder}/debian_paths/{name}.npz")) for name in ("X_dir", "X_file"))
model = CCA(20, solver="lobpcg", ridge=1e-5, max_iter=10, random_state=0)
start = time.perf_counter()
model.fit(X, y)
seconds = time.perf_counter() - start
""",
    "200 rows, a hundred fits": """
rng = np.random.default_rng(0)
X, y = rng.standard_normal((200, 10)), rng.standard_normal((200, 8))
model = CCA(2).fit(X, y)
start = time.perf_counter()
for _ in range(100):
    model = CCA(2).fit(X, y)
seconds = time.perf_counter() - start
""",
    # One fit varies by a third, which is the scheduler's doing: the median of twenty, after two to warm up.
    "dask, exact, twenty fits": """
import statistics
import dask.array as da
from distributed import Client, LocalCluster
if __name__ == "__main__":
    rng = np.random.default_rng(0)
    parts = rng.standard_normal((200_000, 100))
    X, y = (da.from_array(part, chunks=(20_000, -1)) for part in (parts[:, :60], parts[:, 60:]))
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
        times = []
        for _ in range(22):
            start = time.perf_counter()
            model = CCA(5, solver="exact").fit(X, y)
            times.append(time.perf_counter() - start)
        seconds = statistics.median(times[2:])
        __END__
""",
}


def measured(name: str, source: Path) -> dict[str, float]:
    """Time, memory, passes and FLOP of one fit with the code in a folder."""
    body = FITS[name]
    indented = END.strip().replace("\n", "\n        ")
    script = START + (body.replace("__END__", indented) if "__END__" in body else body + END)
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-P", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} with {source}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(name: str, old: Path, new: Path, rounds: int) -> dict[str, object]:
    """Both versions in turns: medians of seconds and memory, their ratios, and if the work is the same."""
    found: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
    for turn in range(rounds):
        # The second one finds warm caches: take turns in that too.
        order = ("old", "new") if turn % 2 == 0 else ("new", "old")
        for which in order:
            found[which].append(measured(name, old if which == "old" else new))
    median = {
        which: {key: statistics.median(run[key] for run in runs) for key in ("seconds", "memory")}
        for which, runs in found.items()
    }
    first, last = found["old"][0], found["new"][0]
    return {
        "median": median,
        "seconds": median["new"]["seconds"] / median["old"]["seconds"],
        "memory": median["new"]["memory"] / median["old"]["memory"],
        "same passes": first["passes"] == last["passes"],
        "same flops": str(first["flops"]) == str(last["flops"]),
    }


def main() -> None:
    """Compare, print a line for each fit, and keep a record if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    new, record = Path(__file__).parent.parent / "src", {}
    for name in (name for name in FITS if args.only in name):
        record[name] = found = compared(name, args.folder.resolve(), new.resolve(), args.rounds)
        print(
            f"{name}: {found['seconds']:.3f} of the time, {found['memory']:.3f} of the memory, "
            f"passes {'equal' if found['same passes'] else 'DIFFER'}, "
            f"FLOP {'equal' if found['same flops'] else 'DIFFER'}",
            flush=True,
        )
    if args.record is not None:
        from .measure import save

        save(args.record, record)


if __name__ == "__main__":
    main()
