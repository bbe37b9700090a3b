"""Documentation: code blocks run and print what is shown, links exist, the site needs no network."""

import gzip
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_linnerud

from appgrad.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^(```|~~~)([^\n]*)\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
# Lines of sh blocks beside those of `appgrad`: setting up, which tests do not repeat.
OTHER_COMMANDS = (
    "git clone <this repository> && cd appgrad",
    "make demo",
    "make test",
    ". .venv/bin/activate",
    "pip install .",
    "pip install '.[all]'",
)
# What a page asks for that is large, or elsewhere, and what is run in its place.
STAND_INS = {
    "columns=1-1000": "columns=1-30",
    "columns=1001-3231961": "columns=31-60",
    "columns=0-499": "columns=0-29",
    "columns=500-999": "columns=30-59",
    "x.npy y.npy -k 20": "x.npy y.npy -k 3",
    "local:4": "local:2",
    "-k 4 --n-nonzero 10": "-k 2 --n-nonzero 5",
}


def blocks(page):
    """Kind and text of the fenced blocks of a page, in order; `output` is text right after a command."""
    found, before, end = [], None, 0
    text = page.read_text()
    for match in BLOCK.finditer(text):
        kind = match[2]
        if (kind, before) == ("text", "sh") and not text[end : match.start()].strip():
            kind = "output"
        found.append((kind, match[3]))
        before, end = match[2], match.end()
    return found


@pytest.fixture
def small_files(tmp_path):
    """The files that commands name, with few rows and columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 60))
    Y = X[:, :22] + rng.standard_normal((200, 22))
    # As many new rows: the old ones, each a little changed.
    for prefix, change in (("", 0.0), ("new_", 0.3)):
        np.save(tmp_path / f"{prefix}x.npy", X[:, :24] + change * rng.standard_normal((200, 24)))
        np.savetxt(tmp_path / f"{prefix}y.csv", Y[:, :6], delimiter=",")
    np.save(tmp_path / "y.npy", Y)
    for name, view in zip(
        ("exercises", "physiology"), load_linnerud(return_X_y=True, as_frame=True), strict=True
    ):
        view.to_csv(tmp_path / f"{name}.csv", index=False)
    for view, language in enumerate(("en", "it")):
        counts = (X if view == 0 else Y)[:, :20] > 0.5
        sp.save_npz(tmp_path / f"X_{language}.npz", sp.csr_array(counts.astype(float)))
        words = "\n".join(f"{language}{i}" for i in range(20))
        (tmp_path / f"vocab_{language}.txt.gz").write_bytes(gzip.compress(words.encode()))
    (tmp_path / "folder" / "mediamill").mkdir(parents=True)
    views = {f"{name}_{part}": view for name, view in (("X", X), ("Y", Y)) for part in ("train", "test")}
    np.savez(tmp_path / "folder" / "mediamill" / "mediamill.npz", **views)
    (tmp_path / "url").mkdir()
    for day in range(2):
        rows = (" ".join(f"{i + 1}:{value:.4f}" for i, value in enumerate(row)) for row in X[day::2])
        (tmp_path / "url" / f"Day{day}.svm").write_text("".join(f"0 {row}\n" for row in rows))
    return tmp_path


@pytest.fixture
def parquet_files(tmp_path):
    """A folder of parquet files, as workers of a cluster read them."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "data").mkdir()
    rows = np.random.default_rng(0).standard_normal((400, 60))
    for part in range(4):
        columns = {f"c{i}": column for i, column in enumerate(rows[part::4].T)}
        pq.write_table(pa.table(columns), tmp_path / "data" / f"part-{part}.parquet")


def run(line, stand_ins):
    """What an `appgrad` line prints here; it must succeed."""
    for asked, small in stand_ins.items():
        line = line.replace(asked, small)
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        # As in a process of its own, which would take more than a second to start.
        patch.setattr(sys, "argv", shlex.split(line, comments=True))
        patch.setenv("COLUMNS", "100")
        warnings.simplefilter("default")
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        with redirect_stdout(printed), redirect_stderr(printed), pytest.raises(SystemExit) as end:
            main()
    assert not end.value.code, f"{line}\n{printed.getvalue()}"
    return printed.getvalue()


def words(text):
    """Words of a text, times left out."""
    return re.sub(r"[\d.]+ m?s\b", "some s", text).split()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_blocks_do_what_they_say(page, small_files, monkeypatch, capsys, request):
    monkeypatch.chdir(small_files)
    stand_ins, printed = dict(STAND_INS), ""
    for kind, text in blocks(page):
        if kind == "python":
            exec(compile(text, str(page), "exec"), {"__name__": page.stem})
            said = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
            assert capsys.readouterr().out.split() == " ".join(said).split()
        elif kind == "sh":
            if "--scheduler" in text:
                request.getfixturevalue("parquet_files")
                stand_ins["tcp://host:8786"] = request.getfixturevalue("scheduler")
            lines = [line for line in text.splitlines() if line.startswith("appgrad ")]
            printed = "".join(run(line, stand_ins) for line in lines)
        elif kind == "output":
            assert words(printed) == words(text)


@pytest.fixture
def scheduler(_sockets_collected):
    """The address of a small cluster."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster.scheduler_address


def test_commands_are_all_shown():
    lines = [
        line for page in PAGES for kind, text in blocks(page) if kind == "sh" for line in text.splitlines()
    ]
    shown = {line.split()[1] for line in lines if line.startswith("appgrad ")}
    assert shown >= {"fit", "plan", "score", "transform", "inspect", "report", "experiment"}


# Options in pages that are not of the command line: of benchmarks.
OTHER_OPTIONS = {"--full"}


def test_options_of_the_command_line_and_of_the_pages_are_the_same():
    from typer.main import get_command

    from appgrad.cli.main import app

    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md")]
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", "\n".join(page.read_text() for page in pages)))
    options = {
        tuple(option.opts)
        for command in get_command(app).commands.values()
        for option in command.params
        if option.param_type_name == "option"
    }
    assert not [names for names in options if not named & set(names)], "not in README.md or docs/*.md"
    known = {name for names in options for name in names} | OTHER_OPTIONS
    assert {name for name in named if name.startswith("--")} <= known


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_block_is_of_a_kind_that_is_run(page):
    text = page.read_text()
    for kind, block in blocks(page):
        assert kind in ("python", "sh", "text", "output"), (
            f"a block of kind {kind!r} is not run: {block[:60]}"
        )
        for line in block.splitlines() if kind == "sh" else ():
            command = line.split("  ")[0]
            assert command.startswith("appgrad ") or command in OTHER_COMMANDS, f"not run by a test: {line}"
    # Neither a fence that is not closed nor code by indentation, which nothing looks at.
    prose = BLOCK.sub("", text)
    assert not re.findall(r"^\s*(?:```|~~~).*", prose, re.MULTILINE)
    assert not re.findall(r"\n\n((?: {4}|\t)\S.*)", prose)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", BLOCK.sub("", page.read_text())):
        assert (page.parent / target).exists(), target


