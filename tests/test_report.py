"""The report: what is in the file, and what a browser makes of it."""

import json
import re
import shutil
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import CCA, KernelCCA, SparseCCA, SparseCCACV, correlations, load
from appgrad.data.sources import as_views
from appgrad.datasets import planted
from appgrad.estimators.provenance import HeldOut, Origin
from appgrad.reporting.features import names_of
from appgrad.reporting.groups import COLOURS
from appgrad.reporting.html import page, write_report
from appgrad.reporting.scores import (
    ROWS,
    RowsShown,
    plain_scores,
    rows_shown,
    sampled,
    scores_of,
    with_rows,
)
from appgrad.reporting.summary import overfitted, summary_of, with_components

HOSTILE = [
    "<script>document.title = 'taken'</script>",
    '"><img src=x onerror="document.title=1">',
    "</script ><script >document.title = 2</script >",
    "it's \"quoted\" & 'so' &amp; on",
    "{{facts}} {{command}} ${1 + 1}",
    "<!-- <script>",
]


class Page(HTMLParser):
    """The texts of an HTML page by element, as a browser would read them."""

    def __init__(self, html):
        super().__init__()
        self.open, self.texts, self.tags = [], {}, []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data):
        for tag in set(self.open):
            self.texts[tag][-1] += data

    @property
    def facts(self):
        scripts = [attrs for tag, attrs in self.tags if tag == "script"]
        at = [attrs.get("id") for attrs in scripts].index("facts")
        return json.loads(self.texts["script"][at])


@pytest.fixture(scope="module")
def data():
    p = planted(300, 6, 6, [0.9, 0.6, 0.3], random_state=0)
    return p.X, p.y


def summarised(model, names=None, scores=None, columns=None, remarks=(), about=None, top=10):
    names = (names_of(model, "x"), names_of(model, "y")) if names is None else names
    summary = with_components(summary_of(model), model, names, top)
    return with_rows(summary, RowsShown(scores, columns or {}, tuple(remarks), about or {}))


def report_of(model, data=None, command="appgrad fit", **more):
    if data is not None:
        more["scores"] = scores_of(model, as_views(*data))
    return page(summarised(model, **more), title="t", command=command)


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
    assert "exact is a direct solver: nothing to converge." in html
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
    assert '<figure id="convergence" hidden>' in html


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
    model.history_ = [
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
    assert "columns for 40 rows" not in calm
    assert "with ridge" in calm
    assert "*" not in "".join(Page(calm).texts["td"])


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
    assert summary_of(model).remarks == ()


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
        "component 2: less than half of the correlation is left on held-out rows; try a --ridge"
    ]


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
    model._origin = Origin("x", "y", "fit", tested=HeldOut(np.array([0.25]), "by folds"))
    html = report_of(model)
    assert "seen, which are" not in html
    assert "by folds" in html
    # The lead is about rows, not about what a ridge makes of them.
    rho = f"{model.training_correlations_[0]:.3f}"
    assert f"a correlation of {rho} on the rows of the fit and 0.250 on held-out rows" in html


def test_a_command_is_shown_as_it_was_typed(data):
    model = CCA(1).fit(*data)
    model._origin = Origin("a  b.npy", "y.npy", "appgrad fit 'a  b.npy' y.npy")
    html = report_of(model, command="appgrad fit 'a  b.npy' y.npy")
    assert "appgrad fit &#x27;a  b.npy&#x27; y.npy</" in html
    assert "says the model file" not in html
    assert "appgrad fit &#x27;a  b.npy&#x27; y.npy  # says the model file" in report_of(model)


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


