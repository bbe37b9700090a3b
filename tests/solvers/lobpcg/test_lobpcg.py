"""LOBPCG: its iterations, and its own figures of accuracy."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

import naive
from appgrad import CCA
from appgrad.covariance.moments import moments
from appgrad.covariance.preconditioners import exact, jacobi
from appgrad.covariance.rows import RowCovariance
from appgrad.covariance.units import units
from appgrad.data.arrays import ArrayViews
from appgrad.data.derived import CountedViews
from appgrad.datasets import planted
from appgrad.fitting.remarks import shortfall_remarks
from appgrad.fitting.solving import run
from appgrad.solvers.lobpcg.algebra import mixture
from appgrad.solvers.lobpcg.iteration import LOBPCG, REFRESH
from appgrad.solvers.problem import Limits, Problem, Progress
from appgrad.solvers.protocol import Options
from helpers import operator
from lobpcg_helpers import fitted


def states(solver, cov, width, steps):
    """All states and reports of a run."""
    found = [solver.init(cov, width, np.random.default_rng(0))]
    for _ in range(steps):
        found.append(solver.step(found[-1][0], cov))
    return found


# How it goes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_carried_products_are_those_of_the_columns(dtype, data):
    """After many iterations, what is carried is what would be computed anew, to rounding."""
    cov = operator(*data)
    solver = LOBPCG(3, jacobi(cov), tol=0, single=dtype == np.float32)
    state = solver.init(cov, 8, np.random.default_rng(0))[0]
    for _ in range(10):
        state = solver.step(state, cov)[0]
    assert state.pairs.A.dtype == dtype
    eps = np.finfo(dtype).eps
    for vectors in (state.pairs, state.moves):
        for carried, anew in zip(vectors.products, cov.products(vectors.A, vectors.B), strict=True):
            np.testing.assert_allclose(carried, anew, atol=300 * eps * np.abs(anew).max())
    A, B = (np.hstack(pair) for pair in zip(state.pairs[:2], state.moves[:2], strict=True))
    for carried, anew in zip(state.grams[:3], cov.grams(A, B), strict=True):
        # Moves are scaled up to unit variance, and their errors with them.
        np.testing.assert_allclose(carried, anew, atol=1e-3 if dtype == np.float32 else 1e-10)


def test_every_iteration_captures_more(data):
    cov = operator(*data)
    tcc = [diagnostics.tcc for _, diagnostics in states(LOBPCG(3, jacobi(cov), tol=0), cov, 8, REFRESH + 5)]
    assert np.all(np.diff(tcc) > -1e-10)
    best = naive.cca(*data, 3)[0].sum()
    assert tcc[-1] < best + 1e-9
    assert tcc[-1] > 0.99999 * best


def test_moves_pay(data):
    """Without the last moves this is steepest descent, and much slower."""
    cov = operator(*data)
    solver = LOBPCG(3, jacobi(cov), tol=0)
    state = solver.init(cov, 8, np.random.default_rng(0))[0]
    best = naive.cca(*data, 3)[0].sum()
    for _ in range(12):
        none = state.moves._replace(
            A=state.moves.A[:, :0],
            B=state.moves.B[:, :0],
            products=tuple(C[:, :0] for C in state.moves.products),
        )
        c = state.pairs.A.shape[1]
        grams = type(state.grams)(*(G[:c, :c] for G in state.grams[:3]))
        state, diagnostics = solver.step(state._replace(moves=none, grams=grams), cov)
    with_moves = states(solver, cov, 8, 12)[-1][1]
    assert best - with_moves.tcc < 0.2 * (best - diagnostics.tcc)


def test_the_exact_preconditioner_needs_few_iterations(data):
    cov = operator(*data, dense=True)
    runs = {
        name: states(LOBPCG(3, M, tol=0), cov, 8, 6)[-1][1]
        for name, M in (("jacobi", jacobi(cov)), ("exact", exact(cov)))
    }
    assert runs["exact"].residual < 1e-4
    assert runs["jacobi"].residual > 1e-3
    rx, ry = np.ones((40, 1)), np.ones((30, 1))
    zx, zy = exact(cov)(rx, ry)
    xx, yy = cov.squares(zx, zy)
    np.testing.assert_allclose(xx, rx, atol=1e-8)
    np.testing.assert_allclose(yy, ry, atol=1e-8)


def test_converged_pairs_are_locked(data):
    """Their residuals ask for no products any more."""
    widths = []

    class Watched(RowCovariance):
        def products(self, A, B, ridge=True):
            widths.append(A.shape[1])
            return super().products(A, B, ridge)

    cov = operator(*data)
    cov = Watched(cov.views, cov.moments, cov.units)
    solver = LOBPCG(5, jacobi(cov), tol=1e-6)
    state, diagnostics = solver.init(cov, 10, np.random.default_rng(0))
    for _ in range(100):
        if diagnostics.converged:
            break
        open_pairs = int(np.count_nonzero(state.residuals >= state.tol))
        state, diagnostics = solver.step(state, cov)
        assert widths[-1] == open_pairs
    assert min(widths) < 10
    # A pair with the residual r misses about r^2 of its correlation.
    assert np.all(state.residuals[:5] ** 2 < 1e-6)


@pytest.mark.parametrize(
    "budget", [{"max_iter": 3}, {"max_passes": 4}, {"max_seconds": 1e-9}, {"max_flops": 1}]
)
@pytest.mark.parametrize("sparse", [False, True])
def test_budgets(budget, sparse, words, data):
    X, Y = words if sparse else data
    with pytest.warns(ConvergenceWarning, match=f"lobpcg stopped at its {next(iter(budget))}"):
        model = CCA(3, solver="lobpcg", random_state=0, tol=0, **budget).fit(X, Y)
    assert np.all(np.isfinite(model.x_weights_))
    if "max_passes" in budget:
        assert model.n_passes_ <= 4
    if "max_iter" in budget:
        assert model.n_iter_[0] == 3


def test_sparse_rows_begin_in_single_precision_and_end_in_double(words):
    X, Y = words
    views = CountedViews(ArrayViews(X, Y))
    options, rng = Options("lobpcg", 1e-9, Limits(iterations=500)), np.random.default_rng(0)
    seen = [p.saved().diagnostics.A.dtype for p in run(views, Problem(5), options, rng)]
    assert seen[0] == np.float32
    assert seen[-1] == np.float64
    model, _ = fitted(X, Y, 5, tol=1e-9)
    best = CCA(5, solver="exact").fit(X, Y).canonical_correlations_
    np.testing.assert_allclose(model.canonical_correlations_, best, atol=1e-8)


def test_means_far_from_zero_are_not_left_to_single_precision(rng):
    X = rng.standard_normal((2000, 30)) * (rng.random((2000, 30)) < 0.3)
    X[:, 0] = 1e4 + rng.standard_normal(2000)
    Y = rng.standard_normal((2000, 20)) * (rng.random((2000, 20)) < 0.3)
    Y[:, 0] += X[:, 0] - 1e4
    model, _ = fitted(sp.csr_array(X), sp.csr_array(Y), 2)
    np.testing.assert_allclose(model.canonical_correlations_, naive.cca(X, Y, 2)[0], atol=1e-6)


def test_a_stalled_run_says_so(data):
    with pytest.warns(ConvergenceWarning, match=r"lobpcg stalls after \d+ iterations: it gains nothing"):
        CCA(3, solver="lobpcg", covariance="dense", tol=1e-40, random_state=0).fit(*data)


# What it says of its accuracy


@pytest.mark.parametrize("params", [{"covariance": "dense"}, {"ridge": 1.0}])
@pytest.mark.parametrize("iterations", [1, 2, 4])
def test_error_bounds_hold(params, iterations, data):
    """Each value is within its bound of a canonical correlation, and below the one it approaches."""
    X, Y = data
    ridge = params.get("ridge", 1e-10)
    truth = naive.cca(X, Y, 30, ridge=ridge)[0]
    model, _ = fitted(X, Y, 5, max_iter=iterations, tol=0, preconditioner="jacobi", **params)
    rho, bounds = model.canonical_correlations_, model.error_bounds_
    known = np.isfinite(bounds)
    distance = np.abs(rho[:, None] - truth).min(axis=1)
    assert np.all(distance[known] <= bounds[known] + 1e-12)
    assert np.all(rho <= truth[:5] + 1e-9)
    if "covariance" in params and iterations == 4:
        assert np.all(known)


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_zero_is_no_correlation_of_a_narrow_view(iterations, rng):
    """The pencil of a view of one column has zeros among its eigenvalues: no bound is to them."""
    X, Y = rng.standard_normal((1000, 1)), rng.standard_normal((1000, 60))
    Y[:, 0] += X[:, 0]
    truth = naive.cca(X, Y, 1)[0]
    for seed in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = CCA(
                1,
                solver="lobpcg",
                covariance="dense",
                preconditioner="jacobi",
                max_iter=iterations,
                random_state=seed,
            ).fit(X, Y)
        bound = model.error_bounds_[0]
        assert np.isnan(bound) or abs(model.canonical_correlations_[0] - truth[0]) <= bound


def test_no_bound_where_none_is_known(data):
    model, _ = fitted(*data, 3, ridge=0.0)
    assert np.all(np.isnan(model.error_bounds_))
    model, _ = fitted(*data, 3)
    assert not np.any(model.error_bounds_ > 0.1)


@pytest.mark.parametrize("preconditioner", ["jacobi", "lowrank", None])
def test_residuals_say_what_is_missing(preconditioner, data):
    """Relative, in the norm of the preconditioner, about sqrt(tol); checked from the weights."""
    X, Y = data
    model, _ = fitted(X, Y, 3, preconditioner=preconditioner, tol=1e-8, ridge=0.0)
    assert np.all(model.residuals_ < 1e-4)
    if preconditioner == "jacobi":
        Sx, Sxy, Sy = naive.covariances(X, Y)
        A, B, rho = model.x_weights_, model.y_weights_, model.canonical_correlations_
        rx, ry = Sxy @ B - Sx @ A * rho, Sxy.T @ A - Sy @ B * rho
        squares = sum(np.sum(r**2 / np.diag(S)[:, None], axis=0) for r, S in ((rx, Sx), (ry, Sy)))
        np.testing.assert_allclose(model.residuals_, np.sqrt(squares / 2) / rho[0], rtol=1e-3)


def test_moves_of_rounding_size_are_no_moves():
    """Their products would be nothing but rounding."""
    eps = float(np.finfo(np.float64).eps)
    C = np.vstack([np.eye(2), [[0.6, 0.0], [0.0, 10 * eps]]])
    assert mixture(C, np.eye(4), 2, eps, eps).O.shape == (2, 1)
    C[3, 1] = 1e5 * eps
    assert mixture(C, np.eye(4), 2, eps, eps).O.shape == (2, 2)


def test_columns_lost_grow_back(data):
    """From one pair, its residuals and moves to all that there should be."""
    cov = operator(*data)
    solver = LOBPCG(4, jacobi(cov), tol=1e-6)
    state, _ = solver.init(cov, 1, np.random.default_rng(0))
    state = state._replace(width=8)
    for _ in range(60):
        state, diagnostics = solver.step(state, cov)
    assert state.pairs.A.shape[1] == 8
    full = states(solver, cov, 8, 60)[-1][1]
    assert diagnostics.tcc == pytest.approx(full.tcc, rel=1e-6)


def test_no_pass_for_no_columns(data):
    """Right after the start there are no moves to be measured anew."""
    X, Y = data
    asked = []

    class Watched(RowCovariance):
        def products(self, A, B, ridge=True):
            asked.append(A.shape[1])
            return super().products(A, B, ridge)

    views = ArrayViews(X.astype(np.float32), Y.astype(np.float32))
    m = moments(views)
    cov = Watched(views, m, units(m, views.dtype))
    solver = LOBPCG(3, jacobi(cov), single=True)
    state, _ = solver.init(cov, 8, np.random.default_rng(0))
    state, _ = solver.step(state._replace(width=9), cov)
    assert 0 not in asked
    assert state.pairs.A.dtype == np.float64


def test_a_constant_column_of_any_size_is_quiet(rng):
    X, Y = rng.standard_normal((200, 4)), rng.standard_normal((200, 3))
    X[:, 0] = 1e200
    assert CCA(2, solver="lobpcg", random_state=0).fit(X, Y).x_weights_[0].max() == 0


def test_overflow_in_threads_is_quiet(rng):
    """numpy's settings reach the threads that work on blocks."""
    X, Y = rng.standard_normal((4000, 30)), rng.standard_normal((4000, 20))
    views = ArrayViews(X, Y, threads=2)
    views.block_rows = 500
    m = moments(views)
    cov = RowCovariance(views, m, units(m, views.dtype))
    with np.errstate(over="ignore", invalid="ignore"):
        cov.products(np.full((30, 2), 1e308), np.full((20, 2), 1e308))


