"""Arguments of the commands: types, help and parsing. Imports nothing heavy."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ..solvers import registry


def solver_help() -> str:
    """The names of solvers, as the registry lists them."""
    *linear, last = registry.names(registry.LINEAR)
    sparse = [name for name in registry.names(registry.SPARSE) if name not in (*linear, last)]
    return f"{', '.join(linear)} or {last}; sparse: also {', '.join(sparse)}."


EXPERIMENTS = ("mnist", "mediamill", "ptb", "url", "bilingual")

SOURCE = (
    "A .npy, .npz, .csv, .tsv, .svm, .parquet, .h5 or .zarr file, or a folder or pattern of parquet or svm "
    "files; file::array for one of several, file::columns=a,b,10-20 for some columns."
)
XSource = Annotated[str, typer.Argument(metavar="X", help=f"First view. {SOURCE}")]
YSource = Annotated[str, typer.Argument(metavar="Y", help="Second view, the same rows.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by 'appgrad fit -o'.")]
Components = Annotated[int, typer.Option("-k", "--components", min=1, help="Number of canonical pairs.")]
Solver = Annotated[str, typer.Option(help=solver_help())]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Scale = Annotated[bool, typer.Option("--scale", help="Columns in units of their standard deviations.")]
Labels = Annotated[
    str | None,
    typer.Option(help="Groups or numbers of rows: a text file, a line a row; or a column.", metavar="SRC"),
]
Names = Annotated[Path | None, typer.Option(help="Text file (also .gz) with a column name a line.")]


def numbers(text: str, option: str, kind: type) -> Any:
    """The number in a text, for both views; or the two numbers, one for each view."""
    try:
        values = [kind(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) not in (1, 2):
        one = "a whole number" if kind is int else "a number"
        auto = "auto, " if option == "--ridge" else ""
        raise typer.BadParameter(f"{text!r} is not {auto}{one} or two with a comma", param_hint=option)
    return values[0] if len(values) == 1 else (values[0], values[1])


def in_options(message: str) -> str:
    """A message of the library in the words of the command line."""
    message = re.sub(r"max_(passes|seconds)(=\S+)?", r"--\1", message)
    return re.sub(r"solver='(\w+)'(, or '(\w+)')?", r"--solver \1", message)


def typed() -> str:
    """The command as it was typed, quoted for the shell."""
    return shlex.join(["appgrad", *sys.argv[1:]])
