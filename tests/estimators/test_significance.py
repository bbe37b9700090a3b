"""Tests of models: from every source of rows, by theory, by permutation and on held-out rows."""

import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import pearsonr
from sklearn.datasets import load_linnerud

from appgrad import CCA, SparseCCA
from appgrad.datasets import planted
from appgrad.solvers import registry
from trust_problems import FEW, quiet, silent_models


@pytest.fixture(scope="module")
def linnerud():
    exercise, physiology = load_linnerud(return_X_y=True)
    return physiology, exercise


@pytest.fixture(scope="module")
def data():
    p = planted(300, 8, 6, [0.8, 0.5], random_state=0)
    return p.X, p.y


def sources(X, Y):
    """Models of the same rows that have all correlations, by how they came to them."""
    n = len(X)
    stream, one, two = CCA(2), CCA(2), CCA(2)
    for rows in np.array_split(np.arange(n), 5):
        stream.partial_fit(X[rows], Y[rows])
    one.partial_fit(X[:100], Y[:100])
    two.partial_fit(X[100:], Y[100:])
    S = np.cov(np.hstack([X, Y]).T, bias=True)
    p = X.shape[1]
    return {
        "exact": CCA(2, solver="exact").fit(X, Y),
        "qr": CCA(2, solver="qr").fit(X, Y),
        "sparse": CCA(2, solver="exact").fit(sp.csr_array(X), sp.csr_array(Y)),
        "one component": CCA(1).fit(X, Y),
        "stream": stream,
        "merged": one.merge(two),
        "covariance": CCA.from_covariance(n, S[:p, :p], S[p:, p:], S[:p, p:], n_components=2),
    }


def test_every_source_of_sums_has_the_same_tests(data):
    found = sources(*data)
    expected = found["exact"].test()
    assert expected.method == "parametric"
    assert len(expected.p_values) == 6
    for name, model in found.items():
        test = model.test()
        np.testing.assert_allclose(test.p_values, expected.p_values, rtol=1e-6, err_msg=name)
        assert model.noise_level_ == found["exact"].noise_level_, name
        np.testing.assert_allclose(
            model.debiased_correlations()[:1], found["exact"].debiased_correlations()[:1], rtol=1e-6
        )


@FEW
@pytest.mark.parametrize("solver", registry.names(registry.LINEAR)[1:])
def test_other_solvers_need_the_rows(solver, data):
    model = quiet(CCA(2, solver=solver, random_state=0), *data)
    expected = CCA(2, solver="exact").fit(*data)
    assert model.noise_level_ == expected.noise_level_
    if registry.is_iterative(solver):
        with pytest.raises(ValueError, match=r"tests need all correlations: give rows, test\(X, y\)"):
            model.test()
    np.testing.assert_allclose(model.test(*data).p_values, expected.test().p_values, rtol=1e-6)


def test_one_column_each_is_the_test_of_a_correlation():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 1)), rng.standard_normal(40)
    model = quiet(CCA(1), x, y)
    r = np.corrcoef(x[:, 0], y)[0, 1]

    assert model.test().p_values[0] == pytest.approx(pearsonr(x[:, 0], y).pvalue, rel=1e-6)
    assert model.test().statistics["Roy's greatest root"].p == pytest.approx(model.test().p_values[0])
    assert model.canonical_correlations_[0] == pytest.approx(abs(r))


@FEW
def test_where_theory_is_silent_rows_are_permuted(data):
    methods = {}
    for reason, model in silent_models(*data).items():
        if "age" in reason:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = (
                model.test(*data, n_resamples=99, rng=0)
                if "force" not in reason
                else model.test(data[0][:13], data[1][:13], n_resamples=99, rng=0)
            )
        methods[reason] = found.method
        if "force" not in reason:
            assert found.p_values[0] <= 0.02, reason
            assert found.reason
    assert set(methods.values()) == {"permutation", "held-out"}
    assert methods["the ridge leaves"] == "permutation"


def test_permutations_of_a_ridge_are_those_of_refits(data):
    """The first step: correlations of fits to permuted rows, with the same ridge."""
    X, Y = data[0][:60], np.random.default_rng(5).standard_normal((60, 4))
    model = quiet(CCA(4, ridge=(0.7, 0.2)), X, Y)
    found = model.test(X, Y, n_resamples=49, rng=3)
    rng, count = np.random.default_rng(3), 1

    def statistic(rho):
        return -np.log1p(-(rho**2)).sum()

    for _ in range(49):
        order = rng.permutation(60)
        refit = quiet(CCA(4, ridge=(0.7, 0.2)), X[order], Y)
        count += statistic(refit.canonical_correlations_) >= statistic(model.canonical_correlations_) - 1e-9
    assert found.method == "permutation"
    assert found.p_values[0] == pytest.approx(count / 50)


