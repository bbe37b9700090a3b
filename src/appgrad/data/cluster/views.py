"""Views on chunks that workers hold or read: one task per group of chunks, added in a fixed tree."""

from __future__ import annotations

import copy
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from functools import partial, reduce
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn import config_context, get_config

from ...machine.arrays import Array
from ...machine.threads import blas_limit, blas_threads
from ..arrays import ArrayViews, gathered
from ..blocks import BLOCK_BYTES
from ..row_labels import require_same_hashes
from ..views import BaseViews, Block, Sweep
from .chunks import Group, Rows, ViewChunks
from .protocol import (
    KEPT_SHARE,
    Cluster,
    LostError,
    Source,
    advice,
    looked_at,
    require_memory,
)

logger = logging.getLogger("appgrad")

# Chunks that stay in memory if rows are not kept, and the share of memory they may take. Minibatches are
# drawn from half as many at a time, while the next ones are read.
SHELF, SHELF_SHARE = 128, 0.125
# Blocks of rows on their way to this process, values kept by workers for the next pass, and attempts at a
# pass when workers are lost.
IN_FLIGHT, SENT, ATTEMPTS = 8, 8, 8


class Work(NamedTuple):
    """A pass as it is sent to workers."""

    sweep: Sweep
    working_memory: float
    threads: Callable[[], int]


