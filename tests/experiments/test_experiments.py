"""Experiments on small data: their records, the figures drawn from them, and the output of the command."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import CCA, tcc
from appgrad.cli.main import main
from appgrad.datasets import planted
from appgrad.datasets.loaders import Paired
from appgrad.experiments import EXPERIMENTS, bilingual, curves, run
from appgrad.experiments.bilingual import translation_ranks
from appgrad.experiments.curves import Curve, Judge, StepSearch, add_curve, checkpoints, reached, with_step
from appgrad.experiments.records import read, writing

DOCS = Path(__file__).parents[2] / "docs"
SEARCH = StepSearch(ratio=1.5, least=30)


FIGURES = {
    "mnist": {"mnist_pcc.png", "mnist_labels.png"},
    "mediamill": {"mediamill_pcc.png"},
    "ptb": {"ptb_next_word_pcc.png", "ptb_two_words_either_side_pcc.png"},
    "url": {"malicious_urls_tcc.png", "debian_paths_tcc.png"},
    "bilingual": {"bilingual_retrieval.png"},
}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_writes_records_and_figures_come_from_them(name, data_sets, tmp_path):
    pytest.importorskip("matplotlib")
    from appgrad.experiments.figures import draw

    said = list(run(name, data_sets, tmp_path, quick=True))
    assert len(said) == len(set(said)) > 2
    header, records = read(tmp_path / f"{name}.jsonl")
    assert header["kind"] == "run"
    assert header["command"] == f"appgrad experiment {name} --data DIR --out DIR --quick"
    assert {"date", "versions", "machine"} <= set(header)
    assert {record["kind"] for record in records} >= {"sizes"}
    for record in records:
        values = [value for value in record.values() if isinstance(value, float)]
        assert np.isfinite(values).all(), record
        if record["kind"] in ("point", "solution", "heuristic"):
            assert 0 < record["tcc_in"] <= 20 + 1e-6
            assert record["flops"] > 0
    # The records alone: no data set is looked at.
    drawn = draw(tmp_path / f"{name}.jsonl", tmp_path / "figures")
    assert {path.name for path in drawn} == FIGURES[name]
    assert all(path.stat().st_size > 10000 for path in drawn)


def drawn_lines(ax):
    """Values by label, in order; lines without a label apart."""
    found = {}
    for line in ax.lines:
        label = line.get_label() if not line.get_label().startswith("_") else "other"
        found.setdefault(label, []).append((list(line.get_xdata()), list(line.get_ydata())))
    return found


def test_figures_show_what_records_say():
    figures = pytest.importorskip("appgrad.experiments.figures")
    point = {"kind": "point", "set": "s", "method": "AppGrad", "seed": 0}
    points = [
        point | {"iteration": t, "flops": np.exp(t), "seconds": t / 10, "tcc_in": 4 * t, "tcc_out": 2 * t}
        for t in (1, 2)
    ]
    exact = {"kind": "solution", "set": "s", "method": "exact", "flops": np.exp(9), "seconds": 0.5}
    published = {"kind": "published", "set": "s", "method": "AppGrad", "iteration": 2}
    figure = figures.proportions(
        [*points, exact | {"tcc_in": 16, "tcc_out": 5}, published | {"pcc_in": 44, "pcc_out": 77}]
    )
    panels = np.reshape(figure.axes, (2, 3))
    for side, (shares, theirs) in enumerate((([25, 50], 44), ([40, 80], 77))):
        for panel, (costs, true_cost) in enumerate((([1, 2], None), ([1, 2], 9), ([0.1, 0.2], 0.5))):
            lines = drawn_lines(panels[side, panel])
            np.testing.assert_allclose(lines["AppGrad"][0], [costs, shares])
            if panel < 2:
                np.testing.assert_allclose(lines["AppGrad, published"][0], [[2], [theirs]])
            if true_cost is not None:
                np.testing.assert_allclose(lines["exact"][0], [[true_cost], [100]])

    heuristic = {"kind": "heuristic", "set": "s", "method": "NW-CCA", "flops": np.exp(3), "seconds": 2.0}
    figure = figures.totals([*points, heuristic | {"tcc_in": 7, "tcc_out": 6}])
    panels = np.reshape(figure.axes, (2, 2))
    for side, (totals, level) in enumerate((([4, 8], 7), ([2, 4], 6))):
        for panel, (costs, cost) in enumerate((([1, 2], 3), ([0.1, 0.2], 2))):
            lines = drawn_lines(panels[side, panel])
            np.testing.assert_allclose(lines["AppGrad"][0], [costs, totals])
            np.testing.assert_allclose(lines["NW-CCA"][0], [[cost], [level]])
            np.testing.assert_allclose(lines["other"][0][1], [level, level])

    found = {"kind": "retrieval", "weighted": True, "m": None}
    records = [
        found | {"method": method, "k": k, "ridge": ridge, "top1": share, "top10": share + 0.1}
        for method, ridge, k, share in (("CCA", 0.1, 5, 0.3), ("CCA", 0.1, 9, 0.4), ("NW-CCA", 0.2, 5, 0.2))
    ]
    figure = figures.retrieval([*records, records[0] | {"weighted": False, "top1": 0.0}])
    panels = np.reshape(figure.axes, (2, 2))
    for row, more in enumerate((0, 10)):
        np.testing.assert_allclose(drawn_lines(panels[row, 0])["CCA"][0], [[5, 9], [30 + more, 40 + more]])
        np.testing.assert_allclose(drawn_lines(panels[row, 1])["NW-CCA"][0], [[5], [20 + more]])

    label = {"kind": "labels", "features": "CCA", "k": 20, "ridge": 0.1, "labels": 50}
    records = [label | {"seed": seed, "accuracy": share} for seed, share in ((0, 0.5), (1, 0.7))]
    (panel,) = figures.few_labels(records).axes
    np.testing.assert_allclose(drawn_lines(panel)["CCA, ridge 0.1"][0], [[50], [60]])


@pytest.mark.parametrize("panels", [1, 4])
def test_legends_fit_into_their_figures(panels):
    """A quick run has one ridge, and a narrow figure: the legend of the full one was cut off there."""
    figures = pytest.importorskip("appgrad.experiments.figures")
    found = {"kind": "retrieval", "weighted": True, "k": 50, "top1": 0.5, "top10": 0.6}
    records = [
        found | {"method": name, "m": m, "ridge": ridge}
        for name, m in bilingual.methods(quick=False)
        for ridge in bilingual.RIDGES[:panels]
    ]
    figure = figures.retrieval(records)
    figure.draw_without_rendering()
    (legend,) = figure.legends
    names = {text.get_text() for text in legend.get_texts()}
    assert names == {"CCA", "NW-CCA", "DW-CCA", "PCA-CCA, m = 600"}
    for text in legend.get_texts():
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width


def test_a_quick_run_has_the_methods_and_the_ridge_of_the_full_one(data_sets, tmp_path):
    """The ridge with which CCA finds most in the records of the full run."""
    found = bilingual.weighted_retrievals(read(DOCS / "results" / "bilingual.jsonl")[1])
    best = max((record for record in found if record["method"] == "CCA"), key=lambda record: record["top1"])
    list(run("bilingual", data_sets, tmp_path, quick=True))
    quick = bilingual.weighted_retrievals(read(tmp_path / "bilingual.jsonl")[1])
    assert {record["ridge"] for record in quick} == {best["ridge"]}
    assert {record["method"] for record in quick} == {record["method"] for record in found}
    assert {record["k"] for record in quick} < {record["k"] for record in found}


def test_candidates_have_no_text_of_the_fit_and_none_twice(tmp_path, monkeypatch, rng):
    monkeypatch.setattr(bilingual, "CANDIDATES", 300)
    (tmp_path / "bilingual_en_it").mkdir()
    views = [rng.integers(0, 2, (800, 60)) for _ in range(2)]
    views[0][601] = views[0][5]  # as in the fit, in one language
    views[1][700] = views[1][602]  # twice
    for name, view in zip(("en", "it"), views, strict=True):
        sp.save_npz(tmp_path / "bilingual_en_it" / f"X_{name}.npz", sp.csr_array(view))
    found = bilingual.load(tmp_path)
    left = np.setdiff1d(np.arange(600, 800), [601, 700])
    np.testing.assert_array_equal(found.X_test.toarray(), views[0][left])
    np.testing.assert_array_equal(found.y_test.toarray(), views[1][left])
    np.testing.assert_array_equal(found.X.toarray(), views[0][:600])


def test_points_say_what_was_captured(tmp_path):
    p = planted(700, 12, 10, [0.9, 0.8, 0.7], random_state=0)
    data = Paired(p.X[:500], p.y[:500], p.X[500:], p.y[500:])
    judge = Judge("planted", data, 3)
    with writing(tmp_path / "r.jsonl") as writer:
        add_curve(writer, judge, Curve("LOBPCG", {"solver": "lobpcg", "tol": 0}, [1, 2, 15]), 0, {})
    _, (curve, *points, end) = read(tmp_path / "r.jsonl")
    assert curve["params"] == {"solver": "lobpcg", "tol": 0}
    assert [point["iteration"] for point in points] == [1, 2, 15]
    assert (end["kind"], end["iterations"]) == ("curve end", 15)
    assert points[0]["flops"] < points[1]["flops"]
    exact = CCA(3).fit(data.X, data.y)
    assert points[-1]["tcc_in"] == pytest.approx(exact.canonical_correlations_.sum(), abs=1e-4)
    outside = tcc(*exact.transform(data.X_test, data.y_test))
    assert points[-1]["tcc_out"] == pytest.approx(outside, abs=1e-4)
    assert points[0]["tcc_in"] < points[-1]["tcc_in"]


@pytest.mark.parametrize("solver", ["appgrad", "stochastic"])
def test_the_step_is_the_best_on_rows_held_out(solver, tmp_path):
    p = planted(2000, 12, 10, [0.9, 0.8, 0.7], random_state=0)
    judge = Judge("planted", Paired(p.X, p.y, p.X, p.y), 3)
    largest = max(np.linalg.eigvalsh(np.cov(view.T, bias=True)).max() for view in (p.X, p.y))
    assert judge.longest_step() == pytest.approx(1 / largest, rel=1e-3)
    with writing(tmp_path / "r.jsonl") as writer:
        found = with_step(writer, judge, Curve("x", {"solver": solver, **curves.LETTER}, [20]), SEARCH, {})
    _, tried = read(tmp_path / "r.jsonl")
    steady = {record["step"]: record["tcc"] for record in tried if record["steady"]}
    best = max(steady, key=lambda step: steady[step])
    assert found.params["step_size"] == best
    # It lies within what was tried: no longer one is better, and no shorter one.
    assert min(record["step"] for record in tried) < best < max(record["step"] for record in tried)


def test_a_step_that_runs_away_is_none(tmp_path, monkeypatch):
    p = planted(2000, 12, 10, [0.9, 0.8, 0.7], random_state=0)
    judge = Judge("planted", Paired(p.X, p.y, p.X, p.y), 3)
    sure = judge.longest_step()
    monkeypatch.setattr(Judge, "longest_step", lambda judge: 10 * sure)
    with writing(tmp_path / "r.jsonl") as writer:
        curve = with_step(writer, judge, Curve("x", {"solver": "appgrad", **curves.LETTER}, [30]), SEARCH, {})
        assert curve.params["step_size"] < 3 * sure
        add_curve(writer, judge, curve, 0, {})
        add_curve(writer, judge, curve._replace(params=curve.params | {"step_size": 10 * sure}), 0, {})
    _, records = read(tmp_path / "r.jsonl")
    assert not records[0]["steady"]
    first, second = (i for i, record in enumerate(records) if record["kind"] == "curve")
    events = [i for i, record in enumerate(records) if record["kind"] == "event"]
    assert first < second < min(events)
    assert "ran away" in records[events[0]]["event"]


def test_trials_are_a_tenth_of_the_run_on_nine_tenths_of_the_rows(tmp_path, monkeypatch):
    p = planted(2000, 12, 10, [0.9, 0.8, 0.7], random_state=0)
    judge = Judge("planted", Paired(p.X + 1, p.y, p.X, p.y), 3, center=False)
    asked, fitted = [], curves._fitted
    monkeypatch.setattr(
        curves, "_fitted", lambda trial, params: (asked.append(trial), fitted(trial, params))[1]
    )
    with writing(tmp_path / "r.jsonl") as writer:
        curve = Curve("x", {"solver": "appgrad", **curves.LETTER}, [500])
        with_step(writer, judge, curve, SEARCH, {"center": False})
    assert {record["iterations"] for record in read(tmp_path / "r.jsonl")[1]} == {50}
    for trial in asked:
        assert not trial.center
        assert trial.data.X.shape[0] == 1800
        assert trial.data.X_test.shape[0] == 200


def test_steps_of_next_to_nothing_are_not_looked_for(tmp_path, monkeypatch):
    """The shorter the step, the nearer to what the start captures: a gain in the last digits is none."""
    p = planted(300, 8, 8, [0.9, 0.8], random_state=0)
    judge = Judge("planted", Paired(p.X, p.y, p.X, p.y), 2)
    captured = iter([1.0, 0.5, 1.000001, 1.000002, 1.000003])
    monkeypatch.setattr(Judge, "tcc", lambda judge, A, B: (0.0, next(captured)))
    with writing(tmp_path / "r.jsonl") as writer:
        curve = with_step(writer, judge, Curve("x", {"solver": "appgrad", **curves.LETTER}, [3]), SEARCH, {})
    first, longer, shorter = (record["step"] for record in read(tmp_path / "r.jsonl")[1])
    assert shorter < first < longer
    assert curve.params["step_size"] == first


def test_a_curve_is_run_with_every_seed(tmp_path):
    p = planted(300, 8, 8, [0.9, 0.8], random_state=0)
    judge = Judge("planted", Paired(p.X, p.y, p.X, p.y), 2)
    curve = Curve("x", {"solver": "stochastic", "batch_size": 50}, [2], seeds=2)
    with writing(tmp_path / "r.jsonl") as writer:
        told = list(curves.add_curves(writer, judge, [curve], {}))
    assert told == ["planted: x, seed 0", "planted: x, seed 1"]
    first, second = (r["tcc_in"] for r in read(tmp_path / "r.jsonl")[1] if r["kind"] == "point")
    assert first != second


def test_looking_takes_no_time(tmp_path, monkeypatch, clock):
    p = planted(300, 8, 8, [0.9, 0.8], random_state=0)
    judge = Judge("planted", Paired(p.X, p.y, p.X, p.y), 2)
    slow = judge.tcc
    monkeypatch.setattr(judge, "tcc", lambda A, B: (clock.go_on(4), slow(A, B))[1])
    with writing(tmp_path / "r.jsonl") as writer:
        add_curve(writer, judge, Curve("LOBPCG", {"solver": "lobpcg", "tol": 0}, [1, 2, 3, 4]), 0, {})
    assert read(tmp_path / "r.jsonl")[1][-2]["seconds"] < 4


def test_a_run_that_ends_early_leaves_the_old_records(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"kind": "run"}\n')

    def interrupted():
        with writing(path) as writer:
            writer.add(kind="point", value=1 / 3)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == '{"kind": "run"}\n'
    assert json.loads((tmp_path / "r.jsonl.part").read_text().splitlines()[1])["value"] == 0.333333


def test_when_a_level_is_reached():
    points = [{"pcc": 50.0, "flops": 1e3}, {"pcc": 70.0, "flops": 1e5}, {"pcc": 65.0, "flops": 1e6}]
    assert reached(points, 60, "pcc", "flops") == pytest.approx(1e4)
    assert reached(points, 40, "pcc", "flops") == 1e3
    assert reached(points, 71, "pcc", "flops") is None
    assert checkpoints(1000, 2)[0] == 1
    assert checkpoints(1000, 2)[-1] == 1000


def test_ranks_of_translations():
    U = np.eye(3)
    V = np.array([[2.0, 0, 0], [1, 0.5, 0], [0, 0, 1]])
    assert translation_ranks(U, V).tolist() == [0, 0, 0]
    # Nothing is nearer by chance: equal ones count against.
    assert translation_ranks(np.ones((4, 2)), np.ones((4, 2))).tolist() == [3, 3, 3, 3]
    assert translation_ranks(U, V[[1, 0, 2]]).tolist() == [1, 2, 0]
    # What is not a number is not found.
    assert translation_ranks(U, V * np.nan).tolist() == [2, 2, 2]


def test_scores_count_by_their_correlations(tmp_path):
    """The second score of each row is noise that only its small correlation keeps from leading astray."""
    U, V = np.array([[1.0, 3], [-1, -3]]), np.array([[1.0, -3], [-1, 3]])
    with writing(tmp_path / "r.jsonl") as writer:
        bilingual._add(writer, lambda: bilingual.Scores(U, V, np.array([0.9, 0.1])), method="m", k=2, ridge=0)
    plain, weighted = read(tmp_path / "r.jsonl")[1]
    assert (plain["weighted"], plain["top1"]) == (False, 0.0)
    assert (weighted["weighted"], weighted["top1"]) == (True, 1.0)


@pytest.mark.parametrize(("name", "m"), [("NW-CCA", None), ("DW-CCA", None), ("PCA-CCA", 5)])
def test_scores_of_heuristics_are_of_centred_rows(name, m):
    p = planted(500, 8, 8, [0.9, 0.8], random_state=0)
    data = Paired(p.X[:400] + 3, p.y[:400] - 2, p.X[400:] + 3, p.y[400:] - 2)
    U, V, rho = bilingual._heuristic(data, name, m, 2, 1e-3)
    assert np.abs(U.mean(axis=0)).max() < 0.5
    assert np.abs(V.mean(axis=0)).max() < 0.5
    assert rho[0] > 0.3


def test_the_command(data_sets, tmp_path, program, monkeypatch, capsys):
    arguments = ["mediamill", "--data", str(data_sets), "--out", "results", "--quick"]
    done = subprocess.run([*program, *arguments], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "LOBPCG" in done.stdout
    assert (tmp_path / "results" / "mediamill.jsonl").exists()
    assert (tmp_path / "results" / "mediamill_pcc.png").exists()
    monkeypatch.chdir(tmp_path)
    for wrong, code in (
        (["fashion"], 2),
        (["ptb", "--data", "nowhere"], 1),
        (["ptb", "--data", "results"], 1),
    ):
        monkeypatch.setattr(sys, "argv", ["appgrad", "experiment", *wrong])
        with pytest.raises(SystemExit) as end:
            main()
        assert end.value.code == code
        assert "Traceback" not in capsys.readouterr().err


def test_an_unknown_experiment(tmp_path):
    with pytest.raises(ValueError, match="no experiment is called 'fashion': there are mnist, mediamill"):
        list(run("fashion", None, tmp_path))
