"""Two-sided block LOBPCG: the best pairs among iterates, preconditioned residuals and last moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..covariance.linalg import column_dots, whitening
from ..covariance.operators import Covariance
from ..covariance.preconditioners import Preconditioner
from ..machine.arrays import Array
from ..machine.threads import blas_limit, over_rows
from .canonical import relative, require_directions
from .effort import require_comparable, small_flops
from .problem import Products, Report

# Single precision is left where residuals, or the share of the captured correlation gained by an iteration,
# fall below these: rounding of the products is some 1e-6 of them.
FINE, GAIN = 1e-3, 2e-4
# Iterations after which products are computed anew: each one carried on adds its rounding errors.
REFRESH = 30
# Columns count as dependent where they differ by less than this power of the precision of their products: to
# tell more of them apart would amplify rounding errors that are carried on (docs/decisions/0005).
DEPENDENT = 0.875
# What cancellation may take of the precision of a Gram matrix, and how much of it is too much for single
# precision.
LARGEST, MOST_CANCELLED = 1e-4, 1e3
# Residuals and moves count as zero below so many units of the last place.
ZERO, NOISE = 1000, 1000
# A run stalls when for this many iterations neither its largest residual has fallen nor the correlation
# captured risen, by these shares; sooner where pairs are missing, which the data then do not seem to have.
PATIENCE, SHORT_PATIENCE, FALL, RISE = 100, 5, 0.1, 1e-5


class Vectors(NamedTuple):
    """Columns A and B of the two views, and their products with the covariances."""

    A: Array
    B: Array
    products: Products

    def sides(self) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
        """What has the rows of each view: its columns, Sx A and Sxy B; B, Sy B and Syx A."""
        xx, xy, yx, yy = self.products
        return (self.A, xx, xy), (self.B, yy, yx)


class Grams(NamedTuple):
    """A'Sx A, A'Sxy B, B'Sy B, and by how much the terms of their diagonals cancel."""

    x: Array
    xy: Array
    y: Array
    cancelled: float = 1.0


