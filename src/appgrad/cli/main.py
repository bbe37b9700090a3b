"""The command line: appgrad fit | plan | transform | score | test | inspect | report | demo | experiment.

A command imports what it runs when it is called: `appgrad --help` needs neither numpy nor scikit-learn.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from ..version import __version__
from . import signals
from .arguments import (
    EXPERIMENTS,
    Components,
    Groups,
    Json,
    Labels,
    LogLevel,
    Model,
    Names,
    Scale,
    Solver,
    XSource,
    YSource,
)
from .failures import FAILED, FAILURES, FailedError, interrupted, reason
from .terminal import err, print_json, say
from .wording import in_options

app = typer.Typer(
    help="Canonical correlation analysis on files: .npy, .npz, .csv, .tsv, .svm, .parquet, .h5, .zarr.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


# All errors in the way a command is written.
UsageError: Any = typer.BadParameter.__base__


def main() -> None:
    """Run the command line.

    Its exit code is 0, 1 with one clear line for a failure, 2 for wrong usage, 130 after Ctrl-C, 143 after
    SIGTERM. With `--json` failures are one JSON object, too.
    """
    with signals.handled():
        try:
            code = _run()
        except BrokenPipeError:
            # The reader, `head` for example, has closed the pipe. Keep Python from complaining at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = FAILED
        except UsageError as error:
            code = _show_usage(error)
        except FailedError as failure:
            code = _show_failure(failure)
        except KeyboardInterrupt:
            code = _show_failure(FailedError(signals.word(), signals.exit_code()))
        except FAILURES as error:
            code = _show_failure(_explained(error))
        except Exception as error:
            if not signals.wants_json():
                raise
            # A bug: the trace is for those who mend it.
            traceback.print_exc()
            code = _show_failure(FailedError(f"{type(error).__name__}: {error}"))
    sys.exit(code)


def _run() -> int:
    """Run the command; returns its exit code."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        with signals.at_once():
            command = typer.main.get_command(app)
        code = command(standalone_mode=False)
    # typer turns Ctrl-C into this code.
    if code == 130:
        interrupted()
    # The command has done what it could after a signal.
    return signals.exit_code() if signals.arrived() else int(code or 0)


def _explained(error: BaseException) -> FailedError:
    """A failure in the words of the command line: of the command, or of what it did after a signal."""
    text = in_options(reason(error))
    if signals.arrived():
        return FailedError(f"{signals.word()}; then {text}", signals.exit_code())
    return FailedError(text)


def _show_failure(failure: FailedError) -> int:
    if signals.wants_json():
        print_json(failure.record())
    else:
        for warning in failure.warnings:
            say(f"warning: {warning}", err, "yellow")
        say(f"error: {failure.line()}", err)
    return failure.code


def _show_usage(error: Any) -> int:
    if signals.wants_json():
        return _show_failure(FailedError(" ".join(error.format_message().split()), error.exit_code))
    error.show()
    return int(error.exit_code)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"warning: {in_options(str(message))}", err, "yellow")


def _version(show: bool) -> None:
    if show:
        say(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    """Canonical correlation analysis on files."""


@app.command(short_help="Fit CCA to two files, and check it on held-out rows.")
def fit(
    x: XSource,
    y: YSource,
    k: Components = 2,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to save the model.")] = None,
    solver: Solver = "auto",
    ridge: Annotated[str, typer.Option(help="auto, a number, or one per view: RX,RY.")] = "auto",
    scale: Scale = False,
    n_nonzero: Annotated[
        str | None, typer.Option(help="Sparse components: columns to use, N or NX,NY.", metavar="N|NX,NY")
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="Sparse components: penalty, A or AX,AY.", metavar="A|AX,AY")
    ] = None,
    holdout: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share of rows for held-out correlations; 0: none.")
    ] = 0.1,
    test: Annotated[
        bool,
        typer.Option(
            "--test", help="p-values of the correlations; rows are permuted where theory is silent."
        ),
    ] = False,
    groups: Groups = None,
    support: Annotated[
        str | None, typer.Option(help="Sparse components: shared columns, or a component's own.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Time for an iterative solver.")] = None,
    passes: Annotated[
        float | None, typer.Option(help="Passes over the rows for an iterative solver.")
    ] = None,
    max_iter: Annotated[
        int | None,
        typer.Option(min=1, help="Iterations of an iterative solver; 1000 if nothing else is set."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Rows of a minibatch (stochastic).")] = 200,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A file that follows an iterative run, to go on from.")
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(min=0.0, help="Seconds between two writes; 0: each iteration.")
    ] = 30.0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Which rows are held out; start of iterative solvers.")
    ] = 0,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Work on a Dask cluster, or on N processes here.", metavar="ADDRESS|local[:N]"),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Where to write a report, an HTML file.")] = None,
    x_names: Names = None,
    y_names: Names = None,
    labels: Labels = None,
    log_level: LogLevel = None,
    as_json: Json = False,
) -> None:
    """Fit CCA to two files and show training and held-out correlations.

    The model is fitted on ALL rows. The held-out column comes from a second fit without the held-out rows.
    """
    # The arguments have the names of the fields of `FitArguments`.
    asked = dict(locals())
    with signals.at_once():
        from .fit import FitArguments, fit_files

    fit_files(FitArguments(**asked))


