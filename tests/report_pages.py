"""Pages of reports, read as a browser would, and names that are out to do harm."""

import json
from html.parser import HTMLParser

from appgrad.data.sources import as_views
from appgrad.reporting.features import names_of
from appgrad.reporting.html import page
from appgrad.reporting.summary import (
    findings,
    scores_of,
)

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


def report_of(model, data=None, names=None, **more):
    names = (names_of(model, "x"), names_of(model, "y")) if names is None else names
    if data is not None:
        more["scores"] = scores_of(model, as_views(*data))
    return page(findings(model, names, title="t", **{"command": "appgrad fit"} | more))


def page_style():
    from importlib import resources

    return resources.files("appgrad.reporting").joinpath("report.html").read_text()
