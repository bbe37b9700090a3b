"""A fitted model is one value: attributes that read it, and calls that leave it unchanged."""

import copy
import inspect
import pickle
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from appgrad import CCA, KernelCCA, OverfitWarning, SparseCCA, SparseCCACV, load
from appgrad.data.arrays import ArrayViews
from appgrad.datasets import planted
from appgrad.estimators.fitted import Fitted
from appgrad.fitting.streams.sums import SumStream
from helpers import assert_same

NYSTROEM = {"approximation": "nystroem", "n_landmarks": 20, "random_state": 0}


ESTIMATORS = {
    "CCA": CCA(2),
    "KernelCCA": KernelCCA(2),
    "KernelCCA, nystroem": KernelCCA(2, **NYSTROEM),
    "SparseCCA": SparseCCA(1, n_nonzero=3),
    "SparseCCACV": SparseCCACV(n_nonzeros=[2, 4], cv=3),
}


STREAMS = {"CCA": CCA(2), "KernelCCA": KernelCCA(2, **NYSTROEM)}


# What only models whose scores are sums of columns have.
COLUMNS = ("x_loadings_", "y_loadings_", "x_std_", "y_std_", "x_rotations_", "coef_", "intercept_")


@pytest.fixture(scope="module")
def data():
    p = planted(300, 7, 6, [0.9, 0.7, 0.5], random_state=0)
    return p.X, p.y


@pytest.fixture
def unsolvable(monkeypatch):
    """Streams may not be solved."""
    monkeypatch.setattr(SumStream, "solution", lambda *args: pytest.fail("the stream was solved"))


def attributes(model):
    """Fitted attributes that are listed."""
    return [name for name in dir(model) if name.endswith("_") and not name.startswith("_")]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_model_is_its_parameters_and_one_value(name, data):
    model = clone(ESTIMATORS[name])
    assert not attributes(model)
    with pytest.raises(NotFittedError, match="is not fitted yet"):
        check_is_fitted(model)
    model.fit(*data)
    check_is_fitted(model)
    more = {"best_estimator_", "grid_", "scores_", "best_index_"} if name == "SparseCCACV" else set()
    assert set(vars(model)) - set(model.get_params(deep=False)) == {"_fitted", *more} | (
        set() if more else {"_stream"}
    )
    listed = attributes(model)
    assert {"canonical_correlations_", "x_weights_", "n_iter_", "n_samples_", "history_"} <= set(listed)
    assert all(hasattr(model, attribute) for attribute in listed)
    assert not {"feature_names_in_", "feature_names_y_"} & set(listed)


def test_attributes_are_only_read(data):
    model = CCA(2).fit(*data)
    with pytest.raises(AttributeError):
        model.x_weights_ = np.zeros((7, 2))
    before = model.transform(data[0])
    with pytest.raises(ValueError, match="read-only"):
        model.x_weights_ *= -1
    with pytest.raises(ValueError, match="read-only"):
        model.canonical_correlations_[0] = 1
    np.testing.assert_array_equal(model.transform(data[0]), before)
    with pytest.raises(AttributeError, match="no attribute 'feature_names_in_'"):
        _ = model.feature_names_in_
    model.fit(pd.DataFrame(data[0], columns=list("abcdefg")), data[1])
    assert "feature_names_in_" in attributes(model)
    assert "feature_names_y_" not in attributes(model)


def test_kernel_models_have_no_attributes_of_columns(data):
    model = KernelCCA(2).fit(*data)
    for name in COLUMNS:
        assert not hasattr(KernelCCA, name)
        assert not hasattr(model, name)
        assert hasattr(CCA, name)
    assert {"gamma_", "ridge_"} <= set(attributes(model))


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("rows", [1, 150])
@pytest.mark.filterwarnings("ignore:landmarks, gamma")
def test_showing_a_stream_solves_nothing(name, rows, data, unsolvable):
    model = clone(STREAMS[name])
    if name == "KernelCCA":
        model.partial_fit(data[0][:100], data[1][:100])
    model.partial_fit(data[0][:rows], data[1][:rows])
    shown = model._repr_html_()
    assert "Fitted" in shown
    assert "n_features_in_" in shown
    assert "property" not in shown
    assert "canonical_correlations_" not in attributes(model)
    assert ("ridge_" in attributes(model)) == (name == "KernelCCA")
    assert len(model.get_feature_names_out()) == 2
    repr(model)
    dict(inspect.getmembers(model))
    assert model._fitted.fit is None


def test_showing_a_model_shows_its_attributes(data):
    shown = CCA(2).partial_fit(*data)
    _ = shown.canonical_correlations_
    for model in (shown, CCA(2).fit(*data), KernelCCA(2).fit(*data)):
        html = model._repr_html_()
        assert "canonical_correlations_" in html
        assert "property" not in html
    assert "canonical_correlations_" not in CCA(2)._repr_html_()


def test_a_stream_that_cannot_be_solved_says_why(data, tmp_path):
    model = CCA(2).partial_fit(data[0][:1], data[1][:1])
    check_is_fitted(model)
    assert not hasattr(model, "canonical_correlations_")
    assert not hasattr(model, "coef_")
    assert model.n_samples_ == 1
    for ask in (
        lambda: model.x_weights_,
        lambda: model.transform(data[0]),
        lambda: model.predict(data[0]),
        lambda: model.remarks,
    ):
        with pytest.raises(NotFittedError, match="above the largest possible rank of 1 rows"):
            ask()
    model.save(tmp_path / "m.cca")
    again = load(tmp_path / "m.cca").partial_fit(data[0][1:], data[1][1:])
    np.testing.assert_allclose(again.x_weights_, CCA(2).fit(*data).x_weights_, atol=1e-10)


