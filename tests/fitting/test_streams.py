"""Streams that take steps because sums do not fit: their quality, and how they follow changes."""

import warnings

import numpy as np
import pytest
from sklearn import config_context

from appgrad import CCA, OverfitWarning, correlations
from appgrad.datasets import planted
from helpers import assert_same, pairs


def test_correlations_of_a_wide_stream_are_not_those_of_its_steps(rng):
    """Rows that steps were taken on flatter them: noise has no correlation."""
    X, Y = rng.standard_normal((9000, 700)), rng.standard_normal((9000, 600))
    with config_context(working_memory=1):
        model = CCA(3, random_state=0).fit_stream(pairs(X, Y, 500))
    assert model.solver_ == "stochastic"
    assert model.canonical_correlations_.max() < 0.1
    assert model.training_correlations_.max() > 0.2


@pytest.mark.parametrize("rows", [1500, 2400, 3900])
def test_a_stream_that_is_still_in_memory_is_fit(rows, long):
    X, Y = (m[:rows] for m in long)
    assert_same(CCA(3, solver="stochastic").fit_stream(pairs(X, Y, 300)), CCA(3).fit(X, Y))


@pytest.mark.parametrize("rank", [0, 1])
def test_first_rows_without_rank_are_overcome(rank, long, rng):
    """Steps on rows that do not vary would lead nowhere for ever."""
    X, Y = long
    lead = [rng.standard_normal((4400, rank)) @ np.ones((rank, m.shape[1])) for m in long]
    model = CCA(3, solver="stochastic", random_state=0)
    for x, y in [*pairs(*lead, 200), *pairs(X, Y, 500)]:
        model.partial_fit(x, y)
    best = CCA(3).fit(X, Y).canonical_correlations_
    assert correlations(*model.transform(X, Y)).sum() > 0.95 * best.sum()


@pytest.mark.parametrize(("rows", "forget"), [(2000, 5000), (2400, 5000), (7000, None)])
def test_streams_that_end_early_do_not_flatter(rows, forget, rng):
    """No step has been taken, or only a few, before the last rows are to be used."""
    X, Y = rng.standard_normal((rows, 150)), rng.standard_normal((rows, 150))
    model = CCA(2, solver="stochastic", forget=forget, random_state=0).fit_stream(pairs(X, Y, 200))
    assert model.canonical_correlations_.max() < 0.1
    assert model.training_correlations_.max() > 0.15


def test_the_last_rows_are_used(long):
    X, Y = long
    with config_context(working_memory=0.05):
        model = CCA(3, random_state=0).fit_stream(pairs(X[:9000], Y[:9000], 500))
        # All but the rest of a minibatch.
        assert model.n_iter_[0] == 45

        def broken():
            yield from pairs(X[:9000], Y[:9000], 500)
            raise OSError

        again = CCA(3, random_state=0)
        with pytest.raises(OSError):
            again.fit_stream(broken())
        assert_same(again, model, atol=0)


def test_a_short_first_stream_does_not_make_short_steps(long):
    X, Y = long
    with config_context(working_memory=0.05), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = CCA(3, random_state=0).fit_stream(pairs(X[:20], Y[:20], 20))
        model.partial_fit(X[20:10000], Y[20:10000])
    # Of 200 rows, except for the last portion and what waits for the next one.
    assert model.n_iter_[0] == 30


@pytest.mark.parametrize("normaliser", ["batch", 300])
def test_the_normaliser_asked_for(normaliser, long):
    X, Y = (m[:9000] for m in long)
    with config_context(working_memory=0.05):
        asked = CCA(3, random_state=0, normaliser=normaliser).fit_stream(pairs(X, Y, 500))
        auto = CCA(3, random_state=0).fit_stream(pairs(X, Y, 500))
    assert not np.array_equal(asked.x_weights_, auto.x_weights_)


@pytest.mark.parametrize("size", [1, 100, 20000])
def test_rows_are_forgotten_within_a_batch(size, rng):
    """The second half of the rows is noise."""
    X, Y = rng.standard_normal((20000, 3)), rng.standard_normal((20000, 3))
    Y[:10000] = X[:10000] + 0.1 * Y[:10000]
    model = CCA(1, forget=300).fit_stream(pairs(X, Y, size))
    assert model.canonical_correlations_[0] < 0.25


def test_few_rows_that_count_are_too_few(rng):
    batches = ((rng.standard_normal((1, 6)), rng.standard_normal((1, 4))) for _ in range(200))
    model = CCA(2, forget=1).fit_stream(batches)
    with pytest.warns(OverfitWarning):
        _ = model.canonical_correlations_


@pytest.mark.parametrize("size", [64, 1000, 7777])
def test_a_long_stream_in_little_memory(size, long):
    X, Y = long
    with config_context(working_memory=0.05):
        model = CCA(3, random_state=0).fit_stream(pairs(X, Y, size))
    assert model.solver_ == "stochastic"
    assert "budget" in model.solver_reason_
    best = CCA(3).fit(X, Y).canonical_correlations_
    assert correlations(*model.transform(X, Y)).sum() > 0.99 * best.sum()
    np.testing.assert_allclose(model.canonical_correlations_, best, atol=0.05)


def test_a_stream_is_usable_at_any_time(long):
    X, Y = long
    best, found = CCA(3).fit(X, Y).canonical_correlations_.sum(), []
    with config_context(working_memory=0.05):
        model = CCA(3, random_state=0)
        for i, (x, y) in enumerate(pairs(X, Y, 500)):
            model.partial_fit(x, y)
            if i % 8 == 0:
                found.append(correlations(*model.transform(X, Y)).sum() / best)
    assert min(found) > 0.8
    assert min(found[4:]) > 0.98
    assert found[-1] > 0.99


