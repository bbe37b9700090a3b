"""The command line: appgrad fit | plan | transform | score | inspect | report | demo | experiment."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from ..data.files.table import read_table
from ..data.sources import dask_back_end, open_views
from ..data.views import Views
from ..estimators.cca import CCA
from ..estimators.model_file import load
from ..estimators.provenance import Origin
from ..estimators.sparse import SparseCCA
from ..fitting.archive import WRITERS, write_scores
from ..fitting.plan import duration
from ..fitting.plan import plan as planned
from ..fitting.progress import err, line
from ..inference.holdout import HeldOut, held_out
from ..machine.memory import size
from ..metrics import correlations
from ..reporting.facts import facts_of, json_list, overfitted
from ..reporting.features import leading_components, names_of
from ..reporting.html import write_report
from ..reporting.summary import findings, fit_findings, is_forced, remarks_on, rows_shown
from ..solvers.registry import is_iterative
from ..version import __version__
from .arguments import (
    Json,
    Model,
    Names,
    XSource,
    YSource,
    in_options,
    numbers,
    require_checkpoint,
    require_different,
    require_output,
    typed,
)
from .demo import show_digits
from .terminal import out, print_components, print_json, print_model, say

# What ends in one clear line.
FAILURES = (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError, ArithmeticError)
# What a model that was saved early is told apart by.
INTERRUPTED = "the fit was interrupted: its command would give another model"
app = typer.Typer(
    help="Canonical correlation analysis on files: .npy, .npz, .csv, .tsv, .svm, .parquet, .h5, .zarr.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line: exit code 0, 1 with one clear line for a failure, 2 for wrong usage."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            app()
    except BrokenPipeError:
        # The reader, `head` for example, has seen enough. Keep Python from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except FAILURES as error:
        say("error: " + " ".join(_reason(error).split()), err)
        sys.exit(1)
    except SystemExit as error:
        # typer's code for Ctrl-C.
        if error.code == 130:
            say("error: interrupted", err)
            sys.exit(1)
        raise


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    say(f"warning: {message}", err, "yellow")


def _version(show: bool) -> None:
    if show:
        say(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    """Canonical correlation analysis on files."""


@app.command()
def fit(
    x: XSource,
    y: YSource,
    k: Annotated[int, typer.Option("-k", "--components", min=1, help="Number of canonical pairs.")] = 2,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to save the model.")] = None,
    solver: Annotated[
        str, typer.Option(help="auto, exact, qr, lobpcg, als, appgrad or stochastic; sparse: also pursuit.")
    ] = "auto",
    ridge: Annotated[str, typer.Option(help="auto, a number, or one per view: RX,RY.")] = "auto",
    n_nonzero: Annotated[
        str | None, typer.Option(help="Sparse components: columns to use, N or NX,NY.", metavar="N|NX,NY")
    ] = None,
    alpha: Annotated[
        str | None, typer.Option(help="Sparse components: penalty, A or AX,AY.", metavar="A|AX,AY")
    ] = None,
    holdout: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share of rows for held-out correlations; 0: none.")
    ] = 0.1,
    support: Annotated[
        str | None, typer.Option(help="Sparse components: shared columns, or a component's own.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Time for an iterative solver.")] = None,
    passes: Annotated[
        float | None, typer.Option(help="Passes over the rows for an iterative solver.")
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
    as_json: Json = False,
) -> None:
    """Fit CCA to two files and show training and held-out correlations.

    The model is fitted on ALL rows. The held-out column comes from a second fit without the held-out rows.
    """
    sparsity = {
        name: numbers(text, f"--{name.replace('_', '-')}", kind)
        for name, text, kind in (("n_nonzero", n_nonzero, int), ("alpha", alpha, float))
        if text is not None
    }
    if support is not None:
        if not sparsity:
            raise typer.BadParameter("--support is for sparse components: give --n-nonzero or --alpha")
        sparsity["support"] = support
    model = (SparseCCA if sparsity else CCA)(
        k,
        solver=solver,
        ridge=ridge if ridge == "auto" else numbers(ridge, "--ridge", float),
        max_seconds=seconds,
        max_passes=passes,
        batch_size=batch_size,
        random_state=seed,
        checkpoint=None if checkpoint is None else (str(checkpoint), checkpoint_every),
        **sparsity,
    )
    require_checkpoint(checkpoint, resume)
    files = {"--checkpoint": checkpoint, "--output": output, "--report": report}
    for path in (output, report):
        if path is not None:
            require_output(path, x, y)
    require_different({option: path for option, path in files.items() if path is not None})
    start = time.perf_counter()
    with _scheduler(scheduler) as client:
        with warnings.catch_warnings(record=True) as caught, line(not as_json) as watch:
            warnings.simplefilter("always")
            watch.begin("reading files")
            views = open_views(x, y, client=client)
            origin = Origin(*views.view_names, typed())
            try:
                model.set_params(callback=watch.step).fit(watch.views("fit", views))
            except KeyboardInterrupt:
                written = []
                if output is not None and hasattr(model, "canonical_correlations_"):
                    model.record_provenance(origin._replace(remarks=(INTERRUPTED, *_texts(caught))))
                    model.save(output)
                    written.append(f"the best model so far is in {output}")
                    if report is not None:
                        written.append("a report of it is made by 'appgrad report'")
                if checkpoint is not None and checkpoint.exists():
                    written.append(f"go on with --resume --checkpoint {checkpoint}")
                say("error: interrupted; " + ("; ".join(written) or "nothing was written"), err)
                raise typer.Exit(1) from None
            model.callback = None
            fitted = time.perf_counter() - start
            messages = _texts(caught)
            if checkpoint is not None and not is_iterative(model.solver_):
                messages.append(f"{model.solver_} is a direct solver, which writes no checkpoint")
            origin = origin._replace(remarks=tuple(messages))
            model.record_provenance(origin)
            if output is not None:
                model.save(output)
        with line(not as_json) as watch:
            tested = (
                _held_out(model, watch.views("held out", views), holdout, seed, output) if holdout else None
            )
        spent = time.perf_counter() - start
        if tested is not None:
            messages += overfitted(model, tested.correlations)
            model.record_provenance(origin._replace(tested=tested))
            if output is not None:
                messages += _saved_again(model, output)
        # What was computed is shown, whatever becomes of the report.
        lost = None
        if report is not None:
            try:
                facts = fit_findings(model, views, messages, (fitted, spent - fitted))
                write_report(report, facts)
            except (*FAILURES, KeyboardInterrupt) as error:
                lost = f"no report: {_reason(error)}"
    if as_json:
        print_json(
            {
                **facts_of(model),
                **_held_out_facts(tested),
                "seconds": spent,
                "seconds_fit": fitted,
                "warnings": messages,
                "resumed_from_iteration": model.resumed_from_iteration_,
                "model": None if output is None else str(output),
                "report": None if report is None or lost else str(report),
            }
        )
        _require_report(lost)
        return
    print_model(model, fitted, tested, spent - fitted, is_forced(model))
    for message in messages:
        say(f"warning: {message}", err, "yellow")
    say("model     " + ("not saved: give -o model.cca" if output is None else f"saved to {output}"))
    _require_report(lost)
    if report is not None:
        say(f"report    written to {report}")


def _texts(caught: list[warnings.WarningMessage]) -> list[str]:
    """Warnings in the words of the command line, each once."""
    return list(dict.fromkeys(in_options(str(w.message)) for w in caught))


def _saved_again(model: CCA, output: Path) -> list[str]:
    """Save a model with what the held-out check has found; what to say where that fails, for it is shown."""
    try:
        model.save(output)
    except (*FAILURES, KeyboardInterrupt) as error:
        return [f"held-out correlations are not in {output}: {_reason(error)}"]
    return []


def _reason(error: BaseException) -> str:
    """What went wrong, in words."""
    return str(error) or ("interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__)


def _require_report(lost: str | None) -> None:
    """End with an error where the report could not be written."""
    if lost is not None:
        say(f"error: {lost}", err)
        raise typer.Exit(1)


@contextmanager
def _scheduler(address: str | None) -> Iterator[Any]:
    """The Dask client that is asked for; None for this process."""
    if address is None:
        yield None
        return
    with dask_back_end().connected(address) as client:
        yield client


def _held_out(model: CCA, views: Views, share: float, seed: int, saved: Path | None) -> HeldOut:
    """Held-out correlations; where they cannot be had, the reason, for the model itself is fine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            asked = model.problem_and_options()
            return held_out(views, *asked, share=share, seed=seed, random_state=model.random_state)
        except FAILURES as error:
            if saved is None and not isinstance(error, ValueError):
                raise
            unknown = np.full(len(model.canonical_correlations_), np.nan)
            return HeldOut(unknown, f"not possible: without the held-out rows, {_reason(error)}")
        except KeyboardInterrupt:
            where = "nothing was saved" if saved is None else f"the model of all rows is in {saved}"
            say(f"error: interrupted in the held-out check; {where}", err)
            raise typer.Exit(1) from None


