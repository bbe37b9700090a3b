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
        "left = self.sparse and state.looks < LOOKS and self._least(state) > CROWDED",
        "left = False",
        "test_looks_go_on_while_they_bring_something",
    ),
    Mutation(
        "solvers",
        "own = np.minimum(own, 1 - np.sum(shared * shared, axis=1))",
        "pass",
        "test_what_known_pairs_explain_is_left_out",
    ),
    Mutation(
        "covariance",
        "C = C - means[:, :, None] * means[:, None, :]",
        "C = C + 0",
        "test_best_pairs_are_those_of_each_group_alone[True]",
    ),
    Mutation(
        "solvers",
        "crowded=found.more or gained > self.tol * before",
        "crowded=False",
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
        "if self.few and least > CROWDED_ALL:",
        "if False:",
        "test_crowds_are_known_and_not_warned_of[array2]",
    ),
    Mutation(
        "solvers",
        "return not state.probed and self.whole < min(self.probe, depth(self.floor, least))",
        "return False",
        "test_a_run_on_few_columns_probes_no_more",
    ),
    Mutation(
        "solvers",
        "below=IN_A_ROW if self.missing <= tol * total else 0)",
        "below=0)",
        "test_a_run_that_knows_all_ends",
    ),
    Mutation(
        "solvers",
        "after = after._replace(known=True, probed=True, watch=after.watch.known(self.tol))",
        "after = after._replace(probed=True, watch=after.watch.known(self.tol))",
        "test_a_run_that_knows_all_ends",
    ),
    Mutation(
        "covariance",
        "done = (size <= LARGEST) & (of_both > 0) & (of_both < size)",
        "done = (of_both > 0) & (of_both < size)",
        "test_a_large_cluster_falls_apart_at_its_weakest_links",
    ),
    Mutation(
        "covariance",
        "linked = strength > LINKS[0]",
        "linked = strength >= 0",
        "test_columns_without_a_link_are_in_no_cluster",
    ),
]