def test_matrices_that_are_asked_for_are_used_by_auto(data):
    with config_context(working_memory=0.05):
        model = CCA(2, covariance="dense", random_state=0).fit(*data)
    assert (model.solver_, model.n_passes_) == ("lobpcg", 2.0)


@pytest.mark.parametrize("params", [{"covariance": "dense"}, {"ridge": 0.01}, {}])
@pytest.mark.parametrize("tol", [1e-12, 1e-16, 1e-20])
def test_tight_tolerances(params, tol, rng):
    """New columns are all rounding near the end: they must not spoil what has been reached."""
    n, draw = 2000, rng.standard_normal
    Z = draw((n, 6))
    X = Z @ draw((6, 30)) + draw((n, 2)) @ draw((2, 30)) + 3 * draw((n, 30))
    Y = Z @ draw((6, 20)) + draw((n, 2)) @ draw((2, 20)) + 3 * draw((n, 20))
    model, warned = fitted(X, Y, 4, tol=tol, **params)
    best = CCA(4, solver="exact", ridge=params.get("ridge", "auto")).fit(X, Y).canonical_correlations_
    np.testing.assert_allclose(model.canonical_correlations_, best, atol=1e-9)
    assert model.residuals_.max() < 1e-6
    assert warned or model.residuals_.max() < 10 * np.sqrt(tol)


