"""Scores of either view or of both, as arrays or as the frames that set_output asks for."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from appgrad import CCA, KernelCCA, SparseCCA, SparseCCACV, open_views
from appgrad.data.arrays import ArrayViews
from appgrad.reporting.biplot import biplot
from appgrad.reporting.plots import scores

MODELS = {
    "cca": CCA(2),
    "kernel": KernelCCA(2, ridge=0.1),
    "nystroem": KernelCCA(2, approximation="nystroem", n_landmarks=20, random_state=0),
    "sparse": SparseCCA(2, alpha=0.05),
    "path": SparseCCACV(SparseCCA(2), n_nonzeros=[3, 4], cv=2),
}
FORMS = {
    "array": np.asarray,
    "lists": lambda m: np.asarray(m).tolist(),
    "csr": sp.csr_array,
    "pandas": lambda m: pd.DataFrame(m, columns=[f"n{j}" for j in range(m.shape[1])]),
    "polars": lambda m: pl.DataFrame(m, schema=[f"n{j}" for j in range(m.shape[1])]),
}


@pytest.fixture
def data(rng):
    X = rng.standard_normal((60, 5)) + 2
    return X, X[:, :3] @ rng.standard_normal((3, 4)) + rng.standard_normal((60, 4))


@pytest.fixture(params=list(MODELS))
def model(request, data):
    return sklearn.base.clone(MODELS[request.param]).fit(*data)


@pytest.mark.parametrize("form", list(FORMS))
def test_scores_of_each_view_alone(model, data, form):
    X, y = map(FORMS[form], data)
    U, V = model.fit(X, y).transform(X, y)
    for found, expected in (
        (model.transform(X), U),
        (model.transform(X, None), U),
        (model.transform(X=X), U),
        (model.transform(y=y), V),
        (model.transform(None, y), V),
        (model.transform(ArrayViews(*data))[1], V),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-12)
    # Fewer rows of y than the other view has: nothing is paired here.
    np.testing.assert_allclose(model.transform(y=y[:7]), V[:7], atol=1e-12)


def test_y_alone_is_checked_like_y_of_a_pair(model, data):
    X, y = data
    with pytest.raises(
        ValueError, match=r"y has 5 features, but .* is expecting 4 .* are the two views swap"
    ):
        model.transform(y=X)
    with pytest.raises(ValueError, match="NaN"):
        model.transform(y=np.full_like(y, np.nan))
    with pytest.raises(ValueError, match=r"give X, y or both, as in transform\(X\) or transform\(y=y\)"):
        model.transform()
    with pytest.raises(TypeError, match=r"holds both views: give it as X alone"):
        model.transform(y=ArrayViews(X, y))
    named = FORMS["pandas"](y)
    model.fit(X, named)
    with pytest.raises(ValueError, match="y has the feature names of the fit in another order"):
        model.transform(y=named[["n1", "n0", "n2", "n3"]])


def test_y_of_one_column_alone(data):
    X, y = data
    model = CCA(1).fit(X, y[:, 0])
    V = model.transform(X, y[:, 0])[1]
    for form in (np.asarray, pd.Series, pl.Series, list):
        np.testing.assert_allclose(model.transform(y=form(y[:, 0])), V, atol=1e-12)


def test_y_of_dask_alone(data):
    da = pytest.importorskip("dask.array")
    model = CCA(2).fit(*data).set_output(transform="pandas")
    lazy = model.transform(y=da.from_array(data[1], chunks=(20, 4)))
    assert hasattr(lazy, "__dask_graph__")
    np.testing.assert_allclose(lazy.compute(scheduler="sync"), model.array_scores(y=data[1]), atol=1e-12)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_gives_frames_of_both_views(model, data, library):
    X, y = data
    U, V = model.transform(X, y)
    frame = pd.DataFrame if library == "pandas" else pl.DataFrame
    model.set_output(transform=library)
    names = list(model.get_feature_names_out())
    assert names == [f"{type(model).__name__.lower()}{i}" for i in range(2)]
    both = model.transform(X, y)
    assert isinstance(both, tuple)
    for found, expected in zip(
        (*both, model.transform(X), model.transform(y=y), *model.transform(ArrayViews(X, y))),
        (U, V, U, V, U, V),
        strict=True,
    ):
        assert isinstance(found, frame)
        assert list(found.columns) == names
        np.testing.assert_allclose(found, expected, atol=1e-12)
    for found in model.fit_transform(X, y):
        assert isinstance(found, frame)
    assert model.score(X, y) == pytest.approx(np.mean([np.corrcoef(U.T, V.T)[i, i + 2] for i in range(2)]))


def test_frames_keep_the_index_of_their_rows(model, data):
    index = pd.Index([f"row {i}" for i in range(60)], name="id")
    X, y = (pd.DataFrame(m, index=index).add_prefix("n") for m in data)
    model.set_output(transform="pandas").fit(X, y)
    U, V = model.transform(X, y)
    assert U.index.equals(index)
    assert V.index.equals(index)
    assert model.transform(y=y.iloc[3:9]).index.equals(index[3:9])
    # The names of the components are the same, so that pandas pairs them.
    both = U.corrwith(V).to_numpy()
    np.testing.assert_allclose(both.mean(), model.score(X, y), atol=1e-9)
    U, V = model.fit(data[0], y).transform(data[0], y)
    assert isinstance(U.index, pd.RangeIndex)
    assert V.index.equals(index)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_predict_and_plots_after_set_output(data, library):
    X, y = data
    for target in (y, y[:, 0]):
        plain = CCA(1).fit(X, target)
        framed = CCA(1).set_output(transform=library).fit(X, target)
        found = framed.predict(X)
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, plain.predict(X))
    model = CCA(2).set_output(transform=library).fit(X, y)
    pytest.importorskip("matplotlib").use("Agg")
    assert biplot(model, X, y) is not None
    assert scores(*model.transform(X, y)) is not None


def test_global_configuration_and_default(data):
    model = CCA(2).fit(*data)
    with sklearn.config_context(transform_output="pandas"):
        assert all(isinstance(part, pd.DataFrame) for part in model.transform(*data))
        assert isinstance(model.set_output(transform="default").transform(y=data[1]), np.ndarray)
    assert isinstance(model.set_output(transform=None).transform(y=data[1]), np.ndarray)
    with pytest.raises(ValueError, match="output config must be in"):
        model.set_output(transform="frames").transform(y=data[1])


def test_pipelines_and_clones_keep_set_output(data):
    X, y = data
    pipeline = make_pipeline(StandardScaler(), CCA(2)).set_output(transform="pandas").fit(X, y)
    assert list(pipeline.transform(X).columns) == ["cca0", "cca1"]
    assert all(isinstance(part, pd.DataFrame) for part in pipeline.fit_transform(X, y))
    assert isinstance(pipeline.predict(X), np.ndarray)
    copy = sklearn.base.clone(CCA(2).set_output(transform="pandas")).fit(X, y)
    assert isinstance(copy.transform(y=y), pd.DataFrame)


def test_metadata_routing(data):
    with sklearn.config_context(enable_metadata_routing=True):
        assert CCA(2).get_metadata_routing().transform.requests == {}
        pipeline = make_pipeline(StandardScaler(), CCA(2)).set_output(transform="pandas").fit(*data)
        assert isinstance(pipeline.transform(data[0]), pd.DataFrame)


def test_scores_of_files_as_frames(data, tmp_path):
    for name, m in zip("xy", data, strict=True):
        np.save(tmp_path / f"{name}.npy", m)
    views = open_views(tmp_path / "x.npy", tmp_path / "y.npy")
    U, V = CCA(2).set_output(transform="polars").fit(views).transform(views)
    assert U.shape == V.shape == (60, 2)
    assert isinstance(V, pl.DataFrame)
