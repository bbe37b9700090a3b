"""Two views of the same rows, delivered block by block: the protocol, and the base of back ends."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy.sparse as sp

from ..machine.arrays import Array, Matrix
from ..machine.threads import ordered_map
from .display import shown
from .finite import Naming, Place, describe

T = TypeVar("T")


class Block(NamedTuple):
    """Consecutive rows of all views, the first being row `offset`: one matrix per view, dense or CSR."""

    offset: int
    views: tuple[Matrix, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.views[0].shape[0])


class Part(NamedTuple):
    """A number of rows, and the call that makes a block of them."""

    rows: int
    block: Callable[[], Block]


# Function from parts, and the precision of the blocks to make, to other parts of the same rows.
Cut = Callable[[Generator[Part, None, None], Any], Generator[Part, None, None]]


class Sweep(NamedTuple):
    """One pass over the rows: `f` is called with every block, and `combine` merges two results.

    `cuts`, each with the precision of its blocks, turn the stored rows into the blocks that `f` is given. At
    most `most` blocks are worked on at a time. `threads` are those of the process that asks for the pass;
    `seen` is called there, with numbers of rows that have been delivered.
    """

    f: Callable[[Block], Any]
    combine: Callable[[Any, Any], Any]
    dtype: Any
    threads: int
    most: int | None = None
    cuts: tuple[tuple[Cut, Any], ...] = ()
    seen: Callable[[int], None] | None = None

    def over(self, parts: Generator[Part, None, None], threads: int) -> Any:
        """The result for rows read in this process, combined in a fixed order."""
        threads = threads if self.most is None else max(1, min(threads, self.most))
        f, combine, parts = self.f, self.combine, reporting_rows(parts, self.seen)
        for cut, dtype in self.cuts:
            parts = cut(parts, dtype)
        # Always closed: they hold a reader thread, and a limit on the threads of BLAS.
        with (
            closing(parts) as parts,
            closing(ordered_map(lambda part: f(part.block()), parts, threads)) as results,
        ):
            total = next(results)
            for result in results:
                total = combine(total, result)
            return total


class Titles(NamedTuple):
    """Names of the views, their columns and their rows, for messages.

    `places` say where rows are if a view is many files; `rows` are their numbers if they are a selection.
    """

    view_names: tuple[str, ...]
    names: tuple[Array | None, ...]
    places: tuple[Place | None, ...] = (None, None)
    rows: Array | None = None

    def naming(self, view: int) -> Naming:
        """Names of the columns and rows of one view."""
        return Naming(self.view_names[view], self.names[view], self.places[view], self.rows)

    def describe(self, view: int, column: int) -> str:
        """A column's name for messages: view 0 is X, view 1 is y."""
        return describe(self.view_names[view], self.names[view], column)


class Views(Protocol):
    """Protocol of two views of the same rows, and of passes over them."""

    @property
    def n_samples(self) -> int:
        """Number of rows."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of columns of each view."""

    @property
    def n_features_x(self) -> int:
        """Number of columns of the first view."""

    @property
    def n_features_y(self) -> int:
        """Number of columns of the second view."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the precision of the blocks."""

    @property
    def entries(self) -> float:
        """Stored entries of a row of both views, on average: what a product with one column costs."""

    @property
    def threads(self) -> int:
        """Number of blocks worked on at a time."""

    @property
    def local(self) -> bool:
        """True if rows are read in this process, so that results may be kept here."""

    @property
    def groups(self) -> int | None:
        """Number of groups of rows whose sums are added up, if rows are in several places; else None."""

    @property
    def names(self) -> tuple[Array | None, Array | None]:
        """Column names of the two views, or None."""

    @property
    def view_names(self) -> tuple[str, str]:
        """Names of the two views, for messages."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was decided about files while they were opened, in words."""

    @property
    def titles(self) -> Titles:
        """Names of views and columns, for functions of blocks that may run on another machine."""

    def blocks(self, dtype: Any = None) -> Iterator[Block]:
        """Every row once, in order, in the precision of the views or in another one."""

    def parts(self, dtype: Any = None) -> Generator[Part, None, None]:
        """The same blocks as parts, each made on demand."""

    def reduce(
        self,
        f: Callable[[Block], T],
        combine: Callable[[T, T], T],
        dtype: Any = None,
        most: int | None = None,
    ) -> T:
        """`combine` over `f(block)` in a fixed order, so that two runs agree to the last bit.

        At most `most` blocks are worked on at a time, for results that take much memory.
        """

    def run(self, sweep: Sweep) -> Any:
        """Result of a pass, which may come from views derived from these."""

    def sum(self, f: Callable[[Block], Sequence[Array]], dtype: Any = None) -> tuple[Array, ...]:
        """The arrays of `f(block)` added over all blocks."""

    def regroup(self, groups: int) -> None:
        """Put rows into this many groups, as in the run to be resumed."""

    def take(self, rows: Array) -> Views:
        """The views restricted to these rows, in this order."""

    def order(self, rng: np.random.Generator) -> Array:
        """All rows in a random order that is fast to read."""

    def describe(self, view: int, column: int) -> str:
        """A column's name for messages: view 0 is X, view 1 is y."""


