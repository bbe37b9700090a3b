"""Files that version 0.1.0 has written are read by every later version, and give the same numbers.

The files are in files_of_0_1_0, with the numbers that 0.1.0 had for them. They are never made anew.
"""

import json
import shutil
import sys
import warnings
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from appgrad import CCA, KernelCCA, OverfitWarning, SparseCCA, load
from appgrad.cli.main import main

FOLDER = Path(__file__).parents[1] / "files_of_0_1_0"
LARGEST = 300_000
# Distances from the old numbers, in units of the largest of them.
SAME, CONTINUED = 1e-12, 1e-10


def whole_numbers(seed, *shape):
    """Whole numbers from -8 to 8. Raw bits of PCG64 are the same on every machine and in every numpy."""
    raw = np.random.default_rng(seed).bit_generator.random_raw(prod(shape))
    return (raw % 17).reshape(shape).astype(float) - 8


def views(n=60, p1=6, p2=5, seed=0, sparse=0):
    """Two views that share up to three columns, the first most; `sparse` leaves so many in 17 entries.

    Sums of whole numbers are exact: a checkpoint is refused where a single bit of the data is another.
    """
    shared = min(3, p1, p2)
    parts = whole_numbers(seed, n, p1 + p2 + shared)
    if sparse:
        parts *= whole_numbers(seed + 1000, *parts.shape) > 8 - sparse
    X, Y, Z = np.split(parts, [p1, p1 + p2], axis=1)
    X[:, :shared] += Z * np.arange(shared, 0, -1)
    Y[:, :shared] += Z * np.arange(shared, 0, -1)
    return (sp.csr_array(X), sp.csr_array(Y)) if sparse else (X, Y)


class Rows(NamedTuple):
    """What a model is fitted to, and in which form."""

    n: int = 60
    p1: int = 6
    p2: int = 5
    sparse: int = 0
    form: str = "float64"

    def training(self):
        X, Y = views(self.n, self.p1, self.p2, sparse=self.sparse)
        if self.form == "precomputed":
            return X @ X.T, Y @ Y.T
        return self._formed(X, Y)

    def new(self, n=4):
        """Rows of which scores were kept, in double precision: those are not rounded."""
        X, Y = views(n, self.p1, self.p2, seed=1)
        if self.form == "precomputed":
            known = views(self.n, self.p1, self.p2)
            return X @ known[0].T, Y @ known[1].T
        return self._formed(X, Y) if self.form != "float32" else (X, Y)

    def _formed(self, X, Y):
        if self.form == "frame":
            return named(X, "x"), named(Y, "größe ")
        if self.form == "one dimension":
            return X, Y[:, 0]
        return (X.astype(np.float32), Y.astype(np.float32)) if self.form == "float32" else (X, Y)


def named(m, prefix):
    return pd.DataFrame(m, columns=[f"{prefix}{j}" for j in range(m.shape[1])])


# Those that iterate stop early: their history is in the file.
MODELS = {
    "cca_exact": (CCA(2, solver="exact"), Rows()),
    "cca_qr": (CCA(2, solver="qr"), Rows(form="frame")),
    "cca_lobpcg": (
        CCA(2, solver="lobpcg", max_iter=5, checkpoint=("run.ckpt", 3600.0), random_state=3),
        Rows(),
    ),
    "cca_als": (
        CCA(2, solver="als", ridge=(0.1, 0.2), scale=True, max_iter=5, random_state=0),
        Rows(),
    ),
    "cca_appgrad": (CCA(2, solver="appgrad", max_passes=9, random_state=0), Rows()),
    "cca_stochastic": (
        CCA(2, solver="stochastic", max_passes=2, batch_size=30, normaliser=30, random_state=0),
        Rows(),
    ),
    "cca_float32": (CCA(2), Rows(form="float32")),
    "cca_wide": (CCA(2, ridge=5.0), Rows(8, 12, 10)),
    "cca_one_dimensional_y": (CCA(1, center=False), Rows(form="one dimension")),
    "kernel_exact": (KernelCCA(2, ridge=0.5), Rows(10, 3, 2)),
    "kernel_precomputed": (
        KernelCCA(2, kernel="precomputed", ridge=100.0),
        Rows(10, 3, 2, form="precomputed"),
    ),
    "kernel_nystroem": (
        KernelCCA(
            2,
            kernel=("poly", "rbf"),
            degree=(2, None),
            coef0=(0.5, None),
            gamma=(0.1, 0.01),
            approximation="nystroem",
            n_landmarks=(4, 5),
            random_state=0,
        ),
        Rows(60, 3, 3),
    ),
    "kernel_fourier": (
        KernelCCA(2, approximation="fourier", n_landmarks=6, ridge=(0.1, 0.2), random_state=0),
        Rows(60, 3, 3),
    ),
    "sparse_n_nonzero": (SparseCCA(2, n_nonzero=(4, 3), max_iter=4), Rows(60, 8, 7)),
    "sparse_pursuit": (SparseCCA(2, alpha=0.2, penalty="l1", solver="pursuit", max_iter=8), Rows()),
    "sparse_appgrad": (
        SparseCCA(2, alpha=(0.1, 0.2), penalty="l1", solver="appgrad", max_iter=4, random_state=0),
        Rows(),
    ),
    "sparse_component": (SparseCCA(2, n_nonzero=2, support="component", max_iter=4), Rows()),
}