def test_wide_rows_with_a_ridge_are_permuted():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 60)), rng.standard_normal((40, 50))
    X[:, :5] += 2 * rng.standard_normal((40, 1))
    Y[:, :5] += X[:, :5]
    model = quiet(CCA(1, ridge=1.0), X, Y)
    found = model.test(X, Y, n_resamples=99, rng=0)
    assert found.method == "permutation"
    np.testing.assert_allclose(
        found.columns["Canonical Correlation"][0], model.canonical_correlations_[0], rtol=1e-6
    )
    assert found.p_values[0] == 0.01


def test_many_columns_of_low_rank_force_nothing():
    """A hundred columns of four dimensions, of fifty rows: theory holds, with the rows and without."""
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((50, 4))
    X, Y = Z @ rng.standard_normal((4, 100)), rng.standard_normal((50, 3))
    Y[:, 0] += Z[:, 0]
    model = quiet(CCA(1), X, Y)
    found = model.test(X, Y)
    assert (found.method, found.ranks) == ("parametric", (4, 3))
    np.testing.assert_allclose(found.p_values, model.test().p_values, rtol=1e-6)
    np.testing.assert_allclose(found.p_values, quiet(CCA(1), Z, Y).test().p_values, rtol=1e-4)


def test_noise_is_not_significant_on_held_out_rows():
    rng, small = np.random.default_rng(0), 0
    for seed in range(20):
        X, Y = rng.standard_normal((60, 40)), rng.standard_normal((60, 40))
        model = quiet(CCA(1), X, Y)
        found = model.test(X, Y, n_resamples=99, rng=seed)
        assert found.method == "held-out"
        small += found.p_values[0] <= 0.05
    assert small <= 4


def bad(X, Y):
    fitted, wide = CCA(1).fit(X, Y), quiet(CCA(1), X[:13], Y[:13])
    alone = np.arange(len(X))
    return [
        (
            lambda: fitted.test(X, Y, n_resamples=0, method="permutation"),
            "n_resamples must be a whole number",
        ),
        (lambda: fitted.test(n_resamples=0, method="permutation"), "n_resamples must be a whole number"),
        (lambda: fitted.test(X, Y, groups=alone), "every group has one row: .* give groups of several rows"),
        (lambda: fitted.test(X, Y, groups=alone[:5]), "groups has shape .* one group for each of 300 rows"),
        (lambda: fitted.test(method="bartlett"), "method must be one of"),
        (lambda: fitted.test(method="permutation"), "needs rows: give test"),
        (lambda: fitted.test(groups=alone), "groups are for permutations, which need rows"),
        (lambda: fitted.test(y=Y), "y alone is no pair of views"),
        (lambda: fitted.test(X[:, :3], Y), "X has 3 features"),
        (lambda: fitted.test(X[:10], Y), "rows must be paired|10"),
        (lambda: wide.test(), r"8 \+ 6 independent columns for 13 rows.*Give rows"),
        (lambda: wide.test(X[:13], Y[:13], method="parametric"), "no theory holds"),
        (lambda: wide.test(X[:13], Y[:13], method="permutation"), "set a ridge, or use method='held-out'"),
        (lambda: CCA(7).fit(X, Y), "n_components=7 is above the .* rank"),
        (lambda: quiet(SparseCCA(1, n_nonzero=2), X, Y).test(X, Y, method="parametric"), "held-out"),
    ]


@FEW
@pytest.mark.parametrize("case", range(15))
def test_bad_input_is_refused_with_what_to_do(case, data):
    call, words = bad(*data)[case]
    with pytest.raises(ValueError, match=words):
        call()


def test_a_test_of_a_model_that_is_not_fitted():
    with pytest.raises(Exception, match="not fitted yet"):
        CCA().test()


