"""Progress of a run, on the terminal and in the log."""

import io
import time
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from appgrad import CCA
from appgrad.data.sources import as_views
from appgrad.datasets import planted
from appgrad.fitting import progress as watch


@pytest.fixture(scope="module")
def data():
    p = planted(6000, 12, 10, [0.9, 0.7, 0.5], random_state=0)
    return p.X, p.y


@pytest.fixture
def screen(monkeypatch):
    """What a terminal of 80 columns is sent."""
    file = io.StringIO()
    file.isatty = lambda: True
    monkeypatch.setattr(watch, "sys", SimpleNamespace(stderr=file))
    return file


def cleared(said):
    """The last line is drawn over with blanks, and the cursor is where it began."""
    *_, last, blanks, end = said.split("\r")
    return bool(last) and blanks == " " * len(last.rstrip()) and end == ""


def batches(X, Y, size=500):
    return [(X[i : i + size], Y[i : i + size]) for i in range(0, len(X), size)]


def slow(progress):
    time.sleep(0.15)


def test_a_stream_has_a_line_on_the_terminal(data, screen):
    """Rows and their rate, what is captured, and the time left where the length of the stream is known."""
    with config_context(working_memory=0.001):
        model = CCA(3, verbose=2, callback=slow, random_state=0).fit_stream(batches(*data))
    said = screen.getvalue()
    assert model.solver_ == "stochastic"
    for part in (
        "stream",
        ",000 rows, ",
        "total correlation 1.",
        " of at most 3, about ",
        " s left",
        " rows/s",
    ):
        assert part in said
    assert "passes" not in said
    # The line is gone in the end.
    assert cleared(said)


def test_a_stream_of_unknown_length_says_nothing_of_its_end(data, screen):
    CCA(3, verbose=2, callback=slow).fit_stream(pair for pair in batches(*data)[:8])
    said = screen.getvalue()
    assert "4,000 rows" in said
    assert "left" not in said
    # Sums have captured nothing before they are solved for.
    assert "correlation" not in said


def test_a_fit_has_a_line_on_the_terminal(data, screen):
    told = []

    def callback(progress):
        told.append(progress)
        slow(progress)

    with pytest.warns(match="max_iter"):
        CCA(3, solver="lobpcg", verbose=2, max_iter=4, tol=0, callback=callback).fit(*data)
    said = screen.getvalue()
    assert "fit" in said
    assert " passes, total correlation 2." in said
    assert len(told) == 4


def test_a_run_without_rows_is_shown_too(data, screen):
    """Covariances are gathered once: then no rows are counted."""
    with pytest.warns(match="max_iter"):
        CCA(3, solver="als", verbose=2, max_iter=4, tol=0, callback=slow).fit(*data)
    assert " passes, total correlation 2." in screen.getvalue()


@pytest.mark.parametrize("verbose", ["2", [2], 2.5])
def test_verbose_is_a_number(verbose, data):
    with pytest.raises(ValueError, match="verbose must be an integer"):
        CCA(1, verbose=verbose).fit(*data)


def test_a_callback_is_callable(data):
    with pytest.raises(ValueError, match="callback must be None or callable, got 5"):
        CCA(1, callback=5).fit_stream(batches(*data))


def test_a_callback_ends_a_stream_that_is_shown(data, screen):
    model = CCA(3, verbose=2, callback=lambda progress: progress.rows >= 1500).fit_stream(batches(*data))
    assert model.n_samples_ == 1500


def test_the_line_is_gone_when_a_stream_breaks(data, screen):
    def broken():
        yield data[0][:100], data[1][:100]
        raise OSError("the line is dead")

    model = CCA(3, verbose=2)
    with pytest.raises(OSError, match="dead"):
        model.fit_stream(broken())
    assert model.n_samples_ == 100
    assert cleared(screen.getvalue())


@pytest.mark.parametrize("verbose", [1, 2])
def test_without_a_terminal_it_is_logged(verbose, data, caplog, capfd):
    with caplog.at_level("INFO", "appgrad"):
        CCA(3, verbose=verbose).fit_stream(batches(*data))
    assert "the stream ended after 6000 rows" in caplog.text
    assert capfd.readouterr() == ("", "")


def test_callbacks_are_told_the_time_left(data):
    known, unknown = [], []
    CCA(3, callback=lambda p: known.append((p.seconds, p.left))).fit_stream(batches(*data))
    CCA(3, callback=lambda p: unknown.append(p.left)).fit_stream(iter(pair for pair in batches(*data)))
    assert unknown == [None] * 12
    seconds, left = np.array(known).T
    np.testing.assert_allclose(left, seconds * (12 - np.arange(1, 13)) / np.arange(1, 13))


def test_a_resumed_run_counts_passes_from_its_start(data, tmp_path):
    """Like the result, whose last pass comes after the last step."""
    X, Y = data
    shown, line = [], SimpleNamespace(begin=lambda name: None, show=lambda text: None)
    asked = {
        "solver": "appgrad",
        "preconditioner": None,
        "tol": 0,
        "checkpoint": str(tmp_path / "c"),
        "random_state": 0,
    }
    with pytest.warns(ConvergenceWarning):
        CCA(3, max_iter=4, **asked).fit(X, Y)
    display = watch.Watch(line)

    def step(progress):
        display.step(progress)
        shown.append((display.text(1000).split(" passes")[0], progress.passes))

    with pytest.warns(ConvergenceWarning):
        model = CCA(3, max_iter=8, callback=step, **asked).fit(display.views("fit", as_views(X, Y)))
    assert [text for text, _ in shown] == [f"{passes:.1f}" for _, passes in shown]
    assert model.resumed_from_iteration_ == 4
    assert model.n_passes_ - 2 <= shown[-1][1] <= model.n_passes_ - 1
    # Between two steps, rows that come are added, as those of the last pass were.
    last = model.n_passes_
    display.count(display.rows + X.shape[0])
    assert display.text(1000).startswith(f"{last + 1:.1f} passes")
