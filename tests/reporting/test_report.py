"""appgrad.report, and the titles of reports."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import appgrad
from appgrad import CCA, KernelCCA, SparseCCA, open_views
from appgrad.reporting.titles import heading, name_of, title_of
from report_pages import Page


def page_of(path):
    return Page(path.read_text("utf-8"))


@pytest.mark.parametrize("model", [CCA(2), SparseCCA(2, n_nonzero=3), KernelCCA(2, ridge=0.1)])
def test_a_report_from_python(model, data, tmp_path):
    X, y = data
    model.fit(X[:200], y[:200])
    path = tmp_path / "r.html"
    groups = np.where(np.arange(100) % 2, "odd", "even")
    appgrad.report(model, X[200:], y[200:], path, labels=groups, title="Left & right")
    found = page_of(path)
    assert found.texts["h1"] == ["Left & right"]
    assert found.facts["scores"]["groups"] == ["even", "odd"]
    assert len(found.facts["scores"]["rows"]) == 100
    assert "these rows" in found.texts["thead"][0]
    assert f"appgrad.report(model, X, y, {str(path)!r})" in found.texts["code"][-1]
    np.testing.assert_allclose(
        found.facts["scores"]["correlations"],
        appgrad.correlations(*model.transform(X[200:], y[200:])),
        atol=1e-9,
    )


def test_rows_of_all_kinds_and_none(data, tmp_path):
    X, y = data
    model, path = CCA(2).set_output(transform="pandas").fit(X, y), tmp_path / "r.html"
    for name, m in zip("xy", data, strict=True):
        np.save(tmp_path / f"{name}.npy", m)
    appgrad.report(model, open_views(tmp_path / "x.npy", tmp_path / "y.npy"), None, path)
    assert page_of(path).texts["h1"] == ["x and y"]
    assert "views, None" in path.read_text()
    frames = [pd.DataFrame(m, index=[f"s{i}" for i in range(len(m))]) for m in data]
    appgrad.report(model, *frames, str(path), labels=np.arange(300) / 7, x_names=list("abcdef"), top=2)
    found = page_of(path)
    assert found.texts["h1"] == ["X and y"]
    assert len(found.facts["scores"]["numbers"]) == 300
    assert "View x: 2 of 6 columns" in found.texts["caption"]
    assert set(found.texts["bdi"][1:3]) <= set("abcdef")
    appgrad.report(model, None, None, path)
    assert "Scores need rows" in path.read_text()


def test_wrong_calls_say_what_is_wrong(data, tmp_path):
    X, y = data
    model, path = CCA(1).fit(X, y), tmp_path / "r.html"
    for error, words, call in (
        (NotFittedError, "not fitted", lambda: appgrad.report(CCA(1), X, y, path)),
        (ValueError, "give X too", lambda: appgrad.report(model, None, y, path)),
        (
            ValueError,
            "labels has 3 lines for 300 rows",
            lambda: appgrad.report(model, X, y, path, labels=[1, 2, 3]),
        ),
        (
            ValueError,
            "x_names has 1 names, the model has 6",
            lambda: appgrad.report(model, X, y, path, x_names="a"),
        ),
        (ValueError, "the second view", lambda: appgrad.report(model, X, None, path)),
    ):
        with pytest.raises(error, match=words):
            call()
    assert not path.exists()


def test_report_is_lazy():
    code = "import appgrad, sys; print('appgrad.reporting' in sys.modules, 'report' in dir(appgrad))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("x.npy", "x"),
        ("/data/2026/gene_expression.parquet", "gene_expression"),
        ("words.csv.gz::columns=a,b", "words"),
        ("store.zarr/", "store"),
        ("runs/part-*.parquet", "part"),
        ("runs/*.parquet", "runs"),
        ("folder/of/files", "files"),
        (r"C:\data\left view.npy", "left view"),
        ("s3/v1.2.npy", "v1.2"),
        (".hidden", ".hidden"),
        ("X", "X"),
    ],
)
def test_names_of_sources(source, name):
    assert name_of(source) == name


def test_titles():
    assert title_of("a/x.npy", "b/y.csv") == "x and y"
    assert title_of("both.npz::left", "both.npz::right") == "both: left and right"
    assert title_of("t.csv::columns=a", "t.csv::columns=b") == "t"
    assert title_of("a/x.npy", "b/x.npy") == "x"
    assert heading("gene_expression <b>") == "gene_<wbr>expression &lt;b&gt;"
