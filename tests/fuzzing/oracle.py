"""Canonical correlations of given floats in 100 digits: sums of integers, then decimals.

Floats are integers times powers of two, so that sums of products are exact. Columns are divided by their
standard deviations: only a ridge depends on units, and it is given in those of the columns.

What a solver must answer
-------------------------
The truth is the problem of the floats as they are given. Two things soften it, both of the data and not of
the solver:

1. A direction whose standard deviation is below `HIDDEN` roundings of the values that add up to it (for
   example total - a - b, where the total was rounded) is not determined by the data. Without a ridge it may
   be counted or left out: the problems without such directions, the weakest first, are right answers too.
   Which of them a solver answers is its choice. Where strengths fall gradually, what is left out depends on
   units: such an answer may be off by the strength of the strongest direction left out over that of the
   weakest one kept. Any ridge above rounding settles such directions.
2. Other values of the same data, each changed by a rounding or two, have other correlations. An answer is
   right if it is as near as these are, ten times over. Where they differ by more than `VAGUE`, there is no
   right answer, and the case is not judged.

No more than that is excused: a covariance that was squared, a step that saw nothing of a direction, or a
sum in low precision are the solver's own doing.
"""

from __future__ import annotations

from decimal import Decimal, getcontext
from typing import Any, NamedTuple

import numpy as np

DIGITS = 100
# Pivots below this are zero: those of exact sums are exact zeros, but for the last of a hundred digits.
ZERO = Decimal(10) ** -80
# Roundings of values, in standard deviations of a direction, below which it is not determined.
HIDDEN = 100
# Changes of correlations by rounding the data, above which there is no right answer.
VAGUE = 0.03

getcontext().prec = DIGITS


class Side(NamedTuple):
    """One view: the columns that vary, their variances and mean squares, and their correlation matrix."""

    live: np.ndarray
    var: np.ndarray
    square: np.ndarray
    C: np.ndarray


class Exact:
    """The exact correlation matrices of two dense arrays of floats."""

    def __init__(self, X: np.ndarray, Y: np.ndarray, center: bool) -> None:
        n, widths = len(X), (X.shape[1], Y.shape[1])
        Z, exponents = _integers(np.hstack([X, Y]))
        unit = np.array([Decimal(2) ** int(e) for e in exponents], dtype=object)
        squares = Z.T @ Z
        total = Z.sum(axis=0)
        S = n * squares - np.outer(total, total) if center else n * squares
        S, raw = _decimals(S) / n / n, _decimals(np.diag(squares)) / n * unit * unit
        S = S * unit[:, None] * unit
        mean = _decimals(total) / n * unit if center else _decimals(np.zeros(len(unit)))
        self._set(S, raw, mean, widths)

    @classmethod
    def of_covariances(cls, Sx: np.ndarray, Sy: np.ndarray, Sxy: np.ndarray) -> Exact:
        """The correlation matrices of covariances given as floats."""
        S = _decimals(np.block([[(Sx + Sx.T) / 2, Sxy], [Sxy.T, (Sy + Sy.T) / 2]]))
        found = cls.__new__(cls)
        found._set(S, np.diag(S), _decimals(np.zeros(len(S))), (len(Sx), len(Sy)))
        return found

    def _set(self, S: np.ndarray, raw: np.ndarray, mean: np.ndarray, widths: tuple[int, int]) -> None:
        """Keep covariances S of columns with these mean squares and means, in units of the columns."""
        var = np.diag(S)
        # The rule of the library: rounding of a constant alone gives this much spread.
        varies = np.array([v > (Decimal(10 * 2.0**-52) * m) ** 2 for v, m in zip(var, mean, strict=True)])
        root = np.array([v.sqrt() if v > 0 else Decimal(1) for v in np.diag(S)], dtype=object)
        C = S / root[:, None] / root
        self.sides = []
        for start, width in ((0, widths[0]), (widths[0], widths[1])):
            live = start + np.flatnonzero(varies[start : start + width])
            square = raw[live] / var[live]
            self.sides.append(Side(live - start, var[live], square, C[np.ix_(live, live)]))
        x, y = self.sides
        self.Cxy = C[np.ix_(x.live, widths[0] + y.live)]

    def correlations(
        self, ridges: tuple[np.ndarray, np.ndarray], cut: tuple[float, float] = (0.0, 0.0)
    ) -> np.ndarray:
        """All correlations, descending, with these ridges of columns; `cut` leaves directions out.

        They are decimals. Directions whose standard deviation over that of the values is below `cut` are
        left out of each view.
        """
        whiteners = []
        for side, ridge, below in zip(self.sides, ridges, cut, strict=True):
            M = side.C + np.diag(ridge)
            if below > 0:
                V, values = self._directions(side)
                V = V[:, values > Decimal(below)]
                W = whitener(V.T @ M @ V)
                whiteners.append(V @ W)
            else:
                whiteners.append(whitener(M))
        wx, wy = whiteners
        return singular_values(wx.T @ self.Cxy @ wy)

    def ridges(self, asked: Any, scale: bool, single: bool) -> tuple[np.ndarray, np.ndarray]:
        """The ridge of each column that varies, over its variance, from the parameter `ridge`."""
        pair = asked if isinstance(asked, tuple) else (asked, asked)
        found = []
        for side, r in zip(self.sides, pair, strict=True):
            if r == "auto":
                found.append(_decimals(np.full(len(side.live), 1e-6 if single else 1e-10)))
            elif scale:
                found.append(_decimals(np.full(len(side.live), float(r))))
            else:
                found.append(_decimals(np.full(len(side.live), float(r))) / side.var)
        return found[0], found[1]

    def strengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviations of the directions of each view over those of the values, ascending."""
        x, y = (np.sort(self._directions(side)[1]) for side in self.sides)
        return x, y

    @staticmethod
    def _directions(side: Side) -> tuple[np.ndarray, np.ndarray]:
        """Directions of a view in the metric of mean squares, and their standard deviations there."""
        root = np.array([s.sqrt() for s in side.square], dtype=object)
        W = side.C / root[:, None] / root
        # W = F F': left singular vectors of F are eigenvectors of W.
        F = pivoted(W)
        U, values = _rotated(F.T.copy())
        return U / root[:, None], values


def _integers(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns as integers times powers of two, and the exponents."""
    mantissa, exponent = np.frexp(np.asarray(Z, dtype=np.float64))
    least = np.where(Z != 0, exponent, 2000).min(axis=0)
    least = np.where(least == 2000, 0, least)
    shift = np.where(Z != 0, exponent - least, 0)
    whole = np.ldexp(mantissa, 53).astype(np.int64).astype(object)
    return whole << shift.astype(object), least - 53