class BaseViews:
    """Base of all back ends: reductions in terms of `blocks`, and an order for minibatches."""

    n_samples: int
    widths: tuple[int, ...]
    dtype: np.dtype[Any]
    threads: int = 1
    local: bool = True
    groups: int | None = None
    view_names: tuple[str, str] = ("X", "y")
    names: tuple[Array | None, Array | None] = (None, None)
    notes: tuple[str, ...] = ()
    places: tuple[Place | None, Place | None] = (None, None)

    def blocks(self, dtype: Any = None) -> Iterator[Block]:
        """Every row once, in order."""
        raise NotImplementedError

    def parts(self, dtype: Any = None) -> Generator[Part, None, None]:
        """Parts whose blocks are made already."""
        for block in self.blocks(dtype):
            yield Part(block.n_rows, partial(_same, block))

    def take(self, rows: Array) -> Views:
        """The views restricted to these rows."""
        raise NotImplementedError

    def reduce(
        self,
        f: Callable[[Block], T],
        combine: Callable[[T, T], T],
        dtype: Any = None,
        most: int | None = None,
    ) -> T:
        """`combine` over `f(block)` in a fixed order."""
        found: T = self.run(Sweep(f, combine, dtype, self.threads, most))
        return found

    def run(self, sweep: Sweep) -> Any:
        """Result of a pass over rows read in this process."""
        return sweep.over(self.parts(sweep.dtype), sweep.threads)

    def regroup(self, groups: int) -> None:
        """Do nothing: rows in one place have no groups."""

    def sum(self, f: Callable[[Block], Sequence[Array]], dtype: Any = None) -> tuple[Array, ...]:
        """The arrays of `f(block)` added over all blocks."""
        return self.reduce(lambda block: tuple(f(block)), _add, dtype)

    def order(self, rng: np.random.Generator) -> Array:
        """All rows in random order."""
        return rng.permutation(self.n_samples)

    @property
    def n_features_x(self) -> int:
        """Number of columns of the first view."""
        return self.widths[0]

    @property
    def n_features_y(self) -> int:
        """Number of columns of the second view."""
        return self.widths[1]

    @property
    def entries(self) -> float:
        """Stored entries of a row of both views, on average."""
        return float(sum(self.widths))

    @property
    def titles(self) -> Titles:
        """Names of views and columns."""
        return Titles(self.view_names, self.names, self.places)

    def __repr__(self) -> str:
        """Rows, precision, and the name and columns of each view."""
        views = zip(self.view_names, self.widths, self.names, strict=True)
        parts = "; ".join(f"{name}: {_columns(width, names)}" for name, width, names in views)
        return f"<{type(self).__name__} of {self.n_samples} rows, {self.dtype}; {parts}>"

    def describe(self, view: int, column: int) -> str:
        """A column's name for messages."""
        return self.titles.describe(view, column)


def canonical_csr(m: Any) -> Any:
    """A sparse matrix as CSR with sorted, unique indices; the input is left as it is."""
    csr = sp.csr_array(summable(m))
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    return csr


def _columns(width: int, names: Array | None) -> str:
    """Number of columns of a view, and the names of the first few."""
    found = f"{width} column{'' if width == 1 else 's'}"
    if names is None:
        return found
    first = ", ".join(shown(str(name), 30) for name in names[:3])
    return f"{found} ({first}{', ...' if width > 3 else ''})"


def summable(m: Any) -> Any:
    """A sparse matrix in doubles if it holds entries twice: their sums do not fit into small integers.

    Anything else is returned as it is. Truth values count as 0 and 1.
    """
    if sp.issparse(m) and m.dtype.kind in "biu" and not getattr(m, "has_canonical_format", True):
        return m.astype(np.float64)
    return m


def _same(block: Block) -> Block:
    return block


def _add(total: tuple[Array, ...], part: tuple[Array, ...]) -> tuple[Array, ...]:
    for a, b in zip(total, part, strict=True):
        a += b
    return total


def reporting_rows(
    parts: Generator[Part, None, None], seen: Callable[[int], None] | None
) -> Generator[Part, None, None]:
    """Yield parts, reporting row counts to `seen`."""
    with closing(parts):
        for part in parts:
            if seen is not None:
                seen(part.rows)
            yield part
