"""Rows in random order, each delivered once a pass, with a look ahead and running statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...covariance.moments import Moments, moments
from ...covariance.rows import RowCovariance
from ...covariance.units import KernelRidge, Ridge, Units, ViewUnits, auto_ridge, vary, working_dtype
from ...data.arrays import ArrayViews, gathered
from ...data.finite import require_finite
from ...data.views import Views
from ...machine.arrays import Array


class Minibatch(NamedTuple):
    """The rows of one step, and rows to come: those of its normaliser, and all that are in memory.

    Rows to come are held out: no step has used them yet, except near the very end, when only `left` of them
    are new. `moments` are those of all rows read so far, `peaks` the largest mean squares of their columns
    over a minibatch. `share` is the part of the run that is done. When it is time to judge the run by rows it
    has not used, `judges` returns two halves of them.
    """

    cov: RowCovariance
    normaliser: RowCovariance
    ahead: Callable[[], RowCovariance]
    left: int
    moments: Moments
    peaks: tuple[Array, Array]
    share: float
    judges: Callable[[], tuple[RowCovariance, RowCovariance]] | None = None


class Buffer:
    """Rows in memory from which minibatches are cut, with means and variances of all rows seen so far.

    Rows stay until they have been used as a minibatch, and a portion of them a little longer: a run that has
    not read all rows is measured on these.
    """

    def __init__(
        self,
        size: int,
        normaliser: int | None,
        portion: int,
        *,
        center: bool = True,
        scale: bool = False,
        ridge: tuple[Ridge, Ridge] = ("auto", "auto"),
    ) -> None:
        self.size, self.normaliser, self.portion = size, normaliser, portion
        self.center, self.scale, self.ridge = center, scale, ridge
        self.position = 0
        self.rows: ArrayViews
        self.moments: Moments
        self.peaks: tuple[Array, Array]

    @property
    def left(self) -> int:
        """Rows that no step has used."""
        return self.rows.n_samples - self.position

    def add(self, new: ArrayViews, found: Moments | None, keep: float = 1.0) -> None:
        """Add rows, already in random order, and their moments, None if they have been seen before.

        Rows seen before keep only this share of their weight if `keep` is below one.
        """
        if not hasattr(self, "rows"):
            assert found is not None
            self.rows, self.moments = new, found
            self.peaks = self._peaks(new)
            return
        rest = self._slice(max(0, self.position - self.portion), self.rows.n_samples)
        self.position = min(self.position, self.portion)
        self.rows = gathered(rest, new)
        if found is not None:
            if keep < 1:
                self.moments = self.moments._replace(n=keep * self.moments.n)  # type: ignore[arg-type]
            self.moments = self.moments.merge(found)
            peaks = self._peaks(new)
            self.peaks = np.maximum(self.peaks[0], peaks[0]), np.maximum(self.peaks[1], peaks[1])

    def renew(self) -> None:
        """Recompute peaks from the rows in memory alone."""
        self.peaks = self._peaks(self.rows)

    def next(self, share: float, judging: int = 0) -> Minibatch:
        """Return the next minibatch; `judging` rows from its first on are for judging."""
        judges = partial(self._halves, self.position, self.position + judging) if judging else None
        rows = self._slice(self.position, self.position + self.size)
        self.position += self.size
        batch = self.covariance(rows)
        normaliser = batch if self.normaliser is None else self.covariance(self._next(self.normaliser))
        return Minibatch(batch, normaliser, self._ahead, self.left, self.moments, self.peaks, share, judges)

    def warm_up(self) -> RowCovariance:
        """Return all rows in memory: before the first step, they determine preconditioner and step."""
        return self.covariance(self.rows)

    def at_hand(self) -> RowCovariance:
        """Return the last rows read, in memory."""
        end = self.rows.n_samples
        return self.covariance(self._slice(max(0, end - self.portion), end))

    def to_come(self) -> RowCovariance:
        """Return the rows that no step has used."""
        return self.covariance(self._slice(self.position, self.rows.n_samples))

    def halves(self) -> tuple[RowCovariance, RowCovariance]:
        """Return the rows of `at_hand` in two parts."""
        end = self.rows.n_samples
        return self._halves(max(0, end - self.portion), end)

    def _halves(self, start: int, end: int) -> tuple[RowCovariance, RowCovariance]:
        middle = (start + end) // 2
        return self.covariance(self._slice(start, middle)), self.covariance(self._slice(middle, end))

    def _peaks(self, drawn: ArrayViews) -> tuple[Array, Array]:
        """The largest mean squares of the columns over minibatches of these rows, about the means so far."""
        peaks = np.zeros(drawn.n_features_x), np.zeros(drawn.n_features_y)
        for start in range(0, drawn.n_samples, self.size):
            found = moments(_rows(drawn, slice(start, start + self.size)))
            # A shorter last minibatch counts as if it were filled up with means.
            part = found.n / self.size
            for peak, new, known in zip(peaks, found.views, self.moments.views, strict=True):
                np.maximum(peak, part * (new.var + (new.mean - known.mean) ** 2), out=peak)
        return peaks

    def _ahead(self) -> RowCovariance:
        """Return all rows in memory that no step has used; near the very end, also the last ones used."""
        end = self.rows.n_samples
        return self.covariance(self._slice(max(0, min(self.position, end - self.portion)), end))

    def _next(self, count: int) -> ArrayViews:
        """Return the next rows to come; if fewer are left, the last ones in memory."""
        end = min(self.position + count, self.rows.n_samples)
        return self._slice(max(0, end - count), end)

    def _slice(self, start: int, stop: int) -> ArrayViews:
        return _rows(self.rows, slice(start, stop))

    def covariance(self, rows: ArrayViews) -> RowCovariance:
        """Return the covariance of some rows, with the means of all rows seen so far."""
        return RowCovariance(rows, self.moments, self.units(), dtype=working_dtype(self.moments, rows.dtype))

    def units(self, m: Moments | None = None) -> Units:
        """Return units of the data themselves, so that running statistics change no coordinates.

        Columns that are constant, but for rounding, count for nothing as long as they are.
        With scale=True the problem is the same one with its ridge multiplied by the variances.
        """
        m, found = self.moments if m is None else m, []
        for (mean, var), r in zip(m.views, self.ridge, strict=True):
            assert not isinstance(r, KernelRidge)
            if r == "auto":
                ridge = auto_ridge(self.rows.dtype) * var
            else:
                ridge = float(r) * var if self.scale else np.full(len(var), float(r))
            found.append(ViewUnits(mean, vary(mean, var).astype(np.float64), ridge))
        return Units(tuple(found))


class Minibatches:
    """A number of minibatches of two views in random order.

    Rows are read in portions, in ascending order because disks are faster then, and shuffled in memory: each
    is delivered once a pass, whatever it is used for.
    """

    def __init__(
        self,
        views: Views,
        buffer: Buffer,
        steps: int,
        rng: np.random.Generator,
        passes: float = 0.0,
    ) -> None:
        self.views, self.buffer, self.rng = views, buffer, rng
        self.rows = steps * buffer.size
        # Rows left over when passes are cut into minibatches are still read, for their moments.
        self.reach = max(self.rows, int(passes * views.n_samples))
        self._order = views.order(rng)
        self._drawn, self._used = 0, 0
        # All rows in memory, each once, if a portion holds them.
        self.whole: ArrayViews | None = None
        self._draw()

    @property
    def complete(self) -> bool:
        """True if the moments are those of all rows."""
        return self._drawn >= self.views.n_samples

    def __iter__(self) -> Iterator[Minibatch]:
        """Yield as many minibatches as asked for."""
        buffer = self.buffer
        while self._used < self.rows:
            # Keep a portion of rows beyond the next minibatch, as long as there are any left to draw.
            while buffer.left < buffer.size + buffer.portion and self._drawn < self.reach:
                self._draw()
            share, judging = self._used / self.rows, self._judging()
            self._used += buffer.size
            yield buffer.next(share, judging)

    def _judging(self) -> int:
        """Return how many rows judge the run before use: the last of the first pass, a quarter at most."""
        total, buffer = min(self.rows, self.views.n_samples), self.buffer
        unused, due = total - self._used, max(buffer.size, min(total // 4, buffer.portion))
        return unused if unused <= due < unused + buffer.size else 0

    def _draw(self) -> None:
        """Read the next portion into the buffer, in random order."""
        n = self.views.n_samples
        start, again = self._drawn % n, self._drawn >= n
        count = min(self.buffer.portion, n - start, self.reach - self._drawn)
        if start == 0 and self._drawn:
            self._order = self.views.order(self.rng)
        rows = np.sort(self._order[start : start + count])
        self._drawn += count
        drawn = gathered(self.views.take(rows))
        if count == n:
            self.whole = drawn
        try:
            found = moments(drawn, self.buffer.center)
        except ValueError:
            # The rows of a portion are scattered over the data: name the one that is to blame.
            for i, row in enumerate(rows):
                require_finite(drawn.x[[i]], self.views.titles.naming(0), int(row))
                require_finite(drawn.y[[i]], self.views.titles.naming(1), int(row))
            raise
        self.buffer.add(shuffled(drawn, self.rng), None if again else found)


def shuffled(rows: ArrayViews, rng: np.random.Generator) -> ArrayViews:
    """Rows in memory in random order."""
    return _rows(rows, rng.permutation(rows.n_samples))


def sliced(rows: ArrayViews, start: int, stop: int) -> ArrayViews:
    """A range of rows in memory, not copied."""
    if start <= 0 and stop >= rows.n_samples:
        return rows
    return _rows(rows, slice(start, stop))


def _rows(views: ArrayViews, index: Any) -> ArrayViews:
    """Some rows of views in memory, as views in memory."""
    return ArrayViews(
        views.x[index], views.y[index], names=views.names, view_names=views.view_names, threads=views.threads
    )