def test_rounding_is_not_carried_on():
    """Columns that are all noise, carried on and amplified, once ended in an SVD that did not converge."""
    draw = np.random.default_rng(0).standard_normal
    Z = draw((2000, 6))
    X = Z @ draw((6, 30)) + 3 * draw((2000, 30))
    Y = Z @ draw((6, 20)) + 3 * draw((2000, 20))
    X += draw((2000, 2)) @ draw((2, 30))
    Y += draw((2000, 2)) @ draw((2, 20))
    model, _ = fitted(X, Y, 4, covariance="dense", tol=1e-16)
    assert model.residuals_.max() < 1e-7


def test_a_ridge_beyond_all_measure_is_refused(data):
    with pytest.raises(ValueError, match=r"at most \de-\d+, which solver='lobpcg' cannot find"):
        CCA(2, solver="lobpcg", ridge=1e200).fit(*data)
    with pytest.raises(ValueError, match="use a smaller ridge, or solver='exact'"):
        CCA(2, solver="lobpcg", ridge=1.0).fit(1e-100 * data[0], 1e-100 * data[1])


def short_problem():
    """Sparse rows on which a run of few passes is still on its way."""
    S = sp.random(2000, 200, 0.02, format="csr", random_state=1)
    return S, sp.csr_array(sp.random(2000, 150, 0.02, format="csr", random_state=2) + 0.5 * S[:, :150])


