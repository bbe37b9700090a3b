"""Row labels of files: those of two views are compared, unless they only count rows."""

import re

import numpy as np
import pytest

from appgrad import open_views
from appgrad.data.cluster.files import opened_by
from appgrad.data.cluster.protocol import Here

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
