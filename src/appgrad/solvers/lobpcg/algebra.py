"""The algebra of an iteration: columns with their products, Gram matrices, Rayleigh-Ritz, and mixing.

Products and Gram matrices of new columns come from those they are made of. Only `measured` reads data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...covariance.linalg import whitening
from ...covariance.operators import Covariance
from ...machine.arrays import Array
from ...machine.threads import over_rows
from ..problem import Products

# Columns count as dependent if they differ by less than this power of the precision of their products: to
# tell more of them apart would amplify rounding errors that are carried on (docs/decisions/0005).
DEPENDENT = 0.875
# The largest relative error of a Gram matrix that is put down to cancellation.
LARGEST = 1e-4
# Moves count as zero below this many units in the last place.
NOISE = 1000


class Vectors(NamedTuple):
    """Columns A and B of the two views, and their products with the covariances."""

    A: Array
    B: Array
    products: Products

    def sides(self) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
        """Return the matrices with the rows of each view: A, Sx A and Sxy B; B, Sy B and Syx A."""
        xx, xy, yx, yy = self.products
        return (self.A, xx, xy), (self.B, yy, yx)


class Grams(NamedTuple):
    """A'Sx A, A'Sxy B, B'Sy B, and by how much the terms of their diagonals cancel."""

    x: Array
    xy: Array
    y: Array
    cancelled: float = 1.0

    def precision(self, eps: float) -> float:
        """The relative error up to which columns count as dependent."""
        return float(max(eps**DEPENDENT, min(eps * self.cancelled, LARGEST)))


class Mixture(NamedTuple):
    """Coefficients of new pairs and moves: moves' = [moves new] O, pairs' = pairs C + moves' K."""

    C: Array
    O: Array  # noqa: E741
    K: Array

    def coefficients(self) -> Array:
        """Return the coefficients of pairs and moves in all columns they combine."""
        pairs = np.vstack([self.C, self.O @ self.K])
        moves = np.vstack([np.zeros((len(self.C), self.O.shape[1])), self.O])
        return np.hstack([pairs, moves])


class Ritz(NamedTuple):
    """The best pairs of a span: correlations, mixtures that make pairs and moves, and Gram matrices."""

    rho: Array
    x: Mixture
    y: Mixture
    grams: Grams


class Mixed(NamedTuple):
    """New pairs and moves, the residuals of the pairs (times D where it is given), and their squares."""

    pairs: Vectors
    moves: Vectors
    residuals: tuple[Array, Array]
    squares: Array


def measured(cov: Covariance, A: Array, B: Array) -> Vectors:
    """Return columns with their products, in the precision of the columns if it is the lower one."""
    if not A.shape[1]:
        return no_vectors(len(A), len(B), A.dtype)
    return Vectors(A, B, (cov.at(A.dtype) if A.dtype == np.float32 else cov).products(A, B))


def no_vectors(p1: int, p2: int, dtype: Any) -> Vectors:
    """Return an empty set of columns, of views with p1 and p2 features."""
    x, y = np.zeros((p1, 0), dtype), np.zeros((p2, 0), dtype)
    return Vectors(x, y, (x, x, y, y))


def grams_of(cov: Covariance, *vectors: Vectors) -> Grams:
    """Return the Gram matrices of columns, all computed from products."""
    dx, dy = cov.diagonal()
    columns = [v.A for v in vectors], [v.B for v in vectors]
    x = [_border(columns[0], *v.products[:2], dx) for v in vectors]
    y = [_border(columns[1], v.products[3], v.products[2], dy) for v in vectors]
    Gx, Gxy = (np.hstack([part[i] for part in x]) for i in (0, 1))
    Gy = np.hstack([part[0] for part in y])
    return Grams(Gx, Gxy, Gy, max(_cancelled(x[0][2], Gx), _cancelled(y[0][2], Gy)))


def bordered(cov: Covariance, known: tuple[Vectors, Vectors], grams: Grams, new: Vectors) -> Grams:
    """Return the Gram matrices of known and new columns together: only the border is computed."""
    x, y = zip(*(part.sides() for part in (*known, new)), strict=True)
    dx, dy = cov.diagonal()
    (_, xx, xy), (_, yy, yx) = new.sides()
    gx, right, terms_x = _border([part[0] for part in x], xx, xy, dx)
    gy, below, terms_y = _border([part[0] for part in y], yy, yx, dy)
    c, d = len(grams.x), len(grams.y)
    Gx = np.block([[grams.x, gx[:c]], [gx[:c].T, gx[c:]]])
    Gy = np.block([[grams.y, gy[:d]], [gy[:d].T, gy[d:]]])
    Gxy = np.block([[grams.xy, right[:c]], [below[:d].T, right[c:]]])
    return Grams(Gx, Gxy, Gy, max(_cancelled(terms_x, Gx), _cancelled(terms_y, Gy)))


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


