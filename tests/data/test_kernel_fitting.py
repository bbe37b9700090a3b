"""Kernels fitted to data: widths, default ridges, landmarks, frequencies, and their memory."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn import config_context
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

import naive
from appgrad import KernelCCA, load, open_views
from appgrad.data import kernel_fitting
from appgrad.data.kernel_fitting import default_ridge, median_gamma
from appgrad.data.kernels import Kernel
from helpers import quiet, sparse_counts
from kernel_problems import assert_same_scores, related


def test_the_default_ridge_leaves_one_dimension_for_twenty_rows():
    variances = 0.9 ** np.arange(200)
    ridge = default_ridge(variances, 200, 200)
    np.testing.assert_allclose(np.sum(variances / (variances + ridge)), 10, rtol=1e-4)
    # Units of the kernel do not matter.
    np.testing.assert_allclose(default_ridge(1e6 * variances, 200, 200), 1e6 * ridge, rtol=1e-4)
    # Features that are few for the rows need none.
    assert default_ridge(variances, 200, 10) == default_ridge(variances, 10**6, 200) == 1e-7 * variances.sum()
    # Nor is anything left to variances that fall at once, but what one row can have.
    fast = 0.01 ** np.arange(200.0)
    assert default_ridge(fast, 200, 200) == fast.sum() / 200
    # A sample shows no more dimensions than it has rows.
    assert default_ridge(variances, 10**6, 10**6) > 1e-7 * variances.sum()
    assert default_ridge(np.zeros(5), 100, 100) == 0


@pytest.mark.parametrize("solver", ["lobpcg", "als", "appgrad"])
def test_gram_matrices_that_do_not_fit_are_not_kept(solver, rng, monkeypatch):
    X, Y, Xt, Yt = related(rng, n=150, extra=20)
    # An iteration of ALS is many passes.
    tol = 1e-6 if solver == "als" else 1e-9
    model = KernelCCA(2, ridge=0.05, solver=solver, tol=tol, random_state=0)
    kept = quiet(model, X, Y)

    def refuse(views):
        raise AssertionError("n x n matrices are kept")

    monkeypatch.setattr(kernel_fitting, "stored", refuse)
    with pytest.raises(AssertionError, match="kept"):
        clone(model).fit(X, Y)
    with config_context(working_memory=0.1):
        free = quiet(clone(model), X, Y)
    np.testing.assert_allclose(free.canonical_correlations_, kept.canonical_correlations_, atol=1e-8)
    assert_same_scores(free.transform(Xt, Yt), kept.transform(Xt, Yt), 1e-4)


def test_the_ridge_of_gram_matrices_is_one_pass_in_the_end(rng):
    X, Y, *_ = related(rng, n=150)
    with config_context(working_memory=0.1):
        model = KernelCCA(2, ridge=0.05, solver="lobpcg", preconditioner="jacobi", random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.n_passes_ - model.history_[-1]["passes"], 1)


def test_all_rows_as_landmarks_are_exact(rng):
    X, Y, Xt, Yt = related(rng, extra=20)
    exact = KernelCCA(2, ridge=0.01).fit(X, Y)
    model = KernelCCA(2, ridge=0.01, approximation="nystroem", random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.canonical_correlations_, exact.canonical_correlations_, atol=1e-8)
    assert_same_scores(model.transform(Xt, Yt), exact.transform(Xt, Yt), 1e-6)
    few = KernelCCA(2, ridge=0.01, approximation="nystroem", n_landmarks=(15, 10), random_state=0).fit(X, Y)
    assert few.x_weights_.shape == (15, 2)
    assert few.y_weights_.shape == (10, 2)


def test_random_frequencies_have_the_kernel_s_inner_products(rng):
    X = rng.standard_normal((50, 3))
    model = KernelCCA(1, gamma=0.3, approximation="fourier", n_landmarks=20001, random_state=0)
    model = quiet(model, X, X[:, :1])
    f = model._fitted.rows.learned.maps[0](X)
    assert f.shape == (50, 20002)
    np.testing.assert_allclose(f @ f.T, naive.kernel("rbf", X, X, 0.3), atol=0.03)


@pytest.mark.parametrize("solver", ["exact", "lobpcg", "stochastic"])
@pytest.mark.parametrize("approximation", ["nystroem", "fourier"])
def test_features_beyond_the_budget_are_computed_in_every_pass(approximation, solver, rng, monkeypatch):
    X, Y, Xt, Yt = related(rng, n=2000, extra=20)
    model = KernelCCA(2, approximation=approximation, n_landmarks=20, solver=solver, tol=1e-8, random_state=0)
    kept = quiet(model, X, Y)
    monkeypatch.setattr("appgrad.estimators.kernel.stored", lambda views: pytest.fail("features are kept"))
    monkeypatch.setattr("appgrad.data.kernels.BLOCK_BYTES", 2**16)
    with config_context(working_memory=0.5):
        free = quiet(clone(model), X, Y)
    np.testing.assert_allclose(free.canonical_correlations_, kept.canonical_correlations_, atol=1e-7)
    assert_same_scores(free.transform(Xt, Yt), kept.transform(Xt, Yt), 1e-3)
    assert free.n_passes_ > 1


def test_features_of_files_and_of_sparse_rows(rng, tmp_path):
    X, Y = sparse_counts(rng)
    reference = {}
    for params in ({}, {"approximation": "nystroem", "n_landmarks": 30}, {"approximation": "fourier"}):
        reference[str(params)] = quiet(KernelCCA(2, random_state=0, **params), X, Y)
        # Frequencies see dense rows shifted, which moves cosines and sines, not their span.
        model = quiet(KernelCCA(2, random_state=0, **params), sp.csr_array(X), sp.csr_array(Y))
        expected = reference[str(params)].canonical_correlations_
        np.testing.assert_allclose(model.canonical_correlations_, expected, atol=1e-8)
    for name, m in (("x", X), ("y", Y)):
        np.save(tmp_path / f"{name}.npy", m)
    views = open_views(tmp_path / "x.npy", tmp_path / "y.npy")
    for params in ({}, {"approximation": "nystroem", "n_landmarks": 30}):
        model = quiet(KernelCCA(2, random_state=0, **params), views)
        expected = reference[str(params)]
        np.testing.assert_allclose(model.canonical_correlations_, expected.canonical_correlations_, atol=1e-8)
        assert_same_scores(model.transform(views), expected.transform(X, Y), 1e-6)
        assert abs(model.score(views) - expected.score(X, Y)) < 1e-8


def test_gamma_is_one_over_the_squared_median_distance(rng):
    X = rng.standard_normal((40, 3))
    squares = ((X[:, None] - X) ** 2).sum(axis=2)[np.triu_indices(40, 1)]
    np.testing.assert_allclose(median_gamma(X), 1 / np.median(squares))
    model = KernelCCA(1, kernel=("rbf", "linear")).fit(X, X[:, :1] ** 2)
    assert model.gamma_ == (pytest.approx(1 / np.median(squares)), None)
    # Most rows alike, as sparse rows often are: the median of those that differ.
    alike = np.vstack([np.zeros((90, 1)), np.full((10, 1), 2.0)])
    assert median_gamma(alike) == pytest.approx(0.25)
    assert median_gamma(np.ones((5, 2))) == 1.0


def test_gamma_of_sparse_rows_with_many_columns_needs_little_memory(rng):
    """A hundred dense rows of a million columns would be 800 MB."""
    n, p = 100, 10**6
    columns, values = rng.choice(p, (n, 5)), rng.standard_normal((n, 5))
    X = sp.csr_array((values.ravel(), (np.repeat(np.arange(n), 5), columns.ravel())), shape=(n, p))
    tracemalloc.start()
    gamma = median_gamma(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 * 2**20
    occurring = X[:, np.unique(columns)].toarray()
    assert gamma == pytest.approx(median_gamma(occurring))
    # Rows without any entries have no columns left.
    assert median_gamma(sp.csr_array((5, 3))) == 1.0


def test_all_of_a_precomputed_matrix_is_looked_at(rng, monkeypatch):
    monkeypatch.setattr(kernel_fitting, "SAMPLE", 5)
    X = rng.standard_normal((30, 40))
    K = X @ X.T
    # Two rows, which a sample misses, are further apart than any in a space with inner products.
    K[28, 29] = K[29, 28] = -2 * K.max()
    with pytest.raises(ValueError, match="kernel of X is not positive semidefinite: it has negative"):
        KernelCCA(1, kernel=("precomputed", "rbf"), random_state=0).fit(K, X)


def test_gamma_does_not_depend_on_where_rows_are(rng):
    X = rng.standard_normal((60, 3))
    assert median_gamma(X + 1e8) == pytest.approx(median_gamma(X), rel=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_cosines_do_not_depend_on_how_long_rows_are(sparse, rng):
    X, Y, *_ = related(rng, n=100)
    model, kind = KernelCCA(1, kernel=("cosine", "rbf"), ridge=0.01), sp.csr_array if sparse else np.array
    right = clone(model).fit(X, Y)
    for scale in (1e-200, 1e-16, 1e200):
        found = clone(model).fit(kind(X * scale), Y)
        np.testing.assert_allclose(found.canonical_correlations_, right.canonical_correlations_)


def test_kernels_of_single_precision_and_far_from_zero_are_kernels(rng):
    X, Y = rng.standard_normal((200, 3)), rng.standard_normal((200, 3))
    KernelCCA(1, kernel="precomputed").fit((X @ X.T).astype(np.float32), (Y @ Y.T).astype(np.float32))
    quiet(KernelCCA(1, gamma=1e-8), X, Y)
    X, Y = rng.standard_normal((2, 800, 4)).astype(np.float32)
    rough = KernelCCA(1, kernel=lambda a, b: rbf_kernel(a, b, 0.1), random_state=0)
    exact, close = (
        quiet(clone(rough).set_params(approximation=a, n_landmarks=300), X, X**2 + Y)
        for a in (None, "nystroem")
    )
    np.testing.assert_allclose(close.canonical_correlations_, exact.canonical_correlations_, atol=0.02)
    X, Y = rng.standard_normal((2, 200, 3))
    quiet(KernelCCA(1, kernel="poly"), X + 1e5, Y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_sparse_columns_far_from_zero_do_not_cancel(kernel, rng, tmp_path):
    """A column of a sparse matrix that is stored in most rows is shifted, as those of dense ones are."""
    X, Y, *_ = related(rng, n=60)
    counts = sparse_counts(rng, n=60)[0]
    X, Y = np.hstack([X + 3e5, counts]), np.hstack([Y, counts[:, :2]])
    sparse = sp.csr_array(X), sp.csr_array(Y)
    params = {"kernel": kernel, "ridge": 0.5, **({"gamma": 0.1} if kernel == "rbf" else {})}
    model, same = quiet(KernelCCA(2, **params), X, Y), quiet(KernelCCA(2, **params), *sparse)
    np.testing.assert_allclose(same.canonical_correlations_, model.canonical_correlations_, atol=1e-9)
    same.save(tmp_path / "m.cca")
    for other in (same, load(tmp_path / "m.cca")):
        assert_same_scores(other.transform(sparse[0][:7], sparse[1][:7]), model.transform(X[:7], Y[:7]), 1e-6)


def test_a_constant_view_has_no_components(rng):
    X, *_ = related(rng, n=40)
    for solver in ("auto", "lobpcg", "appgrad", "als", "stochastic"):
        with pytest.raises(ValueError, match="remove constant columns"):
            KernelCCA(1, kernel="linear", ridge=0.1, solver=solver).fit(X, np.ones((40, 1)))


@pytest.mark.parametrize("size", [1e-8, 1.0, 1e6, 1e8])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_distances_keep_what_is_small_beside_a_large_column(rng, size, form):
    """Two groups far apart: what tells rows within a group apart is lost in the squares of their values."""
    group = rng.choice([0.0, 1.0], 60, p=[0.8, 0.2])
    X = np.column_stack([rng.standard_normal((60, 3)), 1e6 * group]) * size
    exact = cdist(X, X, "sqeuclidean")
    gamma = 1 / np.median(exact[np.triu_indices(60, 1)])
    assert median_gamma(form(X)) == pytest.approx(gamma, rel=1e-10)
    K = Kernel("rbf", gamma)(form(X), form(X))
    np.testing.assert_allclose(K, np.exp(-gamma * exact), rtol=0, atol=1e-11)
    quiet(KernelCCA(1, ridge=0.1), form(X), X[:, :1] + rng.standard_normal((60, 1)) * size)


def test_rows_too_large_for_distances_are_refused(rng):
    X = rng.standard_normal((20, 2)) * 1e200
    with pytest.raises(ValueError, match="rescale"):
        KernelCCA(1).fit(X, X)
