"""Measures of a solution: correlations with fixed weights, total and proportion captured, subspaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .machine.arrays import Array, require_unmasked


def correlations(U: npt.ArrayLike, V: npt.ArrayLike) -> Array:
    """Correlation of each column of U with the same column of V, with the weights held fixed.

    On held-out rows this is the honest figure; it can be negative. A constant column has correlation 0.

    Examples
    --------
    >>> from appgrad import correlations
    >>> correlations([[1.0], [2.0], [3.0]], [[1.0], [2.0], [2.0]]).round(3)
    array([0.866])
    """
    U, V = _scores(U, "U"), _scores(V, "V")
    if U.shape != V.shape:
        raise ValueError(f"U has shape {U.shape}, V has {V.shape}: scores are compared column by column")
    if len(U) < 2:
        raise ValueError("correlations need at least two rows, got one")
    Uc, Vc = _unit_columns(U), _unit_columns(V)
    return np.asarray(np.clip(np.einsum("ij,ij->j", Uc, Vc), -1.0, 1.0))


def paired_correlations(n: int, mean: Array, scatter: Array) -> Array:
    """`correlations` from the number of rows, the means and the sums of centred products of [U V]."""
    k = len(scatter) // 2
    norms = np.sqrt(np.maximum(np.diag(scatter), 0.0))
    # Rounding alone gives a constant column this much spread.
    varies = norms > 10 * np.finfo(np.float64).eps * np.sqrt(n) * np.abs(mean)
    real, products = varies[:k] & varies[k:], norms[:k] * norms[k:]
    found = np.where(real, np.diag(scatter[:k, k:]) / np.where(real, products, 1.0), 0.0)
    return np.asarray(np.clip(found, -1.0, 1.0))


def tcc(U: npt.ArrayLike, V: npt.ArrayLike) -> float:
    """Total correlation captured: the sum of the canonical correlations between two score matrices.

    It re-optimises on the rows it is given, so it measures subspaces and is positive on pure
    noise. For fixed weights, see `correlations`.

    Examples
    --------
    >>> import numpy as np
    >>> from appgrad import tcc
    >>> rng = np.random.default_rng(0)
    >>> U = rng.standard_normal((50, 2))
    >>> round(tcc(U, U @ [[1.0, 2.0], [0.0, 3.0]]), 6)
    2.0
    """
    P, Q = _basis(_scores(U, "U")), _basis(_scores(V, "V"))
    if len(P) != len(Q):
        raise ValueError(f"U has {len(P)} rows, V has {len(Q)}: rows must be paired")
    return float(np.sum(np.minimum(np.linalg.svd(P.T @ Q, compute_uv=False), 1.0)))


def pcc(U: npt.ArrayLike, V: npt.ArrayLike, U_ref: npt.ArrayLike, V_ref: npt.ArrayLike) -> float:
    """Proportion of correlation captured: tcc(U, V) over that of reference scores on the same rows.

    Section 4.1 of the paper; the rows may be training or held-out ones.

    Examples
    --------
    >>> import numpy as np
    >>> from appgrad import pcc
    >>> rng = np.random.default_rng(0)
    >>> U = rng.standard_normal((50, 2))
    >>> round(pcc(U[:, :1], U[:, :1], U, U), 6)
    0.5
    """
    found, reference = tcc(U, V), tcc(U_ref, V_ref)
    if len(np.asarray(U)) != len(np.asarray(U_ref)):
        raise ValueError(
            f"U has {len(np.asarray(U))} rows, U_ref has {len(np.asarray(U_ref))}: use the same rows"
        )
    if reference == 0:
        raise ValueError("the reference scores capture no correlation: the proportion is not defined")
    return found / reference


def subspace_distance(A: npt.ArrayLike, B: npt.ArrayLike, covariance: Any = None) -> float:
    """Distance between the spans of A and B: the norm of the difference of their projections, in [0, 1].

    `covariance` (p x p) is the inner product; without one it is Euclidean, so that scores of the same
    centred rows, X A and X B, give the distance under the covariance of X. Spans of different
    dimension have distance 1.

    Examples
    --------
    >>> from appgrad import subspace_distance
    >>> round(subspace_distance([[1.0], [0.0]], [[1.0], [1.0]]), 4)
    0.7071
    >>> round(subspace_distance([[1.0], [0.0]], [[1.0], [1.0]], [[1.0, 0.0], [0.0, 3.0]]), 4)
    0.866
    """
    P, Q = _scores(A, "A"), _scores(B, "B")
    if len(P) != len(Q):
        raise ValueError(f"A has {len(P)} rows, B has {len(Q)}: bases must live in the same space")
    if covariance is not None:
        # A square root turns the inner product into the Euclidean one.
        require_unmasked(covariance, "covariance")
        S = np.asarray(covariance, dtype=np.float64)
        E, V = np.linalg.eigh((S + S.T) / 2)
        root = np.sqrt(np.maximum(E, 0.0))[:, None] * V.T
        P, Q = root @ P, root @ Q
    P, Q = _basis(P, center=False), _basis(Q, center=False)
    if P.shape[1] != Q.shape[1]:
        return 1.0
    # The sine of the largest angle, from the part of B outside the span of A: accurate for small angles.
    return min(1.0, float(np.linalg.norm(Q - P @ (P.T @ Q), 2))) if P.shape[1] else 0.0


def _scores(M: npt.ArrayLike, name: str) -> Array:
    require_unmasked(M, name)
    M = np.asarray(M, dtype=np.float64)
    M = M[:, None] if M.ndim == 1 else M
    if M.ndim != 2 or len(M) == 0:
        raise ValueError(f"{name} has shape {M.shape}: expected rows x columns with at least one row")
    if not np.all(np.isfinite(M)):
        raise ValueError(f"{name} contains NaN or infinity")
    return M


def _unit_columns(M: Array, center: bool = True) -> Array:
    """Columns centred and scaled to norm 1; those at rounding level become zero."""
    largest = np.abs(M).max(axis=0)
    M = M / np.where(largest > 0, largest, 1.0)
    if center:
        M = M - M.mean(axis=0)
    norms = np.linalg.norm(M, axis=0)
    real = norms > 10 * np.finfo(np.float64).eps * np.sqrt(len(M))
    return np.asarray(np.where(real, M / np.where(real, norms, 1.0), 0.0))


def _basis(M: Array, center: bool = True) -> Array:
    """An orthonormal basis of the span of the (centred) columns."""
    M = _unit_columns(M, center)
    U, s, _ = np.linalg.svd(M, full_matrices=False)
    return np.asarray(U[:, s > max(M.shape) * np.finfo(np.float64).eps * s[0]])
