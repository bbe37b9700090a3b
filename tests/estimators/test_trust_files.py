"""What files and results say of tests: all of it is kept, and nothing that contradicts itself is read."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from appgrad import CCA, load
from appgrad.datasets import planted
from appgrad.fitting import archive
from appgrad.inference.results import CanonicalTest


@pytest.fixture(scope="module")
def data():
    p = planted(300, 8, 6, [0.8, 0.5], random_state=0)
    return p.X, p.y


def test_files_keep_it_all(tmp_path, data):
    model = CCA(2).fit(*data)
    model.save(tmp_path / "m.cca")
    loaded = load(tmp_path / "m.cca")
    np.testing.assert_array_equal(loaded.test().p_values, model.test().p_values)
    assert loaded.noise == model.noise
    for name in ("effective_rows_", "x_redundancy_", "y_explained_variance_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    np.testing.assert_array_equal(loaded.debiased_correlations(), model.debiased_correlations())


def test_files_of_0_1_0_say_what_they_cannot_know():

    model = load(Path(__file__).parents[1] / "files_of_0_1_0" / "cca_exact.cca")
    assert np.isnan(model.noise_level_)
    assert "saved by a version that did not keep" in model.noise_level_reason_
    assert np.all(np.isnan(model.effective_rows_))
    assert np.all(model.x_redundancy_ <= model.x_explained_variance_)
    with pytest.raises(ValueError, match="give rows"):
        model.test()


def test_results_are_tables_text_html_and_json(data):
    found = CCA(2).fit(*data).test()
    assert isinstance(found, CanonicalTest)
    with pytest.raises(AttributeError):
        found.method = "x"
    assert list(found.table.columns[:6]) == [
        "Canonical Correlation",
        "Wilks' lambda",
        "Num DF",
        "Den DF",
        "F Value",
        "Pr > F",
    ]
    np.testing.assert_array_equal(found.table["Pr > F"], found.p_values)
    assert list(found.multivariate.index)[1] == "Pillai's trace"
    assert found.multivariate.loc["Roy's greatest root", "Pr > F"] < 1e-10
    facts = json.loads(found.to_json())
    assert facts["table"]["Pr > F"] == found.p_values.tolist()
    assert facts["multivariate"]["Pillai's trace"]["df1"] == 48
    assert found.conclusion() in found.summary()
    page = found._repr_html_()
    assert page.count("<table>") == 2
    assert "Wilks&#x27; lambda" in page


def test_without_pandas_tables_are_record_arrays(data, monkeypatch):

    monkeypatch.setitem(sys.modules, "pandas", None)
    found = CCA(2).fit(*data).test()
    assert isinstance(found.table, np.recarray)
    np.testing.assert_array_equal(found.table["Pr > F"], found.p_values)
    assert found.multivariate["statistic"][3] == "Roy's greatest root"


def test_results_are_values_that_cannot_be_changed(data):
    model = CCA(1).fit(*data)
    one, two = model.test(), model.test()
    assert one == one
    assert one != two
    assert len({one, two}) == 2
    with pytest.raises(ValueError, match="read-only"):
        one.p_values[0] = 1.0
    again = CanonicalTest.from_dict(json.loads(one.to_json()))
    assert again.summary() == one.summary()
    permuted = model.test(*data, method="permutation", n_resamples=9, rng=0)
    assert CanonicalTest.from_dict(json.loads(permuted.to_json())).summary() == permuted.summary()


def tampered(arrays, meta, how):
    squares, found = arrays["all_squared_correlations"], meta["trust"]
    if how == "ascending":
        arrays["all_squared_correlations"] = squares[::-1].copy()
    elif how == "NaN":
        arrays["all_squared_correlations"] = np.full_like(squares, np.nan)
    elif how == "other ranks":
        found["dimensions"][1] = [5, 5]
    elif how == "negative rows":
        found["spectrum"][2] = -5.0
    elif how == "more left than there was":
        found["spectrum"][1] = [50.0, 6.0]
    elif how == "text":
        found["dimensions"][3] = 7
    elif how == "above one":
        arrays["effective_rows_"] = np.array([-1.0, 2.0])


@pytest.mark.parametrize(
    "how",
    ["ascending", "NaN", "other ranks", "negative rows", "more left than there was", "text", "above one"],
)
def test_tampered_correlations_are_refused(data, tmp_path, how):

    CCA(2).fit(*data).save(tmp_path / "m.cca")
    arrays, meta = archive.read(tmp_path / "m.cca")
    tampered(arrays, meta, how)
    for name in ("format", "version"):
        meta.pop(name)
    archive.write(tmp_path / "m.cca", arrays, meta)
    with pytest.raises(ValueError, match="is damaged or not an appgrad model file"):
        load(tmp_path / "m.cca")


def spoiled(found, how):
    name = "Wilks' lambda"
    if how == "p below zero":
        found["multivariate"][name]["p"] = -5.0
    elif how == "another kind":
        found["multivariate"][name] = {"p": 0.5}
    elif how == "ranks":
        found["ranks"] = ["7", 3]
    elif how == "rows":
        found["n_samples"] = -3
    elif how == "length":
        found["p_values"] = found["p_values"][:-1]
    elif how == "method":
        found["method"] = "guess"
    return found


@pytest.mark.parametrize("how", ["p below zero", "another kind", "ranks", "rows", "length", "method"])
def test_spoiled_results_are_refused(data, how):
    found = spoiled(json.loads(CCA(1).fit(*data).test().to_json()), how)
    with pytest.raises((TypeError, KeyError, ValueError)):
        CanonicalTest.from_dict(found)
