"""Clusters of rare columns, and the best pairs of each, beside those of dense covariances."""

import numpy as np
import pytest
import scipy.sparse as sp

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
    found = cluster_pairs(cov, 100, 0.0)
    np.testing.assert_allclose(found.rho, sorted(best, reverse=True), atol=1e-6)
    Gx, Gxy, Gy = cov.grams(found.A.toarray(), found.B.toarray())
    np.testing.assert_allclose(np.diag(Gx), 1, atol=1e-6)
    np.testing.assert_allclose(np.diag(Gy), 1, atol=1e-6)
    np.testing.assert_allclose(np.diag(Gxy), found.rho, atol=1e-6)


def test_only_the_best_are_returned(views):
    cov = operator(*map(sp.csr_array, views), ridge=1e-3)
    rho = cluster_pairs(cov, 100, 0.0).rho
    np.testing.assert_allclose(cluster_pairs(cov, 3, 0.0).rho, rho[:3])
    least = (rho[1] + rho[2]) / 2
    np.testing.assert_allclose(cluster_pairs(cov, 100, least).rho, rho[:2])
    assert cluster_pairs(cov, 100, 1.0).A.shape == (views[0].shape[1], 0)


def test_clusters_solved_one_at_a_time(views, monkeypatch):
    cov = operator(*map(sp.csr_array, views), ridge=1e-3)
    rho = cluster_pairs(cov, 100, 0.0).rho
    monkeypatch.setattr(module, "AT_ONCE", 1)
    np.testing.assert_allclose(cluster_pairs(cov, 100, 0.0).rho, rho, rtol=1e-12)


def test_columns_that_coincide_do_not_break_the_factors(views):
    X, y = views
    X, y = np.hstack([X, X]), np.hstack([y, y])
    found = cluster_pairs(operator(*map(sp.csr_array, (X, y)), ridge=0.0), 100, 0.0)
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


def test_rare_columns_have_about_the_entries_asked_for(rng):
    density = np.concatenate([np.full(20, 0.5), np.full(50, 0.02)])
    X = sp.csr_array((rng.random((4000, 70)) < density).astype(float))
    x, y = rare_columns(operator(X, X, ridge=1e-3), 2.3)
    assert set(x) == set(y) == set(range(20, 70))
    assert len(np.concatenate(rare_columns(operator(X, X, ridge=1e-3), 1.0))) == pytest.approx(50, abs=5)


def test_too_many_products_are_not_gathered(monkeypatch):
    X, y = crowd(2000, 100)
    cov = operator(X, y, ridge=1e-3)
    assert clusters_of(cov) is not None
    monkeypatch.setattr(clusters, "PRODUCTS", 0)
    assert clusters_of(cov) is None
    assert cluster_pairs(cov, 10, 0.0) is None


def test_fewer_columns_are_looked_at_where_products_are_many(monkeypatch):
    asked = []
    few = clusters._clusters

    def found(cov, x, y):
        asked.append(len(x))
        return None if len(asked) < 3 else few(cov, x, y)

    monkeypatch.setattr(clusters, "_clusters", found)
    X = sp.random_array((500, 300), density=0.05, rng=np.random.default_rng(0), format="csr")
    assert clusters_of(operator(X, X, ridge=1e-3)) is not None
    assert asked[0] > asked[1] > asked[2] > 0


def test_data_without_clusters_have_no_pairs(rng):
    X, y = (sp.csr_array(np.kron(np.eye(2), np.ones((50, 1))) * v) for v in (1.0, 2.0))
    c = Clusters(*(np.zeros(0, int) for _ in range(4)))
    found = best_pairs(operator(X, y[rng.permutation(100)], ridge=1e-3), c, 5, 0.0)
    assert found.A.shape == found.B.shape == (2, 0)
