"""The inverse of the coupled covariances of some columns of both views: a preconditioner of both together."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl
from scipy.linalg.lapack import dpotrf, spotrf

from ..machine.arrays import Array
from ..machine.threads import blas_limit
from .heads import Head

# The part of the coupling that the preconditioner keeps: at 1, it would be singular for correlations of 1.
COUPLING = 0.98
# First shift of the diagonal if a factorisation fails, in units of the variances. Each further one is a
# hundred times larger, up to a size at which no matrix of correlations fails.
SHIFT, LARGEST_SHIFT = 1e-10, 1e6


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


def joint(head: Head, coupling: float = COUPLING) -> Joint:
    """The inverse of the coupled covariances of the head, with a shift of the diagonal if they have none."""
    L, shift = _factored(head, coupling, np.float32) if head.cov.dtype == np.float32 else None, 0.0
    while L is None:
        if shift > LARGEST_SHIFT:
            raise FloatingPointError("the covariances of the head are not numbers: rescale the columns")
        L, shift = _factored(head, coupling, np.float64, shift), 100 * shift if shift else SHIFT
    return Joint(head.x, head.y, head.d, L.astype(np.float32, copy=False))


def _factored(head: Head, coupling: float, dtype: Any, shift: float = 0.0) -> Array | None:
    """The Cholesky factor of the coupled covariances, None if they have none; its upper half is not used."""
    Sx, Sxy, Sy = head.cov.matrices
    m, p = len(Sx), len(head.d)
    # By columns, as LAPACK has them, and the lower half alone.
    J = np.zeros((p, p), dtype, order="F")
    J[:m, :m], J[m:, m:] = Sx.T, Sy.T
    np.multiply(Sxy.T, -coupling, out=J[m:, :m], casting="same_kind")
    J[np.diag_indices(p)] += shift
    factor = spotrf if J.dtype == np.float32 else dpotrf
    # On one thread: its rounding would depend on their number.
    with blas_limit(1):
        L, failed = factor(J, lower=True, clean=False, overwrite_a=True)
    return None if failed else L
