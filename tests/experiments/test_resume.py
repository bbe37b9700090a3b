"""Stopped experiments: the same command goes on from the records, and ends with those of an unbroken run."""

import json
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

from appgrad.cli.experiment import run_experiment
from appgrad.cli.failures import FailedError
from appgrad.datasets import planted
from appgrad.datasets.loaders import Paired
from appgrad.experiments import EXPERIMENTS, curves, run
from appgrad.experiments.curves import Curve, Judge, add_curve
from appgrad.experiments.records import TIMES, Writer, read, writing


def timeless(path):
    """The lines of a file without its times."""
    return [
        {name: value for name, value in json.loads(line).items() if name not in (*TIMES, "date")}
        for line in path.read_text().splitlines()
    ]


@pytest.fixture(scope="module")
def unbroken(data_sets, tmp_path_factory):
    """Folders with the records of runs that were not stopped, made once each."""
    made = {}

    def records(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("unbroken")
            list(run(name, data_sets, made[name], quick=True))
        return made[name] / f"{name}.jsonl"

    return records


def stopped_after(monkeypatch, count):
    """Make runs stop after so many records."""
    add, left = Writer.add, iter(range(count, -1, -1))

    def stopping(writer, **record):
        if next(left) == 0:
            raise KeyboardInterrupt
        return add(writer, **record)

    monkeypatch.setattr(Writer, "add", stopping)


@pytest.mark.parametrize(("name", "every"), [*((name, 0.0) for name in EXPERIMENTS), ("mediamill", 60.0)])
def test_a_stopped_experiment_goes_on(name, every, data_sets, unbroken, tmp_path, monkeypatch):
    """Stopped three times, at random; what was recorded stays as it is, times included."""
    monkeypatch.setattr(curves, "EVERY", every)
    whole = timeless(unbroken(name))
    path, part = tmp_path / f"{name}.jsonl", tmp_path / f"{name}.jsonl.part"
    rng, texts = np.random.default_rng([len(name), int(every)]), []
    for count in rng.integers(1, len(whole) // 4, 3):
        with monkeypatch.context() as patch:
            stopped_after(patch, count)
            with pytest.raises(KeyboardInterrupt):
                list(run(name, data_sets, tmp_path, quick=True))
        assert not path.exists()
        texts.append(part.read_text())
    said = list(run(name, data_sets, tmp_path, quick=True))
    assert said[0] == f"going on from {part}, which holds {len(texts[-1].splitlines()) - 1} records"
    for text in texts:
        assert path.read_text().startswith(text)
    assert timeless(path) == whole
    # Neither a part nor a checkpoint is left.
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("solver", ["appgrad", "lobpcg", "stochastic"])
@pytest.mark.parametrize("last", [1, 4, 11])
def test_a_curve_goes_on_from_its_last_state(solver, last, tmp_path, monkeypatch):
    """No iteration before the last state is done again, no point measured again; time goes on."""
    monkeypatch.setattr(curves, "EVERY", 0.0)
    p = planted(900, 12, 10, [0.9, 0.8, 0.7], random_state=0)
    judge = Judge("planted", Paired(p.X, p.y, p.X, p.y), 3)
    curve = Curve("x", {"solver": solver, "tol": 0}, [1, 2, 4, 8, 11, 12])
    with writing(tmp_path / "whole.jsonl") as writer:
        add_curve(writer, judge, curve, 0, {})
    measured, tcc, seen, look = [], judge.tcc, [], curves._look
    monkeypatch.setattr(judge, "tcc", lambda A, B: (measured.append(1), tcc(A, B))[1])
    # On this clock each measurement takes a thousand seconds, of which the clock of the solver knows nothing.
    clock = SimpleNamespace(perf_counter=lambda: time.perf_counter() + 1000 * len(measured))
    monkeypatch.setattr(curves, "time", clock)

    def watched(*args):
        watch = look(*args)

        def stopping(progress):
            seen.append(progress.iteration)
            watch(progress)
            if seen == [*range(1, last + 1)]:
                raise ConnectionError("stopped")

        return stopping

    monkeypatch.setattr(curves, "_look", watched)
    with pytest.raises(ConnectionError, match="stopped"), writing(tmp_path / "r.jsonl") as writer:
        add_curve(writer, judge, curve, 0, {})
    with writing(tmp_path / "r.jsonl") as writer:
        add_curve(writer, judge, curve, 0, {})
    assert timeless(tmp_path / "r.jsonl") == timeless(tmp_path / "whole.jsonl")
    assert len(measured) == len(curve.iterations)
    assert seen[last] >= last
    seconds = [r["seconds"] for r in read(tmp_path / "r.jsonl")[1] if r["kind"] == "point"]
    # Measurements before a point are taken off, those before the stop included; the last one before it was
    # made after the state that the run goes on from.
    for before, value in enumerate(seconds):
        assert round(-value / 1000) in (before, before - 1)


@pytest.mark.parametrize("state", [True, False])
def test_events_are_recorded_once(state, tmp_path, monkeypatch):
    """Steps that are far too long are cut early in the run; it goes on from a later state, or has none."""
    monkeypatch.setattr(curves, "EVERY", 0.0)
    p = planted(900, 12, 10, [0.9, 0.8, 0.7], random_state=0)
    judge = Judge("planted", Paired(p.X, p.y, p.X, p.y), 3)
    params = {"solver": "appgrad", **curves.LETTER, "step_size": 30 * judge.longest_step()}
    curve = Curve("x", params, [1, 20, 30])
    with writing(tmp_path / "whole.jsonl") as writer:
        add_curve(writer, judge, curve, 0, {})
    whole = timeless(tmp_path / "whole.jsonl")
    events = [at for at, record in enumerate(whole) if record["kind"] == "event"]
    assert events
    with monkeypatch.context() as patch:
        stopped_after(patch, events[-1])
        with pytest.raises(KeyboardInterrupt), writing(tmp_path / "r.jsonl") as writer:
            add_curve(writer, judge, curve, 0, {})
    if not state:
        (tmp_path / "r.jsonl.checkpoint").unlink()
    with writing(tmp_path / "r.jsonl") as writer:
        add_curve(writer, judge, curve, 0, {})
    assert timeless(tmp_path / "r.jsonl") == whole


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda how: how.name)
def test_a_killed_command_goes_on(how, data_sets, unbroken, tmp_path, program, capsys):
    command = [*program, "mediamill", "--data", str(data_sets), "--quick", "--out", str(tmp_path)]
    part = tmp_path / "mediamill.jsonl.part"
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        for line in iter(started.stdout.readline, b""):
            # In the midst of the fourth part, wherever that is.
            if b"stochastic AppGrad: choosing" in line:
                break
        started.send_signal(how)
        _, err = started.communicate(timeout=60)
    finally:
        started.kill()
    assert started.returncode != 0
    assert b"Traceback" not in err
    before = part.read_text()
    assert '"curve end"' in before
    run_experiment("mediamill", data_sets, tmp_path, None, True)
    said = capsys.readouterr().out
    assert f"going on from {part}" in said
    assert "Mediamill: AppGrad\n" not in said
    path = tmp_path / "mediamill.jsonl"
    assert path.read_text().startswith(before[: before.rfind("\n") + 1])
    assert timeless(path) == timeless(unbroken("mediamill"))


def stop(name, data, folder, monkeypatch, count=4):
    with monkeypatch.context() as patch:
        stopped_after(patch, count)
        with pytest.raises(KeyboardInterrupt):
            list(run(name, data, folder, quick=True))
    return (folder / f"{name}.jsonl.part").read_text()


def test_records_of_other_data_are_refused(data_sets, tmp_path, monkeypatch):
    """One cell of the test rows corrected: the sizes are the same."""
    before = stop("mediamill", data_sets, tmp_path, monkeypatch)
    with np.load(data_sets / "mediamill" / "mediamill.npz") as archive:
        arrays = dict(archive)
    arrays["X_test"][77, 3] += 1
    (tmp_path / "other" / "mediamill").mkdir(parents=True)
    np.savez(tmp_path / "other" / "mediamill" / "mediamill.npz", **arrays)
    with pytest.raises(
        ValueError, match=r"is of another run: sha256 of sizes, Mediamill was .*; remove that"
    ):
        list(run("mediamill", tmp_path / "other", tmp_path, quick=True))
    assert (tmp_path / "mediamill.jsonl.part").read_text() == before


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("versions", {"appgrad": "0.0.1", "numpy": np.__version__}, "version of appgrad was '0.0.1', and is"),
        ("quick", False, "quick was False, and is True"),
        ("command", "x", "command was 'x', and is 'appgrad experiment mediamill"),
    ],
)
def test_records_of_another_run_are_refused(name, value, said, data_sets, tmp_path, monkeypatch):
    first, *rest = stop("mediamill", data_sets, tmp_path, monkeypatch).splitlines()
    part = tmp_path / "mediamill.jsonl.part"
    text = "\n".join([json.dumps(json.loads(first) | {name: value}), *rest]) + "\n"
    part.write_text(text)
    with pytest.raises(ValueError, match=said):
        list(run("mediamill", data_sets, tmp_path, quick=True))
    assert part.read_text() == text


