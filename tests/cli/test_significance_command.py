"""`appgrad test`, `fit --test`, and what tables, JSON, inspect and reports say of how real components are."""

import json

import numpy as np
import pytest

from appgrad import CCA, load
from helpers import arrays

FEW = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def model(folder, run):
    run("fit", "x.npy", "y.npy", "-k", "2", "-o", "m.cca", cwd=folder)
    return folder


def test_a_saved_model_is_tested_without_rows(model, run):
    shown = run("test", "m.cca", cwd=model)
    assert "Wilks' lambda" in shown
    assert "By Wilks' step-down test, components 1 to 3 are significant" in shown
    found = json.loads(run("test", "m.cca", "--json", cwd=model))
    expected = CCA(2).fit(*arrays(model)).test()
    np.testing.assert_allclose(found["p_values"], expected.p_values)
    assert found["method"] == "parametric"
    assert found["multivariate"]["Roy's greatest root"]["reference"] == "exact"


def test_rows_are_permuted_within_groups(model, run):
    (model / "sites.txt").write_text("a\nb\n" * 200)
    options = "--method", "permutation", "--resamples", 19, "--groups", "sites.txt", "--seed", 3
    found = json.loads(run("test", "m.cca", "x.npy", "y.npy", *options, "--json", cwd=model))
    assert (found["method"], found["n_resamples"], found["p_values"][0]) == ("permutation", 19, 0.05)
    expected = load(model / "m.cca").test(
        *arrays(model), method="permutation", n_resamples=19, rng=3, groups=np.tile([0, 1], 200)
    )
    np.testing.assert_array_equal(found["p_values"], expected.p_values)
    shown = run("test", "m.cca", "x.npy", "y.npy", "--method", "held-out", "--resamples", 19, cwd=model)
    assert "19 permutations of rows that a second fit has not seen" in shown
    assert "Which half is left out decides" in shown
    shown = run("test", "m.cca", "x.npy", "y.npy", "--method", "permutation", "--resamples", 19, cwd=model)
    assert "a larger --resamples makes them sharper" in shown


@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        (["--method", "bartlett"], "is not one of auto, parametric", 2),
        (["--resamples", 0], "greater than or equal to 1", 2),
        (["--method", "permutation"], "needs rows: appgrad test model.cca X Y", 1),
        (["x.npy"], "give both views", 2),
        (["x.npy", "y.npy", "--groups", "one.txt"], "one.txt has 1 lines for 400 rows", 1),
        (["x.npy", "y.npy", "--groups", "each.txt"], "every group has one row", 1),
        (["x.npy", "short.npy"], "rows must be paired", 1),
    ],
)
def test_wrong_arguments_are_refused(model, run, options, words, code):
    (model / "one.txt").write_text("a\n")
    (model / "each.txt").write_text("\n".join(map(str, range(400))))
    np.save(model / "short.npy", np.zeros((399, 3)))
    assert words in " ".join(run("test", "m.cca", *options, code=code, cwd=model).split())


@FEW
def test_models_that_have_no_test_say_what_to_give(folder, run):
    run("fit", "x.npy", "y.npy", "--n-nonzero", 2, "-o", "s.cca", cwd=folder)
    assert "give rows, appgrad test model.cca X Y" in run("test", "s.cca", code=1, cwd=folder)
    run("fit", "x.npy", "y.npy", "--solver", "lobpcg", "-o", "i.cca", cwd=folder)
    assert "--solver exact" in run("test", "i.cca", code=1, cwd=folder)
    assert "Wilks" in run("test", "i.cca", "x.npy", "y.npy", cwd=folder)


def test_a_fit_shows_what_noise_reaches(folder, run):
    shown = run("fit", "x.npy", "y.npy", "-k", 3, cwd=folder)
    level = CCA(3).fit(*arrays(folder)).noise_level_
    assert f"noise alone reaches {level:.2f} (5 of 100 data sets of noise exceed it)" in shown
    assert "; components 1 to 3, each with its own level, are above it" in shown
    found = json.loads(run("fit", "x.npy", "y.npy", "-k", 3, "--json", cwd=folder))
    assert found["noise_level"] == pytest.approx(level)
    assert found["noise_limits"][0] > found["noise_limits"][2]
    assert len(found["effective_rows"]) == len(found["beliefs"]) == 3
    assert found["test"] is None
    assert all(len(found[f"{view}_redundancy"]) == 3 for view in "xy")


