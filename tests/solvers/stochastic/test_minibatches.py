"""Rows in random order: each delivered once a pass, with statistics of all rows read so far."""

import numpy as np
import pytest
import scipy.sparse as sp

from appgrad.covariance.moments import moments
from appgrad.data.arrays import ArrayViews
from appgrad.data.derived import CountedViews
from helpers import BACKENDS, minibatches


class Recorded(CountedViews):
    """Views that remember which rows they were asked for."""

    def __init__(self, views):
        super().__init__(views)
        self.asked = []

    def take(self, rows):
        self.asked += list(rows)
        return super().take(rows)

    def parts(self, dtype=None):
        raise AssertionError("all rows were read at a time")


def numbered(n=500, p1=3, p2=2):
    """Rows that know their number."""
    X = np.c_[np.arange(n, dtype=float), np.random.default_rng(0).standard_normal((n, p1 - 1))]
    return X, np.c_[np.arange(n, dtype=float), np.random.default_rng(1).standard_normal((n, p2 - 1))]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [1, 7, 100])
def test_one_pass_delivers_every_row_once(backend, size, tmp_path, rng):
    X, Y = numbered()
    views = Recorded(BACKENDS[backend](X, Y, tmp_path))
    batches = minibatches(views, size, 20, 500 // size, rng, passes=1)
    batches.buffer.portion = 60
    used = []
    for batch in batches:
        (block,) = batch.cov.views.blocks()
        x, y = (m.toarray() if sp.issparse(m) else m for m in block.views)
        np.testing.assert_array_equal(x[:, 0], y[:, 0])
        used += list(x[:, 0])
    assert len(used) == 500 - 500 % size
    assert len(set(used)) == len(used)
    assert sorted(views.asked) == list(range(500))
    assert views.passes == 1


def test_order_is_random_within_a_portion_too(rng):
    batches = minibatches(ArrayViews(*numbered()), 50, None, 10, rng)
    first = next(iter(batches)).cov.views.x[:, 0]
    assert np.any(np.diff(first) < 0)
    assert first.max() - first.min() > 400


def test_rows_to_come_are_those_no_step_has_used(rng):
    batches = minibatches(ArrayViews(*numbered()), 50, None, 10, rng, passes=1)
    seen = set()
    for batch in batches:
        seen |= set(batch.cov.views.x[:, 0])
        to_come = set(batches.buffer.to_come().views.x[:, 0])
        assert len(to_come) == batch.left == 500 - len(seen)
        assert not to_come & seen


def test_moments_are_those_of_all_rows_after_a_pass(rng):
    X, Y = numbered()
    batches = minibatches(ArrayViews(X, Y), 50, 20, 30, rng)
    batches.buffer.portion = 60
    *_, last = batches
    expected = moments(ArrayViews(X, Y))
    assert last.moments.n == expected.n
    for found, true in zip(last.moments.views, expected.views, strict=True):
        np.testing.assert_allclose(found.mean, true.mean)
        np.testing.assert_allclose(found.var, true.var)
    assert last.share == 29 / 30
    assert batches.complete


def test_rows_of_the_normaliser_and_those_ahead_are_held_out(rng):
    batches = minibatches(ArrayViews(*numbered()), 10, 25, 50, rng)
    batches.buffer.portion = 60
    seen = set()
    for i, batch in enumerate(batches):
        seen |= set(batch.cov.views.x[:, 0])
        if i < 40:
            assert batch.normaliser.views.n_samples == 25
            assert not seen & set(batch.normaliser.views.x[:, 0])
            assert not seen & set(batch.ahead().views.x[:, 0])
    assert batch.normaliser.views.n_samples == 25
    assert batch.ahead().views.n_samples == 60


def test_passes_differ_in_their_order_and_seeds_repeat(rng):
    def orders(seed):
        found = minibatches(ArrayViews(*numbered(100)), 10, None, 20, np.random.default_rng(seed))
        return np.concatenate([batch.cov.views.x[:, 0] for batch in found])

    first, second = np.split(orders(0), 2)
    assert sorted(first) == sorted(second)
    assert np.any(first != second)
    np.testing.assert_array_equal(orders(0), orders(0))
    assert np.any(orders(0) != orders(1))


def test_a_bad_value_is_named_by_its_row(rng):
    X, Y = numbered()
    Y[317, 1] = np.nan
    with pytest.raises(ValueError, match="column 1 of y contains NaN, first in row 317"):
        for _ in minibatches(ArrayViews(X, Y), 50, None, 10, rng):
            pass


@pytest.mark.parametrize("ridge", ["auto", 0.3])
@pytest.mark.parametrize("scale", [False, True])
def test_units_pose_the_problem_asked_for(ridge, scale, rng):
    """Scaling is left to the ridge: A'(S + r V)A is the scaled problem in the data's own units."""
    X, Y = numbered()
    X *= [1, 10, 100]
    batches = minibatches(ArrayViews(X, Y), 500, None, 1, rng, scale=scale, ridge=(ridge, ridge))
    u, var = batches.buffer.units().views[0], X.var(axis=0)
    np.testing.assert_array_equal(u.scale, 1)
    expected = {"auto": 1e-10 * var, 0.3: 0.3 * var if scale else np.full(3, 0.3)}[ridge]
    np.testing.assert_allclose(u.ridge, expected)


def test_peaks_are_the_largest_mean_squares_of_a_minibatch(rng):
    X, Y = np.zeros((400, 2)), np.ones((400, 1))
    X[7, 0], X[:, 1] = 20.0, np.where(np.arange(400) % 2, 1, -1)
    *_, last = minibatches(ArrayViews(X, Y), 40, None, 10, rng)
    assert last.peaks[0][0] == pytest.approx(400 / 40, rel=0.02)
    assert 1 <= last.peaks[0][1] < 1.3
    assert last.peaks[1][0] == 0


def test_a_short_rest_is_no_minibatch(rng):
    """One row left over has a mean square of its own: it counts as one row of many."""
    X = rng.standard_normal((401, 30))
    *_, last = minibatches(ArrayViews(X, X), 100, None, 4, rng, passes=1)
    assert last.peaks[0].max() < 2


@pytest.mark.parametrize(("passes", "judging"), [(0.5, 125), (1, 200), (1.5, 200), (3, 200)])
def test_a_run_is_judged_once_by_rows_it_has_not_used(passes, judging, rng):
    """A quarter of the first pass, and a portion (200 rows) at most."""
    X, Y = numbered(1000)
    used, judges = [], []
    for batch in minibatches(ArrayViews(X, Y), 25, None, int(40 * passes), rng, passes, portion=200):
        if batch.judges is not None:
            assert not judges
            judges = [half.views.x[:, 0] for half in batch.judges()]
            assert not set(np.concatenate(judges)) & set(used)
        used.extend(batch.cov.views.x[:, 0])
    first, second = judges
    assert abs(len(first) - len(second)) <= 1
    assert len(first) + len(second) == judging
    # Then they are used.
    assert set(first) | set(second) <= set(used)
