"""The largest correlation of noise: exact to the digits of 110-digit arithmetic, and close beyond."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta

from appgrad.inference.distributions import (
    EXACT,
    approximate_limit,
    debiased,
    edge,
    largest_limit,
    largest_tail,
)
from appgrad.inference.largest_root import tail

# P(largest squared correlation > x), from Chiani's formula (2016) in arithmetic of 110 digits (mpmath).
DIGITS = [
    (20, 3, 3, 0.26592797783933514, 0.6825127502005073),
    (20, 3, 3, 0.4786703601108033, 0.15343536099598307),
    (20, 3, 3, 0.7977839335180055, 0.0004571122705332878),
    (100, 10, 10, 0.1816141210080604, 0.9987639394717718),
    (100, 10, 10, 0.3632282420161208, 0.1091222694033387),
    (100, 10, 10, 0.7264564840322416, 3.0625950682759226e-13),
    (600, 10, 10, 0.059096825259684335, 0.2474993158270294),
    (600, 10, 10, 0.1969894175322811, 4.1326501908888594e-16),
    (60, 5, 50, 0.8899521120613623, 0.9995114191757274),
    (60, 5, 50, 0.9888356800681802, 0.12543838968922794),
    (300, 14, 20, 0.19170581918872365, 0.3800356528856776),
    (300, 14, 20, 0.6390193972957454, 7.757476445441013e-38),
    (200, 8, 80, 0.602509799274889, 0.1211429466613242),
    (200, 8, 80, 0.9037646989123336, 3.0885100613721454e-27),
]
# Values of the text books: the 95 % limit of the first correlation.
LIMITS = [((20, 3, 3), 0.7575, 4), ((100, 10, 10), 0.6216, 4), ((1000, 100, 100), 0.606, 3)]
shapes = st.tuples(st.integers(1, 12), st.integers(1, 40), st.integers(0, 300))


@pytest.mark.parametrize(("n", "p", "q", "square", "expected"), DIGITS)
def test_the_exact_distribution_has_all_digits(n, p, q, square, expected):
    assert tail(square, n, p, q) == pytest.approx(expected, rel=1e-11)
    assert tail(square, n, q, p) == tail(square, n, p, q)


@pytest.mark.parametrize(("shape", "limit", "digits"), LIMITS)
def test_limits_are_those_published(shape, limit, digits):
    assert round(largest_limit(0.05, *shape), digits) == limit


@given(q=st.integers(1, 50), rest=st.integers(1, 500), share=st.floats(0.001, 0.999))
def test_one_column_has_the_beta_distribution(q, rest, share):
    """A squared multiple correlation of noise."""
    n = q + 1 + rest
    square = beta.isf(share, q / 2, (n - q - 1) / 2)
    assert largest_tail(square, n, 1, q) == pytest.approx(share, rel=1e-8)


@given(shape=shapes)
@settings(max_examples=40, deadline=None)
def test_limits_have_their_share(shape):
    p, q, rest = shape
    n = p + q + 1 + rest
    limit = largest_limit(0.05, n, p, q)
    assert tail(limit**2, n, p, q) == pytest.approx(0.05, rel=1e-3, abs=1e-6)
    # The approximation is said to be never too small.
    assert approximate_limit(0.05, n, p, q) >= limit


@pytest.mark.parametrize("s", [20, 35, EXACT])
def test_the_approximation_takes_over_where_it_is_close(s):
    for n, q in ((4 * s, s), (20 * s, 2 * s), (10**6, 3 * s)):
        share = largest_tail(approximate_limit(0.05, n, s, q) ** 2, n, s, q)
        assert 0.043 < share < 0.0501, (n, q)


def test_tails_fall_and_end():
    values = [largest_tail(x, 300, EXACT, 70) for x in np.linspace(0, 1, 40)]
    assert values[0] == 1
    assert values[-1] == 0
    assert np.all(np.diff(values) <= 1e-9)


def test_simulated_noise_has_this_distribution():
    rng, below = np.random.default_rng(0), 0
    limit = largest_limit(0.5, 80, 8, 12)
    for _ in range(400):
        X, Y = (
            np.linalg.qr(Z - Z.mean(axis=0))[0]
            for Z in (rng.standard_normal((80, 8)), rng.standard_normal((80, 12)))
        )
        below += np.linalg.norm(X.T @ Y, 2) < limit
    assert 165 <= below <= 235


def test_views_that_must_meet_have_no_distribution():
    with pytest.raises(ValueError, match=r"20 \+ 30 dimensions of 50 rows: expected .* fewer than rows"):
        largest_tail(0.5, 50, 20, 30)
    assert edge(100, 49, 49) == pytest.approx(1.0, abs=1e-3)
    assert edge(50, 30, 30) == 1.0
    # As many as there can be without: all are near 1.
    assert largest_limit(0.05, 210, 100, 109) == 1.0
    assert largest_limit(0.05, 3, 1, 1) == pytest.approx(0.99692, abs=1e-5)


@pytest.mark.parametrize("rho", [0.55, 0.7, 0.9])
def test_debiased_correlations_are_those_planted(rho):
    n, p, q, rng, found = 3000, 300, 200, np.random.default_rng(0), []
    for _ in range(3):
        X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
        Y[:, 0] = rho * X[:, 0] + np.sqrt(1 - rho**2) * Y[:, 0]
        U, V = (np.linalg.qr(Z - Z.mean(axis=0))[0] for Z in (X, Y))
        squares = np.linalg.svd(U.T @ V, compute_uv=False)[:3] ** 2
        values = debiased(squares, n, p, q)
        found.append(values[0])
        assert np.all(np.isnan(values[2:]))
    assert np.mean(found) == pytest.approx(rho, abs=0.015)
    assert np.sqrt(squares[0]) > rho + 0.01
