"""Row labels of files: those of two views are compared, unless they only count rows."""

import re

import numpy as np
import pytest

from appgrad import open_views
from appgrad.data.cluster.files import opened_by
from appgrad.data.cluster.protocol import Here
from appgrad.data.files.file_labels import row_labels
from appgrad.data.files.readers import read_table
from appgrad.data.files.selection import Selection

pd = pytest.importorskip("pandas")

N = 2500  # more rows than are looked at to find a header


@pytest.fixture
def frames(rng):
    ids = [f"s{i:04}" for i in rng.permutation(N)]
    x = pd.DataFrame(rng.standard_normal((N, 3)), index=ids, columns=list("abc"))
    return x, pd.DataFrame(rng.standard_normal((N, 2)), index=ids, columns=list("de"))


def write(frame, path):
    """A frame as a file: as pandas writes it, or with a shorter header and quotes as R does."""
    if path.name.endswith("R.csv"):
        lines = [
            f'"{label}",' + ",".join(map(str, row))
            for label, row in zip(frame.index, frame.to_numpy(), strict=True)
        ]
        path.write_text("\n".join([",".join(f'"{name}"' for name in frame.columns), *lines]))
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    elif path.suffix:
        frame.to_csv(path, sep="\t" if ".tsv" in path.name else ",")
    else:
        path.mkdir()
        for i, start in enumerate(range(0, len(frame), 1000)):
            frame[start : start + 1000].to_parquet(path / f"part-{i}.parquet")
    return str(path)


def here(x, y):
    """As a cluster of one worker opens them, without its warnings."""
    return opened_by(Here(), x, y)


KINDS = [".csv", "R.csv", ".tsv.gz", ".parquet", ""]
QUIET = pytest.mark.filterwarnings("ignore:.*taken as row labels")


@QUIET
@pytest.mark.parametrize("opened", [open_views, here])
@pytest.mark.parametrize("kinds", [*zip(KINDS, KINDS, strict=True), (".csv", ""), (".parquet", "R.csv")])
def test_labels_that_differ(kinds, opened, frames, tmp_path):
    x, y = frames
    source = write(x, tmp_path / f"x{kinds[0]}")
    assert opened(source, write(y, tmp_path / f"same{kinds[1]}")).n_samples == N
    moved = y.iloc[[*range(2000), *range(2400, N), *range(2000, 2400)]]
    other = write(moved, tmp_path / f"moved{kinds[1]}")
    place = "row 2000" if kinds[0] else r"row 0 of \S*part-2\.parquet \(row 2000 of all files\)"
    said = rf"rows of {re.escape(source)} and {re.escape(other)} have different labels: they are in "
    said += rf"another order \({place} is '{x.index[2000]}' in \S*, '{x.index[2400]}' in "
    with pytest.raises(ValueError, match=said):
        opened(source, other)
    assert opened(f"{source}::row-labels=any", other).n_samples == N
    assert opened(source, f"{other}::row-labels=any").n_samples == N
    renamed = write(y.rename(index={x.index[7]: "new"}), tmp_path / f"renamed{kinds[1]}")
    with pytest.raises(
        ValueError, match=rf"1 of {N} labels of \S* are not in \S*, '{x.index[7]}' for one; keep"
    ):
        opened(source, renamed)


@QUIET
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("first", [0, 1])
def test_labels_that_count_rows_are_not_compared(kind, first, frames, tmp_path):
    x, y = frames
    y.index = pd.Index(np.arange(first, N + first)).astype(object)
    for opened in (open_views, here):
        views = opened(
            write(x, tmp_path / f"x{opened.__name__}{kind}"), write(y, tmp_path / f"y{opened.__name__}{kind}")
        )
        assert views.n_samples == N


