"""Rows that come batch by batch: partial_fit, fit_stream, merge, from_covariance."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from operator import length_hint
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from ..covariance.moments import moments
from ..data.arrays import ArrayViews
from ..data.sources import as_views, is_views
from ..data.views import Block, Views
from ..fitting import old_files
from ..fitting.choose import LOSS
from ..fitting.parameters import checked
from ..fitting.progress import followed, logger
from ..fitting.saved_state import packed, plain_generator, restored_generator, unpacked
from ..fitting.streams import STREAMING, Sketch, Statistics, Stream, from_covariances, stream_for
from ..fitting.warnings import Remark, overfit_warnings, said, trivial
from ..machine.arrays import EPS, Array
from ..solvers.loop import says_stop
from ..solvers.problem import Limits, Problem, Progress, Solution
from ..solvers.setup import Options
from .provenance import Origin

# Arrays that make up a fitted model, in the order of the public contract.
FITTED = (
    "canonical_correlations_",
    "training_correlations_",
    "x_weights_",
    "y_weights_",
    "x_loadings_",
    "y_loadings_",
    "x_mean_",
    "y_mean_",
    "x_std_",
    "y_std_",
    "residuals_",
    "error_bounds_",
    "_y_slopes",
)
# What else a stream leaves to be computed when it is first asked for.
LAZY = ("n_iter_", "n_passes_", "solver_", "solver_reason_", "history_", "_remarks")


def _streams(model: Any) -> bool:
    """Whether the solver asked for can do without all rows at a time; an error that says so otherwise."""
    refusal = model._refuses_streams()
    if refusal is None:
        return True
    raise AttributeError(refusal)


class StreamingMixin:
    """Estimators whose rows come one batch after the other."""

    # A fit in Python has none.
    _origin: Origin | None = None

    _arrays: ClassVar[tuple[str, ...]] = FITTED
    _stream: Statistics | Sketch
    callback: Callable[[Progress], Any] | None
    checkpoint: Any
    random_state: Any
    solver: str
    verbose: int
    n_samples_: int
    n_features_in_: int
    n_features_y_: int

    @available_if(_streams)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Add rows to those seen so far, few or many at a time; the solution is computed when asked for.

        Where the covariances fit into the memory budget, their sums are kept, and the result is that of `fit`
        on all rows together. Elsewhere rows are steps of stochastic AppGrad, in O(k p) memory. Rows that
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
        one_dimensional = y is not None and ndim(y) == 1
        raw = as_views(X, y, min_rows=1)
        stream = self.__dict__.get("_stream")
        facts: dict[str, Any] = {}
        # All of them, before any is added.
        if not np.isfinite(sum(map(_squares, raw.blocks()))):
            moments(raw)
            raise ValueError("values are too large to be squared in double precision: rescale the columns")
        if stream is None:
            problem, options = self._asked()
            _warn_of_budgets(options)
            if self.checkpoint is not None:
                warnings.warn("checkpoint is for fit: of a stream, save the model", UserWarning, stacklevel=2)
            if "canonical_correlations_" in self.__dict__:
                warnings.warn(
                    "partial_fit starts a new model here: fit keeps nothing of its rows to add to",
                    UserWarning,
                    stacklevel=2,
                )
            rng = generator(self.random_state)
            views, problem, facts = self._prepared_stream(raw, problem, rng)
            stream = stream_for(views, problem, options, rng)
        else:
            self._require_columns(raw.n_features_x, raw.names[0], 0, raw.view_names[0])
            self._require_columns(raw.n_features_y, raw.names[1], 1, raw.view_names[1])
            views = self._streamed(raw)
        for block in views.blocks():
            # Copies: the caller may fill the same arrays with the next rows.
            x, y = (m.copy() for m in block.views)
            stream.add(
                ArrayViews(x, y, names=views.names, view_names=views.view_names, threads=views.threads)
            )
            if "_stream" not in self.__dict__:
                self._stream, self.n_samples_, self._y_1d = stream, 0, one_dimensional
                # Rows of a stream are not those of the files of an earlier fit.
                self._origin = None
                self.n_features_in_, self.n_features_y_ = raw.n_features_x, raw.n_features_y
                self._set_names(*raw.names)
                self.__dict__.update(facts)
            self.n_samples_ += block.n_rows
            self._forget_solution()
        return self

    @available_if(_streams)  # type: ignore[untyped-decorator]
    def fit_stream(self, batches: Iterable[Any]) -> Self:
        """Fit to pairs (X, y) from any iterable, one after the other, none of them kept.

        The model is usable after every pair, also when the iterable raises. Pairs without rows are passed
        over. The callback is called after every pair, and ends the stream when it returns True. With
        `verbose`, rows a second, the captured correlation where steps are taken, and the time left where the
        iterable has a length are logged (1) or shown as a line on the terminal (2).
        """
        if is_views(batches):
            raise TypeError(
                "fit_stream takes pairs (X, y): use fit(views), or partial_fit(views) to add to a model"
            )
        before, start = self.__dict__.copy(), time.perf_counter()
        self.__dict__.pop("_stream", None)
        self._forget_solution()
        try:
            with followed("stream", self.verbose, self.callback) as callback:
                self._take(batches, callback)
            if "_stream" not in self.__dict__:
                raise ValueError("the stream had no rows")
        finally:
            if "_stream" not in self.__dict__:
                self.__dict__.update(before)
            else:
                self._stream.finish()
                self._forget_solution()
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

    def merge(self, other: StreamingMixin) -> Self:
        """Add the rows that another model has seen, from `partial_fit` on another shard, to this one's.

        In place; parameters are those of this model.
        """
        if other is self:
            raise ValueError("a model cannot be merged with itself: its rows would count twice")
        for model, name in ((self, "this model"), (other, "the other model")):
            if "_stream" not in model.__dict__:
                raise ValueError(
                    f"merge is for models of partial_fit, which keep the sums of their rows: {name} has none"
                )
        self._require_columns(other.n_features_in_, other._names()[0], 0, "X of the other model")
        self._require_columns(other.n_features_y_, other._names()[1], 1, "y of the other model")
        self._stream.merge(other._stream)
        self.n_samples_ += other.n_samples_
        self._forget_solution()
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
        if options.solver not in ("auto", "exact"):
            raise ValueError(f"solver={options.solver!r} needs rows: use 'auto' or 'exact' here")
        model._stream = Statistics(problem, options, np.random.default_rng(0))
        model._stream.second = from_covariances(problem.center, n, Sx, Sy, Sxy, mean_x, mean_y)
        model._stream.single, model._y_1d = False, False
        model.n_samples_ = int(n)
        model.n_features_in_, model.n_features_y_ = (len(np.atleast_2d(S)) for S in (Sx, Sy))
        return model

    def _refuses_streams(self) -> str | None:
        """Why rows cannot come batch by batch, None where they can."""
        if self.solver in STREAMING:
            return None
        return (
            f"solver={self.solver!r} needs all rows at a time: for streams use one of {', '.join(STREAMING)}"
        )

    def _overfit(self, n: int, p1: int, p2: int, solution: Solution) -> list[str]:
        """Remarks on correlations that say nothing."""
        return trivial(n, p1, p2, solution)

    def _prepared_stream(
        self, views: Views, problem: Problem, rng: np.random.Generator
    ) -> tuple[Views, Problem, dict[str, Any]]:
        """What the first rows of a stream are to solvers, and attributes that go with it."""
        return views, problem, {}

    def _streamed(self, views: Views) -> Views:
        """What later rows of a stream are to solvers."""
        return views

    def __getattr__(self, name: str) -> Any:
        """Solve for the rows of a stream when something of the solution is first asked for."""
        if name in ("partial_fit", "fit_stream"):
            # Hidden by available_if: say why.
            _streams(self)
        if name in (*self._arrays, *LAZY) and "_stream" in self.__dict__:
            self._solve_stream()
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _stream_solution(self) -> Solution:
        p1, p2 = self._widths()
        require_components(self._stream.problem, self.n_samples_, p1, p2)
        return self._stream.solution(p1)

    def _solve_stream(self) -> None:
        stream, start = self._stream, time.perf_counter()
        solution = self._stream_solution()
        k, seconds = len(solution.correlations), time.perf_counter() - start
        self._set(solution, stream.dtype)
        self.solver_, self.solver_reason_ = stream.solver, stream.reason
        self.n_iter_, self.n_passes_ = [stream.steps] * k, 1.0
        remarks: list[Remark] = []
        if solution.condition * EPS > LOSS:
            remarks += said(
                f"the covariances are ill-conditioned ({solution.condition:.1e}), and the rows are gone: use "
                "a ridge, or fit with solver='qr'",
                ConvergenceWarning,
            )
        tcc = float(solution.correlations.sum())
        self.history_ = [Progress(stream.steps, 1.0, seconds, np.nan, tcc, self._stream_solution).record()]
        p1, p2 = self._widths()
        texts = self._overfit(int(min(self.n_samples_, stream.rows)), p1, p2, solution)
        self._remarks = (*remarks, *overfit_warnings(texts))

    def _packed_stream(self) -> tuple[dict[str, Any] | None, dict[str, Array]]:
        """What a stream needs to go on, as JSON and arrays; None where there is no stream."""
        stream = self.__dict__.get("_stream")
        if stream is None:
            return None, {}
        kept = Stream(stream.problem, stream.options, stream.snapshot())
        spec, arrays = packed(kept, "stream")
        return {"solver": stream.solver, "state": spec, "rng": plain_generator(stream.rng)}, arrays

    def _unpack_stream(self, meta: dict[str, Any], arrays: dict[str, Array], version: int) -> None:
        kinds: dict[str, type[Statistics] | type[Sketch]] = {"exact": Statistics, "stochastic": Sketch}
        solver, spec = meta["solver"], meta["state"]
        found = old_files.stream(solver, spec, arrays) if version == 1 else unpacked(spec, arrays)
        stream = kinds[solver](found.problem, found.options, restored_generator(meta["rng"]))
        stream.restore(found.kept, *self._widths())
        self._stream = stream

    def _forget_solution(self) -> None:
        for name in (*self._arrays, *LAZY):
            self.__dict__.pop(name, None)


def generator(seed: Any) -> np.random.Generator:
    """A generator from what scikit-learn takes for random_state, or from another generator."""
    if isinstance(seed, np.random.Generator):
        return seed
    return np.random.default_rng(check_random_state(seed).randint(2**31))


def _length(batches: Iterable[Any]) -> int:
    """How many batches there are, 0 where they do not say."""
    try:
        return length_hint(batches)
    except (TypeError, ValueError, NotImplementedError):
        return 0


def _warn_of_budgets(options: Options) -> None:
    given = [name for name, limit in zip(Limits._fields, options.limits, strict=True) if limit is not None]
    if given:
        warnings.warn(
            f"budgets ({', '.join(given)}) are for fit: a stream ends with its rows, or by a callback",
            UserWarning,
            stacklevel=3,
        )


def _squares(block: Block) -> float:
    parts = (np.asarray(z.data if sp.issparse(z) else z, np.float64) for z in block.views)
    with np.errstate(over="ignore", invalid="ignore"):
        return float(sum(np.vdot(part, part) for part in parts))


def _rows_of(data: Any) -> int:
    if hasattr(data, "shape") and data.shape:
        return int(data.shape[0])
    if not hasattr(data, "__len__"):
        raise TypeError(f"a view must be a matrix, got {type(data).__name__}")
    return len(data)


def require_components(problem: Problem, n: int, p1: int, p2: int) -> None:
    """Raise where rows and columns allow fewer components than asked for."""
    limit = min(n - 1 if problem.center else n, p1, p2)
    if problem.n_components > limit:
        raise ValueError(
            f"n_components={problem.n_components} is above the largest possible rank of {n} rows with "
            f"{p1} + {p2} columns: use at most {limit}"
        )


def ndim(data: Any) -> int:
    """The dimensions of an array or of nested lists."""
    return len(data.shape) if hasattr(data, "shape") else np.asarray(data).ndim
