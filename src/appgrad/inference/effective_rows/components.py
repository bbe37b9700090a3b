"""On how many rows each component rests: correlations made by a handful of rows seldom hold on others.

The smaller one of two numbers. *Of columns*: a column that differs from its usual value in m rows (a word
that occurs m times, a pixel lit in m pictures) fits a share 1 / m of each of these rows by itself. The mean
of 1 / m, each column by its share of the variance of the scores, is about the share of a score that its own
row has made, and the number is one over that. *Of scores*: the least number of rows without which the
correlation is less than half: few for outliers, and for columns that differ from each other in a few rows.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.linalg as la

from ...covariance.thin import add_scores, tile_rows, tiles
from ...data.views import Block, Views
from ...machine.arrays import Array, Matrix
from ...machine.readable import ranges
from ...machine.threads import limit_for
from ...solvers.problem import Solution
from .columns import ColumnRows
from .sample import RowSample

# A component on fewer rows is said to rest on few. Of 1,080 components of fits to four sparse data sets and
# digits, 77 % of those below 3 lost more than half of their correlation on other random rows, 12 % of those
# from 3 to 6, 4 % of those from 6 to 30; 89 % of those that lost it are below 3. On another split: 78, 15 and
# 0 %; 88 % (benchmarks/effective_rows.py). Nearly all that lost it are of the two PTB problems.
FEW = 3
# Few rows are also few beside all: a fit to 20 rows is not said to rest on few of them if one rests on 2.5.
FEW_SHARE = 0.1
# Correlations above this look like a finding.
FINDING = 0.3
# Close correlations differ by less: ten times the default `tol`, which a run may leave between pairs.
CLOSE = 1e-3
# Rows whose scores are kept: sums of fourth powers of Gaussian scores are then known to 3 %, those of few
# rows exactly. And bytes of these scores, in single precision.
KEPT_ROWS, KEPT_BYTES = 2**14, 16 * 2**20
# Terms of scores above this lose digits when their sums are centred.
FAR = 1e8
# Scores have unit variance. Below this one they are rounding.
NO_VARIANCE = 1e-12
# Less of the variance is nothing: what rotated pairs leave on each other's rows is perfectly correlated.
LEFT = 1e-3
# Steps of the rotation at most, and the relative change of fourth moments at which it has settled.
STEPS, SETTLED = 30, 0.01
# Ranges of components that a warning names.
NAMED = 6


def effective_rows(views: Views, solution: Solution) -> Array:
    """Number of rows that each component rests on, in one thin pass over the rows of the fit.

    The smaller one of both views' numbers of columns, and of that of scores (see the top of this file): m for
    a pair of columns that occur in the same m rows, of the order of n for Gaussian scores of a clear
    correlation, NaN for scores without variance.

    Pairs of close correlations come out mixed. The number of columns is the same for all mixtures of pairs of
    m rows. For that of scores, they are rotated alike in both views to the directions of largest fourth
    moments; each component has the number of one direction, its largest part where possible. Beyond 16,384
    rows large numbers of scores are right within a factor of two, and small ones exact.
    """
    return np.asarray(np.minimum(*of_columns_and_scores(views, solution)))


def of_columns_and_scores(views: Views, solution: Solution) -> tuple[Array, Array]:
    """Both numbers, that of columns and that of scores, of each component."""
    k, n = len(solution.correlations), views.n_samples
    groups = close(solution.correlations)
    limit = max(1, min(KEPT_ROWS, KEPT_BYTES // (8 * k)))
    sides = tuple(
        (mean, np.ascontiguousarray(weights, dtype=np.float64))
        for mean, weights in ((solution.mean_x, solution.x_weights), (solution.mean_y, solution.y_weights))
    )
    columns, sample = views.reduce(partial(_of_block, sides, groups, limit), _merged, np.float64)
    loadings = solution.x_loadings, solution.y_loadings
    of_columns = np.fmin(
        *(_of_columns(each.rows(), W, L) for each, (_, W), L in zip(columns, sides, loadings, strict=True))
    )
    return np.clip(of_columns, 1.0, n), np.clip(_of_scores(sample, groups, n), 1.0, n)


def close(correlations: Array, within: float = CLOSE) -> list[Array]:
    """Groups of components, in order, where each correlation is close to the next one."""
    apart = ~(np.abs(np.diff(correlations)) < within)
    return np.split(np.arange(len(correlations)), np.flatnonzero(apart) + 1)


def few_of(n_samples: int) -> float:
    """The number of rows below which a component of so many rows is said to rest on few."""
    return min(FEW, FEW_SHARE * n_samples)


def few_rows(found: Array, n_samples: int, correlations: Array) -> list[str]:
    """Warning of components that rest on few of the rows: one text, or none.

    Low correlations, which nobody would take for a finding, are left alone.
    """
    few = few_of(n_samples)
    which = 1 + np.flatnonzero((found < few) & (correlations > FINDING))
    if not len(which):
        return []
    many, rest, these = (
        ("component", "rests", "this") if len(which) == 1 else ("components", "each rest", "these")
    )
    return [
        f"{many} {ranges(which, NAMED)} {rest} on fewer than {few:g} rows (rare columns, or outliers): "
        f"correlations like {these} seldom hold on other rows. Set a ridge, or judge by held-out rows (score)"
    ]


# Mean and weights of each view, and what a pass gathers.
Sides = tuple[tuple[Array, Array], ...]
Gathered = tuple[list[ColumnRows], RowSample]


def _of_block(
    sides: tuple[tuple[Array, Array], ...], groups: list[Array], limit: int, block: Block
) -> Gathered:
    """Rows of each column, and the rows to be kept, of a block; scores are made a tile at a time."""
    x, y = block.views
    k = sides[0][1].shape[1]
    centers = [mean @ W for mean, W in sides]
    sample = RowSample.empty(limit, 2 * k)
    height = tile_rows(x, y, 16 * k)
    width = max(m.nnz / block.n_rows if hasattr(m, "nnz") else m.shape[1] for m in block.views)
    # Threads of BLAS that meet at every tile take longer than one.
    with limit_for(height * k * max(width, 4 * k)):
        for rows in tiles(block.n_rows, height):
            scores = np.empty((rows.stop - rows.start, 2 * k))
            for i, (m, (mean, W)) in enumerate(zip(block.views, sides, strict=True)):
                scores[:, i * k : (i + 1) * k] = _scores(m, rows, mean, W, centers[i])
            sample = sample.add(scores, groups, block.offset + np.arange(rows.start, rows.stop))
    return [ColumnRows.of(m) for m in block.views], sample.shortened()


def _merged(a: Gathered, b: Gathered) -> Gathered:
    return [one.merge(other) for one, other in zip(a[0], b[0], strict=True)], a[1].merge(b[1])


def _scores(m: Matrix, rows: slice, mean: Array, W: Array, center: Array) -> Array:
    """(m[rows] - mean) @ W, without making a sparse m dense."""
    if not hasattr(m, "nnz") and np.max(np.abs(mean) @ np.abs(W), initial=0.0) > FAR:
        return np.asarray((m[rows] - mean) @ W)
    # Nearer to zero than that, the difference keeps seven digits, and rows need no copy.
    out = np.tile(-center, (rows.stop - rows.start, 1))
    add_scores(m, rows, W, out)
    return out


def _of_columns(rows: Array, weights: Array, loadings: Array) -> Array:
    """Harmonic mean of the rows of columns, each by its share of the variance; NaN without variance.

    The shares w cov(x, u) add up to the variance of u (Pratt 1987); those below zero, of columns that others
    make up for, are left out.
    """
    shares = np.maximum(weights * loadings, 0.0)
    total = shares.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total / ((1 / rows) @ shares))


def _of_scores(sample: RowSample, groups: list[Array], n: int) -> Array:
    """Rows without which the correlation of each component is less than half; NaN without variance."""
    scores, times = sample.weighted()
    k = scores.shape[1] // 2
    found = np.full(k, np.nan)
    variances = np.diag(sample.products) - sample.sums**2 / n
    varies = variances.reshape(2, k).min(axis=0) > NO_VARIANCE * n
    for group in groups:
        i = group[varies[group]]
        if len(i):
            both = np.concatenate([i, k + i])
            totals = sample.sums[both], sample.products[np.ix_(both, both)]
            found[i] = _of_group(scores[:, both], times, totals, n)
    return found


def _of_group(scores: Array, times: Array, totals: tuple[Array, Array], n: int) -> Array:
    """Numbers of rows of components with close correlations."""
    U, V = np.hsplit(scores, 2)
    with limit_for(2 * len(scores) * U.shape[1] ** 2):
        R = rotation(np.vstack([U, V]), np.tile(times, 2))
        both = la.block_diag(R, R)
        sums, products = totals[0] @ both, both.T @ totals[1] @ both
        U, V = U @ R, V @ R
    numbers = np.empty(len(R))
    for i, (u, v) in enumerate(zip(U.T, V.T, strict=True)):
        j = np.array([i, len(R) + i])
        numbers[i] = _carrying(u, v, times, (sums[j], products[np.ix_(j, j)]), n)
    if len(R) == 1:
        return numbers
    # As long to import as all of a small fit.
    from scipy.optimize import linear_sum_assignment

    return np.asarray(numbers[linear_sum_assignment(R**2, maximize=True)[1]])


def _carrying(u: Array, v: Array, times: Array, totals: tuple[Array, Array], n: int) -> float:
    """The least number of rows, largest scores first, without which the correlation is less than half."""
    order = np.argsort(-np.maximum(u * u, v * v), kind="stable")
    u, v, times = u[order], v[order], times[order]
    terms = times * np.stack([np.ones(len(u)), u, v, u * u, v * v, u * v])
    (su, sv), ((uu, uv), (_, vv)) = totals
    whole = np.array([n, su, sv, uu, vv, uv])[:, None]
    left, su, sv, uu, vv, uv = np.hstack([whole, whole - np.cumsum(terms, axis=1)])
    left = np.maximum(left, 1.0)
    uu, vv, uv = uu - su * su / left, vv - sv * sv / left, uv - su * sv / left
    varies = (uu > LEFT * uu[0]) & (vv > LEFT * vv[0])
    rho = np.where(varies, uv / np.sqrt(np.where(varies, uu * vv, 1.0)), 0.0)
    below = np.flatnonzero(rho < 0.5 * rho[0])
    return float(n - left[below[0]] if len(below) else n)


def rotation(Z: Array, times: Array) -> Array:
    """Orthogonal R whose directions Z R have the largest fourth moments; rows count `times` each.

    The start is the largest rows one after the other, each without its part along those before (QR with
    pivoting): scores of few rows have the direction of any of these. Steps are those of FastICA for fourth
    powers (Hyvarinen 1999), the largest first.
    """
    c = Z.shape[1]
    if c == 1 or len(Z) == 0:
        return np.eye(c)
    longest = np.sort(np.argsort(-np.einsum("ij,ij->i", Z, Z), kind="stable")[: 20 * c])
    R = la.qr(Z[longest].T, pivoting=True)[0]
    before, times = np.zeros(c), times[:, None]
    for _ in range(STEPS):
        P = Z @ R
        cubes = times * P * P * P
        fourth = np.einsum("ij,ij->j", cubes, P)
        if np.all(np.abs(fourth - before) <= SETTLED * fourth):
            break
        before = fourth
        left, _, right = la.svd(Z.T @ cubes, full_matrices=False)
        R = left @ right
    return np.asarray(R)
