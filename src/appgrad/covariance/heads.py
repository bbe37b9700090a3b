"""The head: the columns of both views that carry most, their covariances, and the inverse of all together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from scipy.linalg.lapack import dpotrf, spotrf

from ..data.blocks import ENTRY_BYTES
from ..data.views import Block
from ..machine.arrays import Array
from ..machine.memory import budget
from ..machine.threads import blas_limit, limit_for_factor, over_rows
from .matrices import MatrixCovariance
from .moments import DENSE_ABOVE, shifted, to_dense
from .operators import Matrices
from .preconditioners import Preconditioner
from .rows import RowCovariance

# The largest share of the head that is chosen by correlation with the other view; the rest has the largest
# variances. Without the former, rare columns that carry correlations of 1 are missed.
BY_COUPLING = 0.5
# The share of the head that both views have in equal parts.
EVEN = 0.75
# The power of what the ridge leaves of a partner's variance, in the strength of a coupling (URLs, ridge 1e-5:
# after 40 iterations 0.0002 of the correlation is missing; 0.0006 with powers 0 and 2).
SHRUNK = 6
# The part of the coupling that the preconditioner keeps: at 1, it would be singular for correlations of 1.
COUPLING = 0.98
# First shift of the diagonal if a factorisation fails, in units of the variances. Each further one is a
# hundred times larger.
SHIFT = 1e-10
# The least ridge of the head's columns, in units of their variances, for a factor in single precision.
SINGLE = 1e-5
# Sums of products are dense matrices if more than this share of the pairs of columns occur together.
DENSE_SUMS = 0.2
# Rows of the head's covariances that stay in the cache while they are centred.
CENTRED_ROWS = 64


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

    Its columns are in units of `d`, the inverse standard deviations, so that diagonals are 1; `ridge` is the
    least of their ridges in these units.
    """

    x: Array
    y: Array
    d: Array
    cov: MatrixCovariance
    ridge: float

    def spread(self, A: Array, B: Array, widths: tuple[int, ...]) -> tuple[Array, Array]:
        """Weights of all columns of views with these widths: those of the head, and zero elsewhere."""
        found, d = [], np.split(self.d, [len(self.x)])
        for columns, scale, C, p in zip((self.x, self.y), d, (A, B), widths, strict=True):
            full = np.zeros((p, C.shape[1]))
            full[columns] = scale[:, None] * C
            found.append(full)
        return found[0], found[1]


class Joint(NamedTuple):
    """The inverse of the coupled covariances of some columns x and y of the two views.

        J = [ Sx + Rx    -c Sxy ]
            [ -c Syx    Sy + Ry ]

    Without the coupling, it would know nothing of how the views go together. `L` is the Cholesky factor of
    diag(d) J diag(d), which has a diagonal of ones, in single precision.
    """

    x: Array
    y: Array
    d: Array
    L: Array

    def on_head(self) -> Joint:
        """The same for the head's own operator."""
        return self._replace(x=np.arange(len(self.x)), y=np.arange(len(self.y)), d=np.ones_like(self.d))

    def solve(self, zx: Array, zy: Array) -> Array:
        """Put J^-1 r in the place of D r for the columns of J, and return by how much r'z grows.

        zx and zy hold D r for all columns, D the inverse variances.
        """
        m, d = len(self.x), self.d[:, None].astype(zx.dtype)
        u = np.vstack([zx[self.x], zy[self.y]]) / d
        # On one thread: those of BLAS would keep spinning into the next pass.
        with blas_limit(1):
            w = sl.cho_solve((self.L, True), u.astype(np.float32, copy=False), check_finite=False)
        z = d * w
        zx[self.x], zy[self.y] = z[:m], z[m:]
        return np.asarray(np.einsum("ij,ij->j", u, w - u))

    def flops(self, c: int) -> float:
        """Multiplications and additions for c columns."""
        return 2.0 * float(self.L.shape[0]) ** 2 * c


class Headed(NamedTuple):
    """A preconditioner of all columns, with the inverse of the head's covariances in its place on those."""

    M: Preconditioner
    joint: Joint

    def flops(self, c: int) -> float:
        """Multiplications and additions for c columns."""
        return self.M.flops(c) + self.joint.flops(c)

    def __call__(self, Gx: Array, Gy: Array) -> tuple[Array, Array]:
        """The preconditioned gradients of both views."""
        zx, zy = self.M(Gx, Gy)
        self.joint.solve(zx, zy)
        return zx, zy


def joint(head: Head, coupling: float = COUPLING) -> Joint:
    """The inverse of the coupled covariances of the head, with a shift of the diagonal if they have none.

    It is computed in single precision where the ridge leaves no variance so low that rounding would hide it.
    """
    L, shift = _factored(head, coupling, np.float32) if head.ridge >= SINGLE else None, 0.0
    while L is None:
        L, shift = _factored(head, coupling, np.float64, shift), 100 * shift if shift else SHIFT
    return Joint(head.x, head.y, head.d, L.astype(np.float32, copy=False))


