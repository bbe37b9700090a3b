"""Contract of views: tests that every back end must pass."""

import numpy as np
import pytest

from appgrad.data.fingerprint import Identity, row_sums
from appgrad.data.views import Block
from naive import dense


def batches(views, size, rng):
    """Rows in the random order of the views, so many at a time, as minibatches are drawn."""
    order = views.order(rng)
    for start in range(0, views.n_samples, size):
        yield views.take(np.sort(order[start : start + size]))


class ViewsContract:
    """What every back end must do; a test class per back end says how to make one."""

    def make(self, X, Y, folder):
        raise NotImplementedError

    @pytest.fixture
    def data(self, rng):
        X = rng.integers(0, 5, (101, 4)).astype(float)
        return X, rng.standard_normal((101, 3)) * (rng.random((101, 3)) < 0.5)

    @pytest.fixture
    def views(self, data, tmp_path):
        return self.make(*data, tmp_path)

    def test_shapes(self, views):
        assert (views.n_samples, views.n_features_x, views.n_features_y) == (101, 4, 3)
        assert views.dtype == np.float64

    def test_blocks_deliver_every_row_once_in_order(self, views, data):
        blocks = list(views.blocks())
        assert [b.offset for b in blocks] == list(np.cumsum([0] + [b.views[0].shape[0] for b in blocks[:-1]]))
        np.testing.assert_array_equal(np.vstack([dense(b.views[0]) for b in blocks]), data[0])
        np.testing.assert_array_equal(np.vstack([dense(b.views[1]) for b in blocks]), data[1])
        assert all(b.views[0].dtype == views.dtype and b.views[1].dtype == views.dtype for b in blocks)

    def test_reduce_combines_in_order(self, views):
        ranges = views.reduce(lambda b: [(b.offset, b.offset + b.views[0].shape[0])], lambda a, b: a + b)
        assert [start for start, _ in ranges] == [0, *(stop for _, stop in ranges[:-1])]
        assert ranges[-1][1] == 101

    def test_sum(self, views, data):
        x, y = views.sum(lambda block: (dense(block.views[0]).sum(axis=0), dense(block.views[1]).sum(axis=0)))
        np.testing.assert_allclose(x, data[0].sum(axis=0))
        np.testing.assert_allclose(y, data[1].sum(axis=0))

    def test_the_fingerprint_is_that_of_the_rows(self, views, data):
        """Whatever the blocks, and wherever they are."""
        identity = Identity(101)
        identity.require(views)
        assert identity.sums == row_sums(Block(0, data))

    def test_take(self, views, data):
        rows = np.array([3, 1, 99, 40])
        taken = views.take(rows)
        (block,) = taken.blocks()
        np.testing.assert_array_equal(dense(block.views[0]), data[0][rows])
        (block,) = taken.take(np.array([2, 0])).blocks()
        np.testing.assert_array_equal(dense(block.views[1]), data[1][[99, 3]])

    def test_batches_partition_the_rows_at_random(self, views, data):
        def delivered(seed):
            found = list(batches(views, 20, np.random.default_rng(seed)))
            assert [b.n_samples for b in found] == [20, 20, 20, 20, 20, 1]
            return [np.vstack([dense(block.views[1]) for block in b.blocks()]) for b in found]

        first, again, other = delivered(0), delivered(0), delivered(1)
        np.testing.assert_array_equal(np.vstack(first), np.vstack(again))
        assert not np.array_equal(first[0], other[0])
        assert not np.array_equal(first[0], data[1][:20])
        np.testing.assert_array_equal(
            np.sort(np.vstack(first), axis=0), np.sort(data[1], axis=0), strict=True
        )

    def test_errors_in_a_block_reach_the_caller(self, views):
        def fail(block):
            raise RuntimeError("inside")

        with pytest.raises(RuntimeError, match="inside"):
            views.reduce(fail, lambda a, b: a)
