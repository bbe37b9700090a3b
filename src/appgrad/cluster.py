"""Who does the work: workers with memory of their own, what they are told, and chunks they can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

from .chunks import Chunk
from .threads import blas_threads, budget
from .views import Array

# Rows are kept in the memory of workers where they take no more of it than this: from 0.6 on, Dask moves data
# to disk. A chunk is read, converted, and the next one read meanwhile: three of them must fit.
KEPT_SHARE, CHUNK_SHARE, COPIES = 0.4, 0.8, 3


class Worker(NamedTuple):
    """The address of a worker, and the bytes it may use."""

    address: str | None
    memory: float


class LostError(Exception):
    """Workers are gone, and with them what others needed: begin again with what is left."""


class Cluster(Protocol):
    """Who does the work. A worker may be asked to do something; another does it if that one is gone."""

    workers: list[Worker]

    @property
    def threads(self) -> Callable[[], int]:
        """What says how many threads there are, where it is called."""

    def submit(self, f: Callable[..., Any], *args: Any, pin: str | None) -> Any:
        """What will be f(*args), of whose arguments some may be what was returned here or by `spread`."""

    def spread(self, value: Any, pin: str | None = None) -> Any:
        """A value that all workers have, or one of them."""

    def result(self, future: Any) -> Any:
        """What a call has returned. Raises `LostError`, or MemoryError for workers that died of it."""

    def finished(self, futures: Sequence[Any]) -> Iterator[int]:
        """Which calls have ended, as they do."""


class Here:
    """This process, where there is no cluster."""

    threads = staticmethod(blas_threads)

    def __init__(self) -> None:
        self.workers = [Worker(None, budget() / KEPT_SHARE)]

    def submit(self, f: Callable[..., Any], *args: Any, pin: str | None) -> Any:
        """Done at once."""
        return f(*args)

    def spread(self, value: Any, pin: str | None = None) -> Any:
        """It is here."""
        return value

    def result(self, future: Any) -> Any:
        """It is here too."""
        return future

    def finished(self, futures: Sequence[Any]) -> Iterator[int]:
        """All of them."""
        return iter(range(len(futures)))


class Source(NamedTuple):
    """One view as chunks, with the futures that some of them need.

    `row_bytes` are those of a row as floats, where that is known; `smaller` is how to get smaller chunks.
    """

    chunks: tuple[Chunk, ...]
    label: str
    names: Array | None = None
    futures: dict[Any, Any] | None = None
    row_bytes: float | None = None
    smaller: str = "use chunks of at most {0} rows, as in {1}.rechunk(({0}, -1))"

    @property
    def starts(self) -> list[int]:
        """The first row of each chunk."""
        return [0, *accumulate(chunk.rows or 0 for chunk in self.chunks[:-1])]

    @property
    def longest(self) -> int:
        """Rows of the largest chunk."""
        return max(chunk.rows or 0 for chunk in self.chunks)

    @property
    def n_samples(self) -> int:
        """Rows of all chunks."""
        return sum(chunk.rows or 0 for chunk in self.chunks)

    def needed(self, chunks: Sequence[Chunk]) -> dict[Any, Any]:
        """The futures of some chunks."""
        return {key: (self.futures or {})[key] for chunk in chunks for key in chunk.needs}


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
    fits = min(CHUNK_SHARE * memory / COPIES / row_bytes, source.longest / 2)
    return source.smaller.format(max(1, int(fits)), source.label) + ", or workers with more memory"