def _factored(head: Head, coupling: float, dtype: Any, shift: float = 0.0) -> Array | None:
    """The Cholesky factor of the coupled covariances, None if they have none; its upper half is not used."""
    Sx, Sxy, Sy = head.cov.matrices
    m, p = len(Sx), len(head.d)
    # By columns, as LAPACK has them, and the lower half alone.
    J = np.empty((p, p), dtype, order="F")
    J[:m, :m], J[m:, m:] = Sx.T, Sy.T
    np.multiply(Sxy.T, -coupling, out=J[m:, :m], casting="same_kind")
    J[np.diag_indices(p)] += shift
    factor = spotrf if J.dtype == np.float32 else dpotrf
    with limit_for_factor(p):
        L, failed = factor(J, lower=True, clean=False, overwrite_a=True)
    return None if failed else L


def coupling(cov: RowCovariance, x: Array, y: Array) -> tuple[Array, Array] | tuple[None, None]:
    """How strongly columns are correlated with one of the other view, ridge included: one pass.

    Known for all columns but x and y, which are 0. A partner that the ridge shrinks counts less: whatever
    joins it, its own correlations stay below 1. None where sums of sparse rows may not fit into memory.
    """
    if 2 * ENTRY_BYTES * cov.n * (cov.views.entries / 2) ** 2 > budget():
        return None, None
    shifts = cov.shifts
    heads, tails = (
        (x, y),
        tuple(np.setdiff1d(np.flatnonzero(d > 0), h) for d, h in zip(cov.diagonal(), (x, y), strict=True)),
    )

    def part(block: Block) -> tuple[Any, ...]:
        a, b = (shifted(z, shift).astype(np.float64) for z, shift in zip(block.views, shifts, strict=True))
        rare_x, rare_y = a[:, tails[0]], b[:, tails[1]]
        # Pairs of columns in the head, most of all, are left out.
        return (
            sp.csr_array(rare_x.T) @ b[:, heads[1]],
            sp.csr_array(a[:, heads[0]].T) @ rare_y,
            sp.csr_array(rare_x.T) @ rare_y,
        )

    sums = cov.views.reduce(part, _added, most=2)
    found = [np.zeros(p) for p in cov.units.widths]
    rows, columns = (tails[0], heads[0], tails[0]), (heads[1], tails[1], tails[1])
    for G, i, j, of_x, of_y in zip(
        sums, rows, columns, (True, False, True), (False, True, True), strict=True
    ):
        strengths = _strengths(cov, sp.csr_array(G), i, j)
        if of_x:
            found[0][i] = np.maximum(found[0][i], strengths[0])
        if of_y:
            found[1][j] = np.maximum(found[1][j], strengths[1])
    return found[0], found[1]


def _strengths(cov: RowCovariance, G: Any, x: Array, y: Array) -> tuple[Array, Array]:
    """The largest correlations of columns x and y with each other, from the sums of their products."""
    if not G.nnz:
        return np.zeros(len(x)), np.zeros(len(y))
    # Two matrices share its indices: sorted later for one, they would be wrong for the other.
    G.sum_duplicates()
    u, row = _unit_columns(cov, (x, y)), np.repeat(np.arange(len(x)), np.diff(G.indptr))
    (sx, sy), (mx, my) = (np.split(part, [len(x)]) for part in (u.scale, u.mean))
    r = np.abs(G.data / cov.n * sx[row] * sy[G.indices] - mx[row] * my[G.indices])
    left_x, left_y = np.split((1 - u.ridge) ** SHRUNK, [len(x)])
    by_x = sp.csr_array((r * left_y[G.indices], G.indices, G.indptr), shape=G.shape)
    by_y = sp.csr_array((r * left_x[row], G.indices, G.indptr), shape=G.shape)
    return by_x.max(axis=1).toarray().ravel(), by_y.max(axis=0).toarray().ravel()


def counting(cov: RowCovariance, m: int) -> tuple[float, float]:
    """How much columns beyond the m of largest variance may count in each view: 1 without a ridge, 0 at most.

    The ridge r leaves v / (v + r) of the squared correlation of a column of variance v: this is the mean of
    its square.
    """
    found = []
    for total, u in zip(cov.diagonal(), cov.units.views, strict=True):
        left = np.where(total > u.ridge, 1 - u.ridge / np.where(total > 0, total, 1.0), 0.0)
        tail = np.sort(left)[:-m] if m < len(left) else left[:0]
        tail = tail[tail > 0]
        found.append(float(np.mean(tail**2)) if len(tail) else 0.0)
    return found[0], found[1]


