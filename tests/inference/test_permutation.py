"""Permutation tests: the same as refits of permuted rows, one product for all steps."""

import numpy as np
import pytest

from appgrad import CCA
from appgrad.inference import permutation
from appgrad.inference.methods import halves
from appgrad.inference.permutation import (
    Shuffle,
    paired_permutation,
    permuted_product,
    step_down_permutation,
)


def scores(n, p, q, seed=0, related=0.0):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
    Y[:, 0] += related * X[:, 0]
    U, V = (np.linalg.qr(Z - Z.mean(axis=0))[0] for Z in (X, Y))
    P, rho, Qt = np.linalg.svd(U.T @ V)
    return U @ P, V @ Qt.T, rho


def slow(U, V, rho, orders):
    """Winkler et al. 2020, step by step: a CCA of the remaining scores for each step and permutation."""
    counts = np.ones(len(rho))
    for order in orders:
        for k in range(len(rho)):
            sigma = np.linalg.svd(U[order][:, k:].T @ V[:, k:], compute_uv=False)
            counts[k] += -np.log1p(-(sigma**2)).sum() >= -np.log1p(-(rho[k:] ** 2)).sum() - 1e-9
    return counts / (1 + len(orders))


@pytest.mark.parametrize(("p", "q"), [(3, 3), (2, 5), (5, 2), (1, 4)])
def test_one_product_gives_all_steps(p, q):
    U, V, rho = scores(30, p, q, related=0.4)
    rng = np.random.default_rng(7)
    orders = [rng.permutation(30) for _ in range(99)]
    found = step_down_permutation(U, V, rho, n_resamples=99, rng=np.random.default_rng(7))
    np.testing.assert_allclose(found.p_values, slow(U, V, rho, orders))
    np.testing.assert_array_equal(found.family_wise, np.maximum.accumulate(found.p_values))


def test_tiles_change_nothing(monkeypatch):
    U, V, _ = scores(500, 4, 3)
    order = np.random.default_rng(0).permutation(500)
    whole = U[order].T @ V
    monkeypatch.setattr(permutation, "TILE_BYTES", 8 * 4 * 37)
    np.testing.assert_allclose(permuted_product(U, V, order), whole, atol=1e-14)


def test_the_rows_as_they_are_count():
    """Of the orders of five pairs, one in 32 changes nothing: no p-value can be less, for any relation."""
    U, V, rho = scores(10, 2, 2, related=1e6)
    groups = np.arange(10) // 2
    found = step_down_permutation(U, V, rho, n_resamples=1999, rng=np.random.default_rng(0), groups=groups)
    assert 1 / 60 < found.p_values[0] < 1 / 16
    strong = step_down_permutation(
        *scores(200, 2, 2, related=3.0), n_resamples=19, rng=np.random.default_rng(0)
    )
    assert strong.p_values[0] == 1 / 20
    assert strong.whole == dict.fromkeys(strong.whole, 1 / 20)


def test_rows_stay_within_their_groups():
    groups = np.array(list("abcab") * 8)
    shuffle = Shuffle(40, groups, np.random.default_rng(0))
    seen = [shuffle() for _ in range(50)]
    for order in seen:
        np.testing.assert_array_equal(np.sort(order), np.arange(40))
        np.testing.assert_array_equal(groups[order], groups)
    # Every row of a group is as likely in each of its places.
    assert len({int(order[0]) for order in seen}) > 8


def test_groups_that_explain_the_relation_leave_nothing():
    """Two sites differ in both views: their rows together seem related, those of one site are not."""
    rng = np.random.default_rng(0)
    site = np.repeat([0, 1], 100)
    X, Y = (rng.standard_normal((200, 3)) + 2 * site[:, None] for _ in range(2))
    model = CCA(1).fit(X, Y)
    assert model.test().p_values[0] < 1e-6
    assert model.test(X, Y, groups=site, rng=0, n_resamples=199).p_values[0] > 0.05


