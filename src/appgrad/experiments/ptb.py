"""Penn Tree Bank: a word against the next one, and against the two words on either side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..datasets.loaders import Folder, load_ptb
from .curves import Judge, add_curves, add_sizes, add_solution, letter_curves, our_curves
from .records import Writer

# The variance of a word that is one of 100,000: results of rarer words do not hold for other rows.
SETTING: dict[str, Any] = {"ridge": 1e-5}
NAMES = {"next": "PTB, next word", "around": "PTB, two words either side"}


def run(folder: Folder, writer: Writer, quick: bool) -> Iterator[str]:
    """Write all records; yields a text before each part.

    Covariances of 20,000 columns and their factors do not fit into the memory of a desktop: the reference is
    LOBPCG, to residuals of 1e-6.
    """
    for context, name in NAMES.items():
        data = load_ptb(folder, context)
        judge = Judge(name, data, 20)
        add_sizes(writer, judge.name, data)
        reference = {**SETTING, "solver": "lobpcg", "tol": 1e-6, "random_state": 0}
        yield from add_solution(writer, judge, "reference", reference)
        papers = letter_curves((20, 200) if quick else (1000, 5000), 6, batch_size=1000)
        ours = our_curves((15, 60, 15) if quick else (100, 1000, 60), 6, batch_size=5000)
        yield from add_curves(writer, judge, [*papers, *ours], SETTING)