def sizes_of(cov: RowCovariance, m: int) -> tuple[int, int]:
    """How many columns of each view a head of 2 m columns has.

    A part is shared out evenly. The rest goes to the columns whose variance is largest in units of their
    ridge, of whichever view.
    """
    ratios = [
        np.sort(total[total > 0] / np.maximum(u.ridge[total > 0], 1e-300))[::-1]
        for total, u in zip(cov.diagonal(), cov.units.views, strict=True)
    ]
    p1, p2 = map(len, ratios)
    least = [min(int(EVEN * m), p) for p in (p1, p2)]
    rest = [ratio[n:] for ratio, n in zip(ratios, least, strict=True)]
    order = np.argsort(-np.concatenate(rest), kind="stable")[: 2 * m - sum(least)]
    x = int(np.count_nonzero(order < len(rest[0])))
    if all(len(r) and r[0] <= (1 + 1e-6) * r[-1] for r in rest):
        x = min(len(rest[0]), max(m - least[0], 2 * m - least[0] - p2))
    return least[0] + x, min(p2, 2 * m - least[0] - x)


def columns_of(variances: Array, strengths: Array | None, m: int, share: float) -> Array:
    """The m columns of a view that carry most: this share by coupling with the other view, or variance."""
    varies = np.flatnonzero(variances > 0)
    if len(varies) <= m:
        return varies
    order = varies[np.argsort(-variances[varies], kind="stable")]
    if strengths is None:
        return np.sort(order[:m])
    first, rest = np.split(order, [m - int(share * m)])
    strongest = rest[np.argsort(-strengths[rest], kind="stable")]
    return np.sort(np.concatenate([first, strongest[: m - len(first)]]))


def head_of(cov: RowCovariance, x: Array, y: Array) -> Head:
    """The head with these columns: one pass over the rows.

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
        few = all(sp.issparse(z) and z.nnz < DENSE_ABOVE * z.shape[0] * z.shape[1] for z in (a, b))
        if not few:
            a, b = to_dense(a), to_dense(b)
        at, bt = (sp.csr_array(z.T) if few else z.T for z in (a, b))
        return tuple(_compact(G) for G in (at @ a, at @ b, bt @ b))

    sums, u = cov.views.reduce(part, _added, most=2), _unit_columns(cov, (x, y))
    matrices = _covariances(sums, cov.n, u)
    return Head(x, y, u.d, MatrixCovariance.of_covariances(matrices), float(u.ridge.min(initial=np.inf)))


def _unit_columns(cov: RowCovariance, columns: tuple[Array, Array]) -> UnitColumns:
    """Some columns of both views in units in which their variances with the ridge are 1."""
    parts = []
    for total, u, shift, i in zip(cov.diagonal(), cov.units.views, cov.shifts, columns, strict=True):
        d = 1 / np.sqrt(total[i])
        scale = u.scale[i] * d
        parts.append(((u.mean - shift)[i] * scale, scale, d, u.ridge[i] * d * d))
    return UnitColumns(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _covariances(sums: tuple[Any, ...], n: int, u: UnitColumns) -> Matrices:
    """The covariances of columns in units, ridge included, from sums of products within and between views."""
    m = sums[0].shape[0]
    head, tail = slice(0, m), slice(m, None)
    Sx, Sxy, Sy = (
        _centred(to_dense(G), n, u, rows, columns)
        for G, rows, columns in zip(sums, (head, head, tail), (head, tail, tail), strict=True)
    )
    Sx[np.diag_indices(m)] += u.ridge[head]
    Sy[np.diag_indices(len(Sy))] += u.ridge[tail]
    return Matrices(Sx, Sxy, Sy)


def _centred(G: Array, n: int, u: UnitColumns, rows: slice, columns: slice) -> Array:
    """Covariances in units, in the place of sums of products of these columns with each other."""
    left, right, mean = u.scale[rows] / n, u.scale[columns], u.mean[columns]

    # Some rows at a time: temporary matrices as large as G would take longer than the sums.
    def centre(part: slice) -> None:
        g = G[part]
        g *= left[part, None]
        g *= right
        g -= u.mean[rows][part, None] * mean

    over_rows(centre, len(G), CENTRED_ROWS)
    return G


def _compact(G: Any) -> Any:
    """A sum of products, sparse if few columns occur together: dense ones are added in less time."""
    return to_dense(G) if sp.issparse(G) and G.nnz > DENSE_SUMS * G.shape[0] * G.shape[1] else G


def _added(a: tuple[Any, ...], b: tuple[Any, ...]) -> tuple[Any, ...]:
    """The sums of matrices, sparse if both are; dense ones are added in place."""
    return tuple(map(_sum, a, b))


def _sum(G: Any, H: Any) -> Any:
    if sp.issparse(G) and sp.issparse(H):
        return _compact(G + H)
    if sp.issparse(G):
        G, H = H, G
    G += H
    return G
