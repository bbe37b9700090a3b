"""Files larger than memory: a fit in a process that may not have much of its own.

    python -m benchmarks larger_than_memory [--gigabytes 6] [--columns 50 300] [--folder DIR] [--record FILE]

Makes pairs of .npy files, and fits them in a process whose RLIMIT_DATA is 1 GB above what it has after its
imports (a limit on address space would refuse the mapping itself); peak RssAnon is sampled. The unit is the
time of reading both files once with plain sums over np.memmap. `disk`: the files are put out of the page
cache before every reading and every pass, as they would be were they larger than memory. `cached`: they stay
in it, so that the unit is the speed of memory.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import resource
import tempfile
import warnings
from itertools import product
from pathlib import Path

import numpy as np

from .measure import in_fresh_process, peak_extra_memory, save, seconds

RANK = 10
NAMES = ("x", "y")


def make(folder: Path, gigabytes: float, columns: int) -> None:
    """Two views of the same factors, in blocks."""
    rng = np.random.default_rng(0)
    n = int(gigabytes * 1e9 / (2 * columns * 8))
    mixes = rng.standard_normal((2, RANK, columns))
    for view, (name, mix) in enumerate(zip(NAMES, mixes, strict=True)):
        m = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float64, (n, columns))
        factors, noise = np.random.default_rng(1), np.random.default_rng(2 + view)
        for start in range(0, n, 50000):
            rows = min(50000, n - start)
            m[start : start + rows] = factors.standard_normal((rows, RANK)) @ mix
            m[start : start + rows] += 3 * noise.standard_normal((rows, columns))
        m.flush()


def evict(folder: Path, *mapped: np.memmap) -> None:
    """Remove both files from the page cache; mapped parts would stay there unless they are released."""
    for m in mapped:
        m._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
    for name in NAMES:
        file = os.open(folder / f"{name}.npy", os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def read(folder: Path, disk: bool) -> float:
    """Seconds of summing up both files, block by block."""

    def total() -> None:
        for name in NAMES:
            m = np.load(folder / f"{name}.npy", mmap_mode="r")
            for start in range(0, len(m), 10000):
                m[start : start + 10000].sum()

    if disk:
        evict(folder)
    return seconds(total)


def limited(folder: Path, solver: str, disk: bool) -> None:
    """In a process of its own: fit within the limit, and print what it took."""
    from appgrad import CCA, open_views
    from appgrad.data.derived import CountedViews

    data = next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmData" in line)
    limit = int(data.split()[1]) * 1024 + 10**9
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    views = open_views(folder / "x.npy", folder / "y.npy")

    class FromDisk(CountedViews):
        """Views whose files are put out of the page cache before every pass."""

        def parts(self, dtype=None):
            evict(folder, views.x, views.y)
            return super().parts(dtype)

        def run(self, sweep):
            evict(folder, views.x, views.y)
            return super().run(sweep)

    model = CCA(10, random_state=0, solver=solver, **BUDGETS[solver])
    found: dict = {}

    def fit() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["seconds"] = seconds(lambda: model.fit(FromDisk(views) if disk else views))

    found["memory"] = peak_extra_memory(fit)
    found |= {"passes": model.n_passes_, "tcc": float(model.canonical_correlations_.sum())}
    print(json.dumps(found))


# Enough of each solver to measure a pass.
BUDGETS: dict[str, dict] = {"exact": {}, "lobpcg": {"max_iter": 8}, "stochastic": {"max_seconds": 60}}


def main() -> None:
    """Make the files, measure, print, record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gigabytes", type=float, default=6.0)
    parser.add_argument("--columns", type=int, nargs="+", default=[50, 300])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--limited", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    if args.limited:
        folder, solver, where = args.limited
        limited(Path(folder), solver, where == "disk")
        return
    record: dict = {"gigabytes": args.gigabytes}
    for columns in args.columns:
        with tempfile.TemporaryDirectory(dir=args.folder) as name:
            folder = Path(name)
            make(folder, args.gigabytes, columns)
            for solver, where in product(BUDGETS, ("disk", "cached")):
                read(folder, False)
                before = read(folder, where == "disk")
                found = in_fresh_process(__file__, "--limited", str(folder), solver, where)
                unit = (before + read(folder, where == "disk")) / 2
                if "seconds" in found:
                    found |= {"read_seconds": unit, "ratio": found["seconds"] / (unit * found["passes"])}
                record[f"{columns} + {columns} columns, {solver}, {where}"] = found
                print(columns, solver, where, json.dumps(found), flush=True)
    if args.record:
        save(args.record, record)
