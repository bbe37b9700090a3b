"""Tables in parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...machine.arrays import Array, Matrix
from ..row_labels import Labels, together
from .parquet_labels import label_columns, parquet_labels
from .selection import Selection
from .spool import Spool

# Cells of a parquet file that are decoded at a time.
BATCH_CELLS = 2**20


def read_parquet(paths: list[str], asked: Selection) -> tuple[Matrix, Array, list[int], Labels | None]:
    """The columns of one parquet file, or of several with the same columns, decoded once.

    Returns their names, the number of rows of each file and facts about row labels too.
    """
    pa, pq = pyarrow_parquet()
    spool, first, kinds, counts, labels = Spool(), None, [], [], []
    for path in paths:
        with _named(path, paths), pq.ParquetFile(path) as file:
            names = parquet_names(pa, file.schema_arrow, asked)
            counts.append(file.metadata.num_rows)
            labels.append(parquet_labels(pa, file))
            kinds.append(parquet_type(file.schema_arrow, names))
            if first is None:
                first = names
            elif list(names) != list(first):
                raise ValueError(f"it has other columns than {paths[0]}")
    assert first is not None
    dtype = np.result_type(*kinds)
    for path in paths:
        with _named(path, paths), pq.ParquetFile(path) as file:
            for batch in file.iter_batches(max(1, BATCH_CELLS // len(first)), columns=list(first)):
                # By name: pyarrow delivers columns in the order of the file.
                parts = [batch.column(batch.schema.get_field_index(name)) for name in first]
                columns = [part.to_numpy(zero_copy_only=False) for part in parts]
                spool.append(np.column_stack(columns).astype(dtype, copy=False))
    matrix = spool.array() if spool.size else np.empty((0, len(first)))
    return matrix, first, counts, together(labels)


@contextmanager
def _named(path: str, paths: list[str]) -> Iterator[None]:
    """Errors about one of several files name it."""
    try:
        yield
    except (OSError, ValueError) as error:
        if len(paths) == 1:
            raise
        raise ValueError(f"{path}: {error}") from error


def pyarrow_parquet() -> tuple[Any, Any]:
    """What reads parquet files."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise ImportError("reading .parquet needs pyarrow: pip install 'appgrad[files]'") from error
    return pa, pq


def parquet_names(pa: Any, schema: Any, asked: Selection) -> Array:
    """The columns asked for, all of them numeric."""
    labels = label_columns(schema)
    names = np.array([name for name in schema.names if name not in labels], dtype=object)
    if len(set(names)) < len(names):
        raise ValueError("it has two columns of the same name")
    index = asked.positions(
        len(names), names, lambda: np.array([_is_numeric(pa, schema.field(name).type) for name in names])
    )
    names = names if index is None else names[index]
    text = [name for name in names if not _is_numeric(pa, schema.field(name).type)]
    if text:
        raise ValueError(
            f"column {text[0]!r} is not numeric: leave it out with '::columns=...', or "
            "take all numeric ones with '::columns=numeric'"
        )
    return names


def _is_numeric(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))


def parquet_type(schema: Any, names: Array) -> np.dtype[Any]:
    """Single precision if all columns have it, double precision otherwise."""
    single = all(str(schema.field(name).type) in ("float", "halffloat") for name in names)
    return np.dtype(np.float32 if single and len(names) else np.float64)