def _decimals(values: np.ndarray) -> np.ndarray:
    values = np.asarray(values)
    found = np.empty(values.shape, dtype=object)
    flat = found.reshape(-1)
    for i, value in enumerate(values.reshape(-1)):
        flat[i] = Decimal(value if isinstance(value, int | Decimal) else float(value)) * 1
    return found


def pivoted(M: np.ndarray) -> np.ndarray:
    """F with F F' = M, as many columns as its rank: Cholesky with the largest pivot first."""
    M, F = M.copy(), []
    for _ in range(len(M)):
        i = max(range(len(M)), key=lambda j: M[j, j])
        if M[i, i] <= ZERO:
            break
        f = M[:, i] / M[i, i].sqrt()
        F.append(f)
        M = M - np.outer(f, f)
    return np.array(F, dtype=object).reshape(len(F), len(M)).T


def whitener(M: np.ndarray) -> np.ndarray:
    """W with W'M W = I and as many columns as the rank of M."""
    p = len(M)
    A, order, rank = M.copy(), list(range(p)), 0
    L = np.zeros((p, p), dtype=object) * Decimal(0)
    for step in range(p):
        i = max(range(step, p), key=lambda j: A[order[j], order[j]])
        if A[order[i], order[i]] <= ZERO:
            break
        order[step], order[i] = order[i], order[step]
        f = A[:, order[step]] / A[order[step], order[step]].sqrt()
        L[:, step] = f
        A = A - np.outer(f, f)
        rank += 1
    rows = order[:rank]
    T = L[rows][:, :rank]
    inverse = np.zeros((rank, rank), dtype=object) * Decimal(0)
    for i in range(rank):
        e = np.zeros(rank, dtype=object) * Decimal(0)
        e[i] = Decimal(1)
        inverse[i] = (e - T[i, :i] @ inverse[:i] if i else e) / T[i, i]
    W = np.zeros((p, rank), dtype=object) * Decimal(0)
    W[rows] = inverse.T
    return W


def singular_values(T: np.ndarray) -> np.ndarray:
    """Singular values, descending: Jacobi rotations from where double precision ends."""
    if min(T.shape) == 0:
        return np.zeros(0, dtype=object)
    if T.shape[0] < T.shape[1]:
        T = T.T
    V = np.linalg.svd(T.astype(np.float64))[2]
    V = _decimals(V)
    for i in range(len(V)):
        for j in range(i):
            V[i] = V[i] - (V[i] @ V[j]) * V[j]
        V[i] = V[i] / (V[i] @ V[i]).sqrt()
    return np.array(sorted(_rotated(V @ T.T)[1], reverse=True), dtype=object)


def _rotated(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows turned until orthogonal: the directions of their columns, one a row's, and the rows' norms."""
    enough = Decimal(10) ** -35
    norms = np.array([r @ r for r in rows], dtype=object)
    for _ in range(60):
        done = True
        for i in range(len(rows) - 1):
            for j in range(i + 1, len(rows)):
                a, b, c = norms[i], norms[j], rows[i] @ rows[j]
                if c == 0 or c * c <= enough * enough * a * b or c * c < ZERO**3:
                    continue
                done = False
                z = (b - a) / (2 * c)
                t = (1 if z >= 0 else -1) / (abs(z) + (1 + z * z).sqrt())
                cos = 1 / (1 + t * t).sqrt()
                sin = cos * t
                rows[i], rows[j] = cos * rows[i] - sin * rows[j], sin * rows[i] + cos * rows[j]
                norms[i], norms[j] = a - t * c, b + t * c
        norms = np.array([r @ r for r in rows], dtype=object)
        if done:
            break
    values = np.array([s.sqrt() for s in norms], dtype=object)
    sizes = np.array([v if v > 0 else Decimal(1) for v in values], dtype=object)
    return (rows / sizes[:, None]).T, values
