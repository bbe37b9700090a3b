"""The summary of a model as one self-contained HTML file; its script draws the pictures."""

from __future__ import annotations

import json
import os
import platform
import re
from base64 import b64encode
from datetime import datetime
from hashlib import sha256
from html import escape
from importlib import resources
from typing import Any

import numpy as np
import scipy
import sklearn

from ..data.display import shown
from ..estimators.provenance import Origin
from ..fitting.archive import whole_file
from ..inference.results import CanonicalTest
from ..machine.readable import listed
from ..version import __version__
from .beliefs import Belief, p_fact
from .summary import Summary, beliefs_of, json_list
from .titles import heading

# Correlations of components by the heading of their column; None where one is not known.
Columns = dict[str, list[float | None]]
# Most characters of a name.
LENGTH = 200

# Shown instead of scores if no rows were given.
NO_SCORES = (
    "Scores need rows: <code>appgrad report model.cca X Y -o report.html</code> shows those of any rows."
)
NO_FEATURES = "Components of KernelCCA are functions of all columns at a time: there are no leading features."
NO_TEST = (
    "These are correlations of the rows that the fit has seen, which are too high where rows are few. Judge "
    "by others: <code>appgrad fit --holdout 0.1</code>, or <code>appgrad report model.cca X Y</code> with "
    "new rows."
)
CONVERGENCE = (
    '<section aria-labelledby="way">\n<h2 id="way">Convergence</h2>\n{}\n</section>\n'  # its content
)
CURVE = """<figure id="convergence">
<div class="controls"><span><label for="axis">Correlation captured by</label>\
<select id="axis" autocomplete="off"></select></span></div>
<svg class="chart" id="curve" role="img" aria-label="Convergence"></svg>
<figcaption>The sum of the correlations of all components after each step.{}</figcaption>
</figure>"""
FALLS = " It falls while columns are left out."
FORCED = "* forced: there are too few rows"
# Style of each column: correlations of training rows, of a problem with a ridge, or of other rows.
KINDS = {"training": "training", "estimate": "estimate", "with ridge": "estimate", "held out": "held"}
ROWS = {"training": "the rows of the fit", "held out": "held-out rows"}
CAPTION = {
    "correlation": "Leading features: correlations of columns with the scores of their view",
    "weight": "Columns with the largest weights, in units of the columns",
}


def write_report(path: str | os.PathLike[str], summary: Summary, *, title: str, command: str) -> None:
    """Write a summary to an HTML file, atomically."""
    with whole_file(path) as file:
        # Lone surrogates have no encoding: they are written as character references.
        file.write(page(summary, title=title, command=command).encode("utf-8", "xmlcharrefreplace"))


def page(summary: Summary, *, title: str, command: str) -> str:
    """The HTML page of a summary. Names of columns, files and groups are data: they are escaped.

    Examples
    --------
    >>> from sklearn.datasets import load_linnerud
    >>> from appgrad import CCA
    >>> from appgrad.reporting.html import page
    >>> from appgrad.reporting.summary import summary_of
    >>> model = CCA(2).fit(*load_linnerud(return_X_y=True))
    >>> html = page(summary_of(model), title="<linnerud>", command="appgrad fit x.npy y.npy")
    >>> "0.7956" in html, "&lt;linnerud&gt;" in html, "<linnerud>" in html
    (True, True, False)
    """
    template = resources.files("appgrad.reporting").joinpath("report.html").read_text("utf-8")
    columns = {name: json_list(values) for name, values in summary.columns.items()}
    parts = {
        "title": escape(title),
        "heading": heading(title),
        "estimator": escape(summary.estimator),
        "lead": _lead(summary, columns),
        "remarks": _remarks(summary.remarks),
        "correlations": _correlations(columns, summary),
        "beliefs": _beliefs(beliefs_of(summary)),
        "tests": _tests(summary.evidence.test),
        "variance": _variance(summary),
        "options": _options(columns),
        "scores": "" if summary.scores else f"<p>{NO_SCORES}</p>",
        "scores_hidden": "" if summary.scores else " hidden",
        "rows": _rows(summary.scores),
        "components": _components(summary),
        "convergence": _convergence(summary),
        "about": "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>'
            for name, text in _about(summary).items()
        ),
        "command": escape(_commands(summary.origin, command)),
        "made": escape(_made()),
        "facts": _json({"scores": summary.scores, "history": summary.history}),
        "style_hash": _hash(template, "style"),
        "script_hash": _hash(template, "script"),
    }
    # All gaps are filled in one pass, so that a name that looks like a gap is left alone.
    return re.sub(r"\{\{(\w+)\}\}", lambda gap: parts[gap[1]], template)


