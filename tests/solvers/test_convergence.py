"""What a run says to be missing: from residuals, from its gains, and when it counts as settled."""

import numpy as np
import pytest

from appgrad.solvers.convergence import Watch, by_count, by_gains, by_residuals


def test_residuals_tell_what_is_missing():
    """A pair with the residual r misses about r^2 over its distance to the correlations that r mixes in."""
    rng = np.random.default_rng(0)
    truth = np.concatenate([[0.9, 0.8, 0.7], rng.uniform(0, 0.3, 100)])
    B = np.linalg.qr(np.eye(103)[:, :3] + 0.02 * rng.standard_normal((103, 3)))[0]
    # In coordinates in which covariances within the views are I, and the one between them diag(truth).
    U, rho, Vt = np.linalg.svd(B.T @ np.diag(truth) @ B)
    x, y = B @ U, B @ Vt.T
    r, s = truth[:, None] * y - x * rho, truth[:, None] * x - y * rho
    missing = truth[:3].sum() - rho.sum()
    found = by_residuals(rho, np.sum(r * r, axis=0) + np.sum(s * s, axis=0), 3)
    assert missing < found < 5 * missing


def test_a_guard_that_may_still_rise_counts():
    rho, none = np.array([0.9, 0.8, 0.7]), np.zeros(3)
    assert by_residuals(rho, none, 2) == 0
    assert by_residuals(rho, np.array([0, 0, 0.02]), 2) == 0
    assert by_residuals(rho, np.array([0, 0, 0.2]), 2) > 0.1
    assert by_residuals(rho[:1], none[:1], 2) == np.inf


@pytest.mark.parametrize("ratio", [0.3, 0.7, 0.9])
def test_gains_that_fall_steadily_tell_the_rest(ratio):
    totals = [10 - ratio**i for i in range(12)]
    assert by_gains(totals) == pytest.approx(max(10 - totals[-1], totals[-1] - totals[-4]))


def test_gains_that_do_not_fall_tell_that_more_will_come():
    assert by_gains([1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]) == np.inf
    assert by_gains([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.5]) == np.inf
    assert by_gains([1.0, 1.5]) == np.inf
    assert by_gains([2.0] * 9) == 0


def test_a_run_is_settled_after_three_iterations_below_tol():
    watch = Watch()
    for i in range(12):
        watch = watch.after(5.0 - 0.1**i, 1e-4, 1e-4)
        # What three iterations gain is below tol from the eighth on.
        assert watch.is_settled(20, 1e-4) == (i >= 9)
    assert not watch.after(5.0, 1e-3, 1e-4).is_settled(20, 1e-4)
    assert not watch.is_settled(20, 0.0)


def test_a_run_with_nothing_left_is_settled_at_once():
    assert Watch().after(5.0, 1e-7, 1e-4).is_settled(20, 1e-4)
    assert not Watch().after(5.0, 1e-5, 1e-4).is_settled(20, 1e-4)
    # Correlations of 1 leave nothing to gain.
    assert Watch().after(4.9999, 1.0, 1e-4, 0.9999).is_settled(5, 1e-4)
    assert not Watch().after(4.99, 1.0, 1e-4, 0.998).is_settled(5, 1e-4)
    # All that is missing may be missing in one pair.
    assert not Watch().after(49.996, 1.0, 1e-4, 0.996).is_settled(50, 1e-4)
    assert Watch().after(49.996, 1.0, 1e-4, 0.9999).is_settled(50, 1e-4)


def test_more_precision_may_unsettle_a_run():
    watch = Watch((5.0,) * 9, 1e-5, 3)
    assert watch.is_settled(20, 1e-4)
    assert not watch.measured_again(5.0, 1e-2, 1e-4).is_settled(20, 1e-4)
    assert watch.measured_again(5.0, 1e-5, 1e-4).is_settled(20, 1e-4)
    # What was captured may turn out to be less.
    ones = Watch((5.0,) * 9, 1e-5, 3, 1.0)
    assert ones.is_settled(5, 1e-4)
    assert not ones.measured_again(4.5, 1.0, 1e-4, 0.9).is_settled(5, 1e-4)


def test_gains_that_fall_like_one_over_the_count_tell_the_rest():
    for count in (8, 40, 400):
        totals = [10 - 1 / t for t in range(max(1, count - 40), count + 1)]
        assert 2 <= by_count(totals, count) * count <= 3.5
    assert by_count([1.0], 0) == np.inf
    assert by_count([2.0, 1.9, 1.8, 1.7], 3) == 0
