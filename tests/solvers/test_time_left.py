"""The time left is said where it is known: of budgets always, of residuals while they fall steadily."""

import numpy as np
import pytest

from appgrad.solvers.problem import Limits
from appgrad.solvers.time_left import POINTS, TimeLeft

TOL = 1e-4


def told(residual, limits=Limits(), tol=TOL, step=0.5, steps=2000):  # noqa: B008
    """What is told after each step, and the time left as it turns out, NaN if the residual never arrives."""
    clock, seconds = TimeLeft(limits, tol), step * np.arange(1, steps + 1)
    residuals = residual(seconds)
    ends = np.flatnonzero(residuals < tol) if tol else []
    seconds = seconds[: ends[0]] if len(ends) else seconds
    found = [
        clock.after(Limits(i, 2.0 * i, t, None), r)
        for i, (t, r) in enumerate(zip(seconds, residuals, strict=False), 1)
    ]
    return found, (step * (ends[0] + 1) if len(ends) else np.nan) - seconds


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rate", [0.05, 0.2])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_steady_run_is_told_when_it_will_end(rate, noise, seed):
    rng = np.random.default_rng(seed)
    found, true = told(lambda t: np.exp(-rate * t + noise * rng.standard_normal(len(t))))
    estimates = np.array([np.nan if left.estimate is None else left.estimate for left in found])
    # Nothing at first, then for most of the run, and about right.
    assert np.isnan(estimates[:7]).all()
    assert np.mean(np.isfinite(estimates[len(estimates) // 3 :])) > (0.9 if noise == 0 else 0.3)
    known = np.isfinite(estimates)
    assert np.all(np.abs(estimates - true)[known] < 0.5 * true[known] + 0.05 * true[0])


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_a_run_that_slows_down_is_not_told_a_wrong_end(power, scale):
    """The estimate that stays at ten seconds for a minute: the end it foresees moves away as time passes."""
    found, _ = told(lambda t: (1 + t / scale) ** -power, tol=TOL, steps=4000)
    end = scale * (TOL ** (-1 / power) - 1)
    for i, left in enumerate(found, 1):
        assert left.estimate is None or left.estimate > 0.5 * (end - 0.5 * i) - 0.03 * end


def test_residuals_that_do_not_fall_tell_nothing():
    rng = np.random.default_rng(0)
    found, _ = told(lambda t: 0.01 * np.exp(0.1 * rng.standard_normal(len(t))))
    assert np.mean([left.estimate is None for left in found]) > 0.9
    found, _ = told(lambda t: np.full(len(t), np.inf))
    assert {left.estimate for left in found} == {None}


@pytest.mark.parametrize(
    "limits",
    [Limits(iterations=100), Limits(passes=200.0), Limits(seconds=50.0), Limits(iterations=100, seconds=1e3)],
)
def test_budgets_are_told_exactly(limits):
    """A run without a tolerance ends by its budget; with one, that is the most it can take."""
    for tol in (0.0, TOL):
        found, _ = told(lambda t: np.full(len(t), 0.1), limits, tol=tol, steps=100)
        for i, left in list(enumerate(found, 1))[1:]:
            known, other = (left.estimate, left.at_most) if tol == 0 else (left.at_most, left.estimate)
            assert known == pytest.approx(50 - 0.5 * i, abs=1e-9)
            assert other is None


def test_what_is_kept_of_a_long_run_does_not_grow():
    clock = TimeLeft(Limits(), TOL)
    for i in range(1, 5 * POINTS):
        left = clock.after(Limits(i, i, float(i), None), np.exp(-0.005 * i))
    assert len(clock.points) <= POINTS
    assert left.estimate == pytest.approx((-np.log(TOL) - 0.005 * i) / 0.005, rel=0.01)
