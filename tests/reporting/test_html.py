"""The report as a file: complete, small, and with names escaped."""

import re

import numpy as np
import scipy.sparse as sp

from appgrad import CCA
from appgrad.data.sources import as_views
from appgrad.estimators.provenance import Origin
from appgrad.reporting.html import page, write_report
from appgrad.reporting.rows_shown import ROWS, scores_of
from report_pages import HOSTILE, Page, report_of, summarised


def test_what_a_report_says(data):
    model = CCA(3).fit(*data)
    html = report_of(model, data, columns={"held out": np.array([0.8765, np.nan, -0.25])})
    text = Page(html).texts
    for rho in model.canonical_correlations_:
        assert any(f"{rho:.4f}" in cell for cell in text["td"])
    assert "0.8765" in text["td"]
    assert "\N{EN DASH}" in text["td"]
    assert "\N{MINUS SIGN}0.2500" in text["td"]
    assert "300 rows" in html
    assert "CCA(n_components=3)" in html
    assert "exact: the covariances of 6 + 6 columns" in html
    # Direct solvers do not converge.
    assert "Convergence" not in Page(html).texts["h2"]
    assert "too high where rows are few" not in html
    assert len(re.findall('<section class="component"', html)) == 3
    captions = [caption for caption in text["caption"] if "View" in caption]
    assert captions == ["View x: all 6 columns", "View y: all 6 columns"] * 3
    facts = Page(html).facts
    np.testing.assert_allclose(facts["scores"]["x"], model.transform(data[0]).T, atol=1e-3)
    np.testing.assert_allclose(facts["scores"]["y"], model.transform(*data)[1].T, atol=1e-3)
    assert facts["scores"]["rows"] == list(range(300))
    assert facts["history"] is None


def test_what_is_missing_is_said(data):
    html = report_of(CCA(1).fit(*data))
    assert "appgrad report model.cca X Y" in html
    assert "too high where rows are few" in html
    assert '<figure id="scores" hidden>' in html
    assert '<figure id="convergence"' not in html


def test_hostile_names_are_data(data):
    model = CCA(2).fit(*data)
    names = (
        [name + "\u2028\u2029" for name in HOSTILE],
        ["\u202egnp.exe", "\ud800", "\x00", "a" * 10**6, "", "ü"],
    )
    scores = scores_of(model, as_views(*data))
    scores |= {"groups": HOSTILE, "codes": [i % 6 for i in range(300)]}
    summary = summarised(model, names, scores, about={"x": HOSTILE[2]})
    html = page(summary, title=HOSTILE[0], command=HOSTILE[1])
    found = Page(html)
    assert len([tag for tag, _ in found.tags if tag == "script"]) == 2
    assert "img" not in [tag for tag, _ in found.tags]
    assert set(HOSTILE) <= set(found.texts["bdi"])
    assert found.texts["h1"] == [HOSTILE[0]]
    assert found.texts["code"][-1] == HOSTILE[1]
    assert HOSTILE[2] in found.texts["td"]
    assert found.facts["scores"]["groups"] == HOSTILE
    assert "\u2028" not in html
    assert "\u202e" not in html
    assert max(map(len, found.texts["bdi"])) == 200
    # Nothing in the file refers to anything outside of it.
    assert not re.search(r"(src|href)=\"(?!data:,)", html)
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|innerHTML", html)


def test_file_names_that_are_no_text(data, tmp_path):
    """As Python has them: bytes that no character stands for."""
    model = CCA(1).fit(*data)
    write_report(tmp_path / "r.html", summarised(model), title="caf\udce9.npy", command="appgrad")
    assert "<bdi>caf&#56553;.npy</bdi>" in (tmp_path / "r.html").read_text("utf-8")


def test_only_the_page_s_own_script_may_run(data):
    html = report_of(CCA(1).fit(*data))
    policy = re.search('http-equiv="Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy


def test_a_hundred_thousand_features_stay_a_small_file(rng, tmp_path):
    X = sp.random_array((3000, 100_000), density=1e-4, rng=rng, format="csr")
    model = CCA(2, ridge=1.0, max_iter=3, tol=1.0).fit(X, X[:, :300])
    summary = summarised(model, scores=scores_of(model, as_views(X, X[:, :300])), top=7)
    write_report(tmp_path / "r.html", summary, title="t", command="c")
    assert (tmp_path / "r.html").stat().st_size < 200_000
    html = (tmp_path / "r.html").read_text()
    found = Page(html)
    assert "View x: 7 of 100,000 columns" in found.texts["caption"]
    assert len(found.texts["bdi"]) == 1 + 2 * 2 * 7
    assert len(found.facts["scores"]["rows"]) == ROWS
    assert "2,000 of 3,000, chosen at random" in html


def test_a_command_is_shown_as_it_was_typed(data):
    model = CCA(1).fit(*data)
    model.record_provenance(Origin("a  b.npy", "y.npy", "appgrad fit 'a  b.npy' y.npy"))
    html = report_of(model, command="appgrad fit 'a  b.npy' y.npy")
    assert "appgrad fit &#x27;a  b.npy&#x27; y.npy</" in html
    assert "says the model file" not in html
    assert "appgrad fit &#x27;a  b.npy&#x27; y.npy  # says the model file" in report_of(model)


def test_iterative_solvers_have_a_section_on_convergence(data):
    steps = CCA(2, solver="appgrad", random_state=0).fit(*data)
    stream = CCA(2, solver="stochastic", random_state=0).partial_fit(*data)
    for model, words in ((steps, 'id="curve"'), (stream, "Rows came as a stream")):
        html = report_of(model)
        assert "Convergence" in Page(html).texts["h2"]
        assert words in html
