"""The start of a run on sparse rows: columns that coincide, or the pairs of the columns that carry most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..covariance.coincident import coincident
from ..covariance.heads import (
    BY_COUPLING,
    Head,
    Joint,
    columns_of,
    counting,
    coupling,
    head_of,
    joint,
    sizes_of,
)
from ..covariance.operators import Covariance
from ..covariance.preconditioners import NARROW, jacobi
from ..covariance.rows import RowCovariance
from ..data.views import Views
from ..machine.arrays import Array
from ..machine.memory import budget
from .costs import NOMINAL, is_full, thin
from .lobpcg.iteration import LOBPCG
from .protocol import Options

# The head, its sums and the dense work on them, may take as long as this many passes over the rows: with more
# columns, the first result would come later than it is better. The dense work may always take the second.
WORTH, LEAST_WORTH = 1.5, 0.4
# Sparse products with a column that take as long as that of two entries of a row.
PAIR = 7
# Components of the pass that the work is compared with.
COMPONENTS = 20
# The largest head, and the smallest worth a pass, in columns of each view.
MOST, LEAST = 2000, 50
# Matrices of the size of the head's covariances held at a time.
MATRICES = 4
# The most iterations on the head's covariances, and the share of the correlation they may leave: a start
# needs no more digits than the head itself has.
STEPS, LEFT = 8, 5e-4
# Steps of inverse iteration before them, each of half the work of an iteration.
INVERSE_STEPS = 2
# The least share of the head that is worth a pass to choose it by coupling.
RARE = 0.15
# Where rare columns count as much, and the pairs of the head miss more than this share of correlations of 1,
# another head is larger by this factor.
SHORT, LARGER = 1e-3, 1.5
# Candidates for each pair of columns that coincide, and the least share of its variance that a column must
# have for its own to be taken.
CANDIDATES, OWN = 4, 0.1
# Random columns among those that guard the last pair: they find what the head does not have.
RANDOM = 3


class Start(NamedTuple):
    """Columns to start from, the head and the inverse of its coupled covariances, None without a head."""

    first: tuple[Array, Array]
    head: Head | None = None
    joint: Joint | None = None


def head_for(views: Views, options: Options, least: int) -> int:
    """The columns of each view in the head of a run that needs at `least` so many passes, 0 for none.

    Sparse rows of wide views have a head, if there is a pass for it.
    """
    passes = options.limits.passes
    if options.preconditioner != "auto" or is_full(views) or max(views.widths) <= NARROW:
        return 0
    return 0 if passes is not None and passes < least + 1 else head_size(views)


def head_size(views: Views) -> int:
    """The columns of each view in the head, 0 for none: the work on it takes about as long as a pass."""
    part = thin(views, COMPONENTS, NOMINAL)
    one, w = part.one + part.algebra, part.width
    # Products of half of the entries of a row with themselves, with the other half, and of that with itself.
    sums = 3 * (views.entries / 2) ** 2 * views.n_samples * PAIR * NOMINAL.sparse
    seconds = max(WORTH * one - sums, LEAST_WORTH * one)
    # The factor takes (2 m)^3 / 6 multiplications, an iteration two products with (2 m)^2 numbers.
    sizes = np.arange(LEAST, MOST + 1, 10)
    work = (8 / 6 * sizes**3 + STEPS * 4 * sizes**2 * w) * NOMINAL.factor
    fits = (work <= seconds) & (8 * MATRICES * (2 * LARGER * sizes) ** 2 <= budget())
    return int(sizes[fits][-1]) if np.any(fits) else 0


def start_of(
    cov: RowCovariance, k: int, width: int, m: int, rng: np.random.Generator, spare: float, tol: float
) -> Start:
    """The start of a run for k pairs, `width` columns a view: one pass, or more if there are some to `spare`.

    Where the ridge is negligible and columns of the two views coincide, these are the pairs. Otherwise they
    are those of a head of m columns.
    """
    if spare >= 2 and tol > 0 and _is_negligible(cov, tol):
        found, passes = _coincident_start(cov, k, width, rng, tol)
        if found is not None:
            return found
        spare -= passes
    return _head_start(cov, k, width, m, rng, spare)


def _is_negligible(cov: RowCovariance, tol: float) -> bool:
    """True if the ridge leaves most columns of both views a correlation within `tol` of 1."""
    return all(np.median(left[left > 0], axis=0) >= 1 - tol for left in _left(cov) if np.any(left > 0))


def _left(cov: RowCovariance) -> list[Array]:
    """The shares of the columns' variances that the ridge leaves, of each view."""
    pairs = zip(cov.diagonal(), cov.units.views, strict=True)
    return [np.where(total > 0, 1 - u.ridge / np.where(total > 0, total, 1.0), 0.0) for total, u in pairs]


