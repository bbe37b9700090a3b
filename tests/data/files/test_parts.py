"""Views in several files: their order, and files of two views that do not belong together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appgrad import CCA, open_views
from appgrad.data.files.listing import files_of
from appgrad.data.files.parts import PartFile, in_order, require_same_parts
from appgrad.data.files.readers import read_table
from helpers import quiet

pd = pytest.importorskip("pandas")

ANY = "'::parts=any'"


def write(path, m, kind=".parquet"):
    """A part of a view."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == ".parquet":
        pd.DataFrame(m, columns=[f"c{j}" for j in range(m.shape[1])]).to_parquet(path)
    else:
        path.write_text(
            "".join("0 " + " ".join(f"{j}:{v!r}" for j, v in enumerate(row.tolist())) + "\n" for row in m)
        )


def problem(n, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, 3))
    return X, X[:, :2] + 0.1


def write_parts(folder, names, m, kind=".parquet", sizes=None):
    cuts = None if sizes is None else np.cumsum(sizes)[:-1]
    for name, part in zip(names, np.array_split(m, len(names) if cuts is None else cuts), strict=True):
        write(folder / f"{name}{kind}", part, kind)


@pytest.mark.parametrize("kind", [".parquet", ".svm"])
@pytest.mark.parametrize(
    ("x", "y"),
    [("x-{}", "y-{:02}"), ("x{}", "y_{:05}-of-12"), ("v2/day={}/part-0", "v3/day={:03}/part-0")],
)
@pytest.mark.parametrize("count", [3, 12, 101])
def test_parts_are_in_natural_order(x, y, count, kind, tmp_path):
    """However numbers are written: parts 1, 2 ... 10, 11 meet those of the same number."""
    if kind == ".svm" and count > 12:
        pytest.skip("slow")
    X, Y = problem(count * 2)
    write_parts(tmp_path / "x", [x.format(i + 1) for i in range(count)], X, kind)
    write_parts(tmp_path / "y", [y.format(i + 1) for i in range(count)], Y, kind)
    views = open_views(tmp_path / "x", tmp_path / "y")
    found = quiet(CCA(2), views)
    np.testing.assert_allclose(found.canonical_correlations_, 1, atol=1e-6)
    np.testing.assert_allclose(np.asarray(views.blocks().__next__().views[0][:, :1].sum()), X[:, 0].sum())


@given(numbers=st.lists(st.integers(0, 10**6), unique=True, min_size=2, max_size=30), width=st.integers(0, 8))
@settings(max_examples=50, deadline=None)
def test_numbers_in_names_count_as_numbers(numbers, width):
    paths = [f"a/part-{n:0{width}}.parquet" for n in numbers]
    assert in_order(paths) == [f"a/part-{n:0{width}}.parquet" for n in sorted(numbers)]


@pytest.mark.parametrize(
    ("x", "y"),
    [(range(1, 4), range(2, 5)), ((1, 2, 3), (1, 2, 4)), ((1, 2, 3, 4), (1, 3, 4)), (range(3), range(1, 4))],
)
def test_parts_whose_numbers_differ_are_refused(x, y, tmp_path):
    for name, numbers in (("x", x), ("y", y)):
        for i in numbers:
            write(tmp_path / name / f"{name}-{i}.parquet", np.ones((5, 2)) * i)
    with pytest.raises(
        ValueError, match=r"y-\d\.parquet would be paired with .*x-\d\.parquet, and the numbers"
    ):
        open_views(tmp_path / "x", tmp_path / "y")
    if len(x) == len(y):
        assert open_views(f"{tmp_path / 'x'}::parts=any", tmp_path / "y").n_samples == 15


@given(sizes=st.lists(st.integers(1, 9), min_size=2, max_size=8), data=st.data())
@settings(max_examples=60, deadline=None)
def test_parts_of_other_lengths_are_refused(sizes, data):
    """Also where the total is the same."""
    other = data.draw(st.permutations(sizes))
    x, y = ([PartFile(f"{v}-{i}", rows) for i, rows in enumerate(s)] for v, s in (("x", sizes), ("y", other)))
    if sizes == other:
        require_same_parts(x, y)
        return
    first = next(i for i in range(len(sizes)) if sizes[i] != other[i])
    message = f"y-{first} has {other[first]} rows, x-{first} has {sizes[first]}: rows are paired file by file"
    with pytest.raises(ValueError, match=message):
        require_same_parts(x, y)


@pytest.mark.parametrize("kind", [".parquet", ".svm"])
def test_unequal_parts_in_files(kind, tmp_path):
    X, Y = problem(30)
    write_parts(tmp_path / "x", ["a-1", "a-2", "a-3"], X, kind, [10, 12, 8])
    write_parts(tmp_path / "y", ["b-1", "b-2", "b-3"], Y, kind, [10, 10, 10])
    with pytest.raises(ValueError, match=rf"b-2\{kind} has 10 rows, .*a-2\{kind} has 12: .*{ANY}"):
        open_views(tmp_path / "x", tmp_path / "y")
    views = open_views(f"{tmp_path / 'x'}::parts=any", tmp_path / "y")
    np.testing.assert_allclose(CCA(2).fit(views).canonical_correlations_, 1, atol=1e-6)


def test_a_part_too_many_is_named(tmp_path):
    for name, letters in (("x", "abc"), ("y", "ab")):
        for letter in letters:
            write(tmp_path / name / f"{letter}.parquet", np.ones((5, 2)))
    with pytest.raises(ValueError, match=r"x/c\.parquet has no file to be paired with: 3 files and 2"):
        open_views(tmp_path / "x", tmp_path / "y")


def test_made_up_names_and_columns_of_the_same_parts(tmp_path):
    """Names of Spark differ in what was made up; both views of one folder are the same files."""
    import uuid

    X, Y = problem(40)
    for name, m, seed in (("x", X, 0), ("y", Y, 9)):
        ids = [uuid.UUID(int=int(v)) for v in np.random.default_rng(seed).integers(1, 2**60, 4)]
        write_parts(tmp_path / name, [f"part-{i:05}-{made}-c000.snappy" for i, made in enumerate(ids)], m)
    np.testing.assert_allclose(
        CCA(2).fit(open_views(tmp_path / "x", tmp_path / "y")).canonical_correlations_, 1, atol=1e-6
    )
    assert open_views(f"{tmp_path / 'x'}::columns=0", f"{tmp_path / 'x'}::columns=1").n_samples == 40


def test_folders_of_hive(tmp_path):
    """Nested folders, patterns of folders, and what other programs leave behind."""
    X, _ = problem(60)
    days = [f"year=2026/month={m}/part-{i}" for m in (2, 11) for i in range(3)]
    write_parts(tmp_path / "x", days, X)
    write(tmp_path / "x" / "_temporary" / "part-0.parquet", X)
    write(tmp_path / "x" / "year=2026" / ".part-9.parquet", X)
    for source in ("x", "x/year=*", "x/year=2026/**/part-*.parquet", "x/*/month=*"):
        np.testing.assert_array_equal(read_table(str(tmp_path / source)).matrix, X)
    found, _ = files_of(str(tmp_path / "x" / "year=2026" / "month=11"))
    assert len(found) == 3