@QUIET
def test_a_selection_of_rows_does_not_count_them(frames, tmp_path):
    """Numbers that are labels: those of rows that were kept by two filters."""
    x, y = (frame.reset_index(drop=True) for frame in frames)
    source = write(x[x.index % 7 > 0], tmp_path / "x.csv")
    assert open_views(source, write(y[y.index % 7 > 0], tmp_path / "y.csv")).n_samples > 2000
    with pytest.raises(ValueError, match=r"labels of .*x\.csv are not in .*z\.csv, '3' for one"):
        open_views(source, write(y[y.index % 7 != 3], tmp_path / "z.csv"))


@QUIET
def test_files_in_each_of_which_labels_count(frames, tmp_path):
    """As a writer that resets the index of every part leaves them."""
    x, y = frames
    y.index = pd.Index([i % 1000 for i in range(N)]).astype(object)
    assert open_views(write(x, tmp_path / "x"), write(y, tmp_path / "y")).n_samples == N


@QUIET
@pytest.mark.parametrize("opened", [open_views, here])
@pytest.mark.parametrize("other", [".parquet", "plain.parquet", ".csv", ""])
def test_a_range_of_numbers_is_labels(other, opened, frames, tmp_path):
    """pandas stores it beside the columns, and not as one; some rows of a table have such an index."""
    x, y = (frame.reset_index(drop=True) for frame in frames)
    for i, rows in enumerate((slice(100, None), slice(None, None, 2), slice(None, None, -1))):
        source = write(x[rows], tmp_path / f"x{i}.parquet")
        assert isinstance(pd.read_parquet(source).index, pd.RangeIndex)
        chosen = y[rows]
        if other == "plain.parquet":
            chosen.index = pd.Index(list(chosen.index))
        assert opened(source, write(chosen, tmp_path / f"same{i}{other}")).n_samples == len(chosen)
        moved = chosen.iloc[[1, 0, *range(2, len(chosen))]] if i == 2 else chosen[::-1]
        first, others = x[rows].index[0], moved.index[0]
        with pytest.raises(
            ValueError, match=rf"in another order \(row 0 is '{first}' in \S*, '{others}' in "
        ):
            opened(source, write(moved, tmp_path / f"moved{i}{other}"))
    with pytest.raises(ValueError, match=r"100 of 2500 labels of \S* are not in \S*, '99' for one"):
        opened(write(x[::-1], tmp_path / "all.parquet"), str(tmp_path / f"same0{other}"))


@QUIET
@pytest.mark.parametrize("opened", [open_views, here])
def test_ranges_that_count_rows_are_not_compared(opened, frames, tmp_path):
    """From 0 or 1, in all or in every file of a folder; nor is a range of rows that have changed since."""
    import pyarrow.parquet as pq

    x, named = frames
    source = write(named, tmp_path / "named.parquet")
    for first in (0, 1):
        x.index = pd.RangeIndex(first, N + first)
        assert opened(write(x, tmp_path / f"one{first}.parquet"), source).n_samples == N
        assert opened(write(x, tmp_path / f"many{first}"), source).n_samples == N
        (tmp_path / f"each{first}").mkdir()
        for i, start in enumerate(range(0, N, 1000)):
            part = x[start : start + 1000]
            part = part.set_axis(pd.RangeIndex(first, len(part) + first))
            part.to_parquet(tmp_path / f"each{first}" / f"{i}.parquet")
        assert opened(str(tmp_path / f"each{first}"), source).n_samples == N
    x.index = pd.RangeIndex(7, N + 7)
    pq.write_table(pq.read_table(write(x, tmp_path / "x.parquet")).slice(5), tmp_path / "cut.parquet")
    assert opened(str(tmp_path / "cut.parquet"), write(named[5:], tmp_path / "y.parquet")).n_samples == N - 5


@QUIET
def test_a_folder_of_ranges_with_a_gap(frames, tmp_path):
    """Its labels are those of all files, as if they were one."""
    x, y = (frame.reset_index(drop=True).drop(index=range(1000, 2000)) for frame in frames)
    (tmp_path / "x").mkdir()
    for i, part in enumerate((x[:1000], x[1000:])):
        part.set_axis(pd.RangeIndex(2000 * i, 2000 * i + len(part))).to_parquet(tmp_path / f"x/{i}.parquet")
    assert open_views(tmp_path / "x", write(y, tmp_path / "y.csv")).n_samples == N - 1000
    with pytest.raises(ValueError, match=r"'0' in \S*x, '2499' in \S*z\.csv"):
        open_views(tmp_path / "x", write(y[::-1], tmp_path / "z.csv"))