def test_more_passes_are_never_worse():
    found = []
    for passes in (2, 2.5, 3, 4, 6, 9, 10, 12):
        model, _ = fitted(*short_problem(), 3, max_passes=passes)
        found.append(model.canonical_correlations_.sum())
    # From ten passes on one of them measures anew what single precision has found.
    assert np.all(np.diff(found) > -1e-3)


@pytest.mark.parametrize(("residual", "warned"), [(0.009, False), (0.011, True)])
def test_a_budget_that_suffices_is_no_failure(residual, warned, data):
    """What a budget ended in single precision may turn out to have converged, measured in double."""
    views, progress = CountedViews(ArrayViews(*data)), Progress(7, 9.0, 1.0, 0.0, 1.0, lambda: None, "passes")
    found = CCA(1).fit(*data)
    solved = SimpleNamespace(
        correlations=np.full(1, 0.5),
        residuals=np.array([residual]),
        error_bounds=np.zeros(1),
        condition=np.nan,
        rounding=np.nan,
        crowded=None,
        known=False,
        unprobed=False,
        outside=0.0,
        x_weights=found.x_weights_,
        y_weights=found.y_weights_,
        std_x=found.x_std_,
        std_y=found.y_std_,
    )
    found = shortfall_remarks(progress, Options("lobpcg", 0.01, Limits(passes=9)), views, solved)
    assert bool(found) == warned


def test_advice_to_a_run_without_a_preconditioner():
    p = planted(2000, 30, 20, [0.9, 0.7], condition=10, random_state=0)
    scales = 10.0 ** (np.arange(20) - 10)
    with pytest.warns(ConvergenceWarning, match="use a preconditioner|stopped at its max_iter"):
        CCA(2, solver="lobpcg", preconditioner=None, max_iter=300, random_state=0).fit(
            p.X + 5e3, p.y * scales
        )
