"""The experiments of the paper, section 4, and two uses of CCA: records first, figures from them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from ..datasets.loaders import Folder
from . import bilingual, mediamill, mnist, ptb, url
from .records import writing

EXPERIMENTS = {
    "mnist": mnist.run,
    "mediamill": mediamill.run,
    "ptb": ptb.run,
    "url": url.run,
    "bilingual": bilingual.run,
}


def run(name: str, data: Folder, out: Path, quick: bool = False) -> Iterator[str]:
    """Run an experiment and write its records to out/name.jsonl; yields a text before each part.

    A run that was stopped left its records in out/name.jsonl.part: what is recorded there is not done again.
    The seconds of the last record are those since the last start.
    """
    if name not in EXPERIMENTS:
        raise ValueError(f"no experiment is called {name!r}: there are {', '.join(EXPERIMENTS)}")
    # Without the names of folders: a record must say nothing about the machine it was made on.
    given = "" if data is None else " --data DIR"
    command = f"appgrad experiment {name}{given} --out DIR" + (" --quick" if quick else "")
    with writing(out / f"{name}.jsonl", experiment=name, command=command, quick=quick) as writer:
        start = time.perf_counter()
        if writer.recorded:
            yield f"going on from {writer.path}, which holds {len(writer.recorded) - 1} records"
        yield from EXPERIMENTS[name](data, writer, quick)
        writer.add(kind="end", seconds=time.perf_counter() - start)
