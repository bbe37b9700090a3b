"""Mediamill: features of video frames against their labels."""

from __future__ import annotations

from collections.abc import Iterator

from ..loaders import Folder, load_mediamill
from .curves import (
    LETTER,
    Curve,
    Judge,
    add_curve,
    add_sizes,
    add_solution,
    checkpoints,
    our_curves,
    with_step,
)
from .records import Writer


def curves(quick: bool) -> list[Curve]:
    """What is run: the paper's algorithms with a step chosen on held-out rows, ours, and LOBPCG."""
    return [
        Curve(
            "AppGrad", {"solver": "appgrad", **LETTER, "step_size": None}, checkpoints(100 if quick else 2000)
        ),
        Curve(
            "stochastic AppGrad",
            {"solver": "stochastic", "batch_size": 200, "normaliser": "batch", **LETTER, "step_size": None},
            checkpoints(500 if quick else 4000),
        ),
        *our_curves((50, 300, 20) if quick else (200, 2000, 40)),
    ]


def run(folder: Folder, writer: Writer, quick: bool) -> Iterator[str]:
    """Write all records; says what it is about to do."""
    data = load_mediamill(folder)
    judge = Judge("Mediamill", data, 20)
    add_sizes(writer, judge.name, data)
    yield "exact"
    add_solution(writer, judge, "exact", {"solver": "exact"})
    for curve in curves(quick):
        if "step_size" in curve.params:
            yield f"{curve.method}: choosing a step"
            curve = with_step(writer, judge, curve, {})
        for seed in range(1 if quick or curve.params["solver"] != "stochastic" else 3):
            yield f"{curve.method}, seed {seed}"
            add_curve(writer, judge, curve, seed, {})
