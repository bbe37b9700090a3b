"""Starts of sparse CCA: sparse pairs found by power steps from the most correlated columns."""

from __future__ import annotations

import numpy as np

from ...covariance.operators import Covariance, Matrices
from ...machine.arrays import Array
from ...machine.memory import budget
from ...machine.threads import blas_limit
from .columns_in_play import Columns
from .regressions import NothingLeftError, VanishedError, alternated
from .thresholds import Sparsity, Threshold, largest_rows

# Columns tried one by one, those of the largest correlations; the weights allowed to each, and the power
# steps taken with these (docs/decisions/0008).
TRIED, WEIGHTS, POWER_STEPS = 500, 20, 5
# Number of distinct results that are worked out, and the correlation from which two are alike; the number of
# columns they begin with, and the few they end with.
DISTINCT, ALIKE, WIDEST, FEW = 12, 0.95, 40, 10
# Correlations below this are rounding.
ROUNDING = 1e-9


def first_pairs(field: Columns, k: int, size: tuple[int, int]) -> tuple[Array, Array]:
    """Sparse pairs to start from, of about `size` columns a side, each with those before it removed."""
    A, B = np.zeros((len(field.dx), 0)), np.zeros((len(field.dy), 0))
    for i in range(k):
        if i:
            field = field.without(A[:, -1:], B[:, -1:])
        a, b = _first_pair(field, size)
        A, B = np.hstack([A, a]), np.hstack([B, b])
    return A, B


def start_passes(field: Columns, k: int) -> int:
    """Passes that k first pairs take: for each, its entries, the steps of both climbs, and five more."""
    if field.cov.matrices is not None:
        return 0
    return k * (field.passes_of_largest + 4 * POWER_STEPS + 5)


def start_sizes(cov: Covariance, sparsity: Sparsity) -> tuple[int, int]:
    """Return the number of columns of a start: the number asked for, or a few."""
    p1, p2 = cov.units.widths
    count = sparsity.n_nonzero or (FEW, FEW)
    return min(count[0], WIDEST, p1), min(count[1], WIDEST, p2)


