"""The first line of text files: column names or a row, and rows that begin with names of their own."""

import csv
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appgrad import open_views
from appgrad.data.files.headers import head_of
from appgrad.data.files.readers import read_table
from helpers import refuse

RNG = np.random.default_rng


def read(text, path, options="", ending=".csv"):
    """What is read from a text, whatever is said about it."""
    import warnings

    file = path / f"x{ending}"
    file.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return read_table(f"{file}{options}")


def lines(rows, header=None, delimiter=","):
    """Rows as text, with their numbers as they are printed."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter)
    if header is not None:
        writer.writerow(header)
    writer.writerows([np.asarray(value).item() for value in row] for row in rows)
    return out.getvalue()


def write_table(m, names, labels, quote=True, delimiter=","):
    """As R's write.table(m, sep=",") writes it: the header has no cell for the row names."""
    mark = '"' if quote else ""
    text = delimiter.join(f"{mark}{name}{mark}" for name in names) + "\n"
    for label, row in zip(labels, m, strict=True):
        text += delimiter.join([f"{mark}{label}{mark}", *(repr(float(v)) for v in row)]) + "\n"
    return text


def is_header(rows):
    cells = [[str(np.asarray(value).item()) for value in row] for row in rows]
    return head_of(cells[0], cells[1:], False, None).header


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("quote", [True, False])
@pytest.mark.parametrize("names", [["height", "weight", "age"], ["2019", "2020", "2021"], ["a, b", "c", "d"]])
def test_row_names_of_r(seed, quote, names, tmp_path):
    """Columns by name and by position are those that the header names."""
    m = np.round(RNG(seed).standard_normal((20, 3)), 3)
    if not quote and "," in names[0]:
        pytest.skip("cannot be written")
    for labels in (range(1, 21), [f"row {i}, of R" if quote else f"r{i}" for i in range(20)]):
        text = write_table(m, names, labels, quote)
        table = read(text, tmp_path)
        assert list(table.names) == names
        np.testing.assert_array_equal(table.matrix, m)
        for j, name in enumerate(names):
            for asked in (f'"{name}"', j):
                chosen = read(text, tmp_path, f"::columns={asked}")
                np.testing.assert_array_equal(chosen.matrix[:, 0], m[:, j])
                assert list(chosen.names) == [name]
        np.testing.assert_array_equal(read(text, tmp_path, "::columns=numeric").matrix, m)


def test_row_names_are_said(tmp_path):
    (tmp_path / "x.csv").write_text('"a","b"\n"1",2,3\n"2",4,5\n')
    with pytest.warns(UserWarning, match=r"rows have one cell more: the first was taken as row labels"):
        read_table(str(tmp_path / "x.csv"))


def test_rows_that_end_with_a_delimiter_have_no_row_names(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2,\n3,4,\n")
    refuse(f"{tmp_path / 'x.csv'}::columns=a", "one cell more than the first line, an empty one at the end")


def test_a_short_first_row_is_no_header(tmp_path):
    (tmp_path / "x.csv").write_text("1.5,2\n3,4,5\n6,7,8\n")
    with pytest.raises(ValueError, match=r"line 2 has 3 cells, the first line has 2; .* add '::header=yes'"):
        read_table(str(tmp_path / "x.csv"))
    np.testing.assert_array_equal(
        read("1.5,2\n3,4,5\n6,7,8\n", tmp_path, "::header=yes").matrix, [[4, 5], [7, 8]]
    )


@given(
    names=st.lists(
        st.text("ab,\n\"' ;:", min_size=1, max_size=6).map(lambda t: "n" + t), min_size=1, max_size=4
    ),
    texts=st.lists(st.text('xy,\n" ', max_size=5).map(lambda t: "t" + t), min_size=2, max_size=6),
    delimiter=st.sampled_from([(".csv", ","), (".tsv", "\t")]),
)
@settings(max_examples=60, deadline=None)
def test_quoted_cells_with_breaks_and_delimiters(names, texts, delimiter, tmp_path_factory):
    """Any text that the csv module writes, in the header and in rows, first ones too."""
    folder, (ending, mark) = tmp_path_factory.mktemp("quoted"), delimiter
    names = [f"{name}{j}" for j, name in enumerate(names)]
    m = RNG(len(texts)).standard_normal((len(texts), len(names)))
    out = io.StringIO()
    writer = csv.writer(out, delimiter=mark)
    writer.writerow(["text", *names])
    writer.writerows([text, *row.tolist()] for text, row in zip(texts, m, strict=True))
    table = read(out.getvalue(), folder, "::columns=numeric", ending)
    assert list(table.names) == [name.strip() for name in names]
    np.testing.assert_array_equal(table.matrix, m)
    # The same rows without a header: none is lost.
    bare = out.getvalue()[len(_first_record(["text", *names], mark)) :]
    table = read(bare, folder, f"::header=no::columns=1-{len(names)}", ending)
    np.testing.assert_array_equal(table.matrix, m)


def _first_record(cells, delimiter):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter).writerow(cells)
    return out.getvalue()


