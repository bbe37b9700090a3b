import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import CCA, KernelCCA, SparseCCA, load
from appgrad.cli.main import main


@pytest.fixture
def run(monkeypatch, capsys):
    """The command in this process: what it prints, after checking its exit code."""

    def command(*args, code=0, cwd="."):
        with monkeypatch.context() as patch:
            patch.chdir(cwd)
            patch.setattr(sys, "argv", ["appgrad", *map(str, args)])
            with pytest.raises(SystemExit) as exit_:
                main()
        out, err = capsys.readouterr()
        assert (exit_.value.code or 0) == code, out + err
        return out if code == 0 else err

    return command


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


@pytest.fixture
def folder(rng, tmp_path):
    X = rng.standard_normal((400, 5))
    Y = X[:, :3] + rng.standard_normal((400, 3))
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    lines = [",".join(f"n{j}" for j in range(5)), *(",".join(map(str, row)) for row in X)]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    return tmp_path


def arrays(folder):
    return np.load(folder / "x.npy"), np.load(folder / "y.npy")


def test_fit_saves_a_model_of_all_rows(folder, run):
    text = run("fit", "x.npy", "y.npy", "-k", 2, "-o", "m.cca", cwd=folder)
    model = load(folder / "m.cca")
    expected = CCA(2).fit(*arrays(folder))
    np.testing.assert_array_equal(model.canonical_correlations_, expected.canonical_correlations_)
    assert model.n_samples_ == 400
    for words in (
        "training",
        "held out",
        "exact: the covariances",
        "without 40 random rows",
        "saved to m.cca",
    ):
        assert words in text
    assert f"{expected.canonical_correlations_[0]:.4f}" in text


def test_fit_json(folder, run):
    record = json.loads(run("fit", "x.csv", "y.npy", "-k", 2, "--json", cwd=folder))
    X, Y = arrays(folder)
    np.testing.assert_allclose(record["correlations"], CCA(2).fit(X, Y).canonical_correlations_, atol=1e-10)
    rows = np.random.default_rng(0).permutation(400)
    other = CCA(2).fit(X[rows[40:]], Y[rows[40:]])
    U, V = other.transform(X[rows[:40]], Y[rows[:40]])
    expected = [np.corrcoef(u, v)[0, 1] for u, v in zip(U.T, V.T, strict=True)]
    np.testing.assert_allclose(record["held_out_correlations"], expected, atol=1e-8)
    assert record["solver"] == "exact"
    assert record["warnings"] == []
    assert record["iterations"] == 1
    assert record["passes"] == 1.0
    assert record["seconds"] > 0
    again = json.loads(run("fit", "x.csv", "y.npy", "-k", 2, "--json", "--seed", 1, cwd=folder))
    assert again["held_out_correlations"] != record["held_out_correlations"]
    assert again["correlations"] == record["correlations"]


def test_few_rows_are_cross_validated(folder, run):
    record = json.loads(run("fit", "x.npy", "y.npy", "-k", 3, "--holdout", 0.05, "--json", cwd=folder))
    assert record["held_out_method"].startswith("5-fold cross-validation: 20 held-out rows are too few")
    rho = np.array(record["correlations"])
    np.testing.assert_allclose(record["held_out_correlations"], rho, atol=0.1)


def test_no_holdout(folder, run):
    record = json.loads(run("fit", "x.npy", "y.npy", "--holdout", 0, "--json", cwd=folder))
    assert record["held_out_correlations"] is None
    assert "held out" not in run("fit", "x.npy", "y.npy", "--holdout", 0, cwd=folder)


