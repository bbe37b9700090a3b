"""Summary of a fitted model: collected once here, rendered as a table, as JSON or as an HTML page."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from ..estimators.base import BaseCCA
from ..estimators.kernel import KernelCCA
from ..estimators.provenance import Origin
from ..estimators.sparse import SparseCCA
from ..inference.holdout import HeldOut
from ..inference.results import CanonicalTest
from ..machine.arrays import Array
from ..machine.readable import number
from ..solvers import registry
from .beliefs import Belief, Evidence, OnOthers, beliefs, cells, evidence_of, noise_fact, p_fact
from .features import leading_components, measure_of

# Most steps of a run in a summary: on a screen, a curve of more looks the same.
STEPS = 500


# Keys in JSON of the shares of variance.
VARIANCE = {
    "x own": "x_explained_variance",
    "x opposite": "x_redundancy",
    "y own": "y_explained_variance",
    "y opposite": "y_redundancy",
}


class Timing(NamedTuple):
    """Seconds of a fit, and of the fit with its check on held-out rows."""

    fit: float
    total: float

    @property
    def check(self) -> float:
        """Seconds of the check on held-out rows."""
        return self.total - self.fit


@dataclass(frozen=True)
class Summary:
    """Summary of a fitted model, its run and its rows."""

    estimator: str
    # Of the appgrad that fitted the model.
    version: str
    # Parameters without the callback, and the call that makes such a model.
    parameters: dict[str, Any]
    call: str
    n_samples: int
    n_features: tuple[int, int]
    ridge: Any
    solver: str
    solver_reason: str
    iterations: int
    passes: float
    resumed_from: int
    # None for a stream.
    solver_seconds: float | None
    # The noise level, on how many rows components rest, and tests.
    evidence: Evidence
    # One number per component.
    canonical: Array
    training: Array
    residuals: Array
    error_bounds: Array
    # Shares of the variance of each view that own scores, and those of the other view, explain: by name.
    variance: dict[str, Array]
    # Correlations by the heading of their column: "training", "held out" ...
    columns: dict[str, Array]
    # True if any rows of this shape would be as correlated.
    forced: bool
    # What was fitted and how: a text for each heading.
    facts: dict[str, str]
    # Warnings.
    remarks: tuple[str, ...]
    origin: Origin | None
    held_out: HeldOut | None
    # Numbers of each step, by name, for the curve of convergence; or why an iterative solver has none.
    history: dict[str, list[float | None]] | None
    no_history: str
    # "correlation" or "weight" of a column; None if components have no features.
    measure: str | None
    timing: Timing | None = None
    # True if shares of variance of all components add up: scores are uncorrelated without a ridge.
    adds_up: bool = True
    # Leading features of each component, by view.
    components: list[dict[str, list[dict[str, Any]]]] = field(default_factory=list)
    # Facts and scores of rows that are shown with the model.
    about_rows: dict[str, str] = field(default_factory=dict)
    # What was decided about headers of files.
    files: tuple[str, ...] = ()
    scores: dict[str, Any] | None = None

    def evidence_cells(self) -> dict[str, list[str]]:
        """Cells beside the correlations, by heading: what noise reaches, effective rows, p-values."""
        return cells(self.evidence, len(self.canonical))


def summary_of(model: BaseCCA, *, held_out: HeldOut | None = None, timing: Timing | None = None) -> Summary:
    """Summary of a fitted model; `held_out` is used if the model has no check of its own.

    Leading features are added by `with_components`, rows by `rows_shown.with_rows`.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from appgrad import CCA
    >>> from appgrad.reporting.summary import summary_of
    >>> summary = summary_of(CCA(2).fit(*load_linnerud(return_X_y=True)))
    >>> summary.columns["training"].round(4), summary.facts["columns"]
    (array([0.7956, 0.2006]), '3 + 3')
    """
    origin = model.provenance
    if origin is not None and origin.tested is not None:
        held_out = origin.tested
    history, no_history = _history(model)
    evidence = evidence_of(model)
    if held_out is not None:
        tested = OnOthers("held-out rows", held_out.correlations, held_out.n)
        evidence = evidence._replace(others=(tested,))
    return Summary(
        estimator=type(model).__name__,
        version=model.version,
        parameters={name: value for name, value in model.get_params().items() if name != "callback"},
        call=" ".join(repr(model).split()),
        n_samples=int(model.n_samples_),
        n_features=(int(model.n_features_in_), int(model.n_features_y_)),
        ridge=model.ridge,
        solver=model.solver_,
        solver_reason=model.solver_reason_,
        iterations=max(model.n_iter_),
        passes=model.n_passes_,
        resumed_from=getattr(model, "resumed_from_iteration_", 0),
        solver_seconds=None if model.streamed else model.history_[-1]["seconds"],
        evidence=evidence,
        canonical=model.canonical_correlations_,
        training=model.training_correlations_,
        residuals=model.residuals_,
        error_bounds=model.error_bounds_,
        variance=_variance(model),
        columns=_columns(model, held_out),
        forced=_is_forced(model),
        facts=_facts(model, evidence),
        remarks=tuple(_all_remarks(model)),
        origin=origin,
        held_out=held_out,
        history=history,
        no_history=no_history,
        measure=None if isinstance(model, KernelCCA) else measure_of(model),
        timing=timing,
        adds_up=model.ridge in ("auto", 0) and not isinstance(model, SparseCCA),
    )


def with_components(
    summary: Summary, model: BaseCCA, names: tuple[list[str], list[str]], top: int = 10
) -> Summary:
    """The summary with the leading features of every component of its model."""
    return replace(summary, components=leading_components(model, top, names))


def to_json(summary: Summary) -> dict[str, Any]:
    """The summary as a dict, printed by `--json`."""
    held_out, origin = summary.held_out, summary.origin
    return {
        "estimator": summary.estimator,
        "version": summary.version,
        "origin": None if origin is None else {"x": origin.x, "y": origin.y, "command": origin.command},
        "correlations": summary.canonical.tolist(),
        "training_correlations": summary.training.tolist(),
        "n_samples": summary.n_samples,
        "n_features": list(summary.n_features),
        "solver": summary.solver,
        "solver_reason": summary.solver_reason,
        "iterations": summary.iterations,
        "passes": summary.passes,
        "residuals": summary.residuals.tolist(),
        "error_bounds": json_list(summary.error_bounds),
        "ridge": summary.ridge,
        "held_out_correlations": None if held_out is None else json_list(held_out.correlations),
        "held_out_method": None if held_out is None else held_out.method,
        **_evidence_json(summary),
    }


def _evidence_json(summary: Summary) -> dict[str, Any]:
    evidence, noise = summary.evidence, summary.evidence.noise
    return {
        "noise_level": number_or_none(noise.level),
        "noise_edge": number_or_none(noise.edge),
        "noise_level_reason": noise.reason,
        "noise_limits": json_list(evidence.limits),
        "debiased_correlations": json_list(noise.debiased(summary.canonical)),
        "effective_rows": json_list(evidence.effective_rows),
        **{VARIANCE[name]: json_list(values) for name, values in summary.variance.items()},
        "test": None if evidence.test is None else evidence.test.to_dict(),
        "beliefs": [belief._asdict() for belief in beliefs_of(summary)],
    }


def beliefs_of(summary: Summary) -> list[Belief]:
    """A sentence for each component: whether to believe it, and why."""
    return beliefs(summary.evidence, summary.canonical, summary.training)


def with_test(summary: Summary, test: CanonicalTest) -> Summary:
    """The summary with a test of its correlations."""
    return replace(
        summary,
        evidence=summary.evidence._replace(test=test),
        facts=summary.facts | {"p-values": p_fact(test)},
    )


def with_known_test(summary: Summary, model: BaseCCA) -> Summary:
    """The summary with the tests that need no rows, where the model has all correlations."""
    if summary.evidence.test is not None or not model.tests_need_no_rows:
        return summary
    return with_test(summary, model.test())


def number_or_none(value: float) -> float | None:
    """A number for JSON, which has no NaN: None instead."""
    return None if np.isnan(value) else float(value)


def json_list(values: Array) -> list[float | None]:
    """Numbers as a list for JSON, which has no NaN: None instead."""
    return [number_or_none(value) for value in values]


def overfitted(model: BaseCCA, others: Array, rows: str = "held-out rows") -> list[str]:
    """Warnings about components whose correlations on other rows are less than half, or always 1."""
    training = model.training_correlations_
    shared = np.flatnonzero((training > 1 - 1e-9) & (others > 1 - 1e-6)) + 1
    lost = np.flatnonzero(others < training / 2) + 1
    found = []
    if len(shared):
        found.append(f"{_numbered(shared)}: correlation 1 on any rows; do the views share a column?")
    if len(lost):
        advice = f"try a {'' if model.ridge == 'auto' else 'larger '}ridge"
        advice += ", or fewer components" if len(training) > 1 else ""
        found.append(f"{_numbered(lost)}: less than half of the correlation is left on {rows}; {advice}")
    return found


def _numbered(components: Array) -> str:
    """Text that names these components, counted from one."""
    return ("component " if len(components) == 1 else "components ") + ", ".join(map(str, components))


def _columns(model: BaseCCA, held_out: HeldOut | None) -> dict[str, Array]:
    """Correlations of each component, by the heading of their column."""
    columns: dict[str, Array] = {"training": model.training_correlations_}
    if not np.allclose(model.canonical_correlations_, model.training_correlations_, rtol=0, atol=5e-5):
        # Minibatches estimate correlations; other solvers differ by the ridge, also by the default one.
        steps = model.ridge == "auto" and model.solver_ in registry.streaming(registry.STEPS)
        name = "estimate" if steps else "with ridge"
        columns = {name: model.canonical_correlations_, **columns}
    return columns if held_out is None else {**columns, "held out": held_out.correlations}


def _variance(model: BaseCCA) -> dict[str, Array]:
    """Shares of the variance of each view that scores explain, by name; none for kernels."""
    if isinstance(model, KernelCCA):
        return {}
    return {
        "x own": model.x_explained_variance_,
        "x opposite": model.x_redundancy_,
        "y own": model.y_explained_variance_,
        "y opposite": model.y_redundancy_,
    }


def _facts(model: BaseCCA, evidence: Evidence) -> dict[str, str]:
    """What was fitted and how: a text for each heading."""
    facts = {
        "rows": f"{model.n_samples_}",
        "columns": f"{model.n_features_in_} + {model.n_features_y_}",
        "solver": f"{model.solver_}: {model.solver_reason_}",
    }
    if getattr(model, "resumed_from_iteration_", 0):
        facts["resumed"] = (
            f"from iteration {model.resumed_from_iteration_}; passes count from the start, time from there"
        )
    if isinstance(model, SparseCCA):
        # Residuals are those of CCA without sparsity, and would be taken for errors.
        facts["steps"] = f"{number(max(model.n_iter_), 'iteration')}, {model.n_passes_:.1f} passes"
    elif registry.is_iterative(model.solver_):
        facts["accuracy"] = (
            f"residuals of {model.residuals_.max():.1e} at most, after "
            f"{number(max(model.n_iter_), 'iteration')} and {model.n_passes_:.1f} passes"
        )
    if model.ridge != "auto":
        facts["ridge"] = f"{model.ridge}"
        if len(_columns(model, None)) > 1:
            facts["ridge"] += (
                ". The column 'with ridge' has the correlations of the problem with its ridge, in descending "
                "order; 'training' those of its scores"
            )
    facts["noise"] = noise_fact(evidence, model.canonical_correlations_)
    if not getattr(model, "center", True):
        facts["noise"] += ". Columns were not centred: means other than zero count as a relation"
    if evidence.test is not None:
        facts["p-values"] = p_fact(evidence.test)
    if isinstance(model, SparseCCA):
        facts["sparsity"] = f"{model.n_nonzero_[0]} + {model.n_nonzero_[1]} columns have a weight"
    return facts


def _all_remarks(model: BaseCCA) -> list[str]:
    """All warnings of a model: about its correlations, its run, and rows it has not seen."""
    origin = model.provenance
    # The command line records all warnings in its own words, and adds some.
    found = [remark.text for remark in model.remarks] if origin is None else [*origin.remarks]
    if origin is not None and origin.tested is not None:
        found += overfitted(model, origin.tested.correlations)
    return list(dict.fromkeys(found))


def _is_forced(model: BaseCCA) -> bool:
    """True if any rows of this shape would be as correlated."""
    forced = any(remark.overfit and "close to 1" in remark.text for remark in model.remarks)
    return forced and bool(model.training_correlations_[0] > 0.99)


def _history(model: BaseCCA) -> tuple[dict[str, list[float | None]] | None, str]:
    """Numbers of each step, by name, for the curve of convergence; or None and the reason.

    There is no reason to give for direct solvers, which do not converge.
    """
    if not registry.is_iterative(model.solver_):
        return None, ""
    steps = [step for step in model.history_ if np.isfinite(step["tcc"])]
    if len(steps) < 2:
        stream = model.streamed
        return None, "Rows came as a stream, whose steps are not kept." if stream else "There was one step."
    # Counted from the end, so that the last step is always kept.
    steps = steps[:: -max(1, -(-len(steps) // STEPS))][::-1]
    known = {name: [step[name] for step in steps] for name in ("iteration", "passes", "seconds", "flops")}
    known = {name: values for name, values in known.items() if np.all(np.isfinite(values))}
    if min(known.get("flops", [1])) <= 0:
        # Their axis is logarithmic, and cannot show zero.
        known.pop("flops")
    return {**known, "tcc": [round(step["tcc"], 6) for step in steps]}, ""