class State(NamedTuple):
    """Ritz pairs phi, psi with correlations rho, and the moves P, Q that led to them.

    `grams` are those of [phi P] and [psi Q]; `directions` the preconditioned residuals; `residuals` their
    sizes, and `tol` what they are to come to; `width` the columns
    there should be; `mark` the largest residual and the correlation captured at the last notable progress,
    and the iterations since.
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


@dataclass(frozen=True)
class LOBPCG:
    """The pairs of largest correlation in span [phi, M^-1 r, P] and span [psi, M^-1 s, Q], again and again.

        r = Sxy psi - Sx phi diag(rho)      s = Syx phi - Sy psi diag(rho)

    P and Q are what the last iteration added to phi and psi (Knyazev 2001, here for both sides of a singular
    value problem at a time). A CCA of 3k columns takes the place of a step size, and one pass over the data
    with k columns a view is all an iteration asks for. Products of new columns come from those they are made
    of, through orthonormal coefficients, so that rounding errors do not grow. Pairs that have converged stay
    in the small problem without their residuals (soft locking). With `single` the first iterations run in
    single precision. Residuals are measured in `norm`, by default that of the preconditioner.
    """

    n_components: int
    preconditioner: Preconditioner = field(default_factory=Preconditioner)
    tol: float = 1e-4
    single: bool = False
    norm: Preconditioner | None = None

    def init(self, cov: Covariance, k: int, rng: np.random.Generator) -> tuple[State, Report]:
        """Ritz pairs of k random columns a view, in units in which columns are comparable."""
        p1, p2 = cov.units.widths
        dtype = np.dtype(np.float32 if self.single else np.float64)
        A, B = (C.astype(dtype) for C in self.preconditioner.gaussian(p1, p2, k, rng))
        with np.errstate(over="ignore", invalid="ignore"):
            start = _measured(cov, A, B)
            grams = _grams(cov, start)
        require_comparable(grams.x, grams.y)
        none = _no_vectors(p1, p2, dtype)
        state = self._ritz(cov, (start, none, none), grams, k)._replace(width=k)
        return self._reported(state, cov.flops(k))

    def step(self, state: State, cov: Covariance) -> tuple[State, Report]:
        """One pass over the data with the directions of the pairs not converged yet."""
        width = state.width
        columns = state.pairs.A.shape[1] + state.moves.A.shape[1]
        double = self._is_coarse(state) and self._needs_double(state)
        if double or state.age >= REFRESH:
            dtype = np.dtype(np.float64) if double else state.pairs.A.dtype
            return self._reported(self._refreshed(state, cov, dtype), cov.flops(columns))
        zx, zy = state.directions
        active = np.flatnonzero(state.residuals >= state.tol)
        if 0 < len(active) < zx.shape[1]:
            zx, zy = zx[:, active], zy[:, active]
        new = _measured(cov, zx, zy)
        after = self._ritz(cov, (state.pairs, state.moves, new), _bordered(cov, state, new), width)
        residual, captured, waited = state.mark
        worst, tcc = self._reached(after)
        progress = worst < (1 - FALL) * residual or tcc > (1 + RISE) * captured
        after = after._replace(
            gain=after.rho.sum() / state.rho.sum() - 1 if state.rho.sum() > 0 else np.inf,
            width=width,
            age=state.age + 1,
            mark=(worst, tcc, 0) if progress else (residual, captured, waited + 1),
        )
        p = len(zx) + len(zy)
        flops = cov.flops(zx.shape[1]) + small_flops(p, 3 * width) + self.preconditioner.flops(width)
        return self._reported(after, flops)

    def _is_coarse(self, state: State) -> bool:
        return bool(state.pairs.A.dtype == np.float32)

    def _needs_double(self, state: State) -> bool:
        """Whether more precision is needed to go on, or to be sure of having arrived."""
        lost = state.pairs.A.shape[1] < state.width or state.grams.cancelled > MOST_CANCELLED
        return lost or self._reached(state)[0] < max(FINE, state.tol) or state.gain < GAIN

    def _is_short(self, state: State) -> bool:
        """Whether there are fewer pairs than asked for."""
        return len(state.rho) < self.n_components

    def _reached(self, state: State) -> tuple[float, float]:
        """The largest residual, infinite where pairs are missing, and the correlation captured."""
        k = self.n_components
        worst = np.inf if self._is_short(state) else float(state.residuals[:k].max())
        return worst, float(state.rho[:k].sum())

    def _refreshed(self, state: State, cov: Covariance, dtype: Any) -> State:
        """The same pairs and moves with products computed anew, one after the other: half the memory."""
        pairs, moves = (
            _measured(cov, v.A.astype(dtype), v.B.astype(dtype)) for v in (state.pairs, state.moves)
        )
        none = _no_vectors(len(pairs.A), len(pairs.B), dtype)
        refreshed = self._ritz(cov, (pairs, moves, none), _grams(cov, pairs, moves), state.width)
        return refreshed._replace(width=state.width, mark=state.mark)

    def _ritz(self, cov: Covariance, parts: tuple[Vectors, Vectors, Vectors], grams: Grams, k: int) -> State:
        """The k best pairs in the span of pairs, moves and new columns, what moved, and their residuals."""
        A, B = parts[0].A, parts[0].B
        eps = max(float(np.finfo(t).eps) for t in (A.dtype, cov.dtype))
        precision = max(eps**DEPENDENT, min(eps * grams.cancelled, LARGEST))
        # Matrices as small as these take several times as long on two threads as on one.
        with blas_limit(1):
            Wx, Wy = (whitening((G + G.T) / 2, np.zeros(len(G)), precision).W for G in (grams.x, grams.y))
            k = min(k, Wx.shape[1], Wy.shape[1])
            if k == 0:
                require_directions(self.n_components, Wx.shape[1], Wy.shape[1])
            U, rho, Vt = np.linalg.svd(Wx.T @ grams.xy @ Wy)
            by_x = _mixture(Wx @ U[:, :k], grams.x, A.shape[1], precision, eps)
            by_y = _mixture(Wy @ Vt[:k].T, grams.y, B.shape[1], precision, eps)
            C, D = by_x.coefficients(), by_y.coefficients()
            Gx, Gxy, Gy = C.T @ grams.x @ C, C.T @ grams.xy @ D, D.T @ grams.y @ D
            grams = Grams(Gx, Gxy, Gy, grams.cancelled)
            # Those of the singular values, but for moves that were left out.
            # Near rounding, a variance may come out as zero or less.
            variances = np.diag(Gx)[:k] * np.diag(Gy)[:k]
            sized = np.where(variances > 0, variances, np.inf)
            rho = np.clip(np.diag(Gxy)[:k] / np.sqrt(sized), 0.0, 1.0)
        x, y = zip(*(part.sides() for part in parts), strict=True)
        M = self.preconditioner.at(A.dtype)
        Dx, Dy = M.diagonals() if self.norm is None else (None, None)
        (A, xx, xy), (P, Pxx, Pxy), zx, squares_x = _mixed(x, by_x, by_y, rho, Dx)
        (B, yy, yx), (Q, Qyy, Qyx), zy, squares_y = _mixed(y, by_y, by_x, rho, Dy)
        squares = squares_x + squares_y
        if Dx is None or Dy is None:
            rx, ry = zx, zy
            zx, zy = M(rx, ry)
            nx, ny = (zx, zy) if self.norm is None else self.norm.at(A.dtype)(rx, ry)
            squares = column_dots(rx, nx) + column_dots(ry, ny)
        return State(
            pairs=Vectors(A, B, (xx, xy, yx, yy)),
            moves=Vectors(P, Q, (Pxx, Pxy, Qyx, Qyy)),
            rho=rho,
            grams=grams,
            directions=(zx, zy),
            residuals=relative(squares, rho, cov),
            tol=max(self.tol, ZERO * eps) if self.tol > 0 else 0.0,
        )

    def _reported(self, state: State, flops: float) -> tuple[State, Report]:
        k, coarse = self.n_components, self._is_coarse(state)
        # Without the guard columns, which would mix with those of the same correlation and are less exact.
        A, B, *products = (C[:, :k] for C in (*state.pairs[:2], *state.pairs.products))
        worst, tcc = self._reached(state)
        patience = SHORT_PATIENCE if self._is_short(state) else PATIENCE
        report = Report(
            A,
            B,
            tcc=tcc,
            flops=flops,
            converged=not coarse and worst < state.tol,
            products=None if coarse else (products[0], products[1], products[2], products[3]),
            correlations=None if coarse else state.rho[:k],
            residual=worst,
            estimate=coarse,
            stalled=not coarse and self.tol > 0 and state.mark[2] >= patience,
        )
        return state, report


class Mixture(NamedTuple):
    """How columns are made of others: moves' = [moves new] O, pairs' = pairs C + moves' K."""

    C: Array
    O: Array  # noqa: E741
    K: Array

    def coefficients(self) -> Array:
        """Pairs and moves in terms of all columns they are made of."""
        pairs = np.vstack([self.C, self.O @ self.K])
        moves = np.vstack([np.zeros((len(self.C), self.O.shape[1])), self.O])
        return np.hstack([pairs, moves])


