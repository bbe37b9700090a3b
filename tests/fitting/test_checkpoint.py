"""Checkpoints: runs that are stopped, killed or out of disk space resume to the same result."""

import json
import multiprocessing
import os
import random
import resource
import signal
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context

from appgrad import CCA, KernelCCA, SparseCCA, load
from appgrad.data.arrays import ArrayViews
from appgrad.datasets import planted
from appgrad.fitting import archive
from appgrad.fitting.checkpoint import FORMAT, _values
from appgrad.solvers.stochastic.racing import Stochastic
from helpers import sparse_counts

SOLVERS = {
    "lobpcg": {"tol": 1e-9, "preconditioner": "jacobi"},
    "appgrad": {"max_iter": 30},
    "als": {"max_iter": 10, "tol": 1e-9},
    "stochastic": {"max_passes": 3, "batch_size": 20},
}


class StoppedError(Exception):
    """Raised by a callback, as a crash would be."""


def problem(kind="dense"):
    if kind == "sparse":
        X, Y = sparse_counts(np.random.default_rng(0))
        return sp.csr_array(X), sp.csr_array(Y)
    # LOBPCG takes 65 iterations: it computes its products anew twice.
    p = planted(400, 40, 30, [0.9, 0.7, 0.5], condition=10, random_state=0)
    return p.X, p.y


def model(solver, path=None, every=0, **params):
    checkpoint = None if path is None else (str(path), every)
    return CCA(2, solver=solver, checkpoint=checkpoint, **{"random_state": 0} | SOLVERS[solver] | params)


