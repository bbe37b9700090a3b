"""Text files: headers, labels and empty lines, svmlight, and errors that name the line."""

import gzip
import os

import numpy as np
import pytest

from appgrad import open_views
from appgrad.data.files.readers import read_table
from helpers import refuse
from naive import dense


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


SEMICOLONS = "cells are separated by semicolons; expected commas"
COMMAS = "separated by semicolons and numbers have decimal commas, as R's write.csv2 writes; expected"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a;b\n1;2\n3;4\n", SEMICOLONS),
        ('"a";"b"\n1;2.5\n3;4\n', SEMICOLONS),
        ('"";"a";"b"\n"r1";1;2\n"r2";3;4\n', SEMICOLONS),
        ('"";"a";"b"\n"r1";1,5;2\n"r2";3;4,5\n', COMMAS),
        ('"a";"b, c"\n"r1";1;2\n"r2";3;-,5\n', COMMAS),
        ("1,5;2,5\n3,5;4,5\n", COMMAS),
    ],
)
def test_semicolons_and_decimal_commas(text, said, tmp_path):
    for name in ("x.csv", "x.tsv"):
        (tmp_path / name).write_text(text)
        for columns in ("", "::columns=numeric", "::columns=a", "::header=no"):
            refuse(f"{tmp_path / name}{columns}", said)


def test_semicolons_within_cells(tmp_path):
    path = tmp_path / "x.csv"
    for text in ("a;b,c\n1,2\n3,4\n", "a;b\n1\n2\n", '"a;b","c;d"\n1,2\n3,4\n'):
        path.write_text(text)
        assert read_table(str(path)).matrix.shape[0] == 2
    path.write_text("go,a\nx;y,1\nx;z,2\n")
    assert read_table(f"{path}::columns=a").matrix.shape == (2, 1)


def test_wrong_selections(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text('name,"height, cm"\nu,v\nw,x\n')
    refuse(f"{path}::columns=numeric", "no column holds numbers$")
    refuse(f"{path}::columns=age", 'there are name, "height, cm", and positions 0-1')
    refuse(f"{path}::column=TP53", r"there is no '::column='; did you mean '::columns=TP53'\?")
    refuse(f"{path}::heading=yes", r"did you mean '::header=yes'\?")
    refuse(f"{path}::TP53", "for columns use '::columns=TP53'")
    path.write_text(",a\nr1,1\nr2,2\n")
    refuse(f"{path}::columns=b", r"there are \(no name\), a, and positions 0-1")


def test_a_text_column_of_a_csv_file_can_be_left_out(tmp_path):
    (tmp_path / "x.csv").write_text("id,a,b\nu,1,2\nv,3,4\n")
    np.testing.assert_array_equal(read_table(f"{tmp_path / 'x.csv'}::columns=a,b").matrix, [[1, 2], [3, 4]])


def test_numbers_as_column_names(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("0,1,2\n0.5,2,3\n4,5,6\n")
    table = read_table(str(path))
    assert list(table.names) == ["0", "1", "2"]
    assert table.matrix.shape == (2, 3)
    path.write_text("2001,2002\n0.5,2\n4,5\n")
    with pytest.warns(UserWarning, match="was read as column names: it counts in equal steps"):
        assert read_table(str(path)).matrix.shape == (2, 2)
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


def test_a_first_row_with_a_missing_value_is_no_header(tmp_path):
    path = tmp_path / "x.csv"
    for missing in ("", "NA", "nan"):
        path.write_text(f"1,{missing},3\n4,5,6\n")
        if missing == "nan":
            assert read_table(str(path)).matrix.shape == (2, 3)
        else:
            refuse(path, f"'{missing}' in row 0, column 1 is not a number")


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


def test_a_file_written_to_while_it_is_parsed(tmp_path, monkeypatch):
    import appgrad.data.files.text

    np.savetxt(tmp_path / "x.csv", np.eye(4), delimiter=",")
    real = appgrad.data.files.text.Spool

    def slow(*args, **kwargs):
        os.utime(tmp_path / "x.csv", ns=(1, 1))
        return real(*args, **kwargs)

    monkeypatch.setattr(appgrad.data.files.text, "Spool", slow)
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


def test_columns_of_svmlight_that_a_file_does_not_have_are_zero(tmp_path):
    (tmp_path / "x.svm").write_text("1 1:2 3:1\n1 2:3\n")
    views = open_views(f"{tmp_path / 'x.svm'}::columns=1-2", f"{tmp_path / 'x.svm'}::columns=3-6")
    np.testing.assert_array_equal(views.y.toarray(), [[1, 0, 0, 0], [0, 0, 0, 0]])


@pytest.mark.parametrize("index", [10**9 * 3, 10**25, 2 * 10**9])
def test_an_svmlight_index_that_cannot_be_meant(index, tmp_path):
    (tmp_path / "x.svm").write_text(f"1 1:2\n1 {index}:3\n")
    with pytest.raises(ValueError, match=r"line 2 of .*x\.svm is not|is an index wrong"):
        open_views(tmp_path / "x.svm", tmp_path / "x.svm")
