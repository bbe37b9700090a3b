"""`appgrad fit --scheduler`: on workers of this machine, and on a cluster that dies."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from appgrad import load
from dask_helpers import (
    MARKS,
    PATIENCE,
    dask_module,
    parts,
)

pytestmark = MARKS


def command(*arguments, **kwargs):
    return subprocess.run(
        [sys.executable, "-m", "appgrad", *map(str, arguments)], capture_output=True, text=True, **kwargs
    )


def test_command_line_on_workers_of_this_machine(problem, tmp_path):
    source = parts(tmp_path, problem)
    x, y = f"{source}::columns=0-11", f"{source}::columns=12-20"
    options = ("-k", 3, "--solver", "lobpcg", "--json")
    runs = [
        command("fit", x, y, *options, *more)
        for more in ((), ("--scheduler", "local:2", "-o", tmp_path / "m"))
    ]
    assert [run.returncode for run in runs] == [0, 0], runs[1].stderr
    here, there = (json.loads(run.stdout) for run in runs)
    for name in ("correlations", "held_out_correlations"):
        np.testing.assert_allclose(here[name], there[name], atol=1e-10)
    assert list(load(tmp_path / "m").feature_names_in_[:2]) == ["c0", "c1"]


def test_command_line_on_a_cluster_that_dies(own_cluster, problem, tmp_path):
    scheduler, address = own_cluster("first")
    source, checkpoint = parts(tmp_path, problem), tmp_path / "run.ckpt"
    fit = (
        "fit", f"{source}::columns=0-11", f"{source}::columns=12-20", "-k", 3, "--solver", "appgrad",
        "--holdout", 0, "--max-iter", 30, "--checkpoint", checkpoint, "--checkpoint-every", 0, "--json",
    )  # fmt: skip
    run = subprocess.Popen(
        [sys.executable, "-m", "appgrad", *map(str, fit), "--scheduler", address],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    while not checkpoint.exists() and run.poll() is None:
        time.sleep(0.01)
    scheduler.send_signal(signal.SIGKILL)
    said, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == 1
    assert "scheduler is gone" in json.loads(said)["error"]
    _, address = own_cluster("second")
    again = command(*fit, "--resume", "--scheduler", address)
    assert again.returncode == 0, again.stderr
    found, plain = json.loads(again.stdout), json.loads(command(*fit[:-5], "--json").stdout)
    assert found["resumed_from_iteration"] > 0
    np.testing.assert_allclose(found["correlations"], plain["correlations"], atol=1e-10)


def test_ctrl_c_saves_the_model_and_says_so_in_a_line(slow, tmp_path):
    for name, m in zip("xy", slow, strict=True):
        np.save(tmp_path / f"{name}.npy", m)
    command = [sys.executable, "-m", "appgrad", "fit", "x.npy", "y.npy", "-k", "3", "--solver", "appgrad"]
    command += ["--passes", "1e6", "--checkpoint", "c", "--checkpoint-every", "0", "-o", "m.cca"]
    run = subprocess.Popen(
        [*command, "--scheduler", "local:2"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        start_new_session=True,
    )
    while not (tmp_path / "c").exists() and run.poll() is None:
        time.sleep(0.01)
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=PATIENCE)
    assert run.returncode == 130, said
    assert said.splitlines()[-1].startswith("error: interrupted; the best model so far is in m.cca")
    assert "Traceback" not in said
    assert load(tmp_path / "m.cca").n_iter_[0] > 0


@pytest.mark.parametrize(
    ("scheduler", "match"),
    [
        ("tcp://127.0.0.1:1", "no Dask scheduler at"),
        ("local:x", "local:N"),
        ("local:0", "local:N"),
        ("local:²", "local:N"),
        ("foo", "no address"),
        ("http://127.0.0.1:1", "no address"),
    ],
)
def test_wrong_schedulers(problem, tmp_path, scheduler, match, monkeypatch):
    monkeypatch.setattr(dask_module, "PATIENCE", 1)
    with pytest.raises((ConnectionError, ValueError), match=match), dask_module.connected(scheduler):
        pass
