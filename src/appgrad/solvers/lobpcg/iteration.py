"""Two-sided block LOBPCG: the best pairs among iterates, preconditioned residuals and last moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...covariance.joint import Joint
from ...covariance.linalg import column_dots
from ...covariance.operators import Covariance
from ...covariance.preconditioners import Preconditioner, require_comparable
from ...machine.arrays import Array
from ...machine.threads import blas_limit
from ..canonical import relative, require_directions
from ..convergence import NOTHING, Watch, by_residuals
from ..costs import small_flops
from ..probe import coming, depth, solved_residuals
from ..problem import Diagnostics
from . import all_columns, rare_pairs
from .algebra import (
    Grams,
    Vectors,
    bordered,
    grams_of,
    measured,
    mixed,
    no_vectors,
    rayleigh_ritz,
    whitened,
)
from .all_columns import AllColumns
from .looks import GUARDS, gains_little, outside
from .rare_pairs import AT_ONCE, LOOKS, RareColumns

# A run leaves single precision if residuals, or the share of the captured correlation gained by an iteration,
# fall below the first two: rounding of the products is some 1e-6 of them. Or if cancellation is above the
# third.
FINE, GAIN, MOST_CANCELLED = 1e-3, 1e-5, 1e3
# Iterations after which products are computed anew: each iteration adds rounding errors.
REFRESH = 30
# Residuals count as zero below this many units in the last place.
ZERO = 1000
# A run stalls when for this many iterations neither its largest residual has fallen nor the correlation
# captured risen, by these shares; sooner if pairs are missing, since the data then do not seem to have them.
PATIENCE, SHORT_PATIENCE, FALL, RISE = 100, 5, 0.1, 1e-5


class State(NamedTuple):
    """Ritz pairs phi, psi with correlations rho, and the moves P, Q that led to them.

    `grams` are those of [phi P] and [psi Q]; `directions` the preconditioned residuals; `residuals` their
    sizes, and `tol` the size below which a pair has no direction of its own; `width` the number of columns
    there should be; `gain` the share of the correlation that the last iteration added; `age` the iterations
    since products were computed anew; `mark` the largest residual and the correlation captured at the last
    notable progress, and the iterations since; `probed` is True if a probe has found nothing that was
    missing. `looks` counts the looks at clusters of rare columns, and `offered` are the candidates that have
    joined at one; it is `crowded` if the last one added correlation, left candidates out or was not possible,
    None before any; `looked` is the share of the columns that they could cover, NaN before any, an early one
    included. `known` is True once the covariances of all columns have been used. `watch` follows what is
    captured and what is missing.
    """

    pairs: Vectors
    moves: Vectors
    rho: Array
    grams: Grams
    directions: tuple[Array, Array]
    residuals: Array
    tol: float
    width: int = 0
    gain: float = np.inf
    age: int = 0
    mark: tuple[float, float, int] = (np.inf, 0.0, 0)
    probed: bool = False
    watch: Watch = Watch()
    looks: int = 0
    crowded: bool | None = None
    known: bool = False
    looked: float = np.nan
    offered: Array = np.zeros(0, int)

    @property
    def is_coarse(self) -> bool:
        """True while the run is in single precision."""
        return bool(self.pairs.A.dtype == np.float32)


@dataclass(frozen=True)
class LOBPCG:
    """LOBPCG: iterations find the most correlated pairs in span [phi, M^-1 r, P] and span [psi, M^-1 s, Q].

        r = Sxy psi - Sx phi diag(rho)      s = Syx phi - Sy psi diag(rho)      residuals
        zx = M^-1 r, zy = M^-1 s                                                directions
        Sx zx, Sxy zy, Syx zx, Sy zy                                            one pass over the data
        phi, psi, rho <- CCA of X [phi P zx] and Y [psi Q zy]                   Rayleigh-Ritz
        P, Q <- what was added to phi, psi                                      moves

    The method is Knyazev's (2001), here for both sides of a singular value problem at a time. A CCA of 3k
    columns replaces a step size, and an iteration needs only one pass over the data with k columns a view.
    Products of new columns are computed from those of the columns they combine, through orthonormal
    coefficients, so that rounding errors do not grow. Pairs that have converged stay in the small problem
    without their residuals (soft locking). With `single` the first iterations run in single precision.
    Residuals are measured in `norm`, by default that of the preconditioner. `joint` takes the place of M on
    some columns of both views, which it knows together; `first` are columns to start from. A run ends when
    it misses no more than `tol` of the total correlation, as far as it can tell. `probe` is the largest
    number of iterations of conjugate gradients with which it then looks for pairs that its preconditioner
    does not see; `floor` is the least ridge of a column that `joint` does not have, over its variance. With
    `rare_columns`, it then looks for pairs of clusters of these, and once before, when it gains little.
    `all_columns` says when a look at the covariances of all columns takes the place of both. `spent` are the
    operations that the start has cost. A run in `single` precision that `stays_single` has no other.
    """

    n_components: int
    preconditioner: Preconditioner = field(default_factory=Preconditioner)
    tol: float = 1e-4
    single: bool = False
    norm: Preconditioner | None = None
    probe: int = 0
    joint: Joint | None = None
    first: tuple[Array, Array] | None = None
    floor: float = 0.0
    spent: float = 0.0
    rare_columns: RareColumns | None = None
    all_columns: AllColumns | None = None
    stays_single: bool = False

    def init(self, cov: Covariance, k: int, rng: np.random.Generator) -> tuple[State, Diagnostics]:
        """Ritz pairs of k random columns a view, in units in which columns are comparable."""
        p1, p2 = cov.units.widths
        dtype = np.dtype(np.float32 if self.single else np.float64)
        first = self.preconditioner.gaussian(p1, p2, k, rng) if self.first is None else self.first
        A, B = (C.astype(dtype) for C in first)
        with np.errstate(over="ignore", invalid="ignore"):
            start = measured(cov, A, B)
            grams = grams_of(cov, start)
        require_comparable(grams.x, grams.y)
        none = no_vectors(p1, p2, dtype)
        state = self._ritz(cov, (start, none, none), grams, k)
        watch = Watch().after(self._reached(state)[1], state.watch.missing, self.tol, self._least(state))
        return self._with_diagnostics(state._replace(watch=watch), self.spent + cov.flops(k))

    def step(self, state: State, cov: Covariance) -> tuple[State, Diagnostics]:
        """Take one pass over the data with the directions of the pairs not converged yet."""
        precise = state.is_coarse and self._needs_double(state)
        if precise or state.age >= REFRESH:
            return self._refreshed(state, cov, np.dtype(np.float64) if precise else state.pairs.A.dtype)
        unsure = not state.is_coarse and self._is_settled(state) and not self._is_sure(state)
        if unsure and self._looks_at_all(state):
            return self._with_all_pairs(state, cov)
        if unsure and state.probed:
            return self._with_rare_pairs(state, cov)
        zx, zy, more = self._probing(state, cov) if unsure else (*_active_directions(state), 0.0)
        if not unsure and self._looks_early(state):
            state, zx, zy, more = self._with_early_pairs(state, zx, zy)
        after, flops = self._expanded(state, cov, zx, zy)
        if unsure:
            k, (_, before), (_, tcc) = self.n_components, self._reached(state), self._reached(after)
            gain = max(tcc - before, coming(state.rho, after.rho, k)) if len(after.rho) >= k else np.inf
            after = after._replace(probed=gain <= self.tol * tcc)
        return self._with_diagnostics(after, flops + more)

    def _expanded(self, state: State, cov: Covariance, zx: Array, zy: Array) -> tuple[State, float]:
        """Return the best pairs in the span of pairs, moves and new columns, and operations."""
        new = measured(cov, zx, zy)
        grams = bordered(cov, (state.pairs, state.moves), state.grams, new)
        after = self._ritz(cov, (state.pairs, state.moves, new), grams, state.width)
        p, width = len(zx) + len(zy), state.width
        flops = cov.flops(zx.shape[1]) + small_flops(p, 3 * width) + self.preconditioner.flops(width)
        flops += 0.0 if self.joint is None else self.joint.flops(width)
        return self._compared(after, state), flops

    def _is_settled(self, state: State) -> bool:
        """True if no more than a little is missing."""
        return not self._is_short(state) and state.watch.is_settled(self.n_components, self.tol)

    def _is_sure(self, state: State) -> bool:
        """True if no look for hidden pairs is needed any more."""
        if state.known or state.watch.has_all(self.n_components, self.tol):
            return True
        if not state.probed or self._looks_at_all(state):
            return False
        left = state.looks < LOOKS and self._least(state) > rare_pairs.CROWDED
        return not (self.rare_columns and left and state.crowded is not False)

    def _looks_at_all(self, state: State) -> bool:
        """True if a look at all columns is to take the place of one at clusters, or of a longer probe."""
        if self.all_columns is None:
            return False
        least = self._least(state)
        if self.all_columns.in_crowds and least > all_columns.CROWDED:
            return True
        return not state.probed and self.all_columns.steps < min(self.probe, depth(self.floor, least))

    def _with_all_pairs(self, state: State, cov: Covariance) -> tuple[State, Diagnostics]:
        """Return the state after the best pairs of all columns have joined the span."""
        assert self.all_columns is not None
        found = self.all_columns.pairs(state.width)
        after, flops = self._expanded(state, cov, found.A, found.B)
        after = after._replace(known=True, probed=True, watch=after.watch.anew(self.tol))
        return self._with_diagnostics(after, flops + found.flops)

    def _probing(self, state: State, cov: Covariance) -> tuple[Array, Array, float]:
        """Return solved residuals as directions, and their operations."""
        pairs, rho, rng = state.pairs, state.rho, np.random.default_rng(0)
        steps = min(self.probe, depth(self.floor, self._least(state)))
        found = solved_residuals(cov, self.preconditioner, pairs.products, rho, steps, rng)
        return found.x, found.y, found.flops

    def _looks_early(self, state: State) -> bool:
        """True if a first look at clusters is worth its passes before the run has settled."""
        tried = state.looks > 0 or not np.isnan(state.looked)
        if self.rare_columns is None or tried or self._least(state) <= rare_pairs.CROWDED:
            return False
        if state.width < self.n_components + GUARDS:
            return False
        at_all = self.all_columns is not None and self.all_columns.in_crowds
        ends = state.watch.has_all(self.n_components, self.tol)
        return not (at_all or ends) and gains_little(state.watch.totals, self.tol)

    def _with_early_pairs(self, state: State, zx: Array, zy: Array) -> tuple[State, Array, Array, float]:
        """Return directions with pairs of clusters beside them, and operations.

        In a crowd there are more pairs than can join. Some of them would settle the run too soon: none joins.
        """
        assert self.rare_columns is not None
        found = self.rare_columns.pairs(state.pairs, self._least(state), state.offered, AT_ONCE)
        if found is None:
            return state._replace(looks=LOOKS, crowded=True), zx, zy, 0.0
        if found.more:
            return state._replace(looked=found.looked), zx, zy, found.flops
        offered = np.concatenate([state.offered, found.chosen])
        zx, zy = (np.hstack([z, C.astype(z.dtype)]) for z, C in ((zx, found.A), (zy, found.B)))
        return state._replace(looked=found.looked, offered=offered), zx, zy, found.flops

    def _with_rare_pairs(self, state: State, cov: Covariance) -> tuple[State, Diagnostics]:
        """Return the state after pairs of clusters of rare columns have joined the span.

        It is crowded while there are more of them, or while they add to the correlation.
        """
        assert self.rare_columns is not None
        found = self.rare_columns.pairs(state.pairs, self._least(state), state.offered)
        if found is None:
            return self._with_diagnostics(state._replace(looks=LOOKS, crowded=True), 0.0)
        before, total = self._reached(state)[1], found.flops
        for start in range(0, len(found.chosen), AT_ONCE):
            part = slice(start, start + AT_ONCE)
            state, flops = self._expanded(state, cov, found.A[:, part], found.B[:, part])
            total += flops
        if len(found.chosen):
            # Those that guard the last pair now may grow: a few iterations show it.
            state = state._replace(watch=state.watch._replace(below=0))
        gained = self._reached(state)[1] - before
        state = state._replace(
            looks=state.looks + 1,
            looked=found.looked,
            crowded=found.more or gained > self.tol * before,
            offered=np.concatenate([state.offered, found.chosen]),
        )
        return self._with_diagnostics(state, total)

    def _ritz(self, cov: Covariance, parts: tuple[Vectors, Vectors, Vectors], grams: Grams, k: int) -> State:
        """Return the k best pairs in the span of pairs, moves and new columns, what moved, and residuals."""
        A, B = parts[0].A, parts[0].B
        eps = max(float(np.finfo(t).eps) for t in (A.dtype, cov.dtype))
        # Matrices as small as these take several times as long on two threads as on one.
        with blas_limit(1):
            W = whitened(grams, eps)
            ranks = W[0].shape[1], W[1].shape[1]
            if min(k, *ranks) == 0:
                require_directions(self.n_components, *ranks)
            best = rayleigh_ritz(grams, W, (A.shape[1], B.shape[1]), min(k, *ranks), eps)
        M = self.preconditioner.at(A.dtype)
        inverses = M.diagonals() if self.norm is None else (None, None)
        found = mixed(parts, best, inverses)
        directions, squares, more = found.residuals, found.squares, np.zeros(1)
        if inverses[0] is None:
            directions, squares = self._preconditioned(*found.residuals, M)
        elif self.joint is not None:
            more = self.joint.solve(*directions)
        return State(
            found.pairs,
            found.moves,
            best.rho,
            best.grams,
            directions,
            residuals=relative(squares, best.rho, cov),
            tol=self._residual_of(best.rho, eps),
            width=k,
            probed=not self.probe,
            watch=Watch(missing=by_residuals(best.rho, squares + more, self.n_components)),
        )

    def _residual_of(self, rho: Array, eps: float) -> float:
        """The residual below which a pair misses so little that it needs no direction of its own."""
        k = self.n_components
        # A pair with the residual r misses about r^2 / rho.
        share = NOTHING * self.tol * float(rho[:k].sum()) / k
        last = float(rho[min(k, len(rho)) - 1])
        return max(float(np.sqrt(share * last)) / max(float(rho[0]), 1e-300), ZERO * eps)

    def _preconditioned(self, rx: Array, ry: Array, M: Preconditioner) -> tuple[tuple[Array, Array], Array]:
        """Return M^-1 r and M^-1 s, and the squares of the residuals in the norm they are measured in."""
        zx, zy = M(rx, ry)
        nx, ny = (zx, zy) if self.norm is None else self.norm.at(rx.dtype)(rx, ry)
        return (zx, zy), column_dots(rx, nx) + column_dots(ry, ny)

    def _compared(self, after: State, state: State) -> State:
        """Return the state after an iteration, with its gain over the one before it."""
        residual, captured, waited = state.mark
        worst, tcc = self._reached(after)
        progress = worst < (1 - FALL) * residual or tcc > (1 + RISE) * captured
        return after._replace(
            watch=state.watch.after(tcc, after.watch.missing, self.tol, self._least(after)),
            gain=after.rho.sum() / state.rho.sum() - 1 if state.rho.sum() > 0 else np.inf,
            age=state.age + 1,
            mark=(worst, tcc, 0) if progress else (residual, captured, waited + 1),
            **_kept(state),
        )

    def _needs_double(self, state: State) -> bool:
        """True if more precision is needed to go on, or to confirm convergence."""
        if self.stays_single:
            return False
        lost = state.pairs.A.shape[1] < state.width or state.grams.cancelled > MOST_CANCELLED
        return lost or self._is_settled(state) or self._reached(state)[0] < FINE or state.gain < GAIN

    def _refreshed(self, state: State, cov: Covariance, dtype: Any) -> tuple[State, Diagnostics]:
        """Recompute the products of pairs and moves, one after the other to halve the memory."""
        pairs, moves = (
            measured(cov, v.A.astype(dtype), v.B.astype(dtype)) for v in (state.pairs, state.moves)
        )
        none = no_vectors(len(pairs.A), len(pairs.B), dtype)
        after = self._ritz(cov, (pairs, moves, none), grams_of(cov, pairs, moves), state.width)
        flops = cov.flops(pairs.A.shape[1] + moves.A.shape[1])
        total, missing = self._reached(after)[1], after.watch.missing
        watch = state.watch.measured_again(total, missing, self.tol, self._least(after))
        after = after._replace(mark=state.mark, watch=watch, **_kept(state))
        return self._with_diagnostics(after, flops)

    def _is_short(self, state: State) -> bool:
        """True if there are fewer pairs than asked for."""
        return len(state.rho) < self.n_components

    def _reached(self, state: State) -> tuple[float, float]:
        """The largest residual, infinite where pairs are missing, and the correlation captured."""
        k = self.n_components
        worst = np.inf if self._is_short(state) else float(state.residuals[:k].max())
        return worst, float(state.rho[:k].sum())

    def _least(self, state: State) -> float:
        """The lowest correlation of the pairs asked for, 0 where some are missing."""
        return 0.0 if self._is_short(state) else float(state.rho[: self.n_components].min())

    def _outside(self, state: State) -> float:
        """The correlation that pairs outside of the span may have, as far as that is known."""
        if state.known or state.width >= min(len(state.pairs.A), len(state.pairs.B)):
            return 0.0
        return outside(state.rho, self.n_components, state.width, state.looked)

    def _with_diagnostics(self, state: State, flops: float) -> tuple[State, Diagnostics]:
        """Return the state and its diagnostics, such as whether it has converged or stalls."""
        k, coarse = self.n_components, state.is_coarse
        # Without the guard columns, which would mix with those of the same correlation and are less exact.
        A, B, *products = (C[:, :k] for C in (*state.pairs[:2], *state.pairs.products))
        worst, tcc = self._reached(state)
        patience = SHORT_PATIENCE if self._is_short(state) else PATIENCE
        found = Diagnostics(
            A,
            B,
            tcc=tcc,
            flops=flops,
            converged=not coarse and self._is_settled(state) and self._is_sure(state),
            products=None if coarse else (products[0], products[1], products[2], products[3]),
            correlations=None if coarse else state.rho[:k],
            residual=worst,
            missing=state.watch.missing / tcc if tcc > 0 else np.inf,
            estimate=coarse,
            stalled=not coarse and self.tol > 0 and state.mark[2] >= patience,
            crowded=state.crowded,
            known=state.known,
            outside=self._outside(state),
        )
        return state, found


def _kept(state: State) -> dict[str, Any]:
    """What is known of hidden pairs: an iteration changes none of it."""
    names = ("probed", "looks", "crowded", "known", "looked", "offered")
    return {name: getattr(state, name) for name in names}


def _active_directions(state: State) -> tuple[Array, Array]:
    """Return the directions of pairs that have not converged; all of them if none is left."""
    zx, zy = state.directions
    active = np.flatnonzero(state.residuals >= state.tol)
    if 0 < len(active) < zx.shape[1]:
        zx, zy = zx[:, active], zy[:, active]
    return zx, zy
