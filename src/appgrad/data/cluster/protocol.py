"""Clusters and their workers, sources of chunks, and checks that chunks fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...machine.arrays import Array
from ...machine.memory import physical_memory
from ...machine.threads import blas_threads
from ..finite import Place
from ..row_labels import Labels, together
from .chunks import Chunk, Measured, measured

# Rows are kept in the memory of workers if they take no more than KEPT_SHARE of it: from 0.6 on, Dask moves
# data to disk. A chunk is read and converted while the next one is read: three of them must fit.
KEPT_SHARE, CHUNK_SHARE, COPIES = 0.4, 0.8, 3
# Number of chunks to look at if not all are needed.
LOOKED_AT = 8
# Bytes assumed for a machine that does not report its memory.
UNKNOWN_MEMORY = 8 * 2**30


class Worker(NamedTuple):
    """The address of a worker, and the bytes it may use."""

    address: str | None
    memory: float


class LostError(ConnectionError):
    """Workers are gone, with data that others needed: begin again with those left."""


class Cluster(Protocol):
    """Protocol of a cluster. A task may name a worker; another one does it if that worker is gone."""

    workers: list[Worker]

    @property
    def threads(self) -> Callable[[], int]:
        """A function that returns the number of threads where it is called."""

    def submit(self, f: Callable[..., Any], *args: Any, pin: str | None) -> Any:
        """A future of f(*args); arguments may be futures, or what `spread` returns."""

    def spread(self, value: Any) -> Any:
        """Send a value to all workers; return what stands for it in `submit`."""

    def result(self, future: Any) -> Any:
        """The result of a call. Raises `LostError`, or MemoryError if workers died of it."""

    def finished(self, futures: Sequence[Any]) -> Iterator[int]:
        """Yield the positions of calls as they end."""

    def lost(self, future: Any) -> bool:
        """True if the task or its data are gone."""


class Here:
    """This process as a cluster of one worker."""

    threads = staticmethod(blas_threads)

    def __init__(self) -> None:
        self.workers = [Worker(None, float(physical_memory() or UNKNOWN_MEMORY))]

    def submit(self, f: Callable[..., Any], *args: Any, pin: str | None) -> Any:
        """f(*args), computed at once."""
        return f(*args)

    def spread(self, value: Any) -> Any:
        """The value itself."""
        return value

    def result(self, future: Any) -> Any:
        """The future itself, which is the result."""
        return future

    def finished(self, futures: Sequence[Any]) -> Iterator[int]:
        """All positions: every call has ended."""
        return iter(range(len(futures)))

    def lost(self, future: Any) -> bool:
        """False: nothing is ever lost."""
        return False


class Source(NamedTuple):
    """One view as chunks, with the futures that some of them need; `persisted` if all chunks are futures.

    `dtype`, `row_bytes` and `labels` are what is known of the rows before they are read; `smaller` is the
    advice on how to get smaller chunks; `place` says where a row is if there are several files.
    """

    chunks: tuple[Chunk, ...]
    label: str
    names: Array | None = None
    futures: dict[Any, Any] | None = None
    persisted: bool = False
    dtype: np.dtype[Any] | None = None
    row_bytes: float = 0.0
    smaller: str = "use chunks of at most {0} rows, as in {1}.rechunk(({0}, -1))"
    labels: Labels | None = None
    place: Place | None = None

    @property
    def longest(self) -> int:
        """Rows of the largest chunk."""
        return max((chunk.rows or 0 for chunk in self.chunks), default=0)

    @property
    def n_samples(self) -> int:
        """Rows of all chunks."""
        return sum(chunk.rows or 0 for chunk in self.chunks)

    def needed(self, chunks: Sequence[Chunk]) -> dict[Any, Any]:
        """The futures of some chunks."""
        return {key: (self.futures or {})[key] for chunk in chunks for key in chunk.needs}


def looked_at(cluster: Cluster, sources: tuple[Source, Source]) -> list[tuple[Source, Measured]]:
    """Sources with the number of rows of every chunk, and facts about their rows.

    These come from some chunks of each view, or from all of them if numbers of rows are not known.
    """
    pins = [worker.address for worker in cluster.workers]
    pending: list[list[tuple[list[Chunk], Any]]] = []
    for source in sources:
        known = all(chunk.rows is not None for chunk in source.chunks)
        chunks = [chunk for chunk in source.chunks if chunk.rows != 0]
        if known and chunks:
            some = np.linspace(0, len(chunks) - 1, LOOKED_AT).astype(int)
            chunks = [chunks[i] for i in dict.fromkeys(some.tolist())]
        share = max(1, -(-len(chunks) // len(pins)))
        shares = [chunks[i : i + share] for i in range(0, len(chunks), share)]
        pending.append(
            [
                (part, cluster.submit(_looked_at, part, source.needed(part), pin=pin))
                for part, pin in zip(shares, pins, strict=False)
            ]
        )
    found = []
    for source, parts in zip(sources, pending, strict=True):
        facts: list[tuple[Chunk, Measured]] = []
        for part, future in parts:
            results: list[Measured] = cluster.result(future)
            for chunk, fact in zip(part, results, strict=True):
                if fact.rows:
                    facts.append((chunk._replace(rows=fact.rows), fact))
        chunks = [chunk for chunk in source.chunks if chunk.rows]
        if any(chunk.rows is None for chunk in source.chunks):
            chunks = [chunk for chunk, _ in facts]
        widths = sorted({fact.columns for _, fact in facts})
        if len(widths) > 1:
            raise ValueError(f"chunks of {source.label} have {widths} columns, not all the same")
        if not chunks:
            raise ValueError(f"{source.label} has 0 rows: nothing to fit")
        kinds = [fact.dtype for _, fact in facts]
        found.append(
            (
                source._replace(chunks=tuple(chunks)),
                Measured(
                    sum(fact.rows for _, fact in facts),
                    widths[0],
                    np.result_type(*kinds, *([] if source.dtype is None else [source.dtype])),
                    sum(fact.entries for _, fact in facts),
                    any(fact.sparse for _, fact in facts),
                    source.labels or together([fact.labels for _, fact in facts]),
                ),
            )
        )
    return found


def require_memory(cluster: Cluster, source: Source, row_bytes: float) -> None:
    """Raise an error if a worker could not hold one chunk and its copies."""
    rows, memory = source.longest, min(worker.memory for worker in cluster.workers)
    if COPIES * rows * row_bytes > CHUNK_SHARE * memory:
        raise MemoryError(
            f"a chunk of {rows} rows takes {rows * row_bytes / 1e9:.2g} GB, which with what is made of it "
            f"does not fit into the {memory / 1e9:.2g} GB of a worker: {advice(cluster, source, row_bytes)}"
        )


def advice(cluster: Cluster, source: Source, row_bytes: float) -> str:
    """Advice on how to get chunks that fit."""
    memory = min(worker.memory for worker in cluster.workers)
    # If workers died of chunks that seemed to fit, chunks of half the size may fit.
    fits = min(CHUNK_SHARE * memory / COPIES / max(row_bytes, 1.0), source.longest / 2)
    if not source.longest:
        return "use smaller chunks, or workers with more memory"
    return source.smaller.format(max(1, int(fits)), source.label) + ", or workers with more memory"


def _looked_at(chunks: Sequence[Chunk], values: dict[Any, Any]) -> list[Measured]:
    return measured([chunk.filled(values) for chunk in chunks])
