"""`appgrad fit`: arguments, fit, check, save, show."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import typer

from ..data.files.notes import noted, notes_of
from ..data.sources import dask_back_end, open_views
from ..data.views import Views
from ..estimators.cca import CCA
from ..estimators.provenance import Origin
from ..estimators.sparse import SparseCCA
from ..fitting.progress import Watch
from ..inference.holdout import HeldOut, held_out
from ..inference.results import CanonicalTest
from ..reporting.features import lines_of, names_of
from ..reporting.html import write_report
from ..reporting.rows_shown import labels_of, require_labels, rows_of_fit, with_rows
from ..reporting.summary import Summary, Timing, summary_of, to_json, with_components, with_known_test
from ..reporting.titles import title_of
from ..solvers import registry
from ..solvers.problem import Progress
from . import signals
from .arguments import numbers, typed
from .failures import FAILED, FAILURES, FailedError, interrupted, message, reason
from .log import logged
from .output_checks import require_checkpoint, require_different, require_output
from .progress_bar import progress_line
from .same_source import shared_columns
from .significance import canonical_test
from .terminal import print_json, print_remarks, print_summary, say
from .wording import in_options


class FitArguments(NamedTuple):
    """The arguments of `appgrad fit`, by the names they have in its signature."""

    x: str
    y: str
    k: int
    output: Path | None
    solver: str
    ridge: str
    n_nonzero: str | None
    alpha: str | None
    holdout: float
    support: str | None
    seconds: float | None
    passes: float | None
    max_iter: int | None
    batch_size: int
    checkpoint: Path | None
    checkpoint_every: float
    resume: bool
    seed: int
    scheduler: str | None
    report: Path | None
    log_level: str | None
    as_json: bool
    scale: bool = False
    test: bool = False
    groups: str | None = None
    x_names: Path | None = None
    y_names: Path | None = None
    labels: str | None = None


def fit_files(asked: FitArguments) -> None:
    """Fit a model to two files, check it on held-out rows, save it and show it."""
    model = model_of(asked)
    require_files(asked)
    start = time.perf_counter()
    with logged(asked.log_level), connected(asked.scheduler) as client:
        views = fit_model(model, asked, client)
        fitted = time.perf_counter() - start
        if save_model(model, asked):
            interrupted(f"; the model is in {asked.output}", **written(asked, saved=True))
        checked = check_model(model, views, asked) if asked.holdout else None
        timing = Timing(fitted, time.perf_counter() - start)
        test, lacking = test_model(model, views, asked) if asked.test else (None, [])
        unsaved = save_checks(model, checked, test, asked)
        summary = summary_of(model, timing=timing)
        summary = replace(summary, remarks=(*summary.remarks, *lacking, *unsaved), files=views.notes)
        # Results are shown even if the report fails.
        lost = None if asked.report is None else report_fit(model, views, summary, asked)
    show_fit(summary, asked, lost)


def model_of(asked: FitArguments) -> CCA:
    """The model asked for, not fitted yet."""
    sparsity = {
        name: numbers(text, f"--{name.replace('_', '-')}", kind)
        for name, text, kind in (("n_nonzero", asked.n_nonzero, int), ("alpha", asked.alpha, float))
        if text is not None
    }
    if asked.support is not None:
        if not sparsity:
            raise typer.BadParameter("--support is for sparse components: give --n-nonzero or --alpha")
        sparsity["support"] = asked.support
    require_solver(asked.solver, registry.SPARSE if sparsity else registry.LINEAR)
    return (SparseCCA if sparsity else CCA)(
        asked.k,
        solver=asked.solver,
        scale=asked.scale,
        ridge=asked.ridge if asked.ridge == "auto" else numbers(asked.ridge, "--ridge", float),
        max_seconds=asked.seconds,
        max_passes=asked.passes,
        max_iter=asked.max_iter,
        batch_size=asked.batch_size,
        random_state=asked.seed,
        checkpoint=None if asked.checkpoint is None else (str(asked.checkpoint), asked.checkpoint_every),
        **sparsity,
    )


def require_solver(solver: str, kind: str) -> None:
    """Raise if a solver is not for components of this kind, sparse or not."""
    known = registry.names(kind)
    if solver in known:
        return
    advice = f"it finds no sparse components: use one of {', '.join(known)}"
    if kind == registry.LINEAR:
        advice = "it finds sparse components: say how sparse by --n-nonzero or --alpha"
    raise typer.BadParameter(f"{solver}: {advice}", param_hint="--solver")


def require_files(asked: FitArguments) -> None:
    """Raise if a file cannot or must not be written, before anything long is computed."""
    require_checkpoint(asked.checkpoint, asked.resume)
    for path in (asked.output, asked.report):
        if path is not None:
            read = (asked.x, asked.y, asked.x_names, asked.y_names, asked.labels, asked.groups)
            require_output(path, *(str(source) for source in read if source is not None))
    if asked.groups is not None and not asked.test:
        raise typer.BadParameter("--groups are for permutations: give --test too")
    if asked.labels is not None and asked.report is None:
        raise typer.BadParameter("--labels colour the scores of a report: give --report too")
    files = {"--checkpoint": asked.checkpoint, "--output": asked.output, "--report": asked.report}
    require_different({option: path for option, path in files.items() if path is not None})


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """The Dask client of a scheduler; None without an address, to compute in this process."""
    if address is None:
        yield None
        return
    with dask_back_end().connected(address) as client:
        yield client


def _stepped(watch: Watch, progress: Progress) -> None:
    """Show where a run stands, or end it if the interrupt of a signal was lost."""
    signals.raise_lost()
    watch.step(progress)


def fit_model(model: CCA, asked: FitArguments, client: Any) -> Views:
    """Fit the model to two files and record its provenance; returns the views of the files."""
    with warnings.catch_warnings(record=True) as caught, progress_line(asked.log_level, asked.k) as watch:
        warnings.simplefilter("always")
        watch.begin("reading files")
        try:
            views = named_views(open_views(asked.x, asked.y, client=client), asked)
            require_labels(labels_of(asked.labels), views.n_samples, str(asked.labels))
            origin = Origin(*views.view_names, typed())
            with noted(views.notes):
                model.set_params(callback=partial(_stepped, watch)).fit(watch.views("fit", views))
        except FAILURES as error:
            # What was said until then may be the reason.
            files, said = tuple(map(in_options, notes_of(error))), tuple(_texts(caught))
            raise FailedError(in_options(message(error)), FAILED, said, files) from error
        except KeyboardInterrupt:
            stopped(model, asked, _texts(caught))
    model.callback = None
    remarks = _texts(caught) + shared_columns(asked.x, asked.y, views)
    if asked.checkpoint is not None and not registry.is_iterative(model.solver_):
        remarks.append(f"{model.solver_} is a direct solver, which writes no checkpoint")
    model.record_provenance(origin._replace(remarks=tuple(remarks)))
    return views


def named_views(views: Views, asked: FitArguments) -> Views:
    """The views of two files, with the names of columns given for files that have none."""
    found = list(views.names)
    for view, file in enumerate((asked.x_names, asked.y_names)):
        if file is None:
            continue
        option, label, p = f"--{'xy'[view]}-names", views.view_names[view], views.widths[view]
        if found[view] is not None:
            raise ValueError(f"{label} has names of its own: leave {option} out")
        names = lines_of(file, "a column name")
        if len(names) != p:
            raise ValueError(f"{file} has {len(names)} names, {label} has {p} columns")
        found[view] = np.array(names, dtype=object)
    views.names = found[0], found[1]  # type: ignore[misc]
    return views


def _texts(caught: list[warnings.WarningMessage]) -> list[str]:
    """Warnings in the words of the command line, each once."""
    # A signal may leave a file for Python to close, which warns of it.
    told = (w for w in caught if not issubclass(w.category, ResourceWarning))
    return list(dict.fromkeys(in_options(str(w.message)) for w in told))


def stopped(model: CCA, asked: FitArguments, remarks: list[str]) -> NoReturn:
    """End an interrupted fit: save its best model so far, and say what was written and how to go on."""
    said, saved = [], asked.output is not None and hasattr(model, "canonical_correlations_")
    if saved:
        model.callback = None
        kept = [in_options(remark.text) for remark in model.remarks] + remarks
        model.record_provenance(Origin(asked.x, asked.y, typed(), tuple(dict.fromkeys(kept))))
        save_model(model, asked)
        said.append(f"the best model so far is in {asked.output}")
        if asked.report is not None:
            said.append("a report of it is made by 'appgrad report'")
    facts = written(asked, saved)
    if facts["checkpoint"] is not None:
        said.append(f"go on with --resume --checkpoint {facts['checkpoint']}")
    interrupted(
        "; " + ("; ".join(said) or "before there was a model, nothing was written"), tuple(remarks), **facts
    )


def written(asked: FitArguments, saved: bool) -> dict[str, Any]:
    """The files of a fit that has ended early: its model, if it was saved, and its checkpoint."""
    checkpoint = asked.checkpoint
    return {
        "model": str(asked.output) if saved and asked.output is not None else None,
        "checkpoint": str(checkpoint) if checkpoint is not None and checkpoint.exists() else None,
    }


def save_model(model: CCA, asked: FitArguments) -> bool:
    """Save the model if an output is given; first before the check, which may take as long as the fit.

    Returns True if a signal came meanwhile: it has waited until the file was complete.
    """
    complete = False
    try:
        if asked.output is not None:
            with signals.held():
                model.save(asked.output)
                complete = True
    except KeyboardInterrupt:
        if not complete:
            raise
        return True
    return False


def check_model(model: CCA, views: Views, asked: FitArguments) -> HeldOut:
    """Held-out correlations; if they fail, NaN and the reason, because the model itself is fine."""
    saved = asked.output
    with progress_line(asked.log_level, asked.k) as watch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem, options = model.problem_and_options()
            return held_out(
                watch.views("held out", views),
                problem,
                options,
                share=asked.holdout,
                seed=asked.seed,
                random_state=model.random_state,
            )
        except FAILURES as error:
            if saved is None and not isinstance(error, ValueError):
                raise
            unknown = np.full(len(model.canonical_correlations_), np.nan)
            return HeldOut(unknown, f"not possible: without the held-out rows, {in_options(reason(error))}")
        except KeyboardInterrupt:
            where = "nothing was saved" if saved is None else f"the model of all rows is in {saved}"
            interrupted(f" in the held-out check; {where}", **written(asked, saved=True))


def test_model(model: CCA, views: Views, asked: FitArguments) -> tuple[CanonicalTest | None, list[str]]:
    """The test of the model; None and a warning if there can be none, because the model itself is fine."""
    try:
        # Tests that need no rows are as good.
        needs = None if model.tests_need_no_rows and asked.groups is None else views
        return canonical_test(model, needs, seed=asked.seed, groups=asked.groups, level=asked.log_level), []
    except FAILURES as error:
        return None, [f"no test: {in_options(reason(error))}"]
    except KeyboardInterrupt:
        where = "nothing was saved" if asked.output is None else f"the model of all rows is in {asked.output}"
        interrupted(f" in the test; {where}", **written(asked, saved=True))


def save_checks(
    model: CCA, checked: HeldOut | None, test: CanonicalTest | None, asked: FitArguments
) -> list[str]:
    """Record the checks in the model and in its file; returns a warning if the file cannot be written."""
    if checked is None and test is None:
        return []
    origin = model.provenance
    assert origin is not None
    model.record_provenance(origin._replace(tested=checked, test=test))
    try:
        save_model(model, asked)
    except (*FAILURES, KeyboardInterrupt) as error:
        what = "held-out correlations" if test is None else "held-out correlations and tests"
        return [f"{what} are not in {asked.output}: {reason(error)}"]
    return []


def report_fit(model: CCA, views: Views, summary: Summary, asked: FitArguments) -> str | None:
    """Write a report of the fit; returns the reason if that fails."""
    assert asked.report is not None
    try:
        named = with_components(
            with_known_test(summary, model), model, (names_of(model, "x"), names_of(model, "y"))
        )
        origin = summary.origin
        assert origin is not None
        page = with_rows(named, rows_of_fit(model, views, labels_of(asked.labels)))
        write_report(asked.report, page, title=title_of(origin.x, origin.y), command=origin.command)
    except (*FAILURES, KeyboardInterrupt) as error:
        return f"no report: {reason(error)}"
    return None


def show_fit(summary: Summary, asked: FitArguments, lost: str | None) -> None:
    """Print the summary of a fit, and where its files are; exit with an error if the report is lost."""
    output, report = asked.output, asked.report
    code = signals.exit_code() if signals.arrived() else FAILED
    if asked.as_json:
        assert summary.timing is not None
        print_json(
            {
                **to_json(summary),
                "seconds": summary.timing.total,
                "seconds_fit": summary.timing.fit,
                "warnings": list(summary.remarks),
                "files": list(summary.files),
                "resumed_from_iteration": summary.resumed_from,
                "model": None if output is None else str(output),
                "report": None if report is None or lost else str(report),
                **({} if lost is None else {"error": lost, "exit_code": code, **written(asked, saved=True)}),
            }
        )
        if lost is not None:
            raise typer.Exit(code)
        return
    print_summary(summary)
    if asked.log_level != "error":
        print_remarks(summary)
    say("model     " + ("not saved: give -o model.cca" if output is None else f"saved to {output}"))
    if lost is not None:
        raise FailedError(lost, code)
    if report is not None:
        say(f"report    written to {report}")
