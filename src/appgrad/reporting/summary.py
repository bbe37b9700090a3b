"""All there is to say of a model and of rows, as plain facts: for a report, or what else may show them."""

from __future__ import annotations

import platform
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn

from ..data.names import shown
from ..data.views import Views
from ..estimators.base import BaseCCA
from ..estimators.kernel import KernelCCA
from ..machine.arrays import Array
from ..metrics import correlations
from ..solvers.registry import is_iterative
from ..version import __version__
from .facts import correlation_columns, facts_in_words, json_list, overfitted
from .features import leading_components, lines_of, measure_of, names_of
from .labels import Groups, groups_or_numbers

# Rows whose scores are shown, and numbers in all: with many components fewer rows, so that files stay small.
ROWS, NUMBERS, LEAST = 2000, 40_000, 200
# Steps of a run: a curve of more has no more to show on a screen.
STEPS = 500
# Letters of a name: beyond, it is no name.
LENGTH = 200


def findings(
    model: BaseCCA,
    names: tuple[list[str], list[str]],
    *,
    title: str,
    command: str,
    columns: dict[str, Array] | None = None,
    remarks: list[str] | None = None,
    about: dict[str, str] | None = None,
    scores: dict[str, Any] | None = None,
    top: int = 10,
) -> dict[str, Any]:
    """What was fitted, how well, and what the components are made of, as JSON can hold it.

    `columns` are correlations on rows other than those of the fit, `remarks` what to beware of, `about` facts
    that the model does not know of itself, `scores` those of `scores_of`.
    """
    origin = model.provenance
    tested = None if origin is None else origin.tested
    found = correlation_columns(model, tested) | ({} if columns is None else columns)
    remarks, about, where = remarks or [], about or {}, {}
    if origin is not None:
        where = {"x": origin.x, "y": origin.y}
        made = " ".join(origin.command.splitlines())
        command = command if origin.command == command else f"{made}  # says the model file\n{command}"
    components = leading_components(model, top, names)
    for item in (item for component in components for view in component.values() for item in view):
        item["feature"] = shown(item["feature"], LENGTH)
    history, why_none = _history(model)
    return {
        "title": title,
        "estimator": type(model).__name__,
        "rows": int(model.n_samples_),
        "n_features": [int(model.n_features_in_), int(model.n_features_y_)],
        "correlations": {name: json_list(values) for name, values in found.items()},
        "forced": is_forced(model),
        "remarks": list(dict.fromkeys([*remarks_on(model), *remarks])),
        "measure": None if isinstance(model, KernelCCA) else measure_of(model),
        "components": components,
        "top": top,
        "history": history,
        "no_history": why_none,
        "scores": scores,
        "about": {
            **where,
            **facts_in_words(model),
            "ridge": f"{model.ridge}",
            "parameters": " ".join(repr(model).split()),
            **_time(model),
            **({} if tested is None else {"held out": tested.method}),
            **about,
        },
        "command": command,
        "made": _made(),
    }


def fit_findings(
    model: BaseCCA, views: Views, remarks: list[str], seconds: tuple[float, float]
) -> dict[str, Any]:
    """Findings on a fit of the command line just made, with the seconds of it and of its held-out check."""
    origin = model.provenance
    assert origin is not None
    about = {"time": f"{seconds[0]:.2f} s"}
    if origin.tested is not None:
        about["held out"] = f"{origin.tested.method}, {seconds[1]:.2f} s"
    return findings(
        model,
        (names_of(model, "x"), names_of(model, "y")),
        title=f"{origin.x} and {origin.y}",
        command=origin.command,
        remarks=remarks,
        about=about,
        scores=scores_of(model, views),
    )


def scores_of(model: BaseCCA, views: Views, seed: int = 0) -> dict[str, Any]:
    """Scores of all rows of a fit, or of as many random ones as a report holds."""
    rows = sampled(views.n_samples, len(model.canonical_correlations_), seed)
    U, V = model.transform(views if len(rows) == views.n_samples else views.take(rows))
    rho = json_list(model.training_correlations_)
    return plain_scores(U, V, rows, views.n_samples) | {"fitted": True, "correlations": rho}


