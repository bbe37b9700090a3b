"""Options of `appgrad fit` on names, labels and scale, and what `inspect --json` says of a model."""

import json

import numpy as np
import pytest

from appgrad import CCA, __version__, load
from helpers import arrays
from report_pages import Page


@pytest.mark.filterwarnings("ignore:the model has column names")
def test_names_of_columns_are_kept_in_the_model(folder, run):
    (folder / "x.txt").write_text("\n".join(f"word {j}" for j in range(5)))
    (folder / "y.txt").write_text("\n".join("abc") + "\n")
    files = "--x-names", "x.txt", "--y-names", "y.txt"
    run("fit", "x.npy", "y.npy", *files, "-o", "m.cca", "--report", "r.html", cwd=folder)
    model = load(folder / "m.cca")
    assert list(model.feature_names_in_) == [f"word {j}" for j in range(5)]
    assert list(model.feature_names_y_) == ["a", "b", "c"]
    assert "word 3" in run("inspect", "m.cca", cwd=folder)
    assert "word 3" in (folder / "r.html").read_text()
    # Files without names are taken by position.
    run("transform", "m.cca", "x.npy", "y.npy", "-o", "s.npz", cwd=folder)
    np.testing.assert_allclose(
        model.canonical_correlations_, CCA(2).fit(*arrays(folder)).canonical_correlations_
    )


def test_labels_colour_the_report_of_a_fit(folder, run):
    (folder / "groups.txt").write_text("odd\neven\n" * 200)
    np.save(folder / "ages.npy", np.linspace(20, 60, 400))
    np.savetxt(
        folder / "table.csv",
        np.column_stack([np.arange(400), np.arange(400) % 3]),
        delimiter=",",
        header="id,arm",
        comments="",
    )
    for source, key in (
        ("groups.txt", "groups"),
        ("ages.npy", "numbers"),
        ("table.csv::columns=arm", "groups"),
    ):
        run("fit", "x.npy", "y.npy", "--labels", source, "--report", "r.html", cwd=folder)
        found = Page((folder / "r.html").read_text()).facts["scores"]
        assert key in found
        assert found["fitted"]
        run("fit", "x.npy", "y.npy", "-o", "m.cca", cwd=folder)
        run("report", "m.cca", "x.npy", "y.npy", "--labels", source, "-o", "r.html", cwd=folder)
        assert Page((folder / "r.html").read_text()).facts["scores"][key] == found[key]


