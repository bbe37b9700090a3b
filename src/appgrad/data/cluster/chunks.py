"""Chunks of rows, on any machine: read on demand, put together, cut into blocks."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ...machine.arrays import Array, Matrix
from ...machine.threads import read_ahead
from ..arrays import ArrayViews, stacked
from ..blocks import BLOCK_BYTES, least_entries
from ..inputs import as_matrix
from ..row_labels import Labels, labels_of
from ..views import Block, Part

# A column index of a sparse entry.
INDEX_BYTES = 4


class Chunk(NamedTuple):
    """Some rows of one view, and a call that reads them on any machine.

    `name` is for messages. If a chunk is made of values that exist already, `needs` are their keys, and
    `read` takes a dictionary of them. `pair` is a name and a call: chunks of the two views with the same name
    are made of the same data, and the call reads both at once.
    """

    read: Callable[..., Any]
    name: str
    rows: int | None = None
    needs: tuple[Any, ...] = ()
    pair: tuple[str, Callable[[], tuple[Any, Any]]] | None = None

    def filled(self, values: dict[Any, Any]) -> Chunk:
        """The chunk with the values it needs filled in."""
        if not self.needs:
            return self
        return self._replace(read=partial(self.read, {key: values[key] for key in self.needs}), needs=())

    def matrix(self) -> Matrix:
        """The rows as an ndarray or CSR; an error names the chunk."""
        with self._named():
            return as_matrix(self.read(), self.name, min_rows=0)

    def labelled(self) -> tuple[Matrix, Labels | None]:
        """The rows, and facts about their labels if they are those of a data frame."""
        with self._named():
            data = self.read()
            return as_matrix(data, self.name, min_rows=0), labels_of(data)

    def with_other(self, other: Chunk) -> tuple[Matrix, Matrix]:
        """The rows of this chunk, and of the chunk of the other view that is made of the same data."""
        assert self.pair is not None
        with self._named():
            x, y = self.pair[1]()
            return as_matrix(x, self.name, min_rows=0), as_matrix(y, other.name, min_rows=0)

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except MemoryError:
            raise
        except Exception as error:
            # The code that makes a chunk may raise anything: tell the user which chunk it was.
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ValueError(f"{self.name} cannot be read: {reason}") from error


class Measured(NamedTuple):
    """Facts about rows that have been read: shape, number type, stored entries, and labels of frames."""

    rows: int
    columns: int
    dtype: np.dtype[Any]
    entries: int
    sparse: bool
    labels: Labels | None = None

    @property
    def bytes(self) -> int:
        """Bytes in memory, with the column indices of sparse entries."""
        return (self.dtype.itemsize + INDEX_BYTES * self.sparse) * self.entries


def measured(chunks: Sequence[Chunk]) -> list[Measured]:
    """Facts about chunks, each of which is read once and dropped."""
    found = []
    for chunk in chunks:
        m, labels = chunk.labelled()
        sparse = sp.issparse(m)
        entries = int(m.nnz) if sparse else int(np.prod(m.shape))
        found.append(Measured(m.shape[0], m.shape[1], np.dtype(m.dtype), entries, sparse, labels))
    return found


class ViewChunks(NamedTuple):
    """The chunks of one view that hold the rows of a group, and where each of them begins."""

    chunks: tuple[Chunk, ...]
    starts: tuple[int, ...]


class Group:
    """A range of rows of both views: chunks that are read in every pass, or once, and kept.

    The chunks of the two views need not end at the same rows.
    """

    def __init__(self, start: int, stop: int, x: ViewChunks, y: ViewChunks, keep: bool) -> None:
        self.start, self.stop = start, stop
        cuts = {start, stop, *(at for side in (x, y) for at in side.starts if start < at < stop)}
        self.ranges = list(pairwise(sorted(cuts)))
        self.sides: tuple[ViewChunks, ViewChunks] | tuple[()] = () if keep else (x, y)
        self.kept = list(coalesced(map(Reader(x, y), self.ranges))) if keep else None

    def __sizeof__(self) -> int:
        """Bytes of the rows kept, for the memory management of the cluster."""
        blocks = self.kept or []
        return 1000 + sum(_bytes(m) for block in blocks for m in block.views)

    def parts(self, dtype: Any = None) -> Generator[Part, None, None]:
        """Parts of the rows, which are read while earlier ones are worked on."""
        if self.kept is not None:
            for block in self.kept:
                yield from _cut(block, dtype)
            return
        read = Reader(*self.sides)
        with closing(read_ahead(partial(read, range_) for range_ in self.ranges)) as reads:
            for block in coalesced(make() for make in reads):
                yield from _cut(block, dtype)

    def take(self, rows: Array) -> Block:
        """These rows, which are in ascending order; only the chunks that hold them are read."""
        found: list[Block] = []
        # One block at a time: rows that are not asked for are not kept.
        for block in self.kept if self.kept is not None else self._holding(rows):
            stop = block.offset + block.n_rows
            here = rows[np.searchsorted(rows, block.offset) : np.searchsorted(rows, stop)] - block.offset
            if len(here):
                found.append(Block(0, tuple(m[here] for m in block.views)))
        return _together(found)._replace(offset=int(rows[0]))

    def _holding(self, rows: Array) -> Iterator[Block]:
        read = Reader(*self.sides)
        for start, stop in self.ranges:
            if np.searchsorted(rows, start) < np.searchsorted(rows, stop):
                yield read((start, stop))


class Reader:
    """Reader of ranges of rows in ascending order, each within one chunk of either view.

    It keeps the last chunk of each view until another one is needed.
    """

    def __init__(self, x: ViewChunks, y: ViewChunks) -> None:
        self.sides = x, y
        self.last: list[tuple[int, Matrix] | None] = [None, None]

    def __call__(self, range_: tuple[int, int]) -> Block:
        """A range of rows of both views."""
        start, stop = range_
        places = [int(np.searchsorted(side.starts, start, side="right")) - 1 for side in self.sides]
        x, y = (side.chunks[i] for side, i in zip(self.sides, places, strict=True))
        if x.pair is not None and y.pair is not None and x.pair[0] == y.pair[0]:
            self.last = [None, None]
            for view, m in enumerate(x.with_other(y)):
                self._hold(view, places[view], m)
        found = []
        for view, (side, i) in enumerate(zip(self.sides, places, strict=True)):
            held = self.last[view]
            if held is None or held[0] != i:
                self.last[view] = None
                held = self._hold(view, i, side.chunks[i].matrix())
            m, offset = held[1], side.starts[i]
            found.append(m if m.shape[0] == stop - start else m[start - offset : stop - offset])
        return Block(start, tuple(found))

    def _hold(self, view: int, i: int, m: Matrix) -> tuple[int, Matrix]:
        chunk = self.sides[view].chunks[i]
        if m.shape[0] != chunk.rows:
            raise ValueError(
                f"{chunk.name} has {m.shape[0]} rows and had {chunk.rows} before: chunks must be the same "
                "whenever they are computed"
            )
        self.last[view] = held = i, m
        return held


class Rows:
    """Function from parts of a group to parts of its chosen rows, which are in ascending order.

    The first of these is row `first` of all chosen rows.
    """

    def __init__(self, rows: Array, first: int) -> None:
        self.rows, self.first = rows, first

    def __call__(self, parts: Iterable[Part], start: int) -> Generator[Part, None, None]:
        """Parts of the rows chosen; the parts given begin at row `start`."""
        for part in parts:
            lo, hi = np.searchsorted(self.rows, [start, start + part.rows])
            if lo < hi:
                yield Part(int(hi - lo), partial(self._chosen, part, int(lo), int(hi)))
            start += part.rows

    def _chosen(self, part: Part, lo: int, hi: int) -> Block:
        block = part.block()
        index = self.rows[lo:hi] - block.offset
        return Block(self.first + lo, tuple(m[index] for m in block.views))


def coalesced(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield blocks, put together until they are large enough: partial sums are O(k p) for any block."""
    waiting: list[Block] = []
    size = entries = 0
    for block in blocks:
        waiting.append(block)
        size += sum(_bytes(m) for m in block.views)
        entries += sum(int(m.nnz) for m in block.views if sp.issparse(m))
        least = least_entries(sum(m.shape[1] for m in block.views))
        sparse = all(map(sp.issparse, block.views))
        # Dense blocks are large enough sooner: partial sums are no larger than a few of their rows.
        if entries >= least and size >= BLOCK_BYTES if sparse else size >= BLOCK_BYTES // 4:
            yield _together(waiting)
            waiting, size, entries = [], 0, 0
    if waiting:
        yield _together(waiting)


def _together(blocks: list[Block]) -> Block:
    return Block(blocks[0].offset, tuple(map(stacked, zip(*(block.views for block in blocks), strict=True))))


def _cut(block: Block, dtype: Any) -> Iterator[Part]:
    """Parts of rows in memory."""
    x, y = block.views
    views = ArrayViews(x, y, threads=1)
    if views.sparse:
        # Coalesced already: cut only as far as several threads need.
        count = max(1, sum(_bytes(m) for m in block.views) // BLOCK_BYTES)
        views.block_rows = -(-views.n_samples // count)
    for part in views.parts(dtype):
        yield Part(part.rows, partial(_moved, part, block.offset))


def _moved(part: Part, offset: int) -> Block:
    block = part.block()
    return block._replace(offset=block.offset + offset)


def _bytes(m: Matrix) -> int:
    return int(m.data.nbytes + m.indices.nbytes if sp.issparse(m) else m.nbytes)
