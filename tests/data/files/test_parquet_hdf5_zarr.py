"""Parquet, HDF5 and zarr: which rows and columns are read, and how many at a time."""

import numpy as np
import pytest

from appgrad import open_views
from appgrad.data.files.hdf5_zarr import StoredRows
from appgrad.data.files.readers import read_table
from helpers import refuse
from naive import dense


def test_text_column_of_a_parquet_file_is_named(tmp_path):
    import pandas as pd

    pd.DataFrame({"id": ["u", "v"], "a": [1.0, 2.0]}).to_parquet(tmp_path / "x.parquet")
    refuse(tmp_path / "x.parquet", "column 'id' is not numeric: leave it out")
    assert read_table(f"{tmp_path / 'x.parquet'}::columns=a").matrix.shape == (2, 1)


def test_row_labels_of_a_pandas_frame_are_left_out(rng, tmp_path):
    import pandas as pd

    frame = pd.DataFrame(rng.standard_normal((20, 2)), columns=["a", "b"]).sample(10, random_state=0)
    frame.to_parquet(tmp_path / "x.parquet")
    assert list(read_table(str(tmp_path / "x.parquet")).names) == ["a", "b"]
    pd.DataFrame(rng.standard_normal((5, 3))).to_csv(tmp_path / "x.csv")
    with pytest.warns(UserWarning, match="row labels"):
        assert list(read_table(str(tmp_path / "x.csv")).names) == ["0", "1", "2"]


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


def test_parquet_parts_of_different_precision(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    values = [np.array([1.0, 2.0], np.float32), np.array([16777217.0, 1e300])]
    for i, part in enumerate(values):
        pq.write_table(pa.table({"a": part}), tmp_path / f"p{i}.parquet")
    views = open_views(tmp_path, tmp_path)
    assert views.x[2, 0] == 16777217.0
    assert views.x[3, 0] == 1e300


def test_scattered_rows_are_read_a_few_at_a_time():
    asked = []

    def read(start, stop):
        asked.append(stop - start)
        return np.zeros((stop - start, 1000))

    rows = StoredRows((10**6, 1000), np.float64, read)
    assert rows[np.arange(0, 10**6, 250)].shape == (4000, 1000)
    assert max(asked) * 8000 <= 2**23
