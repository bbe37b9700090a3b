"""When a run looks at clusters early, and what looks leave to be found."""

import numpy as np
import pytest

from appgrad.solvers.lobpcg.looks import gains_little, outside


@pytest.mark.parametrize(
    ("totals", "little"), [((), False), ((3.0,), False), ((3.0, 3.01), False), ((3.0, 3.001), True)]
)
def test_a_run_looks_early_if_an_iteration_gains_little(totals, little):
    assert gains_little(totals, 1e-4) == little
    assert not gains_little(totals, 0.0)


@pytest.mark.parametrize(
    ("k", "width", "looked", "found"),
    [
        (2, 5, np.nan, 0.8),  # the middle one of those below
        (2, 5, 0.5, 0.8),  # a look at half of the columns leaves as many
        (2, 5, 0.6, 0.0),
        (2, 5, 0.0, 0.9),  # a look that has found no pair as good
        (6, 4, np.nan, np.nan),
        (2, 6, np.nan, 0.0),  # there are no more pairs than these
        (5, 5, np.nan, np.nan),
        (5, 5, 0.6, np.nan),  # pairs of a look need some below to stay in the span
    ],
)
def test_pairs_outside_are_like_those_below_the_last_one(k, width, looked, found):
    rho = np.array([0.99, 0.98, 0.9, 0.8, 0.1])
    np.testing.assert_equal(outside(rho, k, width, looked), found)
