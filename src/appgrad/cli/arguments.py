"""Arguments of the commands: types, help and parsing. Imports nothing heavy."""

from __future__ import annotations

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


def known_solver(name: str) -> str:
    """The name of a solver, checked."""
    known = dict.fromkeys((*registry.names(registry.LINEAR), *registry.names(registry.SPARSE)))
    if name not in known:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}")
    return name


def known_level(name: str | None) -> str | None:
    """A level of the log, checked."""
    if name is not None and name not in LEVELS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(LEVELS)}")
    return name


LEVELS = ("debug", "info", "warning", "error")
EXPERIMENTS = ("mnist", "mediamill", "ptb", "url", "bilingual")

SOURCE = (
    "A .npy, .npz, .csv, .tsv, .svm, .parquet, .h5 or .zarr file, or a folder or pattern of parquet or svm "
    "files; file::array for one of several, file::columns=a,b,10-20,web_* for some columns, "
    "file.csv::header=yes|no."
)
XSource = Annotated[str, typer.Argument(metavar="X", help=f"First view. {SOURCE}")]
YSource = Annotated[str, typer.Argument(metavar="Y", help="Second view, the same rows.")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by 'appgrad fit -o'.")]
Components = Annotated[int, typer.Option("-k", "--components", min=1, help="Number of canonical pairs.")]
Solver = Annotated[str, typer.Option(help=solver_help(), callback=known_solver)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object, also if the command fails.")]
LogLevel = Annotated[
    str | None,
    typer.Option(
        help="What to say on stderr: debug, info (a line of progress every few seconds: by default unless "
        "stderr is a terminal), warning or error.",
        metavar="debug|info|warning|error",
        callback=known_level,
    ),
]
Scale = Annotated[bool, typer.Option("--scale", help="Columns in units of their standard deviations.")]
Labels = Annotated[
    str | None,
    typer.Option(help="Groups or numbers of rows: a text file, a line a row; or a column.", metavar="SRC"),
]
Groups = Annotated[
    str | None,
    typer.Option(
        help="Rows change places within their group only (subjects, sites): a text file, a line a row; or a "
        "column.",
        metavar="SRC",
    ),
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


def typed() -> str:
    """The command as it was typed, quoted for the shell."""
    return shlex.join(["appgrad", *sys.argv[1:]])
