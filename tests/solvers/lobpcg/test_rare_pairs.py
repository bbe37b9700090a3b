"""Crowds of correlations below 1, in columns that a run's own start does not hold: found among clusters."""

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import CCA
from appgrad.solvers.lobpcg import iteration, solver
from appgrad.solvers.lobpcg.algebra import measured
from appgrad.solvers.lobpcg.all_columns import Look
from appgrad.solvers.lobpcg.rare_pairs import CLUSTER_PASSES, JOINED, RarePairs, rare_pairs
from helpers import operator
from lobpcg_helpers import crowd, fitted

# The data, components and ridge. Without the look, each ended after 11 to 18 iterations with 0.0004 to 0.0016
# of the correlation missing, one component too low by 0.002 to 0.005, and did not say so.
CROWDS = [
    ((8000, 600, 2, 10, 0.02, 1), 10, 1e-5),
    ((8000, 600, 2, 10, 0.02, 3), 10, 1e-5),
    ((10000, 567, 2, 5, 0.05, 0), 4, 1e-5),
    ((20000, 400, 3, 10, 0.3, 1), 4, 1e-6),
    ((20000, 600, 2, 10, 0.1, 3), 10, 5e-5),
]
CROWD = (8000, 600, 2, 10, 0.02, 3)


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """These columns count as too many to look at the covariances of all."""
    monkeypatch.setattr(solver, "look_for", lambda views, k: Look())


@pytest.fixture(scope="module", params=CROWDS, ids=[str(i) for i in range(len(CROWDS))])
def problem(request):
    """The data, components and ridge, and the best correlations."""
    data, k, ridge = request.param
    X, y = crowd(*data)
    return X, y, k, ridge, CCA(k, solver="exact", ridge=ridge).fit(X, y).canonical_correlations_


@pytest.mark.parametrize("seed", range(2))
def test_pairs_of_a_crowd_are_found(problem, seed):
    X, y, k, ridge, best = problem
    model, _ = fitted(X, y, k, ridge=ridge, random_state=seed)
    rho = model.canonical_correlations_
    assert 1 - rho.sum() / best.sum() <= 3e-4
    assert np.max(best - rho) <= 1e-3


def test_no_look_where_correlations_are_low(monkeypatch):
    """A larger ridge leaves less of rare columns."""
    monkeypatch.setattr(iteration, "rare_pairs", None)
    X, y = crowd(8000, 600, 2, 10, 0.02, 1)
    model, warned = fitted(X, y, 10, ridge=1e-1)
    assert not warned
    assert model.canonical_correlations_[-1] < 0.5


def test_a_run_that_cannot_be_sure_says_why(monkeypatch):
    """There are always others, as good as the last pair."""
    X, y = crowd(*CROWD)
    p, q = X.shape[1], y.shape[1]
    monkeypatch.setattr(
        iteration, "rare_pairs", lambda cov, known, least: RarePairs(np.zeros((p, 0)), np.zeros((q, 0)), True)
    )
    with pytest.warns(UserWarning, match="there are more clusters of rare columns with pairs nearly as good"):
        CCA(10, solver="lobpcg", ridge=1e-5, random_state=0).fit(X, y)


def test_looks_go_on_while_they_bring_something(monkeypatch):
    looks = []

    def counted(cov, known, least):
        found = rare_pairs(cov, known, least)
        looks.append(found.A.shape[1])
        return found

    monkeypatch.setattr(iteration, "rare_pairs", counted)
    fitted(*crowd(*CROWD), 10, ridge=1e-5)
    assert len(looks) > 1
    assert looks[0] > 0


def test_a_run_without_room_for_a_look_ends(monkeypatch):
    monkeypatch.setattr(iteration, "rare_pairs", lambda cov, known, least: None)
    model, _ = fitted(*crowd(*CROWD), 10, ridge=1e-5)
    assert model.n_iter_[0] < 30


@pytest.mark.parametrize("passes", [104, 130])
def test_passes_allowed_are_kept(passes):
    X, y = crowd(8000, 400, 3, 5, 0.05, 1)
    model, _ = fitted(X, y, 4, ridge=1e-6, max_passes=passes)
    assert model.n_passes_ <= passes


def test_a_look_takes_no_more_passes_than_are_kept_for_it(monkeypatch):
    X, y = crowd(*CROWD)
    taken, joined = [], iteration.LOBPCG._joined

    def counted(self, state, cov):
        before = cov.views.passes
        found = joined(self, state, cov)
        taken.append(cov.views.passes - before)
        return found

    monkeypatch.setattr(iteration.LOBPCG, "_joined", counted)
    fitted(X, y, 10, ridge=1e-5)
    assert 2 < max(taken) <= CLUSTER_PASSES


def test_a_run_resumed_between_two_looks_goes_on(tmp_path):
    X, y = crowd(*CROWD)
    params = {"k": 10, "ridge": 1e-5, "checkpoint": tmp_path / "c.npz"}
    whole, _ = fitted(X, y, 10, ridge=1e-5)
    fitted(X, y, **params, max_iter=whole.n_iter_[0] - 5)
    model, _ = fitted(X, y, **params)
    np.testing.assert_allclose(model.canonical_correlations_, whole.canonical_correlations_, atol=1e-6)


def test_what_known_pairs_explain_is_left_out():
    """Groups of columns that share no row: the pairs of clusters are the pairs themselves."""
    rng, p = np.random.default_rng(1), 60
    events = rng.integers(0, p, 3000)
    sides = []
    for _ in range(2):
        seen = rng.random(3000) < rng.random(p)[events] / 4 + 0.7
        rows = np.flatnonzero(seen)
        sides.append(sp.csr_array((np.ones(len(rows)), (rows, events[seen])), shape=(3000, p)))
    cov = operator(*sides, ridge=1e-4)
    best = CCA(8, solver="exact", ridge=1e-4).fit(*sides)
    A, B = best.x_weights_, best.y_weights_
    A, B = (W / np.sqrt(np.sum(W * S, axis=0)) for W, S in zip((A, B), cov.squares(A, B), strict=True))
    last = best.canonical_correlations_[-1]
    found = rare_pairs(cov, measured(cov, A[:, :5], B[:, :5]), last - 1e-6)
    _, Gxy, _ = cov.grams(found.A, found.B)
    assert len(Gxy) > 3
    assert not found.more
    # The means of columns that share no row correlate them a little.
    np.testing.assert_allclose(np.diag(Gxy)[:3], best.canonical_correlations_[5:], atol=0.01)
    assert rare_pairs(cov, measured(cov, A, B), 1.0).A.shape == (p, 0)


def test_more_pairs_than_may_join_are_mentioned():
    X, y = crowd(20000, 600, 1, 30, 0.02)
    cov = operator(X, y, ridge=1e-6)
    known = measured(cov, np.eye(600, 3), np.eye(600, 3))
    found = rare_pairs(cov, known, 0.9)
    assert found.A.shape == (600, JOINED)
    assert found.more