def test_views_that_share_a_column_are_significant_and_no_error(data):
    X, Y = data
    Y = np.column_stack([Y, X[:, 0]])
    model = quiet(CCA(3), X, Y)
    found = model.test()
    assert found.p_values[0] < 1e-100
    assert np.all(np.isfinite(found.p_values))
    json.loads(found.to_json())
    assert model.test(X, Y, method="permutation", n_resamples=19, rng=0).p_values[0] == 0.05


@pytest.mark.parametrize("solver", ["auto", "exact", "qr"])
@pytest.mark.parametrize("ridge", [0, "auto"])
@pytest.mark.parametrize("apart", [1e-6, 1e-7, 1e-8])
def test_permutations_are_of_the_directions_of_the_fit(solver, ridge, apart):
    """Columns that nearly coincide: covariances lose what they differ by, `qr` does not."""
    rng = np.random.default_rng(0)
    x, d = rng.standard_normal(200), rng.standard_normal(200)
    X = np.column_stack([x, x + apart * d, rng.standard_normal(200)])
    Y = np.column_stack([d + 0.3 * rng.standard_normal(200), rng.standard_normal((200, 2))])
    model = quiet(CCA(1, ridge=ridge, solver=solver), X, Y)
    found = model.test(X, Y, method="permutation", n_resamples=99, rng=0)
    if solver == "auto":
        # Tests go back to the rows sooner than fits.
        model = quiet(CCA(1, ridge=ridge, solver="qr"), X, Y)
    spectrum = model._fitted.fit.solution.spectrum
    assert found.ranks == spectrum.ranks
    np.testing.assert_allclose(found.columns["Canonical Correlation"], np.sqrt(spectrum.squares), atol=1e-5)


def test_groups_are_never_ignored(data):
    model, groups = CCA(1).fit(*data), np.arange(300) // 2
    with pytest.raises(ValueError, match="groups are for permutations"):
        model.test(*data, method="parametric", groups=groups)
    found = model.test(*data, groups=np.minimum(np.arange(300), 290), n_resamples=19, rng=0)
    assert "290 rows of 300 are alone in their groups and stay in place." in found.notes
    found = model.test(*data, method="held-out", groups=np.arange(300) % 3, n_resamples=19, rng=0)
    assert found.p_values[0] == 0.05


def test_published_permutations(linnerud):
    """Winkler et al.'s method on the men of Linnerud: .084 .936 .752 with 4999 permutations."""
    found = quiet(CCA(1), *linnerud).test(*linnerud, method="permutation", n_resamples=4999, rng=1)
    np.testing.assert_allclose(found.p_values, [0.084, 0.936, 0.752], atol=0.015)


def test_means_that_are_not_zero_are_said_to_count(data):
    model = CCA(1, center=False).fit(*data)
    for found in (model.test(), model.test(*data, method="permutation", n_resamples=19, rng=0)):
        assert any("Columns were not centred" in note for note in found.notes)


def test_a_held_out_fit_that_fails_says_so():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((8, 5)), rng.standard_normal((8, 4))
    model = quiet(CCA(4), X, Y)
    with pytest.raises(ValueError, match="second model to half of the rows, which failed: n_components=4"):
        model.test(X, Y, method="held-out")


def test_a_random_state_of_none_follows_rng(data):
    model = quiet(CCA(2, solver="stochastic", max_passes=2), *data)
    one, two = (model.test(*data, method="held-out", n_resamples=19, rng=5).columns for _ in range(2))
    np.testing.assert_array_equal(one["Held-out Correlation"], two["Held-out Correlation"])


def test_ties_count_where_correlations_are_zero_or_one():
    """A balanced design: every order within groups gives the same correlations, which are zero."""
    X = np.array([[1, 1], [1, 1], [1, -1], [1, -1], [-1, 1], [-1, 1], [-1, -1], [-1, -1.0]])
    Y = np.array([[1, 1], [-1, -1], [1, -1], [-1, 1], [1, -1], [-1, 1], [1, 1], [-1, -1.0]])
    found = quiet(CCA(1), X, Y).test(X, Y, groups=[0, 0, 1, 1, 2, 2, 3, 3], n_resamples=99, rng=0)
    np.testing.assert_array_equal(found.p_values, [1, 1])
    rng = np.random.default_rng(0)
    x = np.repeat(rng.standard_normal((10, 2)), 3, axis=0)
    y = x + 1e-6 * rng.standard_normal((30, 2))
    found = quiet(CCA(1, ridge=0), x, y).test(x, y, groups=np.repeat(np.arange(10), 3), n_resamples=99, rng=0)
    assert found.p_values[0] > 0.9


