"""Figures of the experiments, drawn from records alone; needs matplotlib (appgrad[plots])."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from .bilingual import method_name, weighted_retrievals
from .records import Record, curves_of, read, sets, slug

# Blue for the algorithm on all rows, red for that on minibatches, dashed where they are ours.
STYLES = {
    "AppGrad": ("#1f5fa8", "-"),
    "stochastic AppGrad": ("#d1495b", "-"),
    "AppGrad, preconditioned": ("#1f5fa8", "--"),
    "stochastic AppGrad, preconditioned": ("#d1495b", "--"),
    "LOBPCG": ("#2a7f62", "-."),
}
HEURISTICS = {"NW-CCA": "#8c564b", "DW-CCA": "#9467bd", "PCA-CCA": "#555555"}
MARKERS = "osD^v<>P"
SIDES = {"in": "in sample", "out": "out of sample"}


def draw(path: Path, folder: Path) -> list[Path]:
    """Draw all figures that the records of one experiment allow; returns their files."""
    _, records = read(path)
    folder.mkdir(parents=True, exist_ok=True)
    drawn: list[Path] = []

    def save(name: str, figure: Figure) -> None:
        drawn.append(folder / f"{name}.png")
        figure.savefig(drawn[-1], dpi=150)

    for name in sets(records):
        own = [record for record in records if record.get("set") == name]
        if any(record["kind"] == "solution" for record in own):
            save(f"{slug(name)}_pcc", proportions(own))
        elif any(record["kind"] == "heuristic" for record in own):
            save(f"{slug(name)}_tcc", totals(own))
    if any(record["kind"] == "labels" for record in records):
        save("mnist_labels", few_labels(records))
    if any(record["kind"] == "retrieval" for record in records):
        save("bilingual_retrieval", retrieval(records))
    return drawn


def proportions(records: list[Record]) -> Figure:
    """PCC in and out of sample against iterations, log(FLOP) and seconds: Figures 1 to 6 of the paper."""
    (truth,) = [record for record in records if record["kind"] == "solution"]
    figure, axes = _panels(2, 3, (10, 6.2))
    costs: list[tuple[str, Callable[[Record], float]]] = [
        ("iterations", lambda point: point["iteration"]),
        ("log(FLOP)", lambda point: np.log(point["flops"])),
        ("seconds", lambda point: point["seconds"]),
    ]
    for row, side in zip(axes, SIDES, strict=True):
        for ax, (label, cost) in zip(row, costs, strict=True):
            for method, seeds in curves_of(records).items():
                color, line = STYLES[method]
                for i, points in enumerate(seeds):
                    values = [100 * point[f"tcc_{side}"] / truth[f"tcc_{side}"] for point in points]
                    name = method if i == 0 else None
                    ax.plot(
                        [cost(p) for p in points],
                        values,
                        line,
                        color=color,
                        label=name,
                        alpha=0.9 if i == 0 else 0.35,
                    )
            if label != "seconds":
                _published(ax, records, side, cost)
            if truth["method"] == "exact" and label != "iterations":
                ax.plot(cost(truth), 100, "*", color="black", markersize=11, label="exact", clip_on=False)
            ax.set(xlabel=label, ylabel=f"PCC {SIDES[side]} (%)" if ax is row[0] else None)
            if label != "log(FLOP)":
                ax.set_xscale("log")
            ax.set_ylim(bottom=max(0, ax.get_ylim()[0]), top=max(101.5, ax.get_ylim()[1]))
    figure.suptitle(records[0]["set"])
    _legend(figure, axes[0, 1])
    return figure


def _published(ax: Any, records: list[Record], side: str, cost: Callable[[Record], float]) -> None:
    """Draw the authors' points, at the cost of our run of the same method after as many iterations."""
    for method, seeds in curves_of(records).items():
        color, _ = STYLES[method]
        ours = {point["iteration"]: point for point in seeds[0]}
        points = [r for r in records if r["kind"] == "published" and r["method"] == method]
        points = [point for point in points if point["iteration"] in ours]
        if points:
            x = [cost(ours[point["iteration"]]) for point in points]
            style = {"color": color, "fillstyle": "none", "markersize": 5, "label": f"{method}, published"}
            ax.plot(x, [point[f"pcc_{side}"] for point in points], "o", **style)