def test_trivial_correlations_are_called_so(rng, tmp_path, run):
    np.save(tmp_path / "x.npy", rng.standard_normal((60, 80)))
    np.save(tmp_path / "y.npy", rng.standard_normal((60, 70)))
    text = run("fit", "x.npy", "y.npy", "-k", 2, cwd=tmp_path)
    assert "1.0000*" in text
    assert "too few rows" in " ".join(text.split())
    record = json.loads(run("fit", "x.npy", "y.npy", "-k", 2, "--json", cwd=tmp_path))
    assert "150 columns for 60 rows" in record["warnings"][0]
    run("fit", "x.npy", "y.npy", "-k", 2, "-o", "m.cca", cwd=tmp_path)
    again = run("inspect", "m.cca", cwd=tmp_path)
    assert "1.0000*" in again
    assert "too few rows" in " ".join(again.split())
    few = run("fit", "x.npy", "y.npy", "-k", 1, "--n-nonzero", 3, cwd=tmp_path)
    assert "forced" not in few
    assert np.abs(record["held_out_correlations"]).max() < 0.6
    assert record["warnings"][1].startswith("components 1, 2: less than half of the correlation is left")
    calm = run("fit", "x.npy", "y.npy", "-k", 2, "--ridge", "2,1", "--json", "--holdout", 0, cwd=tmp_path)
    assert json.loads(calm)["warnings"] == []


def test_a_model_file_knows_what_its_fit_has_shown(rng, tmp_path, run):
    """Held-out correlations and warnings are not lost with the terminal."""
    np.save(tmp_path / "x.npy", rng.standard_normal((60, 80)))
    np.save(tmp_path / "y.npy", rng.standard_normal((60, 70)))
    fit = "fit", "x.npy", "y.npy", "-k", 2, "--solver", "lobpcg", "--passes", 8
    said = json.loads(run(*fit, "-o", "m.cca", "--json", cwd=tmp_path))
    found = json.loads(run("inspect", "m.cca", "--json", cwd=tmp_path))
    for name in ("held_out_correlations", "held_out_method", "warnings"):
        assert found[name] == said[name]
    assert "lobpcg stopped at its --passes" in " ".join(found["warnings"])
    run("report", "m.cca", "-o", "r.html", cwd=tmp_path)
    page = (tmp_path / "r.html").read_text()
    held_out = f"{said['held_out_correlations'][0]:.4f}".replace("-", "")
    assert held_out in page
    assert "stopped at its --passes" in page
    assert "less than half of the correlation is left on held-out rows" in page
    process = [sys.executable, "-c", "from appgrad.cli.main import main; main()", "inspect", "m.cca"]
    shown = subprocess.run(process, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=True)
    assert held_out in shown.stdout
    assert "warning: lobpcg stopped at its --passes" in shown.stderr


def test_direct_solvers_say_that_they_write_no_checkpoint(folder, run):
    fit = "fit", "x.npy", "y.npy", "-o", "m.cca", "--checkpoint", "c.ck", "--json"
    said = "exact is a direct solver, which writes no checkpoint"
    assert json.loads(run(*fit, cwd=folder))["warnings"] == [said]
    assert json.loads(run("inspect", "m.cca", "--json", cwd=folder))["warnings"] == [said]


def test_the_table_is_shown_where_the_model_cannot_be_saved_again(folder, run, monkeypatch):
    save, saves = CCA.save, []

    def full(model, path):
        saves.append(path)
        if len(saves) == 2:
            raise OSError("no space left")
        save(model, path)

    monkeypatch.setattr(CCA, "save", full)
    found = json.loads(run("fit", "x.npy", "y.npy", "-k", 2, "-o", "m.cca", "--json", cwd=folder))
    assert found["warnings"] == ["held-out correlations are not in m.cca: no space left"]
    assert len(found["held_out_correlations"]) == 2
    assert load(folder / "m.cca")._origin.tested is None


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
        ("fit", "x.npy", "y.npy", "--solver", "magic"): "solver must be one of",
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


def test_with_a_ridge_training_and_held_out_are_the_same_measure(folder, run):
    text = run("fit", "x.npy", "y.npy", "-k", 2, "--ridge", 2, "-o", "m.cca", cwd=folder)
    assert "with ridge" in text
    record = json.loads(run("fit", "x.npy", "y.npy", "-k", 2, "--ridge", 2, "--json", cwd=folder))
    again = json.loads(run("score", "m.cca", "x.npy", "y.npy", "--json", cwd=folder))
    np.testing.assert_allclose(record["training_correlations"], again["correlations"], atol=1e-9)
    assert record["correlations"][0] < record["training_correlations"][0] - 0.1
    assert "with ridge" not in run("fit", "x.npy", "y.npy", "-k", 2, cwd=folder)