@app.command()
def plan(
    x: XSource,
    y: YSource,
    k: Annotated[int, typer.Option("-k", "--components", min=1, help="Number of canonical pairs.")] = 2,
    as_json: Json = False,
) -> None:
    """Say which solver a fit would take, and what each is expected to cost, before anything long runs.

    Passes are those that data like these took with the default ridge: a larger one can save most of them.
    Times are rough; memory is beyond the data. The held-out check of a fit costs as much again.
    """
    found = planned(open_views(x, y), n_components=k)
    if as_json:
        print_json({**found._asdict(), "costs": [cost._asdict() for cost in found.costs]})
        return
    table = Table()
    for heading in ("solver", "passes", "time", "memory"):
        table.add_column(heading, justify="left" if heading == "solver" else "right")
    for cost in found.costs:
        cells = f"{cost.passes:.0f}", duration(cost.seconds), size(cost.memory)
        mark = " *" if cost.solver == found.solver else ""
        table.add_row(cost.solver + mark, *cells, style="bold" if mark else None)
    out.print(table)
    say(f"* auto takes {found.solver}: {found.reason}")


@app.command()
def transform(
    model: Model,
    x: XSource,
    y: Annotated[str | None, typer.Argument(metavar="[Y]", help="Second view; optional.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="scores.npz, .csv or .parquet")] = ...,  # type: ignore[assignment]
) -> None:
    """Write the scores of new rows."""
    fitted = load(model)
    require_output(output, str(model), x, *([] if y is None else [y]))
    if output.suffix not in WRITERS:
        raise ValueError(f"{output}: expected a name that ends in {', '.join(WRITERS)}")
    if y is None:
        table = read_table(x)
        scores = {"x_scores": fitted.view_scores(table.matrix, 0, table.names, table.label)}
    else:
        scores = dict(zip(("x_scores", "y_scores"), fitted.transform(open_views(x, y)), strict=True))
    write_scores(output, scores)
    say(f"{len(scores['x_scores'])} rows written to {output}")


@app.command()
def score(model: Model, x: XSource, y: YSource, as_json: Json = False) -> None:
    """Correlations of the scores of these rows, with the weights of the model."""
    fitted = load(model)
    views = open_views(x, y)
    found = correlations(*fitted.transform(views))
    if as_json:
        print_json(
            {"correlations": found.tolist(), "score": float(found.mean()), "n_samples": views.n_samples}
        )
        return
    table = Table(title=f"correlations on {views.n_samples} rows", title_justify="left")
    table.add_column("component", justify="right")
    table.add_column("correlation", justify="right")
    table.add_column("in training", justify="right")
    for i, (here, there) in enumerate(zip(found, fitted.training_correlations_, strict=True), 1):
        table.add_row(str(i), f"{here:.4f}", f"{there:.4f}")
    out.print(table)
    say(f"score     {found.mean():.4f} (mean)")


@app.command()
def inspect(
    model: Model,
    x_names: Names = None,
    y_names: Names = None,
    top: Annotated[int, typer.Option(min=1, help="Features to show for each component.")] = 10,
    as_json: Json = False,
) -> None:
    """Show a model: what was fitted, and the leading features of each component."""
    fitted = load(model)
    tested = None if fitted.provenance is None else fitted.provenance.tested
    remarks = remarks_on(fitted)
    leading = leading_components(
        fitted, top, (names_of(fitted, "x", x_names), names_of(fitted, "y", y_names))
    )
    if as_json:
        print_json(
            {
                **facts_of(fitted),
                **_held_out_facts(tested),
                "warnings": remarks,
                "params": _params(fitted),
                "components": leading,
            }
        )
        return
    print_model(fitted, None, tested, 0.0, is_forced(fitted))
    for message in remarks:
        say(f"warning: {message}", err, "yellow")
    if not leading:
        say("features  none to show: components are functions of all columns at a time")
    print_components(fitted, leading)


@app.command()
def report(
    model: Model,
    x: Annotated[
        str | None, typer.Argument(metavar="[X]", help="Rows to show scores of: first view.")
    ] = None,
    y: Annotated[str | None, typer.Argument(metavar="[Y]", help="Second view, the same rows.")] = None,
    output: Annotated[Path, typer.Option("-o", "--output", help="The HTML file to write.")] = ...,  # type: ignore[assignment]
    x_names: Names = None,
    y_names: Names = None,
    labels: Annotated[Path | None, typer.Option(help="Text file with a group or number a row.")] = None,
    top: Annotated[int, typer.Option(min=1, max=1000, help="Features to show for each component.")] = 10,
) -> None:
    """Write an HTML page that shows a model: correlations, leading features, convergence.

    With X and Y also the scores of these rows, and their correlations.
    """
    if (x is None) != (y is None):
        raise typer.BadParameter("give both views, X and Y, or none")
    if labels is not None and x is None:
        raise typer.BadParameter("--labels are those of rows: give X and Y too")
    fitted = load(model)
    require_output(
        output, *(str(file) for file in (model, x, y, x_names, y_names, labels) if file is not None)
    )
    names = names_of(fitted, "x", x_names), names_of(fitted, "y", y_names)
    shown = {} if x is None or y is None else rows_shown(fitted, open_views(x, y), labels)
    facts = findings(fitted, names, title=str(model), command=typed(), top=top, **shown)
    write_report(output, facts)
    say(f"report    written to {output}")


@app.command()
def demo(
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the figure.")] = Path("demo"),
) -> None:
    """CCA between the left and right halves of scikit-learn's handwritten digits."""
    show_digits(output)


@app.command()
def experiment(
    name: Annotated[str, typer.Argument(metavar="mnist|mediamill|ptb|url|bilingual", help="Which one.")],
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
    # Not needed by any other command, and slow to import.
    from ..experiments import EXPERIMENTS, run

    if name not in EXPERIMENTS:
        raise typer.BadParameter(f"{name!r} is not one of {', '.join(EXPERIMENTS)}")
    if data is not None and not data.is_dir():
        raise ValueError(f"{data} is not a folder")
    start = time.perf_counter()
    path = out_folder / f"{name}.jsonl"
    try:
        for part in run(name, data, out_folder, quick):
            say(f"after {time.perf_counter() - start:5.0f} s: {part}")
    except KeyboardInterrupt:
        say(f"error: interrupted; the records so far are in {path}.part", err)
        raise typer.Exit(1) from None
    say(f"after {time.perf_counter() - start:5.0f} s: done")
    say(f"records   saved to {path}")
    try:
        from ..experiments.figures import draw
    except ImportError:
        say("no figures: pip install 'appgrad[plots]'", err)
        return
    for figure in draw(path, out_folder if figures is None else figures):
        say(f"figure    saved to {figure}")


def _held_out_facts(tested: HeldOut | None) -> dict[str, Any]:
    """What `--json` says of a held-out check."""
    found = (None, None) if tested is None else (json_list(tested.correlations), tested.method)
    return dict(zip(("held_out_correlations", "held_out_method"), found, strict=True))


def _params(model: CCA) -> dict[str, Any]:
    return {name: value for name, value in model.get_params().items() if name != "callback"}
