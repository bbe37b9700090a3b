"""Pages of reports, parsed as a browser would, and malicious names to test them with."""

import json
from html.parser import HTMLParser

from appgrad.data.sources import as_views
from appgrad.reporting.features import names_of
from appgrad.reporting.html import page
from appgrad.reporting.rows_shown import RowsShown, scores_of, with_rows
from appgrad.reporting.summary import summary_of, with_components

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


def summarised(model, names=None, scores=None, columns=None, remarks=(), about=None, top=10):
    """A summary with leading features and rows, as reports show it."""
    names = (names_of(model, "x"), names_of(model, "y")) if names is None else names
    summary = with_components(summary_of(model), model, names, top)
    return with_rows(summary, RowsShown(scores, columns or {}, tuple(remarks), about or {}))


def report_of(model, data=None, command="appgrad fit", **more):
    """The page of a report; with data, the scores of their rows."""
    if data is not None:
        more["scores"] = scores_of(model, as_views(*data))
    return page(summarised(model, **more), title="t", command=command)


def page_style():
    from importlib import resources

    return resources.files("appgrad.reporting").joinpath("report.html").read_text()
