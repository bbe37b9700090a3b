"""What models say of themselves: tests, the noise level, explained variance, from every source of rows."""

import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_linnerud

from appgrad import CCA, KernelCCA, OverfitWarning, SparseCCA, load
from appgrad.datasets import planted
from appgrad.inference.canonical_test import CanonicalTest
from appgrad.solvers import registry

# Men's physiology against their exercises: shares of variance that SAS prints.
OWN_X, OPPOSITE_X = [0.4508, 0.2470, 0.3022], [0.2854, 0.0099, 0.0016]
OWN_Y, OPPOSITE_Y = [0.4081, 0.4345, 0.1574], [0.2584, 0.0175, 0.0008]
FEW = pytest.mark.filterwarnings("ignore:components? .* rests? on fewer than")


@pytest.fixture(scope="module")
def linnerud():
    exercise, physiology = load_linnerud(return_X_y=True)
    return physiology, exercise


@pytest.fixture(scope="module")
def data():
    p = planted(300, 8, 6, [0.8, 0.5], random_state=0)
    return p.X, p.y


def quiet(model, *rows, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*rows, **given)


def test_variance_is_that_of_sas(linnerud):
    model = quiet(CCA(3), *linnerud)
    np.testing.assert_allclose(model.x_explained_variance_, OWN_X, atol=5e-5)
    np.testing.assert_allclose(model.x_redundancy_, OPPOSITE_X, atol=5e-5)
    np.testing.assert_allclose(model.y_explained_variance_, OWN_Y, atol=5e-5)
    np.testing.assert_allclose(model.y_redundancy_, OPPOSITE_Y, atol=5e-5)


@pytest.mark.parametrize(
    "params", [{}, {"ridge": 0.3}, {"ridge": (0.5, 0.0), "scale": True}, {"center": False}]
)
@pytest.mark.parametrize("solver", ["exact", "qr", "lobpcg"])
def test_variance_is_the_mean_squared_correlation(params, solver, data):
    """By the definition, with the scores of the rows; also with a ridge, and of a constant column."""
    X, Y = np.hstack([data[0], np.zeros((300, 1))]), data[1]
    model = quiet(CCA(2, solver=solver, tol=1e-10, random_state=0, **params), X, Y)
    U, V = model.transform(X, Y)
    center = params.get("center", True)

    def explained(Z, scores):
        Z, scores = Z[:, Z.any(axis=0)], scores.copy()
        if center:
            Z, scores = Z - Z.mean(axis=0), scores - scores.mean(axis=0)
        cross = Z.T @ scores / np.linalg.norm(Z, axis=0)[:, None] / np.linalg.norm(scores, axis=0)
        return np.mean(cross**2, axis=0)

    np.testing.assert_allclose(model.x_explained_variance_, explained(X, U), atol=1e-6)
    np.testing.assert_allclose(model.x_redundancy_, explained(X, V), atol=1e-6)
    np.testing.assert_allclose(model.y_explained_variance_, explained(Y, V), atol=1e-6)
    np.testing.assert_allclose(model.y_redundancy_, explained(Y, U), atol=1e-6)


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


def test_a_column_twice_counts_once(data):
    X, Y = data
    once, twice = CCA(2).fit(X, Y), CCA(2).fit(np.hstack([X, X[:, :3]]), Y)
    assert twice.test().ranks == (8, 6)
    np.testing.assert_allclose(twice.test().p_values, once.test().p_values, rtol=1e-5)
    assert twice.noise_level_ == once.noise_level_
    # Iterative solvers do not know, and give an upper bound.
    unknown = quiet(CCA(2, solver="lobpcg", random_state=0), np.hstack([X, X[:, :3]]), Y)
    assert unknown.noise_level_ > once.noise_level_
    assert not unknown.noise.known
    assert np.all(np.isnan(unknown.debiased_correlations()))


def test_rows_that_are_not_centred_are_one_more(data):
    model = CCA(2, center=False).fit(*data)
    assert model.noise.dimensions.n == 301


def test_one_column_each_is_the_test_of_a_correlation():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((40, 1)), rng.standard_normal(40)
    model = quiet(CCA(1), x, y)
    r = np.corrcoef(x[:, 0], y)[0, 1]
    from scipy.stats import pearsonr

    assert model.test().p_values[0] == pytest.approx(pearsonr(x[:, 0], y).pvalue, rel=1e-6)
    assert model.test().statistics["Roy's greatest root"].p == pytest.approx(model.test().p_values[0])
    assert model.canonical_correlations_[0] == pytest.approx(abs(r))


