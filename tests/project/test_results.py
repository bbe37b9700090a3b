"""The page of results agrees with the records."""

import importlib
import json
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
RECORDS = [*DOCS.glob("results/*.jsonl"), *DOCS.glob("results/benchmarks/*.json")]


@pytest.fixture
def write_results(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    yield importlib.import_module("write_results")
    for name in ("write_results", "result_page", "benchmark_tables", "use_tables", "claims"):
        sys.modules.pop(name, None)


def test_the_page_comes_from_the_records(write_results):
    page = DOCS / "results.md"
    expected = write_results.written(DOCS / "results", DOCS / "figures", page)
    assert page.read_text() == expected, "run `python docs/write_results.py`"


def test_a_changed_record_changes_the_page(write_results, tmp_path):
    lines = (DOCS / "results" / "url.jsonl").read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if '"heuristic"' in line)
    lines[at] = json.dumps(json.loads(lines[at]) | {"tcc_in": 1.2345})
    (tmp_path / "url.jsonl").write_text("\n".join(lines))
    assert "| 1.23 |" in write_results.written(tmp_path, tmp_path, tmp_path / "results.md")


def test_runs_that_stalled_did_not_reach_the_tolerance(write_results):
    """What a record warns of is what the page says."""
    record = json.loads((DOCS / "results" / "benchmarks" / "lobpcg_time.json").read_text())
    page = write_results.written(DOCS / "results", DOCS / "figures", DOCS / "results.md")
    page = page.split("### Iterations of LOBPCG before the head")[1].split("\n### ")[0]
    rows = {name: r["converged"] for name, r in record.items() if isinstance(r, dict) and "converged" in r}
    assert any(run.get("warnings") for run in rows.values())
    for name, run in rows.items():
        (row,) = re.findall(rf"^\| {re.escape(name)} \|(.*)$", page, re.MULTILINE)
        stalled = any("stalls" in text for text in run.get("warnings", []))
        assert (f"not reached: stalled after {run['iterations']}" in row) == stalled


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.name)
def test_records_say_when_and_how_they_were_made(path):
    text = path.read_text()
    header = json.loads(text.splitlines()[0] if path.suffix == ".jsonl" else text)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", header["date"])
    assert header["versions"]["appgrad"]
    assert header["versions"]["numpy"]
    assert header["command"].startswith(("appgrad experiment", "python benchmarks/", "python -m benchmarks "))
    assert not header.get("quick")
    # No folder of the machine it was made on.
    assert not re.search(r"""(?:["' =]|^)/\w+/""", text)


@pytest.mark.parametrize("path", [*DOCS.glob("results/*.jsonl")], ids=lambda path: path.name)
def test_runs_are_whole_and_constant_steps_are_constant(path):
    records = [json.loads(line) for line in path.read_text().splitlines()]
    assert records[-1]["kind"] == "end"
    curves = [r for r in records if r["kind"] == "curve"]
    points = {(r["set"], r["method"], r["seed"]) for r in records if r["kind"] == "point"}
    assert points == {(r["set"], r["method"], r["seed"]) for r in curves}
    constant = {(r["set"], r["method"]) for r in curves if "step_size" in r["params"]}
    assert not [r for r in records if r["kind"] == "event" and (r["set"], r["method"]) in constant]
    # The best step lies within those that were tried.
    for one in constant:
        tried = [r for r in records if r["kind"] == "step" and (r["set"], r["method"]) == one]
        steps = sorted(r["step"] for r in tried)
        (chosen,) = {r["params"]["step_size"] for r in curves if (r["set"], r["method"]) == one}
        assert not tried or steps[0] < chosen < steps[-1]


def test_all_experiments_and_figures_are_there():
    from appgrad.experiments import EXPERIMENTS

    assert {path.stem for path in DOCS.glob("results/*.jsonl")} == set(EXPERIMENTS)
    page = (DOCS / "results.md").read_text()
    figures = re.findall(r"!\[[^\]]+\]\((figures/[^)]+)\)", page)
    assert len(figures) == 8
    for figure in figures:
        assert (DOCS / figure).exists()