def _first_pair(field: Columns, size: tuple[int, int]) -> tuple[Array, Array]:
    entries = field.largest(int(np.clip(field.n, 100, 2 * TRIED)))
    if not len(entries.values) or np.abs(entries.values[0]) < ROUNDING:
        taken = 0 if field.taken is None else len(field.taken.rho)
        found = f"; {taken} components are all there are" if taken else ""
        raise NothingLeftError(f"no column of X is correlated with any of y: there is nothing to find{found}")
    p1, p2 = len(field.dx), len(field.dy)
    tried = int(np.clip(budget() // (128 * (p1 + p2)), 8, TRIED))
    nothing_x, nothing_y = np.zeros((p1, 0)), np.zeros((p2, 0))
    A, B = _climbed(field, nothing_x, _unit_vectors(entries.columns, p2, tried))
    C, D = _climbed(field, _unit_vectors(entries.rows, p1, tried), nothing_y)
    A, B = np.hstack([A, C]), np.hstack([B, D])
    xx, xy, _, yy = field.products(A, B)
    (A, sx), (B, sy) = _unit(A, xx), _unit(B, yy)
    rho = np.einsum("ij,ij->j", A, xy) * sy
    chosen = _distinct(rho, A.T @ (xx * sx))
    # The last candidate is the most correlated pair of columns alone.
    a = _unit_vectors(entries.rows[:1], p1, 1)
    b = _unit_vectors(entries.columns[:1], p2, 1) * np.sign(entries.values[0])
    A, B = np.hstack([A[:, chosen], a]), np.hstack([B[:, chosen] * np.sign(rho[chosen]), b])
    return _best(field, A, B, size)


def _unit_vectors(columns: Array, p: int, most: int) -> Array:
    """Return unit vectors of these columns, each once, in order of first occurrence."""
    first = np.sort(np.unique(columns, return_index=True)[1])[:most]
    found = np.zeros((p, len(first)))
    found[columns[first], np.arange(len(first))] = 1.0
    return found


def _climbed(field: Columns, A: Array, B: Array) -> tuple[Array, Array]:
    """Return pairs after a few power steps on Sxy with all but the largest weights set to zero.

    The start is A if it has columns, otherwise B. A step takes a pass for each side.
    """
    nothing_x, nothing_y = A[:, :0], B[:, :0]
    if not A.shape[1]:
        _, xy, _, yy = field.products(nothing_x, B)
        A = _sparse_columns(xy * _unit(B, yy)[1])
    for _ in range(POWER_STEPS):
        xx, _, yx, _ = field.products(A, nothing_y)
        B = _sparse_columns(yx * _unit(A, xx)[1])
        _, xy, _, yy = field.products(nothing_x, B)
        A = _sparse_columns(xy * _unit(B, yy)[1])
    return A, B


def _sparse_columns(A: Array) -> Array:
    """Return A with only the largest weights of every column."""
    count = min(WEIGHTS, len(A))
    sizes = np.abs(A)
    level = -np.partition(-sizes, count - 1, axis=0)[count - 1]
    return np.where((sizes >= level) & (sizes > 0), A, 0.0)


def _unit(A: Array, SA: Array) -> tuple[Array, Array]:
    """Return columns whose scores have unit variance, and what they were multiplied by."""
    variances = np.einsum("ij,ij->j", A, SA)
    scale = np.where(variances > 0, 1 / np.sqrt(np.where(variances > 0, variances, 1.0)), 0.0)
    return A * scale, scale


def _distinct(rho: Array, G: Array) -> list[int]:
    """Return the most correlated pairs whose scores differ; G are the correlations of scores."""
    chosen: list[int] = []
    for i in np.argsort(-np.abs(rho), kind="stable"):
        if np.all(np.abs(G[i, chosen]) < ALIKE):
            chosen.append(int(i))
        if len(chosen) == DISTINCT:
            break
    return chosen


def _best(field: Columns, A: Array, B: Array, size: tuple[int, int]) -> tuple[Array, Array]:
    """Return the pair that is most correlated once all are worked out with `size` columns each.

    Each goes from many columns down to these, except the last, which is one pair of columns.
    """
    xx, xy, yx, yy = field.products(A, B)
    x, y = (
        np.flatnonzero(
            np.any([largest_rows(np.abs(z), 2 * WIDEST) for z in Z.T[:-1]], axis=0) | (C[:, -1] != 0)
        )
        for C, Z in ((A, A + (xy - xx) / 2), (B, B + (yx - yy) / 2))
    )
    S, best, found = field.restricted(x, y), -1.0, (A[:, :1], B[:, :1])
    last = A.shape[1] - 1
    for i in range(last + 1):
        counts = [size] if i == last else counts_down(WIDEST, size)
        try:
            a, b = _worked_out(S, A[x, i : i + 1], B[y, i : i + 1], counts)
        except VanishedError:
            continue
        rho = float((a.T @ S.Sxy @ b / np.sqrt((a.T @ S.Sx @ a) * (b.T @ S.Sy @ b))).item())
        if rho > best:
            best, found = rho, (np.zeros((len(A), 1)), np.zeros((len(B), 1)))
            found[0][x], found[1][y] = a, b
    return found


def _worked_out(S: Matrices, a: Array, b: Array, counts: list[tuple[int, int]]) -> tuple[Array, Array]:
    # One thread: these are thousands of products too small to be shared.
    with blas_limit(1):
        for count in counts:
            tx, ty = (Threshold("l0", None, c) for c in count)
            a, b = alternated(S, a, b, tx, ty, 1e-3)
    return a, b


def counts_down(widest: int, size: tuple[int, int]) -> list[tuple[int, int]]:
    """Numbers of columns from `widest` down to `size`, four fifths of the last at a time."""
    found, now = [], float(widest)
    while now > max(size):
        found.append((max(int(now), size[0]), max(int(now), size[1])))
        now *= 0.8
    return [*found, size]