@given(
    n=st.integers(2, 60),
    p=st.integers(1, 6),
    levels=st.integers(2, 4),
    seed=st.integers(0, 10**6),
    first=st.sampled_from(["any", "counting", "back"]),
)
@settings(max_examples=300, deadline=None)
def test_no_row_of_few_levels_is_lost(n, p, levels, seed, first):
    """One-hot, binary and ordinal rows without a header, also with a first row such as 0,1 or 0,1,2."""
    rows = RNG(seed).integers(0, levels, (n, p))
    if first != "any" and p <= levels:
        rows[0] = np.arange(p) if first == "counting" else np.arange(p)[::-1]
    # All levels occur below: otherwise the first row is different in kind.
    rows[1 : 1 + levels] = np.arange(levels)[: n - 1, None]
    if n > levels and not (p == levels == 4 and first != "any"):
        assert not is_header(rows)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("n", [2, 3, 10, 200])
def test_no_one_hot_row_is_lost(n, seed, tmp_path):
    label = RNG(seed).integers(0, 2, n)
    label[0] = 1
    rows = np.c_[1 - label, label]
    assert rows[0].tolist() == [0, 1]
    np.testing.assert_array_equal(read(lines(rows), tmp_path).matrix, rows)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", ["floats", "counts", "thousands", "mixed", "digits"])
@pytest.mark.parametrize("header", [[2019, 2020, 2021], [2021, 2020, 2019], [0, 1, 2, 3], [1, 2, 3, 4, 5]])
def test_whole_numbers_as_header(kind, header, seed, tmp_path):
    rng, shape = RNG(seed), (60, len(header))
    rows = {
        "floats": rng.standard_normal(shape),
        "counts": rng.integers(0, 90, shape),
        "thousands": rng.integers(0, 5000, shape),
        "mixed": [
            [float(v), *w]
            for v, w in zip(rng.random(60), rng.integers(0, 90, (60, shape[1] - 1)), strict=True)
        ],
        "digits": rng.integers(0, 10, shape),
    }[kind]
    text = lines(rows, header)
    table = read(text, tmp_path)
    assert list(table.names) == [str(name) for name in header]
    np.testing.assert_array_equal(table.matrix, np.asarray(rows, float))
    # The same rows without it keep all of them, and can be told to have a header.
    bare = read(lines(rows), tmp_path)
    assert bare.matrix.shape == shape
    assert read(lines(rows), tmp_path, "::header=yes").matrix.shape == (59, shape[1])
    assert read(text, tmp_path, "::header=no").matrix.shape == (61, shape[1])
    both = read(text, tmp_path, f"::header=yes::columns={header[1]}")
    np.testing.assert_array_equal(both.matrix[:, 0], np.asarray(rows, float)[:, 1])


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("p", [2, 3, 4])
def test_years_above_few_small_numbers(rows, p):
    """Whatever the numbers are: 1,2,3 and 4,5,6 go in equal steps too."""
    assert is_header([range(2019, 2019 + p), *np.arange(1, rows * p + 1).reshape(rows, p)])
    assert is_header([range(2019, 2019 + p), *RNG(p).integers(0, 2, (rows, p))])


@pytest.mark.parametrize("header", [[7, 30, 12], [2000, 2003], [101, 5]])
@pytest.mark.parametrize("n", [10, 300])
def test_any_whole_numbers_above_fractions(header, n):
    assert is_header([header, *RNG(n).standard_normal((n, len(header)))])
    assert not is_header([header, *RNG(n).integers(0, 10**4, (n, len(header)))])


@pytest.mark.parametrize(
    "header", [[1100, 1102, 1104, 1106, 1108], ["400.1", "400.3", "400.5", "400.7", "400.9"]]
)
def test_wavelengths_as_header(header):
    assert is_header([header, *RNG(0).random((30, 5))])
    assert is_header([header, *RNG(0).integers(0, 900, (30, 5))])


