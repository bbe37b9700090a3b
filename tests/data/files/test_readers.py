"""Tables of every kind: reading, choice of columns, fits, and one-line errors for wrong files."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context

from appgrad import CCA, open_views
from appgrad.data.cluster.files import opened_by
from appgrad.data.cluster.protocol import Here
from appgrad.data.files.readers import read_table
from appgrad.datasets import planted
from helpers import KINDS, refuse, write
from naive import dense


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


def test_bad_selections(X, tmp_path):
    write(".csv", tmp_path / "x.csv", X)
    refuse(f"{tmp_path / 'x.csv'}::columns=zz", r"no column 'zz'; there are c0, c1, .* positions 0-3")
    refuse(f"{tmp_path / 'x.csv'}::columns=0-9", "there are columns 0-3")
    for odd in ("3-1", "0,3-1", "0-9999999999"):
        refuse(f"{tmp_path / 'x.csv'}::columns={odd}", "there are columns 0-3")
    refuse(f"{tmp_path / 'x.csv'}::columns=", "no column is chosen")
    for odd in ("²", "0-²", "²-3"):
        refuse(f"{tmp_path / 'x.csv'}::columns={odd}", f"there is no column '{odd}'; there are c0")
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


def test_a_double_quote_that_is_not_closed(tmp_path):
    (tmp_path / "x.csv").write_text('a,"b,c",5" pipe\n1,2,3\n4,5,7\n')
    for odd in ('"a', 'a,"b,c', '"', '"a::header=yes'):
        refuse(f"{tmp_path / 'x.csv'}::columns={odd}", r"x\.csv::.*: a double quote in .* is not closed")
    # A quote within a name opens nothing.
    assert list(read_table(f'{tmp_path / "x.csv"}::columns=5" pipe,"a" ').names) == ['5" pipe', "a"]


def test_a_renamed_file_of_numpy(X, tmp_path):
    np.savez(tmp_path / "x.npz", a=X, b=X)
    np.savez(tmp_path / "one.npz", a=X)
    np.save(tmp_path / "z.npy", X)
    for old, new in (("x.npz", "y.npy"), ("one.npz", "y1.npy"), ("z.npy", "z.npz")):
        (tmp_path / old).rename(tmp_path / new)
    for name in ("y.npy", "y1.npy"):
        said = rf"{name} cannot be read as \.npy: it is an archive of arrays: rename it to \.npz"
        refuse(tmp_path / name, said)
        with pytest.raises(ValueError, match=said):
            opened_by(Here(), str(tmp_path / name), str(tmp_path / name))
    refuse(tmp_path / "z.npz", "it holds a single array: rename it to .npy")


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


def test_columns_of_an_array_of_an_npz(X, tmp_path):
    np.savez(tmp_path / "x.npz", a=X, b=X)
    np.testing.assert_array_equal(read_table(f"{tmp_path / 'x.npz'}::a::columns=1-2").matrix, X[:, 1:3])


def test_duplicate_entries_of_a_sparse_file_are_summed(rng, tmp_path):
    indptr = np.r_[0, 2, 2 + np.arange(59)]
    X = sp.csr_array((rng.standard_normal(60) + 9, np.zeros(60, int), indptr), shape=(60, 40))
    sp.save_npz(tmp_path / "x.npz", X)
    assert read_table(str(tmp_path / "x.npz")).matrix.has_canonical_format


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
    monkeypatch.setattr("appgrad.data.files.npz.physical_memory", lambda: 10**7)
    refuse(tmp_path / "x.npz", "its arrays would take 0.0 GB; this machine has 0.0 GB")


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