def rows_shown(model: BaseCCA, views: Views, labels: Path | None = None) -> dict[str, Any]:
    """What findings say of rows that need not be those of the fit: scores, correlations, and where from."""
    n = views.n_samples
    known = None if labels is None else lines_of(labels, "a group or number")
    if known is not None and len(known) != n:
        header = "; is the first a header?" if len(known) == n + 1 else ""
        raise ValueError(f"{labels} has {len(known)} lines for {n} rows: expected one for each{header}")
    U, V = model.transform(views)
    found, rows = correlations(U, V), sampled(n, U.shape[1])
    remarks = overfitted(model, found, "these rows")
    same = n == model.n_samples_ and np.allclose(found, model.training_correlations_, rtol=0, atol=1e-6)
    # Correlations of 1 are those of any rows, means of 0 are not.
    if same and (not getattr(model, "center", True) or np.abs(U.mean(axis=0)).max() < 1e-5):
        remarks = ["these rows seem to be those of the fit: rows it has not seen say more"]
    return {
        "columns": {"these rows": found},
        "remarks": remarks,
        "about": {"these rows": f"{n} of {' and '.join(views.view_names)}, with the weights of the model"},
        "scores": plain_scores(U[rows], V[rows], rows, n, known) | {"correlations": json_list(found)},
    }


def plain_scores(
    U: Array, V: Array, rows: Array, total: int, labels: list[str] | None = None
) -> dict[str, Any]:
    """Scores of these of the rows, component by component, and what to colour them by."""
    found: dict[str, Any] = {
        "x": [_steps_of(u) for u in U.T],
        "y": [_steps_of(v) for v in V.T],
        "rows": rows.tolist(),
        "total": total,
    }
    if labels is not None:
        groups = groups_or_numbers(labels)
        if isinstance(groups, Groups):
            found["groups"] = [shown(name, 40) for name in groups.names]
            found["codes"] = groups.codes[rows].tolist()
        else:
            found["numbers"] = _rounded(groups[rows])
    return found


def sampled(n: int, k: int, seed: int = 0) -> Array:
    """Rows to show of n, in order."""
    size = min(n, ROWS, max(LEAST, NUMBERS // k))
    if size == n:
        return np.arange(n)
    # Without shuffling, what is drawn takes memory, not what it is drawn from.
    return np.sort(np.random.default_rng(seed).choice(n, size, replace=False, shuffle=False))


def _steps_of(values: Array) -> list[float]:
    """In steps of a thousandth of their spread or less: finer ones cannot be seen."""
    spread = float(np.std(values)) or 1.0
    digits = 3 - int(np.floor(np.log10(spread))) if np.isfinite(spread) else 0
    return [round(float(value), digits) for value in values]


def _rounded(values: Array) -> list[float | None]:
    """Four digits: more cannot be seen."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]


def _history(model: BaseCCA) -> tuple[dict[str, list[float | None]] | None, str]:
    """The steps of a run by what they are drawn against; or why there are none."""
    if not is_iterative(model.solver_):
        return None, f"{model.solver_} is a direct solver: nothing to converge."
    steps = [step for step in model.history_ if np.isfinite(step["tcc"])]
    if len(steps) < 2:
        stream = model.streamed
        return None, "Rows came as a stream, whose steps are not kept." if stream else "There was one step."
    # The last one is always among them.
    steps = steps[:: -max(1, -(-len(steps) // STEPS))][::-1]
    known = {name: [step[name] for step in steps] for name in ("iteration", "passes", "seconds", "flops")}
    known = {name: values for name, values in known.items() if np.all(np.isfinite(values))}
    if min(known.get("flops", [1])) <= 0:
        # They are drawn on a logarithmic axis.
        known.pop("flops")
    return {**known, "tcc": [round(step["tcc"], 6) for step in steps]}, ""


def _time(model: BaseCCA) -> dict[str, str]:
    """How long the fit took; of a stream nobody knows."""
    if model.streamed:
        return {}
    return {"time": f"{model.history_[-1]['seconds']:.2f} s in the solver"}


def remarks_on(model: BaseCCA) -> list[str]:
    """What to beware of in a model: of its correlations, of its run, and of rows it has not seen."""
    origin = model.provenance
    # Those of the command line are in its words, and more.
    found = [remark.text for remark in model.remarks] if origin is None else [*origin.remarks]
    if origin is not None and origin.tested is not None:
        found += overfitted(model, origin.tested.correlations)
    return list(dict.fromkeys(found))


def is_forced(model: BaseCCA) -> bool:
    """Whether any rows of this shape would be as correlated."""
    overfit = any(remark.overfit for remark in model.remarks)
    return overfit and bool(model.training_correlations_[0] > 0.99)


def _made() -> str:
    when = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %z")
    return (
        f"{when}, appgrad {__version__}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    )
