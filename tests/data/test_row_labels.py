"""Frames whose rows have labels: indexes that differ are an error, wherever two views are given."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appgrad import CCA, KernelCCA, SparseCCA, SparseCCACV, plan, sparse_path
from appgrad.data.plain_labels import plain_label
from appgrad.data.row_labels import (
    labels_of,
    labels_of_file,
    labels_of_range,
    require_same_hashes,
    require_same_labels,
    together,
)

N = 40
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((N, 4)), RNG.standard_normal((N, 3))
ALIGN = r"y = y\.loc\[X\.index\]"

CALLS = {
    "fit": lambda x, y: CCA(1).fit(x, y),
    "kernel": lambda x, y: KernelCCA(1, ridge=1.0).fit(x, y),
    "sparse": lambda x, y: SparseCCA(1, n_nonzero=2).fit(x, y),
    "fit_transform": lambda x, y: CCA(1).fit_transform(x, y),
    "partial_fit": lambda x, y: CCA(1).partial_fit(x, y),
    "second partial_fit": lambda x, y: CCA(1).partial_fit(X, Y).partial_fit(x, y),
    "fit_stream": lambda x, y: CCA(1).fit_stream([(X, Y), (x, y)]),
    "score": lambda x, y: CCA(1).fit(X, Y).score(x, y),
    "transform": lambda x, y: CCA(1).fit(X, Y).transform(x, y),
    "sparse_path": lambda x, y: sparse_path(x, y, 1, n_nonzeros=[2]),
    "cross-validation": lambda x, y: SparseCCACV(n_nonzeros=[2], cv=2).fit(x, y),
    "plan": lambda x, y: plan(x, y, 1),
}


def frames(x_labels, y_labels):
    return pd.DataFrame(X[: len(x_labels)], index=x_labels), pd.DataFrame(Y[: len(y_labels)], index=y_labels)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.filterwarnings("ignore::appgrad.OverfitWarning")
def test_every_call_compares_rows(call):
    labels = [f"subject {i}" for i in range(N)]
    call(*frames(labels, labels))
    for other in (labels[::-1], [*labels[1:], "subject 99"]):
        with pytest.raises(ValueError, match=ALIGN):
            call(*frames(labels, other))
    # One of them only counts rows.
    call(*frames(labels, range(N)))
    call(*frames(range(N), labels[::-1]))


@pytest.mark.parametrize(
    ("x", "y", "text"),
    [
        (list("abcd"), list("abdc"), r"another order \(row 2 is 'c' in X, 'd' in y\)"),
        (list("abcd"), list("abce"), r"1 of 4 labels of X are not in y, 'd' for one; .*isin\(y\.index\)"),
        (list("abc"), list("abcd"), r"y has rows that X does not have \(4 and 3\)"),
        (list("abcd"), list("abc"), r"1 of 4 labels of X are not in y"),
        (list("abca"), list("aabc"), r"'a' occurs more than once in y"),
        ([5, 6, 7, 8], [6, 5, 7, 8], r"row 0 is 5 in X, 6 in y"),
        (range(10, 14), range(11, 15), r"1 of 4 labels"),
        (pd.date_range("2026", periods=4), pd.date_range("2026", periods=4)[::-1], r"another order"),
        (
            pd.MultiIndex.from_product([[1, 2], [3, 4]]),
            pd.MultiIndex.from_product([[2, 1], [3, 4]]),
            "another",
        ),
        (pd.MultiIndex.from_product([[1, 2], [3, 4]]), list("abcd"), r"levels: 2, that of y: 1"),
        ([1.5, np.nan, 2, 3], [np.nan, 1.5, 2, 3], r"row 0 is 1\.5 in X, nan in y"),
    ],
)
def test_errors_say_how_labels_differ(x, y, text):
    with pytest.raises(ValueError, match=text) as error:
        require_same_labels(*frames(x, y))
    assert "y.reset_index(drop=True)" in str(error.value)
    assert "y.loc[X.index]" in str(error.value) or "levels" in text


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (list("aabc"), list("aabc")),
        (pd.Index(list("abc"), dtype=object), pd.CategoricalIndex(list("abc"))),
        (pd.Index([5, 7]), pd.Index([5.0, 7.0])),
        (pd.date_range("2026", periods=3).as_unit("s"), pd.date_range("2026", periods=3).as_unit("ns")),
        ([np.nan, 2.5], [np.nan, 2.5]),
        (pd.Index([0, 1, 2]), list("abc")),
        (pd.Index([0, 1, 2], dtype="Int64"), list("abc")),
        (pd.MultiIndex.from_product([[1, 2], [3, 4]]), pd.MultiIndex.from_product([[1, 2], [3, 4]])),
        (pd.RangeIndex(0), pd.RangeIndex(0)),
    ],
)
def test_equal_labels_and_counts_pass(x, y):
    require_same_labels(*frames(x, y))
    require_same_hashes(*map(labels_of, frames(x, y)))


def test_advice_works():
    labels = pd.Index([f"s{i}" for i in range(N)])
    x = pd.DataFrame(X, index=labels)
    y = pd.DataFrame(Y, index=labels).sample(frac=1, random_state=0)
    model = CCA(1).fit(x, y.loc[x.index])
    np.testing.assert_allclose(model.canonical_correlations_, CCA(1).fit(X, Y).canonical_correlations_)
    with pytest.raises(ValueError, match=ALIGN):
        model.score(x, y[0])
    CCA(1).fit(x, y.reset_index(drop=True))
    # What has no labels is not compared.
    CCA(1).fit(x, pl.DataFrame(Y)).score(x, Y.tolist())


labels = st.one_of(
    st.integers(-3, 3), st.sampled_from(["a", "b", "c"]), st.floats(0, 2).map(lambda f: round(f, 1))
)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(labels, min_size=1, max_size=8),
    st.lists(labels, min_size=1, max_size=8),
    st.booleans(),
    st.lists(st.integers(0, 8), max_size=3),
    st.lists(st.integers(0, 8), max_size=3),
)
def test_chunks_are_compared_like_frames_in_memory(x, y, same, x_cuts, y_cuts):
    """Wherever chunks end, hashes of labels agree with the labels themselves."""
    y = list(x) if same else y
    x, y = (pd.DataFrame(index=pd.Index(part, dtype=object).infer_objects()) for part in (x, y))

    def in_chunks(frame, cuts):
        return together(
            [labels_of(frame.iloc[part]) for part in np.split(np.arange(len(frame)), sorted(cuts))]
        )

    def refuses(require, *both):
        try:
            require(*both)
        except ValueError:
            return True
        return False

    a, b = in_chunks(x, x_cuts), in_chunks(y, y_cuts)
    if not (a.restarts or b.restarts):
        assert refuses(require_same_hashes, a, b) == refuses(require_same_labels, x, y)


def test_counting_in_every_chunk_is_counting():
    parts = [labels_of(pd.DataFrame(index=range(size))) for size in (5, 3, 4)]
    other = labels_of(pd.DataFrame(index=list("abcdefghijkl")))
    require_same_hashes(together(parts), other)
    assert together([None, *parts]) is None
    with pytest.raises(ValueError, match=ALIGN):
        require_same_hashes(labels_of(pd.DataFrame(index=list("bacdefghijkl"))), other)


DASK_CALLS = {
    "fit": lambda x, y: CCA(1).fit(x, y),
    "score": lambda x, y: CCA(1).fit(X, Y).score(x, y),
    "partial_fit": lambda x, y: CCA(1).partial_fit(x, y),
    "sparse_path": lambda x, y: sparse_path(x, y, 1, n_nonzeros=[2]),
}


@pytest.mark.parametrize("call", DASK_CALLS.values(), ids=DASK_CALLS.keys())
@pytest.mark.filterwarnings("ignore:the rows of X and y are split", "ignore::appgrad.OverfitWarning")
def test_dask_frames_compare_rows(call):
    dd = pytest.importorskip("dask.dataframe")
    names = pd.Index([f"s{i:02}" for i in RNG.permutation(N)])
    x, y = frames(names, names)

    def lazy(frame, parts=3):
        return dd.from_pandas(frame, npartitions=parts, sort=False)

    call(lazy(x), lazy(y))
    call(lazy(x), lazy(y, 4))
    call(lazy(x), lazy(y.reset_index(drop=True)))
    call(lazy(x), dd.concat([lazy(part.reset_index(drop=True), 1) for part in (y[:15], y[15:])]))
    call(lazy(x), y)
    for other in (y.iloc[::-1], y.rename(index={names[3]: "s99"})):
        for both in ((lazy(x), lazy(other)), (lazy(x), lazy(other, 4)), (x, lazy(other)), (lazy(x), other)):
            with pytest.raises(ValueError, match=ALIGN):
                call(*both)


def test_dask_scores_compare_the_ends_that_are_known():
    dd = pytest.importorskip("dask.dataframe")
    names = pd.Index([f"s{i:02}" for i in range(N)])
    x, y = frames(names, names)
    model = CCA(1).fit(X, Y)

    def lazy(frame):
        return dd.from_pandas(frame, npartitions=3)

    model.transform(lazy(x), lazy(y))
    model.transform(lazy(x), lazy(y.reset_index(drop=True)))
    with pytest.raises(ValueError, match=ALIGN):
        model.transform(lazy(x[:30]), lazy(y[10:]))


@pytest.mark.parametrize(
    "numbers",
    [
        *(range(0), range(5), range(1, 9), range(9, 0, -1), range(-5, 5), range(0, 10, 3)),
        *(range(2**20, 2**21 + 9), range(10**18 - 2, 10**18 + 2), range(-(10**18) - 2, 3 - 10**18)),
    ],
)
def test_a_range_has_the_labels_of_its_numbers(numbers):
    assert labels_of_range(numbers) == labels_of_file([list(map(str, numbers))])


@given(st.lists(st.sampled_from(["0", "-0", "7", "-7", "07", "7.0", "a", "", "1" * 19, "٣"]), max_size=8))
def test_labels_in_pieces_are_those_of_all(texts):
    """Whole numbers are hashed in another way than text."""
    whole = labels_of_file([texts])
    assert labels_of_file([[text] for text in texts]) == whole
    assert (labels_of_file([texts[::-1]])[-2:] == whole[-2:]) == (
        [plain_label(text) for text in texts] == [plain_label(text) for text in texts[::-1]]
    )
