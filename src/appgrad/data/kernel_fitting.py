"""Kernel maps fitted to rows: gamma, landmarks, centring, the default ridge, and checks of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgError, cholesky

from ..machine.arrays import EPS, Array, Matrix
from ..machine.memory import budget
from .arrays import gathered
from .finite import require_finite
from .kernels import (
    ACCURATE,
    Fourier,
    Gram,
    Kernel,
    Map,
    MappedViews,
    Nystroem,
    shifted,
    squared_distances,
    stored,
)
from .views import Block, Views

# Number of rows from which the median distance and the variances in feature space are computed.
SAMPLE = 1000
# Number of those from which it is first computed, by differences of all columns.
FEW = 100
# If rows are scarce, the default ridge leaves one effective dimension for ROWS_PER_DIMENSION of them, at most
# 1 / SHOWN of what a sample can show; otherwise it is FLOOR times the variance (docs/decisions/0007).
ROWS_PER_DIMENSION, SHOWN, FLOOR = 20, 2, 1e-7
# Negative eigenvalues below this share of the largest are rounding.
INDEFINITE = 1e-8


class Asked(NamedTuple):
    """A kernel as the user asks for it; gamma may be left to the data."""

    kernel: str | Callable[[Matrix, Matrix], Any]
    gamma: float | None
    degree: int
    coef0: float

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return self.kernel if isinstance(self.kernel, str) else "callable"

    @property
    def has_gamma(self) -> bool:
        """True if the kernel has the parameter gamma."""
        return self.name in ("rbf", "poly")

    def kernel_of(self, sample: Matrix) -> Kernel:
        """The kernel; its gamma comes from a sample of the rows if none is asked for."""
        gamma = self.gamma
        if gamma is None:
            gamma = median_gamma(sample) if self.has_gamma else 1.0
        function = None if isinstance(self.kernel, str) else self.kernel
        return Kernel(self.name, gamma, self.degree, self.coef0, function)


class FittedFeatures(NamedTuple):
    """Two maps, the views they make, variances in feature space along its principal directions, and gammas.

    `diagonals` are those of the Gram matrices if the views are Gram matrices, else None.
    """

    maps: tuple[Map, Map]
    views: Views
    variances: tuple[Array, Array]
    gammas: tuple[float | None, float | None]
    diagonals: tuple[Array, Array] | None = None


def grams(views: Views, asked: tuple[Asked, Asked], center: bool, rng: np.random.Generator) -> FittedFeatures:
    """Centred Gram matrices as views: in memory where they fit into the budget, else computed in every pass.

    The rows themselves are kept, since new rows are compared with them.
    """
    n = views.n_samples
    for one, p, label in zip(asked, views.widths, views.view_names, strict=True):
        if one.name == "precomputed" and p != n:
            raise ValueError(
                f"{label} has {n} rows and {p} columns: a precomputed kernel of training rows is square, "
                "with a row and a column for each of them"
            )
    rows, sample = gathered(views), np.sort(rng.permutation(n)[:SAMPLE])
    _require_finite(views, rows.x, rows.y)
    maps, variances, gammas = [], [], []
    for one, m, label in zip(asked, (rows.x, rows.y), views.view_names, strict=True):
        kernel, shift = one.kernel_of(m[sample]), shift_of(one.name, m, center)
        rounding = _rounding(views)
        if one.name == "precomputed":
            # The training rows are neither known nor needed.
            there = np.zeros((n, 0))
            K = kernel(m, there)
            require_symmetric(K, label)
            _require_definite(K, center, label, rounding)
            K = K[np.ix_(sample, sample)]
        else:
            # A copy: the user's array, or file, may change before new rows are compared with it.
            there = shifted(m, shift) if np.any(shift) else m.copy() if sp.issparse(m) else np.array(m)
            K = kernel(there[sample], there[sample])
            require_symmetric(K, label)
        variances.append(_variances(K, center, label, rounding))
        maps.append(Gram(kernel, there, shift, np.zeros(n), 0.0, False))
        gammas.append(kernel.gamma if one.has_gamma else None)
    found: Views = MappedViews(rows, *maps)
    kept = stored(found) if 16 * n * n <= budget() else None
    means, diagonals = _means_and_diagonals(found if kept is None else kept)
    if center:
        maps = [
            f._replace(means=m, grand=float(m.mean()), centred=True) for f, m in zip(maps, means, strict=True)
        ]
        diagonals = diagonals - 2 * means + means.mean(axis=1)[:, None]
        for K, m in () if kept is None else zip((kept.x, kept.y), means, strict=True):
            K -= m - m.mean()
            K -= m[:, None]
    found = MappedViews(rows, *maps) if kept is None else kept
    # Rounding may give a row at the mean a slightly negative squared distance from it.
    diagonals = np.maximum(diagonals, 0.0)
    return FittedFeatures(
        (maps[0], maps[1]), found, _pair(variances), _pair(gammas), (diagonals[0], diagonals[1])
    )


def features(
    views: Views,
    asked: tuple[Asked, Asked],
    approximation: str,
    counts: tuple[int, int],
    center: bool,
    rng: np.random.Generator,
) -> FittedFeatures:
    """Features of an approximation as views, computed in every pass."""
    n = views.n_samples
    landmarks = rng.permutation(n)[: max(*counts, SAMPLE)]
    order = np.argsort(landmarks)
    rows = gathered(views.take(landmarks[order]))
    _require_finite(views, rows.x, rows.y)
    # In the order in which they were drawn: the first of them are a sample too.
    drawn = np.argsort(order)
    maps: list[Map] = []
    variances, gammas = [], []
    for one, count, m, label in zip(asked, counts, (rows.x, rows.y), views.view_names, strict=True):
        m = m[drawn]
        kernel, shift = one.kernel_of(m[:SAMPLE]), shift_of(one.name, m, center)
        there = shifted(m, shift)
        # Rows show no more dimensions than there are rows, and the map may use as many as landmarks.
        shown = there[: max(SAMPLE, count)]
        K = kernel(shown, shown)
        require_symmetric(K, label)
        variances.append(_variances(K, center, label, _rounding(views)))
        gammas.append(kernel.gamma if one.has_gamma else None)
        if approximation == "nystroem":
            maps.append(_nystroem(kernel, there[:count], shift, label, _rounding(views)))
        else:
            maps.append(_fourier(kernel.gamma, m.shape[1], count, shift, rng))
    found = MappedViews(views, *maps)
    return FittedFeatures((maps[0], maps[1]), found, _pair(variances), _pair(gammas))


def median_gamma(rows: Matrix) -> float:
    """One over the squared median distance of these rows; of pairs that differ, if most do not."""
    if not sp.issparse(rows):
        # Distances of rows far from zero would cancel.
        rows = rows - np.mean(rows, axis=0, dtype=np.float64)
    # Slow to import, and linear models need no distances.
    from scipy.spatial.distance import cdist

    few = rows[:FEW]
    if sp.issparse(few):
        # Only the columns that occur in these rows: there may be millions of others, all zero.
        few = few[:, np.unique(few.tocoo().col)].toarray()
    about = _over_median(cdist(few, few, "sqeuclidean"), 0.0)
    distances = squared_distances(rows, rows, about)
    # Rounding leaves identical rows a little apart.
    rounding = ACCURATE * float(distances.max(initial=0.0))
    return _over_median(distances, min(rounding, 10 * ACCURATE / about) if about > 0 else rounding)


def _over_median(distances: Array, rounding: float) -> float:
    """One over the median of squared distances; of those above `rounding`, if most are not."""
    squares = distances[np.triu_indices(len(distances), 1)]
    apart = squares[squares > rounding]
    if not len(apart):
        return 1.0
    return 1 / float(np.median(squares if 2 * len(apart) > len(squares) else apart))


def shift_of(kernel: str, rows: Matrix, center: bool) -> Array:
    """The mean of rows, to be subtracted for kernels that a shift does not change; otherwise empty.

    Without it, distances and centred inner products of rows far from zero would cancel to nothing. Sparse
    columns are near zero; only those that are mostly stored are shifted.
    """
    if not (kernel == "rbf" or (kernel == "linear" and center)):
        return np.zeros(0)
    if not sp.issparse(rows):
        return np.asarray(np.mean(rows, axis=0, dtype=np.float64))
    full = np.bincount(rows.tocoo().col, minlength=rows.shape[1]) > rows.shape[0] / 2
    if not np.any(full):
        return np.zeros(0)
    return np.where(full, np.asarray(rows.mean(axis=0, dtype=np.float64)).ravel(), 0.0)


def default_ridge(variances: Array, n: int, dimensions: int) -> float:
    """The ridge that leaves one effective dimension for twenty rows: sum v / (v + ridge) = n / 20.

    It is at least total / n, which leaves half of a function that is there for a single row. `variances` are
    those of a sample, which shows no more dimensions than it has rows. If features are few compared with
    rows, the ridge is a small share of the total variance.
    """
    # Slow to import, and linear models need no root finding.
    from scipy.optimize import brentq

    total, size = float(variances.sum()), len(variances)
    if total == 0 or dimensions <= n / ROWS_PER_DIMENSION:
        return FLOOR * total
    floor = total / n
    most = max(1.0, n / ROWS_PER_DIMENSION if size >= n else min(n / ROWS_PER_DIMENSION, size / SHOWN))

    def excess(log_ridge: float) -> float:
        return float(np.sum(variances / (variances + np.exp(log_ridge)))) - most

    if excess(np.log(floor)) <= 0:
        return floor
    # Here each of the `size` terms is below most / size.
    upper = np.log(float(variances[0]) * size / most)
    return float(np.exp(brentq(excess, np.log(floor), upper, xtol=1e-6)))


def require_symmetric(K: Array, label: str) -> None:
    """Raise an error if a Gram matrix is not symmetric."""
    apart = np.abs(K - K.T).max()
    if not apart <= 1e-6 * np.abs(K).max():
        raise ValueError(
            f"the kernel of {label} is not symmetric: entries differ from those across the diagonal by up to "
            f"{apart:.2g}; a kernel has k(a, b) = k(b, a)"
        )


def _nystroem(kernel: Kernel, rows: Matrix, shift: Array, label: str, rounding: float) -> Nystroem:
    K = kernel(rows, rows)
    E, V = np.linalg.eigh((K + K.T) / 2)
    noise = len(K) * rounding * float(np.abs(K).max())
    _require_not_negative(E, label, noise)
    # Only a user's own function can have values as imprecise as the rows.
    keep = (noise if kernel.function is not None else len(E) * EPS * E[-1]) < E
    return Nystroem(kernel, rows, shift, V[:, keep] / np.sqrt(E[keep]))


def _fourier(gamma: float, columns: int, count: int, shift: Array, rng: np.random.Generator) -> Fourier:
    frequencies = rng.standard_normal((columns, -(-count // 2)))
    frequencies *= np.sqrt(2 * gamma)
    return Fourier(frequencies, shift)


def _rounding(views: Views) -> float:
    """The relative error of kernel values: single precision if the rows have it, else double."""
    return float(np.finfo(np.float32).eps) if views.dtype == np.float32 else EPS


def _variances(K: Array, center: bool, label: str, rounding: float) -> Array:
    """Eigenvalues of a Gram matrix over its number of rows, largest first."""
    E = np.linalg.eigvalsh(_centred(K) if center else (K + K.T) / 2)
    _require_not_negative(E, label, len(K) * rounding * float(np.abs(K).max()))
    return np.asarray(np.maximum(E[::-1], 0.0) / len(E))


def _centred(K: Array) -> Array:
    K = K - K.mean(axis=0)
    K -= K.mean(axis=1)[:, None]
    return (K + K.T) / 2


def _require_not_negative(eigenvalues: Array, label: str, rounding: float) -> None:
    least, largest = float(eigenvalues.min()), float(np.abs(eigenvalues).max())
    if least < -max(INDEFINITE * largest, rounding):
        raise ValueError(
            f"the kernel of {label} is not positive semidefinite: its Gram matrix has eigenvalues from "
            f"{least:.3g} to {eigenvalues.max():.3g}; use a kernel that is an inner product"
        )


def _require_definite(K: Array, center: bool, label: str, rounding: float) -> None:
    """Raise an error if a large Gram matrix has negative eigenvalues: its Cholesky factorisation fails."""
    rounding *= len(K) * float(np.abs(K).max())
    K = _centred(K) if center else (K + K.T) / 2
    # The trace is at least the largest eigenvalue, and at most n times as large.
    K[np.diag_indices(len(K))] += max(INDEFINITE * float(np.trace(K)), rounding, np.finfo(float).tiny)
    try:
        cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise ValueError(
            f"the kernel of {label} is not positive semidefinite: it has negative eigenvalues; use a kernel "
            "that is an inner product"
        ) from None


def _means_and_diagonals(views: Views) -> tuple[Array, Array]:
    """Row means and diagonals of Gram matrices that are not centred yet, in one pass."""
    n = views.n_samples
    means, diagonals = np.empty((2, n)), np.empty((2, n))

    def of_block(block: Block) -> None:
        here = np.arange(block.n_rows)
        rows = slice(block.offset, block.offset + len(here))
        for view, K in enumerate(block.views):
            means[view, rows], diagonals[view, rows] = K.mean(axis=1), K[here, block.offset + here]

    views.reduce(of_block, lambda a, b: None)
    return means, diagonals


def _require_finite(views: Views, *drawn: Matrix) -> None:
    """Raise an error that names the row and the column if a value in the rows drawn is not finite."""
    if all(np.all(np.isfinite(m.data if sp.issparse(m) else m)) for m in drawn):
        return
    for block in views.blocks():
        for view, m in enumerate(block.views):
            require_finite(m, views.titles.naming(view), block.offset)


def _pair(parts: list[Any]) -> tuple[Any, Any]:
    return parts[0], parts[1]