def silent_models(X, Y):
    stream = CCA(1, forget=50)
    for rows in np.array_split(np.arange(len(X)), 10):
        stream.partial_fit(X[rows], Y[rows])
    return {
        "the ridge leaves": CCA(1, ridge=1.0).fit(X, Y),
        "which force correlations of 1": quiet(CCA(1), X[:13], Y[:13]),
        "rows count less as they age": stream,
        "functions of a kernel": quiet(KernelCCA(1, ridge=1.0), X, Y),
        "chosen by their correlations": quiet(SparseCCA(1, n_nonzero=3), X, Y),
    }


@FEW
def test_where_theory_is_silent_the_level_is_nan_with_a_reason(data):
    for reason, model in silent_models(*data).items():
        assert np.isnan(model.noise_level_), reason
        assert np.isnan(model.noise_edge_), reason
        assert reason in model.noise_level_reason_
        with pytest.raises(ValueError, match=reason) as raised:
            model.test()
        assert "ive rows, test(X, y)" in str(raised.value)


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


def test_the_overfitting_warning_uses_the_level():
    rng = np.random.default_rng(0)
    for _ in range(30):
        X, Y = rng.standard_normal((40, 3)), rng.standard_normal((40, 4))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = CCA(1).fit(X, Y)
        said = [str(w.message) for w in caught if issubclass(w.category, OverfitWarning)]
        above = model.canonical_correlations_[0] > model.noise_level_
        assert any("not clearly above what noise" in text for text in said) == (not above)
        if not above:
            assert any(f"up to {model.noise_level_:.2f} in 95 of 100 data sets" in text for text in said)


def test_files_keep_it_all(tmp_path, data):
    model = CCA(2).fit(*data)
    model.save(tmp_path / "m.cca")
    loaded = load(tmp_path / "m.cca")
    np.testing.assert_array_equal(loaded.test().p_values, model.test().p_values)
    assert loaded.noise == model.noise
    for name in ("effective_rows_", "x_redundancy_", "y_explained_variance_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    np.testing.assert_array_equal(loaded.debiased_correlations(), model.debiased_correlations())


def test_files_of_0_1_0_say_what_they_cannot_know():
    from pathlib import Path

    model = load(Path(__file__).parents[1] / "files_of_0_1_0" / "cca_exact.cca")
    assert np.isnan(model.noise_level_)
    assert "saved by a version that did not keep" in model.noise_level_reason_
    assert np.all(np.isnan(model.effective_rows_))
    assert np.all(model.x_redundancy_ <= model.x_explained_variance_)
    with pytest.raises(ValueError, match="give rows"):
        model.test()


def test_results_are_tables_text_html_and_json(data):
    found = CCA(2).fit(*data).test()
    assert isinstance(found, CanonicalTest)
    with pytest.raises(AttributeError):
        found.method = "x"
    assert list(found.table.columns[:6]) == [
        "Canonical Correlation",
        "Wilks' lambda",
        "Num DF",
        "Den DF",
        "F Value",
        "Pr > F",
    ]
    np.testing.assert_array_equal(found.table["Pr > F"], found.p_values)
    assert list(found.multivariate.index)[1] == "Pillai's trace"
    assert found.multivariate.loc["Roy's greatest root", "Pr > F"] < 1e-10
    facts = json.loads(found.to_json())
    assert facts["table"]["Pr > F"] == found.p_values.tolist()
    assert facts["multivariate"]["Pillai's trace"]["df1"] == 48
    assert found.conclusion() in found.summary()
    page = found._repr_html_()
    assert page.count("<table>") == 2
    assert "Wilks&#x27; lambda" in page


def test_without_pandas_tables_are_record_arrays(data, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    found = CCA(2).fit(*data).test()
    assert isinstance(found.table, np.recarray)
    np.testing.assert_array_equal(found.table["Pr > F"], found.p_values)
    assert found.multivariate["statistic"][3] == "Roy's greatest root"


def test_views_that_share_a_column_are_significant_and_no_error(data):
    X, Y = data
    Y = np.column_stack([Y, X[:, 0]])
    model = quiet(CCA(3), X, Y)
    found = model.test()
    assert found.p_values[0] < 1e-100
    assert np.all(np.isfinite(found.p_values))
    json.loads(found.to_json())
    assert model.test(X, Y, method="permutation", n_resamples=19, rng=0).p_values[0] == 0.05
