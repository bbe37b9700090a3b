"""Rows in random order, each delivered once a pass, with a look ahead and running statistics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .covariance import Covariance, Ridge, Units, working_dtype
from .moments import Moments, moments
from .preconditioners import warm_up_rows
from .views import Array, ArrayViews, Views, gathered, require_finite


class Minibatch(NamedTuple):
    """The rows of one step, and rows to come: those of its normaliser, and all that are at hand.

    Rows to come are held out: no step has used them yet. `moments` are those of all rows read so far,
    `peaks` the largest mean squares of their columns over a minibatch. `share` of the run lies behind it.
    """

    cov: Covariance
    normaliser: Covariance
    ahead: Callable[[], Covariance]
    moments: Moments
    peaks: tuple[Array, Array]
    share: float


class Minibatches:
    """A number of minibatches of two views, with means and variances of all rows seen so far.

    Rows are read in portions, in ascending order for the sake of disks, shuffled in memory, and kept until
    they are used: each is delivered once a pass, whatever it serves for.
    """

    def __init__(
        self,
        views: Views,
        size: int,
        normaliser: int | None,
        steps: int,
        rng: np.random.Generator,
        *,
        center: bool = True,
        scale: bool = False,
        ridge: tuple[Ridge, Ridge] = ("auto", "auto"),
        passes: float = 0.0,
    ) -> None:
        self.views, self.size, self.normaliser, self.rng = views, size, normaliser, rng
        self.center, self.scale, self.ridge = center, scale, ridge
        self.rows = steps * size
        # What is left over when passes are cut into minibatches is read all the same, for its moments.
        self.reach = max(self.rows, int(passes * views.n_samples))
        self.portion = min(max(size, normaliser or 0, warm_up_rows(views)), views.n_samples)
        self._order = rng.permutation(views.n_samples)
        self._drawn, self._used, self._position = 0, 0, 0
        self._buffer, self.moments = self._drawn_rows()
        self.peaks = self._peaks(self._buffer)

    @property
    def complete(self) -> bool:
        """Whether the moments are those of all rows."""
        return self._drawn >= self.views.n_samples

    def warm_up(self) -> Covariance:
        """The rows at hand before the first step."""
        return self._covariance(self._buffer)

    def at_hand(self) -> Covariance:
        """The last rows read, in memory."""
        end = self._buffer.n_samples
        return self._covariance(self._slice(max(0, end - self.portion), end))

    def halves(self) -> tuple[Covariance, Covariance]:
        """The rows of `at_hand` in two parts."""
        end = self._buffer.n_samples
        start = max(0, end - self.portion)
        middle = (start + end) // 2
        return self._covariance(self._slice(start, middle)), self._covariance(self._slice(middle, end))

    def __iter__(self) -> Iterator[Minibatch]:
        """Minibatches, as many as asked for."""
        while self._used < self.rows:
            self._fill()
            rows = self._slice(self._position, self._position + self.size)
            self._position += self.size
            self._used += self.size
            batch = self._covariance(rows)
            normaliser = batch if self.normaliser is None else self._covariance(self._next(self.normaliser))
            share = (self._used - self.size) / self.rows
            yield Minibatch(batch, normaliser, self._ahead, self.moments, self.peaks, share)

    def _fill(self) -> None:
        """Have a portion of rows beyond the next minibatch, as long as there are any left to draw."""
        while self._buffer.n_samples - self._position < self.size + self.portion and self._drawn < self.reach:
            rest = self._slice(max(0, self._position - self.portion), self._buffer.n_samples)
            self._position = min(self._position, self.portion)
            again = self._drawn >= self.views.n_samples
            new, found = self._drawn_rows()
            self._buffer = gathered(rest, new)
            if not again:
                self.moments = self.moments.merge(found)
                peaks = self._peaks(new)
                self.peaks = np.maximum(self.peaks[0], peaks[0]), np.maximum(self.peaks[1], peaks[1])

    def _drawn_rows(self) -> tuple[ArrayViews, Moments]:
        """The next portion in random order, and its moments."""
        n = self.views.n_samples
        start = self._drawn % n
        count = min(self.portion, n - start, self.reach - self._drawn)
        if start == 0 and self._drawn:
            self._order = self.rng.permutation(n)
        rows = np.sort(self._order[start : start + count])
        self._drawn += count
        drawn = gathered(self.views.take(rows))
        try:
            found = moments(drawn, self.center)
        except ValueError:
            # The rows of a portion are scattered over the data: name the one that is to blame.
            for i, row in enumerate(rows):
                require_finite(drawn.x[[i]], partial(self.views.describe, 0), int(row))
                require_finite(drawn.y[[i]], partial(self.views.describe, 1), int(row))
            raise
        return _rows(drawn, self.rng.permutation(count)), found

    def _peaks(self, drawn: ArrayViews) -> tuple[Array, Array]:
        """The largest mean squares of the columns over minibatches of these rows, about the means so far."""
        peaks = np.zeros(drawn.n_features_x), np.zeros(drawn.n_features_y)
        for start in range(0, drawn.n_samples, self.size):
            found = moments(_rows(drawn, slice(start, start + self.size)))
            # A shorter rest counts as if it were filled up with means.
            part = found.n / self.size
            for peak, mean, var, center in (
                (peaks[0], found.mean_x, found.var_x, self.moments.mean_x),
                (peaks[1], found.mean_y, found.var_y, self.moments.mean_y),
            ):
                np.maximum(peak, part * (var + (mean - center) ** 2), out=peak)
        return peaks

    def _ahead(self) -> Covariance:
        """All rows at hand that no step has used; near the very end, with the last ones used."""
        end = self._buffer.n_samples
        return self._covariance(self._slice(max(0, min(self._position, end - self.portion)), end))

    def _next(self, count: int) -> ArrayViews:
        """The next rows to come; where fewer are left, the last ones there are."""
        end = min(self._position + count, self._buffer.n_samples)
        return self._slice(max(0, end - count), end)

    def _slice(self, start: int, stop: int) -> ArrayViews:
        return _rows(self._buffer, slice(start, stop))

    def _covariance(self, rows: ArrayViews) -> Covariance:
        return Covariance(rows, self.moments, self.units(), dtype=working_dtype(self.moments, rows.dtype))

    def units(self, m: Moments | None = None) -> Units:
        """Units of the data themselves, so that running statistics change no coordinates.

        With scale=True the problem is the same one with its ridge multiplied by the variances.
        """
        m, parts = self.moments if m is None else m, []
        for var, r in ((m.var_x, self.ridge[0]), (m.var_y, self.ridge[1])):
            auto = 1e-10 if self.views.dtype == np.float64 else 1e-6
            if r == "auto":
                parts.append(auto * var)
            else:
                parts.append(float(r) * var if self.scale else np.full(len(var), float(r)))
        ones = np.ones(len(m.var_x)), np.ones(len(m.var_y))
        return Units(m.mean_x, m.mean_y, *ones, *parts)


def _rows(views: ArrayViews, index: Any) -> ArrayViews:
    """Some rows of views in memory, as views in memory."""
    return ArrayViews(
        views.x[index], views.y[index], names=views.names, labels=views.labels, threads=views.threads
    )
