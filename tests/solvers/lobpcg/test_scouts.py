"""Crowds of correlations below 1, in columns that a run's own start does not hold: found, or warned of."""

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import CCA
from appgrad.covariance.preconditioners import jacobi
from appgrad.solvers.lobpcg import iteration
from appgrad.solvers.lobpcg.algebra import measured
from appgrad.solvers.lobpcg.iteration import LOBPCG
from appgrad.solvers.lobpcg.scouts import FIRST, STEPS, best_without, grown_scouts
from helpers import operator
from lobpcg_helpers import crowd, fitted

# The data, components, ridge, and whether the run is sure in the end. Without scouts, each ended after 11 to
# 18 iterations with 0.0004 to 0.0016 of the correlation missing, one component too low by 0.002 to 0.005, and
# did not say so.
CROWDS = [
    ((8000, 600, 2, 10, 0.02, 1), 10, 1e-5, False),
    ((8000, 600, 2, 10, 0.02, 3), 10, 1e-5, False),
    ((10000, 567, 2, 5, 0.05, 0), 4, 1e-5, False),
    ((20000, 400, 3, 10, 0.3, 1), 4, 1e-6, False),
    ((20000, 600, 2, 10, 0.1, 3), 10, 5e-5, True),
]


@pytest.fixture(scope="module", params=CROWDS, ids=[str(i) for i in range(len(CROWDS))])
def fit(request):
    """A model, the correlations found and the best ones, and whether it warned and should have."""
    data, k, ridge, sure = request.param
    X, y = crowd(*data)
    model, warned = fitted(X, y, k, ridge=ridge)
    best = CCA(k, solver="exact", ridge=ridge).fit(X, y).canonical_correlations_
    return model, model.canonical_correlations_, best, warned, sure


def test_pairs_of_a_crowd_are_found(fit):
    _, rho, best, _, _ = fit
    assert 1 - rho.sum() / best.sum() <= 3e-4
    assert np.max(best - rho) <= 1e-3


def test_a_run_that_finds_no_more_does_not_warn(fit):
    _, _, _, warned, sure = fit
    assert warned != sure


def test_a_run_that_cannot_be_sure_says_why():
    X, y = crowd(8000, 400, 3, 5, 0.05, 1)
    with pytest.warns(UserWarning, match="Columns chosen at random led to pairs nearly as good as the last"):
        CCA(4, solver="lobpcg", ridge=1e-6, random_state=0).fit(X, y)


def test_random_states_send_other_scouts(monkeypatch):
    """The warning advises to compare them."""
    draws, X, y = set(), *crowd(8000, 600, 2, 10, 0.02, 1)

    def drawn(cov, joint, known, least, rng, run_from):
        draws.add(rng.integers(2**31))

    monkeypatch.setattr(iteration, "grown_scouts", drawn)
    for seed in range(2):
        fitted(X, y, 10, ridge=1e-5, random_state=seed)
    assert len(draws) == 2


@pytest.mark.parametrize(("least", "steps"), [(0.1, STEPS), (0.9999, FIRST)])
def test_scouts_that_stay_far_below_do_not_grow_to_the_end(least, steps, rng):
    X, y = (sp.random_array((400, p), density=0.1, rng=rng, format="csr") for p in (60, 50))
    cov, count = operator(X, y, ridge=1e-3), 0

    class Counted(LOBPCG):
        def step(self, state, cov):
            nonlocal count
            count += 1
            return super().step(state, cov)

    def run_from(A, B):
        return Counted(A.shape[1], jacobi(cov), 0.0, first=(A, B))

    state, _ = run_from(np.eye(60, 3), np.eye(50, 3)).init(cov, 3, rng)
    grown_scouts(cov, None, state.pairs, least, rng, run_from)
    assert count == steps


def test_no_scouts_where_correlations_are_far_from_one(monkeypatch):
    """A larger ridge leaves less of rare columns."""
    monkeypatch.setattr(iteration, "grown_scouts", None)
    X, y = crowd(8000, 600, 2, 10, 0.02, 1)
    model, warned = fitted(X, y, 10, ridge=1e-2)
    assert not warned
    assert model.canonical_correlations_[-1] < 0.8


@pytest.mark.parametrize("passes", [104, 130])
def test_passes_allowed_are_kept_with_scouts(passes):
    X, y = crowd(8000, 400, 3, 5, 0.05, 1)
    model, warned = fitted(X, y, 4, ridge=1e-6, max_passes=passes)
    assert model.n_passes_ <= passes
    assert warned


def test_a_run_resumed_between_two_looks_goes_on(tmp_path):
    X, y = crowd(8000, 600, 2, 10, 0.02, 3)
    params = {"k": 10, "ridge": 1e-5, "checkpoint": tmp_path / "c.npz"}
    whole, _ = fitted(X, y, 10, ridge=1e-5)
    fitted(X, y, **params, max_iter=35)
    model, _ = fitted(X, y, **params)
    np.testing.assert_allclose(model.canonical_correlations_, whole.canonical_correlations_, atol=1e-6)


def test_a_view_whose_columns_are_all_known_sends_none():
    """Its pairs explain them."""
    X, y = crowd(4000, 700, 2, 5, 0.02, 1)
    model, _ = fitted(X, y[:, :8], 4, ridge=1e-4)
    best = CCA(4, solver="exact", ridge=1e-4).fit(X, y[:, :8]).canonical_correlations_
    np.testing.assert_allclose(model.canonical_correlations_, best, atol=1e-3)


def test_what_known_pairs_explain_does_not_count():
    rng = np.random.default_rng(1)
    X, y = (sp.random_array((400, p), density=0.2, rng=rng, format="csr") for p in (30, 20))
    cov = operator(X, y, ridge=1e-3)
    best = CCA(4, solver="exact", ridge=1e-3).fit(X, y)
    A, B = best.x_weights_, best.y_weights_
    A, B = (W / np.sqrt(np.sum(W * S, axis=0)) for W, S in zip((A, B), cov.squares(A, B), strict=True))
    known = measured(cov, A[:, :3], B[:, :3])
    grown = measured(cov, A @ rng.standard_normal((4, 4)), B @ rng.standard_normal((4, 4)))
    assert best_without(grown, known) == pytest.approx(best.canonical_correlations_[3], rel=1e-6)
    assert best_without(known, known) == 0.0