def scores_after_a_change(memory, forget, seed, n=15000):
    """What a stream scores on rows of a new kind after as many of them as of the old, and a fresh one."""
    old = planted(n, 30, 25, [0.9, 0.8], random_state=seed)
    new = planted(n + 5000, 30, 25, [0.9, 0.8], random_state=seed + 1)
    test, late = (new.X[n:], new.y[n:]), (new.X[:n], new.y[:n])
    with config_context(working_memory=memory):
        model = CCA(2, forget=forget, random_state=0)
        model.fit_stream([*pairs(old.X, old.y, 500), *pairs(*late, 500)])
        return model.score(*test), CCA(2, random_state=0).fit_stream(pairs(*late, 500)).score(*test)


@pytest.mark.parametrize("seed", [0, 10])
@pytest.mark.parametrize(("n", "forget", "least"), [(9000, 2000, 0.95), (15000, 2000, 0.98)])
@pytest.mark.parametrize("memory", [1024, 0.05])
def test_forgetting_follows_a_change(memory, n, forget, least, seed):
    """The shorter stream changes a little after the first horizon ends, and ends soon after another."""
    found, fresh = scores_after_a_change(memory, forget, seed, n)
    assert found > least * fresh


@pytest.mark.parametrize(
    ("n", "seed", "most"), [(15000, 0, 0.9), (15000, 10, 0.9), (48000, 20, 0.95), (48000, 40, 0.95)]
)
@pytest.mark.parametrize("memory", [1024, 0.05])
def test_without_forgetting_a_change_is_not_followed(memory, n, seed, most):
    found, fresh = scores_after_a_change(memory, None, seed, n)
    assert found < most * fresh


def test_forgetting_does_not_throw_away_what_is_better():
    """Steps begin anew every 8,000 rows here: what they had found stays until they have found more."""
    p = planted(20000, 60, 50, [0.9, 0.7, 0.5], random_state=2)
    best, found = CCA(3).fit(p.X, p.y).canonical_correlations_.sum(), []
    with config_context(working_memory=0.05):
        model = CCA(3, forget=2000, random_state=0)
        for i, (x, y) in enumerate(pairs(p.X, p.y, 500)):
            model.partial_fit(x, y)
            if i % 4 == 3 and i > 20:
                found.append(correlations(*model.transform(p.X, p.y)).sum() / best)
    # Otherwise it falls by 0.03 once.
    assert np.diff(found).min() > -0.005
    assert found[-1] > 0.985


@pytest.mark.parametrize(
    ("forget", "first", "then"), [(None, 16000, 32000), (1000, 8000, 16000), (5000, 10000, 20000)]
)
def test_horizons(forget, first, then, long):
    """Each as far as all before it, or two half-lives, or four portions of rows at least."""
    found = []
    with config_context(working_memory=0.05):
        model = CCA(3, forget=forget, random_state=0)
        for x, y in pairs(*long, 2000):
            model.partial_fit(x, y)
            found.append(model._stream.horizon)
    assert list(dict.fromkeys(found))[:2] == [first, then]
    assert (model._stream.state.before > 1) == (forget is None)


@pytest.mark.parametrize("forget", [np.inf, 10**400, 0.5, "1"])
@pytest.mark.parametrize("solver", ["exact", "stochastic"])
def test_half_lives_that_are_none(solver, forget, long):
    with pytest.raises(ValueError, match="forget must be None or a finite number of rows, at least 1"):
        CCA(2, solver=solver, forget=forget).partial_fit(*long)


def test_a_step_asked_for_is_constant(long):
    model = CCA(3, solver="stochastic", step_size=0.01, random_state=0).fit_stream(pairs(*long, 1000))
    assert model._stream.horizon == 64000
    assert model._stream.state.trials[0].multiple == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_horizon_that_ends_with_the_stream_does_not_flatter(seed):
    """Steps have used the last rows when the second horizon ends, 200 rows before them."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((16200, 200)), rng.standard_normal((16200, 200))
    model = CCA(2, solver="stochastic", forget=1, random_state=0).fit_stream(pairs(X, Y, 500))
    assert model._stream.settled is not None
    assert model.canonical_correlations_.max() < 0.08
    model.partial_fit(X[:100], Y[:100])
    assert model._stream.settled.judged is None


@pytest.mark.parametrize(("most", "shorter"), [(1.02, 1.0), (1.005, 0.5)])
def test_steps_get_shorter_once_a_run_has_arrived(most, shorter, long):
    with config_context(working_memory=0.05):
        model = CCA(3, random_state=0)
        for x, y in pairs(*(m[:15000] for m in long), 500):
            model.partial_fit(x, y)
    stream = model._stream
    before = stream.state.trials[0]
    stream.state = stream.state._replace(before=2.0, most=2 * most)
    stream._extend()
    assert stream.state.trials[0] == before._replace(multiple=shorter * before.multiple)
    assert (stream.state.before, stream.state.most) == (2 * most, 2 * most)


def test_values_too_small_for_steps(long):
    X, Y = (m[:5000] for m in long)
    with pytest.raises(ValueError, match="the values of X are too small to be squared: rescale"):
        CCA(1, solver="stochastic").fit(X * 1e-160, Y)