def test_a_refit_that_raises_leaves_the_old_value(data, rng):
    model = CCA(2).fit(*data)
    value = model._fitted
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((9, 2), np.nan), np.ones((9, 2)))
    with pytest.raises(OverfitWarning):
        model.fit(rng.standard_normal((20, 15)), rng.standard_normal((20, 15)))
    with pytest.raises(ValueError, match="no rows"):
        model.fit_stream([])
    assert model._fitted is value


def test_the_solution_of_a_stream_stays_though_its_warning_is_an_error(rng):
    model = CCA(1).partial_fit(rng.standard_normal((10, 8)), rng.standard_normal((10, 8)))
    with pytest.raises(OverfitWarning):
        _ = model.canonical_correlations_
    assert model.canonical_correlations_[0] > 0.99
    assert [remark.overfit for remark in model.remarks] == [True]


def test_the_model_of_a_search_is_the_chosen_one(data):
    model = SparseCCACV(n_nonzeros=[(2, 1), (4, 1)], cv=3).fit(data[0], data[1][:, 0])
    best = model.best_estimator_
    assert model._fitted.rows is best._fitted.rows
    assert model._fitted.fit.solution is best._fitted.fit.solution
    assert model.n_passes_ > best.n_passes_
    assert model.predict(data[0]).shape == best.predict(data[0]).shape == (300,)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_have_the_same_value(again, data):
    for model in (CCA(2).fit(*data), KernelCCA(2, **NYSTROEM).fit(*data), CCA(2).partial_fit(*data)):
        found = again(model)
        assert set(vars(found)) == set(vars(model))
        np.testing.assert_array_equal(found.x_weights_, model.x_weights_)
        assert not hasattr(clone(found), "n_samples_")


def test_methods_of_streams_say_why_they_are_missing():
    for name in ("partial_fit", "fit_stream"):
        model = CCA(2, solver="lobpcg")
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match="solver='lobpcg' needs all rows at a time"):
            getattr(model, name)
        assert hasattr(model.set_params(solver="auto"), name)
        assert not hasattr(SparseCCA(2), name)
        assert getattr(CCA, name).__doc__


def test_where_a_run_went_on_from_is_not_known_of_a_file(data, tmp_path):
    model = CCA(2, solver="lobpcg").fit(*data)
    assert model.resumed_from_iteration_ == 0
    model.save(tmp_path / "m.cca")
    assert not hasattr(load(tmp_path / "m.cca"), "resumed_from_iteration_")
    assert "resumed_from_iteration_" not in attributes(load(tmp_path / "m.cca"))


def lines_of_warnings(do):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        do()
    return [(w.filename, w.category) for w in caught]


def test_warnings_point_at_the_line_that_calls(rng, tmp_path):
    X, y = rng.standard_normal((20, 15)), rng.standard_normal((20, 15))
    stream = CCA(1, max_iter=3, checkpoint=tmp_path / "c")
    for expected, do in (
        (OverfitWarning, lambda: CCA(1).fit(X, y)),
        (OverfitWarning, lambda: CCA(1).fit(ArrayViews(X, y))),
        (OverfitWarning, lambda: KernelCCA(1, gamma=1.0, ridge=1e-9).fit(X, y)),
        (UserWarning, lambda: KernelCCA(1, approximation="nystroem").fit_stream([(X, y)])),
        (UserWarning, lambda: stream.partial_fit(X, y)),
        (OverfitWarning, lambda: stream.score(X, y)),
        (OverfitWarning, lambda: CCA(1).partial_fit(X, y).coef_),
        (OverfitWarning, lambda: CCA(1).partial_fit(X, y).save(tmp_path / "m.cca")),
    ):
        found = lines_of_warnings(do)
        assert found
        assert all(line == (__file__, expected) for line in found)


def test_rows_that_come_while_the_solution_is_computed_are_counted(data, monkeypatch):
    """Another thread adds rows while this one reads: its model stays, and the next solution is of all."""
    X, y = data
    model = CCA(2).partial_fit(X[:100], y[:100])
    solve = SumStream.solution

    def slowly(stream, p1):
        monkeypatch.setattr(SumStream, "solution", solve)
        found = solve(stream, p1)
        other = threading.Thread(target=model.partial_fit, args=(X[100:], y[100:]))
        other.start()
        other.join()
        return found

    monkeypatch.setattr(SumStream, "solution", slowly)
    first = model.canonical_correlations_
    np.testing.assert_allclose(first, CCA(2).fit(X[:100], y[:100]).canonical_correlations_, atol=1e-12)
    assert model.n_samples_ == len(X)
    assert_same(model, CCA(2).fit(X, y))


def test_setting_the_solution_is_one_step_for_other_threads(data, monkeypatch):
    """Another thread adds rows between the check that no one has, and setting the solution."""
    X, y = data
    model = pickle.loads(pickle.dumps(CCA(2).partial_fit(X[:100], y[:100])))
    replace, others = Fitted._replace, []

    def slowly(fitted, **fields):
        if "fit" in fields and not others:
            others.append(threading.Thread(target=model.partial_fit, args=(X[100:], y[100:])))
            others[0].start()
            others[0].join(timeout=1)
        return replace(fitted, **fields)

    monkeypatch.setattr(Fitted, "_replace", slowly)
    model.canonical_correlations_  # noqa: B018
    others[0].join()
    assert model.n_samples_ == len(X)
    assert_same(model, CCA(2).fit(X, y))