@app.command(short_help="Say which solver a fit would take, and its cost.")
def plan(x: XSource, y: YSource, k: Components = 2, as_json: Json = False) -> None:
    """Say which solver a fit would take, and what each is expected to cost, before anything long runs.

    Passes are those that data like these took with the default ridge: a larger one can save most of them.
    Times are rough; memory is beyond the data. One pass more says on how many rows components rest. The
    held-out check of a fit costs as much again.
    """
    with signals.at_once():
        from .plan import show_plan

    show_plan(x, y, k, as_json)


@app.command()
def transform(
    model: Model,
    x: Annotated[str | None, typer.Argument(metavar="X", help="Rows of the first view.")] = None,
    y: Annotated[str | None, typer.Argument(metavar="Y", help="Second view; the same as --y.")] = None,
    only_y: Annotated[
        str | None, typer.Option("--y", metavar="Y", help="Rows of the second view, also without X.")
    ] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="scores.npz, .csv, .parquet or .npy")] = ...,  # type: ignore[assignment]
    key: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="COLUMN",
            help="Column that goes with the scores, as keys; row-labels for those of R and pandas.",
        ),
    ] = None,
) -> None:
    """Write the scores of new rows: of X, of Y (--y Y), or of both."""
    with signals.at_once():
        from .model import transform_files

    if y is not None and only_y is not None:
        raise typer.BadParameter(f"the second view is given twice: {y} and --y {only_y}")
    transform_files(model, x, only_y if y is None else y, output, key)


@app.command(short_help="Correlations of a model on other rows.")
def score(model: Model, x: XSource, y: YSource, as_json: Json = False) -> None:
    """Correlations of the scores of these rows, with the weights of the model."""
    with signals.at_once():
        from .model import score_files

    score_files(model, x, y, as_json)


@app.command("test", short_help="Test the correlations of a model: p-values.")
def significance(
    model: Model,
    x: Annotated[str | None, typer.Argument(metavar="X", help="Rows to test: first view.")] = None,
    y: Annotated[str | None, typer.Argument(metavar="Y", help="Second view, the same rows.")] = None,
    method: Annotated[
        str,
        typer.Option(
            help="Theory of normal rows, permuted rows, or held-out rows; auto: the first that holds.",
            metavar="auto|parametric|permutation|held-out",
        ),
    ] = "auto",
    resamples: Annotated[int, typer.Option(min=1, help="Number of permutations.")] = 999,
    groups: Groups = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Which permutations, and which rows are held out.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Test whether the views are related, and by how many components.

    Models of direct solvers need no rows for tests of normal rows: Wilks, Bartlett, Pillai, Hotelling-Lawley
    and Roy. With X and Y, a new fit to these rows is tested: rows are permuted if there are groups or a ridge
    that matters, and half of them are held out where columns force correlations of 1. `score` gives the
    correlations of the model itself on other rows.
    """
    with signals.at_once():
        from .significance import show_test

    show_test(model, x, y, method, resamples, groups, seed, as_json)


@app.command(short_help="Show a model and its leading features.")
def inspect(
    model: Model,
    x_names: Names = None,
    y_names: Names = None,
    top: Annotated[int, typer.Option(min=1, help="Features to show for each component.")] = 10,
    as_json: Json = False,
) -> None:
    """Show a model: what was fitted, and the leading features of each component."""
    with signals.at_once():
        from .model import inspect_model

    inspect_model(model, x_names, y_names, top, as_json)


@app.command(short_help="Write an HTML page that shows a model.")
def report(
    model: Model,
    x: Annotated[str | None, typer.Argument(metavar="X", help="Rows to show scores of: first view.")] = None,
    y: Annotated[str | None, typer.Argument(metavar="Y", help="Second view, the same rows.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file to write.")] = ...,  # type: ignore[assignment]
    x_names: Names = None,
    y_names: Names = None,
    labels: Labels = None,
    top: Annotated[int, typer.Option(min=1, max=1000, help="Features to show for each component.")] = 10,
) -> None:
    """Write an HTML page that shows a model: correlations, leading features, convergence.

    With X and Y also the scores of these rows, and their correlations.
    """
    with signals.at_once():
        from .model import report_model

    report_model(model, x, y, output, (x_names, y_names), labels, top)


@app.command(short_help="CCA of the halves of scikit-learn's digits.")
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the figure.")] = Path("demo"),
) -> None:
    """CCA between the left and right halves of scikit-learn's handwritten digits."""
    with signals.at_once():
        from .demo import show_digits

    show_digits(output)


@app.command(short_help="Run an experiment of the paper.")
def experiment(
    name: Annotated[str, typer.Argument(metavar="|".join(EXPERIMENTS), help="Which one.")],
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; without one they are downloaded.")
    ] = None,
    out_folder: Annotated[Path, typer.Option("--out", help="Folder for records and figures.")] = Path(
        "results"
    ),
    figures: Annotated[Path | None, typer.Option(help="Another folder for the figures.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer iterations and sizes.")] = False,
) -> None:
    """Run an experiment of the paper: one JSON record for each point, and figures drawn from the records."""
    with signals.at_once():
        from .experiment import run_experiment

    run_experiment(name, data, out_folder, figures, quick)