class Stream(NamedTuple):
    """A model, rows of its data, the batches they came in, and how many came after the file was written."""

    model: Any
    rows: Rows
    sizes: tuple[int, ...]
    later: int
    fitted: bool = True

    def batches(self):
        """All batches, that after the file last."""
        data = self.rows._replace(n=sum(self.sizes) + self.later).training()
        start = 0
        for size in (*self.sizes, self.later):
            yield tuple(m[start : start + size] for m in data)
            start += size


# The last rows of sums wait to be added: there are fewer of them than columns.
STREAMS = {
    "stream_sums": Stream(CCA(2, solver="exact"), Rows(p1=4, p2=3), (40, 5), 30),
    "stream_sums_sparse": Stream(CCA(2), Rows(p1=3, p2=2, sparse=4), (60, 2, 2), 30),
    "stream_sums_forget": Stream(
        CCA(1, forget=50.0, ridge=0.1), Rows(p1=4, p2=3, form="float32"), (40, 9), 30
    ),
    "stream_too_few": Stream(CCA(2), Rows(form="frame"), (1,), 30, fitted=False),
    # The second horizon is under way, and the result of the first is still the better one.
    "stream_steps": Stream(
        CCA(1, solver="stochastic", forget=3000, random_state=0),
        Rows(p1=2, p2=2, sparse=1),
        (10000, 2000),
        7000,
    ),
    # Its random numbers are those of another generator, Philox.
    "stream_before_steps": Stream(CCA(1, solver="stochastic"), Rows(p1=3, p2=2), (10, 10), 4500),
    "stream_steps_too_few": Stream(
        CCA(2, solver="stochastic", random_state=0), Rows(sparse=4), (1,), 300, fitted=False
    ),
    "stream_nystroem": Stream(
        KernelCCA(2, approximation="nystroem", n_landmarks=3, random_state=0), Rows(p1=3, p2=2), (60, 3), 40
    ),
}


class Run(NamedTuple):
    """A model, its data, the iteration at which it was stopped, and how near the rest of it comes."""

    model: Any
    rows: Rows
    stopped: int
    tolerance: float = CONTINUED


# Runs that end after a number of iterations, before they have arrived: what they were is still to be seen.
CHECKPOINTS = {
    "checkpoint_lobpcg": Run(
        CCA(1, solver="lobpcg", tol=0, max_iter=6, oversampling=0, preconditioner="jacobi", random_state=0),
        Rows(60, 9, 7),
        3,
    ),
    # The steps that are left have another preconditioner now.
    "checkpoint_lobpcg_sparse": Run(
        CCA(1, solver="lobpcg", tol=0, max_iter=4, oversampling=0, random_state=0),
        Rows(200, 9, 7, sparse=4),
        2,
        tolerance=0.05,
    ),
    "checkpoint_als": Run(
        CCA(1, solver="als", tol=0, max_iter=6, oversampling=1, random_state=0), Rows(60, 6, 5), 3
    ),
    "checkpoint_appgrad": Run(
        CCA(1, solver="appgrad", tol=0, max_iter=12, oversampling=1, random_state=0),
        Rows(60, 6, 5),
        6,
        tolerance=0.02,
    ),
    "checkpoint_stochastic": Run(
        CCA(1, solver="stochastic", max_passes=4, batch_size=20, oversampling=0, random_state=0),
        Rows(100, 3, 2),
        14,
    ),
    "checkpoint_pursuit": Run(
        SparseCCA(2, n_nonzero=(4, 3), tol=0, max_iter=6, random_state=0), Rows(60, 6, 5), 3
    ),
    "checkpoint_pursuit_component": Run(
        SparseCCA(2, n_nonzero=2, support="component", tol=0, max_iter=14, random_state=0),
        Rows(60, 6, 5),
        9,
    ),
}