def test_labels_in_a_column_of_text(folder, run):
    """Groups from tables of every kind, and numbers some of which are missing."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"tissue": ["lung", "breast, left"] * 200, "age": np.linspace(20, 60, 400)})
    frame.loc[3, "age"] = np.nan
    frame.index = [f"s{i}" for i in range(400)]
    frame.to_csv(folder / "table.csv")
    frame.to_csv(folder / "table.tsv.gz", sep="\t", index=False)
    frame.to_parquet(folder / "table.parquet")
    frame[["tissue"]].to_csv(folder / "bare.csv", index=False, header=False)
    run("fit", "x.npy", "y.npy", "-o", "m.cca", "--holdout", 0, cwd=folder)
    command = "report", "m.cca", "x.npy", "y.npy", "-o", "r.html", "--labels"
    tables = ("table.csv", "table.tsv.gz", "table.parquet")
    for source in (*(f"{table}::columns=tissue" for table in tables), "bare.csv::header=no"):
        run(*command, source, cwd=folder)
        found = Page((folder / "r.html").read_text()).facts["scores"]
        assert found["groups"] == ["breast, left", "lung"]
        assert found["codes"] == [1, 0] * 200
    for table in tables:
        run(*command, f"{table}::columns=age", cwd=folder)
        found = Page((folder / "r.html").read_text()).facts["scores"]
        assert found["numbers"][:5] == [20.0, 20.1, 20.2, None, 20.4]
    for source in ("table.csv::header=yes", "table.parquet"):
        said = run(*command, source, code=1, cwd=folder)
        assert "there are 2 columns: choose one with ::columns=" in said
    assert "there is no column 'organ'" in run(*command, "table.csv::columns=organ", code=1, cwd=folder)


def test_wrong_names_and_labels_fail_before_the_fit(folder, run, monkeypatch):
    monkeypatch.setattr(CCA, "fit", lambda *args: pytest.fail("the fit was begun"))
    (folder / "five.txt").write_text("\n".join("abcde"))
    fit, report = ("fit", "x.npy", "y.npy"), ("--report", "r.html")
    for args, words, code in (
        ((*fit, "--y-names", "five.txt"), "five.txt has 5 names, y.npy has 3 columns", 1),
        (
            ("fit", "x.csv", "y.npy", "--x-names", "five.txt"),
            "x.csv has names of its own: leave --x-names",
            1,
        ),
        ((*fit, *report, "--labels", "five.txt"), "five.txt has 5 lines for 400 rows", 1),
        ((*fit, *report, "--labels", "none.txt"), "error: none.txt: no such file", 1),
        ((*fit, "--x-names", "none.txt"), "error: none.txt: no such file", 1),
        ((*fit, *report, "--labels", "x.npy"), "x.npy has 5 columns: choose the labels with ::columns=", 1),
        ((*fit, "--labels", "five.txt"), "give --report too", 2),
        ((*fit, "-o", "five.txt", "--x-names", "five.txt"), "five.txt is an input", 1),
        ((*fit, "--report", "five.txt", "--labels", "five.txt"), "five.txt is an input", 1),
    ):
        assert words in " ".join(run(*args, code=code, cwd=folder).split())


def test_scale(folder, run):
    X, Y = arrays(folder)
    np.save(folder / "x.npy", X * [1, 10, 100, 1000, 1])
    fit = "fit", "x.npy", "y.npy", "--ridge", 0.5, "--json", "--holdout", 0
    found = json.loads(run(*fit, "--scale", "-o", "m.cca", cwd=folder))
    expected = CCA(2, scale=True, ridge=0.5).fit(X * [1, 10, 100, 1000, 1], Y)
    np.testing.assert_allclose(found["correlations"], expected.canonical_correlations_)
    assert load(folder / "m.cca").scale is True
    assert not np.allclose(json.loads(run(*fit, cwd=folder))["correlations"], found["correlations"])
    sparse = json.loads(run(*fit, "--scale", "--n-nonzero", 2, "-o", "s.cca", cwd=folder))
    assert sparse["estimator"] == "SparseCCA"
    assert load(folder / "s.cca").scale is True


def test_inspect_says_which_version_and_which_files(folder, run):
    run("fit", "x.csv", "y.npy", "-o", "m.cca", cwd=folder)
    found = json.loads(run("inspect", "m.cca", "--json", cwd=folder))
    assert found["version"] == __version__
    assert found["estimator"] == "CCA"
    assert found["origin"] == {"x": "x.csv", "y": "y.npy", "command": "appgrad fit x.csv y.npy -o m.cca"}
    CCA(1).fit(*arrays(folder)).save(folder / "p.cca")
    assert json.loads(run("inspect", "p.cca", "--json", cwd=folder))["origin"] is None


def test_the_version_is_that_of_the_file(folder, run, monkeypatch):
    monkeypatch.setattr("appgrad.estimators.model_file.__version__", "9.8.7")
    run("fit", "x.csv", "y.npy", "-o", "m.cca", cwd=folder)
    assert json.loads(run("inspect", "m.cca", "--json", cwd=folder))["version"] == "9.8.7"
    assert CCA(1).fit(*arrays(folder)).version == __version__


def test_titles_are_names(folder, run):
    (folder / "deep").mkdir()
    np.save(folder / "deep" / "gene_expression.npy", np.load(folder / "x.npy"))
    run("fit", "deep/gene_expression.npy", "y.npy", "-o", "deep/m.cca", "--report", "r.html", cwd=folder)
    assert Page((folder / "r.html").read_text()).texts["h1"] == ["gene_expression and y"]
    run("report", "deep/m.cca", "-o", "r.html", cwd=folder)
    found = Page((folder / "r.html").read_text())
    assert found.texts["h1"] == ["m"]
    assert found.texts["title"] == ["CCA: m"]
