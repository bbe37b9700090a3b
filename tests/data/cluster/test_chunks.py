"""Chunks of every kind: sparse, of frames, empty, misaligned, too large, and those that cannot be read."""

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad import CCA, open_views
from appgrad.data.sources import as_views
from dask_helpers import MARKS, chunked, da, dask, difference, frames, parts
from helpers import fitted

pytestmark = MARKS


@pytest.mark.parametrize("format", [sp.csr_array, sp.csr_matrix, sp.csc_array, np.asarray])
def test_chunks_may_be_sparse(client, problem, format):
    X, Y = (np.where(np.abs(m) < 0.5, 0, m) for m in problem)
    x, y = (m.map_blocks(format, dtype=float) for m in chunked(X, Y))
    there = fitted(x, y, solver="lobpcg", tol=1e-9)
    assert difference(fitted(sp.csr_array(X), sp.csr_array(Y), solver="lobpcg", tol=1e-9), there) < 1e-9


def test_data_frames_have_names_and_unknown_lengths(client, problem):
    x, y = frames(*problem)
    model = fitted(x, y)
    assert difference(model, fitted(*problem)) < 1e-10
    assert list(model.feature_names_in_[:2]) == ["x0", "x1"]
    with pytest.raises(ValueError, match="other feature names"):
        model.transform(x.rename(columns={"x0": "other"}))


def test_a_frame_with_an_array_and_an_array_in_memory(client, problem):
    x, _ = frames(*problem)
    for y in (problem[1], chunked(*problem, 120)[1]):
        assert difference(fitted(x, y), fitted(*problem)) < 1e-10


def test_persisted_data_and_what_is_made_of_them(client, problem):
    x, y = (m.persist() for m in chunked(*problem))
    assert difference(fitted(x, y), fitted(*problem)) < 1e-10
    assert (
        difference(fitted(x * 2 - x.mean(axis=0), y), fitted(2 * problem[0] - problem[0].mean(0), problem[1]))
        < 1e-10
    )


def test_misaligned_chunks_are_rechunked_with_a_warning(client, problem):
    x, y = da.from_array(problem[0], chunks=(70, -1)), da.from_array(problem[1], chunks=(41, -1))
    with pytest.warns(UserWarning, match=r"split at different places, into 9 and 15 chunks: rechunked"):
        assert difference(CCA(3).fit(x, y), CCA(3).fit(*problem)) < 1e-10


def test_split_columns_are_rechunked_with_a_warning(client, problem):
    x, y = da.from_array(problem[0], chunks=(70, 5)), da.from_array(problem[1], chunks=(70, -1))
    with pytest.warns(UserWarning, match=r"columns of X are split into 3 chunks: rechunked"):
        model = CCA(3).fit(x, y)
    assert difference(model, CCA(3).fit(*problem)) < 1e-10
    np.testing.assert_allclose(model.transform(x).compute(), model.transform(problem[0]))


def test_shuffled_data_are_computed_first(client, problem):
    x, y = frames(*problem)
    both = x.join(y).shuffle(on="x0")
    names = [list(m.columns) for m in (x, y)]
    model = fitted(both[names[0]], both[names[1]])
    assert difference(model, fitted(*problem)) < 1e-10


def test_empty_partitions(client, problem):
    x, y = frames(*problem, npartitions=6)
    x, y = (frame.map_partitions(lambda part: part[part.index < 150]) for frame in (x, y))
    model = fitted(x, y)
    assert difference(model, fitted(problem[0][:150], problem[1][:150])) < 1e-10
    assert model.transform(x).compute().shape == (150, 3)


def test_a_series_is_one_column(client, problem):
    x, y = frames(*problem)
    assert difference(CCA(1).fit(x, y["y0"]), CCA(1).fit(problem[0], problem[1][:, 0])) < 1e-10


def test_futures_within_tasks(client, problem):
    parts = [client.submit(np.array, problem[0][100 * i : 100 * i + 100]) for i in range(6)]
    x = da.concatenate(
        [da.from_delayed(dask.delayed(np.negative)(part), (100, 12), dtype=float) for part in parts]
    )
    assert difference(fitted(x, chunked(*problem, 100)[1]), fitted(-problem[0], problem[1])) < 1e-10


def test_a_chunk_that_raises_is_named(client, streamed, problem):
    def broken(block, block_info=None):
        if block_info[0]["chunk-location"][0] == 3:
            raise KeyError("corrupt")
        return block

    x, y = chunked(*problem)
    x = x.map_blocks(broken, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(ValueError, match=r"chunk 3 of X cannot be read: 'corrupt'"):
        CCA(2).fit(x, y)


def damage(path):
    with open(path, "r+b") as file:
        file.seek(4)
        file.write(b"garbage" * 300)


def test_a_corrupt_part_is_named(client, problem, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    source = parts(tmp_path, problem)
    damage(tmp_path / "part-2.parquet")
    with pytest.raises(ValueError, match=r"part-2\.parquet"):
        CCA(1).fit(open_views(f"{source}::columns=0-11", f"{source}::columns=12-20", client=client))
    both = dd.read_parquet(source)
    with pytest.raises(ValueError, match=r"part-2\.parquet"):
        CCA(1).fit(both[["c0", "c1"]], both[["c12", "c13"]])


def test_chunks_too_large_for_a_worker_are_refused_with_a_size_that_fits(client, problem, monkeypatch):
    small = [worker._replace(memory=2e4) for worker in as_views(*chunked(*problem)).cluster.workers]
    monkeypatch.setattr("appgrad.data.cluster.dask.DaskCluster._workers", lambda self: small)
    with pytest.raises(MemoryError, match=r"X\.rechunk\(\((\d+), -1\)\)") as caught:
        CCA(1).fit(*chunked(*problem, 100))
    rows = int(str(caught.value).split("X.rechunk((")[1].split(",")[0])
    assert difference(fitted(*chunked(*problem, rows)), fitted(*problem)) < 1e-10


def test_nan_is_named_by_row_and_column(client, problem):
    X = problem[0].copy()
    X[333, 4] = np.nan
    with pytest.raises(ValueError, match=r"column 4 of X contains NaN, first in row 333"):
        CCA(1).fit(*chunked(X, problem[1]))


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda x, y: (x, y[:500]), ValueError, "y has 500 rows, X has 600"),
        (lambda x, y: (x[:1], y[:1]), ValueError, "at least 2"),
        (lambda x, y: (x[:, :, None], y), ValueError, "3 dimensions"),
        (lambda x, y: (x.astype(complex), y), TypeError, "real numbers"),
        (lambda x, y: (dask.delayed(np.ones)(3), y), TypeError, "Dask array or a Dask data frame"),
    ],
)
def test_wrong_input(client, problem, make, error, match):
    with pytest.raises(error, match=match):
        CCA(1).fit(*make(*chunked(*problem)))


def test_chunks_of_other_widths(client, problem):
    x = da.concatenate(
        [da.from_delayed(dask.delayed(np.ones)((9, p)), (np.nan, 3), dtype=float) for p in (3, 4)]
    )
    with pytest.raises(ValueError, match=r"chunks of X have \[3, 4\] columns"):
        CCA(1).fit(x, da.from_array(problem[1][:18], chunks=9))
