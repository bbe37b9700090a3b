import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_linnerud

from appgrad.data.arrays import ArrayViews
from appgrad.data.derived import CountedViews
from appgrad.datasets import planted
from appgrad.fitting.solving import solving
from appgrad.solvers.problem import Problem
from appgrad.solvers.protocol import Options
from helpers import BACKENDS, SOLVERS, small_blocks, sparse_counts
from naive import cca, cca_by_eigenvalues, covariances, projection


def solve(views, problem, solver):
    """The solution by this solver, and what was taken and why."""
    steps, choice = solving(CountedViews(views), problem, Options(solver), np.random.default_rng(0))
    return list(steps)[-1].solution(), choice


def random_problem(seed):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((250, 4))
    X = np.hstack([Z, rng.standard_normal((250, 5))]) @ rng.standard_normal((9, 9)) + 2
    Y = np.hstack([Z + rng.standard_normal((250, 4)), rng.standard_normal((250, 3))]) - 1
    return X, Y


def check_solution(solution, X, Y, k, ridge=0.0, atol=1e-8):
    """Correlations, subspaces, unit variance, loadings and slopes against the textbook."""
    rho, A, B = cca(X, Y, k, ridge)
    Sx, Sxy, Sy = covariances(X, Y)
    np.testing.assert_allclose(solution.correlations, rho, atol=atol)
    if ridge == 0:
        np.testing.assert_allclose(solution.x_weights.T @ Sx @ solution.x_weights, np.eye(k), atol=atol)
        np.testing.assert_allclose(solution.y_weights.T @ Sy @ solution.y_weights, np.eye(k), atol=atol)
        cross = solution.x_weights.T @ Sxy @ solution.y_weights
        np.testing.assert_allclose(cross, np.diag(rho), atol=atol)
    np.testing.assert_allclose(np.diag(solution.x_weights.T @ Sx @ solution.x_weights), 1, atol=atol)
    np.testing.assert_allclose(projection(solution.x_weights, Sx), projection(A, Sx), atol=1e-5)
    np.testing.assert_allclose(projection(solution.y_weights, Sy), projection(B, Sy), atol=1e-5)
    np.testing.assert_allclose(solution.x_loadings, Sx @ solution.x_weights, atol=1e-7)
    np.testing.assert_allclose(solution.y_loadings, Sy @ solution.y_weights, atol=1e-7)
    W = solution.x_weights
    np.testing.assert_allclose(solution.y_slopes.T, np.linalg.solve(W.T @ Sx @ W, W.T @ Sxy), atol=1e-7)
    assert solution.residuals.max() < 1e-6
    leading = np.argmax(np.abs(solution.x_weights), axis=0)
    assert np.all(solution.x_weights[leading, np.arange(k)] > 0)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_against_the_textbook(solver, backend, seed, tmp_path):
    X, Y = random_problem(seed)
    views = BACKENDS[backend](X, Y, tmp_path)
    check_solution(SOLVERS[solver](views, Problem(4)), X, Y, 4)
    np.testing.assert_allclose(
        SOLVERS[solver](views, Problem(7, ridge=0.0)).correlations, cca_by_eigenvalues(X, Y, 7), atol=1e-8
    )


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("backend", ["dense", "csr", "mixed"])
def test_sparse_counts(solver, backend, rng, tmp_path):
    X, Y = sparse_counts(rng)
    check_solution(SOLVERS[solver](BACKENDS[backend](X, Y, tmp_path), Problem(3)), X, Y, 3)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("ridge", [1e-3, 0.05, 2.0])
def test_ridge(solver, ridge):
    X, Y = random_problem(3)
    check_solution(SOLVERS[solver](ArrayViews(X, Y), Problem(3, ridge=ridge)), X, Y, 3, ridge)


@pytest.mark.parametrize("solver", SOLVERS)
def test_the_largest_weight_of_x_is_positive(solver):
    p = planted(300, 12, 8, [0.9, 0.6, 0.3], random_state=0)
    W = SOLVERS[solver](ArrayViews(-p.X, p.y), Problem(8)).x_weights
    assert np.all(W.max(axis=0) > -W.min(axis=0))