def test_a_held_out_check_that_is_not_possible_fails_no_fit(run, rng, tmp_path):
    X, Y = rng.standard_normal((400, 3)), rng.standard_normal((400, 3))
    X[:, 2] = np.arange(400) == 7  # in some split, this column is constant
    for n in (3, 400):
        np.save(tmp_path / "x.npy", X[:n, : n - 1])
        np.save(tmp_path / "y.npy", Y[:n, : n - 1])
        k = min(n - 1, 3)
        record = json.loads(
            run("fit", "x.npy", "y.npy", "-k", k, "--holdout", 0.01, "-o", "m.cca", "--json", cwd=tmp_path)
        )
        assert record["held_out_correlations"] == [None] * k
        assert record["held_out_method"].startswith("not possible: without the held-out rows, n_components")
        assert load(tmp_path / "m.cca").n_samples_ == n
    assert "not possible" in run("fit", "x.npy", "y.npy", "-k", 3, "--holdout", 0.01, cwd=tmp_path)


def test_shared_columns_are_noticed(folder, run):
    record = json.loads(run("fit", "x.npy", "x.npy", "--json", cwd=folder))
    found = "components 1, 2: correlation 1 on any rows; do the views share a column?"
    assert record["warnings"] == [found]


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


def test_interrupted(folder, run, monkeypatch):
    import appgrad.cli.fit

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(appgrad.cli.fit, "held_out", interrupt)
    text = run("fit", "x.npy", "y.npy", "-o", "m.cca", code=1, cwd=folder)
    assert text == "error: interrupted in the held-out check; the model of all rows is in m.cca\n"
    load(folder / "m.cca")
    monkeypatch.setattr(CCA, "fit", interrupt)
    text = run("fit", "x.npy", "y.npy", "-o", "n.cca", code=1, cwd=folder)
    assert text == "error: interrupted; nothing was written\n"
    assert not (folder / "n.cca").exists()


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


def test_sparse_components(folder, run):
    text = run("fit", "x.csv", "y.npy", "-k", "1", "--n-nonzero", "2,1", "-o", "few.cca", cwd=folder)
    assert "2 + 1 columns have a weight" in text
    model = load(folder / "few.cca")
    assert (type(model), model.n_nonzero_) == (SparseCCA, (2, 1))
    text = run("inspect", "few.cca", cwd=folder)
    assert "x weight" in text
    # Those with a weight, and no others.
    assert len([name for name in ("n0", "n1", "n2", "n3", "n4") if name in text]) == 2
    found = json.loads(run("inspect", "few.cca", "--json", cwd=folder))["components"][0]
    assert [len(found["x"]), len(found["y"])] == [2, 1]
    X, _ = arrays(folder)
    weights = model.x_weights_[:, 0] * X.std(axis=0)
    assert found["x"][0]["weight"] == pytest.approx(weights[np.argmax(np.abs(weights))])
    assert "score" in run("score", "few.cca", "x.npy", "y.npy", cwd=folder)
    penalised = json.loads(run("fit", "x.npy", "y.npy", "--alpha", "0.2", "--json", cwd=folder))
    assert penalised["solver"] == "pursuit"
    text = run("fit", "x.npy", "y.npy", "--n-nonzero", "1", "--support", "component", cwd=folder)
    assert "2 + 2 columns have a weight" in text
    assert "--n-nonzero or --alpha" in run("fit", "x.npy", "y.npy", "--support", "shared", code=2, cwd=folder)
    assert "whole number" in run("fit", "x.npy", "y.npy", "--n-nonzero", "1.5", code=2, cwd=folder)
    assert "two ways" in run("fit", "x.npy", "y.npy", "--n-nonzero", "2", "--alpha", "1", code=1, cwd=folder)
    assert "largest useful" in run("fit", "x.npy", "y.npy", "-k", "1", "--alpha", "1", code=1, cwd=folder)


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
        "x.csv and y.npy",
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