def _mixture(C: Array, G: Array, c: int, precision: float, eps: float) -> Mixture:
    """The mixture with coefficients C, where G is the Gram matrix of all columns, and O'GO = I."""
    C, rest, G = C[:c], C[c:], G[c:, c:]
    # Columns that hardly move would count as noise beside those that do; moves by rounding are noise.
    size = np.sqrt(np.maximum(np.einsum("ij,ij->j", rest, G @ rest), 0))
    moved = size > NOISE * eps
    N = rest[:, moved] / size[moved]
    O = N @ whitening(N.T @ G @ N, np.zeros(N.shape[1]), precision).W  # noqa: E741
    return Mixture(C, O, O.T @ G @ rest)


def _mixed(
    parts: tuple[tuple[Array, Array, Array], ...],
    own: Mixture,
    other: Mixture,
    rho: Array,
    inverse: Array | None,
) -> tuple[list[Array], list[Array], Array, Array]:
    """New pairs and moves on the rows of one view, their residuals r, and squares r'Dr, D = diag(inverse).

    `parts` are its `sides` of pairs, moves and new columns. With an `inverse`, Dr takes the place of r.
    """
    p, dtype = len(parts[0][0]), parts[0][0].dtype
    ways = [tuple(np.ascontiguousarray(m, dtype=dtype) for m in way) for way in (own, own, other)]
    pairs, moves = ([np.empty((p, way[i].shape[1]), dtype) for way in ways] for i in (0, 1))
    residuals, scale = np.empty_like(pairs[0]), rho.astype(dtype)

    def mix(rows: slice) -> Array:
        for i, (C, O, K) in enumerate(ways):  # noqa: E741
            old, move, new = (part[i][rows] for part in parts)
            moved, paired = moves[i][rows], pairs[i][rows]
            np.matmul(move, O[: move.shape[1]], out=moved)
            moved += new @ O[move.shape[1] :]
            np.matmul(old, C, out=paired)
            paired += moved @ K
        r = np.subtract(pairs[2][rows], pairs[1][rows] * scale, out=residuals[rows])
        weighed = r if inverse is None else r * inverse[rows, None]
        squares = np.ones(len(r), dtype) @ (r * weighed)
        residuals[rows] = weighed
        return np.asarray(squares)

    squares = np.sum(over_rows(mix, p), axis=0, dtype=np.float64)
    return pairs, moves, residuals, np.asarray(squares)