def stopped_at(iteration, solver, path, data, **params):
    def stop(progress):
        if progress.iteration == iteration:
            raise StoppedError

    with pytest.raises(StoppedError):
        model(solver, path, callback=stop, **params).fit(*data)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_a_run_goes_on_where_it_was_stopped(solver, kind, tmp_path):
    data, path = problem(kind), tmp_path / "run.ckpt"
    whole = model(solver).fit(*data)
    at = max(2, whole.n_iter_[0] // 2)
    stopped_at(at, solver, path, data)
    found = model(solver, path).fit(*data)
    assert found.resumed_from_iteration_ == at
    assert (found.n_iter_, found.n_passes_) == (whole.n_iter_, whole.n_passes_)
    np.testing.assert_array_equal(found.x_weights_, whole.x_weights_)
    np.testing.assert_array_equal(found.canonical_correlations_, whole.canonical_correlations_)
    # A run that has ended is not run again.
    again = model(solver, path, callback=lambda progress: pytest.fail("a step was taken")).fit(*data)
    np.testing.assert_array_equal(again.x_weights_, whole.x_weights_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["lobpcg", "stochastic"])
def test_a_run_without_a_seed_goes_on_with_its_own(solver, tmp_path):
    data, path = problem(), tmp_path / "run.ckpt"
    stopped_at(3, solver, path, data, random_state=None)
    kept = path.read_bytes()
    first = model(solver, path, random_state=None).fit(*data)
    path.write_bytes(kept)
    second = model(solver, path, random_state=None).fit(*data)
    np.testing.assert_array_equal(first.x_weights_, second.x_weights_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_larger_budget_goes_further(tmp_path):
    data, path = problem(), tmp_path / "run.ckpt"
    model("lobpcg", path, max_iter=3).fit(*data)
    found, whole = model("lobpcg", path).fit(*data), model("lobpcg").fit(*data)
    assert found.resumed_from_iteration_ == 3
    np.testing.assert_array_equal(found.x_weights_, whole.x_weights_)


@pytest.mark.parametrize(
    ("params", "scale", "message"),
    [
        ({"ridge": 0.5}, 1.0, "ridge was 'auto', and is 0.5"),
        ({"n_components": 1}, 1.0, "n_components was 2, and is 1"),
        ({"random_state": 3}, 1.0, "random_state was 0, and is 3"),
        ({}, 2.0, "X had other values"),
    ],
)
def test_another_run_is_refused(params, scale, message, tmp_path):
    (X, Y), path = problem(), tmp_path / "run.ckpt"
    stopped_at(3, "lobpcg", path, (X, Y))
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"run.ckpt is of another run: {message}"):
        model("lobpcg", path).set_params(**params).fit(scale * X, Y)
    with pytest.raises(ValueError, match="rows was 400, and is 399"):
        model("lobpcg", path).fit(X[1:], Y[1:])
    assert path.read_bytes() == before


def test_damaged_checkpoints_are_refused(tmp_path):
    data, path = problem(), tmp_path / "run.ckpt"
    stopped_at(3, "lobpcg", path, data)
    whole = path.read_bytes()
    for damaged in (b"", whole[:-200], whole[:1000], b"PK" + whole[2:200]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"run\.ckpt is damaged or"):
            model("lobpcg", path).fit(*data)
    problem_model = CCA(2).fit(*data)
    problem_model.save(path)
    with pytest.raises(ValueError, match="not an appgrad checkpoint file"):
        model("lobpcg", path).fit(*data)


def test_nothing_but_states_is_built_from_a_file(tmp_path):
    """A checkpoint that names another class is damaged, whatever the class would do."""
    data, path = problem(), tmp_path / "run.ckpt"
    stopped_at(3, "lobpcg", path, data)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    text = arrays["meta"].tobytes().decode().replace("lobpcg-state/1", "os.system")
    arrays["meta"] = np.frombuffer(text.encode(), np.uint8)
    with open(path, "wb") as file:
        np.savez(file, **arrays)
    with pytest.raises(ValueError, match=r"run\.ckpt is damaged"):
        model("lobpcg", path).fit(*data)


def test_writes_are_apart(tmp_path):
    """Once in so many seconds, and at the end."""
    data, path = problem(), tmp_path / "run.ckpt"
    seen = []
    model("lobpcg", path, every=3600, callback=lambda progress: seen.append(path.exists()) and None).fit(
        *data
    )
    assert not any(seen)
    assert path.exists()


def test_a_direct_solver_needs_none(tmp_path):
    data, path = problem(), tmp_path / "run.ckpt"
    found = CCA(2, checkpoint=path).fit(*data)
    assert (found.solver_, found.resumed_from_iteration_) == ("exact", 0)
    assert not path.exists()


# In processes of their own, which start from one that has imported what takes long.
context = multiprocessing.get_context("forkserver")
SLOW_IMPORTS = ["pytest", "sklearn.utils.estimator_checks"]
SLOW_IMPORTS += [f"appgrad.{name}" for name in ("estimators.kernel", "estimators.sparse", "solvers.lobpcg")]


def child(path, out, limit=None):
    """A slow run that writes its result in the end."""
    if limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = model("lobpcg", path, callback=lambda progress: time.sleep(0.005)).fit(*problem())
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with open(f"{out}.txt", "w") as file:
        file.write("; ".join(str(warning.message) for warning in caught))
    np.save(out, found.x_weights_)


def started(*args):
    context.set_forkserver_preload(SLOW_IMPORTS)
    process = context.Process(target=child, args=args)
    process.start()
    return process


def written(path):
    """When the file was last written; None if there is none."""
    return path.stat().st_mtime_ns if path.exists() else None


def test_killed_at_twenty_moments(tmp_path):
    """At random, after the first write of each process: about half of the time it is writing."""
    path, out = tmp_path / "run.ckpt", tmp_path / "out.npy"
    whole, chance, kills = model("lobpcg").fit(*problem()).x_weights_, random.Random(0), 0
    while kills < 20 or not out.exists():
        if kills < 20 and out.exists():
            np.testing.assert_array_equal(np.load(out), whole)
            out.unlink()
            path.unlink()
        before, process = written(path), started(path, out)
        if kills < 20:
            while written(path) == before and process.is_alive():
                time.sleep(0.001)
            process.join(chance.uniform(0.0, 0.1))
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
    np.testing.assert_array_equal(np.load(out), whole)


def test_a_full_disk_leaves_the_old_checkpoint(tmp_path):
    """And the run goes on without: it is not to be lost to its own safety net."""
    path, out = tmp_path / "run.ckpt", tmp_path / "out.npy"
    stopped_at(3, "lobpcg", path, problem())
    before, whole = path.read_bytes(), model("lobpcg").fit(*problem()).x_weights_
    process = started(path, out, 2000)
    process.join()
    assert "run.ckpt cannot be written: [Errno 27] File too large" in (tmp_path / "out.npy.txt").read_text()
    np.testing.assert_array_equal(np.load(out), whole)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir() if "ckpt" in p.name] == ["run.ckpt"]
    started(path, out).join()
    np.testing.assert_array_equal(np.load(out), whole)


