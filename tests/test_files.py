import gzip
import itertools
import os

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context

from appgrad import CCA, open_views
from appgrad.data.files.binary import StoredRows
from appgrad.data.files.mapped import StoredViews
from appgrad.data.files.table import read_table
from appgrad.datasets import planted
from helpers import write
from naive import dense


@pytest.fixture
def X(rng):
    return np.round(rng.standard_normal((30, 4)), 6)


KINDS = [
    ".npy",
    "dense.npz",
    "sparse.npz",
    ".csv",
    "bare.csv",
    ".csv.gz",
    ".tsv",
    "bare.tsv.gz",
    ".parquet",
    "folder",
    ".svm",
    ".svmlight.gz",
    ".h5",
    ".zarr",
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file(kind, X, tmp_path):
    path = tmp_path / f"x{kind}"
    write(kind, path, X)
    table = read_table(str(path))
    np.testing.assert_allclose(dense(table.matrix), X)
    named = kind in (".csv", ".csv.gz", ".tsv", ".parquet", "folder")
    assert (table.names is None) != named
    if named:
        assert list(table.names) == ["c0", "c1", "c2", "c3"]
    some = read_table(f"{path}::columns=3,0-1")
    np.testing.assert_allclose(dense(some.matrix), X[:, [3, 0, 1]])
    if named:
        np.testing.assert_allclose(dense(read_table(f"{path}::columns=c2,0").matrix), X[:, [2, 0]])
        assert list(some.names) == ["c3", "c0", "c1"]


@pytest.mark.parametrize("kind", KINDS)
def test_fit_on_files(kind, X, rng, tmp_path):
    Y = X[:, :2] + rng.standard_normal((30, 2))
    write(kind, tmp_path / f"x{kind}", X)
    write(kind, tmp_path / f"y{kind}", Y)
    found = CCA(2).fit(open_views(tmp_path / f"x{kind}", tmp_path / f"y{kind}")).canonical_correlations_
    np.testing.assert_allclose(found, CCA(2).fit(X, Y).canonical_correlations_, atol=1e-8)


def test_npy_is_mapped_not_read(X, tmp_path):
    np.save(tmp_path / "x.npy", X)
    views = open_views(tmp_path / "x.npy", f"{tmp_path / 'x.npy'}::columns=1-2")
    assert isinstance(views.x, np.memmap)
    assert isinstance(views.y, np.memmap)


def test_two_arrays_of_one_npz(X, tmp_path):
    path = tmp_path / "both.npz"
    np.savez(path, left=X[:, :2], right=X[:, 2:])
    views = open_views(f"{path}::left", f"{path}::right")
    assert (views.n_features_x, views.n_features_y) == (2, 2)
    with pytest.raises(ValueError, match="holds the arrays left, right: choose one"):
        read_table(str(path))
    with pytest.raises(ValueError, match="no array 'top'; it has left, right"):
        read_table(f"{path}::top")


def test_one_dimensional_file_is_a_column(X, tmp_path):
    np.save(tmp_path / "x.npy", X[:, 0])
    assert read_table(str(tmp_path / "x.npy")).matrix.shape == (30, 1)


def refuse(path, match, error=ValueError):
    with pytest.raises(error, match=match) as caught:
        read_table(str(path))
    assert "\n" not in str(caught.value)


def test_missing_empty_and_unknown(tmp_path):
    refuse(tmp_path / "x.npy", "no such file", FileNotFoundError)
    (tmp_path / "x.npy").write_bytes(b"")
    refuse(tmp_path / "x.npy", "is empty")
    (tmp_path / "x.xlsx").write_bytes(b"1")
    refuse(tmp_path / "x.xlsx", r"unknown kind of file; expected one of \.csv")
    refuse(tmp_path, "is a folder", IsADirectoryError)


@pytest.mark.parametrize("kind", [".npy", ".npz", ".csv", ".csv.gz", ".tsv", ".parquet"])
def test_not_what_its_ending_says(kind, tmp_path):
    path = tmp_path / f"x{kind}"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    refuse(path, f"x{kind}")


@pytest.mark.parametrize("kind", [".npy", "dense.npz", "sparse.npz", ".csv.gz", ".parquet"])
def test_truncated(kind, X, tmp_path):
    path = tmp_path / f"x{kind}"
    write(kind, path, X)
    path.write_bytes(path.read_bytes()[:-50])
    refuse(path, f"x{kind} cannot be read as")


def test_pickles_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{}, 1], dtype=object))
    refuse(tmp_path / "x.npy", "cannot be read")


