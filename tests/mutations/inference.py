"""Mistakes in tests, the noise level and what is shown of them."""

from .mutation import Mutation

MUTATIONS = [
    Mutation(
        "inference",
        "_skew(F[beyond].T @ weighted[beyond])",
        "_skew(F[beyond].T @ weighted[beyond]) * 1.001",
        "test_the_exact_distribution_has_all_digits",
    ),
    Mutation(
        "inference",
        "    if s % 2:\n        whole = _bordered(whole, weighted.sum(axis=0))",
        "    if s % 2 and s > 1:\n        whole = _bordered(whole, weighted.sum(axis=0))",
        "test_one_column_has_the_beta_distribution",
    ),
    Mutation(
        "inference",
        "size += (s - 1) * np.arccosh",
        "size += 0 * np.arccosh",
        "test_the_exact_distribution_has_all_digits",
    ),
    Mutation(
        "inference",
        "EXACT = 50",
        "EXACT = 5",
        "test_limits_have_their_share",
    ),
    Mutation(
        "inference",
        "df2 = m * t - df1 / 2 + 1",
        "df2 = m * t - df1 / 2",
        "test_steps_are_those_published",
    ),
    Mutation(
        "inference",
        "df1, m = P * Q, n - 1 - (p + q + 1) / 2",
        "df1, m = P * Q, n - 1 - k - (p + q + 1) / 2",
        "test_steps_are_those_published",
    ),
    Mutation(
        "inference",
        "df1, df2 = max(p, q), n - 1 - max(p, q)",
        "df1, df2 = min(p, q), n - 1 - min(p, q)",
        "test_statistics_are_those_of_statsmodels",
    ),
    Mutation(
        "inference",
        "(2 * r + 1) * (r - 1)\n    ratio /=",
        "(2 * r + 1) * (r + 1)\n    ratio /=",
        "test_multivariate_statistics_are_those_published",
    ),
    Mutation(
        "inference",
        "p = (1 + above) / (1 + n_resamples)",
        "p = above / n_resamples",
        "test_one_product_gives_all_steps",
    ),
    Mutation(
        "inference",
        "rest = np.concatenate([np.arange(s, p), p + np.arange(s, q)])",
        "rest = np.concatenate([p + np.arange(s, q), np.arange(s, p)])[:0]",
        "test_one_product_gives_all_steps",
    ),
    Mutation(
        "inference",
        "M += part.T @ V[start : start + size]",
        "M += part.T @ V[rows]",
        "test_tiles_change_nothing",
    ),
    Mutation(
        "inference",
        "np.argsort(self.codes + self.rng.random(self.n))",
        "np.argsort(self.rng.random(self.n))",
        "test_rows_stay_within_their_groups",
    ),
    Mutation(
        "inference",
        "largest_limit(SHARE, n, most, least - j) if j < least",
        "largest_limit(SHARE, n, most, least) if j < least",
        "test_a_fit_shows_what_noise_reaches",
    ),
    Mutation(
        "inference",
        "if self.reason or not self.known:",
        "if self.reason:",
        "test_a_column_twice_counts_once",
    ),
    Mutation(
        "inference",
        "    elif any(part < KEPT * rank for part, rank in zip(left, (x, y), strict=True)):",
        "    elif any(part < 0 * rank for part, rank in zip(left, (x, y), strict=True)):",
        "test_where_theory_is_silent_the_level_is_nan_with_a_reason",
    ),
    Mutation(
        "inference",
        'if n != round(n):\n        reason = "rows',
        'if n < 0:\n        reason = "rows',
        "test_where_theory_is_silent_the_level_is_nan_with_a_reason",
    ),
    Mutation(
        "inference",
        "found.append(factor.U * factor.shrinkage(cov.n))",
        "found.append(factor.U)",
        "test_wide_rows_with_a_ridge_are_permuted",
    ),
    Mutation(
        "estimators",
        'permuted = method == PERMUTATION or (method == "auto" and resampling.groups is not None)',
        "permuted = method == PERMUTATION",
        "test_groups_that_explain_the_relation_leave_nothing",
    ),
    Mutation(
        "solvers",
        "return Spectrum(np.sort(kept)[::-1], ranks, left, float(n if center else n + 1))",
        "return Spectrum(np.sort(kept)[::-1], ranks, left, float(n))",
        "test_rows_that_are_not_centred_are_one_more",
    ),
    Mutation(
        "solvers",
        "_explained(x.cross, fy, mx.var * ux.scale**2)",
        "_explained(x.cross, fx, mx.var * ux.scale**2)",
        "test_variance_is_the_mean_squared_correlation",
    ),
    Mutation(
        "covariance",
        "W[1:] = dormqr(",
        "W[:-1] = dormqr(",
        "test_leading_svd",
    ),
    Mutation(
        "reporting",
        "elif rho <= evidence.limits[i]:",
        "elif rho <= 0:",
        "test_noise_is_doubted",
    ),
]
