"""Rows that come in batches: the same result as all rows at once, or a good one in little memory."""

import pickle
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from appgrad import CCA, OverfitWarning, load
from appgrad.data.arrays import ArrayViews
from appgrad.datasets import planted
from appgrad.fitting import archive
from helpers import assert_same, pairs, sparse_counts


@pytest.fixture(scope="module")
def data():
    p = planted(600, 9, 7, [0.9, 0.7, 0.5], condition=100, random_state=0)
    return p.X + 1e3, p.y


def streamed(X, Y, parts, **params):
    model = CCA(3, **params)
    for rows in parts:
        model.partial_fit(X[rows], Y[rows])
    return model


@pytest.mark.parametrize("params", [{}, {"ridge": 0.1}, {"scale": True, "ridge": 0.1}, {"center": False}])
@pytest.mark.parametrize("count", [1, 2, 13, 600])
def test_any_split_and_order_is_fit(count, params, data, rng):
    X, Y = data
    if "center" in params:
        X = X - 1e3
    model = streamed(X, Y, np.array_split(rng.permutation(600), count), **params)
    assert_same(model, CCA(3, **params).fit(X, Y))
    assert (model.n_samples_, model.n_passes_, model.solver_) == (600, 1.0, "exact")


@settings(max_examples=20, deadline=None)
@given(cuts=st.lists(st.integers(0, 300), max_size=8), seed=st.integers(0, 5))
def test_any_split_of_sparse_rows_is_fit(cuts, seed):
    rng = np.random.default_rng(seed)
    X, Y = sparse_counts(rng)
    parts = [p for p in np.split(rng.permutation(300), sorted(cuts)) if len(p)]
    model = CCA(3)
    for rows in parts:
        model.partial_fit(sp.csr_array(X[rows]), sp.csr_array(Y[rows]))
    assert_same(model, CCA(3).fit(X, Y))


def test_merge_is_fit_on_all_shards(data):
    X, Y = data
    shards = [streamed(X, Y, [rows]) for rows in np.array_split(np.arange(600), 3)]
    model = shards[0].merge(shards[1]).merge(shards[2])
    assert model is shards[0]
    assert_same(model, CCA(3).fit(X, Y))
    assert_same(model.partial_fit(X[:50], Y[:50]), CCA(3).fit(np.r_[X, X[:50]], np.r_[Y, Y[:50]]))
    # The other model is left as it was.
    assert_same(shards[1], CCA(3).fit(X[200:400], Y[200:400]))


def test_from_covariance_is_fit(data):
    X, Y = data
    S = np.cov(np.hstack([X, Y]).T, bias=True)
    parts = S[:9, :9], S[9:, 9:], S[:9, 9:]
    model = CCA.from_covariance(600, *parts, X.mean(axis=0), Y.mean(axis=0), n_components=3, ridge=0.05)
    assert_same(model, CCA(3, ridge=0.05).fit(X, Y), atol=1e-7)
    np.testing.assert_allclose(model.score(X, Y), CCA(3, ridge=0.05).fit(X, Y).score(X, Y), atol=1e-9)
    more = model.partial_fit(X[:100], Y[:100])
    assert_same(more, CCA(3, ridge=0.05).fit(np.r_[X, X[:100]], np.r_[Y, Y[:100]]), atol=1e-7)


