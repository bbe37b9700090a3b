"""The start of a run on sparse rows: columns that coincide, or the pairs of the columns that carry most."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..covariance.coincident import coincident
from ..covariance.head_columns import (
    BY_COUPLING,
    columns_of,
    counting,
    frequencies,
    orders,
    sizes_of,
    strengths,
)
from ..covariance.heads import Head, head_of
from ..covariance.joint import Joint, joint
from ..covariance.operators import Covariance
from ..covariance.preconditioners import NARROW, jacobi
from ..covariance.rows import RowCovariance
from ..covariance.single_columns import columns_alone, shares_left
from ..data.views import Views
from ..machine.arrays import Array
from ..machine.memory import budget
from .costs import NOMINAL, is_full, thin
from .lobpcg.iteration import LOBPCG
from .protocol import Options

# The head, its sums and the dense work on them, may take as long as this many passes over the rows: with more
# columns, the first result would come later than it is better. The dense work may take LEAST_WORTH passes
# even where the sums take WORTH.
WORTH, LEAST_WORTH = 1.5, 0.4
# Where rows are long, the sums of a head are of some of them, which take as long as this many passes; and no
# more passes are spent on the choice of its columns.
MOST_SUMS, MOST_COUPLED = 2.2, 1.0
# Rows for each column of a head, where its sums are of some of the rows. With half as many, correlations by
# chance make it worse than none (docs/decisions/0014).
LEAST_ROWS = 4
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
STEPS, LEFT = 8, 1e-3
# Steps of inverse iteration before them, each of half the work of an iteration.
INVERSE_STEPS = 2
# The least share of the head that is worth a pass to choose it by coupling.
RARE = 0.15
# Where rare columns count as much, and a pair of the head misses more than this of a correlation of 1,
# another head is larger by this factor.
SHORT, LARGER = 1e-3, 1.5
# Candidates for each pair of columns that coincide, and the least share of its variance that a column must
# have for its own to be taken.
CANDIDATES, OWN = 4, 0.1
# Passes that must be left for more than one to be spent on a start: with fewer, iterations are worth more.
REPAID = 6
# Random columns among those that guard the last pair: they find what the head does not have.
RANDOM = 3


class Start(NamedTuple):
    """Columns to start from, and the operations they cost; a head and its coupled inverse where there is one.

    Without columns, a run starts from random ones.
    """

    first: tuple[Array, Array] | None = None
    head: Head | None = None
    joint: Joint | None = None
    flops: float = 0.0


def head_for(views: Views, options: Options, least: int) -> int:
    """The columns of each view in the head of a run, 0 for none: sparse rows of wide views have one.

    `least` are the passes that the run takes to its first result without a head: it takes one more.
    """
    passes = options.limits.passes
    if options.preconditioner != "auto" or is_full(views) or max(views.widths) <= NARROW:
        return 0
    return 0 if passes is not None and passes < least + 1 else head_size(views)


def head_memory(m: Any) -> Any:
    """Bytes of the matrices of a head of m columns a view."""
    return 8.0 * MATRICES * (2 * LARGER * m) ** 2


def sums_over_pass(views: Views) -> float:
    """How long the sums of a head take, in passes: products of the entries of each row with each other."""
    part = thin(views, COMPONENTS, NOMINAL)
    # Half of the entries with themselves, with the other half, and of that with itself.
    sums = 3 * (views.entries / 2) ** 2 * views.n_samples * PAIR * NOMINAL.sparse
    return sums / (part.one + part.algebra)


def summed_share(views: Views) -> float:
    """The share of the rows that the sums of a head are of: 1 unless rows are long."""
    length = sums_over_pass(views)
    return 1.0 if length <= MOST_SUMS else MOST_SUMS / length


def head_size(views: Views) -> int:
    """The columns of each view in the head, 0 for none: the work on it takes about as long as a pass."""
    part = thin(views, COMPONENTS, NOMINAL)
    one, w = part.one + part.algebra, part.width
    seconds = max(WORTH - sums_over_pass(views), LEAST_WORTH) * one
    # The factor takes (2 m)^3 / 6 multiplications, an iteration two products with (2 m)^2 numbers.
    sizes = np.arange(LEAST, MOST + 1, 10)
    work = (8 / 6 * sizes**3 + STEPS * 4 * sizes**2 * w) * NOMINAL.factor
    fits = (work <= seconds) & (head_memory(sizes) <= budget())
    share = summed_share(views)
    if share < 1:
        fits &= 2 * LEAST_ROWS * sizes <= share * views.n_samples
    return int(sizes[fits][-1]) if np.any(fits) else 0


def start_of(
    cov: RowCovariance, k: int, width: int, m: int, rng: np.random.Generator, spare: float, tol: float
) -> Start:
    """The start of a run for k pairs, `width` columns a view: one pass, or more if there are some to `spare`.

    Where the ridge is negligible and columns of the two views coincide, these are the pairs. Otherwise they
    are those of a head of m columns. A view without columns that vary has no start.
    """
    if min(map(len, orders(cov))) == 0:
        return Start()
    if spare >= REPAID and tol > 0 and _is_negligible(cov, tol):
        found, passes = _coincident_start(cov, k, width, rng, tol)
        if found is not None:
            return found
        spare -= passes
    return _head_start(cov, k, width, m, rng, spare)


def _is_negligible(cov: RowCovariance, tol: float) -> bool:
    """True if the ridge leaves most columns of both views a correlation within `tol` of 1."""
    return all(np.median(left[left > 0], axis=0) >= 1 - tol for left in shares_left(cov) if np.any(left > 0))


def _coincident_start(
    cov: RowCovariance, k: int, width: int, rng: np.random.Generator, tol: float
) -> tuple[Start | None, int]:
    """Columns of the two views that coincide, if k independent ones leave little to gain, and passes taken.

    Nothing can be more correlated. In sparse rows, such pairs are columns that occur in the same few rows.
    Those that occur most often come first: they rest on the most rows.
    """
    i, j = coincident(cov)
    left, variances = shares_left(cov), cov.diagonal()
    rho = np.sqrt(left[0][i] * left[1][j])
    best = np.flatnonzero(1 - rho <= tol / 2)
    if len(best) < k:
        return None, 1
    best = best[np.argsort(-frequencies(cov)[0][i[best]], kind="stable")][: CANDIDATES * k]
    best = best[_independent(cov.restricted(i[best], j[best]).Sx, k)]
    if len(best) < k:
        return None, 2
    A, B = (columns_alone(columns[best], total) for columns, total in zip((i, j), variances, strict=True))
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
    order, sizes = orders(cov), sizes_of(cov, m)
    shares = [BY_COUPLING * count for count in counting(cov, m)]
    x, y = (columns_of(*each) for each in zip(order, (None, None), sizes, shares, strict=True))
    share = summed_share(cov.views)
    head = head_of(cov, x, y, share)
    J = joint(head)
    guards = min(RANDOM, min(cov.units.widths) - k)
    if width - k < guards:
        # Only random columns would find what the head does not have, and there are no others for them.
        return Start(head=head, joint=J, flops=_flops(cov, head, 0, width))
    A, B, rho, steps = _pairs_of(head, J, k, width, rng)
    flops = _flops(cov, head, steps, width)
    unsure = max(shares) >= RARE and 1 - rho.min() > SHORT
    if unsure and spare >= REPAID and sums_over_pass(cov.views) <= MOST_COUPLED:
        sizes = sizes_of(cov, int(LARGER * m))
        first = (size - int(share * size) for size, share in zip(sizes, shares, strict=True))
        common = [columns_of(*each) for each in zip(order, (None, None), first, shares, strict=True)]
        coupled = strengths(cov, common[0], common[1])
        x, y = (columns_of(*each) for each in zip(order, coupled, sizes, shares, strict=True))
        head = head_of(cov, x, y, share)
        J = joint(head)
        A, B, _, steps = _pairs_of(head, J, k, width, rng)
        # The look at all pairs of columns takes about as much as the sums of the head.
        flops += 2 * _flops(cov, head, steps, width)
    A, B = head.spread(A, B, cov.units.widths)
    extra = guards + width - min(width, A.shape[1])
    return Start(_with_random(cov, A, B, width, extra, rng), head, J, flops)


def _flops(cov: RowCovariance, head: Head, steps: int, width: int) -> float:
    """About the operations of a head: sums over its rows, the factor, and steps on its covariances."""
    p = len(head.d)
    return 3 * cov.n * (cov.views.entries / 2) ** 2 + p**3 / 3 + 4.0 * (steps + INVERSE_STEPS) * p * p * width


def _pairs_of(
    head: Head, J: Joint, k: int, width: int, rng: np.random.Generator
) -> tuple[Array, Array, Array, int]:
    """The pairs of the head, the k largest correlations, and the few iterations on its covariances."""
    J, M = J.on_head(), jacobi(head.cov)
    p1, p2 = head.cov.units.widths
    A, B = (C.astype(head.cov.dtype) for C in M.gaussian(p1, p2, min(width, p1, p2), rng))
    for step in range(INVERSE_STEPS):
        if step:
            A, B = head.cov.squares(A, B)
        # The variances are 1: M^-1 changes nothing.
        J.solve(A, B)
    single = A.dtype == np.float32
    algorithm = LOBPCG(k, M, 0.0, single=single, stays_single=single, joint=J, first=(A, B))
    state, found = algorithm.init(head.cov, A.shape[1], rng)
    gained, steps = np.inf, 0
    while steps < STEPS:
        steps += 1
        before, captured = gained, found.tcc
        state, found = algorithm.step(state, head.cov)
        gained = found.tcc - captured
        # Gains that go on to fall as they did add up to this.
        coming = gained * gained / (before - gained) if gained < before < np.inf else np.inf
        if min(gained, coming) < LEFT * found.tcc:
            break
    return state.pairs.A, state.pairs.B, state.rho[:k], steps


def least_ridge(cov: Covariance, J: Joint | None) -> float:
    """The least ridge of a column that J does not have, in units of its variance; 0 without a ridge."""
    columns = (J.x, J.y) if J is not None else (np.zeros(0, int), np.zeros(0, int))
    least = np.inf
    for total, u, known in zip(cov.diagonal(), cov.units.views, columns, strict=True):
        left = total > 0
        left[known] = False
        least = min(least, float(np.min(u.ridge[left] / total[left], initial=np.inf)))
    return least