def totals(records: list[Record]) -> Figure:
    """TCC in and out of sample by log(FLOP) and seconds; heuristics as dashed lines, their costs as dots."""
    figure, axes = _panels(2, 2, (9, 6.6))
    costs: list[tuple[str, Callable[[Record], float]]] = [
        ("log(FLOP)", lambda point: np.log(point["flops"])),
        ("seconds", lambda point: point["seconds"]),
    ]
    for row, side in zip(axes, SIDES, strict=True):
        for ax, (label, cost) in zip(row, costs, strict=True):
            for method, (points,) in curves_of(records).items():
                color, line = STYLES[method]
                ax.plot(
                    [cost(p) for p in points],
                    [p[f"tcc_{side}"] for p in points],
                    line,
                    color=color,
                    label=method,
                )
            found = [record for record in records if record["kind"] == "heuristic"]
            for record, marker in zip(found, cycle(MARKERS), strict=False):
                color = HEURISTICS[record["method"].split(",")[0]]
                ax.axhline(record[f"tcc_{side}"], linestyle=(0, (4, 3)), color=color, linewidth=0.9)
                ax.plot(cost(record), record[f"tcc_{side}"], marker, color=color, label=record["method"])
            ax.set(xlabel=label, ylabel=f"TCC {SIDES[side]}" if ax is row[0] else None)
            if label == "seconds":
                ax.set_xscale("log")
            ax.set_ylim(bottom=max(0.0, min(r[f"tcc_{side}"] for r in found) - 5), top=20.3)
    figure.suptitle(records[0]["set"])
    _legend(figure, axes[0, 0])
    return figure


def few_labels(records: list[Record]) -> Figure:
    """Accuracy against the number of labels, one panel for each number of features."""
    found = [record for record in records if record["kind"] == "labels"]
    widths = sorted({record["k"] for record in found if record["k"]})
    figure, axes = _panels(1, len(widths), (3.2 * len(widths) + 0.4, 3.6))
    for ax, k in zip(axes[0], widths, strict=True):
        kinds = sorted({(r["features"], r["ridge"] or 0) for r in found if r["k"] in (k, None)})
        for (name, ridge), marker in zip(kinds, cycle(MARKERS), strict=False):
            own = [
                r for r in found if (r["features"], r["ridge"] or 0) == (name, ridge) and r["k"] in (k, None)
            ]
            sizes = sorted({r["labels"] for r in own})
            mean = [100 * np.mean([r["accuracy"] for r in own if r["labels"] == size]) for size in sizes]
            color = {"pixels": "#555555", "PCA": "#d1495b"}.get(name, "#1f5fa8" if ridge >= 1 else "#7aa6d6")
            label = f"{name}, ridge {ridge:g}" if ridge else name
            ax.plot(sizes, mean, marker + "-", color=color, label=label, markersize=4)
        ax.set(
            xscale="log",
            xlabel="labelled digits",
            title=f"k = {k}",
            ylabel="accuracy (%)" if k == widths[0] else None,
        )
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
    _legend(figure, axes[0, 0])
    return figure


def retrieval(records: list[Record]) -> Figure:
    """Translations found first, and among the first ten, against components: one panel for each ridge."""
    found = weighted_retrievals(records)
    ridges, widths = (sorted({record[name] for record in found}) for name in ("ridge", "k"))
    figure, axes = _panels(2, len(ridges), (2.4 * len(ridges) + 0.6, 5.6), sharey="row")
    for row, (top, what) in zip(axes, {"top1": "first", "top10": "among ten"}.items(), strict=True):
        for ax, ridge in zip(row, ridges, strict=True):
            own = [record for record in found if record["ridge"] == ridge]
            for name, marker in zip(dict.fromkeys(map(method_name, own)), cycle(MARKERS), strict=False):
                points = [record for record in own if method_name(record) == name]
                k, share = [r["k"] for r in points], [100 * r[top] for r in points]
                color = HEURISTICS.get(points[0]["method"], "#1f5fa8")
                ax.plot(k, share, marker + "-", color=color, label=name, markersize=5)
            ax.set_xticks(widths)
            if ax is row[0]:
                ax.set_ylabel(f"found {what} (%)")
            ax.set(**{"title": f"ridge {ridge:g}"} if top == "top1" else {"xlabel": "components"})
    _legend(figure, axes[0, 0], 4)
    return figure


def _panels(
    rows: int, columns: int, size: tuple[float, float], sharey: Literal["none", "row"] = "none"
) -> tuple[Figure, Any]:
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=sharey)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(alpha=0.25, linewidth=0.6)
    return figure, axes


def _legend(figure: Figure, ax: Any, columns: int = 3) -> None:
    """One legend for all panels, below them, in as many columns as fit into the width of the figure."""
    renderer: Any = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]
    for ncols in range(columns, 0, -1):
        legend = figure.legend(
            *ax.get_legend_handles_labels(),
            loc="outside lower center",
            ncols=ncols,
            frameon=False,
            fontsize=9,
        )
        if ncols == 1 or legend.get_window_extent(renderer).width <= figure.bbox.width:
            return
        legend.remove()
