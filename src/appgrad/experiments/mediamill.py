"""Mediamill: features of video frames against their labels."""

from __future__ import annotations

from collections.abc import Iterator

from ..datasets.loaders import Folder, load_mediamill
from .curves import Judge, add_curves, add_sizes, add_solution, letter_curves, our_curves
from .records import Writer


def run(folder: Folder, writer: Writer, quick: bool) -> Iterator[str]:
    """Write all records; yields a text before each part."""
    data, seeds = load_mediamill(folder), 1 if quick else 3
    judge = Judge("Mediamill", data, 20)
    add_sizes(writer, judge.name, data)
    yield from add_solution(writer, judge, "exact", {"solver": "exact"})
    papers = letter_curves((100, 500) if quick else (2000, 4000), seeds=seeds, batch_size=200)
    ours = our_curves((50, 300, 20) if quick else (200, 2000, 40), seeds=seeds)
    yield from add_curves(writer, judge, [*papers, *ours], {})