def test_a_curve_with_other_parameters_is_refused(data_sets, tmp_path, monkeypatch):
    stop("mediamill", data_sets, tmp_path, monkeypatch, 12)
    part = tmp_path / "mediamill.jsonl.part"
    assert '"solver": "appgrad", "preconditioner": null' in part.read_text()
    part.write_text(part.read_text().replace('"oversampling": 0', '"oversampling": 3'))
    with pytest.raises(ValueError, match=r"another run: params of curve, Mediamill, AppGrad, 0 was .*3"):
        list(run("mediamill", data_sets, tmp_path, quick=True))


def test_a_torn_line_is_made_again(data_sets, unbroken, tmp_path, monkeypatch):
    text = stop("mediamill", data_sets, tmp_path, monkeypatch)
    part = tmp_path / "mediamill.jsonl.part"
    for torn in ("", text[:50], text[:-9]):
        part.write_text(torn)
        list(run("mediamill", data_sets, tmp_path, quick=True))
        assert timeless(tmp_path / "mediamill.jsonl") == timeless(unbroken("mediamill"))
    part.write_text("nonsense\n" + text)
    with pytest.raises(ValueError, match=r"is damaged .*: remove it to start anew"):
        list(run("mediamill", data_sets, tmp_path, quick=True))


@pytest.mark.skipif(sys.platform == "win32", reason="no file locks of this kind")
def test_two_runs_do_not_write_the_same_records(data_sets, tmp_path):
    first = run("mediamill", data_sets, tmp_path, quick=True)
    next(first)
    with pytest.raises(ValueError, match="is being written by another run: wait for it, or use another"):
        list(run("mediamill", data_sets, tmp_path, quick=True))
    first.close()


def test_the_command_says_how_to_go_on(data_sets, tmp_path, monkeypatch):
    stopped_after(monkeypatch, 3)
    with pytest.raises(FailedError, match="the same command goes on from there"):
        run_experiment("mediamill", data_sets, tmp_path, None, True)
