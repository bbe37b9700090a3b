"""Gram matrices and feature maps as views, so that kernel CCA is linear CCA on other views."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from ..machine.arrays import EPS, Array, Matrix
from ..machine.memory import budget
from .arrays import ArrayViews
from .blocks import BLOCK_BYTES
from .derived import DerivedViews
from .finite import require_finite
from .views import Block, Part, Titles, Views

KERNELS = ("rbf", "linear", "poly", "cosine", "precomputed")
# The largest error of a number of kernel="rbf" by rounding.
ACCURATE = 1e-12


class Kernel(NamedTuple):
    """A kernel function with its parameters: k(x, rows) is a matrix of x.shape[0] x rows.shape[0] numbers.

    rbf: exp(-gamma |x - y|^2); linear: x'y; poly: (gamma x'y + coef0)^degree; cosine: x'y / (|x| |y|);
    precomputed: x holds the numbers themselves; or a function of two matrices.
    """

    name: str
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 1.0
    function: Callable[[Matrix, Matrix], Any] | None = None

    def __call__(self, x: Matrix, rows: Matrix) -> Array:
        """The numbers k(x_i, row_j), dense, in double precision."""
        if self.function is not None:
            return self._called(x, rows)
        if self.name == "precomputed":
            return np.array(x.toarray() if sp.issparse(x) else x, dtype=np.float64)
        # Slow to import, and linear models need no kernel.
        from sklearn.metrics import pairwise

        x, rows = x.astype(np.float64, copy=False), rows.astype(np.float64, copy=False)
        if self.name == "rbf":
            K = squared_distances(x, rows, self.gamma)
            with np.errstate(over="ignore"):
                K *= -self.gamma
            return np.asarray(np.exp(K, out=K))
        if self.name == "cosine":
            return np.asarray(pairwise.cosine_similarity(_levelled(x), _levelled(rows), dense_output=True))
        with np.errstate(over="ignore", invalid="ignore"):
            if self.name == "poly":
                K = np.asarray(pairwise.polynomial_kernel(x, rows, self.degree, self.gamma, self.coef0))
            else:
                K = np.asarray(pairwise.linear_kernel(x, rows, dense_output=True))
        if not np.all(np.isfinite(K)):
            raise ValueError(f"kernel={self.name!r} overflows: rescale the columns")
        return K

    def _called(self, x: Matrix, rows: Matrix) -> Array:
        assert self.function is not None
        found = self.function(x, rows)
        K = np.asarray(found.toarray() if sp.issparse(found) else found, dtype=np.float64)
        if K.shape != (x.shape[0], rows.shape[0]):
            raise ValueError(
                f"the kernel function returned shape {K.shape} for {x.shape[0]} and {rows.shape[0]} rows: it "
                "must take two matrices and return one value for each pair of their rows"
            )
        if not np.all(np.isfinite(K)):
            raise ValueError("the kernel function returned NaN or infinity")
        # A copy: it is centred in place, and the function may keep its own.
        return K.copy()


class Map(Protocol):
    """Feature map of rows: inner products of features are the values of a kernel, or close to them."""

    @property
    def n_features(self) -> int:
        """Number of features of a row."""

    def __call__(self, x: Matrix) -> Array:
        """The features of these rows."""


class Gram(NamedTuple):
    """Kernel values with all training rows, centred by their means: rows of a Gram matrix, also for new rows.

    <f(x) - mean f, f(x_j) - mean f> = k(x, x_j) - mean_i k(x, x_i) - means_j + grand
    """

    kernel: Kernel
    rows: Matrix
    shift: Array
    means: Array
    grand: float
    centred: bool

    @property
    def n_features(self) -> int:
        """Number of training rows."""
        return len(self.means)

    def __call__(self, x: Matrix) -> Array:
        """Centred kernel values."""
        K = self.kernel(shifted(x, self.shift), self.rows)
        if self.centred:
            K -= K.mean(axis=1)[:, None]
            K -= self.means - self.grand
        return K


class Nystroem(NamedTuple):
    """Kernel values with some rows, the landmarks, times the inverse root of their Gram matrix.

    Inner products of features are those of projections on the span of the landmarks (Williams & Seeger 2001).
    """

    kernel: Kernel
    rows: Matrix
    shift: Array
    root: Array

    @property
    def n_features(self) -> int:
        """Number of independent landmarks."""
        return int(self.root.shape[1])

    def __call__(self, x: Matrix) -> Array:
        """Features of these rows."""
        return np.asarray(self.kernel(shifted(x, self.shift), self.rows) @ self.root)


class Fourier(NamedTuple):
    """Cosines and sines of random frequencies, whose inner products are the rbf kernel on average.

    f(x) = sqrt(2 / m) [cos(W x), sin(W x)], m / 2 frequencies W ~ N(0, 2 gamma I) (Rahimi & Recht 2007).
    """

    frequencies: Array
    shift: Array

    @property
    def n_features(self) -> int:
        """Number of features: two for each frequency."""
        return 2 * int(self.frequencies.shape[1])

    def __call__(self, x: Matrix) -> Array:
        """Features of these rows."""
        angles = shifted(x, self.shift) @ self.frequencies
        half = angles.shape[1]
        features = np.empty((angles.shape[0], 2 * half))
        np.cos(angles, out=features[:, :half])
        np.sin(angles, out=features[:, half:])
        features *= 1 / np.sqrt(half)
        return features


class Learned(NamedTuple):
    """Fitted state of a kernel model: maps, variances in feature space, gammas and ridges."""

    maps: tuple[Map, Map]
    variances: tuple[Array, Array]
    gamma: tuple[float | None, float | None]
    ridge: tuple[float, float]


class Mapping:
    """Function from parts of rows to parts of their features."""

    def __init__(self, maps: tuple[Map, Map], titles: Titles, block_rows: int) -> None:
        self.maps, self.titles, self.block_rows = maps, titles, block_rows

    def __call__(self, parts: Generator[Part, None, None], dtype: Any) -> Generator[Part, None, None]:
        """Parts whose features are computed on demand; their rows are read already."""
        with closing(parts):
            for part in parts:
                block = part.block()
                for start in range(0, part.rows, self.block_rows):
                    rows = slice(start, min(start + self.block_rows, part.rows))
                    yield Part(rows.stop - rows.start, partial(self._mapped, block, rows, dtype))

    def _mapped(self, block: Block, rows: slice, dtype: Any) -> Block:
        offset, found = block.offset + rows.start, []
        for view, (f, m) in enumerate(zip(self.maps, block.views, strict=True)):
            x = m[rows]
            require_finite(x, self.titles.naming(view), offset)
            found.append(f(x).astype(np.float64 if dtype is None else dtype, copy=False))
        return Block(offset, tuple(found))


class MappedViews(DerivedViews):
    """Views whose blocks are features of the rows of other views, computed on demand."""

    def __init__(self, views: Views, x: Map, y: Map) -> None:
        super().__init__(views)
        self.maps = x, y
        self.widths = x.n_features, y.n_features
        self.dtype = np.dtype(np.float64)
        p = max(1, sum(self.widths))
        # p x p sums cost the same for a block of few rows as for one of many: long blocks are better.
        block_rows = max(1, BLOCK_BYTES // (8 * p), min(p // 4, budget() // (64 * p)))
        self._mapping = Mapping(self.maps, views.titles, block_rows)

    @property
    def cut(self) -> Mapping:
        """The function from rows to features."""
        return self._mapping

    def inner(self, dtype: Any) -> Any:
        """None: rows are read in their own precision."""
        return None

    def take(self, rows: Array) -> MappedViews:
        """Features of these rows."""
        return MappedViews(self.views.take(rows), *self.maps)


def squared_distances(x: Matrix, rows: Matrix, gamma: float) -> Array:
    """|x_i - row_j|^2, so that gamma times it is off by no more than about 1e-12.

    Differences of squares, |x|^2 - 2 x'y + |y|^2, are fast, but lose what is small beside a large column: of
    such columns of `rows`, differences are squared.
    """
    # Slow to import, and linear models need no distances.
    from scipy.spatial.distance import cdist
    from sklearn.metrics.pairwise import euclidean_distances

    sizes = abs(rows).max(axis=0)
    sizes = np.ravel(sizes.toarray() if sp.issparse(sizes) else sizes)
    with np.errstate(over="ignore", invalid="ignore"):
        large = gamma * EPS * sizes * sizes > ACCURATE
        if np.any(large):
            parts = [m.tocsc() if sp.issparse(m) else m for m in (x, rows)]
            dense = [m[:, large].toarray() if sp.issparse(m) else m[:, large] for m in parts]
            x, rows = (m[:, ~large] for m in parts)
            found = cdist(*dense, "sqeuclidean")
        else:
            found = np.zeros((x.shape[0], rows.shape[0]))
        if not np.all(large):
            found += euclidean_distances(x, rows, squared=True)
    if np.any(np.isnan(found)):
        raise ValueError("distances of rows overflow: rescale the columns")
    return np.asarray(found)


def _levelled(x: Matrix) -> Matrix:
    """Rows divided by their largest entries, so that squares neither vanish nor overflow."""
    sizes = abs(x).max(axis=1)
    sizes = np.ravel(sizes.toarray() if sp.issparse(sizes) else sizes)[:, None]
    factors = 1 / np.where(sizes > 0, sizes, 1.0)
    return x.multiply(factors).tocsr() if sp.issparse(x) else x * factors


def shifted(x: Matrix, shift: Array) -> Matrix:
    """x - shift, or x if the shift is empty; a sparse x stays sparse."""
    if not np.any(shift):
        return x
    if not sp.issparse(x):
        return x - shift
    return sp.csr_array(x - sp.csr_array(np.ones((x.shape[0], 1))) @ sp.csr_array(shift[None]))


def stored(views: Views) -> ArrayViews:
    """Views on the features of all rows, in memory."""
    n = views.n_samples
    x, y = (np.empty((n, p)) for p in views.widths)

    def of_block(block: Block) -> None:
        for out, m in zip((x, y), block.views, strict=True):
            out[block.offset : block.offset + m.shape[0]] = m

    views.reduce(of_block, lambda a, b: None)
    return ArrayViews(x, y, view_names=views.view_names, threads=views.threads)
