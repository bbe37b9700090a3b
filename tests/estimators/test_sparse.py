"""SparseCCA: planted columns, comparison with the textbook, early ends, and bad input."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import naive
from appgrad import CCA, OverfitWarning, SparseCCA, SparseCCACV, correlations, open_views
from appgrad.datasets import sparse_planted
from appgrad.solvers.sparse.columns_in_play import Columns
from appgrad.solvers.sparse.starts import first_pairs
from helpers import failed_checks, operator, quiet
from sparse_problems import both_f1, small, standardised, support


@pytest.mark.parametrize("seed", range(5))
def test_finds_planted_columns_among_many_correlated_ones(seed):
    p = sparse_planted(500, 1000, 1000, correlations=[0.9], random_state=seed)
    model = SparseCCA(1, n_nonzero=10).fit(p.X, p.y)
    assert model.n_nonzero_ == (10, 10)
    assert both_f1(model, p) >= 0.95


def test_columns_fall_in_number_in_the_start_and_after_it():
    """Without the first, none of these are found; without the second, seven of ten."""
    p = sparse_planted(500, 1000, 1000, correlations=[0.8], random_state=109)
    assert both_f1(SparseCCA(1, n_nonzero=10).fit(p.X, p.y), p) >= 0.95


@pytest.mark.parametrize(
    "params",
    [
        {"n_nonzero": (6, 6)},
        {"alpha": 0.2},
        {"alpha": (0.2, 0.25)},
        {"alpha": 0.2, "penalty": "l1"},
        {"n_nonzero": 6, "penalty": "l1"},
        {"alpha": 0.2, "penalty": "l1", "solver": "appgrad"},
        {"n_nonzero": 6, "solver": "appgrad"},
        {"alpha": 0.2, "penalty": "l1", "solver": "stochastic", "batch_size": 50},
        {"n_nonzero": 6, "solver": "stochastic", "batch_size": 50},
    ],
)
def test_every_way_finds_what_is_easy(params):
    p = small()
    model = quiet(SparseCCA(1, random_state=0, **params), p.X, p.y)
    assert both_f1(model, p) > (0.8 if params.get("penalty") == "l1" else 0.9)
    assert model.solver_ == params.get("solver", "pursuit")
    assert model.canonical_correlations_[0] > 0.8
    U, V = model.transform(p.X, p.y)
    np.testing.assert_allclose(np.sort(correlations(U, V)), np.sort(model.training_correlations_), atol=1e-6)
    np.testing.assert_allclose(U.std(axis=0), 1, rtol=1e-6)


@pytest.mark.parametrize("k", [1, 2])
def test_l1_agrees_with_proximal_steps(k, rng):
    p = sparse_planted(200, 30, 25, correlations=[0.9, 0.8][:k], n_active=5, random_state=1)
    X, Y = standardised(p.X), standardised(p.y)
    alpha = (0.1, 0.15)
    A, B = naive.sparse_cca(X, Y, *first_pairs(Columns(operator(X, Y)), k, (5, 5)), alpha, 4000)
    for solver in ("pursuit", "appgrad"):
        model = SparseCCA(k, alpha=alpha, penalty="l1", solver=solver, tol=1e-7, ridge=0.0)
        model = quiet(model, p.X, p.y)
        assert support(model.x_weights_) == support(A)
        assert support(model.y_weights_) == support(B)
        # Canonical pairs of the same spans.
        rho, _, _ = naive.cca(X @ A, Y @ B, k)
        np.testing.assert_allclose(model.canonical_correlations_, rho, atol=1e-4)


def test_l0_agrees_with_all_subsets(rng):
    p = sparse_planted(150, 7, 6, correlations=[0.8], n_active=2, random_state=3)
    rho, a, b = naive.best_subset_cca(p.X, p.y, 2, 3)
    model = SparseCCA(1, n_nonzero=(2, 3)).fit(p.X, p.y)
    assert (support(model.x_weights_), support(model.y_weights_)) == (set(a), set(b))
    np.testing.assert_allclose(model.canonical_correlations_, rho, atol=1e-6)


def test_columns_in_use_are_whitened():
    """On its columns, a sparse model is CCA: unlike the penalised matrix decomposition."""
    p = small()
    model = SparseCCA(1, n_nonzero=6).fit(p.X, p.y)
    x, y = sorted(support(model.x_weights_)), sorted(support(model.y_weights_))
    few = CCA(1).fit(p.X[:, x], p.y[:, y])
    np.testing.assert_allclose(model.canonical_correlations_, few.canonical_correlations_, atol=1e-5)
    np.testing.assert_allclose(model.x_weights_[x], few.x_weights_, atol=1e-2)


@pytest.mark.parametrize("solver", ["auto", "pursuit", "appgrad"])
def test_without_a_penalty_it_is_cca(solver):
    p = sparse_planted(300, 8, 7, correlations=[0.9, 0.5], n_active=4, random_state=0)
    model = quiet(SparseCCA(2, alpha=0, solver=solver, tol=1e-8), p.X, p.y)
    plain = CCA(2).fit(p.X, p.y)
    np.testing.assert_allclose(model.canonical_correlations_, plain.canonical_correlations_, atol=1e-6)
    # Hardly any penalty is hardly different.
    near = SparseCCA(2, alpha=1e-6, penalty="l1", tol=1e-5).fit(p.X, p.y)
    np.testing.assert_allclose(near.canonical_correlations_, plain.canonical_correlations_, atol=1e-3)


def test_components_share_their_columns_or_have_their_own():
    p = sparse_planted(
        600, 60, 50, correlations=[0.9, 0.8], n_active=4, autocorrelation=0.0, shared=False, random_state=0
    )
    shared = SparseCCA(2, n_nonzero=8).fit(p.X, p.y)
    assert shared.n_nonzero_ == (8, 8)
    assert both_f1(shared, p) == 1
    U, V = shared.transform(p.X, p.y)
    np.testing.assert_allclose(U.T @ U / len(U), np.eye(2), atol=1e-6)
    own = SparseCCA(2, n_nonzero=4, support="component").fit(p.X, p.y)
    for i in range(2):
        assert support(own.x_weights_[:, [i]]) == support(p.x_weights[:, [i]])
        assert support(own.y_weights_[:, [i]]) == support(p.y_weights[:, [i]])
    np.testing.assert_allclose(own.canonical_correlations_, p.correlations, atol=0.05)
    assert np.all(np.diff(own.canonical_correlations_) <= 0)
    U, V = own.transform(p.X, p.y)
    np.testing.assert_allclose(correlations(U, V), own.canonical_correlations_, atol=1e-6)
    # Found one by one, scores are uncorrelated only nearly.
    assert 1e-6 < abs(U[:, 0] @ U[:, 1]) / len(U) < 0.2


def test_units_and_offsets_do_not_matter():
    p = small()
    model = SparseCCA(1, alpha=0.2).fit(p.X, p.y)
    scale = 10.0 ** np.linspace(-6, 6, p.X.shape[1])
    other = SparseCCA(1, alpha=0.2).fit(p.X * scale + 1e3 * scale, p.y - 5)
    assert support(other.x_weights_) == support(model.x_weights_)
    # The largest weight is positive, and which that is depends on units.
    np.testing.assert_allclose(np.abs(other.x_weights_ * scale[:, None]), np.abs(model.x_weights_), atol=1e-6)


def test_swapping_the_views_swaps_the_weights():
    p = small()
    model, swapped = (
        SparseCCA(1, n_nonzero=(6, 5)).fit(p.X, p.y),
        SparseCCA(1, n_nonzero=(5, 6)).fit(p.y, p.X),
    )
    assert support(model.x_weights_) == support(swapped.y_weights_)
    np.testing.assert_allclose(model.canonical_correlations_, swapped.canonical_correlations_, atol=1e-5)


@pytest.mark.parametrize("penalty", ["l0", "l1"])
def test_sparse_rows_files_and_little_memory_make_no_difference(penalty, rng, tmp_path):
    X = rng.poisson(0.3, (400, 60)).astype(float)
    Y = rng.poisson(0.3, (400, 50)).astype(float)
    Y[:, 0] += X[:, 0] + X[:, 1] + X[:, 2]
    model = SparseCCA(1, alpha=0.2, penalty=penalty, ridge=1e-3)
    dense = clone(model).fit(X, Y)
    found = [clone(model).fit(sp.csr_array(X), sp.csr_array(Y))]
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    found.append(clone(model).fit(open_views(tmp_path / "x.npy", tmp_path / "y.npy")))
    # Covariances do not fit, nor do all columns of Sxy at a time.
    with config_context(working_memory=0.02):
        found.append(clone(model).fit(sp.csr_array(X), sp.csr_array(Y)))
        found.append(clone(model).fit(X, Y))
    for other in found:
        assert support(other.x_weights_) == support(dense.x_weights_) >= {0, 1, 2}
        np.testing.assert_allclose(
            other.canonical_correlations_,
            dense.canonical_correlations_,
            atol=1e-3 if penalty == "l1" else 1e-5,
        )


@pytest.mark.parametrize("solver", ["pursuit", "appgrad"])
def test_one_column_a_side_is_the_most_correlated_pair(solver, rng):
    """Many weaker ones, which share what they are correlated by, do not distract from it."""
    z, w = rng.standard_normal((2, 2000, 1))
    X, Y = (
        np.hstack([z + 1.5 * rng.standard_normal((2000, 10)), w + 0.8 * rng.standard_normal((2000, 1))])
        for _ in range(2)
    )
    largest = np.abs(np.corrcoef(X.T, Y.T)[:11, 11:]).max()
    found = [
        quiet(SparseCCA(1, n_nonzero=n, solver=solver), X, Y).canonical_correlations_[0] for n in (1, 2, 3)
    ]
    np.testing.assert_allclose(found[0], largest, rtol=1e-6)
    assert min(found) >= largest * (1 - 1e-6)


def test_grid_search_and_pipelines():
    p = sparse_planted(400, 60, 50, n_active=5, random_state=0)
    search = GridSearchCV(SparseCCA(1), {"n_nonzero": [2, 5]}, cv=3).fit(p.X, p.y)
    assert search.best_params_ == {"n_nonzero": 5}
    frame = SparseCCA(1, n_nonzero=5).set_output(transform="pandas").fit(p.X, p.y).transform(p.X)
    assert list(frame.columns) == ["sparsecca0"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model",
    [
        SparseCCA(1, alpha=0.01),
        SparseCCA(1, alpha=0.01, penalty="l1", solver="appgrad"),
        SparseCCACV(cv=2, n_nonzeros=[1]),
    ],
)
def test_scikit_learn_checks(model):
    assert not failed_checks(model)


def test_a_run_goes_on_from_its_checkpoint(tmp_path):
    p = small()
    for params in ({"n_nonzero": 6}, {"n_nonzero": 3, "support": "component", "n_components": 2}):
        path = tmp_path / f"{len(params)}.npz"
        model = SparseCCA(**{"n_components": 1, "random_state": 0, **params})
        whole = clone(model).fit(p.X, p.y)
        quiet(clone(model).set_params(checkpoint=(str(path), 0), max_iter=3), p.X, p.y)
        rest = clone(model).set_params(checkpoint=(str(path), 0)).fit(p.X, p.y)
        assert rest.resumed_from_iteration_ == 3
        np.testing.assert_array_equal(rest.x_weights_, whole.x_weights_)


def test_budgets_callbacks_and_history():
    p = small()
    seen = []
    model = SparseCCA(1, n_nonzero=6, callback=lambda progress: seen.append(progress) or len(seen) == 2)
    model.fit(p.X, p.y)
    assert [progress.iteration for progress in seen] == [1, 2]
    assert len(model.history_) == 2
    assert seen[0].solution().x_weights.shape == (120, 1)
    with pytest.warns(UserWarning, match="max_iter"):
        SparseCCA(1, n_nonzero=6, max_iter=2).fit(p.X, p.y)


def test_a_warm_start_goes_on_from_the_last_fit():
    p = small()
    # With fewer rows than columns, rows are read in every iteration.
    model = SparseCCA(1, alpha=0.15, penalty="l1", warm_start=True).fit(p.X[:200], p.y[:200])
    first = model.n_passes_
    model.set_params(alpha=0.16).fit(p.X[:200], p.y[:200])
    assert model.n_passes_ < first / 2
    with pytest.raises(ValueError, match=r"the last fit had 120 \+ 100 columns"):
        model.fit(p.X[:, :50], p.y)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hard_columns(dtype):
    """Constant, doubled and rescaled columns."""
    p = small()
    X = np.hstack([p.X, p.X[:, :1] * 1e-5, np.ones((300, 1)), p.X[:, 3:6]]).astype(dtype)
    for params in ({"n_nonzero": 6}, {"alpha": 0.15}, {"alpha": 0.15, "penalty": "l1"}):
        model = SparseCCA(1, **params).fit(X, p.y.astype(dtype))
        assert np.all(np.isfinite(model.x_weights_))
        assert model.x_weights_.dtype == dtype
        assert model.x_weights_[121, 0] == 0
        assert model.score(X, p.y.astype(dtype)) > 0.8


def test_float32_weights_keep_their_zeros():
    p = small()
    model = SparseCCA(1, n_nonzero=6).fit(p.X.astype(np.float32), p.y.astype(np.float32))
    assert model.n_nonzero_ == (6, 6)


BAD = {
    "both": ({"alpha": 0.1, "n_nonzero": 3}, "two ways to say it"),
    "negative": ({"alpha": -0.1}, "alpha must be finite numbers of at least 0"),
    "NaN": ({"alpha": float("nan")}, "alpha must be finite"),
    "three": ({"alpha": (0.1, 0.1, 0.1)}, "alpha must be one value or a pair, got 3"),
    "none": ({"n_nonzero": 0}, "n_nonzero must be integers of at least 1"),
    "fraction": ({"n_nonzero": 2.5}, "n_nonzero must be integers"),
    "too many": ({"n_nonzero": (3, 101)}, "n_nonzero=101 is above the 100 columns of y"),
    "fewer than components": ({"n_nonzero": 1, "n_components": 2}, "at least 2, for 2 components"),
    "penalty": ({"penalty": "l2"}, "penalty must be one of"),
    "support": ({"support": "own"}, "support must be one of"),
    "solver": ({"solver": "lobpcg"}, "solver must be one of"),
    "component and appgrad": ({"support": "component", "solver": "appgrad"}, "is for solver='pursuit'"),
    "warm start": ({"warm_start": "yes"}, "warm_start must be True or False"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters(name):
    params, message = BAD[name]
    p = small()
    with pytest.raises(ValueError, match=message):
        SparseCCA(**{"n_components": 1, **params}).fit(p.X, p.y)


def test_bad_input(rng):
    p = small()
    bad = p.X.copy()
    bad[17, 2] = np.nan
    with pytest.raises(ValueError, match="column 2 of X contains NaN, first in row 17"):
        SparseCCA(1).fit(bad, p.y)
    with pytest.raises(ValueError, match=r"nothing to find|rank of the data"):
        SparseCCA(1).fit(np.ones((50, 3)), rng.standard_normal((50, 3)))
    with pytest.raises(AttributeError, match="needs all rows at a time"):
        SparseCCA(1).partial_fit(p.X, p.y)
    with pytest.raises(TypeError, match="needs rows"):
        SparseCCA.from_covariance(10, np.eye(2), np.eye(2), np.eye(2))
    for params, message in (
        ({"rule": "2se"}, "rule must be"),
        ({"cv": 200}, "holds out 1 of 300 rows at a time"),
        ({"estimator": CCA(1)}, "estimator must be None or a SparseCCA"),
        ({"alphas": [0.1], "n_nonzeros": [3]}, "two ways"),
    ):
        with pytest.raises(ValueError, match=message):
            SparseCCACV(**params).fit(p.X, p.y)


def test_columns_of_opposite_sign(rng):
    """The largest eigenvalue of their covariance, not its row sums, is what a step is measured by."""
    z = rng.standard_normal((500, 2))
    X = np.column_stack([z[:, 0], -0.9 * z[:, 0] + 0.4 * z[:, 1]])
    Y = X @ np.array([[1.0], [0.8]]) + 0.05 * rng.standard_normal((500, 1))
    found = [
        quiet(SparseCCA(1, alpha=0.02, penalty="l1", solver=solver, tol=1e-7), X, Y).canonical_correlations_
        for solver in ("pursuit", "appgrad")
    ]
    np.testing.assert_allclose(*found, atol=1e-4)
    assert found[0] > 0.95


@pytest.mark.parametrize("solver", ["pursuit", "appgrad", "stochastic"])
def test_runs_that_end_early_are_as_sparse_as_asked(solver):
    p = small()
    model = quiet(SparseCCA(1, n_nonzero=3, solver=solver, max_iter=1, batch_size=50), p.X, p.y)
    assert max(model.n_nonzero_) <= 3
    if solver == "pursuit":
        model = SparseCCA(3, n_nonzero=2, support="component", max_iter=2)
        model = quiet(model, p.X, p.y)
        assert model.x_weights_.shape == (120, 3)
        assert (model.x_weights_ != 0).sum(axis=0).max() <= 2


def test_without_a_tolerance_all_components_have_their_turn():
    p = sparse_planted(300, 40, 30, correlations=[0.9, 0.8], n_active=4, autocorrelation=0.0, shared=False)
    model = quiet(SparseCCA(2, n_nonzero=4, support="component", tol=0, max_iter=60), p.X, p.y)
    reference = SparseCCA(2, n_nonzero=4, support="component").fit(p.X, p.y)
    np.testing.assert_allclose(model.canonical_correlations_, reference.canonical_correlations_, atol=1e-3)


def test_the_best_of_many_columns_of_noise_are_said(rng):
    X, Y = rng.standard_normal((2, 100, 300))
    with pytest.warns(OverfitWarning, match=r"the best 10 \+ 10 of 300 \+ 300 columns"):
        SparseCCA(1, n_nonzero=10).fit(X, Y)


def test_components_beyond_the_rank_are_said(rng):
    z = rng.standard_normal((100, 1))
    X, Y = z * np.arange(1, 13), np.hstack([z, rng.standard_normal((100, 5))])
    with pytest.raises(ValueError, match=r"1 components are all there are|rank of the data"):
        quiet(SparseCCA(2, n_nonzero=3, support="component"), X, Y)


@pytest.mark.parametrize(
    "params",
    [{"n_nonzero": 5}, {"alpha": 0.1}, {"alpha": 0.05, "penalty": "l1"}, {"n_nonzero": 8, "penalty": "l1"}],
)
def test_columns_that_depend_on_each_other_are_not_called_a_penalty(params, rng):
    z = rng.standard_normal((200, 2))
    X = z @ rng.standard_normal((2, 30))
    Y = np.hstack([z + rng.standard_normal((200, 2)), rng.standard_normal((200, 30))])
    with pytest.raises(ValueError, match="columns of X that are left have fewer than 3 independent scores"):
        quiet(SparseCCA(3, **params), X, Y)


def test_components_of_the_same_column_are_said(rng):
    z = rng.standard_normal((200, 2))
    X = z @ rng.standard_normal((2, 30))
    Y = np.hstack([z + rng.standard_normal((200, 2)), rng.standard_normal((200, 30))])
    # What is left after two components is correlated with Y, but no third one.
    with pytest.raises(ValueError, match="X has 2 independent scores for 3 components"):
        quiet(SparseCCA(3, n_nonzero=5, support="component"), X, Y)
    X, Y = rng.standard_normal((2000, 20)), rng.standard_normal((2000, 15))
    Y[:, :2] = X[:, :1] + 0.5 * Y[:, :2]
    with pytest.raises(ValueError, match=r"X has 1 independent scores for 2 components: .* or more columns"):
        quiet(SparseCCA(2, n_nonzero=1, support="component"), X, Y)
    # One point of a grid is no reason to give up on the others.
    model = quiet(SparseCCACV(SparseCCA(2, support="component"), n_nonzeros=[1, 2, 4], cv=3), X, Y)
    assert model.grid_[model.best_index_] > 1


@pytest.mark.parametrize(("solver", "k"), [("pursuit", 1), ("pursuit", 3), ("appgrad", 2)])
def test_too_few_passes_for_a_start_are_said(solver, k, rng):
    X, Y = rng.standard_normal((2, 100, 150))
    Y[:, :3] += 3 * X[:, :3]
    model = SparseCCA(k, n_nonzero=3, solver=solver, max_passes=5)
    with pytest.raises(
        ValueError, match=r"max_passes=5 is too few .* needs \d+ for its first result"
    ) as error:
        model.fit(X, Y)
    needed = int(re.search(r"needs (\d+)", str(error.value))[1])
    passes = quiet(model.set_params(max_passes=needed), X, Y).n_passes_
    assert needed - 6 <= passes <= needed + 3
