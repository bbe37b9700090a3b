"""Failures of commands: one line or one JSON object, in the words of the command line."""

import json
import subprocess
import sys
import time

import numpy as np
import pytest

from appgrad.cli import log
from appgrad.cli.wording import in_options


@pytest.fixture
def fails(run, capsys, monkeypatch):
    """A command that fails with `--json`: the object on stdout, after checking that stderr is empty."""

    def command(*args, code, cwd):
        from appgrad.cli.main import main

        with monkeypatch.context() as patch:
            patch.chdir(cwd)
            patch.setattr(sys, "argv", ["appgrad", *map(str, args), "--json"])
            with pytest.raises(SystemExit) as exit_:
                main()
        out, err = capsys.readouterr()
        assert (exit_.value.code, err, out.count("\n")) == (code, "", 1)
        found = json.loads(out)
        assert found["exit_code"] == code
        return found

    return command


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (("fit", "missing.npy", "y.npy"), 1, "missing.npy: no such file"),
        (("fit", "x.npy", "y.npy", "-k", 9), 1, "-k 9 is above the largest possible rank"),
        (("score", "missing.cca", "x.npy", "y.npy"), 1, "missing.cca"),
        (("inspect", "x.npy"), 1, "not an appgrad model"),
        (("plan", "x.npy", "missing.npy"), 1, "missing.npy: no such file"),
        (("fit", "x.npy"), 2, "Missing argument 'Y'"),
        (("fit", "x.npy", "y.npy", "-k", "two"), 2, "should be a valid integer"),
        (("fit", "x.npy", "y.npy", "--nope"), 2, "--nope"),
        (("fit", "x.npy", "y.npy", "--solver", "magic"), 2, "'magic' is not one of auto, exact"),
        (("fit", "x.npy", "y.npy", "--solver", "pursuit"), 2, "--n-nonzero or --alpha"),
        (("fit", "x.npy", "y.npy", "--solver", "qr", "--alpha", "0.1"), 2, "use one of auto, pursuit"),
        (("fit", "x.npy", "y.npy", "--log-level", "loud"), 2, "debug, info, warning, error"),
        (("transform", "m.cca", "x.npy", "-o", "s.npz"), 2, "--json"),
        (("frobnicate",), 2, "frobnicate"),
    ],
)
def test_failures_are_one_json_object(args, code, words, folder, fails):
    assert words in fails(*args, code=code, cwd=folder)["error"]


def test_json_is_what_stands_before_two_dashes(run, folder):
    assert "no such file" in run("plan", "--", "missing.npy", "--json", code=1, cwd=folder)


def test_a_bug_is_a_json_object_with_its_trace_on_stderr(folder, monkeypatch, run, capsys):
    import appgrad.cli.fit

    monkeypatch.setattr(appgrad.cli.fit, "open_views", lambda *_, **__: {}["gone"])
    trace = run("fit", "x.npy", "y.npy", "--json", code=1, cwd=folder)
    assert "KeyError: 'gone'" in trace


def test_a_lost_report_is_part_of_the_one_object(folder, fails, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("appgrad.cli.fit.write_report", full)
    found = fails("fit", "x.npy", "y.npy", "--report", "r.html", code=1, cwd=folder)
    assert found["error"].startswith("no report: [Errno 28]")
    assert found["report"] is None
    assert len(found["correlations"]) == 2


def indexed(folder):
    """A file whose first column has no name: it is left out, which is remarked on; one value is missing."""
    lines = (folder / "x.csv").read_text().splitlines()
    lines = ["," + lines[0], *(f"{i},{line}" for i, line in enumerate(lines[1:]))]
    cells = lines[3].split(",")
    lines[3] = ",".join([*cells[:2], "nan", *cells[3:]])
    (folder / "indexed.csv").write_text("\n".join(lines))


def test_remarks_are_not_lost_with_a_fit_that_fails(folder, run, fails):
    indexed(folder)
    text = run("fit", "indexed.csv", "y.npy", code=1, cwd=folder)
    remark, error = text.splitlines()
    assert remark.startswith("warning: indexed.csv: the first line was read as column names")
    assert "the first column has no name" in remark
    assert error.startswith("error: Input column 1 ('n1') of indexed.csv contains NaN, first in row 2, ")
    found = fails("fit", "indexed.csv", "y.npy", code=1, cwd=folder)
    assert "the first column has no name" in found["warnings"][0]
    assert "contains NaN" in found["error"]


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("n_components=5 is above the rank", "-k 5 is above the rank"),
        (
            "n_nonzero=9 is above the 5 columns of x.npy: a pair, such as n_nonzero=(10, 3), is one number",
            "--n-nonzero 9 is above the 5 columns of x.npy: a pair, such as --n-nonzero 10,3, is one number",
        ),
        ("use solver='lobpcg', or 'stochastic'", "use --solver lobpcg, or stochastic"),
        ("lobpcg stopped at its max_iter after 3", "lobpcg stopped at its --max-iter after 3"),
        (
            "max_passes=1.5 is too few for solver='als', which",
            "--passes 1.5 is too few for --solver als, which",
        ),
        ("max_seconds is for iterative solvers", "--seconds is for iterative solvers"),
        (", before tol=0.0001 was reached: the", ", before the tolerance of 0.0001 was reached: the"),
        ("alpha=0.5 and n_nonzero=2 are two ways", "--alpha 0.5 and --n-nonzero 2 are two ways"),
        ("batch_size=500 is above the 400 rows", "--batch-size 500 is above the 400 rows"),
        ("judge by held-out rows (score).", "judge by held-out rows (--holdout)."),
        ("use max_iter.", "use --max-iter."),
        # Names of files stay as they are.
        ("alpha=1/part.parquet: no such file", "alpha=1/part.parquet: no such file"),
        ("max_iter.csv: no such file", "max_iter.csv: no such file"),
        ("data/max_iter: no such file", "data/max_iter: no such file"),
        ("column 'batch_size' is not numeric", "column 'batch_size' is not numeric"),
    ],
)
def test_messages_name_options(said, shown):
    assert in_options(said) == shown


