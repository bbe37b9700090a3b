"""Errors about NaN and infinity name the file and the row in it, whatever kind of files there are."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import CCA, KernelCCA, open_views
from appgrad.data.files.places import place_in_files
from appgrad.inference.holdout import held_out

N, ROW = 300, 217


def table(rng, bad=np.nan):
    X = rng.standard_normal((N, 3))
    X[ROW, 1] = bad
    return X


def write_parts(folder, X, kind, sizes=(100, 50, 80, 70)):
    folder.mkdir()
    start = 0
    for i, size in enumerate(sizes):
        part = X[start : start + size]
        start += size
        if kind == "parquet":
            pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
            pq.write_table(
                pa.table({name: part[:, j] for j, name in enumerate("abc")}), folder / f"p{i}.parquet"
            )
        else:
            lines = [" ".join(["1", *(f"{j}:{v}" for j, v in enumerate(row))]) for row in part]
            (folder / f"p{i}.svm").write_text("\n".join(lines) + "\n")


def write(folder, X, kind):
    """A source of these rows, and how an error names the row."""
    if kind.endswith("-parts"):
        write_parts(folder / "parts", X, kind.removesuffix("-parts"))
        ending = kind.removesuffix("-parts")
        return folder / "parts", rf"row {ROW - 150} of {folder}/parts/p2\.{ending} \(row {ROW} of all files\)"
    path = folder / f"x.{kind}"
    if kind == "npy":
        np.save(path, X)
    elif kind == "npz":
        np.savez(path, X)
    elif kind == "csv":
        path.write_text("\n".join(["a,b,c", *(",".join(map(str, row)) for row in X)]))
    elif kind == "parquet":
        write_parts(folder / "one", X, "parquet", [N])
        path = folder / "one" / "p0.parquet"
    return path, rf"row {ROW}"


KINDS = pytest.mark.parametrize("kind", ["npy", "npz", "csv", "parquet", "parquet-parts", "svm-parts"])


@KINDS
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_files_of_all_kinds(kind, bad, rng, tmp_path):
    if kind == "svm-parts" and np.isinf(bad):
        pytest.skip("written as a number that svmlight files do not have")
    source, row = write(tmp_path, table(rng, bad), kind)
    np.save(tmp_path / "y.npy", rng.standard_normal((N, 2)))
    said = rf"column 1 .*{re.escape(str(source))} contains {'NaN' if np.isnan(bad) else 'infinity'}, "
    views = open_views(source, tmp_path / "y.npy")
    models = [CCA(1), CCA(1, solver="qr"), CCA(1, solver="lobpcg"), KernelCCA(1, ridge=0.1)]
    for model in [*models, CCA(1, solver="stochastic", random_state=0)]:
        with pytest.raises(ValueError, match=said + rf"first in {row}, counted from 0: drop"):
            model.fit(views)


@KINDS
def test_new_rows(kind, rng, tmp_path, monkeypatch):
    """Scores of new files, of one view and of both."""
    source, row = write(tmp_path, table(rng), kind)
    Y = rng.standard_normal((N, 2))
    np.save(tmp_path / "y.npy", Y)
    model = CCA(1).fit(np.nan_to_num(table(rng)), Y)
    views = open_views(source, tmp_path / "y.npy")
    for f in (model.transform, model.score):
        with pytest.raises(ValueError, match=rf"{re.escape(str(source))} contains NaN, first in {row}, "):
            f(views)
    from appgrad.data.files.readers import read_table

    found = read_table(str(source))
    with pytest.raises(ValueError, match=rf"{re.escape(str(source))} contains NaN, first in {row}, "):
        model.view_scores(found.matrix, 0, None, found.label, found.place)


@pytest.mark.parametrize("seed", range(5))
def test_selected_rows_have_the_numbers_of_their_file(seed, rng, tmp_path):
    """Held-out rows are a selection: a row of it is called by its number among all."""
    source, row = write(tmp_path, table(rng), "parquet-parts")
    np.save(tmp_path / "y.npy", rng.standard_normal((N, 2)))
    views = open_views(source, tmp_path / "y.npy")
    problem, options = CCA(1).problem_and_options()
    with pytest.raises(ValueError, match=rf"first in {row}, "):
        held_out(views, problem, options, share=0.3, seed=seed)


def test_sparse_rows(rng, tmp_path):
    X = sp.random_array((N, 4), density=0.5, rng=rng, format="lil")
    X[ROW, 2] = np.nan
    sp.save_npz(tmp_path / "x.npz", X.tocsr())
    np.save(tmp_path / "y.npy", rng.standard_normal((N, 2)))
    with pytest.raises(ValueError, match=rf"column 2 of .*x\.npz contains NaN, first in row {ROW}, "):
        CCA(1).fit(open_views(tmp_path / "x.npz", tmp_path / "y.npy"))


def test_places(rng, tmp_path):
    """Every row of files of any length, some of them empty."""
    pytest.importorskip("pyarrow")
    sizes = [3, 0, 1, 5]
    write_parts(tmp_path / "parts", rng.standard_normal((9, 3)), "parquet", sizes)
    paths = tuple(str(tmp_path / "parts" / f"p{i}.parquet") for i in range(4))
    rows = [(i, j) for i, size in enumerate(sizes) for j in range(size)]
    for row, (i, j) in enumerate(rows):
        assert place_in_files(paths, ".parquet", row) == f"row {j} of {paths[i]} (row {row} of all files)"


def test_comments_of_svmlight_files_are_no_rows(rng, tmp_path):
    source, row = write(tmp_path, table(rng), "svm-parts")
    for path in source.iterdir():
        path.write_text("# made by hand\n" + path.read_text() + "  # the end\n")
    np.save(tmp_path / "y.npy", rng.standard_normal((N, 2)))
    with pytest.raises(ValueError, match=rf"contains NaN, first in {row}, "):
        CCA(1).fit(open_views(source, tmp_path / "y.npy"))


def test_on_a_cluster(rng, tmp_path):
    from appgrad.data.cluster.files import opened_by
    from appgrad.data.cluster.protocol import Here

    source, row = write(tmp_path, table(rng), "parquet-parts")
    np.save(tmp_path / "y.npy", rng.standard_normal((N, 2)))
    with pytest.raises(ValueError, match=rf"column 1 \('b'\) of .*parts contains NaN, first in {row}, "):
        CCA(1).fit(opened_by(Here(), str(source), str(tmp_path / "y.npy")))
