"""Estimators for rows that come in batches: partial_fit, fit_stream, merge, from_covariance."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import update_wrapper
from operator import length_hint
from types import MethodType
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from ..covariance.moments import moments
from ..data.arrays import ArrayViews
from ..data.kernels import MappedViews
from ..data.sources import as_views, is_views
from ..data.views import Block, Views
from ..fitting.fit import Fit, fit_of_stream, generator, require_components
from ..fitting.parameters import checked
from ..fitting.progress import followed, logger
from ..fitting.remarks import issue, said
from ..fitting.streams.kinds import kept_by, stream_for
from ..fitting.streams.steps import StepStream
from ..fitting.streams.sums import SumStream, from_covariances
from ..inference.noise import AGED
from ..machine.threads import blas_limit, limit_for
from ..solvers import registry
from ..solvers.loop import says_stop
from ..solvers.problem import Limits, Problem, Progress, Solution
from ..solvers.protocol import Options
from .base import BaseCCA, Prepared, is_one_dimensional
from .fitted import Fitted, Rows, named


class StreamMethod:
    """A method that an estimator has only if its rows may come in batches.

    Otherwise, reading it raises an AttributeError that says why, so that `hasattr` is False.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        update_wrapper(self, function)  # type: ignore[arg-type]

    def __get__(self, model: StreamingCCA | None, owner: type | None = None) -> Callable[..., Any]:
        if model is None:
            return self.function
        refusal = model._refuses_streams()
        if refusal is not None:
            raise AttributeError(refusal)
        return MethodType(self.function, model)


