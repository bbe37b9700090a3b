"""Row labels in parquet files: the index of a frame, which pandas stores as columns or as a range."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..row_labels import Labels, labels_of_file, labels_of_range

# Rows whose labels are decoded at a time.
ROWS = 2**20
# Parts of a second in the units of stored times.
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def label_columns(schema: Any) -> list[str]:
    """Columns of the row labels of a frame, which pandas stores beside the others unless they are a range."""
    return [name for name in _index(schema) if isinstance(name, str) and name in schema.names]


def label_range(file: Any) -> range | None:
    """The row labels of an open file if pandas stored them as a range of numbers, which takes no column.

    As in pandas, a range of another length than the file says nothing: rows were chosen since.
    """
    found = _index(file.schema_arrow)
    about: dict[str, Any] = found[0] if len(found) == 1 and isinstance(found[0], dict) else {}
    bounds: list[Any] = [about.get(name) for name in ("start", "stop", "step")]
    if about.get("kind") != "range" or not all(isinstance(bound, int) for bound in bounds) or not bounds[2]:
        return None
    numbers = range(*bounds)
    return numbers if len(numbers) == file.metadata.num_rows else None


def _index(schema: Any) -> list[Any]:
    """What pandas noted about the index of a frame."""
    return list((schema.pandas_metadata or {}).get("index_columns", []))


def label_texts(pa: Any, file: Any) -> Iterator[list[str]] | None:
    """Row labels of an open file as text, in pieces; None if it has none.

    Several levels of labels are put together.
    """
    numbers, columns = label_range(file), label_columns(file.schema_arrow)
    if numbers is not None:
        return (list(map(str, numbers[i : i + ROWS])) for i in range(0, len(numbers), ROWS))
    return _stored_texts(pa, file, columns) if columns else None


def _stored_texts(pa: Any, file: Any, columns: list[str]) -> Iterator[list[str]]:
    for batch in file.iter_batches(ROWS, columns=columns):
        levels = [texts_of(pa, batch.column(batch.schema.get_field_index(name))) for name in columns]
        yield list(map(", ".join, zip(*levels, strict=True)))


def parquet_labels(pa: Any, file: Any) -> Labels | None:
    """Facts about the row labels of an open file; None if it has none."""
    numbers = label_range(file)
    if numbers is not None:
        return labels_of_range(numbers)
    pieces = label_texts(pa, file)
    return None if pieces is None else labels_of_file(pieces)


def texts_of(pa: Any, column: Any) -> list[str]:
    """The cells of a column as pandas writes them into text files."""
    if pa.types.is_timestamp(column.type):
        return _times(pa, column)
    if pa.types.is_duration(column.type):
        unit = UNITS[column.type.unit]
        return ["" if value is None else _duration(value, unit) for value in column.cast("int64").to_pylist()]
    values = column.cast(pa.string()) if pa.types.is_temporal(column.type) else column
    return ["" if value is None else str(value) for value in values.to_pylist()]


def _times(pa: Any, column: Any) -> list[str]:
    """Times as pandas writes them: of their zone, and days alone if all are midnights without a zone."""
    import pyarrow.compute as pc

    local = column if column.type.tz is None else pc.local_timestamp(column)
    # Times of nanoseconds are no Python objects.
    texts = ["" if text is None else _shorter(text) for text in local.cast(pa.string()).to_pylist()]
    if column.type.tz is None:
        days = all(text.endswith(" 00:00:00") or not text for text in texts)
        return [text[:10] for text in texts] if days else texts
    ahead = pc.subtract(local.cast("int64"), column.cast("int64")).to_pylist()
    zones = {value: _zone(value // UNITS[column.type.unit]) for value in set(ahead) if value is not None}
    return [text and text + zones[value] for text, value in zip(texts, ahead, strict=True)]


def _shorter(time: str) -> str:
    """A time without zeros at the end of its fractions of seconds."""
    return time.rstrip("0").rstrip(".") if "." in time else time


def _zone(seconds: int) -> str:
    """How far a zone is ahead of UTC, such as +01:00."""
    minutes, rest = divmod(abs(seconds), 60)
    text = f"{'-' if seconds < 0 else '+'}{minutes // 60:02}:{minutes % 60:02}"
    return f"{text}:{rest:02}" if rest else text


def _duration(value: int, unit: int) -> str:
    """A length of time, such as 1 days 02:00:00.5."""
    seconds, part = divmod(value, unit)
    days, seconds = divmod(seconds, 86400)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    text = f"{days} days {'+' if days < 0 else ''}{clock}"
    return f"{text}.{part:0{len(str(unit)) - 1}}".rstrip("0") if part else text
