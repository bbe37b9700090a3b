"""Mistakes in data, metrics, covariances, data sets and the room of the machine."""

from .mutation import Mutation

MUTATIONS = [
    Mutation(
        "machine",
        'return int(get_config()["working_memory"] * 2**20)',
        'return int(get_config()["working_memory"] * 2**30)',
        "test_auto_keeps_to_the_budget",
    ),
    Mutation(
        "machine",
        "if len(pending) > threads:",
        "if len(pending) > 100 * threads:",
        "test_no_more_is_read_than_is_needed_next",
    ),
    Mutation(
        "machine",
        "ranges = [slice(start, min(start + CACHED_ROWS, p)) for start",
        "ranges = [slice(start, start + CACHED_ROWS) for start",
        "test_ranges_of_rows_come_in_order",
    ),
    Mutation(
        "machine",
        "pending.append(pool.submit(copy_context().run, f, item))",
        "pending.append(pool.submit(f, item))",
        "test_overflow_in_threads_is_quiet",
    ),
    Mutation(
        "metrics",
        'np.clip(np.einsum("ij,ij->j", Uc, Vc), -1.0, 1.0)',
        'np.clip(np.einsum("ij,ij->j", Uc, Vc), 0.0, 1.0)',
        "test_correlations_are_pearson",
    ),
    Mutation(
        "metrics",
        "np.linalg.norm(Q - P @ (P.T @ Q), 2)",
        "np.linalg.norm(Q - P, 2)",
        "test_subspace_distance_is_the_norm_of_the_projections",
    ),
    Mutation(
        "metrics",
        "varies = norms > 10 * np.finfo(np.float64).eps * np.sqrt(n) * np.abs(mean)",
        "varies = norms > 0",
        "test_score_of_constant_scores_is_zero",
    ),
    Mutation(
        "data",
        "selected = rows if self.rows is None else self.rows[rows]",
        "selected = rows",
        "TestRows::test_take",
    ),
    Mutation(
        "data",
        "csr = csr.copy()",
        "csr = sp.csr_array(csr)",
        "test_unusual_sparse",
    ),
    Mutation(
        "data",
        "self.parent._count(rows)",
        "self.parent.rows += 0",
        "test_minibatches_count_as_passes",
    ),
    Mutation(
        "data",
        "K -= self.means - self.grand",
        "K -= self.means",
        "test_agrees_with_the_textbook",
    ),
    Mutation(
        "data",
        "features *= 1 / np.sqrt(half)",
        "features *= np.sqrt(2 / half)",
        "test_random_frequencies_have_the_kernel_s_inner_products",
    ),
    Mutation(
        "covariance",
        "apart**2 * (share * (1 - share))",
        "apart**2 * share",
        "test_moments_second_moments_and_triangle_agree",
    ),
    Mutation(
        "covariance",
        "bridge = np.sqrt(self.n * other.n / n) * delta",
        "bridge = np.sqrt(n) * delta",
        "test_merging_in_any_split_gives_the_same",
    ),
    Mutation(
        "covariance",
        "* var * s * s))",
        "* var * s))",
        "test_ridge_forms",
    ),
    Mutation(
        "covariance",
        "part -= offset[rows] * total",
        "part -= 0 * offset[rows] * total",
        "test_row_grams_and_combinations",
    ),
    Mutation(
        "covariance",
        "self.s / np.sqrt(self.s**2 + n * self.c)",
        "self.s / np.sqrt(self.s**2 + self.c)",
        "test_more_columns_than_rows_with_a_ridge",
    ),
    Mutation(
        "covariance",
        "C = (1 / self.values - 1 / self.tail)[:, None]",
        "C = (1 / self.values)[:, None]",
        "test_a_side_solves_what_it_says",
    ),
    Mutation(
        "datasets",
        "rho * U[:, :k] + np.sqrt(1 - rho**2) * V[:, :k]",
        "rho * U[:, :k] + (1 - rho) * V[:, :k]",
        "test_planted",
    ),
    Mutation(
        "datasets",
        "for d in (-2, -1, 1, 2)]",
        "for d in (-1, 0, 1, 2)]",
        "test_words_and_their_context",
    ),
    Mutation(
        "datasets",
        "found.sort_indices()",
        "found.has_sorted_indices = True",
        "test_columns_of_sparse_rows_are_in_order",
    ),
    Mutation(
        "data",
        'm.dtype.kind in "biu" and not getattr',
        'm.dtype.kind in "c" and not getattr',
        "test_entries_given_twice_add_up_in_any_type[coo-int8]",
    ),
    Mutation(
        "machine",
        "parts = data if isinstance(data, list | tuple) else (data,)",
        "parts = (data,)",
        "test_masked_values_are_refused_wherever_they_come_in[rows]",
    ),
]