def test_the_changelog_knows_this_version():
    import appgrad

    assert f"## {appgrad.__version__.removesuffix('.dev0')} " in (ROOT / "CHANGELOG.md").read_text()


class Page(HTMLParser):
    """What a page of the site refers to, and what in it can be referred to."""

    def __init__(self, text):
        super().__init__()
        self.loaded, self.links, self.anchors, self.formulas = [], [], set(), 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.formulas += tag == "math"
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        for name in ("src", "href", "srcset", "poster", "data"):
            if given.get(name):
                (self.links if tag == "a" else self.loaded).append(given[name])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as `make docs` does."""
    for package in ("material", "latex2mathml"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install '.[dev]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_needs_no_network(site):
    for path in site.rglob("*.html"):
        for target in Page(path.read_text()).loaded:
            assert not urlsplit(target).netloc, f"{path.name} loads {target}"
    for path in site.rglob("*.css"):
        for target in re.findall(r"(?:url\(|@import)\s*[\"']?([^\"')]+)", path.read_text()):
            assert not urlsplit(target).netloc, f"{path.name} loads {target}"


def test_the_site_leads_where_it_says(site):
    pages = {path: Page(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) == len(list((ROOT / "docs").rglob("*.md")))
    for path, page in pages.items():
        for target in page.links + page.loaded:
            parts = urlsplit(target)
            if parts.scheme:
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert file.is_file(), f"{path.name} leads to {target}"
            if parts.fragment and file in pages:
                known = pages[file].anchors | {"__skip", "__toc", "__drawer", "__search", "__nav"}
                assert unquote(parts.fragment) in known, f"{path.name} leads to {target}"


def test_formulas_are_on_the_site(site):
    text = (site / "algorithms.html").read_text()
    assert Page(text).formulas > 50
    # What could not be understood would be left as it was written.
    assert "arithmatex" not in text
    assert not re.findall(r"<m[ion]>\\\w+", text)
