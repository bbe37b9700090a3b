"""Documentation that runs: code blocks print what they say, commands work, links lead somewhere."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def blocks(page, language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [code for name, code in fenced if name == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_code_blocks_print_what_they_say(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for code in blocks(page, "python"):
        exec(compile(code, str(page), "exec"), {})
        said = [line.removeprefix("# ") for line in code.splitlines() if line.startswith("# ")]
        assert capsys.readouterr().out.split() == " ".join(said).split()


def test_readme_commands(tmp_path, rng):
    X = rng.standard_normal((200, 8))
    for prefix in ("", "new_"):
        np.save(tmp_path / f"{prefix}x.npy", X)
        np.savetxt(tmp_path / f"{prefix}y.csv", X[:, :6] + rng.standard_normal((200, 6)), delimiter=",")
    commands = [
        shlex.split(line, comments=True)
        for block in blocks(ROOT / "README.md", "")
        for line in block.splitlines()
        if line.startswith("appgrad ")
    ]
    assert {command[1] for command in commands} == {"fit", "plan", "score", "transform", "inspect", "report"}
    for command in commands:
        program = [sys.executable, "-c", "from appgrad.cli import main; main()", *command[1:]]
        done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert {"scores.csv", "fit.html", "report.html"} <= {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_changelog_knows_this_version():
    import appgrad

    assert f"## {appgrad.__version__}" in (ROOT / "CHANGELOG.md").read_text()
