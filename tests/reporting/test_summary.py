"""Contents of a summary: scores, features, the run, and warnings."""

import warnings

import numpy as np
import pytest

from appgrad import CCA, KernelCCA, SparseCCA, SparseCCACV, correlations, load
from appgrad.data.sources import as_views
from appgrad.estimators.provenance import Origin
from appgrad.inference.holdout import HeldOut
from appgrad.reporting.groups import COLOURS
from appgrad.reporting.rows_shown import ROWS, plain_scores, rows_shown, sampled, scores_of
from appgrad.reporting.summary import overfitted, summary_of
from report_pages import Page, page_style, report_of


def test_many_components_show_fewer_rows():
    assert len(sampled(10**7, 2)) == ROWS
    assert len(sampled(10**7, 100)) == 400
    assert len(sampled(10**7, 10**4)) == 200
    assert len(np.unique(sampled(5000, 2))) == ROWS
    np.testing.assert_array_equal(sampled(50, 2), np.arange(50))


def test_scores_of_a_sample_are_those_of_its_rows(rng):
    X, Y = rng.standard_normal((2500, 3)), rng.standard_normal((2500, 3))
    model = CCA(1).fit(X, Y)
    found = scores_of(model, as_views(X, Y))
    np.testing.assert_allclose(found["x"][0], model.transform(X)[found["rows"], 0], atol=1e-3)
    np.testing.assert_allclose(found["y"][0], model.transform(X, Y)[1][found["rows"], 0], atol=1e-3)
    again = rows_shown(model, as_views(X, Y)).scores
    assert (again["rows"], again["y"]) == (found["rows"], found["y"])


def test_correlations_of_a_sample_are_those_of_all_rows(rng):
    """The picture has 2000 rows; its title says what the table says."""
    X = rng.standard_normal((5000, 3))
    Y = X + rng.standard_normal((5000, 3))
    model = CCA(2).fit(X, Y)
    scores = scores_of(model, as_views(X, Y))
    assert len(scores["rows"]) == 2000
    np.testing.assert_allclose(scores["correlations"], model.training_correlations_)
    shown = rows_shown(model, as_views(X[:4000] + 1e7, Y[:4000])).scores
    np.testing.assert_allclose(
        shown["correlations"], correlations(*model.transform(X[:4000], Y[:4000])), atol=1e-6
    )
    # Far from zero, points are still apart.
    assert len(set(shown["x"][0])) > 1000


def test_components_of_few_columns_are_shown_by_weight(data):
    model = SparseCCA(1, n_nonzero=(2, 3)).fit(*data)
    html = report_of(model)
    assert "View x: 2 of 6 columns" in html
    assert "View y: 3 of 6 columns" in html
    weights = model.x_weights_[:, 0] * data[0].std(axis=0)
    largest = f"{weights[np.argmax(np.abs(weights))]:+.3f}".replace("-", "\N{MINUS SIGN}")
    assert largest in Page(html).texts["td"]
    assert "2 + 3 columns have a weight" in html


def test_kernels_have_no_features(data):
    model = KernelCCA(2).fit(*data)
    html = report_of(model, data)
    assert "functions of all columns at a time" in html
    assert "<h3>" not in html
    assert len(Page(html).facts["scores"]["x"]) == 2


def test_a_run_has_a_curve(data):
    model = CCA(2, solver="appgrad", random_state=0).fit(*data)
    history = Page(report_of(model)).facts["history"]
    assert history["passes"] == [step["passes"] for step in model.history_]
    assert history["tcc"][-1] == pytest.approx(model.history_[-1]["tcc"], abs=1e-6)
    step = model.history_[-1]
    model.history_[:] = [
        {**step, "iteration": i, "flops": np.nan, "tcc": i if i > 99 else np.nan} for i in range(9000)
    ]
    history = Page(report_of(model)).facts["history"]
    assert history["tcc"][-1] == 8999
    assert len(history["tcc"]) <= 500
    assert "flops" not in history


def test_streams_keep_no_steps(data):
    model = CCA(2, solver="stochastic").partial_fit(*data)
    html = report_of(model, data)
    assert "whose steps are not kept" in html
    assert '<th scope="row">time</th>' not in html


def test_forced_correlations_are_called_so_again(rng, tmp_path):
    X, Y = rng.standard_normal((40, 50)), rng.standard_normal((40, 60))
    with pytest.warns(UserWarning, match="110 columns for 40 rows"):
        CCA(2).fit(X, Y).save(tmp_path / "m.cca")
    model = load(tmp_path / "m.cca")
    html = report_of(model)
    assert "110 columns for 40 rows" in html
    assert "1.0000*" in html
    assert "* forced: there are too few rows" in html
    others = rows_shown(model, as_views(rng.standard_normal((30, 50)), rng.standard_normal((30, 60))))
    assert others.remarks[0].startswith("components 1, 2: less than half of the correlation is left on these")
    assert rows_shown(model, as_views(X, Y)).remarks[0].startswith("these rows seem to be those of the fit")
    calm = report_of(CCA(2, ridge=1.0).fit(X, Y))
    assert "110 columns for 40 rows" not in calm
    assert "with ridge" in calm
    assert "is not clearly above what noise alone reaches" in calm