def test_iterations_may_be_limited(folder, run):
    fit = ("fit", "x.npy", "y.npy", "--solver", "appgrad", "--holdout", 0, "--json")
    found = json.loads(run(*fit, "--max-iter", 1, cwd=folder))
    assert found["iterations"] == 1
    assert "stopped at its --max-iter after 1 iteration, " in found["warnings"][0]
    assert "--max-iter" in run(*fit[:-1], "--max-iter", 0, code=2, cwd=folder)


def test_a_run_that_is_redirected_logs_lines(folder, run, monkeypatch, capsys):
    from appgrad import CCA

    fit = CCA.fit

    def slow(model, views):
        time.sleep(0.3)
        return fit(model, views)

    monkeypatch.setattr(CCA, "fit", slow)
    monkeypatch.setattr(log, "EVERY", 0.1)
    command = ("fit", "x.npy", "y.npy", "-k", "2", "--holdout", "0", "--json")
    for level, expected in ((), True), (("info",), True), (("warning",), False), (("error",), False):
        monkeypatch.setattr(sys, "argv", ["appgrad", *command, *(["--log-level", *level] if level else [])])
        monkeypatch.chdir(folder)
        from appgrad.cli.main import main

        with pytest.raises(SystemExit):
            main()
        out, err = capsys.readouterr()
        assert json.loads(out)["n_samples"] == 400
        assert (" INFO fit 0:00:00" in err) == expected
        assert expected or err == ""
        assert not expected or len(err.splitlines()) >= 2


def test_debug_tells_every_iteration(folder):
    command = [sys.executable, "-m", "appgrad", "fit", "x.npy", "y.npy", "--solver", "appgrad"]
    command += ["--log-level", "debug", "--max-iter", "3", "--holdout", "0"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60, check=True)
    for i in (1, 2, 3):
        assert f" DEBUG iteration {i}, " in done.stderr
    assert "total correlation 1." in done.stderr
    assert " of at most 2" in done.stderr
    quiet = [*command[:-3], "3", "--holdout", "0", "--log-level", "error"]
    assert "warning: " in done.stderr
    assert subprocess.run(quiet, capture_output=True, cwd=folder, timeout=60, check=True).stderr == b""


def test_help_is_not_cut(run):
    """The line of a command in the list of all is a sentence."""
    text = run("--help")
    assert "..." not in text.split("Commands:")[1]


def test_headings_say_what_differs_from_training(rng, tmp_path, run):
    """The default ridge of a nearly collinear column is a ridge, too; minibatches estimate."""
    X = rng.standard_normal((500, 4))
    X[:, 3] = X[:, 2] + 1e-7 * rng.standard_normal(500)
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", np.column_stack([X[:, 3] - X[:, 2], X[:, 0]]))
    text = run("fit", "x.npy", "y.npy", "--solver", "qr", "--holdout", 0, cwd=tmp_path)
    assert "with ridge" in text
    assert "estimate" not in text
    # More rows than are kept in memory.
    X = rng.standard_normal((60000, 4))
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X[:, :2] + rng.standard_normal((60000, 2)))
    fit = ("fit", "x.npy", "y.npy", "--solver", "stochastic", "--passes", 1, "--holdout", 0)
    assert "estimate" in run(*fit, cwd=tmp_path)


def test_what_was_decided_about_files_is_said_once_with_an_error(folder, fails, run):
    text = (folder / "x.csv").read_text()
    (folder / "years.csv").write_text(text.replace("n0,n1,n2,n3,n4", "2001,2002,2003,2004,2005"))
    for file, words in (("x.csv", "it has text above numbers"), ("years.csv", "it holds whole numbers")):
        found = fails("fit", file, "y.npy", "-k", 9, code=1, cwd=folder)
        (note,) = found["files"]
        assert note.startswith(f"{file}: the first line was read as column names: {words}")
        assert "first line" not in found["error"]
        shown = run("fit", file, "y.npy", "-k", 9, code=1, cwd=folder)
        assert shown.count("the first line was read as column names") == 1
    assert fails("fit", "x.npy", "y.npy", "-k", 9, code=1, cwd=folder)["files"] == []
