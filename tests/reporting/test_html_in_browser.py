"""The report in a browser: no errors, safe, and usable by mouse, by keyboard and on small screens."""

import json
import re
import shutil

import numpy as np
import pytest

from appgrad import CCA, KernelCCA
from appgrad.data.sources import as_views
from appgrad.estimators.provenance import Origin
from appgrad.inference.holdout import HeldOut
from appgrad.reporting.html import write_report
from appgrad.reporting.rows_shown import scores_of
from report_pages import HOSTILE, report_of, summarised


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


def test_titles_of_pictures_fit_a_small_screen(browser, hostile):
    script = """const svg = document.getElementById('scatter').getBoundingClientRect();
        const title = document.querySelector('#scatter .title'), box = title.getBoundingClientRect();
        const first = document.querySelector('#scatter .grid').getBoundingClientRect();
        return [svg.right - box.right, first.top - box.bottom, title.textContent]"""
    for width, text in ((1200, ", rows of the fit"), (390, "rows of the fit"), (330, "rows of the fit")):
        opened(browser, hostile, width)
        beside, below, title = browser.execute_script(script)
        assert min(beside, below) >= 0
        assert title.endswith(text)


def test_the_widest_table_fits_a_small_screen(browser, data, tmp_path):
    model = CCA(1, ridge=2.0).fit(*data)
    test = CCA(1).fit(*data).test()
    model.record_provenance(Origin("x", "y", "fit", tested=HeldOut(np.array([-0.25]), "folds"), test=test))
    (tmp_path / "r.html").write_text(report_of(model, columns={"these rows": np.array([-0.5])}))
    opened(browser, tmp_path / "r.html", 390)
    assert len(browser.find_elements("css selector", ".correlations thead th")) == 7
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
