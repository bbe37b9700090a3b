"""Sparse CCA: AppGrad's step with a threshold before normalisation, worked out on the columns in play."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...covariance.linalg import captured
from ...covariance.operators import ColumnCovariance
from ...machine.arrays import Array
from ..costs import small_flops
from ..gradient import gradients
from ..problem import Diagnostics, Products
from .columns_in_play import Columns, Taken
from .regressions import NothingLeftError, VanishedError, alternated, change
from .starts import WIDEST, counts_down, first_pairs, start_sizes
from .thresholds import Sparsity, Threshold, row_sizes, threshold_of

# Number of columns considered beyond those in use: those with most of their correlation left.
SPARE = 50
# Number of penalties tried to find one that would work, each this multiple of the one before.
TRIES, LESS = 24, 0.93
# Changes of the weights, and of the correlation captured, that are only rounding.
EXHAUSTED, ROUNDING = 1e-8, 1e-9
# After this many iterations that capture no more than the best before them, none will.
IDLE = 5


class State(NamedTuple):
    """Weights in units of the columns, their products, and what is removed if components come one by one.

    `ahead` are the numbers of columns still to come, from many down to those asked for. `best` are the
    weights that captured most with those, `tcc` is how much, and `idle` the number of iterations since.
    """

    A: Array
    B: Array
    products: Products
    ahead: tuple[tuple[int, int], ...]
    done: tuple[Array, Array]
    taken: Taken | None = None
    settled: bool = False
    best: tuple[Array, Array] | None = None
    tcc: float = -np.inf
    idle: int = 0


@dataclass(frozen=True)
class Pursuit:
    """An iteration takes one pass for the gradients of all columns, one for covariances of those in play.

        phi_t <- T(phi_t - eta (Sx phi_t - Sxy psi)),   phi = phi_t (phi_t'Sx phi_t)^-1/2,   likewise psi

    T sets rows to zero. Columns in play are those in use and those that T would let in; on their covariances
    the step is repeated until it makes no difference: the fixed points are the same. If they are more than
    `most`, "l1" takes one step on all columns instead, and "l0" takes the first of them. `first` are weights
    to start from, in units of the columns.
    """

    n_components: int
    sparsity: Sparsity
    tol: float = 1e-4
    most: int = 2000
    step_size: tuple[float, float] = (1.0, 1.0)
    first: tuple[Array, Array] | None = None

    def init(self, cov: ColumnCovariance, k: int, rng: np.random.Generator) -> tuple[State, Diagnostics]:
        """Find the start, and take the first iteration."""
        field, sizes = Columns(cov), start_sizes(cov, self.sparsity)
        A, B = first_pairs(field, self._at_a_time, sizes) if self.first is None else self.first
        nothing = np.zeros((len(A), 0)), np.zeros((len(B), 0))
        state = State(A, B, field.products(A, B), self._ahead(cov), nothing)
        return self.step(self._began(state, field), cov)

    def step(self, state: State, cov: ColumnCovariance) -> tuple[State, Diagnostics]:
        """Take one iteration, or the first one of the next component."""
        if state.settled and state.done[0].shape[1] + state.A.shape[1] < self.n_components:
            state = self._next_component(state, cov)
        field = Columns(cov, state.taken)
        ahead = state.ahead
        tx, ty = (self._threshold(view, ahead) for view in (0, 1))
        A, B, flops = self._moved(field, state, tx, ty)
        products = field.products(A, B)
        # The next number of columns begins where this one ends.
        new = state._replace(A=A, B=B, products=products, ahead=ahead[1:])
        # Without a tolerance, components that come one by one still have to end.
        tol = self.tol if self.tol > 0 else EXHAUSTED
        settled = not ahead and max(change(A, state.A), change(B, state.B)) < tol
        new = new._replace(settled=settled)
        if self.sparsity.penalty == "l0" and not ahead:
            new = self._kept(new, field)
        return self._with_diagnostics(new, field, flops)

    def _kept(self, state: State, field: Columns) -> State:
        """Return the state with the best so far, or that best itself if hard thresholds go in circles.

        The best is also returned if a number of columns was asked for and it captures more than the settled
        state.
        """
        tcc, by_count = _captured(state, field), self.sparsity.n_nonzero is not None
        if state.best is None or tcc > state.tcc + ROUNDING:
            return state._replace(best=(state.A, state.B), tcc=tcc, idle=0)
        if state.settled and (not by_count or tcc > state.tcc - ROUNDING):
            return state
        if not state.settled and state.idle + 1 < IDLE:
            return state._replace(idle=state.idle + 1)
        A, B = state.best
        return state._replace(A=A, B=B, products=field.products(A, B), settled=True)

    def _began(self, state: State, field: Columns) -> State:
        """Record the start as the best so far if it has no more columns than asked for."""
        count = self.sparsity.n_nonzero
        if count is None or self.sparsity.penalty != "l0" or self.first is not None:
            return state
        if any(np.count_nonzero(row_sizes(C)) > c for C, c in zip((state.A, state.B), count, strict=True)):
            return state
        return state._replace(best=(state.A, state.B), tcc=_captured(state, field))

    @property
    def _at_a_time(self) -> int:
        return 1 if self.sparsity.by_component else self.n_components

    def _ahead(self, cov: ColumnCovariance) -> tuple[tuple[int, int], ...]:
        """Return the numbers of columns to pass through: a column is easier to drop than to add."""
        count = self.sparsity.n_nonzero
        if count is None or self.sparsity.penalty == "l1" or self.first is not None:
            return ()
        p = min(cov.units.widths)
        widest = min(max(4 * max(count), WIDEST), max(count) + WIDEST, p, max(cov.moments.n // 5, 1))
        return tuple(counts_down(widest, count)[:-1])

    def _threshold(self, view: int, ahead: tuple[tuple[int, int], ...]) -> Threshold:
        threshold = threshold_of(self.sparsity, view)
        return threshold._replace(n_nonzero=ahead[0][view]) if ahead else threshold

    def _next_component(self, state: State, cov: ColumnCovariance) -> State:
        field = Columns(cov, state.taken).without(state.A, state.B)
        done = np.hstack([state.done[0], state.A]), np.hstack([state.done[1], state.B])
        A, B = first_pairs(field, 1, start_sizes(cov, self.sparsity))
        return self._began(State(A, B, field.products(A, B), self._ahead(cov), done, field.taken), field)

    def _moved(
        self, field: Columns, state: State, tx: Threshold, ty: Threshold
    ) -> tuple[Array, Array, float]:
        """Return new weights, and the operations they cost."""
        A, B = state.A, state.B
        xx, xy, yx, yy = state.products
        Nx, Ny, _ = captured(A.T @ xx, A.T @ xy, B.T @ yy, A.shape[1], field.cov.precision)
        gx, gy = gradients(state.products, Nx, Ny)
        x, y = _in_play(A, gx, tx), _in_play(B, gy, ty)
        if self.sparsity.penalty == "l0":
            x, y = x[: self.most], y[: self.most]
        if max(len(x), len(y)) > self.most:
            eta1, eta2 = self.step_size
            A, B = tx(A - eta1 * gx, eta1), ty(B - eta2 * gy, eta2)
            for view, C, target in ((0, A, xy @ Ny), (1, B, yx @ Nx)):
                if np.linalg.matrix_rank(C) < C.shape[1]:
                    left = int(np.count_nonzero(row_sizes(C)))
                    raise self._too_large(VanishedError(view, row_sizes(target), left), None)
            return A, B, 0.0
        x, y = np.sort(x), np.sort(y)
        S = field.restricted(x, y)
        try:
            a, b = alternated(S, A[x], B[y], tx, ty, max(self.tol, EXHAUSTED) / 10)
        except VanishedError as error:
            if self._at_a_time > 1:
                useful = self._useful(field, A, B, gx, gy, error)
                raise self._too_large(error, useful) from None
            x, y, a, b = self._from_one_pair(field, tx, ty, error)
        A, B = np.zeros_like(A), np.zeros_like(B)
        A[x], B[y] = a, b
        share = (len(x) + len(y)) / (len(A) + len(B))
        return A, B, float(field.n * (share * field.cov.flops(1) / (6 * field.n)) ** 2)

    def _from_one_pair(
        self, field: Columns, tx: Threshold, ty: Threshold, error: VanishedError
    ) -> tuple[Array, Array, Array, Array]:
        """Work out the most correlated pair of columns alone, the last to vanish as alpha grows."""
        top = field.largest(1)
        if not len(top.values):
            raise self._too_large(error, float(error.sizes.max())) from None
        x, y, value = top.rows, top.columns, float(top.values[0])
        S = field.restricted(x, y)
        try:
            a, b = alternated(S, np.array([[1.0]]), np.array([[np.sign(value)]]), tx, ty, self.tol)
        except VanishedError:
            raise self._too_large(error, abs(value)) from None
        return x, y, a, b

    def _useful(
        self, field: Columns, A: Array, B: Array, gx: Array, gy: Array, error: VanishedError
    ) -> float | None:
        """Return a penalty that leaves k directions of the view that vanished, the other's in proportion."""
        alpha, k = self.sparsity.alpha, self.n_components
        if alpha is None or not alpha[error.view] > 0 or error.left >= k:
            return None
        factor = float(np.sort(error.sizes)[-k]) / alpha[error.view]
        thresholds = [threshold_of(self.sparsity, view) for view in (0, 1)]

        def at(factor: float) -> tuple[Threshold, Threshold]:
            x, y = (t._replace(alpha=factor * a) for t, a in zip(thresholds, alpha, strict=True))
            return x, y

        least = LESS**TRIES
        x, y = (
            np.sort(_in_play(C, g, t)[: self.most])
            for C, g, t in zip((A, B), (gx, gy), at(least * factor), strict=True)
        )
        S = field.restricted(x, y)
        for _ in range(TRIES):
            factor *= LESS
            with suppress(VanishedError):
                tx, ty = at(factor)
                alternated(S, A[x], B[y], tx, ty, self.tol)
                return factor * alpha[error.view]
        return None

    def _too_large(self, error: VanishedError, useful: float | None) -> NothingLeftError:
        """Return an error that says which penalty would leave something."""
        k = self._at_a_time
        view = ("X", "y")[error.view]
        if error.left >= k:
            return NothingLeftError(
                f"the {error.left} columns of {view} that are left have fewer than {k} independent scores: "
                "use fewer components or more columns; they may depend on each other in the data"
            )
        if self.sparsity.n_nonzero is not None:
            return NothingLeftError(
                f"n_nonzero={self.sparsity.n_nonzero} leaves fewer than {k} independent columns of {view}: "
                "use more, or fewer components"
            )
        assert self.sparsity.alpha is not None
        found = self.sparsity.alpha[error.view]
        left = "no column" if k == 1 else f"fewer than {k} independent columns"
        most = "use less" if useful is None else f"the largest useful value is about {useful:.3g}"
        return NothingLeftError(f"alpha={found:g} leaves {left} of {view}: {most}")

    def _with_diagnostics(self, state: State, field: Columns, flops: float) -> tuple[State, Diagnostics]:
        A, B, tcc = state.A, state.B, _captured(state, field)
        if state.taken is not None:
            tcc += float(state.taken.rho.sum())
        A, B = np.hstack([state.done[0], A]), np.hstack([state.done[1], B])
        flops += field.cov.flops(self._at_a_time) + small_flops(len(A) + len(B), self._at_a_time)
        finished = state.settled and A.shape[1] == self.n_components
        converged = finished and self.tol > 0
        return state, Diagnostics(field.dx * A, field.dy * B, tcc, flops, converged, estimate=True)


def _captured(state: State, field: Columns) -> float:
    """Return the correlation between the scores of both sides."""
    A, B, (xx, xy, _, yy) = state.A, state.B, state.products
    *_, tcc = captured(A.T @ xx, A.T @ xy, B.T @ yy, A.shape[1], field.cov.precision)
    return tcc


def _in_play(A: Array, gradient: Array, threshold: Threshold) -> Array:
    """Return the columns in use, those that the threshold would let in, and some more, in this order."""
    left = row_sizes(gradient)
    used = row_sizes(A) > 0
    left[used] = np.inf
    spare = int(np.count_nonzero(used)) // 2 + SPARE
    if threshold.n_nonzero is not None:
        wanted = max(int(np.count_nonzero(used)), threshold.n_nonzero) + spare
    else:
        assert threshold.alpha is not None
        wanted = int(np.count_nonzero(left > threshold.alpha)) + spare
    return np.argsort(-left, kind="stable")[:wanted]
