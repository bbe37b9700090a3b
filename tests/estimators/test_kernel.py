"""KernelCCA: comparison with the textbook and with linear CCA, relations that are not linear."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import naive
from appgrad import CCA, KernelCCA, OverfitWarning, load
from appgrad.covariance.gram import GramCovariance
from appgrad.covariance.moments import moments
from appgrad.covariance.units import KernelRidge, units
from appgrad.data.arrays import ArrayViews
from appgrad.data.kernel_fitting import Asked, grams
from appgrad.solvers import registry
from appgrad.solvers.appgrad import AppGrad
from helpers import failed_checks, in_phase, quiet, sparse_counts
from kernel_problems import assert_same_scores, circle, related, xor

KERNELS = {
    "rbf": {"gamma": 0.2},
    "linear": {},
    "poly": {"gamma": 0.3, "degree": 2, "coef0": 0.5},
    "cosine": {},
}
# How each solver is run to be compared, and how exact it then is.
SOLVERS = {
    "exact": ({}, 1e-9),
    "qr": ({}, 1e-9),
    "lobpcg": ({"tol": 1e-13}, 1e-6),
    "als": ({"tol": 1e-12}, 1e-5),
    "appgrad": ({"tol": 1e-8}, 1e-4),
    "stochastic": ({"max_passes": 200, "batch_size": 40}, 2e-3),
}


def test_every_solver_of_kernel_problems_is_listed():
    assert set(SOLVERS) == set(registry.names(registry.KERNEL)) - {registry.AUTO}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_agrees_with_the_textbook(kernel, solver, rng):
    X, Y, Xt, Yt = related(rng, extra=30)
    options, atol = SOLVERS[solver]
    model = KernelCCA(2, kernel=kernel, ridge=(0.02, 0.05), solver=solver, random_state=0, **options)
    model.set_params(**KERNELS[kernel])
    model = quiet(model, X, Y)
    grams = [naive.kernel(kernel, m, m, **KERNELS[kernel]) for m in (X, Y)]
    rho, a, b = naive.kernel_cca(*grams, 2, 0.02, 0.05)
    np.testing.assert_allclose(model.canonical_correlations_, rho, atol=atol)
    expected = []
    for K, m, new, w in zip(grams, (X, Y), (Xt, Yt), (a, b), strict=True):
        scores = naive.centred(K, K) @ w
        there = naive.centred(naive.kernel(kernel, new, m, **KERNELS[kernel]), K)
        expected.append(there @ w / scores.std(axis=0))
    assert_same_scores(
        model.transform(Xt, Yt), expected, 30 * np.sqrt(atol) if solver == "stochastic" else 30 * atol
    )
    U, V = model.transform(X, Y)
    np.testing.assert_allclose(U.mean(axis=0), 0, atol=1e-9)
    np.testing.assert_allclose(U.std(axis=0), 1, rtol=1e-6)
    found = [np.corrcoef(u, v)[0, 1] for u, v in zip(U.T, V.T, strict=True)]
    np.testing.assert_allclose(model.training_correlations_, found, atol=1e-6)


@pytest.mark.parametrize("ridge", [1e-6, 0.05, (0.5, 2.0)])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(
    "params",
    [{"solver": solver} for solver in ("exact", "lobpcg", "als", "appgrad")]
    + [{"approximation": "nystroem", "n_landmarks": 40}],
)
def test_a_linear_kernel_is_linear_cca_at_every_ridge(ridge, center, params, rng):
    X, Y = rng.standard_normal((90, 5)) + 1, rng.standard_normal((90, 4)) - 2
    Y[:, :2] += X[:, :2]
    Xt, Yt = rng.standard_normal((20, 5)), rng.standard_normal((20, 4))
    linear = CCA(2, ridge=ridge, center=center).fit(X, Y)
    tol = 1e-9 if params.get("solver") == "appgrad" else 1e-7
    model = KernelCCA(2, kernel="linear", ridge=ridge, center=center, tol=tol, random_state=0, **params)
    model = quiet(model, X, Y)
    np.testing.assert_allclose(model.canonical_correlations_, linear.canonical_correlations_, atol=1e-7)
    np.testing.assert_allclose(model.training_correlations_, linear.training_correlations_, atol=1e-5)
    # At the smallest ridge lobpcg warns that rounding matters: the Gram matrices have ranks of 5 and 4.
    atol = 5e-4 if params.get("solver") == "lobpcg" and ridge == 1e-6 else 1e-4
    assert_same_scores(model.transform(Xt, Yt), linear.transform(Xt, Yt), atol)


@pytest.mark.parametrize("approximation", [None, "nystroem", "fourier"])
@pytest.mark.parametrize("problem", [circle, xor])
def test_finds_what_linear_cca_does_not(problem, approximation, rng):
    X, Y = problem(rng, 600)
    Xt, Yt = problem(rng, 600)
    assert abs(CCA(1).fit(X, Y).score(Xt, Yt)) < 0.15
    model = KernelCCA(1, approximation=approximation, n_landmarks=100, random_state=0).fit(X, Y)
    assert model.score(Xt, Yt) > (0.9 if problem is circle else 0.75)


def test_the_paper_s_fixed_point_on_gram_matrices(rng):
    """Section 2.4: AppGrad on K_X and K_Y stays at the canonical vectors times their correlations."""
    X, Y, *_ = related(rng)
    model = KernelCCA(2, ridge=0.01, solver="exact").fit(X, Y)
    asked = tuple(Asked("rbf", gamma, 3, 1.0) for gamma in model.gamma_)
    found = grams(ArrayViews(X, Y), asked, True, rng)
    m = moments(found.views, center=False)
    u = units(m, np.dtype(float), ridge=tuple(KernelRidge(0.01, d) for d in found.diagonals))
    cov = GramCovariance(found.views, m, u, (0.01, 0.01))
    phi, psi = model.x_weights_, model.y_weights_
    Gx, _, Gy = cov.grams(phi, psi)
    phi, psi = phi @ naive.inverse_root(Gx), psi @ naive.inverse_root(Gy)
    phi, psi = in_phase(phi, psi, cov.products(phi, psi)[1] @ np.linalg.pinv(psi))
    rho = model.canonical_correlations_
    np.testing.assert_allclose(np.diag(phi.T @ cov.products(phi, psi)[1]), rho, atol=1e-8)
    solver = AppGrad(2, (1.0, 1.0))
    state, _ = solver.start(cov, phi * rho, psi * rho)
    after, diagnostics = solver.step(state, cov)
    np.testing.assert_allclose(after.phi_t, state.phi_t, atol=1e-7 * np.abs(phi).max())
    np.testing.assert_allclose(after.psi_t, state.psi_t, atol=1e-7 * np.abs(psi).max())
    np.testing.assert_allclose(diagnostics.tcc, rho.sum(), atol=1e-8)
    # Elsewhere it does move.
    state, _ = solver.start(
        cov, phi * rho + 0.1 * rng.standard_normal(phi.shape) * np.abs(phi).max(), psi * rho
    )
    after, _ = solver.step(state, cov)
    assert np.abs(after.phi_t - state.phi_t).max() > 1e-3 * np.abs(phi).max()


@pytest.mark.parametrize("n", [300, 1000])
@pytest.mark.parametrize("p", [1, 2, 3, 40])
def test_the_default_ridge_keeps_noise_low(p, n, rng):
    """In two dimensions some rows lie apart, and functions could be there for one of them."""
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, p))
    model = KernelCCA(1).fit(X, Y)
    assert model.canonical_correlations_[0] < 0.5
    assert model.training_correlations_[0] < 0.85


def test_without_a_ridge_noise_is_said(rng):
    with pytest.warns(OverfitWarning, match=r"have 58 and 58 dimensions for 60 rows.*larger ridge"):
        free = KernelCCA(1, gamma=1.0, ridge=1e-9).fit(
            rng.standard_normal((60, 20)), rng.standard_normal((60, 20))
        )
    assert free.canonical_correlations_[0] > 0.99


def test_functions_of_too_many_dimensions_are_said(rng):
    x = rng.uniform(-2, 2, (300, 2))
    y = np.column_stack([x[:, 0] ** 2 - x[:, 1], rng.standard_normal(300)])
    # Eigenvalues of K end in rounding, which is said too.
    with (
        pytest.warns(ConvergenceWarning, match="rounding"),
        pytest.warns(OverfitWarning, match="for 300 rows"),
    ):
        KernelCCA(1, ridge=0).fit(x, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        KernelCCA(1).fit(x, y)
    features = KernelCCA(1, ridge=1e-12, solver="lobpcg", random_state=0)
    with (
        pytest.warns(ConvergenceWarning, match="rounding"),
        pytest.warns(OverfitWarning, match=r"functions with 60 and 60 weights fit 60 rows.*larger ridge"),
    ):
        features.fit(*rng.standard_normal((2, 60, 20)))


def test_rows_learnt_by_heart_are_said(rng):
    with pytest.warns(OverfitWarning, match="by heart"):
        model = KernelCCA(1, gamma=0.5).fit(rng.standard_normal((60, 50)), rng.standard_normal((60, 50)))
    assert model.canonical_correlations_[0] < 0.2


def test_auto_is_direct_where_gram_matrices_fit(rng):
    X, Y, *_ = related(rng)
    model = KernelCCA(1).fit(X, Y)
    assert model.solver_ == "exact"
    assert "120 x 120 Gram matrices" in model.solver_reason_
    with config_context(working_memory=1):
        model = KernelCCA(1, random_state=0, ridge=0.1).fit(X, Y)
    assert model.solver_ == "lobpcg"
    assert "budget" in model.solver_reason_


def test_precomputed_kernels(rng):
    X, Y, Xt, Yt = related(rng, extra=20)
    by_name = KernelCCA(2, gamma=0.2, ridge=0.01).fit(X, Y)
    Kx, Ky = (naive.kernel("rbf", m, m, 0.2) for m in (X, Y))
    model = KernelCCA(2, kernel="precomputed", ridge=0.01).fit(Kx, Ky)
    np.testing.assert_allclose(model.canonical_correlations_, by_name.canonical_correlations_, atol=1e-10)
    new = naive.kernel("rbf", Xt, X, 0.2), naive.kernel("rbf", Yt, Y, 0.2)
    assert_same_scores(model.transform(*new), by_name.transform(Xt, Yt), 1e-7)
    mixed = KernelCCA(2, kernel=("precomputed", "rbf"), gamma=(None, 0.2), ridge=0.01).fit(Kx, Y)
    np.testing.assert_allclose(mixed.canonical_correlations_, by_name.canonical_correlations_, atol=1e-10)
    # What is positive definite once it is centred is a kernel too: minus the squared distance.
    distances = -((X[:, None] - X) ** 2).sum(axis=2) / 2
    linear = KernelCCA(2, kernel="linear", ridge=0.01).fit(X, Y)
    model = KernelCCA(2, kernel=("precomputed", "linear"), ridge=0.01).fit(distances, Y)
    np.testing.assert_allclose(model.canonical_correlations_, linear.canonical_correlations_, atol=1e-8)
    with pytest.raises(ValueError, match=r"expecting 120 features.*training rows"):
        model.transform(new[0][:, :50])
    # Grid search takes rows and columns of the first kernel.
    search = GridSearchCV(KernelCCA(1, kernel=("precomputed", "rbf")), {"ridge": [0.1, 1.0]}, cv=3).fit(Kx, Y)
    assert search.best_score_ > 0.5


def test_a_kernel_function_takes_two_matrices(rng):
    X, Y, Xt, Yt = related(rng, extra=20)

    def laplace(a, b):
        return np.exp(-0.3 * np.abs(a[:, None] - b).sum(axis=2))

    model = KernelCCA(2, kernel=(laplace, "linear"), ridge=0.01).fit(X, Y)
    other = KernelCCA(2, kernel=("precomputed", "linear"), ridge=0.01).fit(laplace(X, X), Y)
    np.testing.assert_allclose(model.canonical_correlations_, other.canonical_correlations_, atol=1e-10)
    assert_same_scores([model.transform(Xt)], [other.transform(laplace(Xt, X))], 1e-8)
    assert model.gamma_ == (None, None)
    model = KernelCCA(1, kernel=laplace, approximation="nystroem", n_landmarks=50, random_state=0).fit(X, Y)
    assert model.score(Xt, Yt) > 0.5


def test_units_and_offsets_of_the_columns_do_not_matter(rng):
    X, Y, Xt, _ = related(rng, extra=20)
    plain = KernelCCA(2, random_state=0).fit(X, Y)
    for scale, offset in ((1e-6, 0.0), (1e6, 0.0), (1.0, 1e7)):
        model = KernelCCA(2, random_state=0).fit(scale * X + offset, Y)
        atol = 1e-6 if offset == 0 else 1e-3
        np.testing.assert_allclose(model.canonical_correlations_, plain.canonical_correlations_, atol=atol)
        assert_same_scores([model.transform(scale * Xt + offset)], [plain.transform(Xt)], 100 * atol)
    # Uncentred distances would have an error of 1e-2 here.
    shifted = KernelCCA(2, kernel="linear", ridge=0.1).fit(X + 1e8, Y)
    linear = KernelCCA(2, kernel="linear", ridge=0.1).fit(X, Y)
    np.testing.assert_allclose(shifted.canonical_correlations_, linear.canonical_correlations_, atol=1e-6)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"kernel": "poly", "degree": 2},
        {"approximation": "nystroem", "n_landmarks": 30},
        {"approximation": "fourier", "n_landmarks": 30},
        {"kernel": "precomputed"},
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_saved_model_scores_as_before(params, sparse, rng, tmp_path):
    X, Y = sparse_counts(rng)
    new = X[:7], Y[:7]
    if params.get("kernel") == "precomputed":
        X, Y = X @ X.T, Y @ Y.T
        new = X[:7], Y[:7]
    if sparse:
        X, Y, new = sp.csr_array(X), sp.csr_array(Y), tuple(map(sp.csr_array, new))
    model = quiet(KernelCCA(2, random_state=0, **params), X, Y)
    model.save(tmp_path / "m.cca")
    again = load(tmp_path / "m.cca")
    assert isinstance(again, KernelCCA)
    assert again.get_params() == model.get_params()
    assert (again.gamma_, again.ridge_) == (model.gamma_, model.ridge_)
    for ours, theirs in zip(again.transform(*new), model.transform(*new), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_kernel_function_is_not_saved(rng, tmp_path):
    X, Y, *_ = related(rng)
    model = KernelCCA(1, kernel=lambda a, b: a @ b.T, ridge=0.1).fit(X, Y)
    with pytest.raises(ValueError, match="cannot be saved"):
        model.save(tmp_path / "m.cca")
    assert not list(tmp_path.iterdir())


def test_a_run_on_gram_matrices_goes_on_from_its_checkpoint(rng, tmp_path):
    X, Y, *_ = related(rng)
    path = tmp_path / "run.npz"
    model = KernelCCA(2, ridge=0.01, solver="lobpcg", tol=1e-10, max_iter=70, random_state=0)
    whole = quiet(clone(model), X, Y)
    quiet(clone(model).set_params(checkpoint=(str(path), 0), max_iter=3), X, Y)
    rest = quiet(clone(model).set_params(checkpoint=(str(path), 0)), X, Y)
    assert rest.resumed_from_iteration_ == 3
    np.testing.assert_array_equal(rest.x_weights_, whole.x_weights_)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "params", [{}, {"kernel": "linear"}, {"approximation": "nystroem", "n_landmarks": 20}]
)
def test_scikit_learn_checks(params):
    assert not failed_checks(KernelCCA(1, **params))


def test_float32_in_float32_out(rng):
    X, Y, *_ = related(rng)
    model = KernelCCA(1).fit(X.astype(np.float32), Y.astype(np.float32))
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    reference = KernelCCA(1).fit(X, Y)
    np.testing.assert_allclose(model.canonical_correlations_, reference.canonical_correlations_, atol=1e-4)


def test_repeated_rows_make_no_difference(rng):
    """A Gram matrix of repeated rows is singular."""
    X, Y, Xt, Yt = related(rng, n=60, extra=20)
    once = KernelCCA(2, gamma=0.2, ridge=0.01).fit(X, Y)
    for solver in ("exact", "lobpcg"):
        model = KernelCCA(2, gamma=0.2, ridge=0.01, solver=solver, tol=1e-9, random_state=0)
        twice = quiet(model, np.vstack([X, X]), np.vstack([Y, Y]))
        np.testing.assert_allclose(twice.canonical_correlations_, once.canonical_correlations_, atol=1e-7)
        assert_same_scores(twice.transform(Xt, Yt), once.transform(Xt, Yt), 1e-4)


def test_convergence_is_said(rng):
    X, Y, *_ = related(rng)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        KernelCCA(1, ridge=0.01, solver="lobpcg", max_iter=2, tol=1e-10, random_state=0).fit(X, Y)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "cosine", "poly", "linear"])
def test_rows_that_change_later_make_no_difference(kernel, sparse, rng):
    X, Y, Xt, _ = related(rng, n=100, extra=20)
    rows = sp.csr_array(X) if sparse else X.copy()
    model = KernelCCA(1, kernel=kernel, center=False, ridge=0.01).fit(rows, Y)
    before = model.transform(Xt)
    (rows.data if sparse else rows)[...] = 0
    np.testing.assert_array_equal(model.transform(Xt), before)


def test_only_the_kernel_of_x_is_cut_into_folds():
    assert KernelCCA(kernel=("precomputed", "rbf")).__sklearn_tags__().input_tags.pairwise
    assert not KernelCCA(kernel=("rbf", "precomputed")).__sklearn_tags__().input_tags.pairwise


@pytest.mark.parametrize("decades", [3, 4, 5])
@pytest.mark.parametrize("solver", ["als", "lobpcg"])
def test_a_result_with_large_residuals_is_never_silent(solver, decades):
    """Steps lose weak directions of a Gram matrix in rounding, and end by residuals that do not see them."""
    tried = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, Y = rng.standard_normal((2, 60, 4))
        Y[:, :2] += X[:, :2]
        Y *= np.logspace(0, -decades, 4)
        # Runs that converge take up to 511 iterations.
        model = KernelCCA(
            3, kernel="linear", solver=solver, ridge=(1e-3, 1e-12), max_iter=600, random_state=0
        )
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                model.fit(X, Y)
            except ValueError:  # the rank of the data
                continue
        tried += 1
        warned = any(issubclass(w.category, ConvergenceWarning) for w in said)
        assert warned or model.residuals_.max() <= 10 * model.tol
    assert tried
