"""Time and peak memory of a call, as a user would see them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from appgrad.experiments.records import environment


def seconds(call: Callable[[], Any]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def anonymous_memory() -> int:
    """Bytes of memory this process has of its own (RssAnon): not files, not shared libraries."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise OSError("no RssAnon in /proc/self/status: memory is measured on Linux only")


def peak_extra_memory(call: Callable[[], Any], every: float = 0.002) -> int:
    """The highest RssAnon while `call` runs, minus that before it."""
    before, peak, done = anonymous_memory(), 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(every):
            peak = max(peak, anonymous_memory())

    thread = threading.Thread(target=watch)
    thread.start()
    call()
    done.set()
    thread.join()
    return max(peak, anonymous_memory()) - before


def in_fresh_process(file: str, *args: str) -> Any:
    """The JSON printed by a file's benchmark in a process with no memory left over from others."""
    command = [sys.executable, "-m", "benchmarks", Path(file).stem, *args]
    # The process must find the benchmarks from any folder.
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"ended by signal {-done.returncode}"]
        return {"error": said[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def save(path: Path, record: dict[str, Any]) -> None:
    """Write a record with date, versions and command."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record | {"command": sys.argv[0]} | environment(), indent=1) + "\n")
