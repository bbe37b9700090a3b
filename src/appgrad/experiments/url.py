"""URL Reputation and its stand-ins: stochastic AppGrad against heuristics, where covariances do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..datasets.loaders import Folder, Paired, load_sparse
from ..datasets.url_reputation import is_url_reputation, load_url_reputation
from .curves import Curve, Judge, add_curves, add_sizes, checkpoints, minibatch_flops
from .heuristics import add_heuristic
from .records import Writer

# Results of columns that fewer than one row in 100,000 has do not hold for other rows.
RIDGE = 1e-5


class Setting(NamedTuple):
    """A data set, its batch size and its number of iterations."""

    name: str
    load: Callable[[], Paired]
    batch_size: int
    iterations: int


def settings(folder: Folder, quick: bool) -> list[Setting]:
    """The original files if there are any, else their stand-ins."""
    if is_url_reputation(folder) or folder is None:
        return [Setting("URL Reputation", lambda: load_url_reputation(folder), 10000, 30 if quick else 300)]
    return [
        Setting("malicious_urls", lambda: load_sparse("malicious_urls", folder), 5000, 60 if quick else 1000),
        Setting("debian_paths", lambda: load_sparse("debian_paths", folder), 10000, 20 if quick else 500),
    ]


def curves(batch_size: int, iterations: int, quick: bool) -> list[Curve]:
    """The curves to run: five extra columns, as in the paper; with a preconditioner and without."""
    stochastic = {"solver": "stochastic", "oversampling": 5, "batch_size": batch_size, "tol": 0}
    looks = checkpoints(iterations, 6)
    return [
        Curve(
            "stochastic AppGrad",
            {**stochastic, "preconditioner": None, "normaliser": "batch"},
            looks,
            paper=minibatch_flops,
        ),
        Curve("stochastic AppGrad, preconditioned", stochastic, looks),
        Curve("LOBPCG", {"solver": "lobpcg", "tol": 0}, checkpoints(12 if quick else 60, 6)),
    ]


def run(folder: Folder, writer: Writer, quick: bool) -> Iterator[str]:
    """Write all records; yields a text before each part."""
    for setting in settings(folder, quick):
        yield f"{setting.name}: reading"
        data = setting.load()
        judge = Judge(setting.name, data, 20)
        add_sizes(writer, judge.name, data)
        yield from add_curves(
            writer, judge, curves(setting.batch_size, setting.iterations, quick), {"ridge": RIDGE}
        )
        for name, m in heuristics(quick):
            if not writer.found(kind="heuristic", set=judge.name, method=name):
                yield f"{setting.name}: {name}"
                add_heuristic(writer, judge, name, m, RIDGE)


def heuristics(quick: bool) -> list[tuple[str, int | None]]:
    """The paper's comparisons: no whitening, diagonal whitening, whitening of m principal components."""
    sizes = (100,) if quick else (100, 300, 1200)
    return [("NW-CCA", None), ("DW-CCA", None), *((f"PCA-CCA, m = {m}", m) for m in sizes)]
