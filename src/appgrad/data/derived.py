"""Views derived from other views, wherever the rows are: some columns, or rows that are counted."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from ..machine.arrays import Array
from .fingerprint import Identity
from .views import BaseViews, Block, Cut, Part, Sweep, Titles, Views, reporting_rows


class DerivedViews(BaseViews):
    """Base of views whose blocks are made from those of other views, in memory or not."""

    def __init__(self, views: Views) -> None:
        self.views = views
        self.n_samples, self.dtype, self.threads = views.n_samples, views.dtype, views.threads
        self.widths, self.view_names, self.local = views.widths, views.view_names, views.local

    @property
    def cut(self) -> Cut:
        """The function from parts of the other views to parts of these; the same object in every pass."""
        raise NotImplementedError

    def inner(self, dtype: Any) -> Any:
        """The precision in which rows of the other views are read."""
        return dtype

    def blocks(self, dtype: Any = None) -> Iterator[Block]:
        """Every row once, in order."""
        return (part.block() for part in self.parts(dtype))

    def parts(self, dtype: Any = None) -> Generator[Part, None, None]:
        """Parts whose blocks are made from those of the other views."""
        return self.cut(self.views.parts(self.inner(dtype)), dtype)

    def run(self, sweep: Sweep) -> Any:
        """Result of a pass, which runs where the rows of the other views are."""
        cuts = ((self.cut, sweep.dtype), *sweep.cuts)
        return self.views.run(sweep._replace(dtype=self.inner(sweep.dtype), cuts=cuts))

    @property
    def titles(self) -> Titles:
        """Names of views, columns and rows: rows are those of the other views."""
        return self.views.titles._replace(view_names=self.view_names, names=self.names)

    @property
    def groups(self) -> int | None:  # type: ignore[override]
        """Number of groups of the other views."""
        return self.views.groups

    def regroup(self, groups: int) -> None:
        """Regroup the rows of the other views."""
        self.views.regroup(groups)

    def order(self, rng: np.random.Generator) -> Array:
        """All rows in a random order that is fast to read."""
        return self.views.order(rng)


class CountedViews(DerivedViews):
    """Views that count the rows they deliver, for `n_passes_` and for progress bars.

    Rows that they deliver are also hashed, once, if an `identity` asks for it.
    """

    def __init__(
        self,
        views: Views,
        on_rows: Callable[[int], None] | None = None,
        *,
        threads: int | None = None,
        parent: CountedViews | None = None,
    ) -> None:
        super().__init__(views)
        self.on_rows, self.parent, self.rows = on_rows, parent, 0
        self.threads = views.threads if threads is None else threads
        self.names = views.names
        self.identity: Identity | None = None
        # Numbers of the rows delivered, where these are a selection whose identity is asked for.
        self.numbers: Array | None = None

    @property
    def entries(self) -> float:
        """Stored entries of a row of both views, on average."""
        return self.views.entries

    @property
    def passes(self) -> float:
        """Passes so far: rows delivered over the number of rows."""
        return self.rows / self.n_samples

    def parts(self, dtype: Any = None) -> Generator[Part, None, None]:
        """Parts of the views; their rows are counted."""
        parts = reporting_rows(self.views.parts(dtype), self._count)
        return parts if self.numbers is None or dtype is not None else self._hashed(parts)

    def run(self, sweep: Sweep) -> Any:
        """Result of a pass over the views; its rows are counted."""
        seen, count = sweep.seen, self._count

        def both(rows: int) -> None:
            count(rows)
            if seen is not None:
                seen(rows)

        sweep = sweep._replace(seen=both)
        if self.identity is None or self.numbers is not None:
            return self.views.run(sweep)
        return self.identity.watched(self.views.run, sweep, self.dtype)

    def verify(self) -> None:
        """Raise unless the rows are those their identity expects; a pass if there has been none."""
        if self.identity is not None:
            self.identity.require(self.views)

    def _hashed(self, parts: Generator[Part, None, None]) -> Generator[Part, None, None]:
        """Parts whose rows are hashed when their blocks are made."""
        assert self.identity is not None
        assert self.numbers is not None
        start, identity = 0, self.identity
        with closing(parts):
            for part in parts:
                yield Part(
                    part.rows, partial(_added, identity, part, self.numbers[start : start + part.rows])
                )
                start += part.rows

    def _count(self, rows: int) -> None:
        self.rows += rows
        if self.parent is not None:
            self.parent._count(rows)
        elif self.on_rows is not None:
            self.on_rows(self.rows)

    def take(self, rows: Array) -> CountedViews:
        """The views restricted to these rows; rows they deliver are counted here too."""
        found = CountedViews(self.views.take(rows), threads=self.threads, parent=self)
        if self.identity is not None and self.numbers is None and not self.identity.complete:
            found.identity, found.numbers = self.identity, np.asarray(rows)
        return found


def _added(identity: Identity, part: Part, numbers: Array) -> Block:
    return identity.add(part.block(), numbers)


class Picking:
    """Function from parts of rows to parts of some of their columns."""

    def __init__(self, x: Array, y: Array) -> None:
        self.x, self.y = x, y

    def __call__(self, parts: Generator[Part, None, None], dtype: Any) -> Generator[Part, None, None]:
        """Parts whose blocks have the chosen columns only."""
        with closing(parts):
            for part in parts:
                yield Part(part.rows, partial(self._picked, part))

    def _picked(self, part: Part) -> Block:
        block = part.block()
        x, y = block.views
        return Block(block.offset, (x[:, self.x], y[:, self.y]))


class ColumnViews(DerivedViews):
    """Views restricted to some columns of each view, picked from every block as it comes."""

    def __init__(self, views: Views, x: Array, y: Array) -> None:
        super().__init__(views)
        self._picking = Picking(x, y)
        self.widths = len(x), len(y)
        names_x, names_y = views.names
        self.names = None if names_x is None else names_x[x], None if names_y is None else names_y[y]

    @property
    def cut(self) -> Picking:
        """The function that picks the columns."""
        return self._picking

    def take(self, rows: Array) -> ColumnViews:
        """These columns of these rows."""
        return ColumnViews(self.views.take(rows), self.cut.x, self.cut.y)
