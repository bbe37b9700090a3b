"""Reports of the command line: with a fit, of a model file, and when none can be written."""

import json
import sys

import numpy as np
import pytest

from appgrad import CCA
from appgrad.cli.main import main
from helpers import arrays


def test_a_fit_with_a_report(folder, run):
    command = ("fit", "x.csv", "y.npy", "-k", 2, "--report", "r & r.html")
    assert "report    written to r & r.html" in run(*command, cwd=folder)
    html = (folder / "r & r.html").read_text()
    record = json.loads(run(*command, "--json", "--seed", 3, cwd=folder))
    assert record["report"] == "r & r.html"
    assert json.loads(run(*command[:-2], "--json", cwd=folder))["report"] is None
    again = (folder / "r & r.html").read_text()
    for rho in (*record["training_correlations"], *record["held_out_correlations"]):
        assert f"{rho:.4f}".replace("-", "\N{MINUS SIGN}") in again
    for words in (
        "<h1><bdi>x and y</bdi></h1>",
        "400 rows",
        "n3",
        "a second fit without 40 random rows",
        "appgrad fit x.csv y.npy -k 2 --report &#x27;r &amp; r.html&#x27;</code>",
        "A point is a row of the fit (all 400)",
    ):
        assert words in html
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_a_report_of_an_overfitted_fit_says_so(rng, tmp_path, run):
    np.save(tmp_path / "x.npy", rng.standard_normal((60, 80)))
    np.save(tmp_path / "y.npy", rng.standard_normal((60, 70)))
    run("fit", "x.npy", "y.npy", "-k", 2, "--report", "r.html", cwd=tmp_path)
    html = (tmp_path / "r.html").read_text()
    assert html.count("150 columns for 60 rows") == 1
    assert "components 1, 2: less than half of the correlation is left on held-out rows" in html
    run("fit", "x.npy", "y.npy", "-k", 2, "--holdout", 0, "--report", "r.html", cwd=tmp_path)
    html = (tmp_path / "r.html").read_text()
    assert "too high where rows are few" in html
    assert "held out" not in html


def test_a_held_out_check_that_is_not_possible_fails_no_report(run, rng, tmp_path):
    np.save(tmp_path / "x.npy", rng.standard_normal((3, 2)))
    run("fit", "x.npy", "x.npy", "-k", 2, "--report", "r.html", cwd=tmp_path)
    assert "not possible: without the held-out rows" in (tmp_path / "r.html").read_text()


@pytest.mark.filterwarnings("ignore:the model has column names")
def test_report(folder, run):
    run("fit", "x.csv", "y.npy", "-k", 2, "-o", "m.cca", cwd=folder)
    assert "written to r.html" in run("report", "m.cca", "-o", "r.html", cwd=folder)
    html = (folder / "r.html").read_text()
    assert "Scores need rows" in html
    assert "n3" in html
    # How the model was made, too: the file of a model says so.
    assert "<code>appgrad fit x.csv y.npy -k 2 -o m.cca  # says the model file\n" in html
    assert "appgrad report m.cca -o r.html</code>" in html
    assert '<th scope="row">x</th><td>x.csv</td>' in html
    (folder / "names.txt").write_text("\n".join(f"<b>{j}" for j in range(5)))
    (folder / "groups.txt").write_text("odd\neven\n" * 200)
    files = ("--x-names", "names.txt", "--labels", "groups.txt")
    run("report", "m.cca", "x.csv", "y.npy", *files, "--top", 1, "-o", "r.html", cwd=folder)
    html = (folder / "r.html").read_text()
    assert "&lt;b&gt;" in html
    assert "View x: 1 of 5 columns" in html
    assert '"groups":["even","odd"]' in html
    assert "these rows seem to be those of the fit" in html
    X, Y = arrays(folder)
    np.save(folder / "x2.npy", X[:50])
    np.save(folder / "y2.npy", Y[:50])
    run("report", "m.cca", "x2.npy", "y2.npy", "-o", "r.html", cwd=folder)
    html = (folder / "r.html").read_text()
    record = json.loads(run("score", "m.cca", "x2.npy", "y2.npy", "--json", cwd=folder))
    assert "seem to be those of the fit" not in html
    for rho in record["correlations"]:
        assert f"{rho:.4f}" in html


def test_reports_that_cannot_be_written(folder, run, monkeypatch):
    run("fit", "x.csv", "y.npy", "-o", "m.cca", cwd=folder)
    (folder / "names.txt").write_text("\n".join("abcde"))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    many, few = ("report", "m.cca", "x.csv", "y.npy", "-o"), ("report", "m.cca", "-o", "r.html")
    cases = {
        (*many, "x.csv"): "x.csv is an input",
        (*many, "m.cca"): "m.cca is an input",
        (*many, "names.txt", "--labels", "names.txt"): "names.txt is an input",
        (*many, "r.html", "--labels", "names.txt"): "5 lines for 400 rows",
        (*many, "no/r.html"): "no such folder",
        (*few, "--y-names", "names.txt"): "5 names, the model has 3",
        ("report", "missing.cca", "-o", "r.html"): "missing.cca: no such file",
        ("report", "m.cca", "y.npy", "y.npy", "-o", "r.html"): "y.npy has 3 features",
    }
    for args, words in cases.items():
        text = run(*args, code=1, cwd=folder)
        assert words in text
        assert text.count("\n") == 1
    for args in (
        ("report", "m.cca"),
        (*few, "--labels", "names.txt"),
        ("report", "m.cca", "x.csv", "-o", "r.html"),
    ):
        run(*args, code=2, cwd=folder)
    # Before anything long runs.
    monkeypatch.setattr(CCA, "fit", lambda *args: pytest.fail("the fit was begun"))
    fit = ("fit", "x.csv", "y.npy", "--report")
    assert "y.npy is an input" in run(*fit, "y.npy", code=1, cwd=folder)
    assert "no such folder" in run(*fit, "no/r.html", code=1, cwd=folder)
    assert "--output and --report are the same file" in run(
        *fit, "./m.cca", "-o", "m.cca", code=2, cwd=folder
    )
    same = ("--checkpoint", "c.cca")
    assert "--checkpoint and --report are the same" in run(*fit, "c.cca", *same, code=2, cwd=folder)
    assert before == {path: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_report_that_is_lost_does_not_lose_the_fit(error, folder, monkeypatch, capsys):
    def failing(*_, **__):
        raise error

    monkeypatch.chdir(folder)
    monkeypatch.setattr("appgrad.cli.fit.write_report", failing)
    monkeypatch.setattr(
        sys, "argv", ["appgrad", "fit", "x.csv", "y.npy", "--report", "r.html", "-o", "m.cca"]
    )
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert end.value.code == 1
    assert "component" in out
    assert "saved to m.cca" in out
    assert "error: no report: " + ("interrupted" if not str(error) else "[Errno 28]") in err