TIMES = {
    "days": pd.date_range("1900-01-01", periods=N),
    "hours": pd.date_range("2024-10-20", periods=N, freq="h"),
    "fractions": pd.date_range("2024-10-20", periods=N, freq="500us"),
    "nanoseconds": pd.date_range("2024-10-20", periods=N, freq="50ns"),
    "zone": pd.date_range("2023-12-31", periods=N, tz="Europe/Berlin"),
    "clock set back": pd.date_range("2024-10-26 22:00", periods=N, freq="30min", tz="Europe/Berlin"),
    "fractions in a zone": pd.date_range("2024-03-30", periods=N, freq="50ms", tz="America/St_Johns"),
    "before zones": pd.date_range("1893-03-01", periods=N, freq="h", tz="Europe/Berlin"),
    "UTC": pd.date_range("2024-03-30", periods=N, freq="7h", tz="UTC"),
    "durations": pd.timedelta_range("-3 days", periods=N, freq="1h"),
    "fractions of durations": pd.timedelta_range("-1s", periods=N, freq="10ms"),
}


@QUIET
@pytest.mark.parametrize("name", TIMES)
def test_times_are_the_same_in_all_files(name, frames, tmp_path):
    x, y = (frame.set_axis(TIMES[name][::-1]) for frame in frames)
    for kinds in ((".csv", ".parquet"), (".parquet", ".csv"), ("", ".csv")):
        first, second = (tmp_path / f"{view}{kinds[i]}" for i, view in enumerate("xy"))
        assert open_views(write(x, first), write(y, second)).n_samples == N
        moved = write(y.iloc[[1, 0, *range(2, N)]], tmp_path / f"moved{kinds[1]}")
        with pytest.raises(ValueError, match=r"another order \(row 0 ") as caught:
            open_views(first, moved)
        if "fractions" not in name and name != "nanoseconds":
            # As they are written, not as they are compared.
            shown = [line.split(",")[0] for line in y.to_csv().splitlines()[1:3]]
            assert f" is '{shown[0]}' in {first}, '{shown[1]}' in " in str(caught.value)


@QUIET
def test_a_time_is_the_same_in_every_zone(frames, tmp_path):
    times = TIMES["clock set back"]
    x, y = frames[0].set_axis(times), frames[1].set_axis(times.tz_convert("Asia/Kolkata"))
    for kind in (".csv", ".parquet"):
        assert open_views(write(x, tmp_path / "x.csv"), write(y, tmp_path / f"y{kind}")).n_samples == N
    with pytest.raises(ValueError, match="have different labels"):
        open_views(tmp_path / "x.csv", write(y.tz_localize(None), tmp_path / "naive.csv"))


@pytest.mark.parametrize(
    "name", ["days", "hours", "zone", "clock set back", "before zones", "UTC", "durations"]
)
def test_times_of_parquet_as_pandas_writes_them(name, frames, tmp_path):
    frame = frames[0].set_axis(TIMES[name])
    (found,) = row_labels(Selection.of(write(frame, tmp_path / "x.parquet")))
    expected = [line.split(",")[0] for line in frame.to_csv().splitlines()[1:]]
    assert found == expected


@QUIET
def test_equal_labels_of_other_types(frames, tmp_path):
    """Whole numbers as floats, and days as times."""
    x, y = frames
    numbers, days = np.arange(N)[::-1] * 3, pd.date_range("2026-01-01", periods=N)
    for i, (one, other) in enumerate([(numbers, numbers.astype(float)), (days, days.astype(str))]):
        x.index, y.index = one, other
        for first in (".csv", ".parquet"):
            for second in (".csv", ".parquet"):
                source = write(x, tmp_path / f"x{i}{first}")
                assert open_views(source, write(y, tmp_path / f"y{i}{second}")).n_samples == N


