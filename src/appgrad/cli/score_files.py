"""Scores as files: .npz, .csv, .parquet or .npy."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from ..fitting.archive import whole_file
from ..machine.arrays import Array


class Scores(NamedTuple):
    """Scores of one view or of both, by name, and the keys of their rows, by the name of their column."""

    views: dict[str, Array]
    keys: dict[str, Array]

    @property
    def columns(self) -> dict[str, Array]:
        """Every column of a table by its name, keys first."""
        scores = {f"{name}_{i + 1}": s[:, i] for name, s in self.views.items() for i in range(s.shape[1])}
        return {**self.keys, **scores}


def require_writer(path: Path, views: int, key: str | None) -> None:
    """Raise unless scores of so many views, and their keys, can be written to a file of this name."""
    if path.suffix not in WRITERS:
        raise ValueError(f"{path}: expected a name that ends in {', '.join(WRITERS)}")
    if path.suffix == ".npy" and (views > 1 or key is not None):
        what = "both views" if views > 1 else "scores with --id"
        raise ValueError(
            f"{path}: .npy holds one array; for {what} give a name that ends in .npz, .csv or .parquet"
        )
    if key is not None and (key in ("file", "allow_pickle") or key.startswith(("x_scores", "y_scores"))):
        raise ValueError(f"--id {key}: scores have a part of this name; rename the column")


def write_scores(path: Path, scores: Scores) -> None:
    """Write scores as the ending of the name says, whole or not at all; a link is followed."""
    with whole_file(path) as file:
        WRITERS[path.suffix](file, scores)


def _write_npz(file: IO[bytes], scores: Scores) -> None:
    np.savez(file, allow_pickle=False, **scores.views, **scores.keys)


def _write_npy(file: IO[bytes], scores: Scores) -> None:
    (only,) = scores.views.values()
    np.save(file, only, allow_pickle=False)


@contextmanager
def _as_text(binary: IO[bytes]) -> Iterator[io.TextIOWrapper]:
    """A file of bytes as one of text, which leaves it open."""
    text = io.TextIOWrapper(binary, encoding="utf-8", newline="")
    try:
        yield text
    finally:
        text.detach()


def _write_csv(binary: IO[bytes], scores: Scores) -> None:
    numbers = np.column_stack(list(scores.views.values()))
    with _as_text(binary) as file:
        csv.writer(file, lineterminator="\n").writerow(scores.columns)
        if not scores.keys:
            np.savetxt(file, numbers, delimiter=",")
            return
        (keys,) = scores.keys.values()
        rows = zip(
            keys.tolist() if keys.dtype.kind != "M" else keys.astype(str), numbers.tolist(), strict=True
        )
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([key, *(f"{value:.18e}" for value in row)] for key, row in rows)


def _write_parquet(file: IO[bytes], scores: Scores) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("writing .parquet needs pyarrow: pip install 'appgrad[files]'") from error
    pq.write_table(pa.table(scores.columns), file)


WRITERS = {".npz": _write_npz, ".csv": _write_csv, ".parquet": _write_parquet, ".npy": _write_npy}