def test_from_covariance_without_centring(data):
    X, Y = data[0] - 999, data[1] + 1
    S = np.cov(np.hstack([X, Y]).T, bias=True)
    parts = S[:9, :9], S[9:, 9:], S[:9, 9:], X.mean(axis=0), Y.mean(axis=0)
    model = CCA.from_covariance(600, *parts, n_components=3, center=False)
    assert_same(model, CCA(3, center=False).fit(X, Y), atol=1e-8)
    with pytest.raises(ValueError, match="center=True and the other has not"):
        model.merge(CCA(3).partial_fit(X, Y))
    with pytest.raises(ValueError, match="merged with itself"):
        model.merge(model)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 0.5}, "n must be a number of rows, at least 1"),
        ({"Sxy": np.eye(3)}, r"Sxy has shape \(3, 3\), expected \(3, 2\)"),
        ({"Sx": np.triu(np.ones((3, 3)))}, "Sx is not symmetric"),
        ({"Sy": -np.eye(2)}, "Sy has negative variances"),
        ({"Sx": np.full((3, 3), np.nan)}, "Sx holds values that are not finite"),
        ({"mean_y": np.zeros(3)}, r"mean_y has shape \(3,\), expected \(2,\)"),
        ({"n": np.inf}, "n must be a number of rows, at least 1"),
        ({"Sx": np.zeros((0, 0))}, "a column at least"),
        ({"Sxy": np.full((3, 2), 0.9)}, "cannot be of the same rows"),
        ({"solver": "lobpcg"}, "needs rows"),
    ],
)
def test_from_covariance_refuses_what_does_not_fit(change, message):
    parts = {"n": 10, "Sx": np.eye(3), "Sy": np.eye(2), "Sxy": np.zeros((3, 2))} | change
    with pytest.raises(ValueError, match=message):
        CCA.from_covariance(**parts)


def test_errors_about_rows_come_when_the_solution_is_asked_for(data):
    X, Y = data
    model = CCA(3).partial_fit(X[:1], Y[:1])
    with pytest.raises(ValueError, match="n_components=3 is above the largest possible rank of 1 rows"):
        _ = model.canonical_correlations_
    model.partial_fit(X[1:], Y[1:])
    assert_same(model, CCA(3).fit(X, Y))


def test_the_solution_is_computed_once_and_renewed(data, monkeypatch):
    X, Y = data
    calls = []
    solve = CCA._stream_solution
    monkeypatch.setattr(CCA, "_stream_solution", lambda self: calls.append(1) or solve(self))
    model = streamed(X, Y, np.array_split(np.arange(300), 50))
    assert not calls
    first = model.canonical_correlations_
    _ = model.x_weights_, model.transform(X[:5]), model.score(X, Y)
    assert len(calls) == 1
    model.partial_fit(X[300:], Y[300:])
    assert not np.array_equal(model.canonical_correlations_, first)
    assert len(calls) == 2


def test_rows_that_cannot_be_used_change_nothing(data):
    X, Y = data
    model = streamed(X, Y, [slice(0, 300)])
    bad = X[300:310].copy()
    bad[4, 2] = np.nan
    with pytest.raises(ValueError, match="column 2 of X contains NaN, first in row 4"):
        model.partial_fit(bad, Y[300:310])
    with pytest.raises(ValueError, match="X has 8 features, but CCA is expecting 9"):
        model.partial_fit(X[300:, :8], Y[300:])
    with pytest.raises(ValueError, match="rows must be paired"):
        model.partial_fit(X[300:], Y[300:310])
    assert_same(model, CCA(3).fit(X[:300], Y[:300]))


def test_a_nan_in_a_late_block_changes_nothing(rng):
    """A batch of several blocks is looked at before any of it is added."""
    X, Y = rng.standard_normal((300, 3)), rng.standard_normal((300, 2))
    bad = X.copy()
    bad[250, 1] = np.nan
    model = CCA(2).partial_fit(X[:100], Y[:100])
    with config_context(working_memory=0.001):
        assert ArrayViews(bad, Y).block_rows < 100
        with pytest.raises(ValueError, match="column 1 of X contains NaN, first in row 250"):
            model.partial_fit(bad, Y)
    assert model.n_samples_ == 100
    assert_same(model, CCA(2).fit(X[:100], Y[:100]))


def test_ill_conditioned_rows_that_are_gone(rng):
    X = rng.standard_normal((200, 4))
    X = np.c_[X, X[:, 0] + 1e-7 * rng.standard_normal(200)]
    model = CCA(1, ridge=0.0).partial_fit(X, rng.standard_normal((200, 3)))
    with pytest.warns(ConvergenceWarning, match="ill-conditioned .* and the rows are gone: use a ridge"):
        _ = model.canonical_correlations_


def test_a_first_batch_that_cannot_be_used_leaves_no_model(data):
    model = CCA(3)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full((4, 3), np.nan), np.zeros((4, 2)))
    X, Y = data
    assert_same(model.partial_fit(X, Y), CCA(3).fit(X, Y))


