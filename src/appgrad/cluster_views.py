"""Views on chunks of rows that workers hold or read: groups of them, one task each, added in a fixed tree."""

from __future__ import annotations

import copy
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn import config_context, get_config

from .chunks import Chunk, Group, Measured, Rows, Side, measured
from .cluster import KEPT_SHARE, Cluster, LostError, Source, advice, require_memory
from .threads import blas_threads
from .views import BLOCK_BYTES, Array, ArrayViews, BaseViews, Block, Sweep, gathered

logger = logging.getLogger("appgrad")

# Chunks that minibatches are drawn from at a time where rows are not kept, and the share of memory they take.
SHELF, SHELF_SHARE = 64, 0.125
# Blocks of rows on their way to this process, and how often a pass is begun when workers are lost.
IN_FLIGHT, ATTEMPTS = 8, 8


class Work(NamedTuple):
    """What is done with every block of a pass, as it is sent to workers."""

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
        self.cluster = cluster
        self.rows: Array | None = None
        self.labels, self.names, self.threads = (x.label, y.label), (x.names, y.names), blas_threads()
        for source in (x, y):
            # Before any chunk is read: that may be more than a worker survives.
            require_memory(cluster, source, (x.row_bytes or 0.0) + (y.row_bytes or 0.0))
        (x, fact_x), (y, fact_y) = self._measured((x, y))
        self.sources = x, y
        self.n_samples = self._paired(min_rows)
        self.n_features_x, self.n_features_y = fact_x.columns, fact_y.columns
        single = all(fact.dtype.kind == "f" and fact.dtype.itemsize <= 4 for fact in (fact_x, fact_y))
        self.dtype = np.dtype(np.float32 if single else np.float64)
        self._entries = fact_x.entries / fact_x.rows + fact_y.entries / fact_y.rows
        self._row_bytes = max(1.0, fact_x.bytes / fact_x.rows + fact_y.bytes / fact_y.rows)
        for source in self.sources:
            require_memory(cluster, source, self._row_bytes)
        memory = sum(worker.memory for worker in cluster.workers)
        # What is a future already is in memory as it is.
        futures = bool(x.futures or y.futures)
        self.kept = futures or self._row_bytes * self.n_samples <= KEPT_SHARE * memory
        room = SHELF_SHARE * memory / (self._row_bytes * x.longest)
        self._shelf_size = int(max(2, min(SHELF, room)))
        self.regroup(len(cluster.workers))
        logger.info(
            "%d rows in %d chunks and %d groups, %s",
            self.n_samples,
            len(x.chunks),
            self.groups,
            "kept in memory"
            if self.kept
            else "read from their source in every pass: they do not fit into it",
        )

    def regroup(self, groups: int) -> None:
        """Put chunks into so many groups, or as many as there are chunks, and these on workers."""
        starts = np.array(self.sources[0].starts)
        cuts = self.n_rows * np.arange(1, groups) // groups
        if len(starts) >= groups or not self.kept:
            # Else several groups read the same chunk once, each for its own rows.
            cuts = starts[np.clip(np.searchsorted(starts, cuts), 0, len(starts) - 1)]
        self.spans = list(pairwise(sorted({0, *map(int, cuts), self.n_rows})))
        self.groups = len(self.spans)
        workers = [worker.address for worker in self.cluster.workers]
        self.pins = [workers[g * len(workers) // self.groups] for g in range(self.groups)]
        # What was sent before, by what it is and where to; chunks that were read for some of their rows.
        self._sent: dict[tuple[int, int | None], tuple[Any, Any]] = {}
        self._shelf: OrderedDict[int, Any] = OrderedDict()
        self._holders = [
            self._group(*span, pin, self.kept) for span, pin in zip(self.spans, self.pins, strict=True)
        ]

    @property
    def n_rows(self) -> int:
        """Rows of all chunks, chosen or not."""
        return self.sources[0].n_samples

    @property
    def entries(self) -> float:
        """Stored entries of a row of both views, as in the chunks that were looked at."""
        return self._entries

    def run(self, sweep: Sweep) -> Any:
        """One task for each group, then for each two of them, each four ..."""
        seen = sweep.seen
        work = Work(sweep._replace(seen=None, cuts=()), get_config()["working_memory"], self.cluster.threads)

        def once() -> Any:
            nonlocal seen
            here = self.cluster.spread(work)
            cuts = [self._constant(cut) for cut, _ in sweep.cuts]
            dtypes = [dtype for _, dtype in sweep.cuts]
            groups = list(self._chosen())
            found = [
                (g, self._submit(g, _swept, self._holders[g], here, rows, dtypes, *cuts))
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
                if seen is not None:
                    seen(groups[i][2])
                if len(found) == len(first):
                    # Brought here while the other one is at work.
                    results[i] = self.cluster.result(first[i])
            # Rows count once, whatever becomes of the rest.
            seen = None
            if not results:
                results = {i: self.cluster.result(future) for i, (_, future) in enumerate(found)}
            return reduce(sweep.combine, (results[i] for i in range(len(found))))

        return self._persevering(once)

    def take(self, rows: Array) -> ClusterViews | ArrayViews:
        """These rows: where they are when in ascending order, else in this process."""
        rows = np.asarray(rows)
        if np.any(np.diff(rows) <= 0):
            unique, place = np.unique(rows, return_inverse=True)
            here = gathered(self.take(unique))
            return ArrayViews(here.x[place], here.y[place], names=self.names, labels=self.labels)
        found = copy.copy(self)
        found.rows = rows if self.rows is None else self.rows[rows]
        found.n_samples, found._sent = len(rows), {}
        return found

    def blocks(self, dtype: Any = None) -> Iterator[Block]:
        """Every row once, brought to this process: the next ones while those before are worked on."""
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        offset, on_the_way, waiting = 0, 0, deque[tuple[int, Any]]()
        for pin, holder, rows in self._units():
            waiting.append((len(rows), self.cluster.submit(_taken, holder, rows, dtype, pin=pin)))
            on_the_way += len(rows)
            while on_the_way > IN_FLIGHT * self._block_rows:
                on_the_way -= waiting[0][0]
                block = self.cluster.result(waiting.popleft()[1])
                yield block._replace(offset=offset)
                offset += block.x.shape[0]
        for _, future in waiting:
            block = self.cluster.result(future)
            yield block._replace(offset=offset)
            offset += block.x.shape[0]

    def order(self, rng: np.random.Generator) -> Array:
        """All rows in random order; where they are not kept, those of some chunks at a time.

        A chunk is then read once a pass, and no more of them are in memory than there is room for.
        """
        if self.kept:
            return rng.permutation(self.n_samples)
        rows = np.arange(self.n_samples) if self.rows is None else self.rows
        ends = np.searchsorted(rows, [*self.sources[0].starts, self.n_rows])
        chunks = [np.arange(a, b) for a, b in pairwise(ends)]
        order, size = rng.permutation(len(chunks)), self._shelf_size
        sets = [order[i : i + size] for i in range(0, len(order), size)]
        return np.concatenate([rng.permutation(np.concatenate([chunks[i] for i in s])) for s in sets])

    @property
    def _block_rows(self) -> int:
        return max(1, int(BLOCK_BYTES / self._row_bytes))

    def _units(self) -> Iterator[tuple[str | None, Any, Array]]:
        """Where rows are, what holds them, and which they are, a block's worth at a time."""
        if self.rows is not None and not self.kept:
            starts = np.array(self.sources[0].starts)
            chunks, first = np.unique(np.searchsorted(starts, self.rows, side="right") - 1, return_index=True)
            if len(chunks) <= self._shelf_size:
                for chunk, rows in zip(chunks, np.split(self.rows, first[1:]), strict=True):
                    ends = [stop for _, stop in self.spans]
                    pin = self.pins[int(np.searchsorted(ends, starts[chunk], side="right"))]
                    yield pin, self._shelved(int(chunk), pin), rows
                return
        for g, (start, stop) in enumerate(self.spans):
            rows = np.arange(start, stop) if self.rows is None else self.rows[slice(*self._within(g))]
            for i in range(0, len(rows), self._block_rows):
                yield self.pins[g], self._holders[g], rows[i : i + self._block_rows]

    def _shelved(self, chunk: int, pin: str | None) -> Any:
        """A chunk in the memory of a worker, one of the last few that were asked for."""
        if chunk not in self._shelf:
            ends = [*self.sources[0].starts, self.n_rows]
            self._shelf[chunk] = self._group(ends[chunk], ends[chunk + 1], pin, True)
        self._shelf.move_to_end(chunk)
        while len(self._shelf) > self._shelf_size:
            self._shelf.popitem(last=False)
        return self._shelf[chunk]

    def _group(self, start: int, stop: int, pin: str | None, keep: bool) -> Any:
        """A range of rows on a worker, read or to be read."""
        sides, needs = [], dict[Any, Any]()
        for source in self.sources:
            starts = source.starts
            first = int(np.searchsorted(starts, start, side="right")) - 1
            last = int(np.searchsorted(starts, stop, side="left"))
            sides.append(Side(source.chunks[first:last], tuple(starts[first:last])))
            needs |= source.needed(sides[-1].chunks)
        return self.cluster.submit(_loaded, start, stop, *sides, keep, needs, pin=pin)

    def _chosen(self) -> Iterator[tuple[int, Any, int]]:
        """Groups that have rows, which of them are chosen, and how many."""
        for g, (start, stop) in enumerate(self.spans):
            if self.rows is None:
                yield g, None, stop - start
                continue
            lo, hi = self._within(g)
            if lo < hi:
                # The rows of these views never change.
                if (0, g) not in self._sent:
                    value = Rows(self.rows[lo:hi], lo)
                    self._sent[0, g] = value, self.cluster.spread(value, self.pins[g])
                yield g, self._sent[0, g][1], hi - lo

    def _within(self, g: int) -> tuple[int, int]:
        """Which of the rows chosen are in a group."""
        assert self.rows is not None
        lo, hi = np.searchsorted(self.rows, self.spans[g])
        return int(lo), int(hi)

    def _constant(self, value: Any) -> Any:
        """What every pass needs, sent once; kept here too, so that no other has its identity."""
        key = id(value), None
        if key not in self._sent:
            self._sent[key] = value, self.cluster.spread(value)
        return self._sent[key][1]

    def _submit(self, g: int, f: Callable[..., Any], *args: Any) -> Any:
        return self.cluster.submit(f, *args, pin=self.pins[g])

    def _persevering(self, once: Callable[[], Any]) -> Any:
        """What a call returns, made again when workers have taken along what it needs."""
        for attempt in range(ATTEMPTS):
            try:
                return once()
            except LostError as error:
                logger.warning("a worker is gone, with what others needed of it: the pass begins anew")
                last = error
                self._sent.clear()
                self._shelf.clear()
                # It takes a moment until everyone knows.
                time.sleep(0.1 * 2**attempt)
            except MemoryError as error:
                source = max(self.sources, key=lambda source: source.longest)
                raise MemoryError(f"{error}: {advice(self.cluster, source, self._row_bytes)}") from error
        raise ConnectionError(f"workers are lost again and again: {last}") from last

    def _measured(self, sources: tuple[Source, Source]) -> list[tuple[Source, Measured]]:
        """What chunks are like, from the first of each view, or from all where their rows are not known."""
        pins, pending, found = [worker.address for worker in self.cluster.workers], [], []
        for source in sources:
            unknown = any(chunk.rows is None for chunk in source.chunks)
            chunks = source.chunks if unknown else source.chunks[:1]
            share = -(-len(chunks) // len(pins))
            for i, pin in zip(range(0, len(chunks), share), pins, strict=False):
                part = chunks[i : i + share]
                future = self.cluster.submit(_measured, part, source.needed(part), pin=pin)
                pending.append((source, part, future))
        for source in sources:
            facts = [
                (chunk._replace(rows=fact.rows), fact)
                for owner, part, future in pending
                if owner is source
                for chunk, fact in zip(part, self.cluster.result(future), strict=True)
            ]
            if len(facts) == len(source.chunks):
                facts = [(chunk, fact) for chunk, fact in facts if fact.rows] or facts[:1]
                source = source._replace(chunks=tuple(chunk for chunk, _ in facts))
            widths = {fact.columns for _, fact in facts}
            if len(widths) > 1:
                raise ValueError(f"chunks of {source.label} have {sorted(widths)} columns, not all the same")
            if facts[0][1].rows == 0 or widths == {0}:
                raise ValueError(f"{source.label} has 0 rows or columns: nothing to fit")
            kinds = [fact for _, fact in facts]
            both = Measured(
                sum(fact.rows for fact in kinds),
                kinds[0].columns,
                np.result_type(*(fact.dtype for fact in kinds)),
                sum(fact.entries for fact in kinds),
                any(fact.sparse for fact in kinds),
            )
            found.append((source, both))
        return found

    def _paired(self, min_rows: int) -> int:
        """The number of rows, which must be that of both views."""
        x, y = (source.n_samples for source in self.sources)
        if x != y:
            raise ValueError(
                f"{self.labels[1]} has {y} rows, {self.labels[0]} has {x}: rows must be paired; drop or "
                "align the unmatched ones"
            )
        if x < min_rows:
            raise ValueError(f"{self.labels[0]} has {x} rows: at least {min_rows} are needed")
        return x


def _measured(chunks: Sequence[Chunk], values: dict[Any, Any]) -> list[Measured]:
    return measured([chunk.filled(values) for chunk in chunks])


def _loaded(start: int, stop: int, x: Side, y: Side, keep: bool, values: dict[Any, Any]) -> Group:
    x, y = (side._replace(chunks=tuple(chunk.filled(values) for chunk in side.chunks)) for side in (x, y))
    return Group(start, stop, x, y, keep)


def _swept(group: Group, work: Work, rows: Rows | None, dtypes: list[Any], *cuts: Any) -> Any:
    """The result of a pass for the rows of one group, on as many threads as there are."""
    sweep = work.sweep._replace(cuts=tuple(zip(cuts, dtypes, strict=True)))
    parts = group.parts(sweep.dtype)
    if rows is not None:
        parts = rows(parts, group.start)
    with config_context(working_memory=work.working_memory):
        return sweep.over(parts, work.threads())


def _combined(work: Work, a: Any, b: Any) -> Any:
    """Two results in one; what is added to may be needed again, should this be computed anew."""
    return work.sweep.combine(copy.deepcopy(a), b)


def _taken(group: Group, rows: Array, dtype: Any) -> Block:
    block = group.take(rows)
    return Block(block.offset, *(m.astype(dtype, copy=False) for m in block[1:]))
