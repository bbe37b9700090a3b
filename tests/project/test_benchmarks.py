"""Benchmarks are found by name; their measurements are not tested here."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Shared by benchmarks, or what finds them.
SHARED = {"__init__", "__main__", "measure", "data_sets"}
BENCHMARKS = [path for path in (ROOT / "benchmarks").glob("*.py") if path.stem not in SHARED]


def run(*arguments, code=0):
    command = [sys.executable, "-m", "benchmarks", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def listed():
    return [line.split()[0] for line in run().splitlines()[2:]]


def test_all_are_listed():
    assert set(listed()) == {path.stem for path in BENCHMARKS}


def test_each_has_a_function_to_run():
    for name in listed():
        tree = ast.parse((ROOT / "benchmarks" / f"{name}.py").read_text())
        assert "main" in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        assert f"python -m benchmarks {name} " in ast.get_docstring(tree)


# `python -m benchmarks NAME --help` for all names, in one process: most of the time goes into imports.
ALL_HELP = """
import runpy, sys
for name in sys.argv[1:]:
    sys.argv = ["benchmarks", name, "--help"]
    try:
        runpy.run_module("benchmarks", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        print(f"end of {name}: {end.code or 0}")
"""


@pytest.fixture(scope="module")
def all_help():
    command = [sys.executable, "-c", ALL_HELP, *(path.stem for path in BENCHMARKS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", sorted(path.stem for path in BENCHMARKS))
def test_each_starts_and_shows_its_options(name, all_help):
    assert f"usage: python -m benchmarks {name} " in all_help
    assert f"end of {name}: 0\n" in all_help


def test_an_unknown_name_is_an_error():
    assert "no benchmark is called 'fsat'" in run("fsat", code=1)


def test_a_record_says_how_it_was_made(tmp_path):
    text = run("import_time", "--rounds", "1", "--record", str(tmp_path / "r.json"))
    record = json.loads((tmp_path / "r.json").read_text())
    assert record["command"] == "python -m benchmarks import_time"
    assert record["versions"]["appgrad"]
    assert f"{record['ratios']['appgrad']:6.2f} x" in text


def test_make_bench_runs_them_all():
    text = (ROOT / "Makefile").read_text()
    assert all(f"-m benchmarks {name}" in text for name in listed())


def test_records_have_the_names_of_benchmarks():
    records = {path.stem for path in (ROOT / "docs" / "results" / "benchmarks").glob("*.json")}
    assert records
    assert records <= set(listed())
