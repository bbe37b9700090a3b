"""Which components are believed: evidence of rows that the fit has not seen, above chance."""

import warnings

import numpy as np
import pytest

import appgrad
from appgrad import CCA
from appgrad.data.sources import as_views
from appgrad.estimators.provenance import Origin
from appgrad.inference.holdout import HeldOut
from appgrad.reporting.beliefs import Evidence, OnOthers, beliefs
from appgrad.reporting.rows_shown import rows_shown, with_rows
from appgrad.reporting.summary import beliefs_of, summary_of


def quiet(model, X, Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, Y)


@pytest.fixture
def noise():
    rng = np.random.default_rng(0)
    return rng.standard_normal((60, 20)), rng.standard_normal((60, 20))


def test_rows_of_the_fit_are_no_evidence(noise, tmp_path):
    model = quiet(CCA(2, ridge=0.5), *noise)
    summary = with_rows(summary_of(model), rows_shown(model, as_views(*noise)))
    assert [belief.holds for belief in beliefs_of(summary)] == [None, None]
    assert "nothing shows whether it is real" in beliefs_of(summary)[0].text
    appgrad.report(model, *noise, tmp_path / "r.html")
    assert "believe it" not in (tmp_path / "r.html").read_text()


def evidence(model, values, n):
    others = (OnOthers("held-out rows", np.array(values), n),)
    noise = model.noise
    limits = np.full(len(values), np.nan)
    return Evidence(noise, limits, np.full(len(values), np.nan), 3, None, others)


@pytest.mark.parametrize(
    ("value", "n", "holds"), [(0.15, 100, None), (0.25, 100, None), (0.35, 100, True), (0.04, 100, False)]
)
def test_noise_that_lasts_by_chance_is_not_believed(noise, value, n, holds):
    """Correlations of n unrelated pairs are seldom above 3 / sqrt(n)."""
    model = quiet(CCA(1, ridge=0.5), *noise)
    (found,) = beliefs(evidence(model, [value], n), np.array([0.2]), np.array([0.2]))
    assert found.holds is holds


def test_most_noise_is_not_believed():
    """Fits of noise with a ridge, judged by five-fold cross-validation."""
    rng, believed = np.random.default_rng(0), 0
    for _ in range(30):
        X, Y = rng.standard_normal((120, 5)), rng.standard_normal((120, 4))
        model = quiet(CCA(3, ridge=0.5), X, Y)
        from appgrad.data.arrays import ArrayViews
        from appgrad.inference.holdout import held_out

        tested = held_out(ArrayViews(X, Y), *model.problem_and_options(), share=0.1, seed=0)
        model.record_provenance(Origin("x", "y", "fit", tested=tested))
        believed += any(belief.holds for belief in beliefs_of(summary_of(model)))
    assert believed <= 4


def test_p_values_of_a_fit_are_kept_with_the_model(noise, tmp_path):
    model = quiet(CCA(1, ridge=0.5), *noise)
    test = model.test(*noise, n_resamples=99, rng=0)
    model.record_provenance(
        Origin("x", "y", "fit --test", tested=HeldOut(np.array([0.5]), "rows", 60), test=test)
    )
    model.save(tmp_path / "m.cca")
    loaded = appgrad.load(tmp_path / "m.cca")
    assert loaded.provenance.test.summary() == test.summary()
    (found,) = beliefs_of(summary_of(loaded))
    assert not found.holds
    assert f"p is {test.family_wise[0]:.4f}" in found.text


def test_means_that_are_not_zero_are_no_evidence():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((100, 4)) + 0.5, rng.standard_normal((100, 4)) + 0.5
    summary = summary_of(quiet(CCA(1, center=False), X, Y))
    assert beliefs_of(summary)[0].holds is None
    assert "means other than zero count as a relation" in summary.facts["noise"]