def page_style():
    from importlib import resources

    return resources.files("appgrad.reporting").joinpath("report.html").read_text()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    paths = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        pytest.skip(f"no {' and no '.join(missing)}: on Debian, apt install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = paths["chromium"]
    for argument in (
        *("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run"),
        *("disable-background-networking", "disable-component-update", "disable-sync"),
        *("disable-dev-shm-usage", f"user-data-dir={tmp_path_factory.mktemp('chromium')}"),
    ):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # Given where the driver is, selenium looks for none elsewhere.
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(paths["chromedriver"]))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def hostile(data, tmp_path_factory):
    """A report whose names are out to do harm, with scores, groups and a curve."""
    path = tmp_path_factory.mktemp("report") / "r.html"
    model = CCA(3, solver="appgrad", random_state=0).fit(*data)
    scores = scores_of(model, as_views(*data)) | {"groups": HOSTILE, "codes": [i % 6 for i in range(300)]}
    names = HOSTILE, [name + "\u2028" for name in HOSTILE]
    columns = {"held out": np.array([0.5, np.nan, -0.5])}
    summary = summarised(model, names, scores, columns=columns, remarks=HOSTILE)
    write_report(path, summary, title="; ".join(HOSTILE), command=HOSTILE[2])
    return path


def opened(browser, path, width=1200, scheme="light"):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    screen = {"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    browser.get_log("performance")
    browser.get(path.as_uri())
    return browser


def picture(browser):
    return browser.execute_script("return document.getElementById('scatter').innerHTML")


def shown_components(browser):
    return [
        s.get_attribute("id") for s in browser.find_elements("class name", "component") if s.is_displayed()
    ]


def test_the_page_is_quiet_and_asks_for_nothing(browser, hostile):
    opened(browser, hostile)
    assert browser.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in sent if not url.startswith("data:")] == [hostile.as_uri()]


def test_hostile_names_do_nothing_and_are_shown(browser, hostile):
    opened(browser, hostile)
    assert browser.title == "CCA: " + "; ".join(HOSTILE)
    assert browser.find_elements("css selector", "img") == []
    names = [e.text for e in browser.find_elements("css selector", "#component-0 bdi")]
    assert set(names) == set(HOSTILE)
    assert [e.text for e in browser.find_elements("css selector", ".legend span")] == HOSTILE
    assert browser.find_element("css selector", "pre code").text == HOSTILE[2]


def test_a_script_that_is_put_in_does_not_run(browser, hostile, tmp_path):
    """Where escaping failed, the policy of the page would still hold."""
    html = hostile.read_text().replace("<main>", "<main><script>document.title = 'taken'</script>", 1)
    (tmp_path / "r.html").write_text(html)
    opened(browser, tmp_path / "r.html")
    assert browser.title != "taken"
    assert "Content Security Policy" in browser.get_log("browser")[0]["message"]


def test_the_component_is_picked_by_mouse_and_by_keyboard(browser, hostile):
    from selenium.webdriver.common.keys import Keys

    opened(browser, hostile)
    first = picture(browser)
    assert first.count("<circle") == 301  # and a ring
    assert shown_components(browser) == ["component-0"]
    assert not browser.find_element("id", "previous").is_enabled()
    browser.find_element("id", "next").click()
    second = picture(browser)
    assert second != first
    assert "Component 2" in second
    assert shown_components(browser) == ["component-1"]
    browser.find_element("id", "component").send_keys(Keys.ARROW_DOWN)
    assert "Component 3" in picture(browser)
    assert shown_components(browser) == ["component-2"]
    assert not browser.find_element("id", "next").is_enabled()
    browser.find_element("id", "component").send_keys(Keys.HOME)
    assert picture(browser) == first
    browser.find_element("css selector", "#against option:nth-child(3)").click()
    assert "Components 1 and 3" in picture(browser)


