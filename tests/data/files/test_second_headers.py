"""Columns of several levels as pandas writes them: a second line of names that are numbers is no row."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appgrad.data.files.headers import head_of
from appgrad.data.files.readers import read_table
from appgrad.data.files.second_headers import with_second_line

pd = pytest.importorskip("pandas")

N = 60
SAID = (
    r"cannot be read as \.csv: its second line \(.*\) looks like a second line of column names: remove it, "
)
COLUMNS = {
    "g": [("g", 1), ("g", 2)],
    "gh": [("g", 1), ("g", 2), ("h", 1)],
    "years": [("u", 2019), ("u", 2020), ("v", 2019), ("v", 2020)],
    "one": [("u", 5), ("v", 9)],
}


def frame(kind, columns):
    rng, shape = np.random.default_rng(0), (N, len(COLUMNS[columns]))
    values = {"fractions": rng.standard_normal(shape), "counts": rng.integers(0, 90, shape)}[kind]
    return pd.DataFrame(values, columns=pd.MultiIndex.from_tuples(COLUMNS[columns]))


def heard(path):
    """What is read, and whether a warning says that the second line may be a header."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        table = read_table(str(path))
    return table, any("the second line was read as a row: if it names" in str(w.message) for w in said)


@pytest.mark.parametrize("columns", ["g", "gh", "years"])
def test_a_second_line_above_fractions(columns, tmp_path):
    path = tmp_path / "x.csv"
    table = frame("fractions", columns)
    table.to_csv(path, index=False)
    with pytest.raises(ValueError, match=SAID):
        read_table(str(path))
    assert read_table(f"{path}::header=yes").matrix.shape[0] == N + 1
    # One line for both levels, or the first alone.
    table.set_axis([f"{a}_{b}" for a, b in table], axis=1).to_csv(path, index=False)
    assert heard(path)[0].matrix.shape[0] == N
    table.droplevel(1, axis=1).to_csv(path, index=False)
    found, doubt = heard(path)
    assert found.matrix.shape[0] == N
    assert not doubt


def test_a_second_line_above_counts(tmp_path):
    path = tmp_path / "x.csv"
    frame("counts", "years").to_csv(path, index=False)
    with pytest.raises(ValueError, match=SAID):
        read_table(str(path))
    for columns in ("g", "gh"):
        frame("counts", columns).to_csv(path, index=False)
        found, doubt = heard(path)
        assert found.matrix.shape[0] == N + 1
        assert doubt
    (tmp_path / "x.csv").write_text("a,a,b,b\n3,7,3,7\n7,3,3,7\n3,7,7,3\n3,7,7,7\n")
    assert heard(path)[1]


@pytest.mark.parametrize("kind", ["fractions", "counts"])
@pytest.mark.parametrize("columns", ["g", "gh", "years"])
@pytest.mark.parametrize("index", ["numbers", "named", "text", "levels"])
def test_a_second_line_with_row_labels(index, columns, kind, tmp_path):
    """It is the only one without a label; the names of an index have a line of their own."""
    table = frame(kind, columns)
    if index == "levels":
        table.index = pd.MultiIndex.from_product([range(3), range(20)])
    elif index != "numbers":
        table.index = pd.Index([f"s{i}" for i in range(N)], name="sample" if index == "named" else None)
    table.to_csv(tmp_path / "x.csv")
    with pytest.raises(ValueError, match=SAID):
        read_table(str(tmp_path / "x.csv"))


def test_different_names_above_numbers(tmp_path):
    """With row labels a second line can be told from a row, without them it cannot."""
    frame("fractions", "one").to_csv(tmp_path / "x.csv")
    with pytest.raises(ValueError, match=SAID):
        read_table(str(tmp_path / "x.csv"))
    frame("fractions", "one").to_csv(tmp_path / "x.csv", index=False)
    assert heard(tmp_path / "x.csv")[0].matrix.shape[0] == N + 1


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 60),
    names=st.lists(st.sampled_from("abc"), min_size=2, max_size=6),
    kind=st.sampled_from("fbc"),
)
@settings(max_examples=200, deadline=None)
def test_repeated_names_are_no_sign_alone(seed, n, names, kind):
    """Fractions, zeros and ones, and counts with a first row that goes in no steps are read as before."""
    rng, shape = np.random.default_rng(seed), (n, len(names))
    rows = {
        "f": rng.standard_normal(shape),
        "b": rng.integers(0, 2, shape),
        "c": rng.integers(0, 500, shape),
    }[kind]
    if kind == "c":
        rows[0] = 300 - 7 * np.arange(len(names)) ** 2
    elif kind == "b" and n > 3:
        rows[1:3] = rows[0]
    cells = [[str(value) for value in row] for row in rows.tolist()]
    head = head_of(names, cells, False, None)
    assert with_second_line(head, names, cells).header