def whitened(grams: Grams, eps: float) -> tuple[Array, Array]:
    """Coefficients Wx and Wy of columns that are uncorrelated and of variance one: Wx'Gx Wx = I.

    There are as many columns as can be told apart.
    """
    precision = grams.precision(eps)
    Wx, Wy = (whitening((G + G.T) / 2, np.zeros(len(G)), precision).W for G in (grams.x, grams.y))
    return Wx, Wy


def rayleigh_ritz(grams: Grams, W: tuple[Array, Array], columns: tuple[int, int], k: int, eps: float) -> Ritz:
    """Return the k most correlated pairs of a span whitened by W, whose first `columns` are old pairs."""
    (Wx, Wy), precision = W, grams.precision(eps)
    U, _, Vt = np.linalg.svd(Wx.T @ grams.xy @ Wy)
    by_x = mixture(Wx @ U[:, :k], grams.x, columns[0], precision, eps)
    by_y = mixture(Wy @ Vt[:k].T, grams.y, columns[1], precision, eps)
    C, D = by_x.coefficients(), by_y.coefficients()
    Gx, Gxy, Gy = C.T @ grams.x @ C, C.T @ grams.xy @ D, D.T @ grams.y @ D
    # Correlations are the singular values, except for moves that were left out. Near rounding, a computed
    # variance may be zero or negative.
    variances = np.diag(Gx)[:k] * np.diag(Gy)[:k]
    sized = np.where(variances > 0, variances, np.inf)
    rho = np.clip(np.diag(Gxy)[:k] / np.sqrt(sized), 0.0, 1.0)
    return Ritz(rho, by_x, by_y, Grams(Gx, Gxy, Gy, grams.cancelled))


def mixture(C: Array, G: Array, c: int, precision: float, eps: float) -> Mixture:
    """Return the mixture with coefficients C, where G is the Gram matrix of all columns, and O'GO = I."""
    C, rest, G = C[:c], C[c:], G[c:, c:]
    # Moves are scaled, or small ones would count as noise beside large ones. Moves at rounding level are
    # noise.
    size = np.sqrt(np.maximum(np.einsum("ij,ij->j", rest, G @ rest), 0))
    moved = size > NOISE * eps
    N = rest[:, moved] / size[moved]
    O = N @ whitening(N.T @ G @ N, np.zeros(N.shape[1]), precision).W  # noqa: E741
    return Mixture(C, O, O.T @ G @ rest)


def mixed(
    parts: tuple[Vectors, Vectors, Vectors], ritz: Ritz, inverses: tuple[Array, Array] | tuple[None, None]
) -> Mixed:
    """Return new pairs and moves made from pairs, moves and new columns, with residuals.

        r = Sxy psi - Sx phi diag(rho)      s = Syx phi - Sy psi diag(rho)

    With diagonals `inverses` of D, the residuals are D r and D s, and the squares r'Dr + s'Ds.
    """
    x, y = zip(*(part.sides() for part in parts), strict=True)
    (A, xx, xy), (P, Pxx, Pxy), rx, squares_x = _mixed_side(x, ritz.x, ritz.y, ritz.rho, inverses[0])
    (B, yy, yx), (Q, Qyy, Qyx), ry, squares_y = _mixed_side(y, ritz.y, ritz.x, ritz.rho, inverses[1])
    pairs, moves = Vectors(A, B, (xx, xy, yx, yy)), Vectors(P, Q, (Pxx, Pxy, Qyx, Qyy))
    return Mixed(pairs, moves, (rx, ry), squares_x + squares_y)


def _mixed_side(
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
    pairs, moves = (_together(p, [way[i].shape[1] for way in ways], dtype) for i in (0, 1))
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


def _together(p: int, widths: list[int], dtype: Any) -> list[Array]:
    """Matrices of p rows and so many columns, not set, in one piece of memory.

    A large piece comes in large pages: taking it for the first time costs half as much.
    """
    pieces = np.split(np.empty(p * sum(widths), dtype), np.cumsum(widths)[:-1] * p)
    return [piece.reshape(p, width) for piece, width in zip(pieces, widths, strict=True)]
