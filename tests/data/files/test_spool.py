"""Text that does not fit into memory: kept on disk only while it is used."""

import numpy as np
import pytest
from sklearn import config_context

from appgrad import CCA, open_views
from appgrad.data.files.mapped import StoredViews
from appgrad.data.files.readers import read_table
from helpers import KINDS, refuse, write
from naive import dense


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
