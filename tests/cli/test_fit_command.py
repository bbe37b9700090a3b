"""`appgrad fit`: the saved model, the check on held-out rows, and what is printed about both."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from appgrad import CCA, SparseCCA, load
from appgrad.cli.output_checks import require_checkpoint
from helpers import arrays


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
    assert record["passes"] == 2.0
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
    # In one line, also below a narrow table.
    alone = run("fit", "x.npy", "y.npy", "-k", 2, "--holdout", 0, cwd=tmp_path)
    assert "* forced: too few rows" in text
    assert "* forced: too few rows" in alone
    record = json.loads(run("fit", "x.npy", "y.npy", "-k", 2, "--json", cwd=tmp_path))
    assert "150 columns for 60 rows" in record["warnings"][0]
    run("fit", "x.npy", "y.npy", "-k", 2, "-o", "m.cca", cwd=tmp_path)
    again = run("inspect", "m.cca", cwd=tmp_path)
    assert "1.0000*" in again
    assert "* forced: too few rows" in again
    few = run("fit", "x.npy", "y.npy", "-k", 1, "--n-nonzero", 3, cwd=tmp_path)
    assert "forced" not in few
    assert np.abs(record["held_out_correlations"]).max() < 0.6
    assert record["warnings"][1].startswith("components 1, 2: less than half of the correlation is left")
    calm = run("fit", "x.npy", "y.npy", "-k", 2, "--ridge", "2,1", "--json", "--holdout", 0, cwd=tmp_path)
    (warned,) = json.loads(calm)["warnings"]
    assert warned.startswith("the first correlation of 0.")
    assert "dimensions that the ridge leaves. Judge by held-out rows" in warned


def test_a_model_file_knows_what_its_fit_has_shown(rng, tmp_path, run):
    """Held-out correlations and warnings are not lost with the terminal."""
    np.save(tmp_path / "x.npy", rng.standard_normal((60, 80)))
    np.save(tmp_path / "y.npy", rng.standard_normal((60, 70)))
    fit = "fit", "x.npy", "y.npy", "-k", 2, "--solver", "lobpcg", "--passes", 4
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
    assert load(folder / "m.cca").provenance.tested is None


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
        assert record["held_out_method"].startswith("not possible: without the held-out rows, -k ")
        assert load(tmp_path / "m.cca").n_samples_ == n
    assert "not possible" in run("fit", "x.npy", "y.npy", "-k", 3, "--holdout", 0.01, cwd=tmp_path)


def test_shared_columns_are_noticed(folder, run):
    record = json.loads(run("fit", "x.npy", "x.npy", "--json", cwd=folder))
    same = "x and y are the same columns of x.npy: their correlations are 1, and say nothing"
    found = "components 1, 2: correlation 1 on any rows; do the views share a column?"
    assert record["warnings"] == [same, found]
    for x, y, words in (
        ("x.npy", "./x.npy", "the same columns of x.npy"),
        ("x.npy", "x.npy::columns=2-3", "in common (2, 3)"),
        ("x.npy::columns=0-2", "x.npy::columns=2-4", "in common (2)"),
        ("x.csv::columns=n0,n1", "x.csv::columns=4,1,0", "in common (n0, n1)"),
    ):
        record = json.loads(run("fit", x, y, "--json", "--holdout", 0, "-k", 1, cwd=folder))
        assert words in record["warnings"][0]
        assert record["correlations"][0] > 1 - 1e-9
    for x, y in (("x.npy::columns=0-1", "x.npy::columns=2-4"), ("x.npy", "y.npy")):
        assert json.loads(run("fit", x, y, "--json", "--holdout", 0, cwd=folder))["warnings"] == []


def test_interrupted(folder, run, monkeypatch):
    import appgrad.cli.fit

    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(appgrad.cli.fit, "held_out", interrupt)
    text = run("fit", "x.npy", "y.npy", "-o", "m.cca", code=130, cwd=folder)
    assert text == "error: interrupted in the held-out check; the model of all rows is in m.cca\n"
    load(folder / "m.cca")
    monkeypatch.setattr(CCA, "fit", interrupt)
    text = run("fit", "x.npy", "y.npy", "-o", "n.cca", code=130, cwd=folder)
    assert text == "error: interrupted; before there was a model, nothing was written\n"
    assert not (folder / "n.cca").exists()


def test_a_checkpoint_that_is_not_there_yet_is_a_warning(folder, run, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    require_checkpoint(Path("c.ckpt"), resume=True)
    assert capsys.readouterr().err.startswith("warning: c.ckpt does not exist yet")


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
    assert "score" in run("score", "few.cca", "x.csv", "y.npy", cwd=folder)
    penalised = json.loads(run("fit", "x.npy", "y.npy", "--alpha", "0.2", "--json", cwd=folder))
    assert penalised["solver"] == "pursuit"
    text = run("fit", "x.npy", "y.npy", "--n-nonzero", "1", "--support", "component", cwd=folder)
    assert "2 + 2 columns have a weight" in text
    assert "--n-nonzero or --alpha" in run("fit", "x.npy", "y.npy", "--support", "shared", code=2, cwd=folder)
    assert "whole number" in run("fit", "x.npy", "y.npy", "--n-nonzero", "1.5", code=2, cwd=folder)
    assert "two ways" in run("fit", "x.npy", "y.npy", "--n-nonzero", "2", "--alpha", "1", code=1, cwd=folder)
    assert "largest useful" in run("fit", "x.npy", "y.npy", "-k", "1", "--alpha", "1", code=1, cwd=folder)