def test_a_fit_with_p_values(folder, run):
    shown = run("fit", "x.npy", "y.npy", "-k", 2, "--test", "--report", "r.html", cwd=folder)
    assert "p-values  Wilks' lambda, for normal and independent rows" in shown
    found = json.loads(run("fit", "x.npy", "y.npy", "-k", 2, "--test", "--json", cwd=folder))
    np.testing.assert_allclose(found["test"]["p_values"], CCA(2).fit(*arrays(folder)).test().p_values)
    page = (folder / "r.html").read_text()
    assert "Which components to believe, and why" in page
    assert 'class="noise"' in page
    assert "believe it, as it is above what noise alone reaches" in page
    assert "(adequacy)" in page


@FEW
def test_a_fit_with_p_values_of_permutations(folder, run):
    found = json.loads(
        run("fit", "x.npy", "y.npy", "-k", 2, "--ridge", 2, "--test", "--seed", 5, "--json", cwd=folder)
    )
    assert (found["test"]["method"], found["noise_level"]) == ("permutation", None)
    assert "the ridge leaves" in found["noise_level_reason"]
    expected = CCA(2, ridge=2).fit(*arrays(folder)).test(*arrays(folder), rng=5)
    np.testing.assert_allclose(found["test"]["p_values"], expected.p_values)
    shown = run("fit", "x.npy", "y.npy", "-k", 2, "--ridge", 2, cwd=folder)
    assert "level not known: the ridge leaves" in shown


def test_inspect_says_which_components_to_believe(model, run):
    shown = run("inspect", "m.cca", cwd=model)
    assert "Component 1 (" in shown
    assert "believe it" in shown
    assert "x opposite" in shown
    found = json.loads(run("inspect", "m.cca", "--json", cwd=model))
    # Known without rows.
    assert found["test"]["method"] == "parametric"
    assert found["beliefs"][0]["text"].startswith("Component 1 (")
    assert found["beliefs"][0]["holds"]


def test_noise_is_doubted(folder, run):
    rng = np.random.default_rng(1)
    np.save(folder / "x.npy", rng.standard_normal((60, 6)))
    np.save(folder / "y.npy", rng.standard_normal((60, 5)))
    found = json.loads(run("fit", "x.npy", "y.npy", "-k", 2, "--test", "--json", cwd=folder))
    assert not any(belief["holds"] for belief in found["beliefs"])
    assert all("doubt it, as it is not above what noise alone" in one["text"] for one in found["beliefs"])
    assert "no component is above it" in run("fit", "x.npy", "y.npy", "-k", 2, cwd=folder)


def test_groups_of_a_fit_are_respected(folder, run):
    (folder / "sites.txt").write_text("a\nb\n" * 200)
    options = "--test", "--groups", "sites.txt", "-o", "g.cca"
    found = json.loads(run("fit", "x.npy", "y.npy", *options, "--json", cwd=folder))
    assert (found["test"]["method"], found["test"]["reason"]) == ("permutation", "rows have groups")
    # The file keeps it.
    kept = json.loads(run("inspect", "g.cca", "--json", cwd=folder))
    assert kept["test"]["p_values"] == found["test"]["p_values"]
    assert "give --test too" in run("fit", "x.npy", "y.npy", "--groups", "sites.txt", code=2, cwd=folder)


def test_other_rows_are_said_to_be_another_fit(model, run):
    rng = np.random.default_rng(5)
    np.save(model / "x2.npy", rng.standard_normal((100, 5)))
    np.save(model / "y2.npy", rng.standard_normal((100, 3)))
    other = json.loads(run("test", "m.cca", "x2.npy", "y2.npy", "--json", cwd=model))
    same = json.loads(run("test", "m.cca", "x.npy", "y.npy", "--json", cwd=model))
    assert "of a new fit to the rows given" in other["notes"][0]
    assert not any("of a new fit" in note for note in same["notes"])
