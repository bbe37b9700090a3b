"""Checks of the files that a command will write, made before anything long is computed."""

from __future__ import annotations

import os
from itertools import combinations
from pathlib import Path

import typer

from ..data.files.listing import source_files
from ..fitting.archive import require_writable
from .terminal import err, say


def require_checkpoint(checkpoint: Path | None, resume: bool) -> None:
    """Raise unless `--checkpoint` and `--resume` fit together: no run is overwritten by mistake."""
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint, the file to go on from")
    if checkpoint is not None and checkpoint.exists() and not resume:
        raise ValueError(f"{checkpoint} exists: go on from it with --resume, or remove it")
    if resume and checkpoint is not None and not checkpoint.exists():
        text = f"{checkpoint} does not exist yet: the run starts from the beginning"
        say(f"warning: {text}", err, "yellow")


def require_different(files: dict[str, Path]) -> None:
    """Raise if two files to be written are the same."""
    for (one, first), (two, second) in combinations(files.items(), 2):
        if first.resolve() == second.resolve():
            raise typer.BadParameter(f"{one} and {two} are the same file")


def require_output(output: Path, *sources: str) -> None:
    """Raise if the output cannot be written, or is an input."""
    require_writable(output)
    for path in (str(file) for source in sources for file in source_files(source) or [source]):
        if output.exists() and os.path.exists(path) and output.samefile(path):
            raise ValueError(f"{output} is an input: it would be overwritten")
