"""The solver loop, tested with a small solver: alternating least squares on p x p matrices."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest

from appgrad.covariance.linalg import whitening
from appgrad.covariance.moments import moments
from appgrad.covariance.rows import RowCovariance
from appgrad.covariance.units import units
from appgrad.data.arrays import ArrayViews
from appgrad.data.derived import CountedViews
from appgrad.solvers.canonical import canonical
from appgrad.solvers.loop import _is_better, iterate
from appgrad.solvers.problem import Diagnostics, Limits
from naive import cca, covariances


class State(NamedTuple):
    A: np.ndarray
    B: np.ndarray


class Alternating:
    """Orthogonal iteration with exact least squares; `spoil` makes one step worse on purpose."""

    def __init__(self, tol=0.0, spoil=None, clock=None):
        self.tol, self.spoil, self.clock, self.steps = tol, spoil, clock, 0

    def init(self, cov, k, rng):
        p1, p2 = cov.units.widths
        return self.step(State(rng.standard_normal((p1, k)), rng.standard_normal((p2, k))), cov)

    def step(self, state, cov):
        self.steps += 1
        if self.clock is not None:
            self.clock.go_on(1)
        p1, p2 = len(state.A), len(state.B)
        Sx, Sxy, Syx, Sy = cov.products(np.eye(p1), np.eye(p2))
        A, B = np.linalg.solve(Sx, Sxy @ state.B), np.linalg.solve(Sy, Syx @ state.A)
        if self.steps == self.spoil:
            A, B = np.eye(p1)[:, -A.shape[1] :], np.eye(p2)[:, -B.shape[1] :]
        A = A @ whitening(A.T @ Sx @ A, np.zeros(A.shape[1])).W
        B = B @ whitening(B.T @ Sy @ B, np.zeros(B.shape[1])).W
        tcc = np.linalg.svd(A.T @ Sxy @ B, compute_uv=False).sum()
        change = 0.0 if self.steps < 90 else 1.0
        return State(A, B), Diagnostics(A, B, tcc, flops=100.0, converged=bool(self.tol and change))


@pytest.fixture
def problem(rng):
    Z = rng.standard_normal((200, 3)) * [3, 2, 1]
    X = np.hstack([Z, rng.standard_normal((200, 2))])
    Y = np.hstack([Z + rng.standard_normal((200, 3)), rng.standard_normal((200, 1))])
    views = CountedViews(ArrayViews(X, Y))
    m = moments(views)
    return X, Y, views, RowCovariance(views, m, units(m, views.dtype, ridge=0.0))


def run(problem, solver, **kwargs):
    _, _, views, cov = problem
    limits = Limits(**{k: kwargs.pop(k) for k in list(kwargs) if k in Limits._fields})
    return list(
        iterate(
            solver,
            itertools.repeat(cov),
            2,
            np.random.default_rng(0),
            finish=lambda diagnostics, stopped: canonical(cov, diagnostics.A, diagnostics.B),
            limits=limits,
            rows=lambda: views.rows,
            n=views.n_samples,
            **kwargs,
        )
    )


def test_converges_to_the_textbook(problem):
    progress = run(problem, Alternating(tol=1.0), iterations=200)
    assert progress[-1].stopped == "converged"
    assert [p.stopped for p in progress[:-1]] == [None] * (len(progress) - 1)
    solution = progress[-1].solution()
    np.testing.assert_allclose(solution.correlations, cca(*problem[:2], 2)[0], atol=1e-9)
    assert solution.residuals.max() < 1e-4


def test_iterations(problem):
    progress = run(problem, Alternating(), iterations=7)
    assert [p.iteration for p in progress] == list(range(1, 8))
    assert progress[-1].stopped == "iterations"
    assert progress[-1].record()["flops"] == 700


def test_passes(problem):
    progress = run(problem, Alternating(), passes=5)
    assert progress[-1].stopped == "passes"
    assert progress[-1].passes == 5.0  # one for the moments, one a step


def test_seconds(problem, clock):
    progress = run(problem, Alternating(clock=clock), seconds=5)
    assert progress[-1].stopped == "seconds"
    assert [p.seconds for p in progress] == [1, 2, 3, 4, 5]


def test_flops(problem):
    progress = run(problem, Alternating(), flops=450.0)
    assert (progress[-1].stopped, progress[-1].iteration) == ("flops", 5)


def test_callback_stops_and_sees_solutions(problem):
    seen = []

    def callback(progress):
        seen.append(progress.solution().correlations[0])
        return progress.iteration == 3

    progress = run(problem, Alternating(), iterations=100, callback=callback)
    assert progress[-1].stopped == "callback"
    assert len(seen) == 3
    assert seen == sorted(seen)


def test_the_best_state_is_kept(problem):
    good = run(problem, Alternating(), iterations=9)[-1].solution()
    spoiled = run(problem, Alternating(spoil=10), iterations=10)[-1]
    np.testing.assert_allclose(spoiled.solution().correlations, good.correlations, atol=1e-12)


def test_canonical_orders_rotates_and_scales(problem, rng):
    X, Y, _, cov = problem
    rho, A, B = cca(X, Y, 3)
    mixed = canonical(cov, A @ rng.standard_normal((3, 3)), B @ rng.standard_normal((3, 3)))
    np.testing.assert_allclose(mixed.correlations, rho, atol=1e-10)
    Sx, _, Sy = covariances(X, Y)
    np.testing.assert_allclose(mixed.x_weights.T @ Sx @ mixed.x_weights, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(mixed.y_weights.T @ Sy @ mixed.y_weights, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(np.abs(mixed.x_weights / A), 1, atol=1e-6)


def test_canonical_with_dependent_columns(problem, rng):
    X, Y, _, cov = problem
    rho, A, B = cca(X, Y, 2)
    solution = canonical(cov, np.c_[A, A[:, :1]], np.c_[B, B @ [1.0, 1.0]])
    np.testing.assert_allclose(solution.correlations, rho, atol=1e-8)


def test_data_that_end_end_the_run(problem):
    cov, rng = problem[3], np.random.default_rng(0)
    steps = iterate(
        Alternating(), iter([cov] * 3), 2, rng, finish=lambda *found: found, limits=Limits(), rows=int, n=1
    )
    assert [progress.stopped for progress in steps] == [None, None, "data"]


def test_a_numpy_true_stops_too(problem):
    assert len(run(problem, Alternating(), iterations=9, callback=lambda p: np.float64(p.tcc) > 0)) == 1


def test_residuals_tell_a_solution_from_what_is_near_it(problem, rng):
    X, Y, _, cov = problem
    _, A, B = cca(X, Y, 2)
    exact = canonical(cov, A, B).residuals
    near = canonical(cov, A + 0.01 * rng.standard_normal(A.shape), B).residuals
    assert exact.max() < 1e-12
    assert np.all((near > 1e-4) & (near < 0.3))


@pytest.mark.parametrize(
    ("new", "old", "better"),
    [
        ((2.0, np.inf), (1.0, np.inf), True),
        ((1.0, np.inf), (2.0, np.inf), False),
        ((1.0, np.inf), (1.0, np.inf), True),  # the newer of two equals
        ((2.0, 0.2), (1.9, 0.1), True),  # on its way: a new direction has a large residual
        ((2.5, 3.0), (2.0, 1e-3), False),  # feigned
        ((2.0, 1e-3), (2.5, 3.0), True),
        ((2.0, 1e-6), (2.0, 1e-8), False),
        ((1.0, 1e-6), (2.0, 1e-5), False),
    ],
)
def test_which_state_is_kept(new, old, better):
    def diagnostics(tcc, residual):
        return Diagnostics(np.zeros((1, 1)), np.zeros((1, 1)), tcc, 0.0, False, residual=residual)

    assert _is_better(diagnostics(*new), diagnostics(*old)) == better
    # What has converged is what was asked for.
    assert _is_better(diagnostics(*new)._replace(converged=True), diagnostics(*old))
