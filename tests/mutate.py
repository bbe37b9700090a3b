"""Make each mutation in a copy and see its test fail: mutate.py [--only TEXT] [--jobs N] [--check]"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[1]
# Seconds for the test of one mutation, and for all tests without any.
LIMIT, BASELINE_LIMIT = 120, 1200
# Without bytecode, which may be of another mutation: files are written many times a second.
SETTINGS = {"PYTHONDONTWRITEBYTECODE": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


def place(mutation: Mutation, root: Path) -> tuple[Path, str]:
    """The one file with the text of a mutation, and what pytest calls its test; ValueError if not one."""
    sources = sorted((root / "src").rglob("*.py"))
    found = [file for file in sources for _ in range(file.read_text("utf-8").count(mutation.old))]
    if len(found) != 1:
        raise ValueError(f"{mutation.old!r} occurs {len(found)} times in src, not once")
    owner, method, _ = mutation.test.split("[")[0].partition("::")
    pattern = re.compile(rf"^class {owner}\b" if method else rf"^ *def {owner}\(", re.MULTILINE)
    files = sorted((root / "tests").rglob("*.py"))
    tests = [file for file in files for _ in pattern.findall(file.read_text("utf-8"))]
    if len(tests) != 1:
        raise ValueError(f"{mutation.test} is defined {len(tests)} times in tests, not once")
    return found[0].relative_to(root), f"{tests[0].relative_to(root).as_posix()}::{mutation.test}"


def copied(folder: Path) -> Path:
    """A copy of what tests need, checked to be what they import."""
    folder.mkdir()
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    _, said = called(folder, ["-c", "import appgrad; print(appgrad.__file__)"], LIMIT)
    if not said.startswith(str(folder / "src")):
        raise RuntimeError(f"what is imported is not the copy in {folder}: {said}")
    return folder


def called(root: Path, arguments: list[str], limit: float) -> tuple[int | None, str]:
    """What Python returns and says in this copy; None where it took too long."""
    with subprocess.Popen(
        [sys.executable, *arguments],
        cwd=root,
        env=os.environ | SETTINGS | {"PYTHONPATH": str(root / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            # With all processes that it has started.
            os.killpg(process.pid, signal.SIGKILL)
            return None, ""
    return process.returncode, said


def pytest_says(root: Path, tests: list[str], limit: float) -> tuple[int | None, str]:
    """What pytest returns and says of these tests."""
    return called(root, ["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-n", "0", *tests], limit)


def outcome(mutation: Mutation, root: Path) -> tuple[bool, str]:
    """Whether the mutation is noticed in this copy, and a word for it."""
    file, test = place(mutation, root)
    before = (root / file).read_text("utf-8")
    (root / file).write_text(before.replace(mutation.old, mutation.new), "utf-8")
    try:
        status, said = pytest_says(root, [test], LIMIT)
    finally:
        (root / file).write_text(before, "utf-8")
    if status is None:
        return True, f"caught (no end after {LIMIT} s)"
    if status < 0:
        return True, f"caught (crash, signal {-status})"
    if status > 1:
        return False, f"NOT RUN (pytest returned {status})\n{said}"
    # Why it failed is shown: a test that fails now and then has not noticed anything.
    why = re.findall(r"^E +(\S.*)", said, re.MULTILINE)
    return status == 1, f"caught ({' '.join(why[:2])[:150]})" if status else "SURVIVED"


def run(mutations: list[Mutation], jobs: int) -> int:
    """Report on each mutation; how many were not noticed."""
    say, lost, free = sys.stdout.write, 0, Queue[Path]()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        roots = [copied(Path(folder).resolve() / str(i)) for i in range(jobs)]
        status, said = pytest_says(roots[0], sorted({place(m, ROOT)[1] for m in mutations}), BASELINE_LIMIT)
        if status != 0:
            say(f"tests do not pass without a mutation:\n{said}\n")
            return len(mutations)
        for root in roots:
            free.put(root)

        def one(mutation: Mutation) -> tuple[bool, str, float]:
            root, start = free.get(), time.perf_counter()
            try:
                return *outcome(mutation, root), time.perf_counter() - start
            finally:
                free.put(root)

        for m, (caught, word, seconds) in zip(mutations, pool.map(one, mutations), strict=True):
            lost += not caught
            say(f"{m.room:12} {seconds:5.1f} s  {m.test}: {m.new}\n    {word}\n")
            sys.stdout.flush()
    say(f"{len(mutations) - lost} of {len(mutations)} mutations caught\n")
    return lost


def main() -> int:
    """Do what is asked for; 1 where anything is not as it should be."""
    parser = argparse.ArgumentParser(description="Do tests notice mistakes in a copy of the source?")
    parser.add_argument("--only", default="", help="mutations with this text in their room, source or test")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time")
    parser.add_argument("--check", action="store_true", help="only whether all texts and tests are there")
    asked = parser.parse_args()
    chosen, wrong = [m for m in MUTATIONS if any(asked.only in part for part in m)], 0
    for mutation in chosen:
        try:
            place(mutation, ROOT)
        except ValueError as error:
            sys.stdout.write(f"{mutation.room}: {error}\n")
            wrong += 1
    if asked.check or wrong or not chosen:
        sys.stdout.write(f"{len(chosen) - wrong} of {len(chosen)} mutations can be made\n")
        return int(wrong > 0 or not chosen)
    return int(run(chosen, asked.jobs) > 0)


if __name__ == "__main__":
    sys.exit(main())