@given(seed=st.integers(0, 10**6), n=st.integers(2, 80), p=st.integers(1, 8), kind=st.sampled_from("fgntz"))
@settings(max_examples=200, deadline=None)
def test_rows_of_one_kind_have_no_header(seed, n, p, kind):
    """Rows that all count in steps, and fractions some of which are whole, as R writes them."""
    rng = RNG(seed)
    rows = {
        "f": rng.standard_normal((n, p)),
        "g": np.arange(n * p).reshape(n, p) + int(rng.integers(3000)),
        "t": np.outer(np.arange(1, n + 1), np.arange(1, p + 1)),
        "n": rng.integers(-500, 500, (n, p)) // (1 + rng.integers(0, 2, (n, 1)) * 499),
        "z": rng.permuted(np.tile(np.arange(p), (n, 1)), axis=1),
    }[kind]
    steps = np.diff(rows[0])
    # A row of many values that counts by chance is taken for a header, with a warning.
    if kind != "n" or not len(steps) or np.any(steps != steps[0]):
        assert not is_header(rows)


def test_quoted_numbers_above_others_are_a_header(tmp_path):
    table = read('"0","1"\n0,1\n1,0\n0,1\n', tmp_path)
    assert list(table.names) == ["0", "1"]
    assert read('"0","1"\n"0","1"\n"1","0"\n', tmp_path).matrix.shape == (3, 2)


def test_text_above_text_is_no_sign_of_a_header(tmp_path):
    np.testing.assert_array_equal(
        read("u,1,2\nv,3,4\nw,9,1\n", tmp_path, "::columns=numeric").matrix, [[1, 2], [3, 4], [9, 1]]
    )
    assert list(read("id,a\nv,3\nw,9\n", tmp_path, "::columns=numeric").names) == ["a"]


def test_a_header_is_yes_or_no_and_of_text(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    refuse(f"{tmp_path / 'x.csv'}::header=1", "neither '::header=yes' nor '::header=no'")
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    refuse(f"{tmp_path / 'x.npy'}::header=no", "'::header=' is for .csv and .tsv files")
    refuse(f"{tmp_path / 'x.csv'}::header=no::header=no", "one header too many")


@pytest.mark.parametrize("text", ['1,"2\n3,4\n', 'a,b\n1,2\n"3"4,5\n'])
def test_broken_quotes_are_named(text, tmp_path):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(
        ValueError, match=r"the record that begins in line [13] is broken .* check its quotes"
    ):
        read_table(f"{tmp_path / 'x.csv'}::columns=0")


def test_numbers_with_underscores_are_text(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n1_0,3\n")
    with pytest.raises(ValueError, match="'1_0' in row 1, column 0"):
        read_table(str(tmp_path / "x.csv"))


def test_decisions_are_kept_with_views_and_errors(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4\n5,7\n")
    (tmp_path / "y.csv").write_text("0.5,3\n2,1.5\n1.25,2\n")
    views = open_views(tmp_path / "x.csv", tmp_path / "y.csv")
    assert [note.split(": ", 1)[1] for note in views.notes] == [
        "the first line was read as column names: it has text above numbers",
        "the first line was read as a row: it holds numbers as the rows do",
    ]
    (tmp_path / "y.csv").write_text("0.5,3\n2,1.5\n")
    with pytest.raises(ValueError, match=r"has 2 rows, .* has 3") as caught:
        open_views(tmp_path / "x.csv", tmp_path / "y.csv")
    assert len(caught.value.__notes__) == 2


@pytest.mark.parametrize("quoted_row", [None, 1500, 3999])
@pytest.mark.parametrize("labels", [False, True])
def test_long_files_in_pieces(quoted_row, labels, tmp_path, monkeypatch):
    """Plain lines and quoted ones give the same numbers, wherever pieces end; errors name the line."""
    monkeypatch.setattr("appgrad.data.files.text.CELLS", 1000)
    m = RNG(0).standard_normal((4000, 3))
    lines_ = [
        ",".join(([f"r{i}"] if labels else []) + [repr(float(v)) for v in row]) for i, row in enumerate(m)
    ]
    if quoted_row is not None:
        lines_[quoted_row] = ",".join(f'"{cell}"' for cell in lines_[quoted_row].split(","))
    text = "a,b,c\n" + "\n".join(lines_)
    np.testing.assert_array_equal(read(text, tmp_path).matrix, m)
    np.testing.assert_array_equal(read(text + "\n\n\n", tmp_path, "::columns=c,a").matrix, m[:, [2, 0]])
    for bad, message in (
        ("\n", "line 3802 is empty"),
        ("1,2\n", r"line 3802 has 2 cells"),
        (lines_[0].replace(lines_[0].split(",")[-1], "oops") + "\n", r"'oops' in row 3800, column 2 \('c'\)"),
        (lines_[0].replace(lines_[0].split(",")[-1], "1_0") + "\n", r"'1_0' in row 3800, column 2"),
    ):
        broken = "a,b,c\n" + "\n".join(lines_[:3800]) + "\n" + bad + "\n".join(lines_[3800:])
        with pytest.raises(ValueError, match=message):
            read(broken, tmp_path)
