"""Thresholds: rows of weights are set to zero between the gradient step and normalisation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...covariance.preconditioners import Preconditioner
from ...machine.arrays import Array

PENALTIES = ("l1", "l0")


class Sparsity(NamedTuple):
    """How sparse components are to be: a penalty alpha, or a number of nonzero rows, for each view.

    alpha is in units of correlations. With "l1", a column enters if its correlation with what is left of the
    other side's scores is above alpha, and all weights shrink by alpha; with "l0" they do not shrink.
    """

    penalty: str
    alpha: tuple[float, float] | None
    n_nonzero: tuple[int, int] | None
    by_component: bool = False


class Threshold(NamedTuple):
    """A threshold on the rows of a basis of one view, in units of their columns."""

    penalty: str
    alpha: float | None
    n_nonzero: int | None

    def __call__(self, A: Array, eta: float | Array) -> Array:
        """Rows of A after a step of length eta: shrunk (l1) or as they are (l0) above a level, else zero.

        The level is eta alpha, or the size of the largest row beyond `n_nonzero`.
        """
        sizes = row_sizes(A)
        level: float | Array
        if self.n_nonzero is None:
            assert self.alpha is not None
            level = eta * self.alpha
            kept = sizes > level
        else:
            kept = largest_rows(sizes, self.n_nonzero)
            level = float(sizes[~kept].max(initial=0.0))
        if self.penalty == "l0":
            return np.asarray(np.where(kept[:, None], A, 0.0))
        shrunk = np.where(kept, 1 - level / np.where(kept, sizes, 1.0), 0.0)
        return np.asarray(A * np.maximum(shrunk, 0.0)[:, None])


class Thresholds(NamedTuple):
    """A threshold for each view, for weights in the units of the data.

    `spread` are the standard deviations of the columns, the ridge included, and `length` is the size of a
    step of length one in these units: that of the preconditioner over the variance.
    """

    x: Threshold
    y: Threshold
    spread: tuple[Array, Array]
    length: tuple[Array, Array]

    def __call__(self, phi_t: Array, psi_t: Array, eta1: float, eta2: float) -> tuple[Array, Array]:
        """Return both bases after a step."""
        found = []
        for view, (threshold, A, eta) in enumerate(((self.x, phi_t, eta1), (self.y, psi_t, eta2))):
            s = self.spread[view][:, None]
            kept = threshold(s * A, eta * self.length[view])
            found.append(kept / np.where(s > 0, s, 1.0))
        return found[0], found[1]


def thresholds_of(sparsity: Sparsity, diagonals: tuple[Array, Array], M: Preconditioner) -> Thresholds:
    """Thresholds for steps in the coordinates of a diagonal preconditioner; `diagonals` are those of S."""
    assert M.x is not None
    assert M.y is not None
    return Thresholds(
        threshold_of(sparsity, 0),
        threshold_of(sparsity, 1),
        (np.sqrt(diagonals[0]), np.sqrt(diagonals[1])),
        (diagonals[0] * M.x.d**2, diagonals[1] * M.y.d**2),
    )


def limited(A: Array, B: Array, diagonals: tuple[Array, Array], sparsity: Sparsity) -> tuple[Array, Array]:
    """Drop rows (or entries, by component) beyond the number asked for: runs that end early may have more."""
    if sparsity.n_nonzero is None:
        return A, B
    found = []
    for C, diagonal, count in zip((A, B), diagonals, sparsity.n_nonzero, strict=True):
        sizes = np.sqrt(diagonal)[:, None] * C
        if sparsity.by_component:
            kept = np.column_stack([largest_rows(np.abs(column), count) for column in sizes.T])
        else:
            kept = largest_rows(row_sizes(sizes), count)[:, None]
        found.append(np.where(kept, C, 0.0))
    return found[0], found[1]


def threshold_of(sparsity: Sparsity, view: int) -> Threshold:
    """Return the threshold of one view."""
    alpha, count = sparsity.alpha, sparsity.n_nonzero
    return Threshold(
        sparsity.penalty, None if alpha is None else alpha[view], None if count is None else count[view]
    )


def row_sizes(A: Array) -> Array:
    """Return the norms of rows: one for all components, so that they share their columns."""
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", A, A)))


def largest_rows(sizes: Array, count: int) -> Array:
    """Return a mask of the `count` largest rows: the first of equal ones, and none of size zero."""
    kept = np.zeros(len(sizes), dtype=bool)
    kept[np.argsort(-sizes, kind="stable")[:count]] = True
    return np.asarray(kept & (sizes > 0))
