"""`appgrad experiment`: an experiment of the paper, its records and figures."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from ..experiments import EXPERIMENTS, run
from .failures import interrupted
from .terminal import err, say


def run_experiment(name: str, data: Path | None, folder: Path, figures: Path | None, quick: bool) -> None:
    """Run an experiment, write its records to a folder, and draw figures from them."""
    if name not in EXPERIMENTS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(EXPERIMENTS)}")
    if data is not None and not data.is_dir():
        raise ValueError(f"{data} is not a folder")
    start = time.perf_counter()
    path = folder / f"{name}.jsonl"
    try:
        for part in run(name, data, folder, quick):
            say(f"after {time.perf_counter() - start:5.0f} s: {part}")
    except KeyboardInterrupt:
        interrupted(f"; the records so far are in {path}.part, and the same command goes on from there")
    say(f"after {time.perf_counter() - start:5.0f} s: done")
    say(f"records   saved to {path}")
    try:
        from ..experiments.figures import draw
    except ImportError:
        say("no figures: they need matplotlib (pip install matplotlib)", err)
        return
    for figure in draw(path, folder if figures is None else figures):
        say(f"figure    saved to {figure}")
