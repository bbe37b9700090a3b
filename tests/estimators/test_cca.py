import warnings

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cross_decomposition import CCA as SklearnCCA  # noqa: N811
from sklearn.datasets import load_linnerud
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from appgrad import CCA, OverfitWarning, correlations
from appgrad.data.arrays import ArrayViews
from naive import cca


@pytest.fixture
def data(rng):
    X = rng.standard_normal((120, 5)) + 2
    return X, X[:, :3] @ rng.standard_normal((3, 4)) + rng.standard_normal((120, 4))


def test_scikit_learn_checks():
    """Every check that scikit-learn's own CCA passes, ours passes too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (
            {r["check_name"]: r for r in check_estimator(c(n_components=1), on_fail=None, on_skip=None)}
            for c in (CCA, SklearnCCA)
        )
    failed = {name: r["exception"] for name, r in ours.items() if r["status"] == "failed"}
    assert not failed
    passed = {name for name, r in theirs.items() if r["status"] == "passed"}
    assert passed <= {name for name, r in ours.items() if r["status"] == "passed"}
    assert len(passed) > 40


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solver", ["als", "appgrad", "stochastic"])
def test_scikit_learn_checks_of_iterative_solvers(solver):
    """A minibatch no larger than the smallest data the checks use, which is four rows."""
    model = CCA(1, solver=solver, batch_size=4, max_iter=50, random_state=0)
    found = check_estimator(model, on_fail=None, on_skip=None)
    assert not {r["check_name"]: r["exception"] for r in found if r["status"] == "failed"}


def test_attributes(data):
    X, y = data
    model = CCA(3).fit(X, y)
    rho, _, _ = cca(X, y, 3)
    np.testing.assert_allclose(model.canonical_correlations_, rho, atol=1e-9)
    assert model.x_weights_.shape == model.x_loadings_.shape == (5, 3)
    assert model.y_weights_.shape == model.y_loadings_.shape == (4, 3)
    np.testing.assert_array_equal(model.x_rotations_, model.x_weights_)
    np.testing.assert_array_equal(model.y_rotations_, model.y_weights_)
    np.testing.assert_allclose(model.x_mean_, X.mean(axis=0))
    np.testing.assert_allclose(model.y_std_, y.std(axis=0))
    assert (model.n_features_in_, model.n_features_y_, model.n_samples_) == (5, 4, 120)
    assert model.solver_ == "exact"
    assert model.n_iter_ == [1, 1, 1]
    # One for the covariances, and one that says on how many rows components rest.
    assert model.n_passes_ == 2.0
    assert model.history_[0]["tcc"] == pytest.approx(rho.sum())
    assert list(model.get_feature_names_out()) == ["cca0", "cca1", "cca2"]
    assert CCA(3, solver="qr").fit(X, y).n_passes_ == 3.0


def test_scores_have_unit_variance_and_these_correlations(data):
    X, y = data
    model = CCA(3).fit(X, y)
    U, V = model.transform(X, y)
    np.testing.assert_allclose(np.cov(U.T, bias=True), np.eye(3), atol=1e-8)
    np.testing.assert_allclose(np.cov(V.T, bias=True), np.eye(3), atol=1e-8)
    np.testing.assert_allclose(correlations(U, V), model.canonical_correlations_, atol=1e-8)
    np.testing.assert_array_equal(model.transform(X), U)
    np.testing.assert_allclose(model.fit_transform(X, y)[1], V)
    assert model.score(X, y) == pytest.approx(model.canonical_correlations_.mean(), abs=1e-8)


def test_with_a_ridge_training_scores_are_never_less_correlated(data):
    X, y = data
    model = CCA(3, ridge=1.0).fit(X, y)
    U, V = model.transform(X, y)
    np.testing.assert_allclose(U.var(axis=0), 1, atol=1e-9)
    assert np.all(correlations(U, V) >= model.canonical_correlations_ - 1e-9)
    np.testing.assert_allclose(model.training_correlations_, correlations(U, V), atol=1e-9)
    assert model.training_correlations_[0] > model.canonical_correlations_[0] + 0.05
    np.testing.assert_allclose(model.canonical_correlations_, cca(X, y, 3, ridge=1.0)[0], atol=1e-9)


def test_ridge_forms_agree(data):
    expected = CCA(2, ridge=(0.1, 0.1)).fit(*data).canonical_correlations_
    for ridge in (0.1, [0.1, 0.1], np.float32(0.1), np.array(0.1), np.array([0.1, 0.1])):
        found = CCA(2, ridge=ridge).fit(*data).canonical_correlations_
        np.testing.assert_allclose(found, expected, atol=1e-8)
    half = CCA(2, ridge=("auto", 0.1)).fit(*data).canonical_correlations_
    np.testing.assert_allclose(half, CCA(2, ridge=(0.0, 0.1)).fit(*data).canonical_correlations_, atol=1e-8)


def test_predict_with_all_components_is_least_squares(data):
    X, y = data
    model = CCA(4).fit(X, y)
    expected = LinearRegression().fit(X, y).predict(X)
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-7)
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, expected, atol=1e-7)


@pytest.mark.parametrize("solver", ["exact", "qr"])
def test_with_a_ridge_prediction_is_least_squares_on_the_scores(data, solver):
    X, y = data
    model = CCA(2, ridge=2.0, solver=solver).fit(X, y)
    U = model.transform(X)
    np.testing.assert_allclose(model.predict(X), LinearRegression().fit(U, y).predict(U), atol=1e-7)
    np.testing.assert_allclose(model.inverse_transform(U), LinearRegression().fit(U, X).predict(U), atol=1e-7)


def test_one_dimensional_y(data):
    X, y = data
    for target in (y[:, 0], pd.Series(y[:, 0], name="t"), pl.Series("t", y[:, 0]), list(y[:, 0])):
        model = CCA(1).fit(X, target)
        assert model.predict(X).shape == (120,)
        assert model.transform(X, target)[1].shape == (120, 1)
    np.testing.assert_allclose(model.predict(X), LinearRegression().fit(X, y[:, 0]).predict(X), atol=1e-7)
    assert CCA(1).fit(X, y[:, :1]).predict(X).shape == (120, 1)


def test_inverse_transform_with_all_components(data):
    X, y = data[0][:, :4], data[1]
    model = CCA(4).fit(X, y)
    rows_x, rows_y = model.inverse_transform(*model.transform(X, y))
    np.testing.assert_allclose(rows_x, X, atol=1e-7)
    np.testing.assert_allclose(rows_y, y, atol=1e-7)
    with pytest.raises(ValueError, match="there are 4 components"):
        model.inverse_transform(X[:, :3])


SPARSE = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


@pytest.mark.parametrize("kind", [f"{name}_{of}" for name in SPARSE for of in ("array", "matrix")])
def test_sparse_of_every_format(kind, rng):
    X, y = rng.poisson(0.4, (60, 6)), rng.poisson(0.5, (60, 4))
    y[:, :2] += X[:, :2]
    make = getattr(sp, kind)
    model = CCA(2).fit(make(X), make(y))
    expected = CCA(2).fit(X, y)
    np.testing.assert_allclose(model.canonical_correlations_, expected.canonical_correlations_, atol=1e-10)
    np.testing.assert_allclose(model.transform(make(X), make(y))[1], expected.transform(X, y)[1], atol=1e-8)
    assert model.score(make(X), make(y)) == pytest.approx(expected.score(X, y))


def test_unusual_sparse(rng):
    """Explicit zeros, duplicates, unsorted and 64-bit indices; the input is not touched."""
    dense_x, y = rng.poisson(0.4, (60, 6)).astype(float), rng.standard_normal((60, 3))
    coo = sp.coo_array(dense_x)
    row = np.r_[coo.row, coo.row, [0, 5]]
    col = np.r_[coo.col, coo.col, [0, 5]]
    order = rng.permutation(len(row))
    data = np.r_[coo.data * 0.25, coo.data * 0.75, [0.0, 0.0]][order]
    by_row = np.argsort(row[order], kind="stable")
    indptr = np.r_[0, np.cumsum(np.bincount(row, minlength=60))].astype(np.int64)
    odd = sp.csr_array((data[by_row], col[order][by_row].astype(np.int64), indptr), shape=(60, 6))
    assert not odd.has_canonical_format
    before = odd.data.copy(), odd.indices.copy()
    found = CCA(2).fit(odd, y).canonical_correlations_
    np.testing.assert_allclose(found, CCA(2).fit(dense_x, y).canonical_correlations_, atol=1e-10)
    np.testing.assert_array_equal(odd.data, before[0])
    np.testing.assert_array_equal(odd.indices, before[1])


def test_duplicates_do_not_make_a_column_look_full(rng):
    """Sixty stored entries in sixty rows, but one row has two and another none."""
    indptr = np.r_[0, 2, 2 + np.arange(59)]
    # So many empty columns that the product is a sparse one.
    X = sp.csr_array((rng.standard_normal(60) + 9, np.zeros(60, int), indptr), shape=(60, 40))
    y = sp.random_array((60, 10), density=0.06, rng=rng, format="csr")
    found = CCA(1).fit(X, y).canonical_correlations_
    np.testing.assert_allclose(found, CCA(1).fit(X.toarray(), y).canonical_correlations_, atol=1e-9)


ARRAYS = {
    "float32": lambda m: m.astype(np.float32),
    "float16": lambda m: m.astype(np.float16),
    "longdouble": lambda m: m.astype(np.longdouble),
    "big-endian": lambda m: m.astype(">f8"),
    "fortran": np.asfortranarray,
    "strided": lambda m: np.repeat(np.repeat(m, 2, axis=0), 3, axis=1)[::2, ::3],
    "reversed": lambda m: m[::-1][::-1],
    "list": lambda m: m.tolist(),
    "object": lambda m: m.astype(object),
    "int": lambda m: np.round(m * 1000).astype(np.int32),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_of_every_kind(kind, data):
    X, y = (ARRAYS[kind](m) for m in data)
    found = CCA(2).fit(X, y)
    atol = {"float32": 1e-5, "float16": 1e-2, "int": 1e-3}.get(kind, 1e-9)
    expected = CCA(2).fit(*data)
    np.testing.assert_allclose(found.canonical_correlations_, expected.canonical_correlations_, atol=atol)
    single = kind in ("float32", "float16")
    assert found.x_weights_.dtype == (np.float32 if single else np.float64)
    assert found.transform(X).dtype == (np.float32 if single else np.float64)


def test_read_only_memmap_is_neither_copied_nor_changed(data, tmp_path):
    for name, m in zip("xy", data, strict=True):
        np.save(tmp_path / f"{name}.npy", m)
    X, y = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "xy")
    found = CCA(2).fit(X, y)
    np.testing.assert_allclose(found.canonical_correlations_, CCA(2).fit(*data).canonical_correlations_)
    np.testing.assert_array_equal(X, data[0])


def test_a_views_object_holds_both(data):
    views = ArrayViews(*data)
    model = CCA(2).fit(views)
    np.testing.assert_allclose(model.transform(views)[1], model.transform(*data)[1])
    assert model.score(views) == pytest.approx(model.score(*data))
    np.testing.assert_allclose(model.predict(views), model.predict(data[0]))
    with pytest.raises(ValueError, match="holds both views already"):
        CCA(2).fit(views, data[1])


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_give_feature_names(frame, data):
    X = frame(dict(zip("abcde", data[0].T, strict=True)))
    y = frame(dict(zip("pqrs", data[1].T, strict=True)))
    model = CCA(2).fit(X, y)
    assert list(model.feature_names_in_) == list("abcde")
    assert list(model.feature_names_y_) == list("pqrs")
    np.testing.assert_allclose(model.transform(X, y)[1], CCA(2).fit(*data).transform(*data)[1])
    with pytest.raises(ValueError, match="feature names"):
        model.transform(X[list("edcba")])
    with pytest.raises(ValueError, match="y has the feature names of the fit in another order"):
        model.transform(X, y[list("srqp")])
    with pytest.raises(
        ValueError, match=r"other feature names than in fit: missing \['s'\], unexpected \['z'\]"
    ):
        model.transform(
            X,
            frame(dict(zip("pqrz", data[1].T, strict=True))),
        )
    model.fit(*data)
    assert not hasattr(model, "feature_names_in_")


def test_set_output_pandas(data):
    X, y = pd.DataFrame(data[0], columns=list("abcde")), data[1]
    U = CCA(2).set_output(transform="pandas").fit(X, y).transform(X)
    assert isinstance(U, pd.DataFrame)
    assert list(U.columns) == ["cca0", "cca1"]
    assert list(U.index) == list(X.index)


def test_pipeline_grid_search_clone_and_joblib(data, tmp_path):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), CCA(2)).fit(X, y)
    np.testing.assert_allclose(pipeline.transform(X), CCA(2).fit(X, y).transform(X), atol=1e-7)
    assert pipeline.predict(X).shape == y.shape
    search = GridSearchCV(CCA(), {"n_components": [1, 2, 3], "ridge": [0.0, 0.1]}, cv=3).fit(X, y)
    assert search.best_params_["n_components"] == 1
    assert len(cross_val_score(CCA(2), X, y)) == 5
    model = clone(CCA(2, ridge=(0.1, 0.2), solver="qr"))
    assert model.get_params()["ridge"] == (0.1, 0.2)
    joblib.dump(model.fit(X, y), tmp_path / "m.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "m.joblib").transform(X), model.transform(X))


@pytest.mark.parametrize("solver", ["auto", "exact", "qr"])
def test_linnerud(solver):
    X, y = load_linnerud(return_X_y=True)
    found = CCA(3, solver=solver).fit(X, y).canonical_correlations_
    np.testing.assert_allclose(found, [0.795608, 0.200556, 0.072570], atol=5e-7)


def test_agrees_with_scikit_learn_where_that_is_right(data):
    X, y = data
    U, V = SklearnCCA(2, scale=False, tol=1e-12, max_iter=10000).fit(X, y).transform(X, y)
    np.testing.assert_allclose(CCA(2).fit(X, y).canonical_correlations_, correlations(U, V), atol=1e-6)


@pytest.mark.parametrize("shape", [(40, 15, 25), (40, 60, 5), (40, 100, 100), (20, 10, 10)])
def test_trivial_correlations_are_called_so(shape, rng):
    n, p1, p2 = shape
    X, y = rng.standard_normal((n, p1)), rng.standard_normal((n, p2))
    with pytest.warns(OverfitWarning, match=f"{p1 + p2} columns for {n} rows"):
        model = CCA(1).fit(X, y)
    assert model.canonical_correlations_[0] == pytest.approx(1, abs=1e-6)
    fresh = rng.standard_normal((200, p1)), rng.standard_normal((200, p2))
    assert abs(model.score(*fresh)) < 0.3


def test_no_warning_with_a_meaningful_ridge_or_enough_rows(rng):
    X, y = rng.standard_normal((40, 60)), rng.standard_normal((40, 60))
    CCA(1, ridge=1.0).fit(X, y)
    CCA(1).fit(X[:, :3], y[:, :3])
    # Views of rank 2 are related, however many columns they have.
    Z, noise = rng.standard_normal((40, 2)), 0.01 * rng.standard_normal((40, 2))
    related = Z @ rng.standard_normal((2, 30)), (Z + noise) @ rng.standard_normal((2, 30))
    assert CCA(1).fit(*related).canonical_correlations_[0] > 0.99
    duplicates = np.repeat(X[:, :2], 30, axis=1), np.repeat(y[:, :2], 30, axis=1)
    assert CCA(1).fit(*duplicates).canonical_correlations_[0] < 0.8


def test_a_failed_fit_leaves_the_model_as_it_was(data):
    X, y = data
    model = CCA(2).fit(X, y)
    before = model.transform(X)
    bad = np.where(X[3, 1] == X, np.nan, X)[:, :4]
    with pytest.raises(ValueError, match="NaN"):
        model.fit(bad, y)
    np.testing.assert_array_equal(model.transform(X), before)
    assert model.n_features_in_ == 5
    with pytest.raises(ZeroDivisionError):
        model.set_params(callback=lambda progress: 1 / 0).fit(X[:50], y[:50])
    np.testing.assert_array_equal(model.transform(X), before)
    fresh = CCA(2)
    for X_bad, y_bad in ((bad, y), (np.eye(120)[:, :70], np.eye(120)[:, 60:])):
        with pytest.raises((ValueError, OverfitWarning)):
            fresh.fit(X_bad, y_bad)
        with pytest.raises(NotFittedError):
            fresh.transform(X)


def test_callback_and_logging(data, caplog):
    seen = []
    with caplog.at_level("INFO", logger="appgrad"):
        model = CCA(2, callback=seen.append, verbose=1).fit(*data)
    assert "exact: the covariances" in caplog.text
    assert seen[0].tcc == pytest.approx(model.canonical_correlations_.sum())
    np.testing.assert_array_equal(seen[0].solution().correlations, model.canonical_correlations_)


def test_the_library_never_prints(data, capsys):
    CCA(2, verbose=1).fit(*data)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("n_jobs", [1, 2, -1, np.int64(2)])
def test_n_jobs(n_jobs, data):
    found = CCA(2, n_jobs=n_jobs).fit(sp.csr_array(data[0]), data[1])
    expected = CCA(2).fit(*data).canonical_correlations_
    np.testing.assert_allclose(found.canonical_correlations_, expected, atol=1e-10)


def test_n_jobs_holds_for_views(data, monkeypatch):
    def no_pool(*args):
        raise AssertionError("a thread pool was made")

    views = ArrayViews(*data, threads=2)
    views.block_rows = 30
    monkeypatch.setattr("appgrad.machine.threads.workers", no_pool)
    CCA(1).fit(views)
    # As if the rows were many.
    monkeypatch.setattr("appgrad.machine.threads.FEW", 0)
    CCA(1, n_jobs=1).fit(views)
    with pytest.raises(AssertionError, match="pool"):
        CCA(1).fit(views)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_float32_in_float32_out(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((500, 6), dtype=np.float32) + 1000
    y = X[:, :4] + rng.standard_normal((500, 4), dtype=np.float32)
    model = CCA(2).fit(X, y)
    U, V = model.transform(X, y)
    assert U.dtype == V.dtype == model.predict(X).dtype == np.float32
    np.testing.assert_allclose(correlations(U, V), cca(X, y, 2)[0], atol=1e-4)
    np.testing.assert_allclose(U.var(axis=0), 1, atol=1e-3)
