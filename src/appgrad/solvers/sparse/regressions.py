"""Sparse CCA on matrices of a few columns: each side regressed on the other's scores, with a threshold."""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.sparse.linalg import eigsh

from ...covariance.linalg import inverse_root, whitening
from ...covariance.operators import Matrices
from ...machine.arrays import Array
from .thresholds import Sparsity, Threshold, row_sizes

# Hard thresholding settles in a few steps, soft thresholding in some tens: more where columns are collinear.
HARD_STEPS, SOFT_STEPS = 3, 200
# Rounds of one side after the other, each regression begun where the last one ended.
ROUNDS = 50
# A column depends on those before it if they leave less than this of it, in units of its own.
DEPENDENT = 1e-4
# Larger matrices take eigenvalues from a Krylov space, which are a little low: hence the margin.
SMALL, MARGIN = 200, 1.05


class NothingLeftError(ValueError):
    """A threshold leaves fewer directions than components, whatever the start."""


class VanishedError(ValueError):
    """A threshold leaves fewer directions of a view than there are components, from this start.

    `sizes` are the row norms of the regression target, and `left` is the number of columns left.
    """

    def __init__(self, view: int, sizes: Array, left: int) -> None:
        super().__init__(f"nothing is left of {'Xy'[view]}")
        self.view, self.sizes, self.left = view, sizes, left


def require_left(A: Array, B: Array, k: int, sparsity: Sparsity) -> None:
    """Raise if a view has fewer columns with a weight than there are components."""
    for C, label in ((A, "X"), (B, "y")):
        if np.count_nonzero(row_sizes(C)) < (1 if sparsity.by_component else k):
            asked = (
                f"alpha={sparsity.alpha}" if sparsity.n_nonzero is None else f"n_nonzero={sparsity.n_nonzero}"
            )
            raise NothingLeftError(
                f"{asked} leaves fewer than {k} columns of {label}: use a smaller penalty, more columns or "
                "fewer components; solver='pursuit' says how large a penalty may be"
            )


def alternated(
    S: Matrices, A: Array, B: Array, x: Threshold, y: Threshold, tol: float
) -> tuple[Array, Array]:
    """Return A and B, each the regression of its side on the other's scores, both thresholded.

    A = argmin |U - V|^2 / 2 + penalty, over A, for V = Y B (B'Sy B)^-1/2; likewise B.
    """
    lengths = (0.0, 0.0) if x.penalty == "l0" else (_largest_eigenvalue(S.Sx), _largest_eigenvalue(S.Sy))
    for _ in range(ROUNDS):
        before = A
        target = S.Sxy @ (B @ inverse_root(B.T @ S.Sy @ B))
        A = _whole(regressed(S.Sx, target, A, x, lengths[0], tol / 10), S.Sx, target, 0)
        target = S.Sxy.T @ (A @ inverse_root(A.T @ S.Sx @ A))
        B = _whole(regressed(S.Sy, target, B, y, lengths[1], tol / 10), S.Sy, target, 1)
        if change(A, before) <= tol:
            break
    return A, B


def change(A: Array, before: Array) -> float:
    """Return how far A is from another basis, relative to A, up to a rotation: sparse pairs turn together.

    Rows, not columns, are penalised, so that a rotation of both sides makes no difference.
    """
    P, _, Qt = np.linalg.svd(before.T @ A)
    return float(np.linalg.norm(A - before @ (P @ Qt)) / np.linalg.norm(A))


def regressed(S: Array, target: Array, A: Array, threshold: Threshold, length: float, tol: float) -> Array:
    """S^-1 target with rows set to zero: AppGrad's gradient step and the threshold, over and over.

    With "l0", least squares on the columns that are left follow each (hard thresholding pursuit, Foucart
    2011); with "l1" and a penalty, momentum (Beck & Teboulle 2009) that restarts (O'Donoghue & Candes 2015).
    """
    if threshold.penalty == "l0":
        for _ in range(HARD_STEPS):
            found = threshold(A + (target - S @ A), 1.0)
            kept = row_sizes(found) > 0
            if not np.any(kept):
                return found
            same = np.array_equal(kept, row_sizes(A) > 0)
            A = found
            A[kept] = _least_squares(S[np.ix_(kept, kept)], target[kept])
            if same:
                break
        return A
    eta = 1 / length if length > 0 else 1.0
    Z, age = A, 1.0
    for _ in range(SOFT_STEPS):
        new = threshold(Z + eta * (target - S @ Z), eta)
        moved = new - A
        if threshold.n_nonzero is not None or np.sum((Z - new) * moved) > 0:
            # No momentum if the level changes from step to step.
            age = 1.0
        older, age = age, (1 + np.sqrt(1 + 4 * age * age)) / 2
        A, Z = new, new + (older - 1) / age * moved
        if np.linalg.norm(moved) <= tol * np.linalg.norm(new):
            break
    return A


def _least_squares(S: Array, target: Array) -> Array:
    """Return S^-1 target, on the range of S if columns depend on each other."""
    try:
        L = cholesky(S, lower=True, check_finite=False)
        if L.diagonal().min() > DEPENDENT:
            return np.asarray(cho_solve((L, True), target, check_finite=False))
    except LinAlgError:
        pass
    W = whitening(S, np.zeros(len(S))).W
    return np.asarray(W @ (W.T @ target))


def _whole(A: Array, S: Array, target: Array, view: int) -> Array:
    if np.linalg.matrix_rank(A.T @ S @ A) < A.shape[1]:
        raise VanishedError(view, row_sizes(target), int(np.count_nonzero(row_sizes(A))))
    return A


def _largest_eigenvalue(S: Array) -> float:
    """Return the largest eigenvalue, or a little more."""
    if len(S) <= SMALL:
        return float(np.linalg.eigvalsh(S)[-1])
    v0 = np.random.default_rng(0).standard_normal(len(S))
    (value,) = eigsh(S, 1, which="LA", tol=0.01, v0=v0, return_eigenvectors=False)
    return MARGIN * float(value)
