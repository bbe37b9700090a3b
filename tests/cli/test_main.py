"""The command line: calls, output, and messages of failures."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import KernelCCA, load
from helpers import arrays


def test_as_a_process_of_its_own(folder):
    """As a user runs it: the installed command, its own exit code and streams."""

    def process(*args):
        command = [Path(sys.executable).parent / "appgrad", *args]
        return subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)

    done = process("fit", "x.npy", "y.npy", "-k", "2", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["n_samples"] == 400
    done = process("fit", "missing.npy", "y.npy")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "error: missing.npy: no such file\n")
    assert process("fit").returncode == 2


def test_sparse_npz_and_names(rng, tmp_path, run):
    X = sp.random_array((300, 20), density=0.1, rng=rng, format="csr")
    sp.save_npz(tmp_path / "x.npz", X)
    sp.save_npz(tmp_path / "y.npz", X[:, 5:10])
    run("fit", "x.npz", "y.npz", "-k", 2, "-o", "m.cca", cwd=tmp_path)
    (tmp_path / "names.txt").write_text("\n".join(f"[red]word{j}" for j in range(20)))
    text = run("inspect", "m.cca", "--x-names", "names.txt", "--top", 3, cwd=tmp_path)
    assert "[red]word" in text
    assert "component 2" in text
    record = json.loads(run("inspect", "m.cca", "--top", 3, "--json", cwd=tmp_path))
    assert len(record["components"]) == 2
    assert len(record["components"][0]["x"]) == 3
    model = load(tmp_path / "m.cca")
    U = model.transform(X)
    top = record["components"][0]["x"][0]
    dense = X.toarray()
    expected = [np.corrcoef(dense[:, j], U[:, 0])[0, 1] for j in range(20)]
    assert top["feature"] == f"x{np.argmax(np.abs(expected))}"
    assert top["correlation"] == pytest.approx(expected[np.argmax(np.abs(expected))], abs=1e-6)
    (tmp_path / "names.txt").write_text("one\ntwo\n")
    assert "2 names, the model has 20" in run(
        "inspect", "m.cca", "--x-names", "names.txt", code=1, cwd=tmp_path
    )


def test_plan(folder, run):
    out = run("plan", folder / "x.npy", folder / "y.npy", "-k", 2)
    assert "lobpcg" in out
    assert "auto takes exact: the covariances of" in out
    found = json.loads(run("plan", folder / "x.npy", folder / "y.npy", "-k", 2, "--json"))
    assert found["solver"] == "exact"
    assert {cost["solver"] for cost in found["costs"]} >= {"exact", "qr", "lobpcg", "stochastic"}
    assert all(cost["seconds"] > 0 and cost["memory"] > 0 for cost in found["costs"])


def test_transform_and_score(folder, run):
    run("fit", "x.csv", "y.npy", "-o", "m.cca", cwd=folder)
    U, V = load(folder / "m.cca").transform(*(np.asarray(m) for m in frames(folder)))
    run("transform", "m.cca", "x.csv", "y.npy", "-o", "s.npz", cwd=folder)
    with np.load(folder / "s.npz") as archive:
        np.testing.assert_allclose(archive["x_scores"], U, atol=1e-10)
        np.testing.assert_allclose(archive["y_scores"], V, atol=1e-10)
    run("transform", "m.cca", "x.csv", "-o", "s.csv", cwd=folder)
    np.testing.assert_allclose(np.loadtxt(folder / "s.csv", delimiter=",", skiprows=1), U, atol=1e-10)
    run("transform", "m.cca", "x.npy", "y.npy", "-o", "s.parquet", cwd=folder)
    import pandas as pd

    table = pd.read_parquet(folder / "s.parquet")
    assert list(table.columns) == ["x_scores_1", "x_scores_2", "y_scores_1", "y_scores_2"]
    np.testing.assert_allclose(table["y_scores_2"], V[:, 1], atol=1e-10)

    record = json.loads(run("score", "m.cca", "x.csv", "y.npy", "--json", cwd=folder))
    assert record["score"] == pytest.approx(np.mean(record["correlations"]))
    assert "in training" in run("score", "m.cca", "x.csv", "y.npy", cwd=folder)
    assert sorted(p.name for p in folder.iterdir()) == [
        "m.cca", "s.csv", "s.npz", "s.parquet", "x.csv", "x.npy", "y.npy",
    ]  # fmt: skip


def test_transform_of_y_alone(folder, run):
    run("fit", "x.csv", "y.npy", "-o", "m.cca", cwd=folder)
    U, V = load(folder / "m.cca").transform(*(np.asarray(m) for m in frames(folder)))
    assert (
        run("transform", "m.cca", "--y", "y.npy", "-o", "v.npz", cwd=folder) == "400 rows written to v.npz\n"
    )
    with np.load(folder / "v.npz") as archive:
        assert list(archive) == ["y_scores"]
        np.testing.assert_allclose(archive["y_scores"], V, atol=1e-10)
    run("transform", "m.cca", "x.csv", "--y", "y.npy", "-o", "s.npz", cwd=folder)
    with np.load(folder / "s.npz") as archive:
        np.testing.assert_allclose(archive["x_scores"], U, atol=1e-10)
        np.testing.assert_allclose(archive["y_scores"], V, atol=1e-10)
    run("transform", "m.cca", "--y", "y.npy", "-o", "v.csv", cwd=folder)
    assert (folder / "v.csv").read_text().splitlines()[0] == "y_scores_1,y_scores_2"
    for args, text in (
        (("x.csv", "y.npy", "--y", "y.npy"), "the second view is given twice"),
        ((), "give rows: X, --y Y, or both"),
    ):
        assert text in " ".join(run("transform", "m.cca", *args, "-o", "w.npz", code=2, cwd=folder).split())
    assert "are the two views swapped?" in run(
        "transform", "m.cca", "--y", "x.npy", "-o", "w.npz", code=1, cwd=folder
    )
    np.savetxt(folder / "y.csv", V)
    assert "is an input" in run("transform", "m.cca", "--y", "y.csv", "-o", "y.csv", code=1, cwd=folder)


def frames(folder):
    import warnings

    warnings.simplefilter("ignore")  # plain arrays for a model fitted with names
    return arrays(folder)


def test_failures_are_one_line_and_exit_1(folder, run):
    run("fit", "x.csv", "y.npy", "-o", "m.cca", cwd=folder)
    (folder / "broken.csv").write_text("a,b\n1,x\n")
    np.save(folder / "short.npy", np.ones((3, 3)))
    wrong = (folder / "x.csv").read_text().replace("n0,n1", "n1,n0")
    (folder / "swapped.csv").write_text(wrong)
    nan = np.load(folder / "x.npy")
    nan[5, 1] = np.nan
    np.save(folder / "nan.npy", nan)
    cases = {
        ("fit", "missing.npy", "y.npy"): "missing.npy: no such file",
        ("fit", "broken.csv", "y.npy"): "'x' in row 0, column 1 ('b') is not a number",
        ("fit", "x.npy", "short.npy"): "short.npy has 3 rows, x.npy has 400",
        ("fit", "nan.npy", "y.npy"): "column 1 of nan.npy contains NaN",
        ("fit", "x.npy", "y.npy", "-k", "9"): "use at most 3",
        ("fit", "x.npy", "y.npy", "-o", "no/such/m.cca"): "no such folder",
        ("fit", "x.npy", "y.npy", "--ridge", "-1"): "ridge must be",
        ("fit", "x.npy", "y.npy", "-o", "x.npy"): "x.npy is an input: it would be overwritten",
        ("transform", "m.cca", "x.csv", "-o", "x.csv"): "x.csv is an input",
        ("score", "y.npy", "x.npy", "y.npy"): "not an appgrad model file",
        ("score", "m.cca", "y.npy", "y.npy"): "y.npy has 3 features",
        ("transform", "m.cca", "swapped.csv", "-o", "s.npz"): "in another order",
        ("transform", "m.cca", "x.csv", "-o", "s.xlsx"): "ends in .npz, .csv, .parquet",
        ("inspect", "missing.cca"): "missing.cca",
    }
    for args, words in cases.items():
        text = run(*args, code=1, cwd=folder)
        assert words in text
        assert text.count("\n") == 1
        assert text.startswith("error: ")
    assert not (folder / "s.npz").exists()


def test_names_of_files_are_not_markup(folder, run):
    assert "saved to d[red].cca" in run("fit", "x.npy", "y.npy", "-o", "d[red].cca", cwd=folder)
    text = run("transform", "d[red].cca", "x.npy", "-o", "s[bold].csv", cwd=folder)
    assert "written to s[bold].csv" in text
    assert "[/x]: no such folder" in run("fit", "x.npy", "y.npy", "-o", "[/x]/m.cca", code=1, cwd=folder)
    # Nor are they pictures.
    assert "saved to a:x:.cca" in run("fit", "x.npy", "y.npy", "-o", "a:x:.cca", cwd=folder)
    assert ":x:: no such folder" in run("fit", "x.npy", "y.npy", "-o", ":x:/m.cca", code=1, cwd=folder)


def test_warnings_about_files_are_shown(folder, run, capsys):
    lines = [
        "," + line if i == 0 else f"{i}," + line
        for i, line in enumerate((folder / "x.csv").read_text().splitlines())
    ]
    (folder / "indexed.csv").write_text("\n".join(lines))
    record = json.loads(run("fit", "indexed.csv", "y.npy", "--json", cwd=folder))
    assert record["n_features"] == [5, 3]
    assert "taken as row labels and left out" in record["warnings"][0]


def test_a_closed_pipe_is_no_failure_worth_a_traceback(folder):
    command = f"{Path(sys.executable).parent / 'appgrad'} fit x.npy y.npy | true"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=folder, timeout=120)
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


def test_wrong_usage_exits_2(folder, run):
    for args in (
        ("fit", "x.npy"),
        ("fit", "x.npy", "y.npy", "-k", "0"),
        ("fit", "x.npy", "y.npy", "--ridge", "a,b,c"),
        ("fit", "x.npy", "y.npy", "--holdout", "2"),
        ("fit", "x.npy", "y.npy", "--nope"),
        ("fit", "x.npy", "y.npy", "--solver", "magic"),
        ("fit", "x.npy", "y.npy", "--log-level", "loud"),
        ("transform", "m.cca", "x.npy"),
        ("frobnicate",),
    ):
        assert "Traceback" not in run(*args, code=2, cwd=folder)


def test_version_and_help(run):
    from appgrad import __version__

    assert run("--version").strip() == __version__
    for command in ("fit", "transform", "score", "inspect", "report", "demo"):
        assert command in run("--help")
        assert "Usage" in run(command, "--help")


def test_demo(tmp_path, run):
    text = run("demo", "-o", "figures", cwd=tmp_path)
    for words in ("training", "held out", "solver", "time", "figures/digits.png"):
        assert words in text
    assert (tmp_path / "figures" / "digits.png").read_bytes().startswith(b"\x89PNG")


def test_no_input_is_overwritten(folder, run):
    """Nor one of a pattern or folder."""
    text = "1 0:1 1:2\n1 0:3\n1 1:1\n1 0:2 1:2\n"
    (folder / "a.svm").write_text(text)
    np.save(folder / "four.npy", np.arange(4.0))
    for source in ("*.svm", "a.svm", "a.svm::columns=0-1"):
        said = run("fit", source, "four.npy", "-k", "1", "--holdout", "0", "-o", "a.svm", code=1, cwd=folder)
        assert said == "error: a.svm is an input: it would be overwritten\n"
    assert (folder / "a.svm").read_text() == text


def test_models_of_kernels(folder, run):
    X, Y = arrays(folder)
    model = KernelCCA(1, approximation="nystroem", n_landmarks=20, random_state=0).fit(X, Y)
    model.save(folder / "k.cca")
    assert "functions of all columns" in run("inspect", "k.cca", cwd=folder)
    assert json.loads(run("inspect", "k.cca", "--json", cwd=folder))["components"] == []
    found = json.loads(run("score", "k.cca", "x.npy", "y.npy", "--json", cwd=folder))
    assert found["score"] == pytest.approx(model.score(X, Y))
    run("transform", "k.cca", "x.npy", "-o", "u.npz", cwd=folder)
    with np.load(folder / "u.npz") as scores:
        np.testing.assert_allclose(scores["x_scores"], model.transform(X))


def test_what_was_decided_about_headers_is_said(folder, run):
    """In the output, in JSON, and in the error of a fit that fails."""
    rows = np.round(arrays(folder)[0][:, :3], 3)
    np.savetxt(folder / "years.csv", rows, delimiter=",", header="2019,2020,2021", comments="", fmt="%g")
    text = "years.csv: the first line was read as column names: it holds whole numbers, and the rows below"
    record = json.loads(run("fit", "years.csv", "y.npy", "--json", "--holdout", 0, cwd=folder))
    assert len(record["files"]) == 1
    assert record["files"][0].startswith(text)
    assert record["files"][0] in record["warnings"]
    assert "x.csv: the first line was read as column names: it has text above numbers" in run(
        "fit", "x.csv", "y.npy", "--holdout", 0, cwd=folder
    )
    said = run("fit", "years.csv::header=no", "x.csv", code=1, cwd=folder)
    assert said.count("\n") == 1
    assert "x.csv has 400 rows, years.csv::header=no has 401" in said
    assert "years.csv: the first line was read as a row: '::header=no' was given" in said
    assert "x.csv: the first line was read as column names" in said
    # Errors of the fit itself carry it too.
    assert "years.csv: the first line was read as" in run(
        "fit", "years.csv::header=yes::columns=2020", "y.npy", "-k", 3, code=1, cwd=folder
    )
