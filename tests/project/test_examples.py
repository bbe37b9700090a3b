"""Examples run, and print what they should."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example, tmp_path):
    pytest.importorskip("distributed")
    command = [sys.executable, str(example), "--rows", "800"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "one process finds the same: True" in run.stdout
