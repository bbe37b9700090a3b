import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import CCA, load
from appgrad.cli import main


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
    assert np.abs(record["held_out_correlations"]).max() < 0.6
    assert record["warnings"][1].startswith("components 1, 2: less than half of the correlation is left")
    calm = run("fit", "x.npy", "y.npy", "-k", 2, "--ridge", "2,1", "--json", "--holdout", 0, cwd=tmp_path)
    assert json.loads(calm)["warnings"] == []


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
    assert list(table.columns) == ["x1", "x2", "y1", "y2"]
    np.testing.assert_allclose(table["y2"], V[:, 1], atol=1e-10)
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
        ("fit", "broken.csv", "y.npy"): "could not convert string 'x'",
        ("fit", "x.npy", "short.npy"): "short.npy has 3 rows, x.npy has 400",
        ("fit", "nan.npy", "y.npy"): "column 1 of nan.npy contains NaN",
        ("fit", "x.npy", "y.npy", "-k", "9"): "use at most 3",
        ("fit", "x.npy", "y.npy", "--solver", "magic"): "solver must be one of",
        ("fit", "x.npy", "y.npy", "-o", "no/such/m.cca"): "no such folder",
        ("fit", "x.npy", "y.npy", "--ridge", "-1"): "ridge must be",
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
    for command in ("fit", "transform", "score", "inspect", "demo"):
        assert command in run("--help")
        assert "Usage" in run(command, "--help")


def test_demo(tmp_path, run):
    text = run("demo", "-o", "figures", cwd=tmp_path)
    for words in ("training", "held out", "solver", "time", "figures/digits.png"):
        assert words in text
    assert (tmp_path / "figures" / "digits.png").read_bytes().startswith(b"\x89PNG")
