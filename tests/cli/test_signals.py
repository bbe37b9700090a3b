"""Ctrl-C and SIGTERM, sent to a process of its own: what is printed, what is saved, and the exit code."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from appgrad import load
from appgrad.cli import signals

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
BOTH = pytest.mark.parametrize(
    ("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")]
)
# Says when signals are received; everything else is imported after that.
START = """
from appgrad.cli import signals, start
enter = signals.at_once.__enter__
def up(self):
    enter(self)
    signals.at_once.__enter__ = enter
    print("up", flush=True)
signals.at_once.__enter__ = up
start.main()
"""


def started(folder, *args, code=START):
    command = [sys.executable, "-c", code, *map(str, args)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # A shell in the background may have told its children to ignore Ctrl-C.
    heed = lambda: signal.signal(signal.SIGINT, signal.default_int_handler)  # noqa: E731
    return subprocess.Popen(command, cwd=folder, preexec_fn=heed, **pipes)


def when_under_way(run, path):
    while not path.exists() and run.poll() is None:
        time.sleep(0.01)
    time.sleep(0.2)


# A run far longer than anyone waits.
LONG = ("fit", "x.npy", "y.npy", "--solver", "stochastic", "--passes", "1e6", "--checkpoint", "c")

# Of the JSON object of a fit that was stopped, whenever that was.
KEYS = {"error", "exit_code", "model", "checkpoint"}


@BOTH
@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_signal_during_imports_is_one_line(number, word, as_json, folder):
    quick = {"error": word, "exit_code": 128 + number}
    for delay in (0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.7):
        run = started(folder, *LONG, *as_json)
        assert run.stdout.readline() == "up\n"
        time.sleep(delay)
        run.send_signal(number)
        out, err = run.communicate(timeout=600)
        assert run.returncode == 128 + number, err
        if as_json:
            assert err == ""
            assert json.loads(out).items() >= {"exit_code": 128 + number}.items()
            assert json.loads(out).keys() == KEYS
            assert json.loads(out)["error"].startswith(quick["error"])
        else:
            assert out == ""
            assert err.startswith(f"error: {word}")
            assert err.count("\n") == 1
        (folder / "c").unlink(missing_ok=True)


@BOTH
def test_json_says_what_an_interrupted_fit_has_saved(number, word, folder):
    for saved in (["-o", "m.cca"], []):
        run = started(folder, *LONG, "--checkpoint-every", 0, *saved, "--json")
        run.stdout.readline()
        when_under_way(run, folder / "c")
        run.send_signal(number)
        # `timeout` sends its signal twice: once more must not break what the first has begun.
        run.send_signal(number)
        out, err = run.communicate(timeout=600)
        assert (run.returncode, err) == (128 + number, ""), out + err
        found = json.loads(out)
        assert found["error"].startswith(f"{word}; ")
        assert found.keys() == KEYS
        assert (found["exit_code"], found["checkpoint"]) == (128 + number, "c")
        assert found["model"] == ("m.cca" if saved else None)
        if saved:
            (remark,) = load(folder / "m.cca").provenance.remarks
            assert remark.startswith("the model is unfinished: stochastic was interrupted after")
            assert remark.endswith(". Go on with --resume --checkpoint c")
        (folder / "c").unlink()


def test_signals_that_are_ignored_stay_ignored():
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with signals.handled():
            os.kill(os.getpid(), signal.SIGTERM)
        assert not signals.arrived()
    finally:
        signal.signal(signal.SIGTERM, before)


def save(number, done):
    with signals.held():
        os.kill(os.getpid(), number)
        done.append("saved")


@BOTH
def test_what_is_being_saved_is_saved_to_its_end(number, word):
    done = []
    with signals.handled():
        with pytest.raises(KeyboardInterrupt):
            save(number, done)
        assert signals.word() == word
        assert signals.exit_code() == 128 + number
    assert done == ["saved"]
    # Nothing is left behind.
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_second_ctrl_c_breaks_what_the_first_has_begun(monkeypatch):
    monkeypatch.setattr(signals, "SAME", 0.0)
    with signals.handled():
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.exit_code() == 130


@BOTH
def test_a_fit_that_ends_while_a_signal_waits_has_its_model(number, word, folder, run, monkeypatch):
    """A signal that comes while the model is written ends the command after that."""
    from appgrad import CCA

    save = CCA.save

    def slow(model, path):
        os.kill(os.getpid(), number)
        save(model, path)

    monkeypatch.setattr(CCA, "save", slow)
    # Handlers of the test run itself stay out of this.
    with monkeypatch.context():
        text = run("fit", "x.npy", "y.npy", "-o", "m.cca", code=128 + number, cwd=folder)
    assert text == f"error: {word}; the model is in m.cca\n"
    assert load(folder / "m.cca").n_samples_ == 400


# A fit that receives Ctrl-C at its tenth step.
TENTH = """
import os, signal
from appgrad.cli import fit, signals
def stepped(watch, progress, shown=fit._stepped):
    shown(watch, progress)
    if progress.iteration == 10:
        os.kill(os.getpid(), signal.SIGINT)
fit._stepped = stepped
from appgrad.cli.main import main; main()
"""


def test_an_unfinished_model_keeps_its_warnings(rng, tmp_path, run):
    """Those about its correlations, with their stars, and that it has not reached its tolerance."""
    np.save(tmp_path / "x.npy", rng.standard_normal((60, 80)))
    np.save(tmp_path / "y.npy", rng.standard_normal((60, 70)))
    fit = started(tmp_path, "fit", "x.npy", "y.npy", "--solver", "appgrad", "-o", "m.cca", code=TENTH)
    _, err = fit.communicate(timeout=600)
    assert fit.returncode == 130, err
    text = run("inspect", "m.cca", cwd=tmp_path)
    assert re.search(r"0\.99\d\d\*", text)
    assert "* forced: too few rows" in text
    noise, unfinished = json.loads(run("inspect", "m.cca", "--json", cwd=tmp_path))["warnings"]
    assert "any data with 150 columns for 60 rows" in noise
    assert unfinished.startswith("the model is unfinished: appgrad was interrupted after")
    assert re.search(r"It misses about \S+ of the correlation, where", unfinished)
    assert "the tolerance of 0.0001 was asked for" in unfinished


def test_experiments_are_told(tmp_path):
    """SIGTERM keeps the records so far, and says where they are."""
    code = (
        "import sys, time, appgrad.experiments as e\n"
        "def slow(data, writer, quick):\n"
        "    writer.add(kind='first', value=1)\n"
        "    yield 'under way'\n"
        "    time.sleep(60)\n"
        "e.EXPERIMENTS['mnist'] = slow\n"
        "from appgrad.cli.main import main; main()"
    )
    run = started(tmp_path, "experiment", "mnist", "--data", tmp_path, "--out", tmp_path, code=code)
    assert "under way" in run.stdout.readline()
    time.sleep(0.2)
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=600)
    path = tmp_path / "mnist.jsonl.part"
    assert run.returncode == 143
    assert err.startswith(
        f"error: terminated; the records so far are in {path}, and the same command goes on"
    )
    assert len(err.splitlines()) == 1
    assert '"first"' in path.read_text()