def test_rows_are_copied(data):
    """A producer may fill the same arrays again and again."""
    X, Y = data
    x, y, model = np.empty((5, 9)), np.empty((5, 7)), CCA(3)
    for start in range(0, 600, 5):
        x[:], y[:] = X[start : start + 5], Y[start : start + 5]
        model.partial_fit(x, y)
    assert_same(model, CCA(3).fit(X, Y))


def test_fit_forgets_a_stream_and_a_stream_does_not_follow_a_fit(data):
    X, Y = data
    model = streamed(X, Y, [slice(0, 100)]).fit(X, Y)
    assert_same(model, CCA(3).fit(X, Y))
    with pytest.raises(ValueError, match="merge is for models of partial_fit"):
        model.merge(streamed(X, Y, [slice(0, 100)]))
    with pytest.warns(UserWarning, match="partial_fit starts a new model here"):
        model.partial_fit(X[:100], Y[:100])
    assert_same(model, CCA(3).fit(X[:100], Y[:100]))


def test_models_of_streams_are_pickled_cloned_and_saved(data, tmp_path):
    X, Y = data
    model = streamed(X, Y, [slice(0, 400)])
    again = pickle.loads(pickle.dumps(model)).partial_fit(X[400:], Y[400:])
    assert_same(again, CCA(3).fit(X, Y))
    assert not hasattr(clone(model), "canonical_correlations_")
    model.save(tmp_path / "m.cca")
    assert_same(model, CCA(3).fit(X[:400], Y[:400]))


@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
@pytest.mark.parametrize("rows", [1, 200, 2500, 18500])
@pytest.mark.parametrize("memory", [1024, 0.05])
def test_a_stream_goes_on_from_a_file(memory, rows, kind, long, tmp_path):
    """Before there is a solution, before the first step, in the second horizon: as if never put away."""
    dtype = np.float32 if kind is np.array else np.float64
    X, Y = (kind(m[:20000].astype(dtype)) for m in long)
    with config_context(working_memory=memory):
        model, whole = (CCA(3, random_state=0, step_size=0.5, ridge=0.01) for _ in range(2))
        model.partial_fit(X[:rows], Y[:rows])
        whole.partial_fit(X[:rows], Y[:rows])
        model.set_params(n_components=2)  # of use to the next fit
        model.save(tmp_path / "m.cca")
        model = load(tmp_path / "m.cca")
        if rows > 1:
            assert_same(model, whole, atol=0)
        for part in (slice(rows, rows + 7), slice(rows + 7, None)):
            # What came before in double precision is not forgotten.
            late = X[part].astype(np.float32), Y[part].astype(np.float32)
            model.partial_fit(*late)
            whole.partial_fit(*late)
            if rows > 1:
                assert_same(model, whole, atol=0)
        assert model.n_samples_ == 20000
        assert model.n_iter_ == whole.n_iter_
        assert model.x_weights_.dtype == dtype
        assert_same(model, whole, atol=0)


@pytest.mark.parametrize("order", [(np.array, sp.csr_array), (sp.csr_array, np.array)])
@pytest.mark.parametrize("memory", [1024, 0.05])
def test_dense_and_sparse_rows_in_one_stream(memory, order, long):
    X, Y = (m[:8000] for m in long)
    parts = [slice(0, 5), slice(5, 3000), slice(3000, 3004), slice(3004, 8000)]
    with config_context(working_memory=memory):
        mixed, plain = CCA(3, random_state=0), CCA(3, random_state=0)
        for i, rows in enumerate(parts):
            mixed.partial_fit(order[i % 2](X[rows]), order[(i + 1) % 2](Y[rows]))
            plain.partial_fit(X[rows], Y[rows])
        assert_same(mixed, plain, atol=1e-6)


@pytest.mark.parametrize("value", [1e200, -1e160])
def test_values_too_large_to_be_squared_change_nothing(value, data):
    X, Y = data
    model = streamed(X, Y, [slice(0, 300)])
    with pytest.raises(ValueError, match="too large to be squared"):
        model.partial_fit(np.full((1, 9), value), Y[:1])
    assert_same(model.partial_fit(X[300:], Y[300:]), CCA(3).fit(X, Y))


