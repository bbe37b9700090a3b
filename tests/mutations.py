"""List of mistakes that a change of the code might make, each with a test that notices it; see mutate.py."""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """A text that occurs once in the source, what takes its place, and the name of a test that then fails.

    The test may be a function, a method as Class::name, or one case as name[case].
    """

    room: str
    old: str
    new: str
    test: str


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
        "data/files",
        "index.extend(range(low, high + 1))",
        "index.extend(range(low, high))",
        "test_columns_of_an_array_of_an_npz",
    ),
    Mutation(
        "data/files",
        "out[order[start:end]] = self.read",
        "out[start:end] = self.read",
        "TestH5::test_take",
    ),
    Mutation(
        "data/files",
        "return sum(f.st_size for f in found), max(f.st_mtime_ns for f in found)",
        "return sum(f.st_size for f in found), 0",
        "test_a_file_that_changes_between_passes_is_noticed",
    ),
    Mutation(
        "data/files",
        "index = np.arange(1, len(first))",
        "index = np.arange(len(first))",
        "test_row_labels_without_a_name_are_left_out",
    ),
    Mutation(
        "data/cluster",
        "return work.sweep.combine(copy.deepcopy(a), b)",
        "return work.sweep.combine(a, b)",
        "test_sums_of_two_groups_leave_these_as_they_are",
    ),
    Mutation(
        "data/cluster",
        "if sweep.seen is not None and i not in counted:",
        "if sweep.seen is not None:",
        "test_rows_count_once_when_a_pass_is_begun_anew",
    ),
    Mutation(
        "data/cluster",
        "return ArrayViews(here.x[place], here.y[place], names=self.names",
        "return ArrayViews(here.x, here.y, names=self.names",
        "TestWithoutClient::test_take",
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
        "solvers",
        "A, B = X * tx[:, None] * tx[:, None], Y * ty[:, None] * ty[:, None]",
        "A, B = X * tx[:, None], Y * ty[:, None]",
        "test_against_the_textbook",
    ),
    Mutation(
        "solvers",
        "condition = max(wx.condition, wy.condition)",
        "condition = min(wx.condition, wy.condition)",
        "test_auto_does_not_drop_a_nearly_dependent_column",
    ),
    Mutation(
        "solvers",
        "& (s > precision) & (s > rounding)",
        "& (s > precision)",
        "test_qr_takes_no_rounding_for_a_direction",
    ),
    Mutation(
        "solvers",
        "A, B = tx[:, None] * (vx @ a), ty[:, None] * (vy @ b)",
        "A, B = vx @ a, vy @ b",
        "test_against_the_textbook",
    ),
    Mutation(
        "solvers",
        "back = fx.U / fx.s, fy.U / fy.s",
        "back = fx.U * fx.s, fy.U * fy.s",
        "test_agrees_with_the_textbook",
    ),
    Mutation(
        "solvers",
        "A, B = fx.U @ (a / fx.s[:, None]), fy.U @ (b / fy.s[:, None])",
        "A, B = fx.U @ a, fy.U @ b",
        "test_a_linear_kernel_is_linear_cca_at_every_ridge",
    ),
    Mutation(
        "solvers",
        "np.subtract(pairs[2][rows], pairs[1][rows] * scale, out=residuals[rows])",
        "np.subtract(pairs[2][rows], pairs[1][rows], out=residuals[rows])",
        "test_residuals_are_those_asked_for",
    ),
    Mutation(
        "solvers",
        "active = np.flatnonzero(state.residuals >= state.tol)",
        "active = np.arange(len(state.residuals))",
        "test_converged_pairs_are_locked",
    ),
    Mutation(
        "solvers",
        "Gxy = np.block([[grams.xy, right[:c]], [below[:d].T, right[c:]]])",
        "Gxy = np.block([[grams.xy, right[:c]], [right[:c].T, right[c:]]])",
        "test_every_iteration_captures_more",
    ),
    Mutation(
        "solvers",
        "to_x, to_y = (P * rho) @ Q.T, (Q * rho) @ P.T",
        "to_x, to_y = P @ Q.T, Q @ P.T",
        "test_als_is_algorithm_1",
    ),
    Mutation(
        "solvers",
        "Wy @ (Wy.T @ yx),",
        "Wy @ (Wy.T @ state.products[3]),",
        "test_als_is_algorithm_1",
    ),
    Mutation(
        "solvers",
        "return xx - xy @ Ny, yy - yx @ Nx",
        "return xx - xy @ Nx, yy - yx @ Ny",
        "test_appgrad_is_algorithms_3_and_4",
    ),
    Mutation(
        "solvers",
        "age = state.age + 1 if tcc >= min(state.trail) else 0",
        "age = state.age + 1",
        "test_momentum_restarts_when_less_is_captured",
    ),
    Mutation(
        "solvers",
        "return good._replace(caution=state.caution / factor, good=good),",
        "return good._replace(good=good),",
        "test_divergence_is_caught",
    ),
    Mutation(
        "solvers",
        "fall = min(1.0, 2 * (1 - batch.share)) if self.adaptive else 1.0",
        "fall = 1.0 - batch.share",
        "test_stochastic_is_algorithm_5",
    ),
    Mutation(
        "solvers",
        "good=(move.phi_t, move.psi_t) if size <= CALM else trial.good",
        "good=(move.phi_t, move.psi_t)",
        "test_only_calm_states_are_returned_to",
    ),
    Mutation(
        "solvers",
        "A, B = state.best",
        "A, B = state.A, state.B",
        "test_hard_thresholds_that_go_round_in_circles_end",
    ),
    Mutation(
        "solvers",
        "Diagnostics(field.dx * A, field.dy * B, tcc,",
        "Diagnostics(A, B, tcc,",
        "test_units_and_offsets_do_not_matter",
    ),
    Mutation(
        "solvers",
        "rx, ry = xy - (xx + ridge_x) * rho, yx - (yy + ridge_y) * rho",
        "rx, ry = xy - xx * rho, yx - yy * rho",
        "test_error_bounds_and_residuals_are_at_rounding_level",
    ),
    Mutation(
        "solvers",
        "fx, fy = fx * sign, fy * sign",
        "fx, fy = fx * sign, fy",
        "test_against_the_textbook",
    ),
    Mutation(
        "solvers",
        "used is not None and used >= limit:",
        "used is not None and used > limit:",
        "test_iterations",
    ),
    Mutation(
        "solvers",
        "np.maximum(peak, part * (new.var + (new.mean - known.mean) ** 2), out=peak)",
        "np.maximum(peak, part * new.var, out=peak)",
        "test_peaks_are_the_largest_mean_squares_of_a_minibatch",
    ),
    Mutation(
        "solvers",
        "last = 1 if limits.passes >= 2 and n > warm_up_rows(views) else 0",
        "last = 0",
        "test_one_of_several_passes_measures_the_result",
    ),
    Mutation(
        "solvers",
        "Gx, Gxy, Gy = there.grams(pairs.x_weights, pairs.y_weights)",
        "Gx, Gxy, Gy = here.grams(pairs.x_weights, pairs.y_weights)",
        "test_rows_held_out_do_not_flatter",
    ),
    Mutation(
        "solvers",
        "yx -= y @ (rho[:, None] * (x.T @ A))",
        "yx -= y @ (x.T @ A)",
        "test_what_is_taken_out_is_gone",
    ),
    Mutation(
        "solvers",
        "shrunk = np.where(kept, 1 - level / np.where(kept, sizes, 1.0), 0.0)",
        "shrunk = np.where(kept, 1.0, 0.0)",
        "test_thresholds",
    ),
    Mutation(
        "solvers",
        "target = S.Sxy.T @ (A @ inverse_root(A.T @ S.Sx @ A))",
        "target = S.Sxy.T @ A",
        "test_l1_agrees_with_proximal_steps",
    ),
    Mutation(
        "solvers",
        "A, B = A @ _leading(A.T @ SA, m), B @ _leading(B.T @ SB, m)",
        "A, B = A[:, :m], B[:, :m]",
        "test_pca_cca_is_the_cca_of_principal_components",
    ),
    Mutation(
        "solvers",
        "plain = xx - ridged[0], xy, yx, yy - ridged[1]",
        "plain = xx, xy, yx, yy",
        "test_the_ridge_is_in_the_gradient_and_in_the_normaliser",
    ),
    Mutation(
        "fitting",
        "keep = 0.5 ** (new.n / self.forget)",
        "keep = 0.5 ** (1 / self.forget)",
        "test_rows_are_forgotten_within_a_batch",
    ),
    Mutation(
        "fitting",
        "self.buffer.position, self.buffer.peaks = b.position, b.peaks",
        "self.buffer.peaks = b.peaks",
        "test_a_stream_goes_on_from_a_file",
    ),
    Mutation(
        "fitting",
        "counted.rows = round(saved.passes * counted.n_samples)",
        "counted.rows = 0",
        "test_a_run_goes_on_where_it_was_stopped",
    ),
    Mutation(
        "fitting",
        '("iter", "passes", "seconds", "flops")',
        '("iter", "seconds", "passes", "flops")',
        "test_passes_are_kept",
    ),
    Mutation(
        "fitting",
        "wrong = [name for name in found if name not in known]",
        "wrong = []",
        "test_states_of_another_version_are_refused",
    ),
    Mutation(
        "fitting",
        "if p < n or sum(ranks) < n or solution.correlations[0] <= 0.99:",
        "if p < n or sum(ranks) < n:",
        "test_no_warning_with_a_meaningful_ridge_or_enough_rows",
    ),
    Mutation(
        "fitting",
        "if direct.seconds > UNSURE * iterative.seconds:",
        "if direct.seconds > iterative.seconds:",
        "test_what_is_certain_is_taken_where_it_may_be_faster",
    ),
    Mutation(
        "estimators",
        "found = part @ W - center if sparse else (part - mean) @ W",
        "found = part @ W if sparse else (part - mean) @ W",
        "test_sparse_of_every_format",
    ),
    Mutation(
        "estimators",
        "x, y = (m.copy() for m in block.views)",
        "x, y = block.views",
        "test_rows_are_copied",
    ),
    Mutation(
        "estimators",
        "self.y_mean_ - slopes @ (self.x_weights_.T @ self.x_mean_)",
        "self.y_mean_ + slopes @ (self.x_weights_.T @ self.x_mean_)",
        "test_predict_with_all_components_is_least_squares",
    ),
    Mutation(
        "estimators",
        'remarks=_remarks(meta.get("remarks", [])),',
        "remarks=(),",
        "test_forced_correlations_are_called_so_again",
    ),
    Mutation(
        "estimators",
        'swapped = "; are the two views swapped?" if p == other else ""',
        'swapped = ""',
        "test_other_number_of_columns",
    ),
    Mutation(
        "inference",
        "if size >= 10 * k:",
        "if size >= k:",
        "test_few_rows_are_cross_validated",
    ),
    Mutation(
        "inference",
        "return HeldOut(correlations(U, V), method)",
        "return HeldOut(correlations(U, U), method)",
        "test_fit_json",
    ),
    Mutation(
        "inference",
        "return [(np.sort(order[size:]), np.sort(order[:size]))]",
        "return [(np.sort(order), np.sort(order[:size]))]",
        "test_fit_json",
    ),
    Mutation(
        "reporting",
        "lost = np.flatnonzero(others < training / 2) + 1",
        "lost = np.flatnonzero(others < training / 3) + 1",
        "test_half_of_the_correlation_is_what_must_be_left",
    ),
    Mutation(
        "reporting",
        "loadings[:, component] / np.where(std > 0, std, 1.0)",
        "loadings[:, component]",
        "test_loadings_are_correlations",
    ),
    Mutation(
        "reporting",
        "steps = steps[:: -max(1, -(-len(steps) // STEPS))][::-1]",
        "steps = steps[:: max(1, -(-len(steps) // STEPS))]",
        "test_a_run_has_a_curve",
    ),
    Mutation(
        "reporting",
        'text.replace("<", "\\\\u003c").replace(">", "\\\\u003e")',
        "text",
        "test_hostile_names_are_data",
    ),
    Mutation(
        "cli",
        "model.record_provenance(origin._replace(tested=tested))",
        "model.record_provenance(origin._replace(tested=None))",
        "test_a_model_file_knows_what_its_fit_has_shown",
    ),
    Mutation(
        "cli",
        "if first.resolve() == second.resolve():",
        "if str(first) == second:",
        "test_reports_that_cannot_be_written",
    ),
    Mutation(
        "cli",
        'remarks.append(f"{model.solver_} is a direct solver, which writes no checkpoint")',
        "remarks += []",
        "test_direct_solvers_say_that_they_write_no_checkpoint",
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
        "experiments",
        "(~(np.diag(S)[:, None] > S)).sum(axis=1) - 1",
        "(S > np.diag(S)[:, None]).sum(axis=1)",
        "test_ranks_of_translations",
    ),
    Mutation(
        "experiments",
        "seconds=progress.seconds - looking,",
        "seconds=progress.seconds,",
        "test_looking_takes_no_time",
    ),
    Mutation(
        "experiments",
        "return (tcc if steady else -1.0), step",
        "return tcc, step",
        "test_a_step_that_runs_away_is_none",
    ),
]