class StreamingCCA(BaseCCA):
    """Base of estimators whose rows may come in batches."""

    solver: str

    @StreamMethod
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add rows to those seen so far, few or many at a time; the solution is computed when first read.

        If the covariances fit into the memory budget, their sums are kept, and the result is that of `fit`
        on all rows together. Otherwise the rows are steps of stochastic AppGrad, in O(k p) memory. Rows that
        cannot be used (NaN, other columns) raise and change nothing.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.datasets import load_linnerud
        >>> from appgrad import CCA
        >>> X, y = load_linnerud(return_X_y=True)
        >>> model = CCA(n_components=3)
        >>> for rows in np.array_split(np.arange(20), 7):
        ...     model = model.partial_fit(X[rows], y[rows])
        >>> model.canonical_correlations_.round(6)
        array([0.795608, 0.200556, 0.07257 ])
        """
        raw = as_views(X, y, min_rows=1)
        # Check all rows before any is added, so that an error changes nothing.
        if not np.isfinite(sum(map(_squares, raw.blocks()))):
            moments(raw)
            raise ValueError("values are too large to be squared in double precision: rescale the columns")
        if self._stream is None:
            stream, views, rows = self._begun(raw, is_one_dimensional(y))
        else:
            self._require_columns(raw.n_features_x, raw.names[0], 0, raw.view_names[0])
            self._require_columns(raw.n_features_y, raw.names[1], 1, raw.view_names[1])
            stream, rows = self._stream, self._known().rows
            views = raw if rows.learned is None else MappedViews(raw, *rows.learned.maps)
        for block in views.blocks():
            # Copies: the caller may fill the same arrays with the next rows.
            x, y = (m.copy() for m in block.views)
            # Before rows are added: this raises if parameters are wrong by now.
            rows = self._renewed(rows._replace(n_samples=rows.n_samples + x.shape[0]))
            more = ArrayViews(x, y, names=views.names, view_names=views.view_names, threads=views.threads)
            with limit_for(more.n_samples * more.entries * sum(more.widths)):
                stream.add(more)
            self._follow(stream, rows)
        return self

    @StreamMethod
    def fit_stream(self, batches: Iterable[Any]) -> Self:
        """Fit to pairs (X, y) from any iterable, one after the other; no pair is kept.

        The model is usable after every pair, also when the iterable raises. Pairs without rows are skipped.
        The callback is called after every pair, and ends the stream when it returns True. `verbose` logs (1)
        or shows as a line on the terminal (2) the rows a second, the captured correlation if steps are
        taken, and the time left if the iterable has a length.
        """
        if is_views(batches):
            raise TypeError(
                "fit_stream takes pairs (X, y): use fit(views), or partial_fit(views) to add to a model"
            )
        before, start = (self._fitted, self._stream), time.perf_counter()
        self._set(None, None)
        try:
            with followed("stream", self.verbose, self.callback, components=self.n_components) as callback:
                self._take(batches, callback)
            if self._stream is None:
                raise ValueError("the stream had no rows")
        finally:
            if self._stream is None:
                self._set(*before)
            else:
                self._stream.finish()
                self._follow(self._stream, self._known().rows)
        if self.verbose:
            spent = time.perf_counter() - start
            logger.info("the stream ended after %d rows and %.1f s", self.n_samples_, spent)
        return self

    def _take(self, batches: Iterable[Any], callback: Callable[[Progress], Any] | None) -> None:
        start, count = time.perf_counter(), 0 if callback is None else _length(batches)
        for number, batch in enumerate(batches, 1):
            try:
                X, y = batch
            except (TypeError, ValueError):
                parts = f" of {len(batch)}" if isinstance(batch, tuple | list) else ""
                found = f"{type(batch).__name__}{parts}"
                raise ValueError(f"batch {number} is a {found}, not a pair (X, y)") from None
            try:
                if not _rows_of(X) and not _rows_of(y):
                    continue
                self.partial_fit(X, y)
            except (TypeError, ValueError) as error:
                raise type(error)(f"batch {number}: {error}") from error
            if callback is not None:
                assert self._stream is not None
                spent, tcc = time.perf_counter() - start, self._stream.tcc
                progress = Progress(
                    number,
                    1.0,
                    spent,
                    np.nan,
                    tcc,
                    self._stream_solution,
                    rows=self.n_samples_,
                    left=spent * (count - number) / number if count >= number else None,
                )
                if says_stop(callback(progress)):
                    break

    def merge(self, other: StreamingCCA) -> Self:
        """Add the rows of another model, fitted by `partial_fit` to another shard, to this one.

        This model is changed in place and keeps its parameters.
        """
        if other is self:
            raise ValueError("a model cannot be merged with itself: its rows would count twice")
        ours, theirs = (
            _stream_of(model, name) for model, name in ((self, "this model"), (other, "the other model"))
        )
        rows, more = self._known().rows, other._known().rows
        self._require_columns(more.n_features[0], more.names[0], 0, "X of the other model")
        self._require_columns(more.n_features[1], more.names[1], 1, "y of the other model")
        rows = self._renewed(rows._replace(n_samples=rows.n_samples + more.n_samples))
        ours.merge(theirs)
        self._follow(ours, rows)
        return self

    @classmethod
    def from_covariance(
        cls, n: int, Sx: Any, Sy: Any, Sxy: Any, mean_x: Any = None, mean_y: Any = None, **params: Any
    ) -> Self:
        """A model from statistics alone: covariances divided by n, of n rows, and means (0 by default).

        More rows may follow by `partial_fit`, and other models by `merge`.
        """
        model = cls(**params)
        problem, options = checked(model.get_params(deep=False))
        if kept_by(options.solver) != registry.SUMS:
            names = " or ".join(map(repr, registry.streaming(registry.SUMS)))
            raise ValueError(f"solver={options.solver!r} needs rows: use {names} here")
        stream = SumStream(problem, options, np.random.default_rng(0))
        stream.second = from_covariances(problem.center, n, Sx, Sy, Sxy, mean_x, mean_y)
        stream.single = False
        p1, p2 = ((np.shape(S) or (1,))[0] for S in (Sx, Sy))
        model._follow(stream, Rows(int(n), (p1, p2)))
        return model

    def _begun(self, raw: Views, one_dimensional: bool) -> tuple[SumStream | StepStream, Views, Rows]:
        """A new stream, its first rows as views for the solver, and their `Rows`, with none counted yet."""
        problem, options = self.problem_and_options()
        _warn_of_budgets(options)
        if self.checkpoint is not None:
            issue(said("checkpoint is for fit: of a stream, save the model", UserWarning))
        if self._fitted is not None:
            text = "partial_fit starts a new model here: fit keeps nothing of its rows to add to"
            issue(said(text, UserWarning))
        rng = generator(self.random_state)
        views, problem, learned = self._prepared_stream(raw, problem, rng)
        names = named(raw.names[0]), named(raw.names[1])
        rows = Rows(0, (raw.n_features_x, raw.n_features_y), names, one_dimensional, learned)
        return stream_for(views, problem, options, rng), views, rows

    def _follow(self, stream: SumStream | StepStream, rows: Rows) -> None:
        """Set the model to a stream with these rows, and drop the solution for fewer rows.

        The provenance of an earlier fit is dropped too: its files do not hold the rows of the stream.
        """
        if rows.learned is not None:
            stream.ridge(rows.learned.ridge)
        self._set(Fitted(rows), stream)

    def _renewed(self, rows: Rows) -> Rows:
        """Update facts that depend on the number of rows; none by default."""
        return rows

    def _refuses_streams(self) -> str | None:
        """The reason why rows cannot come in batches; None if they can."""
        names = registry.streaming()
        if self.solver in names:
            return None
        return f"solver={self.solver!r} needs all rows at a time: for streams use one of {', '.join(names)}"

    def _prepared_stream(self, views: Views, problem: Problem, rng: np.random.Generator) -> Prepared:
        """The first rows of a stream as views, and the problem, for the solver; here those of the user."""
        return Prepared(views, problem)

    def _stream_solution(self) -> Solution:
        """The solution for the rows of the stream so far."""
        rows, stream = self._known().rows, self._stream
        assert stream is not None
        require_components(stream.problem, rows.n_samples, *rows.widths)
        return stream.solution(rows.widths[0])

    def _fit_of_stream(self) -> Fit:
        rows, stream = self._known().rows, self._stream
        assert stream is not None
        try:
            found = fit_of_stream(stream, self._stream_solution, rows.n_samples, rows.widths, self._overfit)
        except ValueError as error:
            # Too few rows so far: attributes of the solution are missing, and the error says why.
            raise NotFittedError(str(error)) from error
        dimensions = self._dimensions_of(found.solution, rows.n_samples, rows.widths)
        if stream.options.forget is not None:
            dimensions = dimensions._replace(reason=AGED)
        return found._replace(solution=self._kept(found.solution), dimensions=dimensions)


def _stream_of(model: StreamingCCA, name: str) -> SumStream | StepStream:
    if model._stream is None:
        raise ValueError(
            f"merge is for models of partial_fit, which keep the sums of their rows: {name} has none"
        )
    return model._stream


def _length(batches: Iterable[Any]) -> int:
    """Number of batches; 0 if the iterable has no length."""
    try:
        return length_hint(batches)
    except (TypeError, ValueError, NotImplementedError):
        return 0


def _warn_of_budgets(options: Options) -> None:
    given = [name for name, limit in zip(Limits._fields, options.limits, strict=True) if limit is not None]
    if given:
        text = f"budgets ({', '.join(given)}) are for fit: a stream ends with its rows, or by a callback"
        issue(said(text, UserWarning))


def _squares(block: Block) -> float:
    parts = (np.asarray(z.data if sp.issparse(z) else z, np.float64) for z in block.views)
    with np.errstate(over="ignore", invalid="ignore"), blas_limit(1):
        return float(sum(np.vdot(part, part) for part in parts))


def _rows_of(data: Any) -> int:
    if hasattr(data, "shape") and data.shape:
        return int(data.shape[0])
    if not hasattr(data, "__len__"):
        raise TypeError(f"a view must be a matrix, got {type(data).__name__}")
    return len(data)