def test_time_goes_on_after_a_stop(tmp_path, monkeypatch, clock):
    """Steps decay over max_seconds as if nothing had happened."""
    data, path, shares, step = problem(), tmp_path / "run.ckpt", [], Stochastic.step

    def noted(self, state, batch):
        shares.append(batch.share)
        return step(self, state, batch)

    def slow(progress):
        clock.go_on(0.02)

    def stopping(progress):
        slow(progress)
        if progress.iteration == 20:
            raise StoppedError

    monkeypatch.setattr(Stochastic, "step", noted)
    with pytest.raises(StoppedError):
        model("stochastic", path, max_seconds=1.5, max_passes=None, callback=stopping).fit(*data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model("stochastic", path, max_seconds=1.5, max_passes=None, callback=slow).fit(*data)
    assert shares[18] > 0.2
    assert np.all(np.diff(shares) >= 0)


def test_a_larger_budget_that_needs_no_iterations_resumes_nothing(tmp_path):
    data, path = problem(), tmp_path / "run.ckpt"
    with config_context(working_memory=0.01), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = CCA(2, checkpoint=(path, 0), random_state=0, max_iter=3).fit(*data)
        assert first.solver_ == "lobpcg"
    again = CCA(2, checkpoint=(path, 0), random_state=0).fit(*data)
    assert (again.solver_, again.resumed_from_iteration_) == ("exact", 0)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_time_left_is_told():
    """Of steps whose number is known; of a budget that a run may not need, how much there is at most."""
    data, seen = problem(), []
    fits = CCA(2, solver="lobpcg", tol=1e-9, random_state=0, callback=lambda p: seen.append(p[-2:]))
    fits.fit(*data)
    assert set(seen) == {(None, None)}
    seen.clear()
    fits.set_params(max_seconds=50).fit(*data)
    assert all(left is None and 0 < most < 50 for left, most in seen)
    seen.clear()
    model("stochastic", max_passes=2, callback=lambda p: seen.append(p.left)).fit(*data)
    assert seen[0] is None
    assert seen[-1] == 0
    assert all(0 <= left < 60 for left in seen[1:])


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    from appgrad.cli.main import app

    X, Y = problem()
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    path = tmp_path / "run.ckpt"
    args = ["fit", str(tmp_path / "x.npy"), str(tmp_path / "y.npy"), "-k", "2", "--solver", "lobpcg"]
    args += ["--holdout", "0", "--json", "--checkpoint", str(path), "--checkpoint-every", "0"]

    def run(*more):
        app([*args, *more], standalone_mode=False)
        return json.loads(capsys.readouterr().out)

    first = run("--passes", "6")
    assert first["resumed_from_iteration"] == 0
    with pytest.raises(ValueError, match=r"run.ckpt exists: go on from it with --resume"):
        run()
    second = run("--resume")
    assert second["resumed_from_iteration"] == first["iterations"]
    path.unlink()
    assert run()["correlations"] == second["correlations"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("output", [["-o", "m.cca"], []])
@pytest.mark.parametrize(("number", "word"), [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")])
def test_signals_leave_a_checkpoint_to_go_on_from(number, word, output, tmp_path, monkeypatch, capsys):
    from appgrad.cli.main import app

    monkeypatch.chdir(tmp_path)
    for name, m in zip("xy", problem(), strict=True):
        np.save(tmp_path / f"{name}.npy", m)
    fit = ["fit", "x.npy", "y.npy", "--solver", "stochastic", "--checkpoint", "run.ckpt"]
    fit += ["--checkpoint-every", "0", *output]
    # Far longer than anyone waits.
    command = [sys.executable, "-m", "appgrad", *fit, "--passes", "1e6"]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    seen = set()
    # There is a model once the first iteration is behind: from the second file on.
    while len(seen) < 2 and run.poll() is None:
        time.sleep(0.005)
        if (tmp_path / "run.ckpt").exists():
            seen.add((tmp_path / "run.ckpt").stat().st_mtime_ns)
    run.send_signal(number)
    _, said = run.communicate(timeout=600)
    assert run.returncode == 128 + number, said
    model = "the best model so far is in m.cca; " if output else ""
    assert said == f"error: {word}; {model}go on with --resume --checkpoint run.ckpt\n"
    if output:
        assert load(tmp_path / "m.cca").n_iter_[0] >= 1
    app([*fit, "--passes", "3", "--resume", "--json"], standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["resumed_from_iteration"] >= 1


def corrected(X, Y, rng):
    """The same data with one cell corrected, in either view; and with rows paired otherwise, or reordered."""
    row = int(rng.integers(X.shape[0]))
    one, other, order = X.copy(), Y.copy(), np.r_[0:64, 64 + rng.permutation(X.shape[0] - 64)]
    one[row, 1] += 1e-9
    other[row, 0] += 1e-9
    yield "X had other values", (one, Y)
    yield "y had other values", (X, other)
    yield "X and y had other values", (one, other)
    yield "rows of X and y were paired otherwise", (X, Y[order])
    yield "rows were in another order", (X[order], Y[order])


ALL = {
    **{solver: lambda solver=solver, **more: model(solver, **more) for solver in SOLVERS},
    "sparse": lambda path, **more: SparseCCA(2, checkpoint=(path, 0), random_state=0, **more),
    "kernel": lambda path, **more: KernelCCA(
        2, solver="lobpcg", checkpoint=(path, 0), random_state=0, **more
    ),
    "nystroem": lambda path, **more: KernelCCA(
        2,
        solver="lobpcg",
        approximation="nystroem",
        n_landmarks=50,
        checkpoint=(path, 0),
        random_state=0,
        **more,
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("at", ["stopped", "finished"])
@pytest.mark.parametrize("solver", ALL)
def test_a_checkpoint_is_of_all_rows(solver, at, tmp_path, rng):
    """Also one of a run that has ended, which returns its model at once."""
    (X, Y), path, make = problem(), tmp_path / "run.ckpt", ALL[solver]

    def stop(progress):
        return at == "stopped" and progress.iteration == 3

    make(path=path, callback=stop).fit(X, Y)
    before = path.read_bytes()
    for message, data in corrected(X, Y, rng):
        with pytest.raises(ValueError, match=rf"run\.ckpt is of another run: {message}; give another file"):
            make(path=path).fit(*data)
        assert path.read_bytes() == before
    Z = np.where(X == 0, -0.0, X)
    assert make(path=path).fit(np.asfortranarray(Z), Y).resumed_from_iteration_ >= 1


@pytest.mark.filterwarnings("ignore")
def test_rows_that_were_not_read_yet_may_change(tmp_path):
    """Minibatches of the first pass: what no step has seen is free, what one has seen is not."""
    (X, Y), path, params = problem(), tmp_path / "run.ckpt", {"max_passes": 1, "every": 60}
    X, Y = np.repeat(X, 20, axis=0), np.repeat(Y, 20, axis=0)
    model("stochastic", path, callback=lambda progress: progress.iteration == 3, **params).fit(X, Y)
    with np.load(path) as file:
        read = np.unpackbits(file["rows_read"], count=len(X)).astype(bool)
    assert 60 <= read.sum() < len(X)
    for row, is_read in ((np.flatnonzero(read)[-1], True), (np.flatnonzero(~read)[0], False)):
        Z = X.copy()
        Z[row, 3] += 1e-9
        if is_read:
            with pytest.raises(ValueError, match="another run: X had other values"):
                model("stochastic", path, **params).fit(Z, Y)
        else:
            whole = model("stochastic", max_passes=1).fit(Z, Y)
            found = model("stochastic", path, **params).fit(Z, Y)
            assert (found.resumed_from_iteration_, found.n_passes_) == (3, whole.n_passes_)
            np.testing.assert_array_equal(found.x_weights_, whole.x_weights_)


@pytest.mark.filterwarnings("ignore")
def test_a_checkpoint_costs_no_pass(tmp_path):
    """The fingerprint comes from rows that are read anyway."""
    data = problem()
    for solver in SOLVERS:
        with_it, without = model(solver, tmp_path / solver).fit(*data), model(solver).fit(*data)
        assert with_it.n_passes_ == without.n_passes_
        np.testing.assert_array_equal(with_it.x_weights_, without.x_weights_)


def test_other_names_are_refused(tmp_path):
    pd = pytest.importorskip("pandas")
    (X, Y), path = problem(), tmp_path / "run.ckpt"
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])
    stopped_at(3, "lobpcg", path, (frame, Y))
    with pytest.raises(ValueError, match=r"run\.ckpt is of another run: its columns had other names"):
        model("lobpcg", path).fit(frame.rename(columns={"c1": "d1"}), Y)


@pytest.mark.filterwarnings("ignore")
def test_checkpoints_with_the_hash_of_a_few_rows_are_still_read(tmp_path):
    data, path = problem(), tmp_path / "run.ckpt"
    stopped_at(3, "lobpcg", path, data)
    arrays, meta = archive.read(path, FORMAT)
    del meta["fingerprint"], meta["data"]["names"]
    views = ArrayViews(*data)
    old = meta | {"data": meta["data"] | {"values": _values(views)}}
    archive.write(path, arrays, old, FORMAT)
    assert model("lobpcg", path, max_iter=5).fit(*data).resumed_from_iteration_ == 3
    assert "fingerprint" in archive.read(path, FORMAT)[1]
    archive.write(path, arrays, meta | {"data": meta["data"] | {"values": "0" * 32}}, FORMAT)
    with pytest.raises(ValueError, match="another run: its rows had other values, or names"):
        model("lobpcg", path).fit(*data)