def _bordered(cov: Covariance, state: State, new: Vectors) -> Grams:
    """The Gram matrices of pairs, moves and new columns together: those known, and a border."""
    x, y = zip(*(part.sides() for part in (state.pairs, state.moves, new)), strict=True)
    dx, dy = cov.diagonal()
    (_, xx, xy), (_, yy, yx) = new.sides()
    gx, right, terms_x = _border([part[0] for part in x], xx, xy, dx)
    gy, below, terms_y = _border([part[0] for part in y], yy, yx, dy)
    c, d = len(state.grams.x), len(state.grams.y)
    Gx = np.block([[state.grams.x, gx[:c]], [gx[:c].T, gx[c:]]])
    Gy = np.block([[state.grams.y, gy[:d]], [gy[:d].T, gy[d:]]])
    Gxy = np.block([[state.grams.xy, right[:c]], [below[:d].T, right[c:]]])
    return Grams(Gx, Gxy, Gy, max(_cancelled(terms_x, Gx), _cancelled(terms_y, Gy)))


def _grams(cov: Covariance, *vectors: Vectors) -> Grams:
    """The Gram matrices of columns of which none are known."""
    dx, dy = cov.diagonal()
    columns = [v.A for v in vectors], [v.B for v in vectors]
    x = [_border(columns[0], *v.products[:2], dx) for v in vectors]
    y = [_border(columns[1], v.products[3], v.products[2], dy) for v in vectors]
    Gx, Gxy = (np.hstack([part[i] for part in x]) for i in (0, 1))
    Gy = np.hstack([part[0] for part in y])
    return Grams(Gx, Gxy, Gy, max(_cancelled(x[0][2], Gx), _cancelled(y[0][2], Gy)))


def _border(columns: list[Array], own: Array, cross: Array, diagonal: Array) -> tuple[Array, Array, Array]:
    """[columns]'own and [columns]'cross, added up in double precision, and sum_i S_ii a_i^2 of columns a."""
    d = diagonal.astype(own.dtype)

    def part(rows: slice) -> tuple[Array, Array]:
        both = np.hstack([own[rows], cross[rows]])
        products, terms = zip(
            *((C[rows].T @ both, d[rows] @ np.square(C[rows])) for C in columns),
            strict=True,
        )
        return np.vstack(products), np.concatenate(terms)

    products, terms = zip(*over_rows(part, len(own)), strict=True)
    G, total = (np.asarray(np.sum(found, axis=0, dtype=np.float64)) for found in (products, terms))
    return G[:, : own.shape[1]], G[:, own.shape[1] :], total


def _cancelled(terms: Array, G: Array) -> float:
    """How much larger the terms of a variance are than their sum, for the worst of all columns.

    a'Sa is a sum of products of entries of a: where columns of the data nearly depend on each other, it is
    small beside sum_i S_ii a_i^2, and its rounding error is that of the terms.
    """
    sums = np.diag(G)
    return float(np.max(terms / np.where(sums > 0, sums, np.inf), initial=1.0))


def _measured(cov: Covariance, A: Array, B: Array) -> Vectors:
    """Columns with their products, in their own precision if it is the lower one."""
    if not A.shape[1]:
        return _no_vectors(len(A), len(B), A.dtype)
    return Vectors(A, B, (cov.at(A.dtype) if A.dtype == np.float32 else cov).products(A, B))


def _no_vectors(p1: int, p2: int, dtype: Any) -> Vectors:
    x, y = np.zeros((p1, 0), dtype), np.zeros((p2, 0), dtype)
    return Vectors(x, y, (x, x, y, y))
