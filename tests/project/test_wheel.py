"""The wheel instead of the source tree: what `pip install appgrad` would install."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMOKE = """
import appgrad, sys
assert sys.argv[1] in appgrad.__file__, appgrad.__file__
from sklearn.datasets import load_linnerud
model = appgrad.CCA(3).fit(*load_linnerud(return_X_y=True))
assert abs(model.canonical_correlations_[0] - 0.795608) < 1e-6
model.save("m.cca")
assert appgrad.load("m.cca").n_samples_ == 20
from appgrad.experiments import EXPERIMENTS
assert "url" in EXPERIMENTS
from appgrad.cli.main import main
for args in (["report", "m.cca", "-o", "r.html"], ["inspect", "m.cca"]):
    sys.argv = ["appgrad", *args]
    try:
        main()
    except SystemExit as end:
        assert not end.code
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (path,) = folder.glob("*.whl")
    return path


def test_the_installed_wheel_works(wheel, tmp_path):
    target = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target, wheel]
    subprocess.run(pip, check=True, capture_output=True, text=True)
    assert (target / "appgrad" / "py.typed").exists()
    # -P and a path of its own keep the source tree out.
    environment = {**os.environ, "PYTHONPATH": str(target)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", SMOKE, str(target)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "0.7956" in done.stdout
