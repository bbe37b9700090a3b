"""The head: some columns of both views, in units, and their covariances."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..data.views import Block
from ..machine.arrays import Array
from ..machine.threads import over_rows
from .matrices import MatrixCovariance
from .moments import DENSE_ABOVE, shifted, to_dense
from .operators import Matrices
from .rows import RowCovariance

# Sums of products are dense matrices if more than this share of the pairs of columns occur together.
DENSE_SUMS = 0.2
# Multiples of it spread evenly over [0, 1): they choose some of the rows, the same ones in whatever blocks.
GOLDEN = 0.6180339887498949
# The least variance of a column among some of the rows, over that of all rows, for them to show it.
LEAST_VARIANCE = 0.25
# Rows of the head's covariances that stay in the cache while they are centred.
CENTRED_ROWS = 64
# The least ridge of the head's columns, in units of their variances, for covariances in single precision.
SINGLE = 1e-5


class UnitColumns(NamedTuple):
    """Columns of both views in units in which their variances with the ridge are 1.

    Values of the rows are multiplied by `scale`, and weights by d; `mean` and `ridge` are in these units.
    """

    mean: Array
    scale: Array
    d: Array
    ridge: Array


class Head(NamedTuple):
    """Columns of both views in ascending order, and the operator on their covariances, ridge included.

    Its columns are in units of `d`, the inverse standard deviations, so that diagonals are 1. The covariances
    are in single precision if the least of their ridges in these units allows it.
    """

    x: Array
    y: Array
    d: Array
    cov: MatrixCovariance

    def spread(self, A: Array, B: Array, widths: tuple[int, ...]) -> tuple[Array, Array]:
        """Weights of all columns of views with these widths: those of the head, and zero elsewhere."""
        found, d = [], np.split(self.d, [len(self.x)])
        for columns, scale, C, p in zip((self.x, self.y), d, (A, B), widths, strict=True):
            full = np.zeros((p, C.shape[1]))
            full[columns] = scale[:, None] * C
            found.append(full)
        return found[0], found[1]


def head_of(cov: RowCovariance, x: Array, y: Array, share: float = 1.0) -> Head:
    """The head with these columns: one pass over the rows, of which this `share` is used.

    Sums of sparse rows stay sparse while they are added up. They are centred in the end, which is precise
    enough for a start and for a preconditioner.
    """
    shifts = cov.shifts

    # No reference to cov: on a cluster, the function is sent with all it refers to.
    def part(block: Block) -> tuple[Any, ...]:
        a, b = (
            shifted(z, shift)[:, columns].astype(np.float64)
            for z, shift, columns in zip(block.views, shifts, (x, y), strict=True)
        )
        if share < 1:
            chosen = np.flatnonzero((block.offset + np.arange(block.n_rows)) * GOLDEN % 1.0 < share)
            a, b = a[chosen], b[chosen]
        few = all(sp.issparse(z) and z.nnz < DENSE_ABOVE * z.shape[0] * z.shape[1] for z in (a, b))
        if not few:
            a, b = to_dense(a), to_dense(b)
        at, bt = (sp.csr_array(z.T) if few else z.T for z in (a, b))
        sums = np.concatenate([a.sum(axis=0), b.sum(axis=0), [a.shape[0]]])
        return (*(_compact(G) for G in (at @ a, at @ b, bt @ b)), sums)

    *products, sums = cov.views.reduce(part, added, most=2)
    u = unit_columns(cov, (x, y))
    if share < 1:
        # Their own means: with those of all rows, covariances might not be positive.
        centred = np.concatenate(
            [np.full(len(i), np.any(v.mean)) for i, v in zip((x, y), cov.units.views, strict=True)]
        )
        u = u._replace(mean=np.where(centred, sums[:-1] / max(sums[-1], 1) * u.scale, 0.0))
    matrices = _covariances(tuple(products), max(int(sums[-1]), 1), u)
    if share < 1:
        matrices = _of_unit_variance(matrices)
    return Head(x, y, u.d, MatrixCovariance.of_covariances(matrices))


def _of_unit_variance(matrices: Matrices) -> Matrices:
    """The covariances with diagonals of 1, which those of some of the rows do not have.

    A column that varies less there has a diagonal that is raised: its part in other columns is not known.
    """
    Sx, Sxy, Sy = matrices
    tx, ty = (1 / np.sqrt(np.maximum(np.diag(S), LEAST_VARIANCE)) for S in (Sx, Sy))
    Sx, Sxy, Sy = Sx * tx * tx[:, None], Sxy * ty * tx[:, None], Sy * ty * ty[:, None]
    for S in (Sx, Sy):
        S[np.diag_indices(len(S))] = 1.0
    return Matrices(Sx, Sxy, Sy)


def unit_columns(cov: RowCovariance, columns: tuple[Array, Array]) -> UnitColumns:
    """Some columns of both views in units in which their variances with the ridge are 1."""
    parts = []
    for total, u, shift, i in zip(cov.diagonal(), cov.units.views, cov.shifts, columns, strict=True):
        d = 1 / np.sqrt(total[i])
        scale = u.scale[i] * d
        parts.append(((u.mean - shift)[i] * scale, scale, d, u.ridge[i] * d * d))
    return UnitColumns(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _covariances(sums: tuple[Any, ...], n: int, u: UnitColumns) -> Matrices:
    """The covariances of columns in units, ridge included, from sums of products within and between views."""
    m, dtype = sums[0].shape[0], np.float32 if np.all(u.ridge >= SINGLE) else np.float64
    head, tail = slice(0, m), slice(m, None)
    Sx, Sxy, Sy = (
        _centred(to_dense(G), n, u, rows, columns, dtype)
        for G, rows, columns in zip(sums, (head, head, tail), (head, tail, tail), strict=True)
    )
    Sx[np.diag_indices(m)] += u.ridge[head]
    Sy[np.diag_indices(len(Sy))] += u.ridge[tail]
    return Matrices(Sx, Sxy, Sy)


def _centred(G: Array, n: int, u: UnitColumns, rows: slice, columns: slice, dtype: Any) -> Array:
    """Covariances in units from sums of products of columns: in their place, if these are that precise."""
    left, right, mean = u.scale[rows] / n, u.scale[columns], u.mean[columns]
    found = G if G.dtype == dtype else np.empty(G.shape, dtype)

    # Some rows at a time: temporary matrices as large as G would take longer than the sums.
    def centre(part: slice) -> None:
        g = G[part]
        g *= left[part, None]
        g *= right
        np.subtract(g, u.mean[rows][part, None] * mean, out=found[part], casting="same_kind")

    over_rows(centre, len(G), CENTRED_ROWS)
    return found


def _compact(G: Any) -> Any:
    """A sum of products, sparse if few columns occur together: dense ones are added in less time."""
    return to_dense(G) if sp.issparse(G) and G.nnz > DENSE_SUMS * G.shape[0] * G.shape[1] else G


def added(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """The sums of matrices, sparse if both are; two dense ones are added in place."""
    return tuple(map(_sum, a, b))


def _sum(G: Any, H: Any) -> Any:
    if sp.issparse(G) or sp.issparse(H):
        return _compact(G + H)
    G += H
    return G
