"""Time to 99, 99.9 and 99.99 % of the correlation, in units of one pass, beside another version of the code.

    APPGRAD_DATA=folder python -m benchmarks joint_head [FOLDER] [--only TEXT] [--rounds 3] [--record FILE]

FOLDER is the `src` of the other version, a checkout beside this one. Versions take turns, each fit in a
process of its own. The unit is X @ A, Y @ B, X.T @ [U V], Y.T @ [U V] with 25 columns in double precision, by
scipy, in the same process. Times are those of whole fits that would end there: to the iteration that
reaches the share, and from the last iteration to the fitted model. The correlation is that of the problem
with its ridge; all of it is the most that any run of both versions found.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from .lobpcg_time import PROBLEMS
from .measure import save

SHARES = (0.99, 0.999, 0.9999)
# The other version is stopped after so many seconds: it has 99.99 % before.
LONGEST = 60
SCRIPT = """
import json, sys, time, warnings
import numpy as np
import scipy.sparse as sp
from benchmarks.data_sets import DATA
from benchmarks.lobpcg_time import unit
from benchmarks.measure import peak_extra_memory
from appgrad import CCA
name, ridge, longest = sys.argv[1], sys.argv[2], float(sys.argv[3])
X, Y = DATA[name]()
one = unit(X, Y)
rng = np.random.default_rng(0)
warnings.simplefilter("ignore")
# What a process does once, such as loading libraries and starting threads, is not what is compared.
small = [sp.random_array((5000, 1200), density=0.01, rng=rng, format="csr") for _ in range(2)]
CCA(3, solver="lobpcg", ridge=1e-3, random_state=0).fit(*small)
limit = {} if longest <= 0 else {"max_seconds": longest}
model = CCA(20, solver="lobpcg", ridge=ridge if ridge == "auto" else float(ridge), random_state=0, **limit)
took = []
def fit():
    start = time.perf_counter()
    model.fit(X, Y)
    took.append(time.perf_counter() - start)
memory = peak_extra_memory(fit, 0.01)
one = min(one, unit(X, Y))
history = [[h["iteration"], h["passes"], h["seconds"], h["tcc"]] for h in model.history_]
found = {"unit": one, "seconds": took[0], "passes": model.n_passes_, "memory": memory}
print(json.dumps(found | {"history": history}))
"""


def run(source: Path, name: str, ridge: Any, longest: float) -> dict[str, Any]:
    """One fit with the code in a folder, in a process of its own."""
    # Benchmarks are those of this version.
    paths = os.pathsep.join([str(source), str(Path(__file__).parents[1])])
    command = [sys.executable, "-P", "-c", SCRIPT, name, str(ridge), str(longest)]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} with {source}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def told(runs: list[dict[str, Any]], best: float) -> dict[str, Any]:
    """Medians of the runs of one version: units to each share, of the whole fit, and what it held."""
    found: dict[str, Any] = {}
    for share in SHARES:
        reached = []
        for one in runs:
            last = one["history"][-1][2]
            at = next((h for h in one["history"] if h[3] >= share * best), None)
            if at is not None:
                end = one["seconds"] - last
                reached.append((at[0], at[1], (at[2] + end) / one["unit"]))
        if len(reached) == len(runs):
            iterations, passes, units = (statistics.median(part) for part in zip(*reached, strict=True))
            found[str(share)] = {"iterations": iterations, "passes": passes, "units": units}
    first = runs[0]
    return found | {
        "fit": {
            "iterations": first["history"][-1][0],
            "passes": first["passes"],
            "units": statistics.median(one["seconds"] / one["unit"] for one in runs),
            "seconds": statistics.median(one["seconds"] for one in runs),
            "missing": 1 - first["history"][-1][3] / best,
        },
        "memory": max(one["memory"] for one in runs),
    }


def main() -> None:
    """Measure, print a line for each problem, and keep a record if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--record", type=Path)
    args = parser.parse_args()
    new = Path(__file__).parent.parent / "src"
    record = json.loads(args.record.read_text()) if args.record and args.record.exists() else {}
    for name, ridge in ((name, ridge) for name, ridges in PROBLEMS.items() for ridge in ridges):
        title = f"{name}, ridge {ridge}"
        if args.only not in title:
            continue
        runs: dict[str, list[dict[str, Any]]] = {"new": [], "old": []}
        for turn in range(args.rounds):
            # The other version once: its fits take minutes.
            if args.folder is not None and turn == 0:
                runs["old"].append(run(args.folder.resolve(), name, ridge, LONGEST))
            runs["new"].append(run(new.resolve(), name, ridge, 0))
        best = max(h[3] for part in runs.values() for one in part for h in one["history"])
        found = {which: told(part, best) for which, part in runs.items() if part}
        record[title] = found | {"unit": runs["new"][0]["unit"], "total": best}
        print(title, json.dumps(found), flush=True)
        if args.record:
            save(args.record, record)


if __name__ == "__main__":
    main()