def test_permutations_agree_with_theory_on_normal_rows():
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((150, 4)), rng.standard_normal((150, 3))
    Y[:, 0] += 0.25 * X[:, 0]
    model = CCA(1).fit(X, Y)
    theory = model.test().p_values
    found = model.test(X, Y, method="permutation", n_resamples=1999, rng=0)
    np.testing.assert_allclose(found.p_values, theory, atol=0.03)
    np.testing.assert_allclose(
        list(found.statistics.values()), [test.p for test in model.test().statistics.values()], atol=0.04
    )


def test_threads_and_runs_agree(monkeypatch):
    U, V, rho = scores(20_000, 8, 8)
    found = []
    for threads in (1, 2, 2):
        monkeypatch.setattr(permutation, "blas_threads", lambda threads=threads: threads)
        test = step_down_permutation(U, V, rho, n_resamples=29, rng=np.random.default_rng(1))
        found.append(test.p_values)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[1], found[2])


def test_held_out_pairs_are_tested_one_by_one():
    rng = np.random.default_rng(0)
    U, V = rng.standard_normal((80, 3)), rng.standard_normal((80, 3))
    V[:, 1] += U[:, 1]
    found, test = paired_permutation(U, V, n_resamples=199, rng=rng)
    np.testing.assert_allclose(found, [np.corrcoef(u, v)[0, 1] for u, v in zip(U.T, V.T, strict=True)])
    assert test.p_values[1] == 1 / 200 == test.family_wise[1]
    assert np.all(test.p_values[[0, 2]] > 0.05)
    assert np.all(test.family_wise >= test.p_values)
    # Scores that do not vary have no correlation.
    flat, test = paired_permutation(np.ones((80, 1)), V[:, :1], n_resamples=19, rng=rng)
    assert (flat[0], test.p_values[0]) == (0, 1)


def test_family_wise_p_of_held_out_pairs_is_that_of_the_largest():
    """Westfall & Young: each is compared with the largest of itself and all smaller ones."""
    rng = np.random.default_rng(4)
    U, V = rng.standard_normal((40, 4)), rng.standard_normal((40, 4))
    V += U * [0.0, 0.5, 0.1, 0.3]
    found, test = paired_permutation(U, V, n_resamples=99, rng=np.random.default_rng(8))
    draws, rng = [], np.random.default_rng(8)
    for _ in range(99):
        order = rng.permutation(40)
        draws.append([np.corrcoef(u, v)[0, 1] for u, v in zip(U[order].T, V.T, strict=True)])
    expected, so_far = np.empty(4), 0.0
    for i in np.argsort(-found):
        smaller = found <= found[i]
        count = 1 + sum(np.max(np.array(draw)[smaller]) >= found[i] - 1e-12 for draw in draws)
        so_far = max(so_far, count / 100)
        expected[i] = so_far
    np.testing.assert_allclose(test.family_wise, expected)


@pytest.mark.parametrize("count", [0, -1, 2.5, True, None])
def test_numbers_of_permutations_are_checked(count):
    U, V, rho = scores(20, 2, 2)
    with pytest.raises(ValueError, match="n_resamples must be a whole number of at least 1"):
        step_down_permutation(U, V, rho, n_resamples=count, rng=np.random.default_rng(0))


@pytest.mark.parametrize("least", [2, 4])
def test_halves_of_groups_have_rows_of_all(least):
    """Large groups are halved; if some are small, all stay whole."""
    groups = np.repeat(np.arange(10), [least, 4, 5, 5, 4, 6, 4, 4, 7, 4])
    n = len(groups)
    for seed in range(5):
        train, test = halves(n, groups, np.random.default_rng(seed))
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(n))
        here, there = (np.bincount(groups[rows], minlength=10) for rows in (train, test))
        if least == 4:
            assert np.all(np.abs(here - there) <= 1)
        else:
            assert np.all((here == 0) | (there == 0))
            assert n / 4 < len(train) <= n / 2


def test_progress_is_reported():
    U, V, rho = scores(20, 2, 2)
    seen = []
    step_down_permutation(
        U, V, rho, n_resamples=5, rng=np.random.default_rng(0), callback=lambda *at: seen.append(at)
    )
    assert seen == [(i, 5) for i in range(1, 6)]