def test_a_point_says_its_values_to_mouse_and_keyboard(browser, hostile):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    opened(browser, hostile)
    scores = json.loads(browser.execute_script("return document.getElementById('facts').textContent"))[
        "scores"
    ]
    tip, scatter = browser.find_element("id", "tip"), browser.find_element("id", "scatter")

    def words(i):
        x, y = (f"{scores[view][0][i]:.3f}".replace("-", "\N{MINUS SIGN}") for view in "xy")
        group = HOSTILE[i % 6]
        return [f"row {i}", f"x score, component 1: {x}", f"y score, component 1: {y}", f"group: {group}"]

    assert not tip.is_displayed()
    # A point apart from others: the last, by x.
    last = int(np.argmax(scores["x"][0]))
    dot = browser.find_elements("css selector", "#scatter circle.point")[last]
    ActionChains(browser).move_to_element(dot).perform()
    assert tip.text.split("\n") == words(last)
    ActionChains(browser).move_to_element(browser.find_element("css selector", "h1")).perform()
    assert not tip.is_displayed()
    order = np.argsort(scores["x"][0], kind="stable")
    browser.find_element("id", "against").send_keys(Keys.TAB)
    assert browser.switch_to.active_element == scatter
    assert tip.text.startswith("row ")
    for key, place in ((Keys.END, -1), (Keys.ARROW_LEFT, -2), (Keys.HOME, 0), (Keys.ARROW_RIGHT, 1)):
        scatter.send_keys(key)
        assert tip.text.split("\n") == words(order[place])
    scatter.send_keys(Keys.ARROW_UP)
    up = np.argsort(scores["y"][0], kind="stable").tolist()
    assert tip.text.split("\n") == words(up[up.index(order[1]) + 1])
    scatter.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()
    assert tip.get_attribute("aria-live") == "polite"


def test_the_curve_is_drawn_against_what_is_chosen(browser, hostile):
    opened(browser, hostile)
    curve = browser.find_element("id", "curve")
    assert "iterations" in curve.get_attribute("aria-label")
    first = browser.find_element("css selector", "#curve path").get_attribute("d")
    browser.find_element("css selector", "#axis option[value=flops]").click()
    assert "floating-point operations" in curve.get_attribute("aria-label")
    assert browser.find_element("css selector", "#curve path").get_attribute("d") != first


def test_dark_mode_and_small_screens(browser, hostile):
    def colours():
        script = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
        return browser.execute_script(script)

    def lightness(colour):
        return sum(map(int, re.findall(r"\d+", colour)[:3]))

    opened(browser, hostile)
    paper, ink = map(lightness, colours())
    assert paper > 700 > 200 > ink
    for scheme in ("light", "dark"):
        opened(browser, hostile, 390, scheme)
        script = "const e = document.documentElement; return [e.scrollWidth, e.clientWidth, innerWidth]"
        content, page_width, screen = browser.execute_script(script)
        assert content == page_width <= screen == 390
        assert float(browser.execute_script("return document.getElementById('scatter').clientWidth")) > 340
    paper, ink = map(lightness, colours())
    assert paper < 200 < 600 < ink
    point = "return getComputedStyle(document.querySelector('#scatter circle.point')).fill"
    dark = browser.execute_script(point)
    assert dark != opened(browser, hostile).execute_script(point)


def test_the_widest_table_fits_a_small_screen(browser, data, tmp_path):
    model = CCA(1, ridge=2.0).fit(*data)
    model._origin = Origin("x", "y", "fit", tested=HeldOut(np.array([-0.25]), "folds"))
    (tmp_path / "r.html").write_text(report_of(model, columns={"these rows": np.array([-0.5])}))
    opened(browser, tmp_path / "r.html", 390)
    assert len(browser.find_elements("css selector", ".correlations thead th")) == 5
    bars = browser.find_elements("css selector", ".correlations rect")
    assert len({bar.value_of_css_property("fill") for bar in bars}) == len(bars) == 3
    script = "const e = document.documentElement; return e.scrollWidth <= e.clientWidth"
    assert browser.execute_script(script)


def test_one_component_and_no_scores(browser, data, tmp_path):
    model = CCA(1).fit(*data)
    (tmp_path / "r.html").write_text(report_of(model))
    opened(browser, tmp_path / "r.html")
    assert browser.get_log("browser") == []
    assert shown_components(browser) == ["component-0"]
    assert not browser.find_element("id", "controls").is_displayed()
    (tmp_path / "r.html").write_text(report_of(KernelCCA(2).fit(*data), data))
    opened(browser, tmp_path / "r.html")
    assert browser.get_log("browser") == []
    browser.find_element("id", "next").click()
    assert "Component 2" in picture(browser)