def test_an_interrupt_counts_no_row_twice(data, monkeypatch):
    import appgrad.fitting.streams

    X, Y = data
    model, real = streamed(X, Y, [slice(0, 300)]), appgrad.fitting.streams.sums.second_moments

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(appgrad.fitting.streams.sums, "second_moments", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X[300:], Y[300:])
    monkeypatch.setattr(appgrad.fitting.streams.sums, "second_moments", real)
    assert_same(model.partial_fit(X[300:], Y[300:]), CCA(3).fit(X, Y))


def test_sums_that_overflow_together_change_nothing(data):
    X, Y = (1e152 * (m - m.mean(axis=0)) for m in data)
    model = CCA(2)

    def added():
        for _ in range(400):
            model.partial_fit(X, Y)

    with pytest.raises(ValueError, match="too large to be added up: rescale"):
        added()
    assert 600 <= model.n_samples_ < 400 * 600
    assert model.n_samples_ % 600 == 0
    assert np.all(np.isfinite(model.canonical_correlations_))


def test_budgets_are_not_of_streams(data):
    with pytest.warns(UserWarning, match=r"budgets \(iterations\) are for fit"):
        CCA(2, max_iter=3).partial_fit(*data)


@pytest.mark.parametrize("memory", [1024, 0.05])
def test_a_file_whose_stream_was_tampered_with(memory, long, tmp_path):
    X, Y = long
    with config_context(working_memory=memory):
        CCA(3, random_state=0).partial_fit(X[:5000], Y[:5000]).save(tmp_path / "m.cca")
        arrays, meta = archive.read(tmp_path / "m.cca")
        for change in (
            {"solver": "os.system"},
            {"state": {"class": "subprocess.Popen", "parts": ["true"]}},
            {"state": {"tuple": [None]}},
            {"state": 7},
            {"rng": {"bit_generator": "Generator"}},
        ):
            archive.write(tmp_path / "bad.cca", arrays, meta | {"stream": meta["stream"] | change})
            with pytest.raises(ValueError, match="damaged"):
                load(tmp_path / "bad.cca")
        cut = {
            name: a[:, :-1] if a.ndim == 2 and name.startswith("stream") else a for name, a in arrays.items()
        }
        archive.write(tmp_path / "bad.cca", cut, meta)
        with pytest.raises(ValueError, match="damaged"):
            load(tmp_path / "bad.cca")


def test_names_are_those_of_the_first_batch(data):
    import pandas as pd

    X, Y = (pd.DataFrame(m).add_prefix("c") for m in data)
    model = CCA(2).partial_fit(X[:100], Y[:100])
    assert list(model.feature_names_in_) == list(X.columns)
    with pytest.raises(ValueError, match="in another order"):
        model.partial_fit(X[X.columns[::-1]], Y)


def test_more_columns_than_rows_warns(rng):
    model = CCA(1).partial_fit(rng.standard_normal((10, 8)), rng.standard_normal((10, 8)))
    with pytest.warns(OverfitWarning):
        _ = model.canonical_correlations_


def test_what_batches_may_be(data):
    X, Y = data

    def broken():
        yield X[:200], Y[:200]
        raise OSError("the line is dead")

    model = CCA(3)
    with pytest.raises(OSError, match="the line is dead"):
        model.fit_stream(broken())
    assert_same(model, CCA(3).fit(X[:200], Y[:200]))
    odd = [(X[:0], Y[:0]), (X[:1], Y[:1]), [X[1:600].tolist(), Y[1:600].tolist()]]
    assert_same(CCA(3).fit_stream(odd), CCA(3).fit(X, Y))
    with pytest.raises(ValueError, match="batch 2: X has 5 features, but CCA is expecting 9"):
        CCA(3).fit_stream([(X, Y), (X[:, :5], Y)])
    with pytest.raises(ValueError, match="batch 2: "):
        CCA(3).fit_stream([(X, Y), (X[:0], Y[:5])])
    with pytest.raises(ValueError, match=r"batch 1 is a ndarray, not a pair"):
        CCA(3).fit_stream([X])