def test_real_correlations_of_many_dependent_columns_are_not_called_forced(rng, tmp_path):
    """More columns than rows, of three factors: the fit does not warn, nor does what shows it later."""
    factors = rng.standard_normal((200, 3))
    X, Y = (np.tile(factors + 0.01 * rng.standard_normal((200, 3)), (1, times)) for times in (50, 30))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        CCA(2).fit(X, Y).save(tmp_path / "m.cca")
    html = report_of(load(tmp_path / "m.cca"))
    assert 'class="remarks"' not in html
    assert "forced" not in html


def test_what_a_stream_has_warned_of_is_kept(rng, tmp_path):
    model = CCA(2).partial_fit(rng.standard_normal((40, 50)), rng.standard_normal((40, 60)))
    with pytest.warns(UserWarning, match="110 columns for 40 rows"):
        model.save(tmp_path / "m.cca")
    assert "110 columns for 40 rows" in report_of(load(tmp_path / "m.cca"))


def test_what_a_stream_warned_of_before_more_rows_came_is_forgotten(rng):
    X, Y = rng.standard_normal((400, 50)), rng.standard_normal((400, 60))
    model = CCA(2).partial_fit(X[:40], Y[:40])
    with pytest.warns(UserWarning, match="110 columns for 40 rows"):
        assert summary_of(model).forced
    model.partial_fit(X[40:], Y[40:])
    assert not summary_of(model).forced
    assert not any("columns for" in remark for remark in summary_of(model).remarks)


def test_a_run_that_ended_early_is_called_so_again(data, tmp_path):
    with pytest.warns(UserWarning, match="stopped at its max_iter"):
        CCA(2, solver="appgrad", max_iter=2, random_state=0).fit(*data).save(tmp_path / "m.cca")
    model = load(tmp_path / "m.cca")
    assert "appgrad stopped at its max_iter after 2 iterations" in report_of(model)
    assert not summary_of(model).forced


def test_a_path_keeps_no_remarks_that_it_does_not_make(rng, tmp_path):
    """Whether correlations say anything is what held-out rows have been asked."""
    X, Y = rng.standard_normal((60, 30)), rng.standard_normal((60, 20))
    SparseCCACV(SparseCCA(1), n_nonzeros=[2, 5], cv=3).fit(X, Y).save(tmp_path / "m.cca")
    assert summary_of(load(tmp_path / "m.cca")).remarks == ()


def test_half_of_the_correlation_is_what_must_be_left(data):
    model = CCA(3).fit(*data)
    others = model.training_correlations_ * [0.51, 0.49, 0.51]
    assert overfitted(model, others) == [
        "component 2: less than half of the correlation is left on held-out rows; try a ridge, or "
        "fewer components"
    ]
    # One component cannot be fewer.
    (text,) = overfitted(CCA(1).fit(*data), np.zeros(1))
    assert text.endswith("is left on held-out rows; try a ridge")


def test_other_rows_with_correlations_of_one_are_not_taken_for_those_of_the_fit(rng):
    views = []
    for _ in range(2):
        X = rng.standard_normal((200, 3))
        views.append((X, np.column_stack([X[:, 0], rng.standard_normal(200)])))
    model = CCA(1).fit(*views[0])
    assert rows_shown(model, as_views(*views[1])).remarks == (
        "component 1: correlation 1 on any rows; do the views share a column?",
    )


def test_correlations_of_unseen_rows_are_asked_for_where_there_are_none(data):
    model = CCA(1, ridge=0.1).fit(*data)
    assert "correlations of the rows that the fit has seen" in report_of(model)
    assert "seen, which are" not in report_of(model, columns={"these rows": np.array([0.5])})
    model.record_provenance(Origin("x", "y", "fit", tested=HeldOut(np.array([0.25]), "by folds")))
    html = report_of(model)
    assert "seen, which are" not in html
    assert "by folds" in html
    # The lead is about rows, not about what a ridge makes of them.
    rho = f"{model.training_correlations_[0]:.3f}"
    assert f"a correlation of {rho} on the rows of the fit and 0.250 on held-out rows" in html


def test_nothing_is_said_of_exact_kernels_that_fit_well(rng):
    angle = rng.uniform(-np.pi, np.pi, (200, 1))
    model = KernelCCA(1, ridge=1e-6).fit(np.cos(2 * angle), np.sin(angle))
    assert model.canonical_correlations_[0] > 0.99
    assert 'class="remarks"' not in report_of(model)


def test_labels_of_rows_shown():
    U = np.zeros((5, 1))
    found = plain_scores(U[:2], U[:2], np.array([1, 4]), 5, ["a", "b", "a", "a", "c"])
    assert [found["groups"][code] for code in found["codes"]] == ["b", "c"]
    numbers = [str(i / 2) for i in range(20)]
    found = plain_scores(U[:2], U[:2], np.array([1, 4]), 20, [*numbers[:-1], "nan"])
    assert found["numbers"] == [0.5, 2.0]
    style = page_style()
    assert all(f".g{code} {{" in style for code in range(len(COLOURS)))
