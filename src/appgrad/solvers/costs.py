"""Expected cost of a fit: rates of a machine, passes, seconds and memory."""

from __future__ import annotations

from typing import NamedTuple

from ..covariance.moments import DENSE_ABOVE
from ..data.views import Views
from ..machine.memory import physical_memory
from ..machine.readable import size

# The paper oversamples by 5 (section 4.1). On minibatches, twice the components capture more of the best ones
# (one pass of MNIST: 0.987 for 0.985, Mediamill: 0.927 for 0.921; no more at three times).
OVERSAMPLING = 5
# Reading a full row takes as long as this many columns of its products.
READING = 17
# Matrices of the size of the covariances that a direct solver holds at a time.
MATRICES = 10


class Rates(NamedTuple):
    """Seconds of one multiplication and addition, in different kinds of work.

    `square` in Z'Z, `factor` in everything that grows with p^3, `dense` and `sparse` in products of rows with
    thin matrices, `thin` in the algebra of p x k matrices.
    """

    square: float
    factor: float
    dense: float
    sparse: float
    thin: float


# Measured in fits on two cores of a server: MNIST, a million rows of path names, random data of 20,000 x 200
# to 5,000 x 4,000 (benchmarks/cost_growth.py). "auto" depends on their ratios alone, not on a clock.
NOMINAL = Rates(square=1.6e-11, factor=5e-11, dense=2.6e-11, sparse=3.5e-10, thin=3e-11)


class Cost(NamedTuple):
    """Expected cost of one solver; `memory` is in bytes beyond the data."""

    solver: str
    passes: float
    seconds: float
    memory: float


class Thin(NamedTuple):
    """A pass with thin products: columns carried, seconds of the products, and of the algebra after them."""

    width: int
    one: float
    algebra: float


def thin(views: Views, k: int, rates: Rates) -> Thin:
    """Return the expected cost of a pass with bases for k components."""
    n, p = views.n_samples, views.n_features_x + views.n_features_y
    w = min(k + OVERSAMPLING, views.n_features_x, views.n_features_y)
    full = is_full(views)
    one = 3 * n * views.entries * ((w + READING) * rates.dense if full else w * rates.sparse)
    return Thin(w, one, 30 * p * w * w * rates.thin)


def thin_memory(views: Views, width: int, doubles: int) -> int:
    """Return the bytes of `doubles` doubles for each feature and column carried."""
    return 8 * doubles * (views.n_features_x + views.n_features_y) * width


def is_full(views: Views) -> bool:
    """True if most entries of a row are stored: dense data, or sparse data that should not be."""
    return views.entries >= 0.5 * (views.n_features_x + views.n_features_y)


def is_wide(views: Views) -> bool:
    """True if a view has more columns than there are rows: direct solvers then work on n x n matrices."""
    return max(views.n_features_x, views.n_features_y) > views.n_samples


def matrices_seconds(views: Views, rates: Rates) -> float:
    """Return the seconds needed to gather p x p covariances and solve with them."""
    p, entries = views.n_features_x + views.n_features_y, views.entries
    squares = entries**2 / DENSE_ABOVE**2 if entries < DENSE_ABOVE * p else p * p
    return views.n_samples * squares * rates.square + p**3 * rates.factor


def matrices_needed(views: Views) -> int:
    """Return the bytes needed to gather p x p covariances and solve with them."""
    # The sums, the scaled copy and its factors, and what a few blocks contribute.
    return 8 * MATRICES * (views.n_features_x + views.n_features_y) ** 2


def gram_memory(views: Views) -> int:
    """Return the bytes of both n x n Gram matrices, their eigenvectors and the work space of LAPACK."""
    return 8 * MATRICES * views.n_samples**2


def require_memory(views: Views, need: int, what: str, advice: str) -> None:
    """Raise before the first pass if matrices cannot fit into this machine."""
    have = physical_memory()
    if have is not None and need > have:
        p1, p2 = views.n_features_x, views.n_features_y
        raise ValueError(
            f"{what} needs about {size(need)} for {views.n_samples} rows and {p1} + {p2} columns; this "
            f"machine has {size(have)}: {advice}"
        )


def small_flops(p: int, c: int) -> float:
    """Operations of small dense algebra: three Gram matrices of p x c bases, their roots, and the update."""
    return 6.0 * p * c * c + 40.0 * c**3 + 6.0 * p * c