def _coincident_start(
    cov: RowCovariance, k: int, width: int, rng: np.random.Generator, tol: float
) -> tuple[Start | None, int]:
    """Columns of the two views that coincide, if k independent ones leave little to gain, and passes taken.

    Nothing can be more correlated. In sparse rows, such pairs are columns that occur in the same few rows.
    Those of largest variance come first: they rest on the most rows.
    """
    i, j = coincident(cov)
    left, variances = _left(cov), cov.diagonal()
    rho = np.sqrt(left[0][i] * left[1][j])
    best = np.flatnonzero(1 - rho <= tol / 2)
    if len(best) < k:
        return None, 1
    best = best[np.argsort(-variances[0][i[best]], kind="stable")][: CANDIDATES * k]
    best = best[_independent(cov.restricted(i[best], j[best]).Sx, k)]
    if len(best) < k:
        return None, 2
    A, B = (_single(columns[best], total) for columns, total in zip((i, j), variances, strict=True))
    return Start(_with_random(cov, A, B, width, width - k, rng)), 2


def _independent(S: Array, k: int) -> list[int]:
    """The first k columns with these covariances of which each has a part that is not in those before it.

    A Cholesky factorisation that skips the others.
    """
    R, kept = np.zeros((k, len(S))), list[int]()
    for i in range(len(S)):
        r = R[: len(kept), i]
        left = S[i, i] - r @ r
        if left > OWN * S[i, i] and len(kept) < k:
            R[len(kept)] = (S[i] - r @ R[: len(kept)]) / np.sqrt(left)
            kept.append(i)
    return kept


def _single(columns: Array, variances: Array) -> Array:
    """One column of weights for each of these columns, in units of its standard deviation."""
    A = np.zeros((len(variances), len(columns)))
    A[columns, np.arange(len(columns))] = 1 / np.sqrt(variances[columns])
    return A


def _with_random(
    cov: RowCovariance, A: Array, B: Array, width: int, extra: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """The first columns of A and B and `extra` random ones, `width` together."""
    C, D = jacobi(cov).gaussian(len(A), len(B), extra, rng)
    return np.hstack([A[:, : width - extra], C]), np.hstack([B[:, : width - extra], D])


def _head_start(
    cov: RowCovariance, k: int, width: int, m: int, rng: np.random.Generator, spare: float
) -> Start:
    """The pairs of the head's own covariances, with random columns among the guards: one pass.

    Where rare columns may count and the pairs are not all near 1, a larger head has those that are strongly
    correlated with the other view: two passes more, if there are as many to `spare`.
    """
    variances, sizes = cov.diagonal(), sizes_of(cov, m)
    shares = [BY_COUPLING * count for count in counting(cov, m)]
    none = (None, None)
    x, y = (columns_of(*each) for each in zip(variances, none, sizes, shares, strict=True))
    head = head_of(cov, x, y)
    J = joint(head)
    A, B, rho = _pairs_of(head, J, k, width, rng)
    if max(shares) >= RARE and spare >= 2 and k - rho.sum() > SHORT * k:
        sizes = sizes_of(cov, int(LARGER * m))
        first = (size - int(share * size) for size, share in zip(sizes, shares, strict=True))
        common = [columns_of(*each) for each in zip(variances, none, first, shares, strict=True)]
        strengths = coupling(cov, common[0], common[1])
        x, y = (columns_of(*each) for each in zip(variances, strengths, sizes, shares, strict=True))
        head = head_of(cov, x, y)
        J = joint(head)
        A, B, _ = _pairs_of(head, J, k, width, rng)
    A, B = head.spread(A, B, cov.units.widths)
    guards = min(RANDOM, min(cov.units.widths) - k)
    # Without guards for random columns, all are random: nothing else would find what the head does not have.
    extra = width if width - k < guards else guards + width - min(width, A.shape[1])
    return Start(_with_random(cov, A, B, width, extra, rng), head, J)


def _pairs_of(
    head: Head, J: Joint, k: int, width: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """The pairs of the head and the k largest correlations: a few iterations on its covariances."""
    J, M = J.on_head(), jacobi(head.cov)
    p1, p2 = head.cov.units.widths
    A, B = M.gaussian(p1, p2, min(width, p1, p2), rng)
    for step in range(INVERSE_STEPS):
        if step:
            A, B = head.cov.squares(A, B)
        # The variances are 1: M^-1 changes nothing.
        J.solve(A, B)
    algorithm = LOBPCG(k, M, 0.0, joint=J, first=(A, B))
    state, found = algorithm.init(head.cov, A.shape[1], rng)
    gained = np.inf
    for _ in range(STEPS):
        before, captured = gained, found.tcc
        state, found = algorithm.step(state, head.cov)
        gained = found.tcc - captured
        # Gains that go on to fall as they did add up to this.
        coming = gained * gained / (before - gained) if gained < before < np.inf else np.inf
        if min(gained, coming) < LEFT * found.tcc:
            break
    return state.pairs.A, state.pairs.B, state.rho[:k]


def least_ridge(cov: Covariance, J: Joint | None) -> float:
    """The least ridge of a column that J does not have, in units of its variance; 0 without a ridge."""
    columns = (J.x, J.y) if J is not None else (np.zeros(0, int), np.zeros(0, int))
    least = np.inf
    for total, u, known in zip(cov.diagonal(), cov.units.views, columns, strict=True):
        left = total > 0
        left[known] = False
        least = min(least, float(np.min(u.ridge[left] / total[left], initial=np.inf)))
    return least