def quietly(do, *args):
    """What a function returns, whatever it warns of: that few rows or iterations say little is known."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", OverfitWarning)
        return do(*args)


def scores(model, rows):
    """Correlations, and the scores of new rows below them."""
    return np.vstack([quietly(getattr, model, "canonical_correlations_"), *model.transform(*rows.new())])


def weights(model):
    """Correlations, and all weights below them."""
    return np.vstack([model.canonical_correlations_, model.x_weights_, model.y_weights_])


def counts(model):
    """Iterations and passes, but for the one that says on how many rows components rest, new since."""
    looked = np.isfinite(model.effective_rows_).any()
    return np.array([[model.n_iter_[0], model.n_passes_ - looked]])


@cache
def old_numbers():
    """What 0.1.0 found, by name: all in one array, for the sake of size."""
    with np.load(FOLDER / "expected.npz") as archive:
        names, shapes, numbers = (archive[part] for part in ("names", "shapes", "numbers"))
    parts = np.split(numbers, np.cumsum(shapes.prod(axis=1))[:-1])
    return {str(n): part.reshape(shape) for n, part, shape in zip(names, parts, shapes, strict=True)}


def assert_near(found, name, tolerance):
    """As near to the numbers of 0.1.0 as `tolerance` times the largest of them."""
    expected = old_numbers()[name]
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def file_of(name):
    return FOLDER / f"{name}{'.ckpt' if name in CHECKPOINTS else '.cca'}"


def assert_all_of(found, path):
    """A loaded model has every array of its file that bears the name of an attribute."""
    with np.load(path) as archive:
        names = [name for name in archive.files if name.endswith("_") and not name.startswith("_")]
        assert {"canonical_correlations_", "x_weights_", "residuals_"} <= set(names)
        for name in names:
            np.testing.assert_array_equal(getattr(found, name), archive[name], strict=True)


def assert_describes(found, model):
    """A loaded model is of the same class, with the same parameters."""
    assert type(found) is type(model)
    assert found.get_params() == model.get_params()


@pytest.mark.parametrize("name", MODELS)
def test_models_give_the_same_scores(name, tmp_path):
    (model, rows), found = MODELS[name], load(file_of(name))
    assert_describes(found, model)
    assert (found.n_samples_, found.n_features_in_) == rows.training()[0].shape
    assert_near(scores(found, rows), name, SAME)
    assert_all_of(found, file_of(name))
    # Written anew by this version, it is still the same.
    found.save(tmp_path / "again.cca")
    again = load(tmp_path / "again.cca")
    assert_describes(again, model)
    np.testing.assert_array_equal(scores(again, rows), scores(found, rows))
    assert str(again.history_) == str(found.history_)


@pytest.mark.parametrize("name", [name for name, (model, _) in MODELS.items() if hasattr(model, "predict")])
def test_models_predict_the_same(name):
    rows, found = MODELS[name][1], load(file_of(name))
    predicted = found.predict(rows.new()[0])
    assert predicted.ndim == (1 if rows.form == "one dimension" else 2)
    assert_near(np.column_stack([predicted]), f"{name}/predict", SAME)


def test_names_of_columns_are_kept():
    found, (X, Y) = load(file_of("cca_qr")), MODELS["cca_qr"][1].new()
    assert list(found.feature_names_in_) == list(X.columns)
    assert list(found.feature_names_y_) == list(Y.columns)


def test_a_model_of_the_command_line_says_where_it_comes_from(tmp_path, monkeypatch, capsys):
    def printed(*args):
        """What the command line prints."""
        monkeypatch.setattr(sys, "argv", ["appgrad", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code
        return capsys.readouterr().out

    path = file_of("command_line")
    found = load(path)
    assert_near(scores(found, Rows(form="frame")), "command_line", SAME)
    expected = json.loads((FOLDER / "command_line.json").read_text(encoding="utf-8"))
    said = json.loads(printed("inspect", path, "--json"))
    assert {fact: said[fact] for fact in expected} == expected
    printed("report", path, "-o", tmp_path / "report.html")
    assert "appgrad fit x.csv y.csv -k 3 " in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", STREAMS)
def test_streams_go_on(name, tmp_path):
    stream, found = STREAMS[name], load(file_of(name))
    assert_describes(found, stream.model)
    assert found.n_samples_ == sum(stream.sizes)
    if stream.fitted:
        assert_near(scores(found, stream.rows), name, SAME)
        assert_all_of(found, file_of(name))
    else:
        with pytest.raises(ValueError, match="n_components=2 is above the largest possible rank of 1 rows"):
            _ = found.canonical_correlations_
    # Written anew by this version, it goes on all the same.
    found.save(tmp_path / "again.cca")
    *_, later = stream.batches()
    for model in (found, load(tmp_path / "again.cca")):
        model.partial_fit(*later)
        assert model.n_samples_ == sum(stream.sizes) + stream.later
        assert_near(scores(model, stream.rows), f"{name}/later", CONTINUED)
        assert_near(counts(model), f"{name}/counts", SAME)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_runs_go_on(name, tmp_path):
    run, path = CHECKPOINTS[name], tmp_path / "run.ckpt"
    shutil.copy(file_of(name), path)
    found = quietly(clone(run.model).set_params(checkpoint=path).fit, *run.rows.training())
    assert found.resumed_from_iteration_ == run.stopped
    assert found.n_iter_[0] > run.stopped
    assert_near(counts(found), f"{name}/counts", SAME)
    assert_near(weights(found), name, run.tolerance)


def test_nothing_is_missing():
    """Every file has its test, and all of them together are small."""
    names = [*MODELS, *STREAMS, *CHECKPOINTS, "command_line"]
    files = {file_of(name).name for name in names} | {"command_line.json", "expected.npz", "README.md"}
    assert {path.name for path in FOLDER.iterdir()} == files
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < LARGEST