def _about(summary: Summary) -> dict[str, str]:
    """Where the model comes from, what was fitted and how: a text for each heading."""
    origin, held_out, timing = summary.origin, summary.held_out, summary.timing
    found = {} if origin is None else {"x": origin.x, "y": origin.y}
    found |= summary.facts | {"ridge": f"{summary.ridge}", "parameters": summary.call}
    if timing is not None:
        found["time"] = f"{timing.fit:.2f} s"
    elif summary.solver_seconds is not None:
        found["time"] = f"{summary.solver_seconds:.2f} s in the solver"
    if held_out is not None:
        found["held out"] = held_out.method + ("" if timing is None else f", {timing.check:.2f} s")
    return found | summary.about_rows


def _commands(origin: Origin | None, command: str) -> str:
    """The command that made the model, as its file has it, and the one that makes the page."""
    if origin is None or origin.command == command:
        return command
    return f"{' '.join(origin.command.splitlines())}  # says the model file\n{command}"


def _made() -> str:
    when = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %z")
    return (
        f"{when}, appgrad {__version__}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, scikit-learn {sklearn.__version__}"
    )


def _hash(template: str, tag: str) -> str:
    """Hash of the page's own style or script: the security policy allows no other."""
    (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", template, re.DOTALL)
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _json(data: dict[str, Any]) -> str:
    """JSON that cannot close the HTML element around it."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _lead(summary: Summary, columns: Columns) -> str:
    k, (p1, p2) = len(columns["training"]), summary.n_features
    pairs = "one pair of scores" if k == 1 else f"{k} pairs of scores"
    found = [
        f"{_number(value, '.3f')} on {escape(ROWS.get(name, name))}"
        for name, (value, *_) in columns.items()
        if KINDS.get(name) != "estimate" and value is not None
    ]
    first = "It has" if k == 1 else "The first has"
    return (
        f"{pairs[0].upper() + pairs[1:]} from {summary.n_samples:,} rows, {p1:,} columns in the first view "
        f"(x) and {p2:,} in the second (y). {first} a correlation of {listed(found)}."
    )


def _convergence(summary: Summary) -> str:
    """The section on convergence; direct solvers have none."""
    if summary.history is None and not summary.no_history:
        return ""
    if summary.history is None:
        return CONVERGENCE.format(f"<p>{escape(summary.no_history)}</p>")
    return CONVERGENCE.format(CURVE.format(FALLS if summary.measure == "weight" else ""))


def _remarks(remarks: tuple[str, ...]) -> str:
    if not remarks:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in remarks)
    return f'<section class="remarks" aria-label="Warnings"><ul>{items}</ul></section>'


def _number(value: float | None, form: str) -> str:
    # A minus sign, unlike a hyphen, is as wide as a plus.
    return "\N{EN DASH}" if value is None else format(value, form).replace("-", "\N{MINUS SIGN}")


def _correlations(columns: Columns, summary: Summary) -> str:
    """The table of correlations, with bars, what noise alone reaches, and p-values."""
    forced, evidence = summary.forced, summary.evidence
    kinds = {name: KINDS.get(name, "other") for name in columns}
    limits = json_list(evidence.limits)
    extra = summary.evidence_cells()
    low = min([0.0, *(value for values in columns.values() for value in values if value is not None)])
    head = "".join(f'<th scope="col" class="number {kinds[name]}">{escape(name)}</th>' for name in columns)
    head += "".join(f'<th scope="col" class="number extra">{escape(name)}</th>' for name in extra)
    body = []
    for i, values in enumerate(zip(*columns.values(), strict=True)):
        cells = []
        for name, value in zip(columns, values, strict=True):
            star = "*" if forced and name == "training" and (value or 0) > 0.99 else ""
            cells.append(f'<td class="number">{_number(value, ".4f")}{star}</td>')
        cells += [f'<td class="number extra">{_cell(found[i])}</td>' for found in extra.values()]
        drawn = [
            (kinds[name], v) for name, v in zip(columns, values, strict=True) if kinds[name] != "estimate"
        ]
        body.append(
            f'<tr><th scope="row" class="number">{i + 1}</th>{"".join(cells)}'
            f'<td class="bars">{_bars(drawn, low, 1.0, limits[i])}</td></tr>'
        )
    foot = f"<p>{FORCED}</p>" if forced else ""
    foot += f'<p class="soft">{_reading(summary)}</p>'
    foot += "" if {"held", "other"} & set(kinds.values()) else f"<p>{NO_TEST}</p>"
    return (
        '<table class="correlations"><caption>Correlations of paired scores</caption>'
        f'<thead><tr><th scope="col" class="number">component</th>{head}<td></td></tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table>{foot}"
    )


def _cell(text: str) -> str:
    return "\N{EN DASH}" if text == "-" else escape(text)


def _reading(summary: Summary) -> str:
    """How to read the columns beside the correlations."""
    evidence, parts = summary.evidence, []
    if not evidence.noise.reason:
        parts.append(
            "The dashed line, and the column noise, are what pure noise with as many rows and columns "
            f"exceeds in 5 of 100 data sets{'' if evidence.noise.known else ', at most'}."
        )
    else:
        parts.append(f"The noise level is not known: {escape(evidence.noise.reason)}.")
    if not np.all(np.isnan(evidence.effective_rows)):
        parts.append("Eff. rows: on about how many rows a component rests.")
    if evidence.test is not None:
        parts.append(f"p: {escape(p_fact(evidence.test))}.")
    return " ".join(parts)


def _beliefs(found: list[Belief]) -> str:
    """A sentence for each component, on whether to believe it."""
    marks = {True: "yes", False: "no", None: "open"}
    items = "".join(f'<li class="{marks[belief.holds]}">{escape(belief.text)}</li>' for belief in found)
    return f'<ul class="beliefs">{items}</ul>'


def _tests(test: CanonicalTest | None) -> str:
    """The tables of tests, if there was one."""
    return "" if test is None else f'<h3>Tests</h3><div class="wide">{test._repr_html_()}</div>'


def _variance(summary: Summary) -> str:
    """The table of shares of variance, with totals; empty for kernels."""
    if not summary.variance:
        return ""
    head = "".join(f'<th scope="col" class="number">{escape(name)}</th>' for name in summary.variance)
    lists = [json_list(values) for values in summary.variance.values()]
    rows = [(str(i + 1), values) for i, values in enumerate(zip(*lists, strict=True))]
    if summary.adds_up:
        rows.append(("all", tuple(json_list(np.array([np.sum(v) for v in summary.variance.values()])))))
    body = "".join(
        f'<tr><th scope="row" class="number">{name}</th>'
        + "".join(f'<td class="number">{_number(value, ".4f")}</td>' for value in values)
        + "</tr>"
        for name, values in rows
    )
    return (
        "<h3>Explained variance</h3><table><caption>Share of the variance of each view that its own scores "
        "explain (adequacy), and the scores of the other view (redundancy)</caption><thead><tr>"
        f'<th scope="col" class="number">component</th>{head}</tr></thead><tbody>{body}</tbody></table>'
    )


def _bars(values: list[tuple[str, float | None]], low: float, high: float, mark: float | None = None) -> str:
    """Bars from zero, one below the other, on a scale from low to high; with a dashed line at a mark."""
    span, height = (high - low) or 1.0, 10 / max(1, len(values))
    zero = 100 * -low / span
    parts = []
    for i, (kind, value) in enumerate(values):
        if value is not None:
            end = 100 * (min(max(value, low), high) - low) / span
            parts.append(
                f'<rect class="{kind}" x="{min(zero, end):.2f}" y="{i * height:.2f}" '
                f'width="{abs(end - zero):.2f}" height="{height - 1:.2f}"/>'
            )
    axis = f'<line x1="{zero:.2f}" x2="{zero:.2f}" y1="0" y2="10"/>'
    if mark is not None:
        at = 100 * (mark - low) / span
        axis += f'<line class="noise" x1="{at:.2f}" x2="{at:.2f}" y1="0" y2="10"/>'
    return (
        '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
        f"{''.join(parts)}{axis}</svg>"
    )


def _options(columns: Columns) -> str:
    return "".join(
        f'<option value="{i}">{i + 1} ({_number(value, ".3f")})</option>'
        for i, value in enumerate(columns["training"])
    )


def _rows(scores: dict[str, Any] | None) -> str:
    if not scores:
        return ""
    shown, total = len(scores["rows"]), scores["total"]
    some = f"all {total:,}" if shown == total else f"{shown:,} of {total:,}, chosen at random"
    return f"A point is a row{' of the fit' if scores.get('fitted') else ''} ({some}), counted from 0."


def _components(summary: Summary) -> str:
    """The leading features of every component; the script shows one component at a time."""
    if summary.measure is None:
        return f"<p>{NO_FEATURES}</p>"
    # One scale for all components and both views: bars are compared across tables.
    every = (
        abs(item[summary.measure])
        for component in summary.components
        for items in component.values()
        for item in items
    )
    reach = 1.0 if summary.measure == "correlation" else max(every, default=1.0)
    parts = []
    training = json_list(summary.training)
    for i, component in enumerate(summary.components):
        tables = "".join(
            _features(component[view], view, p, summary.measure, reach)
            for view, p in zip("xy", summary.n_features, strict=True)
        )
        rho = _number(training[i], ".4f")
        parts.append(
            f'<section class="component" id="component-{i}" aria-label="Component {i + 1}">'
            f'<h3>Component {i + 1} <span class="soft">{rho} in training</span></h3>'
            f'<div class="pair">{tables}</div></section>'
        )
    return f'<p class="soft">{CAPTION[summary.measure]}.</p>' + "".join(parts)


def _features(items: list[dict[str, Any]], view: str, p: int, measure: str, reach: float) -> str:
    """A table of leading features; bars end at `reach`."""
    rows = "".join(
        f'<tr><th scope="row"><bdi>{escape(shown(item["feature"], LENGTH))}</bdi></th>'
        f'<td class="number">{_number(item[measure], "+.3f")}</td>'
        f'<td class="bars">{_bars([(_side(item[measure]), item[measure])], -reach, reach)}</td></tr>'
        for item in items
    )
    of = f"{len(items)} of {p:,} columns" if len(items) < p else f"all {p} columns"
    return (
        f'<table class="features"><caption>View {view}: {of}</caption><thead><tr><th scope="col">feature</th>'
        f'<th scope="col" class="number">{measure}</th><td></td></tr></thead><tbody>{rows}</tbody></table>'
    )


def _side(value: float) -> str:
    """Style of a bar: that of training rows to the right of zero, the other one to the left."""
    return "training" if value > 0 else "other"
