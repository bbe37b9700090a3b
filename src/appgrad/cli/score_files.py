"""Scores as files: .npz, .csv or .parquet."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from ..machine.arrays import Array


def write_scores(path: Path, scores: dict[str, Array]) -> None:
    """Write scores as the ending of the name says, to a neighbour first: a failure leaves no half file."""
    part = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        WRITERS[path.suffix](part, scores)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _write_npz(path: Path, scores: dict[str, Array]) -> None:
    with open(path, "wb") as file:
        np.savez(file, allow_pickle=False, **scores)


def _columns(scores: dict[str, Array]) -> dict[str, Array]:
    return {f"{name}_{i + 1}": s[:, i] for name, s in scores.items() for i in range(s.shape[1])}


def _write_csv(path: Path, scores: dict[str, Array]) -> None:
    columns = _columns(scores)
    np.savetxt(
        path, np.column_stack(list(columns.values())), delimiter=",", header=",".join(columns), comments=""
    )


def _write_parquet(path: Path, scores: dict[str, Array]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("writing .parquet needs pyarrow: pip install 'appgrad[files]'") from error
    pq.write_table(pa.table(_columns(scores)), path)


WRITERS = {".npz": _write_npz, ".csv": _write_csv, ".parquet": _write_parquet}