def test_what_is_wrong_in_a_text_file_is_named(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n3,oops\n")
    refuse(path, r"'oops' in row 1, column 1 \('b'\) is not a number")
    path.write_text("1,2\n3,\n")
    refuse(path, r"'' in row 1, column 1 is not a number: fill missing values")
    path.write_text("a,b\n1,2\n3\n")
    refuse(path, "line 3 has 1 cells, the first line has 2")
    path.write_text("a,b\n1,2\n3,4,5\n")
    refuse(path, "line 3 has 3 cells, the first line has 2")
    refuse(f"{path}::columns=a", "line 3 has 3 cells, the first line has 2")
    path.write_text("a;b\n1;2\n3;4\n")
    refuse(path, "separated by semicolons")
    path.write_bytes(b"a,b\n1,2\n" + b"\xe9,1\n")
    refuse(path, "not UTF-8")
    path.write_text("a,b,c\n1,2\n3,4\n")
    refuse(path, "line 2 has 2 cells, the first line has 3")
    path.write_text("a,b\n")
    refuse(path, "0 rows")


def test_text_column_of_a_parquet_file_is_named(tmp_path):
    import pandas as pd

    pd.DataFrame({"id": ["u", "v"], "a": [1.0, 2.0]}).to_parquet(tmp_path / "x.parquet")
    refuse(tmp_path / "x.parquet", "column 'id' is not numeric: leave it out")
    assert read_table(f"{tmp_path / 'x.parquet'}::columns=a").matrix.shape == (2, 1)


def test_a_text_column_of_a_csv_file_can_be_left_out(tmp_path):
    (tmp_path / "x.csv").write_text("id,a,b\nu,1,2\nv,3,4\n")
    np.testing.assert_array_equal(read_table(f"{tmp_path / 'x.csv'}::columns=a,b").matrix, [[1, 2], [3, 4]])


def test_bad_selections(X, tmp_path):
    write(".csv", tmp_path / "x.csv", X)
    refuse(f"{tmp_path / 'x.csv'}::columns=zz", r"no column 'zz'; there are c0, c1, .* positions 0-3")
    refuse(f"{tmp_path / 'x.csv'}::columns=0-9", "there are columns 0-3")
    for odd in ("3-1", "0,3-1", "0-9999999999"):
        refuse(f"{tmp_path / 'x.csv'}::columns={odd}", "there are columns 0-3")
    refuse(f"{tmp_path / 'x.csv'}::columns=", "no column is chosen")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    refuse(f"{tmp_path / 'twice.csv'}::columns=a", "two columns have the name 'a'")
    np.savez(tmp_path / "none.npz")
    refuse(tmp_path / "none.npz", "holds no arrays")
    refuse(f"{tmp_path / 'x.csv'}::c0", "only .npz, .h5 and .zarr have arrays to name")
    np.save(tmp_path / "x.npy", np.zeros((2, 2, 2)))
    refuse(tmp_path / "x.npy", "3 dimensions")
    np.save(tmp_path / "x.npy", np.zeros((0, 2)))
    refuse(tmp_path / "x.npy", "0 rows")
    np.save(tmp_path / "x.npy", np.array([["a"]]))
    refuse(tmp_path / "x.npy", "not real numbers")


def test_rows_differ(X, tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", X[:20])
    with pytest.raises(ValueError, match=r"y\.npy has 20 rows, .*x\.npy has 30: rows must be paired"):
        open_views(tmp_path / "x.npy", tmp_path / "y.npy")


def test_nan_in_a_file_names_the_file(X, tmp_path):
    X[4, 2] = np.nan
    write(".parquet", tmp_path / "x.parquet", X)
    np.save(tmp_path / "y.npy", X[:, :2])
    with pytest.raises(ValueError, match=r"column 2 \('c2'\) of .*x\.parquet contains NaN, first in row 4"):
        CCA(1).fit(open_views(tmp_path / "x.parquet", tmp_path / "y.npy"))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_files_of_every_format(kind, X, tmp_path):
    sp.save_npz(tmp_path / "x.npz", sp.coo_array(X).asformat(kind))
    np.testing.assert_allclose(dense(read_table(str(tmp_path / "x.npz")).matrix), X)


def test_numbers_as_column_names(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("0,1,2\n0.5,2,3\n4,5,6\n")
    table = read_table(str(path))
    assert list(table.names) == ["0", "1", "2"]
    assert table.matrix.shape == (2, 3)
    path.write_text("2001,2002\n0.5,2\n4,5\n")
    with pytest.warns(UserWarning, match="whole numbers only and was read as data"):
        assert read_table(str(path)).matrix.shape == (3, 2)
    path.write_text("7,8\n1,2\n4,5\n")
    assert read_table(str(path)).matrix.shape == (3, 2)


def test_row_labels_without_a_name_are_left_out(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(",a,b\nr1,1,2\nr2,4,5\n")
    with pytest.warns(UserWarning, match="taken as row labels"):
        table = read_table(str(path))
    assert list(table.names) == ["a", "b"]
    np.testing.assert_array_equal(table.matrix, [[1, 2], [4, 5]])
    np.testing.assert_array_equal(read_table(f"{path}::columns=2,1").matrix, [[2, 1], [5, 4]])


def test_byte_order_mark_and_windows_line_ends(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"\xef\xbb\xbfa,b\r\n1,2\r\n3,4\r\n")
    table = read_table(str(tmp_path / "x.csv"))
    assert list(table.names) == ["a", "b"]
    np.testing.assert_array_equal(table.matrix, [[1, 2], [3, 4]])


def test_awkward_names(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('"height, cm",age,"two\nlines"\n1,2,3\n4,5,6\n')
    assert list(read_table(str(path)).names) == ["height, cm", "age", "two\nlines"]
    np.testing.assert_array_equal(read_table(f'{path}::columns="height, cm", age').matrix, [[1, 2], [4, 5]])


def test_columns_of_an_array_of_an_npz(X, tmp_path):
    np.savez(tmp_path / "x.npz", a=X, b=X)
    np.testing.assert_array_equal(read_table(f"{tmp_path / 'x.npz'}::a::columns=1-2").matrix, X[:, 1:3])


def test_duplicate_entries_of_a_sparse_file_are_summed(rng, tmp_path):
    indptr = np.r_[0, 2, 2 + np.arange(59)]
    X = sp.csr_array((rng.standard_normal(60) + 9, np.zeros(60, int), indptr), shape=(60, 40))
    sp.save_npz(tmp_path / "x.npz", X)
    assert read_table(str(tmp_path / "x.npz")).matrix.has_canonical_format


def test_a_first_row_with_a_missing_value_is_no_header(tmp_path):
    path = tmp_path / "x.csv"
    for missing in ("", "NA", "nan"):
        path.write_text(f"1,{missing},3\n4,5,6\n")
        if missing == "nan":
            assert read_table(str(path)).matrix.shape == (2, 3)
        else:
            refuse(path, f"'{missing}' in row 0, column 1 is not a number")


def test_row_labels_of_a_pandas_frame_are_left_out(rng, tmp_path):
    import pandas as pd

    frame = pd.DataFrame(rng.standard_normal((20, 2)), columns=["a", "b"]).sample(10, random_state=0)
    frame.to_parquet(tmp_path / "x.parquet")
    assert list(read_table(str(tmp_path / "x.parquet")).names) == ["a", "b"]
    pd.DataFrame(rng.standard_normal((5, 3))).to_csv(tmp_path / "x.csv")
    with pytest.warns(UserWarning, match="row labels"):
        assert list(read_table(str(tmp_path / "x.csv")).names) == ["0", "1", "2"]


# Files larger than memory, many files, and what can be wrong with them


@pytest.mark.parametrize("kind", [k for k in KINDS if k != ".svm"])
def test_what_does_not_fit_goes_to_disk(kind, rng, tmp_path):
    """With hardly any memory budget, rows are the same, and none of the matrix is in memory."""
    X = np.round(rng.standard_normal((500, 4)), 6)
    write(kind, tmp_path / f"x{kind}", X)
    with config_context(working_memory=0.01):
        table = read_table(str(tmp_path / f"x{kind}"))
        np.testing.assert_allclose(dense(table.matrix), X)
        if kind not in ("dense.npz", "sparse.npz"):
            assert (
                not isinstance(getattr(table.matrix, "data", None), np.ndarray | memoryview)
                or isinstance(table.matrix, np.memmap)
                or isinstance(table.matrix.data, np.memmap)
            )
        rows = np.array([3, 499, 0, 250, 4])
        np.testing.assert_allclose(dense(table.matrix[rows]), X[rows])


def test_the_temporary_file_vanishes(rng, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    write(".csv", tmp_path / "x.csv", rng.standard_normal((500, 4)))
    with config_context(working_memory=0.01):
        table = read_table(str(tmp_path / "x.csv"))
        assert isinstance(table.matrix, np.memmap)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_no_room_for_the_temporary_file(rng, tmp_path, monkeypatch):
    write(".csv", tmp_path / "x.csv", rng.standard_normal((500, 4)))
    monkeypatch.setattr("shutil.disk_usage", lambda folder: type("Usage", (), {"free": 10})())
    with config_context(working_memory=0.01):
        refuse(tmp_path / "x.csv", "no space left in .* set TMPDIR to another folder")


def test_patterns_and_folders(X, tmp_path):
    write("folder", tmp_path / "parts", X)
    for source in (tmp_path / "parts", tmp_path / "parts" / "part-*.parquet"):
        np.testing.assert_allclose(read_table(str(source)).matrix, X)
    some = read_table(f"{tmp_path / 'parts'}::columns=c3,c1")
    np.testing.assert_allclose(some.matrix, X[:, [3, 1]])
    refuse(tmp_path / "parts" / "*.svm", "no such files", FileNotFoundError)
    (tmp_path / "parts" / "part-1.parquet").write_bytes(b"PAR1 and nothing else")
    refuse(tmp_path / "parts", r"part-1\.parquet")


def test_parts_with_other_columns_are_refused(X, tmp_path):
    import pandas as pd

    write("folder", tmp_path / "parts", X)
    pd.DataFrame(X, columns=list("abcd")).to_parquet(tmp_path / "parts" / "part-9.parquet")
    refuse(tmp_path / "parts", r"part-9\.parquet: it has other columns than .*part-0")


def test_svmlight_columns_are_numbered_as_in_the_file(tmp_path):
    path = tmp_path / "url.svm"
    path.write_text("+1 1:0.5 4:2\n-1 2:1 7:3 # a comment\n+1 7:1\n")
    np.testing.assert_array_equal(
        dense(read_table(f"{path}::columns=1,4,7").matrix), [[0.5, 2, 0], [0, 0, 3], [0, 0, 1]]
    )
    assert read_table(str(path)).matrix.shape == (3, 8)
    views = open_views(f"{path}::columns=1-3", f"{path}::columns=4-7")
    assert (views.n_features_x, views.n_features_y, views.sparse) == (3, 4, True)


def test_a_malformed_svmlight_line_is_named(tmp_path):
    path = tmp_path / "url.svm"
    path.write_text("+1 1:0.5\n" * 40 + "+1 1:0.5 oops\n" + "+1 2:1\n" * 9)
    refuse(path, r"line 41 of .*url\.svm is not 'label index:value \.\.\.': '\+1 1:0\.5 oops'")
    with gzip.open(tmp_path / "url.svm.gz", "wb") as file:
        file.write(path.read_bytes()[:360])
    (tmp_path / "url.svm.gz").write_bytes((tmp_path / "url.svm.gz").read_bytes()[:-12])
    refuse(tmp_path / "url.svm.gz", "cannot be read as .svm.gz")


def test_arrays_of_a_store_are_chosen_by_name(X, tmp_path):
    import h5py
    import zarr

    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"], file["deep/b"], file["cube"] = X, X[:, :2], np.zeros((2, 2, 2))
    np.testing.assert_array_equal(dense(read_table(f"{tmp_path / 'x.h5'}::deep/b").matrix), X[:, :2])
    refuse(tmp_path / "x.h5", "it holds a, cube, deep/b: choose one")
    refuse(f"{tmp_path / 'x.h5'}::none", "it has no array 'none'; it has a, cube, deep/b")
    refuse(f"{tmp_path / 'x.h5'}::cube", "3 dimensions")
    group = zarr.open_group(str(tmp_path / "x.zarr"), mode="w")
    group.create_array("a", data=X)
    group.create_array("b", data=X[:, :3])
    np.testing.assert_array_equal(dense(read_table(f"{tmp_path / 'x.zarr'}::b").matrix), X[:, :3])
    np.testing.assert_array_equal(
        dense(read_table(f"{tmp_path / 'x.zarr'}::a::columns=2,0").matrix), X[:, [2, 0]]
    )
    refuse(tmp_path / "x.zarr", "it holds a, b: choose one")


@pytest.mark.parametrize("kind", [".npy", ".h5"])
def test_a_file_that_changes_between_passes_is_noticed(kind, rng, tmp_path):
    X, Y = rng.standard_normal((300, 5)), rng.standard_normal((300, 4))
    write(kind, tmp_path / f"x{kind}", X)
    np.save(tmp_path / "y.npy", Y)
    views = open_views(tmp_path / f"x{kind}", tmp_path / "y.npy")

    def change(progress):
        if progress.iteration == 2:
            os.utime(tmp_path / "y.npy", ns=(1, 1))

    with pytest.raises(ValueError, match=r"y\.npy has changed since it was opened: open it again"):
        CCA(2, solver="lobpcg", tol=0, max_iter=5, random_state=0, callback=change).fit(views)


def test_a_nan_far_down_is_named(tmp_path):
    X = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (1_000_000, 3))
    X[:] = np.random.default_rng(0).standard_normal((1_000_000, 3), np.float32)
    X[900_000, 1] = np.nan
    X.flush()
    for solver in ("exact", "lobpcg", "stochastic"):
        with pytest.raises(ValueError, match=r"column 1 of .*x\.npy contains NaN, first in row 900000"):
            CCA(1, solver=solver).fit(open_views(tmp_path / "x.npy", f"{tmp_path / 'x.npy'}::columns=0,2"))


def test_a_header_that_claims_too_much_is_refused(X, tmp_path):
    """Before anything of that size is allocated."""
    np.save(tmp_path / "x.npy", X)
    whole = (tmp_path / "x.npy").read_bytes()
    claimed = whole.replace(b"(30, 4)", b"(3000000000000, 4)")[: len(whole)].replace(
        b"          \n", b"\n", 1
    )
    (tmp_path / "x.npy").write_bytes(claimed)
    refuse(tmp_path / "x.npy", "cannot be read")
    import io
    import zipfile

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**12, 4)}
    )
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", header.getvalue() + bytes(100))
    refuse(tmp_path / "x.npz", "claims 32000000000000 bytes")


def test_a_zip_bomb_is_refused(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros((10**6, 4)))
    monkeypatch.setattr("appgrad.data.files.spool.physical_memory", lambda: 10**7)
    refuse(tmp_path / "x.npz", "its arrays would take 0.0 GB; this machine has 0.0 GB")


@pytest.mark.parametrize("kind", [".npy", ".h5", ".csv"])
def test_minibatches_of_sorted_files_are_mixed(kind, rng, tmp_path, monkeypatch):
    """Rows sorted by a label: every minibatch holds rows of everywhere."""
    # Some 18 rows a run, 64 runs at a time: a twentieth of all rows.
    monkeypatch.setattr("appgrad.data.files.mapped.RUN_BYTES", 1024)
    n = 20000
    X = np.c_[np.arange(n) / n, rng.standard_normal((n, 3))]
    write(kind, tmp_path / f"x{kind}", X)
    with config_context(working_memory=0.1):
        views = open_views(tmp_path / f"x{kind}", f"{tmp_path / f'x{kind}'}::columns=1-3")
        means = []
        for batch in itertools.islice(views.batches(200, rng), 30):
            labels = np.concatenate([dense(block.views[0])[:, 0] for block in batch.blocks()])
            means.append(labels.mean())
            assert labels.std() > 0.2
    assert np.std(means) < 0.1
    order = views.order(np.random.default_rng(0))
    np.testing.assert_array_equal(np.sort(order), np.arange(n))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("solver", ["exact", "qr", "lobpcg", "als", "appgrad", "stochastic"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_solver_on_every_kind_of_file(solver, kind, tmp_path):
    p = planted(400, 4, 3, [0.9, 0.5], random_state=0)
    for name, m in (("x", np.round(p.X, 9)), ("y", np.round(p.y, 9))):
        write(kind, tmp_path / f"{name}{kind}", m)
    with config_context(working_memory=0.05 if solver != "exact" else 1024):
        views = open_views(tmp_path / f"x{kind}", tmp_path / f"y{kind}")
        most = {} if solver in ("exact", "qr") else {"max_iter": 200}
        found = CCA(2, solver=solver, random_state=0, **most).fit(views)
    best = CCA(2, solver="exact").fit(np.round(p.X, 9), np.round(p.y, 9)).canonical_correlations_
    np.testing.assert_allclose(
        found.canonical_correlations_, best, atol=0.05 if solver == "stochastic" else 1e-4
    )


def test_zarr_that_changes_is_noticed(rng, tmp_path):
    zarr = pytest.importorskip("zarr")
    write(".zarr", tmp_path / "x.zarr", rng.standard_normal((300, 5)))
    np.save(tmp_path / "y.npy", rng.standard_normal((300, 4)))
    views = open_views(tmp_path / "x.zarr", tmp_path / "y.npy")

    def change(progress):
        if progress.iteration == 2:
            store = zarr.open(tmp_path / "x.zarr", mode="r+")
            array = store if isinstance(store, zarr.Array) else next(iter(dict(store.members()).values()))
            array[:] = 0.0

    with pytest.raises(ValueError, match=r"x\.zarr has changed since it was opened"):
        CCA(2, solver="lobpcg", tol=0, max_iter=5, random_state=0, callback=change).fit(views)


def test_a_file_written_to_while_it_is_parsed(tmp_path, monkeypatch):
    import appgrad.data.files.text

    np.savetxt(tmp_path / "x.csv", np.eye(4), delimiter=",")
    real = np.loadtxt

    def slow(*args, **kwargs):
        os.utime(tmp_path / "x.csv", ns=(1, 1))
        return real(*args, **kwargs)

    monkeypatch.setattr(appgrad.data.files.text.np, "loadtxt", slow)
    with pytest.raises(ValueError, match="was written to while it was read"):
        open_views(tmp_path / "x.csv", tmp_path / "x.csv")


@pytest.mark.parametrize(
    ("name", "text"), [("x.csv", "a,b\n1,2\n\n3,4\n"), ("x.csv", '1\n""\n2\n'), ("x.svm", "1 1:2\n\n1 2:3\n")]
)
def test_empty_lines_would_shift_the_rows_that_follow(name, text, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=r"line [23] .*is empty: rows that follow"):
        open_views(tmp_path / name, tmp_path / name)
    (tmp_path / name).write_text(text.replace("\n\n", "\n").replace('""\n', "") + "\n\n")
    assert open_views(tmp_path / name, tmp_path / name).n_samples == 2


def test_a_csv_that_begins_with_an_empty_line(tmp_path):
    (tmp_path / "x.csv").write_text("\n1,2\n3,4\n")
    with pytest.raises(ValueError, match="its first line is empty"):
        open_views(tmp_path / "x.csv", tmp_path / "x.csv")


def test_parquet_parts_of_different_precision(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    values = [np.array([1.0, 2.0], np.float32), np.array([16777217.0, 1e300])]
    for i, part in enumerate(values):
        pq.write_table(pa.table({"a": part}), tmp_path / f"p{i}.parquet")
    views = open_views(tmp_path, tmp_path)
    assert views.x[2, 0] == 16777217.0
    assert views.x[3, 0] == 1e300


def test_columns_of_svmlight_that_a_file_does_not_have_are_zero(tmp_path):
    (tmp_path / "x.svm").write_text("1 1:2 3:1\n1 2:3\n")
    views = open_views(f"{tmp_path / 'x.svm'}::columns=1-2", f"{tmp_path / 'x.svm'}::columns=3-6")
    np.testing.assert_array_equal(views.y.toarray(), [[1, 0, 0, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize("index", [10**9 * 3, 10**25, 2 * 10**9])
def test_an_svmlight_index_that_cannot_be_meant(index, tmp_path):
    (tmp_path / "x.svm").write_text(f"1 1:2\n1 {index}:3\n")
    with pytest.raises(ValueError, match=r"line 2 of .*x\.svm is not|is an index wrong"):
        open_views(tmp_path / "x.svm", tmp_path / "x.svm")


def test_chosen_columns_of_svmlight_stay_on_disk(rng, tmp_path):
    lines = [f"1 {' '.join(f'{j}:{v:.6f}' for j, v in enumerate(row))}" for row in rng.random((2000, 8))]
    (tmp_path / "x.svm").write_text("\n".join(lines))
    with config_context(working_memory=0.05):
        views = open_views(f"{tmp_path / 'x.svm'}::columns=0-4", f"{tmp_path / 'x.svm'}::columns=5-7")
        assert isinstance(views.x.data, np.memmap)
        assert isinstance(views, StoredViews)
        order = views.order(rng)
        np.testing.assert_array_equal(np.sort(order), np.arange(2000))
        found = CCA(2, solver="lobpcg", random_state=0).fit(views)
    expected = CCA(2).fit(views.x.toarray(), views.y.toarray())
    np.testing.assert_allclose(found.canonical_correlations_, expected.canonical_correlations_, atol=1e-6)


def test_scattered_rows_are_read_a_few_at_a_time():
    asked = []

    def read(start, stop):
        asked.append(stop - start)
        return np.zeros((stop - start, 1000))

    rows = StoredRows((10**6, 1000), np.float64, read)
    assert rows[np.arange(0, 10**6, 250)].shape == (4000, 1000)
    assert max(asked) * 8000 <= 2**23