@pytest.mark.parametrize(
    "batches", [[], [(np.zeros((0, 9)), np.zeros((0, 7)))], [(np.full((9, 9), np.nan), np.ones(9))]]
)
def test_a_stream_without_rows_leaves_what_was_there(batches, data):
    X, Y = data
    with pytest.raises(ValueError, match=r"the stream had no rows|batch 1: .* NaN"):
        CCA(3).fit_stream(batches)
    model = CCA(3).fit(X, Y)
    with pytest.raises(ValueError, match=r"the stream had no rows|batch 1: .* NaN"):
        model.fit_stream(batches)
    assert_same(model, CCA(3).fit(X, Y), atol=0)


def test_what_is_said_of_a_stream_under_way(long, caplog, clock):
    X, Y = long
    seen = []
    with config_context(working_memory=0.05), caplog.at_level("INFO", "appgrad"):
        slow = lambda progress: seen.append(progress) or clock.go_on(0.3)  # noqa: E731
        CCA(3, random_state=0, callback=slow, verbose=1).fit_stream(pairs(X[:5000], Y[:5000], 500))
    assert [p.rows for p in seen] == list(range(500, 5001, 500))
    assert np.isnan(seen[0].tcc)
    assert 0.5 < seen[-1].tcc <= 3
    under_way = r"batch [0-9]+, [0-9]+ rows, [0-9]+ rows/s, [0-9.]+ s, total correlation [0-9.]+ of at most 3"
    assert any(re.search(under_way, message) for message in caplog.messages)
    assert re.match(r"the stream ended after 5000 rows and [0-9.]+ s", caplog.messages[-1])


def test_a_callback_ends_a_stream(data):
    X, Y = data
    seen = []
    model = CCA(3, callback=lambda progress: seen.append(progress.iteration) or np.bool_(len(seen) == 4))
    model.fit_stream(pairs(X, Y, 50))
    assert seen == [1, 2, 3, 4]
    assert_same(model, CCA(3).fit(X[:200], Y[:200]))


def test_what_does_not_stream(data):
    X, Y = data
    assert not hasattr(CCA(2, solver="lobpcg"), "partial_fit")
    with pytest.raises(AttributeError, match="solver='lobpcg' needs all rows at a time: for streams use"):
        CCA(2, solver="lobpcg").partial_fit(X, Y)
    with pytest.raises(ValueError, match="forget is for streams"):
        CCA(2, forget=100).fit(X, Y)
    with warnings.catch_warnings(), config_context(working_memory=0.001):
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="only models that keep second moments can be merged"):
            CCA(2).partial_fit(X, Y).merge(CCA(2).partial_fit(X, Y))


@pytest.mark.parametrize(
    ("batches", "said"),
    [
        ([(1, 2, 3)], "batch 1 is a tuple of 3, not a pair"),
        ([(3, 4)], "batch 1: a view must be a matrix, got int"),
    ],
)
def test_batches_that_are_none(batches, said):
    with pytest.raises((TypeError, ValueError), match=said):
        CCA(1).fit_stream(batches)


def test_what_is_for_fit(data, tmp_path):
    X, Y = data
    with pytest.raises(TypeError, match=r"use fit\(views\), or partial_fit\(views\)"):
        CCA(1).fit_stream(ArrayViews(X, Y))
    with pytest.warns(UserWarning, match="checkpoint is for fit: of a stream, save the model"):
        CCA(1, checkpoint=tmp_path / "c").partial_fit(X, Y)


@pytest.mark.parametrize("error", [TypeError, NotImplementedError, ValueError])
def test_a_loader_without_a_length(error, data):
    class Loader:
        def __iter__(self):
            return iter([data])

        def __len__(self):
            raise error

    left = []
    CCA(1, callback=lambda progress: left.append(progress.left)).fit_stream(Loader())
    assert left == [None]


def test_statistics_of_single_columns():
    model = CCA.from_covariance(100, 2.0, 1.0, [[0.5]], n_components=1)
    assert model.canonical_correlations_ == pytest.approx(0.5 / np.sqrt(2))
