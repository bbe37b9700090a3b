"""Who does the work: workers with memory of their own, what they are told, and chunks they can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...machine.arrays import Array
from ...machine.memory import physical_memory
from ...machine.threads import blas_threads
from .chunks import Chunk, Measured, measured

# Rows are kept in the memory of workers where they take no more of it than this: from 0.6 on, Dask moves data
# to disk. A chunk is read, converted, and the next one read meanwhile: three of them must fit.
KEPT_SHARE, CHUNK_SHARE, COPIES = 0.4, 0.8, 3
# Chunks that are looked at, where not all of them have to be.
LOOKED_AT = 8
# Where a machine does not tell how much memory it has.
UNKNOWN_MEMORY = 8 * 2**30


class Worker(NamedTuple):
    """The address of a worker, and the bytes it may use."""

    address: str | None
    memory: float


class LostError(ConnectionError):
    """Workers are gone, and with them what others needed: begin again with what is left."""


class Cluster(Protocol):
    """Who does the work. A worker may be asked to do something; another does it if that one is gone."""

    workers: list[Worker]

    @property
    def threads(self) -> Callable[[], int]:
        """What says how many threads there are, where it is called."""

    def submit(self, f: Callable[..., Any], *args: Any, pin: str | None) -> Any:
        """What will be f(*args), of whose arguments some may be what was returned here or by `spread`."""

    def spread(self, value: Any) -> Any:
        """A value that all workers have."""

    def result(self, future: Any) -> Any:
        """What a call has returned. Raises `LostError`, or MemoryError for workers that died of it."""

    def finished(self, futures: Sequence[Any]) -> Iterator[int]:
        """Which calls have ended, as they do."""

    def lost(self, future: Any) -> bool:
        """Whether nobody will do this any more."""


class Here:
    """This process, where there is no cluster."""

    threads = staticmethod(blas_threads)

    def __init__(self) -> None:
        self.workers = [Worker(None, float(physical_memory() or UNKNOWN_MEMORY))]

    def submit(self, f: Callable[..., Any], *args: Any, pin: str | None) -> Any:
        """Done at once."""
        return f(*args)

    def spread(self, value: Any) -> Any:
        """It is here."""
        return value

    def result(self, future: Any) -> Any:
        """It is here too."""
        return future

    def finished(self, futures: Sequence[Any]) -> Iterator[int]:
        """All of them."""
        return iter(range(len(futures)))

    def lost(self, future: Any) -> bool:
        """Never."""
        return False


class Source(NamedTuple):
    """One view as chunks, with the futures that some of them need; `persisted` if they are nothing else.

    `dtype` and `row_bytes` are what is said of the rows, where something is; `smaller` is how to get smaller
    chunks.
    """

    chunks: tuple[Chunk, ...]
    label: str
    names: Array | None = None
    futures: dict[Any, Any] | None = None
    persisted: bool = False
    dtype: np.dtype[Any] | None = None
    row_bytes: float = 0.0
    smaller: str = "use chunks of at most {0} rows, as in {1}.rechunk(({0}, -1))"

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
    """Sources with the rows of all their chunks, and what these are like.

    From some chunks of each view, or from all of them where their rows are not known.
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
                ),
            )
        )
    return found


def require_memory(cluster: Cluster, source: Source, row_bytes: float) -> None:
    """Raise where a worker could not hold what is made of one chunk."""
    rows, memory = source.longest, min(worker.memory for worker in cluster.workers)
    if COPIES * rows * row_bytes > CHUNK_SHARE * memory:
        raise MemoryError(
            f"a chunk of {rows} rows takes {rows * row_bytes / 1e9:.2g} GB, which with what is made of it "
            f"does not fit into the {memory / 1e9:.2g} GB of a worker: {advice(cluster, source, row_bytes)}"
        )


def advice(cluster: Cluster, source: Source, row_bytes: float) -> str:
    """How to get chunks that fit."""
    memory = min(worker.memory for worker in cluster.workers)
    # Where workers died of chunks that seemed to fit, half of them may.
    fits = min(CHUNK_SHARE * memory / COPIES / max(row_bytes, 1.0), source.longest / 2)
    if not source.longest:
        return "use smaller chunks, or workers with more memory"
    return source.smaller.format(max(1, int(fits)), source.label) + ", or workers with more memory"


def _looked_at(chunks: Sequence[Chunk], values: dict[Any, Any]) -> list[Measured]:
    return measured([chunk.filled(values) for chunk in chunks])
