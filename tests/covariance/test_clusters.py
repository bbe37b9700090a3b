"""Clusters of rare columns, and the best pairs of each, beside those of dense covariances."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context

from appgrad import CCA
from appgrad.covariance import cluster_pairs as module
from appgrad.covariance import clusters
from appgrad.covariance.build import on_rows
from appgrad.covariance.cluster_pairs import best_pairs, cluster_pairs
from appgrad.covariance.clusters import Clusters, clusters_of, linked_columns, rare_columns
from appgrad.data.arrays import ArrayViews
from helpers import operator
from lobpcg_helpers import crowd

# The columns of each group in the two views.
GROUPS = [(3, 2), (1, 3), (2, 2), (2, 3), (1, 1)]


@pytest.fixture(scope="module")
def views():
    """Groups of columns with events of their own: most show one column of each view."""
    rng = np.random.default_rng(0)
    sides = [[], []]
    for sizes in GROUPS:
        rows = rng.choice(2000, 60, replace=False)
        for side, p in zip(sides, sizes, strict=True):
            Z = np.zeros((2000, p))
            Z[rows, rng.integers(0, p, 60)] = rng.integers(1, 4, 60)
            Z[rows[rng.random(60) < 0.1]] = 0
            side.append(Z)
    return [np.hstack(side) for side in sides]


def members(c):
    """The sets of columns of all clusters."""
    both = [(set(c.x[c.of_x == i]), set(c.y[c.of_y == i])) for i in np.unique(c.numbers)]
    return {(frozenset(map(int, x)), frozenset(map(int, y))) for x, y in both}


def expected():
    ends = np.cumsum(np.vstack([(0, 0), GROUPS]), axis=0)
    return {
        tuple(frozenset(range(a, b)) for a, b in zip(start, end, strict=True))
        for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)
    }


def test_groups_of_columns_are_found(views):
    cov = operator(*map(sp.csr_array, views), ridge=1e-3)
    assert members(clusters_of(cov)) == expected()


@pytest.mark.parametrize("center", [True, False])
def test_best_pairs_are_those_of_each_group_alone(views, center):
    cov = on_rows(ArrayViews(*map(sp.csr_array, views)), center=center, scale=False, ridge=1e-3)
    best = []
    for x, y in expected():
        X, y = views[0][:, sorted(x)], views[1][:, sorted(y)]
        k = min(X.shape[1], y.shape[1])
        model = CCA(k, solver="exact", ridge=1e-3, center=center).fit(X, y)
        best += list(model.canonical_correlations_)
    found = cluster_pairs(cov, 100)
    # A view with fewer columns than places has pairs of nothing, with correlations of 0.
    expect = np.zeros(len(found.rho))
    expect[: len(best)] = sorted(best, reverse=True)
    np.testing.assert_allclose(found.rho, expect, atol=1e-6)
    Gx, Gxy, Gy = cov.grams(*(W[:, : len(best)].toarray() for W in (found.A, found.B)))
    np.testing.assert_allclose(np.diag(Gx), 1, atol=1e-6)
    np.testing.assert_allclose(np.diag(Gy), 1, atol=1e-6)
    np.testing.assert_allclose(np.diag(Gxy), expect[: len(best)], atol=1e-6)


def test_only_the_best_are_returned(views):
    cov = operator(*map(sp.csr_array, views), ridge=1e-3)
    rho = cluster_pairs(cov, 100).rho
    np.testing.assert_allclose(cluster_pairs(cov, 3).rho, rho[:3])


def in_blocks(X, y, rows, ridge=1e-3):
    """The operator on blocks of so many rows."""
    cov = operator(X, y, ridge=ridge)
    cov.views.block_rows = rows
    assert len(list(cov.views.blocks())) > 1
    return cov


def test_blocks_add_up(views):
    X, y = map(sp.csr_array, views)
    whole = cluster_pairs(operator(X, y, ridge=1e-3), 100).rho
    np.testing.assert_allclose(cluster_pairs(in_blocks(X, y, 300), 100).rho, whole, rtol=1e-12)


def test_clusters_solved_one_at_a_time(views, monkeypatch):
    cov = operator(*map(sp.csr_array, views), ridge=1e-3)
    rho = cluster_pairs(cov, 100).rho
    monkeypatch.setattr(module, "STACK", 1)
    np.testing.assert_allclose(cluster_pairs(cov, 100).rho, rho, rtol=1e-12)


def test_columns_that_coincide_do_not_break_the_factors(views):
    X, y = views
    X, y = np.hstack([X, X]), np.hstack([y, y])
    found = cluster_pairs(operator(*map(sp.csr_array, (X, y)), ridge=0.0), 100)
    assert np.all(np.isfinite(found.A.data))
    assert np.all(np.isfinite(found.B.data))
    assert found.rho[0] <= 1 + 1e-6


def test_a_large_cluster_falls_apart_at_its_weakest_links():
    """Chains of strong links, each joined to the next by a weak one."""
    m = clusters.LARGEST // 4
    i = np.concatenate([np.arange(6 * m), np.arange(6 * m - 1)])
    j = np.concatenate([np.arange(6 * m), np.arange(1, 6 * m)])
    strength = np.where((i % m == m - 1) & (j == i + 1), 0.1, 0.5)
    c = linked_columns(np.arange(6 * m), np.arange(6 * m), i, j, strength)
    assert members(c) == {
        (frozenset(range(s, s + m)), frozenset(range(s, s + m))) for s in range(0, 6 * m, m)
    }
    # Links that are no stronger than others cannot tell where: no cluster.
    even = linked_columns(np.arange(6 * m), np.arange(6 * m), i, j, np.full(len(i), 0.5))
    assert members(even) == set()


def test_columns_without_a_link_are_in_no_cluster():
    c = linked_columns(np.array([4, 7, 9]), np.array([1, 2]), np.array([1]), np.array([0]), np.array([0.3]))
    assert members(c) == {(frozenset({7}), frozenset({1}))}
    none = linked_columns(np.arange(3), np.arange(2), np.array([1]), np.array([0]), np.array([0.0]))
    assert members(none) == set()


@pytest.mark.parametrize("signs", [False, True])
def test_rare_columns_have_about_the_entries_asked_for(rng, signs):
    density = np.concatenate([np.full(20, 0.5), np.full(50, 0.02)])
    X = (rng.random((4000, 70)) < density).astype(float)
    if signs:
        X *= rng.choice([-1.0, 1.0], X.shape)
    counts = clusters._stored(operator(sp.csr_array(X), X, ridge=1e-3))
    np.testing.assert_array_equal(counts[0], np.count_nonzero(X, axis=0))
    np.testing.assert_array_equal(counts[1], np.full(70, 4000))
    x, y = rare_columns([counts[0], counts[0]], 4000, 2.3)
    assert set(x) == set(y) == set(range(20, 70))
    assert len(np.concatenate(rare_columns([counts[0], counts[0]], 4000, 1.0))) == pytest.approx(50, abs=5)


def with_long_row(rng, p, of_y):
    """Some p clusters of a column of each view, and a row that has all columns of x, and of y if asked."""
    events = rng.integers(0, p, 5 * p)
    Z = sp.csr_array((np.ones(5 * p), (np.arange(5 * p), events)), shape=(5 * p, p))
    last = sp.csr_array(np.ones((1, p)))
    sides = (sp.vstack([Z, row], format="csr") for row in (last, last * float(of_y)))
    return operator(*sides, ridge=1e-4)


def peak_of(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_longest_rows_are_left_out_where_products_are_many(rng):
    """Otherwise one row would take the products of all of its columns with each other."""
    cov, found = with_long_row(rng, 3000, of_y=True), []
    assert peak_of(lambda: found.append(clusters_of(cov))) < 30e6
    seen = np.flatnonzero(clusters._stored(cov)[0] > 2).tolist()
    assert members(found[0]) >= {(frozenset([i]), frozenset([i])) for i in seen}


def test_a_long_row_makes_no_products_between_clusters(rng):
    cov, c = with_long_row(rng, 3000, of_y=False), Clusters(*(np.arange(3000) for _ in range(4)))
    assert peak_of(lambda: best_pairs(cov, c, 100)) < 30e6


def test_fewer_columns_are_looked_at_where_sums_do_not_fit(monkeypatch):
    asked = []
    few = clusters._clusters

    def found(cov, x, y):
        asked.append(len(x))
        return None if len(asked) < 3 else few(cov, x, y)

    monkeypatch.setattr(clusters, "_clusters", found)
    X = sp.random_array((500, 300), density=0.05, rng=np.random.default_rng(0), format="csr")
    assert clusters_of(operator(X, X, ridge=1e-3)) is not None
    assert asked[0] > asked[1] > asked[2] > 0
    monkeypatch.setattr(clusters, "_clusters", lambda *args: None)
    assert clusters_of(operator(X, X, ridge=1e-3)) is None
    assert cluster_pairs(operator(X, X, ridge=1e-3), 10) is None


def test_sums_that_do_not_fit_are_not_gathered():
    cov, every = in_blocks(*crowd(4000, 600), 1000), np.arange(1200)
    assert clusters._clusters(cov, every, every) is not None
    with config_context(working_memory=0.1):
        assert clusters._clusters(cov, every, every) is None


def test_data_without_clusters_have_no_pairs(rng):
    X, y = (sp.csr_array(np.kron(np.eye(2), np.ones((50, 1))) * v) for v in (1.0, 2.0))
    c = Clusters(*(np.zeros(0, int) for _ in range(4)))
    found = best_pairs(operator(X, y[rng.permutation(100)], ridge=1e-3), c, 5)
    assert found.A.shape == found.B.shape == (2, 0)
