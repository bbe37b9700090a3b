"""Permutation tests of canonical correlations: step-down on all scores, and of paired held-out scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..machine.arrays import Array, require_unmasked
from ..machine.threads import blas_threads, limit_for, ordered_map
from .multivariate_tests import log_wilks

# Rows whose scores are gathered at a time: those of a tile stay in the cache until they are multiplied.
TILE_BYTES = 2**18
# Statistics that differ by less, relatively and absolutely, are ties: a permutation that changes nothing must
# count. Squared correlations nearer to 1 are not told apart, as rounding would decide.
TIE, TINY, ONE = 1e-9, 1e-12, 1 - 1e-9
# A squared diagonal entry of a Cholesky factor below which a correlation may be that near to 1.
NEAR = 1e-6
# Called with the number of permutations done and asked for.
Callback = Callable[[int, int], Any]


class Permuted(NamedTuple):
    """How often permuted rows reach a statistic: p-values of each step, and family-wise ones.

    `whole` are those of the multivariate statistics, by name. The rows as they are count as one permutation.
    """

    p_values: Array
    family_wise: Array
    n_resamples: int
    whole: dict[str, float]

    def first_only(self) -> Permuted:
        """The same with NaN after the first step."""
        p, joint = self.p_values.copy(), self.family_wise.copy()
        p[1:] = joint[1:] = np.nan
        return self._replace(p_values=p, family_wise=joint)


def step_down_permutation(
    U: Array,
    V: Array,
    correlations: Array,
    *,
    n_resamples: int,
    rng: np.random.Generator,
    groups: Array | None = None,
    callback: Callback | None = None,
) -> Permuted:
    """Permute the rows of U against those of V, and compare every step with the correlations found.

    U (n x p) and V (n x q) are all canonical scores, with U'U = V'V = I without a ridge and U'V diagonal.
    The components before step k are left out of it: its statistic is -sum ln(1 - sigma^2(M[k:, k:])) with
    M = U[pi]'V, one product for all steps (Winkler et al. 2020). Family-wise p-values are running maxima.
    """
    require_resamples(n_resamples)
    shuffle = Shuffle(len(U), groups, rng)
    squares = np.minimum(np.asarray(correlations) ** 2, ONE)
    found, whole = -log_wilks(squares), _whole(squares)
    above, above_whole = np.zeros(len(found)), dict.fromkeys(whole, 0)
    for done, (steps, values) in enumerate(_compared(U, V, shuffle, n_resamples), 1):
        above += steps >= _least(found)
        for name, value in values.items():
            above_whole[name] += int(value >= _least(whole[name]))
        if callback is not None:
            callback(done, n_resamples)
    p = (1 + above) / (1 + n_resamples)
    return Permuted(
        p,
        np.maximum.accumulate(p),
        n_resamples,
        {name: (1 + count) / (1 + n_resamples) for name, count in above_whole.items()},
    )


def paired_permutation(
    U: Array,
    V: Array,
    *,
    n_resamples: int,
    rng: np.random.Generator,
    groups: Array | None = None,
    callback: Callback | None = None,
) -> tuple[Array, Permuted]:
    """Return the correlations of paired scores of rows that the fit has not seen, and a test of each.

    Each component is compared with itself on permuted rows, on one side: the fit has chosen the sign.
    Family-wise p-values compare it with the largest of all components that are not above it (Westfall &
    Young 1993).
    """
    require_resamples(n_resamples)
    shuffle = Shuffle(len(U), groups, rng)
    U, V = (_standardised(scores) for scores in (U, V))
    found = np.einsum("ij,ij->j", U, V)
    order = np.argsort(-found, kind="stable")
    above, above_any = np.zeros(len(found)), np.zeros(len(found))
    for done in range(1, n_resamples + 1):
        here = np.einsum("ij,ij->j", U[shuffle()], V)
        largest = np.maximum.accumulate(here[order][::-1])[::-1]
        above += here >= found - TIE
        above_any[order] += largest >= found[order] - TIE
        if callback is not None:
            callback(done, n_resamples)
    p, joint = ((1 + count) / (1 + n_resamples) for count in (above, above_any))
    joint[order] = np.maximum.accumulate(joint[order])
    return found, Permuted(p, joint, n_resamples, {})


class Shuffle:
    """Random orders of n rows; with groups, rows change places within their group only."""

    def __init__(self, n: int, groups: Array | None, rng: np.random.Generator) -> None:
        self.n, self.rng = n, rng
        self.codes: Array | None = None
        self.alone = 0
        if groups is not None:
            self.codes, self.places, self.alone = _grouped(groups, n)

    def __call__(self) -> Array:
        """A random order of the rows."""
        if self.codes is None:
            return self.rng.permutation(self.n)
        order = np.empty(self.n, dtype=np.intp)
        # Sorted by group, and at random within it.
        order[self.places] = np.argsort(self.codes + self.rng.random(self.n))
        return order


def require_groups(groups: Array, n: int) -> None:
    """Raise unless there is a group for each of n rows, and one of several rows."""
    _grouped(groups, n)


def _grouped(groups: Array, n: int) -> tuple[Array, Array, int]:
    """Numbers of groups, the rows sorted by them, and how many rows are alone in theirs."""
    codes = group_codes(groups, n)
    counts = np.bincount(codes)
    if counts.max() < 2:
        raise ValueError(
            "every group has one row: rows change places within their group, so give groups of several "
            "rows, or none"
        )
    return codes.astype(float), np.argsort(codes, kind="stable"), int(np.count_nonzero(counts == 1))


def group_codes(groups: Any, n: int) -> Array:
    """A number from 0 on for the group of each of n rows; ValueError if there is not one for each."""
    require_unmasked(groups, "groups")
    if isinstance(groups, str):
        raise ValueError(f"groups is the text {groups!r}: give a group for each of {n} rows")
    shape = np.shape(groups) if hasattr(groups, "shape") else (len(groups),)
    if shape != (n,):
        raise ValueError(f"groups has shape {shape}, expected one group for each of {n} rows")
    # Not by way of an array: that would make text of a missing value among texts.
    values = groups.tolist() if hasattr(groups, "tolist") else list(groups)
    known: dict[Any, int] = {}
    codes = np.empty(n, dtype=np.intp)
    for row, group in enumerate(values):
        if _is_missing(group):
            raise ValueError(f"groups has no value in row {row}: give each row a group, or drop it")
        try:
            codes[row] = known.setdefault(group, len(known))
        except TypeError:
            kind = type(group).__name__
            raise ValueError(f"groups has a {kind} in row {row}, expected a number or a text") from None
    return codes


def _is_missing(group: Any) -> bool:
    if group is None or (isinstance(group, str) and not group):
        return True
    try:
        return bool(group != group)
    except TypeError:
        # The missing value of pandas says neither.
        return True


def require_resamples(n_resamples: Any) -> None:
    """Raise unless a number of permutations is a whole one, and at least 1."""
    whole = isinstance(n_resamples, int | np.integer) and not isinstance(n_resamples, bool | np.bool_)
    if not whole or n_resamples < 1:
        raise ValueError(f"n_resamples must be a whole number of at least 1, got {n_resamples!r}")


def _compared(
    U: Array, V: Array, shuffle: Shuffle, n_resamples: int
) -> Iterator[tuple[Array, dict[str, float]]]:
    """The statistics of each permutation, on as many threads as BLAS has, in a fixed order."""
    n, p, q = len(U), U.shape[1], V.shape[1]
    minors = _minors(p, q)

    def compare(order: Array) -> tuple[Array, dict[str, float]]:
        M = permuted_product(U, V, order)
        return _step_statistics(M, minors), _whole(np.linalg.svd(M, compute_uv=False) ** 2)

    with limit_for(n * p * q):
        threads = blas_threads()
        yield from ordered_map(compare, (shuffle() for _ in range(n_resamples)), threads)


def permuted_product(U: Array, V: Array, order: Array) -> Array:
    """U[order]'V; rows are gathered a tile at a time."""
    size = max(1, TILE_BYTES // (U.itemsize * U.shape[1]))
    if len(U) <= size:
        return np.asarray(U[order].T @ V)
    M, tile = np.zeros((U.shape[1], V.shape[1])), np.empty((size, U.shape[1]), U.dtype)
    for start in range(0, len(U), size):
        rows = order[start : start + size]
        part = tile[: len(rows)]
        np.take(U, rows, axis=0, out=part, mode="clip")
        M += part.T @ V[start : start + size]
    return M


def _minors(p: int, q: int) -> tuple[Array, Array]:
    """An order of the rows of [[I, M], [M', I]] in which that of M[k:, k:] comes before that of k - 1.

    Returns it with the sizes of these leading blocks, for k = 0, 1 ...
    """
    s = min(p, q)
    rest = np.concatenate([np.arange(s, p), p + np.arange(s, q)])
    pairs = np.column_stack([np.arange(s), p + np.arange(s)])[::-1].ravel()
    return np.concatenate([rest, pairs]), len(rest) + 2 * np.arange(s, 0, -1)


def _step_statistics(M: Array, minors: tuple[Array, Array]) -> Array:
    """-sum ln(1 - sigma^2(M[k:, k:])) for all k: minus the log of minors of [[I, M], [M', I]].

    One Cholesky factor gives all of them: its diagonal holds the ratios of leading minors.
    """
    order, sizes = minors
    p, q = M.shape
    G = np.block([[np.eye(p), M], [M.T, np.eye(q)]])[np.ix_(order, order)]
    try:
        diagonal = np.diag(np.linalg.cholesky(G))
        if diagonal.min() ** 2 > NEAR:
            return np.asarray(-np.cumsum(2 * np.log(diagonal))[sizes - 1])
    except np.linalg.LinAlgError:
        pass
    # A correlation near 1.
    steps = [np.linalg.svd(M[k:, k:], compute_uv=False) ** 2 for k in range(min(p, q))]
    return np.array([-log_wilks(np.minimum(squares, ONE))[0] for squares in steps])


def _whole(squares: Array) -> dict[str, float]:
    """The multivariate statistics, each larger for views that are related more."""
    squares = np.clip(squares, 0.0, ONE)
    ratios = squares / (1 - squares)
    return {
        "Wilks' lambda": -float(log_wilks(squares)[0]),
        "Pillai's trace": float(squares.sum()),
        "Hotelling-Lawley trace": float(ratios.sum()),
        "Roy's greatest root": float(ratios.max()),
    }


def _least(value: Any) -> Any:
    """The least statistic of a permutation that counts as large as this one."""
    return value - TIE * np.abs(value) - TINY


def _standardised(scores: Array) -> Array:
    """Scores with means of zero and norms of one; zero where they do not vary."""
    centred = np.asarray(scores, dtype=float) - np.mean(scores, axis=0, dtype=float)
    norms = np.linalg.norm(centred, axis=0)
    return np.asarray(centred / np.where(norms > 0, norms, 1.0))