@pytest.mark.parametrize("solver", SOLVERS)
def test_one_ridge_per_view(solver):
    X, Y = random_problem(3)
    X2 = np.vstack([X - X.mean(axis=0), np.sqrt(250 * 0.7) * np.eye(9)])
    Y2 = np.vstack([Y - Y.mean(axis=0), np.zeros((9, 7))])
    expected = cca(X2, Y2, 3, center=False)[0]
    found = SOLVERS[solver](ArrayViews(X, Y), Problem(3, ridge=(0.7, 0.0))).correlations
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("to", [np.asarray, sp.csr_array])
def test_without_centring(solver, to):
    X, Y = random_problem(4)
    found = SOLVERS[solver](ArrayViews(to(X), to(Y)), Problem(4, center=False)).correlations
    np.testing.assert_allclose(found, cca(X, Y, 4, center=False)[0], atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_scaled_ridge_equals_ridge_on_scaled_data(solver):
    X, Y = random_problem(5)
    Xs, Ys = X / X.std(axis=0), Y / Y.std(axis=0)
    found = SOLVERS[solver](ArrayViews(X, Y), Problem(3, scale=True, ridge=0.2))
    np.testing.assert_allclose(found.correlations, cca(Xs, Ys, 3, 0.2)[0], atol=1e-8)
    U = (X - found.mean_x) @ found.x_weights
    np.testing.assert_allclose(U.var(axis=0), 1, atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_linnerud_as_published(solver):
    """SAS/STAT User's Guide, PROC CANCORR: physiological and exercise variables of twenty men."""
    X, Y = load_linnerud(return_X_y=True)
    found = SOLVERS[solver](ArrayViews(X, Y), Problem(3)).correlations
    np.testing.assert_allclose(found, [0.795608, 0.200556, 0.072570], atol=5e-7)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("seed", [0, 1])
def test_planted(solver, seed):
    rho = [0.99, 0.9, 0.5, 0.5, 0.1]
    p = planted(400, 12, 8, rho, exact=True, condition=50, random_state=seed)
    found = SOLVERS[solver](ArrayViews(p.X, p.y), Problem(6))
    np.testing.assert_allclose(found.correlations, [*rho, 0], atol=1e-7)
    S = np.cov(p.X.T, bias=True)
    np.testing.assert_allclose(projection(found.x_weights[:, :5], S), projection(p.x_weights, S), atol=1e-5)


def test_planted_in_the_population():
    p = planted(20000, 6, 5, [0.8, 0.3], random_state=0)
    found = solve(ArrayViews(p.X, p.y), Problem(3), "auto")[0].correlations
    np.testing.assert_allclose(found, [0.8, 0.3, 0.0], atol=0.03)


@pytest.mark.parametrize("solver", ["exact", "qr"])
@pytest.mark.parametrize("to", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("ridge", [0.05, 1.0])
def test_more_columns_than_rows_with_a_ridge(solver, to, ridge, rng):
    X, Y = rng.standard_normal((40, 90)), rng.standard_normal((40, 60))
    Y[:, :3] += 2 * X[:, :3]
    views = small_blocks(ArrayViews(to(X), to(Y)), rows=11)
    check_solution(SOLVERS[solver](views, Problem(3, ridge=ridge)), X, Y, 3, ridge)


@pytest.mark.parametrize("solver", ["exact", "qr"])
def test_more_columns_than_rows_on_one_side(solver, rng):
    X, Y = rng.standard_normal((60, 100)), rng.standard_normal((60, 2))
    found = SOLVERS[solver](ArrayViews(X, Y), Problem(2, ridge=0.5))
    np.testing.assert_allclose(found.correlations, cca(X, Y, 2, 0.5)[0], atol=1e-9)
    swapped = SOLVERS[solver](ArrayViews(Y, X), Problem(2, ridge=0.5))
    np.testing.assert_allclose(found.correlations, swapped.correlations, atol=1e-10)


@pytest.mark.parametrize("solver", ["exact", "qr"])
def test_more_columns_than_rows_never_makes_a_p_by_p_matrix(solver, rng):
    import tracemalloc

    X, Y = rng.standard_normal((30, 20000)), rng.standard_normal((30, 5))
    tracemalloc.start()
    SOLVERS[solver](ArrayViews(X, Y), Problem(2, ridge=0.5))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 12 * X.nbytes < 8 * 20000**2


HARD = {
    "constant column": lambda X, rng: np.c_[X, np.full(len(X), 3.3)],
    "rounding errors": lambda X, rng: np.c_[X, 0.3 * (1 + 2.2e-16 * rng.integers(-1, 2, len(X)))],
    "zero column": lambda X, rng: np.c_[np.zeros(len(X)), X],
    "duplicate column": lambda X, rng: np.c_[X, X[:, 1]],
    "collinear column": lambda X, rng: np.c_[X, X[:, 0] - 2 * X[:, 1] + 0.1 * X[:, 2]],
    "all columns twice": lambda X, rng: np.c_[X, 7.7 * X],
}


@pytest.mark.parametrize("solver", [*SOLVERS, "auto"])
@pytest.mark.parametrize("hard", HARD)
@pytest.mark.parametrize("ridge", ["auto", 0.0])
@pytest.mark.parametrize("to", [np.asarray, sp.csr_array])
def test_deficient_columns_change_nothing(solver, hard, ridge, to, rng):
    X, Y = random_problem(6)
    expected = cca(X, Y, 5)[0]
    views = small_blocks(ArrayViews(to(HARD[hard](X, rng)), to(HARD[hard](Y, rng))), rows=97)
    found = (
        solve(views, Problem(5, ridge=ridge), solver)[0]
        if solver == "auto"
        else SOLVERS[solver](views, Problem(5, ridge=ridge))
    )
    np.testing.assert_allclose(found.correlations, expected, atol=1e-7)
    assert all(np.all(np.isfinite(part)) for part in found[:9])


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("to", [np.asarray, sp.csr_array])
def test_columns_of_any_scale(solver, to, rng):
    X, Y = random_problem(7)
    expected = SOLVERS[solver](ArrayViews(X, Y), Problem(5)).correlations
    dx, dy = 10.0 ** np.linspace(-150, 150, 9), 10.0 ** np.linspace(150, -150, 7)
    found = SOLVERS[solver](small_blocks(ArrayViews(to(X * dx), to(Y * dy))), Problem(5))
    np.testing.assert_allclose(found.correlations, expected, atol=1e-6)
    assert all(np.all(np.isfinite(part)) for part in found[:9])


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("to", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("ridge", ["auto", 0.0])
def test_columns_far_from_zero(solver, to, ridge, rng):
    X, Y = random_problem(8)
    X, Y = X / X.std(axis=0), Y / Y.std(axis=0)
    X0, Y0 = X - X.mean(axis=0), Y - Y.mean(axis=0)
    expected = SOLVERS[solver](ArrayViews(X0, Y0), Problem(5, ridge=ridge)).correlations
    far_x, far_y = 10.0 ** np.linspace(0, 8, 9), -(10.0 ** np.linspace(8, 0, 7))
    found = SOLVERS[solver](small_blocks(ArrayViews(to(X0 + far_x), to(Y0 + far_y))), Problem(5, ridge=ridge))
    np.testing.assert_allclose(found.correlations, expected, atol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("to", [np.asarray, sp.csr_array])
def test_uint8_does_not_overflow(solver, to, rng):
    X = rng.integers(0, 256, (400, 6), dtype=np.uint8)
    Y = (X[:, :4] // 2 + rng.integers(0, 100, (400, 4))).astype(np.uint8)
    found = SOLVERS[solver](ArrayViews(to(X), to(Y)), Problem(3)).correlations
    np.testing.assert_allclose(found, cca(X, Y, 3)[0], atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_float32_data(solver):
    X, Y = (m.astype(np.float32) for m in random_problem(9))
    expected = cca(X, Y, 4)[0]
    found = SOLVERS[solver](small_blocks(ArrayViews(X, Y)), Problem(4, ridge=0.0)).correlations
    np.testing.assert_allclose(found, expected, atol=1e-7)
    # The default ridge for single precision, 1e-6, is more than rounding and less than matters.
    found = SOLVERS[solver](small_blocks(ArrayViews(X, Y)), Problem(4)).correlations
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_qr_is_accurate_where_covariances_are_not():
    rho = [0.9, 0.6, 0.3]
    p = planted(500, 10, 8, rho, condition=1e9, exact=True, random_state=0)
    views = ArrayViews(p.X, p.y)
    found = SOLVERS["qr"](views, Problem(3, ridge=0.0)).correlations
    np.testing.assert_allclose(found, rho, atol=1e-5)
    squared = SOLVERS["exact"](views, Problem(3, ridge=0.0)).correlations
    assert np.abs(squared - rho).max() > 1e-3
    solution, choice = solve(views, Problem(3, ridge=0.0), "auto")
    assert choice.solver == "qr"
    assert "ill-conditioned" in choice.reason
    np.testing.assert_allclose(solution.correlations, rho, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("solver", ["exact", "qr"])
def test_small_columns_beside_large_ones_count_with_a_ridge(dtype, solver):
    """In units in which the ridge is the same for all, columns differ in length: none is lost for that."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((400, 3))
    X = (z + rng.standard_normal((400, 3))).astype(dtype)
    Y = np.c_[z + rng.standard_normal((400, 3)), 1e6 * rng.standard_normal((400, 7))].astype(dtype)
    found = SOLVERS[solver](ArrayViews(X, Y), Problem(3, ridge=0.1)).correlations
    np.testing.assert_allclose(found, cca(X.astype(float), Y.astype(float), 3, ridge=0.1)[0], atol=1e-4)


def test_auto_says_why(rng):
    X, Y = rng.standard_normal((50, 4)), rng.standard_normal((50, 3))
    assert solve(ArrayViews(X, Y), Problem(2), "auto")[1] == (
        "exact",
        "the covariances of 4 + 3 columns fit into the memory budget (4 kB), and one pass is expected to "
        "take less time than iterating",
    )
    reason = solve(ArrayViews(X.T.copy(), X.T[:, :9].copy()), Problem(1), "auto")[1].reason
    assert reason == "there are more columns than rows, so it works on the 4 x 4 side"


def test_too_large_for_this_machine_is_refused_before_any_pass():
    class Untouchable(ArrayViews):
        def parts(self, dtype=None):
            raise AssertionError("a pass was made")

    wide = sp.csr_array((10**6, 10**6))
    with pytest.raises(ValueError, match=r"needs about \d+\.\d TB .* use solver='lobpcg', or 'auto'"):
        solve(Untouchable(wide, wide), Problem(2), "exact")


@pytest.mark.parametrize("solver", SOLVERS)
def test_above_the_rank(solver, rng):
    X = rng.standard_normal((50, 2)) @ rng.standard_normal((2, 6))
    with pytest.raises(ValueError, match=r"n_components=3 is above the rank of the data \(X 2, y 4\)"):
        SOLVERS[solver](ArrayViews(X, rng.standard_normal((50, 4))), Problem(3))
    with pytest.raises(ValueError, match="remove constant columns"):
        SOLVERS[solver](ArrayViews(np.ones((50, 3)), X), Problem(1))


@pytest.mark.parametrize("solver", ["exact", "qr"])
def test_perfect_correlation(solver, rng):
    X = rng.standard_normal((80, 5))
    found = SOLVERS[solver](
        ArrayViews(X, X @ rng.standard_normal((5, 5))), Problem(5, ridge=0.0)
    ).correlations
    np.testing.assert_allclose(found, 1.0, atol=1e-10)
    assert np.all(found <= 1.0)


def test_error_bounds_and_residuals_are_at_rounding_level():
    X, Y = random_problem(0)
    for solver in SOLVERS.values():
        found = solver(ArrayViews(X, Y), Problem(3))
        assert found.error_bounds.max() < 1e-10
        assert found.residuals.max() < 1e-10


@pytest.mark.parametrize("solver", ["exact", "qr"])
@pytest.mark.parametrize("seed", [42, 48, 532])
def test_all_components_where_correlations_coincide(solver, seed):
    """LAPACK's eigenvectors by index come back too few on some of these."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((100, 24))
    found = SOLVERS[solver](ArrayViews(X, X), Problem(4, ridge=0.0))
    np.testing.assert_allclose(found.correlations, np.ones(4), atol=1e-9)
    wide = SOLVERS[solver](
        ArrayViews(rng.standard_normal((40, 60)), rng.standard_normal((40, 60))), Problem(3, ridge=0.0)
    )
    np.testing.assert_allclose(wide.correlations, np.ones(3), atol=1e-9)


@pytest.mark.parametrize("small", [1e-6, 1e-8, 1e-10])
def test_auto_does_not_drop_a_nearly_dependent_column(small):
    a, b, c, d = np.random.default_rng(0).standard_normal((4, 200))
    X, Y = np.c_[a, a + small * b], np.c_[b + 0.5 * c, d]
    solution, choice = solve(ArrayViews(X, Y), Problem(1, ridge=0.0), "auto")
    assert choice.solver == "qr"
    expected = cca(np.c_[a, b], Y, 1)[0]
    np.testing.assert_allclose(solution.correlations, expected, atol=1e-4)


def test_auto_does_not_drop_small_directions_of_wide_data(rng):
    Q = np.linalg.qr((L := rng.standard_normal((60, 5))) - L.mean(axis=0))[0]
    X = 100 * (Q * np.geomspace(1, 1e-8, 5)) @ np.linalg.qr(rng.standard_normal((200, 5)))[0].T
    Y = np.c_[3 * Q[:, -1] + 0.2 * rng.standard_normal(60), rng.standard_normal((60, 2))]
    solution, choice = solve(ArrayViews(X, Y), Problem(1, ridge=0.0), "auto")
    assert choice.solver == "qr"
    np.testing.assert_allclose(solution.correlations, cca(Q, Y, 1)[0], atol=1e-4)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("ridge", [1e6, 1e14, 1e20, 1e300])
def test_huge_ridge(solver, ridge):
    """In the limit, directions of greatest covariance; scores keep unit variance."""
    X, Y = random_problem(2)
    found = SOLVERS[solver](ArrayViews(X, Y), Problem(2, ridge=ridge))
    U = (X - found.mean_x) @ found.x_weights
    np.testing.assert_allclose(U.std(axis=0), 1, atol=1e-8)
    P = np.linalg.svd(covariances(X, Y)[1])[0][:, :2]
    np.testing.assert_allclose(projection(found.x_weights, np.eye(9)), P @ P.T, atol=1e-4)


def test_qr_takes_no_rounding_for_a_direction(rng):
    t = 1.7e9 + rng.random(100) * 1e4
    views = ArrayViews(np.c_[t, t / 3600, t * 1.8 + 32], rng.standard_normal((100, 2)))
    expected = SOLVERS["exact"](views, Problem(1)).correlations
    found = SOLVERS["qr"](views, Problem(1, ridge=0.0)).correlations
    np.testing.assert_allclose(found, expected, atol=1e-4)
    with pytest.raises(ValueError, match="X 1, y 2"):
        SOLVERS["qr"](views, Problem(2, ridge=0.0))


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e30, 1e37])
def test_float32_of_any_scale(solver, scale):
    X, Y = random_problem(9)
    X, Y = X - X.mean(axis=0), Y.astype(np.float32)
    expected = SOLVERS[solver](ArrayViews(X.astype(np.float32), Y), Problem(3)).correlations
    found = SOLVERS[solver](ArrayViews((X * scale).astype(np.float32), Y), Problem(3))
    np.testing.assert_allclose(found.correlations, expected, atol=1e-5)
    assert all(np.all(np.isfinite(part)) for part in found[:9])


@pytest.mark.parametrize("solver", SOLVERS)
def test_float32_values_next_to_each_other_are_information(solver, rng):
    bits = rng.random((300, 2)) < 0.5
    X = (16777214 + bits).astype(np.float32)
    Y = (bits + 0.3 * rng.standard_normal((300, 2))).astype(np.float32)
    found = SOLVERS[solver](ArrayViews(X, Y), Problem(2)).correlations
    np.testing.assert_allclose(found, cca(bits, Y, 2)[0], atol=1e-4)


@pytest.mark.parametrize("solver", ["exact", "qr", "by_rows"])
def test_squares_that_overflow_only_when_blocks_are_merged(solver, rng):
    X = rng.standard_normal((300, 3))
    X[:, 1] = np.where(np.arange(300) < 150, 0.0, 1e200)
    views = small_blocks(ArrayViews(X, rng.standard_normal((300, 2))), rows=50)
    with pytest.raises(ValueError, match="column 1 of X are too large to be squared"):
        SOLVERS[solver](views, Problem(1))


@pytest.mark.parametrize("offset", [1e4, 1e6, 1e8])
def test_collinear_columns_far_from_zero(offset, rng):
    Z = rng.standard_normal((60, 2))
    X = np.c_[Z, Z[:, 0] + Z[:, 1], Z[:, 0] - Z[:, 1]] + offset
    views = ArrayViews(X, rng.standard_normal((60, 8)))
    expected = cca(Z, views.y, 2)[0]
    for solver in SOLVERS.values():
        for ridge in ("auto", 0.0):
            found = solver(views, Problem(2, ridge=ridge)).correlations
            np.testing.assert_allclose(found, expected, atol=1e-6)


def test_rank_under_a_ridge_does_not_depend_on_units(rng):
    X = rng.standard_normal((100, 5)) @ rng.standard_normal((5, 9)) * 10.0 ** rng.uniform(-8, 8, 9)
    views = ArrayViews(X, rng.standard_normal((100, 7)))
    assert np.all(np.isfinite(SOLVERS["exact"](views, Problem(5, ridge=0.1)).x_weights))
    with pytest.raises(ValueError, match=r"\(X 5, y 7\)"):
        SOLVERS["exact"](views, Problem(6, ridge=0.1))


def test_qr_of_sparse_data_does_not_fill_memory(rng):
    import tracemalloc

    X, Y = (sp.random_array((60000, 200), density=0.002, rng=rng, format="csr") for _ in range(2))
    tracemalloc.start()
    SOLVERS["qr"](ArrayViews(X, Y), Problem(2))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150 * 2**20 < 60000 * 400 * 8


def test_qr_with_more_columns_than_rows_in_a_block(rng):
    X, Y = rng.standard_normal((400, 30)), rng.standard_normal((400, 30))
    views = small_blocks(ArrayViews(X, Y), rows=7)
    check_solution(SOLVERS["qr"](views, Problem(3)), X, Y, 3)