@pytest.mark.parametrize("ridge", [0.1, (1.0, 0.0)])
def test_many_columns_with_a_ridge_have_a_first_step_only(ridge):
    rng = np.random.default_rng(0)
    X, Y, z = rng.standard_normal((60, 100)), rng.standard_normal((60, 10)), rng.standard_normal(60)
    X[:, 0], Y[:, 0] = X[:, 0] + 5 * z, Y[:, 0] + 5 * z
    found = quiet(CCA(1, ridge=ridge), X, Y).test(X, Y, n_resamples=39, rng=0)
    assert found.method == "permutation"
    assert np.all(np.isnan(found.p_values[1:]))
    assert np.all(np.isnan(found.family_wise[1:]))
    assert any("test the first component alone" in note for note in found.notes)
    json.loads(found.to_json())


@pytest.mark.parametrize(
    "groups",
    [
        np.array([float("nan") if i % 4 == 0 else float(i % 4) for i in range(300)], dtype=object),
        np.array([None if i % 4 == 0 else "a" for i in range(300)], dtype=object),
        np.array([np.nan if i % 4 == 0 else 1.0 for i in range(300)]),
    ],
)
def test_rows_without_a_group_are_refused(data, groups):
    with pytest.raises(ValueError, match="groups has no value in row 0"):
        CCA(1).fit(*data).test(*data, groups=groups)


def test_progress_of_permutations_is_logged(data, caplog):
    model = CCA(1, verbose=1).fit(*data)
    with caplog.at_level("INFO", logger="appgrad"):
        model.test(*data, method="permutation", n_resamples=7, rng=0)
    assert "test: 7 of 7 permutations" in caplog.text
    seen = []
    model.test(*data, method="held-out", n_resamples=3, rng=0, callback=lambda *at: seen.append(at))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_all_correlations_decide_which_solver_a_test_takes():
    """The first pair is known well by covariances, and the others are not."""
    rng = np.random.default_rng(0)
    Z, X, Y = (rng.standard_normal((200, p)) for p in (3, 5, 4))
    X[:, 1] += 2 * Z[:, 1]
    Y[:, 1] += 2 * Z[:, 1]
    for far in (1e6, 3e6, 4e6):
        model = quiet(CCA(4, ridge=0, center=False), X + far, Y + far)
        found = model.test(X + far, Y + far)
        np.testing.assert_allclose(
            found.columns["Canonical Correlation"], model.canonical_correlations_, atol=1e-5
        )
        one = quiet(CCA(1, ridge=0, center=False), X + far, Y + far).test()
        sure = one.ranks == (5, 4) and np.allclose(one.p_values, found.p_values, atol=1e-5)
        assert sure or any("nearly depend on each other" in note for note in one.notes)


def test_matched_pairs_stay_whole_where_half_of_them_is_held_out():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((20, 30)), rng.standard_normal((20, 3))
    X[:, 0] += 3 * np.arange(20)
    Y[:, 0] += 3 * np.arange(20)
    found = quiet(CCA(1, ridge=0), X, Y).test(X, Y, groups=np.repeat(np.arange(10), 2), n_resamples=9, rng=0)
    assert (found.method, found.n_samples) == ("held-out", 10)
    model, groups = quiet(CCA(1, ridge=0), X, Y), [0] * 18 + [1, 2]
    with pytest.raises(ValueError, match="3 groups cannot be put into two halves"):
        model.test(X, Y, groups=groups, n_resamples=9, rng=0)


@pytest.mark.parametrize("groups", [["a", np.nan] * 150, [1, "1", None] * 100])
def test_lists_of_groups_keep_their_types(data, groups):
    with pytest.raises(ValueError, match="groups has no value in row"):
        CCA(1).fit(*data).test(*data, groups=groups)


def test_numbers_and_texts_are_different_groups(data):
    from appgrad.inference.permutation import group_codes

    np.testing.assert_array_equal(group_codes([1, "1", (1, 2), 1], 4), [0, 1, 2, 0])
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="no value in row 1"):
        group_codes(pd.array(["a", pd.NA], dtype="string"), 2)
    with pytest.raises(ValueError, match="a list in row 0, expected a number or a text"):
        group_codes([[1], [2]], 2)
    with pytest.raises(ValueError, match="groups is the text"):
        group_codes("sites.txt", 2)
