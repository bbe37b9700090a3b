"""Mistakes in what solvers start from, and in when and how they end."""

from .mutation import Mutation

MUTATIONS = [
    Mutation(
        "solvers",
        "C, own, cross, ridged = C @ P, own @ P, cross @ Q, ridged @ P",
        "C, own, cross, ridged = C @ P, own @ P, cross @ P, ridged @ P",
        "test_a_start_does_not_change_the_answer[params0-auto]",
    ),
    Mutation(
        "solvers",
        "np.where(np.max(highest, axis=0) >= -np.min(lowest, axis=0), 1.0, -1.0)",
        "np.ones(C.shape[1])",
        "test_the_largest_weight_of_x_is_positive",
    ),
    Mutation(
        "solvers",
        "left > OWN * S[i, i] and len(kept) < k",
        "len(kept) < k",
        "test_columns_that_coincide_are_taken_if_they_are_independent",
    ),
    Mutation(
        "solvers",
        "1 - rho <= tol / 2",
        "1 - rho <= 1",
        "test_elsewhere_a_run_starts_from_a_head[8-params1]",
    ),
    Mutation(
        "solvers",
        'best[np.argsort(-frequencies(cov)[0][i[best]], kind="stable")][: CANDIDATES * k]',
        "best[: CANDIDATES * k]",
        "test_columns_that_coincide_are_the_answer_where_there_is_no_ridge",
    ),
    Mutation(
        "solvers",
        "extra = guards + width - min(width, A.shape[1])",
        "extra = 0",
        "test_random_columns_guard_the_pairs_of_the_head",
    ),
    Mutation(
        "solvers",
        "phi, psi = self.preconditioner.gaussian(p1, p2, k, rng) if self.first is None else self.first",
        "phi, psi = self.preconditioner.gaussian(p1, p2, k, rng)",
        "test_als_starts_from_the_head",
    ),
    Mutation(
        "solvers",
        "rises = np.minimum(rises, np.maximum(1.0 - rho, 0.0) + squares / 2)",
        "rises = 0 * rises",
        "test_residuals_tell_what_is_missing",
    ),
    Mutation(
        "solvers",
        "np.maximum(rho[k:] + SAFETY * rises[k:] - rho[k - 1], 0.0)",
        "np.zeros(len(rho) - k)",
        "test_a_guard_that_may_still_rise_counts",
    ),
    Mutation(
        "solvers",
        "self.below + 1 if little else 0",
        "self.below + 1",
        "test_a_run_is_settled_after_three_iterations_below_tol",
    ),
    Mutation(
        "solvers",
        "if not self.totals or 1 - self.least > ONE * tol:",
        "if not self.totals:",
        "test_a_run_with_nothing_left_is_settled_at_once",
    ),
    Mutation(
        "solvers",
        "if by_residual and share <= NOTHING * options.tol:",
        "if by_residual and share <= options.tol:",
        "test_a_budget_that_suffices_is_no_failure[0.011-True]",
    ),
    Mutation(
        "solvers",
        "if unsure and spare >= REPAID and length <= MOST_COUPLED:",
        "if unsure and spare >= 2:",
        "test_more_passes_capture_more[0.0001]",
    ),
    Mutation(
        "solvers",
        "require_directions(k, *varying)",
        "pass",
        "test_a_view_without_columns_that_vary_is_named[0.001-lobpcg]",
    ),
    Mutation(
        "solvers",
        "left = self.scouts and state.looks < LOOKS and self._least(state) > CROWDED",
        "left = False",
        "test_pairs_of_a_crowd_are_found[3]",
    ),
    Mutation(
        "solvers",
        "Gx, Gy = A.T @ Axx - a.T @ a, B.T @ Byy - b.T @ b",
        "Gx, Gy = A.T @ Axx, B.T @ Byy",
        "test_what_known_pairs_explain_does_not_count",
    ),
    Mutation(
        "covariance",
        "rank[columns] -= 1",
        "rank[columns] -= 0",
        "test_columns_outside_of_those_known_are_chosen",
    ),
    Mutation(
        "solvers",
        "crowded = sent.best > after.rho[-1] and sent.are_near(self._least(after), REACH)",
        "crowded = False",
        "test_a_run_that_cannot_be_sure_says_why",
    ),
    Mutation(
        "solvers",
        "watch = watch.after(tcc, max(short, left), self.tol, float(rho[:k].min()))",
        "watch = watch.after(tcc, short, self.tol, float(rho[:k].min()))",
        "test_als_does_not_end_in_a_crowd_that_still_gains[0]",
    ),
    Mutation(
        "solvers",
        "passes = min(passes, ready.seconds / max(one, 1e-9))",
        "passes = passes",
        "test_a_start_takes_no_longer_than_the_seconds_allowed",
    ),
    Mutation(
        "solvers",
        "most = SLOW_NEAR if sparse and rho.min() > NEAR else SLOW",
        "most = SLOW",
        "test_a_slow_run_says_that_a_pair_may_come_late[33-0.95-0.0001-True]",
    ),
    Mutation(
        "solvers",
        "rng, least = np.random.default_rng([self.seed, state.looks]), self._least(state)",
        "rng, least = np.random.default_rng([0, state.looks]), self._least(state)",
        "test_random_states_send_other_scouts",
    ),
    Mutation(
        "solvers",
        "if not sent.are_near(least, FAR):",
        "if False:",
        "test_scouts_that_stay_far_below_do_not_grow_to_the_end[0.9999-6]",
    ),
]
