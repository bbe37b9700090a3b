"""What is asked for on the command line, and whether it can be had, before anything long runs."""

from __future__ import annotations

import os
import re
import shlex
import sys
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.files.table import source_files
from ..fitting.archive import require_writable
from ..fitting.progress import err
from .terminal import say

SOURCE = (
    "A .npy, .npz, .csv, .tsv, .svm, .parquet, .h5 or .zarr file, or a folder or pattern of parquet or svm "
    "files; file::array for one of several, file::columns=a,b,10-20 for some columns."
)
XSource = Annotated[str, typer.Argument(metavar="X", help=f"First view. {SOURCE}")]
YSource = Annotated[str, typer.Argument(metavar="Y", help="Second view, the same rows.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by 'appgrad fit -o'.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Names = Annotated[Path | None, typer.Option(help="Text file (also .gz) with a column name a line.")]


def numbers(text: str, option: str, kind: type) -> Any:
    """One number for both views, or one for each."""
    try:
        values = [kind(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in (1, 2):
        one = "a whole number" if kind is int else "a number"
        auto = "auto, " if option == "--ridge" else ""
        raise typer.BadParameter(f"{text!r} is not {auto}{one} or two with a comma", param_hint=option)
    return values[0] if len(values) == 1 else (values[0], values[1])


def require_checkpoint(checkpoint: Path | None, resume: bool) -> None:
    """Raise where a run would be continued, or written over, without being meant to."""
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint, the file to go on from")
    if checkpoint is not None and checkpoint.exists() and not resume:
        raise ValueError(f"{checkpoint} exists: go on from it with --resume, or remove it")
    if resume and checkpoint is not None and not checkpoint.exists():
        say(f"{checkpoint} does not exist yet: the run starts from the beginning", err)


def require_different(files: dict[str, Path]) -> None:
    """Raise where two files to be written are one."""
    for (one, first), (two, second) in combinations(files.items(), 2):
        if first.resolve() == second.resolve():
            raise typer.BadParameter(f"{one} and {two} are the same file")


def require_output(output: Path, *sources: str) -> None:
    """Raise before anything long is computed when the output cannot be written, or is an input."""
    require_writable(output)
    for path in (str(file) for source in sources for file in source_files(source) or [source]):
        if output.exists() and os.path.exists(path) and output.samefile(path):
            raise ValueError(f"{output} is an input: it would be overwritten")


def in_options(message: str) -> str:
    """A message of the library in the words of the command line."""
    message = re.sub(r"max_(passes|seconds)(=\S+)?", r"--\1", message)
    return re.sub(r"solver='(\w+)'(, or '(\w+)')?", r"--solver \1", message)


def typed() -> str:
    """What was typed, to be typed again."""
    return shlex.join(["appgrad", *sys.argv[1:]])
