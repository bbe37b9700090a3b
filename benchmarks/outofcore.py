"""Files larger than memory: a fit in a process that may not have much of its own.

    python benchmarks/outofcore.py [--gigabytes 6] [--folder DIR] [--record FILE]

Makes a pair of .npy files, and fits them in a process whose RLIMIT_DATA is 1 GB above what it has after its
imports (a limit on address space would refuse the mapping itself). The unit is the time of reading both files
once with plain sums over np.memmap; peak RssAnon is sampled.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import warnings
from pathlib import Path

import numpy as np

from measure import in_fresh_process, peak_extra_memory, seconds

COLUMNS, RANK = 300, 10


def make(folder: Path, gigabytes: float) -> None:
    """Two views of the same factors, in blocks."""
    rng = np.random.default_rng(0)
    n = int(gigabytes * 1e9 / (2 * COLUMNS * 8))
    A, B = rng.standard_normal((2, RANK, COLUMNS))
    for name, mix in (("x", A), ("y", B)):
        m = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float64, (n, COLUMNS))
        factors = np.random.default_rng(1)
        noise = np.random.default_rng(2 if name == "x" else 3)
        for start in range(0, n, 50000):
            rows = min(50000, n - start)
            m[start : start + rows] = factors.standard_normal((rows, RANK)) @ mix
            m[start : start + rows] += 3 * noise.standard_normal((rows, COLUMNS))
        m.flush()


def read(folder: Path) -> float:
    """Seconds of summing up both files, block by block."""

    def total() -> None:
        for name in ("x", "y"):
            m = np.load(folder / f"{name}.npy", mmap_mode="r")
            for start in range(0, len(m), 10000):
                m[start : start + 10000].sum()

    return seconds(total)


def limited(folder: Path, solver: str) -> None:
    """In a process of its own: fit within the limit, and print what it took."""
    from appgrad import CCA, open_views

    data = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmData" in line)
    limit = int(data.split()[1]) * 1024 + 10**9
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    views = open_views(folder / "x.npy", folder / "y.npy")
    model = CCA(10, solver=solver, random_state=0, max_iter=8 if solver == "lobpcg" else None)
    found: dict = {}

    def fit() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["seconds"] = seconds(lambda: model.fit(views))

    found["memory"] = peak_extra_memory(fit)
    found |= {"passes": model.n_passes_, "tcc": float(model.canonical_correlations_.sum())}
    print(json.dumps(found))


def main() -> None:
    """Make the files, measure, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=6.0)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--limited", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    if args.limited:
        limited(Path(args.limited[0]), args.limited[1])
        return
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = Path(name)
        make(folder, args.gigabytes)
        record: dict = {"gigabytes": args.gigabytes}
        for solver in ("exact", "lobpcg", "stochastic"):
            before = read(folder)
            found = in_fresh_process(__file__, "--limited", str(folder), solver)
            unit = (before + read(folder)) / 2
            if "seconds" in found:
                found |= {"read_seconds": unit, "ratio": found["seconds"] / (unit * found["passes"])}
            record[solver] = found
            print(solver, json.dumps(found), flush=True)
    if args.record:
        args.record.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
