"""Time of `from appgrad import CCA`, over that of scikit-learn's own CCA.

    python -m benchmarks import_time [--rounds 5] [--old DIR] [--record FILE]

Each import in a process of its own, in turns, after one of each that is not counted; ratios are those of
medians. `--old` is the `src` folder of another version, whose time is measured in turns with the others.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

from .measure import save

SCRIPT = "import time; start = time.perf_counter(); from {} import CCA; print(time.perf_counter() - start)"
BAR = 1.15


def seconds(module: str, folder: Path | None = None) -> float:
    """Time of the import in a fresh process, of the version in a folder if one is given."""
    environment = dict(os.environ) | ({} if folder is None else {"PYTHONPATH": str(folder.resolve())})
    # An installed package is compiled once: the first import, which is not counted, does it here.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", SCRIPT.format(module)]
    return float(subprocess.run(command, capture_output=True, check=True, env=environment).stdout)


def main() -> None:
    """Measure in turns, print, record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--old", type=Path)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    calls = {"scikit-learn": ("sklearn.cross_decomposition", None), "appgrad": ("appgrad", None)}
    if args.old is not None:
        calls["old appgrad"] = "appgrad", args.old
    rounds = [{name: seconds(*call) for name, call in calls.items()} for _ in range(args.rounds + 1)][1:]
    medians = {name: statistics.median(each[name] for each in rounds) for name in calls}
    ratios = {name: median / medians["scikit-learn"] for name, median in medians.items()}
    for name, ratio in ratios.items():
        print(f"{name:14} {medians[name]:6.2f} s {ratio:6.2f} x")
    print(f"the bar for appgrad is {BAR} x")
    if args.record:
        save(args.record, {"rounds": rounds, "seconds": medians, "ratios": ratios, "bar": BAR})