@QUIET
def test_chosen_columns_keep_their_labels(frames, tmp_path):
    x, y = frames
    sources = write(x, tmp_path / "x.csv"), write(y[::-1], tmp_path / "y.csv")
    for columns in ("d", "1-2", "numeric"):
        with pytest.raises(ValueError, match="have different labels: they are in another order"):
            open_views(sources[0], f"{sources[1]}::columns={columns}")


def test_a_first_column_that_is_used_holds_no_labels(frames, tmp_path):
    x, y = (frame.set_axis(np.arange(N)[::-1] * 2) for frame in frames)
    sources = write(x, tmp_path / "x.csv"), write(y[::-1], tmp_path / "y.csv")
    assert open_views(f"{sources[0]}::columns=0-2", f"{sources[1]}::columns=0").n_samples == N


@QUIET
def test_labels_that_occur_twice_or_are_more(frames, tmp_path):
    x, y = frames
    source = write(x, tmp_path / "x.csv")
    y.index = [x.index[1], *x.index[1:]]
    with pytest.raises(ValueError, match=rf"'{x.index[1]}' occurs more than once in .*y\.csv, so that"):
        open_views(source, write(y, tmp_path / "y.csv"))
    y.index = x.index
    more = pd.concat([y, y[:1].set_axis(["more"])])
    with pytest.raises(ValueError, match=r"z\.csv has rows that .*x\.csv does not have \(2501 and 2500\)"):
        open_views(source, write(more, tmp_path / "z.csv"))


def test_an_option_that_is_not_any(tmp_path):
    with pytest.raises(ValueError, match=r"'::row-labels=' can only be '::row-labels=any'"):
        open_views(f"{tmp_path}/x.csv::row-labels=no", "y.csv")


LEVELS = {
    "text": [[f"p{i:02}" for i in range(50)], [f"v{i}" for i in range(50)]],
    "numbers": [range(7, 57), np.arange(50) / 2],
    "text and numbers": [[f"p, {i:02}" for i in range(50)], range(50)],
    "three": [range(2), ["a", "b"], pd.date_range("2024-01-01", periods=625, tz="Europe/Berlin")],
}


@QUIET
@pytest.mark.parametrize("columns", ["names", "years"])
@pytest.mark.parametrize("levels", LEVELS)
def test_levels_without_names_are_labels(levels, columns, frames, tmp_path):
    """As pandas writes an index of several levels: `,,p,q`."""
    index = pd.MultiIndex.from_product(LEVELS[levels])
    x, y = (frame.set_axis(index) for frame in frames)
    if columns == "years":
        x.columns, y.columns = (map(str, range(2019, 2019 + frame.shape[1])) for frame in (x, y))
    for kind in (".csv", ".tsv.gz"):
        table = read_table(write(x, tmp_path / f"x{kind}"))
        np.testing.assert_allclose(table.matrix, x)
        assert list(table.names) == list(x.columns)
        said = f"the first {index.nlevels} columns have no name: taken as row labels and left out"
        assert said in table.note.text
        for other in (kind, ".parquet", ""):
            source = str(tmp_path / f"x{kind}")
            assert open_views(source, write(y, tmp_path / f"y{kind}{other}")).n_samples == N
            with pytest.raises(ValueError, match="different labels: they are in another order"):
                open_views(source, write(y[::-1], tmp_path / f"z{kind}{other}"))


@QUIET
def test_levels_that_are_chosen_are_columns(frames, tmp_path):
    index = pd.MultiIndex.from_product(LEVELS["numbers"])
    source = write(frames[0].set_axis(index), tmp_path / "x.csv")
    levels = np.array(list(index))
    np.testing.assert_array_equal(read_table(f"{source}::columns=0-1").matrix, levels)
    np.testing.assert_array_equal(read_table(f"{source}::columns=1,2").matrix[:, 0], levels[:, 1])
    assert list(read_table(f"{source}::columns=numeric").names) == list("abc")
    assert read_table(f"{source}::columns=a").labels is not None