class ClusterViews(BaseViews):
    """Views on chunks that live on the workers of a cluster, or are read by them.

    Chunks are put into contiguous groups, about one for each worker. A pass is one task for each group, and
    results of groups are combined in a fixed tree: they depend on the chunks and the number of groups alone.
    """

    local = False

    def __init__(self, cluster: Cluster, x: Source, y: Source, min_rows: int = 2) -> None:
        self.cluster, self.sources, self._row_bytes = cluster, (x, y), x.row_bytes + y.row_bytes
        self.rows: Array | None = None
        self._holders: list[Any] = []
        self._sent: OrderedDict[int, tuple[Any, Any]] = OrderedDict()
        self._shelf: OrderedDict[int, Any] = OrderedDict()
        self.view_names, self.names = (x.label, y.label), (x.names, y.names)
        self.places = x.place, y.place
        self.threads = blas_threads()
        for source in (x, y):
            # Checked before any chunk is read, since a chunk that is too large kills a worker.
            require_memory(cluster, source, self._row_bytes)
        (x, fact_x), (y, fact_y) = self._persevering(partial(looked_at, cluster, (x, y)))
        self.sources = x, y
        require_same_hashes(fact_x.labels, fact_y.labels)
        self.starts = [
            np.array([0, *accumulate(chunk.rows or 0 for chunk in source.chunks)]) for source in self.sources
        ]
        self.n_samples = self.n_rows = self._paired(min_rows)
        self.widths = fact_x.columns, fact_y.columns
        single = all(fact.dtype.kind == "f" and fact.dtype.itemsize <= 4 for fact in (fact_x, fact_y))
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self._entries = fact_x.entries / fact_x.rows + fact_y.entries / fact_y.rows
        self._row_bytes = max(1.0, fact_x.bytes / fact_x.rows + fact_y.bytes / fact_y.rows)
        for source in self.sources:
            require_memory(cluster, source, self._row_bytes)
        # Groups are about equal: the smallest worker counts.
        memory = len(cluster.workers) * min(worker.memory for worker in cluster.workers)
        # Persisted data are in memory already.
        self.kept = (x.persisted and y.persisted) or self._row_bytes * self.n_rows <= KEPT_SHARE * memory
        self._shelf_size = int(max(2, min(SHELF, SHELF_SHARE * memory / (self._row_bytes * x.longest))))
        self.regroup(len(cluster.workers))
        logger.info(
            "%d rows in %d chunks and %d groups, %s",
            self.n_samples,
            len(x.chunks),
            self.groups,
            "kept in memory" if self.kept else "read from their source in every pass: too many to be kept",
        )

    def regroup(self, groups: int) -> None:
        """Put chunks into this many groups, at most one per row, and assign them to workers."""
        starts = self.starts[0][:-1]
        cuts = self.n_rows * np.arange(1, groups) // groups
        if len(starts) >= groups:
            # Otherwise several groups read the same chunk, each for its own rows.
            cuts = starts[np.minimum(np.searchsorted(starts, cuts), len(starts) - 1)]
        self.spans = list(pairwise(sorted({0, *map(int, cuts), self.n_rows})))
        self.groups = len(self.spans)
        workers = [worker.address for worker in self.cluster.workers]
        self.pins = [workers[g * len(workers) // self.groups] for g in range(self.groups)]
        # Release the old groups first; new ones are read when they are needed.
        self._sent.clear()
        self._shelf.clear()
        self._holders = [None] * self.groups

    @property
    def entries(self) -> float:
        """Stored entries of a row of both views, on average over the chunks that were looked at."""
        return float(self._entries)

    def run(self, sweep: Sweep) -> Any:
        """Result of a pass: one task for each group, then for each two of them, each four ..."""
        work = Work(sweep._replace(seen=None, cuts=()), get_config()["working_memory"], self.cluster.threads)
        counted: set[int] = set()

        def once() -> Any:
            here = self.cluster.spread(work)
            cuts = [self._constant(cut) for cut, _ in sweep.cuts]
            dtypes = [dtype for _, dtype in sweep.cuts]
            groups = list(self._chosen())
            found = [
                (g, self._submit(g, _swept, self._holder(g), here, rows, dtypes, *cuts))
                for g, rows, _ in groups
            ]
            first = [future for _, future in found]
            while len(found) > 2:
                pairs = [
                    (g, self._submit(g, _combined, here, a, b))
                    for (g, a), (_, b) in zip(found[::2], found[1::2], strict=False)
                ]
                found = pairs + found[2 * len(pairs) :]
            results = {}
            for i in self.cluster.finished(first):
                # Rows count once, however often a pass is begun.
                if sweep.seen is not None and i not in counted:
                    counted.add(i)
                    sweep.seen(groups[i][2])
                if len(found) == len(first):
                    # Fetch this result while the other task is running.
                    results[i] = self.cluster.result(first[i])
            if not results:
                results = {i: self.cluster.result(future) for i, (_, future) in enumerate(found)}
            return reduce(sweep.combine, (results[i] for i in range(len(found))))

        return self._persevering(once)

    def take(self, rows: Array) -> ClusterViews | ArrayViews:
        """The views restricted to these rows: on the workers if in ascending order, else in this process."""
        rows = np.asarray(rows)
        if np.any(np.diff(rows) <= 0):
            unique, place = np.unique(rows, return_inverse=True)
            here = gathered(self.take(unique))
            return ArrayViews(here.x[place], here.y[place], names=self.names, view_names=self.view_names)
        found = copy.copy(self)
        found.rows = rows if self.rows is None else self.rows[rows]
        found.n_samples, found._sent = len(rows), OrderedDict()
        return found

    def blocks(self, dtype: Any = None) -> Iterator[Block]:
        """Every row once, brought to this process; the next ones come while earlier ones are worked on."""
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        offset, on_the_way, waiting = 0, 0, deque[tuple[int, Callable[[], Block]]]()
        for pin, hold, rows in self._units():
            waiting.append((len(rows), self._fetching(pin, hold, rows, dtype)))
            on_the_way += len(rows)
            while on_the_way > IN_FLIGHT * self._block_rows:
                count, fetched = waiting.popleft()
                on_the_way -= count
                yield fetched()._replace(offset=offset)
                offset += count
        for count, fetched in waiting:
            yield fetched()._replace(offset=offset)
            offset += count

    def order(self, rng: np.random.Generator) -> Array:
        """All rows in random order; if they are not kept, shuffled within sets of chunks.

        Chunks are then read once a pass, as long as the rows drawn at a time come from two sets of them.
        """
        if self.kept:
            return rng.permutation(self.n_samples)
        rows = np.arange(self.n_samples) if self.rows is None else self.rows
        chunks = [np.arange(a, b) for a, b in pairwise(np.searchsorted(rows, self.starts[0]))]
        order, size = rng.permutation(len(chunks)), max(1, self._shelf_size // 2)
        sets = [order[i : i + size] for i in range(0, len(order), size)]
        return np.concatenate([rng.permutation(np.concatenate([chunks[i] for i in s])) for s in sets])

    @property
    def _block_rows(self) -> int:
        return max(1, int(BLOCK_BYTES / self._row_bytes))

    def _units(self) -> Iterator[tuple[str | None, Callable[[], Any], Array]]:
        """Yield a worker, a call that returns the holder of rows, and the rows, one block at a time."""
        where = None if self.rows is None else np.unique(self._chunks_of(self.rows))
        scattered = where is not None and self._shelf_size < len(where) and self.n_samples <= self._block_rows
        if self.kept or scattered:
            for g, (start, stop) in enumerate(self.spans):
                rows = np.arange(start, stop) if self.rows is None else self.rows[slice(*self._within(g))]
                for i in range(0, len(rows), self._block_rows):
                    yield self.pins[g], partial(self._holder, g), rows[i : i + self._block_rows]
            return
        ends = [stop for _, stop in self.spans]
        for chunk in range(len(self.starts[0]) - 1) if where is None else map(int, where):
            start, stop = map(int, self.starts[0][chunk : chunk + 2])
            rows = np.arange(start, stop)
            if self.rows is not None:
                rows = self.rows[slice(*np.searchsorted(self.rows, [start, stop]))]
            pin = self.pins[int(np.searchsorted(ends, start, side="right"))]
            for i in range(0, len(rows), self._block_rows):
                yield pin, partial(self._shelved, chunk, pin), rows[i : i + self._block_rows]

    def _chunks_of(self, rows: Array) -> Array:
        return np.searchsorted(self.starts[0], rows, side="right") - 1

    def _fetching(
        self, pin: str | None, hold: Callable[[], Any], rows: Array, dtype: Any
    ) -> Callable[[], Block]:
        """A call that returns rows asked for already, and asks for them again if they are lost."""

        def asked() -> Any:
            return self.cluster.submit(_taken, hold(), rows, dtype, pin=pin)

        first = [asked()]
        return lambda: self._persevering(lambda: self.cluster.result(first.pop() if first else asked()))

    def _holder(self, g: int) -> Any:
        """Future of a group on its worker; its rows are kept, or read in every pass."""
        if self._holders[g] is None:
            self._holders[g] = self._group(*self.spans[g], self.pins[g], self.kept)
        return self._holders[g]

    def _shelved(self, chunk: int, pin: str | None) -> Any:
        """Future of a chunk in the memory of a worker; only the last few chunks asked for are held."""
        if chunk not in self._shelf:
            start, stop = map(int, self.starts[0][chunk : chunk + 2])
            self._shelf[chunk] = self._group(start, stop, pin, True)
        self._shelf.move_to_end(chunk)
        while len(self._shelf) > self._shelf_size:
            self._shelf.popitem(last=False)
        return self._shelf[chunk]

    def _group(self, start: int, stop: int, pin: str | None, keep: bool) -> Any:
        sides, needs = [], dict[Any, Any]()
        for source, starts in zip(self.sources, self.starts, strict=True):
            first = int(np.searchsorted(starts, start, side="right")) - 1
            last = int(np.searchsorted(starts, stop, side="left"))
            sides.append(ViewChunks(source.chunks[first:last], tuple(map(int, starts[first:last]))))
            needs |= source.needed(sides[-1].chunks)
        return self.cluster.submit(_loaded, start, stop, *sides, keep, needs, pin=pin)

    def _chosen(self) -> Iterator[tuple[int, Any, int]]:
        """Yield groups with chosen rows, these rows (None for all), and their number."""
        for g, (start, stop) in enumerate(self.spans):
            if self.rows is None:
                yield g, None, stop - start
                continue
            lo, hi = self._within(g)
            if lo < hi:
                # Sent once: the rows of these views never change.
                if -1 - g not in self._sent:
                    rows = self._submit(g, Rows, self.rows[lo:hi], lo)
                    self._sent[-1 - g] = None, rows
                yield g, self._sent[-1 - g][1], hi - lo

    def _within(self, g: int) -> tuple[int, int]:
        """The range of the chosen rows that is in a group."""
        assert self.rows is not None
        lo, hi = np.searchsorted(self.rows, self.spans[g])
        return int(lo), int(hi)

    def _constant(self, value: Any) -> Any:
        """A value that several passes need, sent once; kept here too, so that its id is not used again."""
        if id(value) not in self._sent:
            self._sent[id(value)] = value, self.cluster.spread(value)
        while sum(key >= 0 for key in self._sent) > SENT:
            del self._sent[next(key for key in self._sent if key >= 0)]
        return self._sent[id(value)][1]

    def _submit(self, g: int, f: Callable[..., Any], *args: Any) -> Any:
        return self.cluster.submit(f, *args, pin=self.pins[g])

    def _persevering(self, once: Callable[[], Any]) -> Any:
        """The result of a call, which is repeated if workers are lost with data it needs."""
        for attempt in range(ATTEMPTS):
            try:
                return once()
            except LostError as error:
                logger.warning("a worker is gone, with what others needed of it: asked for again")
                last = error
                self._sent.clear()
                self._shelf.clear()
                for g, holder in enumerate(self._holders):
                    if holder is not None and self.cluster.lost(holder):
                        self._holders[g] = None
                # It takes a moment until the whole cluster has noticed.
                time.sleep(0.1 * 2**attempt)
            except MemoryError as error:
                source = max(self.sources, key=lambda source: source.longest)
                raise MemoryError(f"{error}: {advice(self.cluster, source, self._row_bytes)}") from error
        raise ConnectionError(f"workers, or data they held, are lost again and again: {last}") from last

    def _paired(self, min_rows: int) -> int:
        """The number of rows, which must be the same in both views."""
        x, y = (source.n_samples for source in self.sources)
        if x != y:
            raise ValueError(
                f"{self.view_names[1]} has {y} rows, {self.view_names[0]} has {x}: rows must be paired; "
                "drop or align the unmatched ones"
            )
        if x < min_rows:
            raise ValueError(f"{self.view_names[0]} has {x} rows: at least {min_rows} are needed")
        return x


def _loaded(start: int, stop: int, x: ViewChunks, y: ViewChunks, keep: bool, values: dict[Any, Any]) -> Group:
    x, y = (side._replace(chunks=tuple(chunk.filled(values) for chunk in side.chunks)) for side in (x, y))
    return Group(start, stop, x, y, keep)


def _swept(group: Group, work: Work, rows: Rows | None, dtypes: list[Any], *cuts: Any) -> Any:
    """The result of a pass for the rows of one group, on all threads of the worker."""
    sweep = work.sweep._replace(cuts=tuple(zip(cuts, dtypes, strict=True)))
    parts = group.parts(sweep.dtype)
    if rows is not None:
        parts = rows(parts, group.start)
    threads = work.threads()
    with config_context(working_memory=work.working_memory), blas_limit(1):
        return sweep.over(parts, threads)


def _combined(work: Work, a: Any, b: Any) -> Any:
    """Two results combined; the first is copied, since it is needed again if this task is repeated."""
    return work.sweep.combine(copy.deepcopy(a), b)


def _taken(group: Group, rows: Array, dtype: Any) -> Block:
    block = group.take(rows)
    return Block(block.offset, tuple(m.astype(dtype, copy=False) for m in block.views))
