"""Bad input raises a clear error before a pass is wasted."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

from appgrad import CCA, KernelCCA, correlations, pcc, subspace_distance, tcc
from appgrad.data.arrays import ArrayViews


@pytest.fixture
def X(rng):
    return rng.standard_normal((30, 4))


@pytest.fixture
def y(rng):
    return rng.standard_normal((30, 3))


def spoil(m, row, column, value):
    m = m.copy()
    m[row, column] = value
    return m


@pytest.mark.parametrize("solver", ["auto", "exact", "qr"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("to", [np.asarray, sp.csr_array])
def test_nan_and_infinity_name_view_and_column(X, y, solver, value, to):
    word = "NaN" if np.isnan(value) else "infinity"
    with pytest.raises(ValueError, match=rf"column 2 of X contains {word}, first in row 7"):
        CCA(1, solver=solver).fit(to(spoil(X, 7, 2, value)), to(y))
    with pytest.raises(ValueError, match=rf"column 1 of y contains {word}, first in row 29"):
        CCA(1, solver=solver).fit(to(X), to(spoil(y, 29, 1, value)))


def test_nan_in_a_frame_names_the_column(X, y):
    frame = pd.DataFrame(spoil(X, 3, 1, np.nan), columns=["age", "height", "w", "z"])
    with pytest.raises(ValueError, match=r"column 1 \('height'\) of X contains NaN, first in row 3"):
        CCA(1).fit(frame, y)


def test_nan_with_more_columns_than_rows(rng):
    wide = spoil(rng.standard_normal((10, 50)), 4, 33, np.nan)
    for solver in ("exact", "qr"):
        with pytest.raises(ValueError, match="column 33 of X contains NaN"):
            CCA(1, solver=solver).fit(wide, rng.standard_normal((10, 3)))


def test_nan_at_transform(X, y):
    model = CCA(1).fit(X, y)
    with pytest.raises(ValueError, match="column 0 of X contains NaN, first in row 5"):
        model.transform(spoil(X, 5, 0, np.nan))
    with pytest.raises(ValueError, match="column 2 of y contains infinity"):
        model.transform(X, spoil(y, 5, 2, np.inf))
    with pytest.raises(ValueError, match="column 0 of X contains NaN"):
        model.predict(sp.csr_array(spoil(X, 5, 0, np.nan)))


@pytest.mark.parametrize("solver", ["exact", "qr"])
def test_values_too_large_to_square(X, y, solver):
    big = spoil(X, 3, 1, 1e300)
    with pytest.raises(ValueError, match="column 1 of X are too large to be squared"):
        CCA(1, solver=solver).fit(big, y)


def test_rows_must_be_paired(X, y):
    with pytest.raises(ValueError, match="y has 20 rows, X has 30: rows must be paired"):
        CCA(1).fit(X, y[:20])
    model = CCA(1).fit(X, y)
    with pytest.raises(ValueError, match="rows"):
        model.score(X, y[:20])


@pytest.mark.parametrize("empty", [np.empty((0, 3)), np.empty((30, 0))])
def test_empty_views(X, empty):
    with pytest.raises(ValueError, match=r"0 (sample|feature)\(s\)"):
        CCA(1).fit(empty, X[: len(empty)])
    with pytest.raises(ValueError, match=r"0 (sample|feature)\(s\)"):
        CCA(1).fit(X, empty)


def test_one_row(X, y):
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        CCA(1).fit(X[:1], y[:1])


def test_dimensions(X, y):
    with pytest.raises(ValueError, match="Reshape your data"):
        CCA(1).fit(X[:, 0], y)
    with pytest.raises(ValueError, match="dim 3"):
        CCA(1).fit(X, y[:, :, None])


def test_missing_y(X):
    with pytest.raises(ValueError, match="requires y"):
        CCA(1).fit(X)


@pytest.mark.parametrize("to", [np.asarray, sp.csr_array])
def test_complex(X, y, to):
    with pytest.raises(ValueError, match="Complex data not supported"):
        CCA(1).fit(to(X + 1j), y)


def test_text_and_dates(X, y):
    with pytest.raises(ValueError, match="could not convert string to float"):
        CCA(1).fit(np.full((30, 2), "a", dtype=object), y)
    with pytest.raises(ValueError, match="numeric"):
        CCA(1).fit(np.full((30, 2), "a"), y)
    with pytest.raises(TypeError, match="datetime64"):
        CCA(1).fit(np.full((30, 2), np.datetime64("2020-01-01")), y)
    with pytest.raises(ValueError, match="masked array"):
        CCA(1).fit(np.ma.masked_greater(X, 0), y)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_column_of_a_frame_that_holds_no_numbers_is_named(X, y, frame):
    columns = {"a": X[:, 0], "id": ["u"] * 30, "when": [datetime.date(2020, 1, 1)] * 30}
    with pytest.raises(ValueError, match=r"column 1 \('id'\) of X has type .*, not numbers: convert it"):
        CCA(1).fit(frame(columns), y)
    with pytest.raises(ValueError, match=r"column 0 \('when'\) of y has type .*, not numbers"):
        CCA(1).fit(X, frame({"when": columns["when"]}))


def test_lazy_frames(X, y):
    with pytest.raises(TypeError, match=r"collect\(\) first"):
        CCA(1).fit(pl.DataFrame(X).lazy(), y)


def test_frames_of_objects_nullables_and_booleans_are_fine(X, y):
    frame = pd.DataFrame({"a": X[:, 0].astype(object), "b": pd.array(X[:, 1]), "c": X[:, 2] > 0})
    found = CCA(1).fit(frame, y).canonical_correlations_
    expected = CCA(1).fit(np.c_[X[:, :2], X[:, 2] > 0], y).canonical_correlations_
    np.testing.assert_allclose(found, expected)
    frame.loc[4, "b"] = pd.NA
    with pytest.raises(ValueError, match=r"column 1 \('b'\) of X contains NaN, first in row 4"):
        CCA(1).fit(frame, y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tol", -5),
        ("max_iter", "a"),
        ("max_iter", 0),
        ("max_seconds", -1.0),
        ("batch_size", 0),
        ("covariance", "foo"),
        ("center", "maybe"),
        ("preconditioner", "magic"),
        ("normaliser", 0),
        ("step_size", "big"),
        ("oversampling", 1.5),
    ],
)
def test_other_parameters(X, y, name, value):
    with pytest.raises(ValueError, match=f"{name} must be .*, got {value!r}"):
        CCA(1, **{name: value}).fit(X, y)


@pytest.mark.parametrize("k", [0, -1, 1.5, "2", None, True])
def test_n_components_must_be_a_positive_integer(X, y, k):
    with pytest.raises(ValueError, match="n_components must be an integer of at least 1"):
        CCA(k).fit(X, y)


def test_n_components_above_the_rank(X, y):
    with pytest.raises(ValueError, match="use at most 3"):
        CCA(4).fit(X, y)
    with pytest.raises(ValueError, match="use at most 2"):
        CCA(3).fit(X[:3], y[:3])
    with pytest.raises(ValueError, match=r"above the rank of the data \(X 1, y 3\)"):
        CCA(2).fit(np.repeat(X[:, :1], 4, axis=1), y)
    assert CCA(np.int64(3)).fit(X, y).x_weights_.shape == (4, 3)


@pytest.mark.parametrize("ridge", [-1.0, np.nan, np.inf, "big", (1.0,), (1.0, -2.0), None, True])
def test_ridge(X, y, ridge):
    with pytest.raises(ValueError, match="ridge must be"):
        CCA(1, ridge=ridge).fit(X, y)


def test_solver(X, y):
    with pytest.raises(ValueError, match=r"solver must be one of \['auto', 'exact', 'qr', .*\], got 'svd'"):
        CCA(1, solver="svd").fit(X, y)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"forget": 0.5}, "forget must be None or a finite number of rows, at least 1, got 0.5"),
        (
            {"checkpoint": 7},
            "checkpoint must be None, the name of a file, or a name and a number of seconds, got 7",
        ),
        ({"checkpoint": ("a", -1)}, "checkpoint must be"),
        ({"checkpoint": ("a",)}, "checkpoint must be"),
    ],
)
def test_streams_and_long_runs(X, y, params, message):
    with pytest.raises(ValueError, match=message):
        CCA(1, **params).fit(X, y)


def test_unknown_keyword():
    with pytest.raises(TypeError, match="n_component"):
        CCA(n_component=2)


def test_unfitted(X, y):
    for call in (
        lambda m: m.transform(X),
        lambda m: m.predict(X),
        lambda m: m.score(X, y),
        lambda m: m.inverse_transform(X),
        lambda m: m.save("never-written.cca"),
    ):
        with pytest.raises(NotFittedError):
            call(CCA(1))


def test_other_number_of_columns(X, y):
    model = CCA(1).fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but CCA is expecting 4 features"):
        model.transform(X[:, :3])
    with pytest.raises(ValueError, match="are the two views swapped"):
        model.transform(X, X)
    with pytest.raises(ValueError, match="y has 2 features, but CCA is expecting 3 features"):
        model.transform(X, y[:, :2])


def test_score_needs_both(X, y):
    model = CCA(1).fit(X, y)
    with pytest.raises(ValueError, match="both views"):
        model.score(X)
    with pytest.raises(ValueError, match="at least two rows"):
        model.score(X[:1], y[:1])
    with pytest.raises(ValueError, match="sample_weight"):
        model.score(X, y, sample_weight=np.ones(30))


def masked(m):
    found = np.ma.masked_array(m.copy(), mask=False)
    found[2, 1] = np.ma.masked
    return found


AS = {"array": lambda m: m, "rows": list, "tuple of rows": tuple}


@pytest.mark.parametrize("form", AS)
def test_masked_values_are_refused_wherever_they_come_in(form, X, y):
    """As plain arrays they would count with whatever stands below the mask."""
    model = CCA(2).fit(X, y)
    S = np.cov(np.hstack([X, y]).T, bias=True)
    Sx, Sy, Sxy = S[:4, :4], S[4:, 4:], S[:4, 4:]
    M, N, K = AS[form](masked(X)), AS[form](masked(y)), AS[form](masked(X[:, :2]))
    calls = [
        lambda: CCA(1).fit(M, y),
        lambda: CCA(1).fit(X, N),
        lambda: CCA(1).fit(X, AS[form](masked(y)[:, 1])),
        lambda: CCA(1).partial_fit(M, y),
        lambda: CCA.from_covariance(30, AS[form](masked(Sx)), Sy, Sxy),
        lambda: CCA.from_covariance(30, Sx, AS[form](masked(Sy)), Sxy),
        lambda: CCA.from_covariance(30, Sx, Sy, AS[form](masked(Sxy))),
        lambda: CCA.from_covariance(30, Sx, Sy, Sxy, AS[form](masked(X)[2])),
        lambda: CCA.from_covariance(30, Sx, Sy, Sxy, None, AS[form](masked(y)[2])),
        lambda: model.transform(M),
        lambda: model.transform(X, N),
        lambda: model.predict(M),
        lambda: model.inverse_transform(K),
        lambda: model.score(M, y),
        lambda: correlations(K, y[:, :2]),
        lambda: correlations(y[:, :2], K),
        lambda: tcc(M, y),
        lambda: pcc(X, y, M, y),
        lambda: subspace_distance(M, X),
        lambda: subspace_distance(X[:4], X[4:8], AS[form](masked(Sx))),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="is a masked array with masked values: fill or drop them first"):
            call()


@pytest.mark.parametrize("form", AS)
def test_masked_arrays_without_masked_values_are_arrays(form, X, y):
    M, N = (AS[form](np.ma.masked_array(m, mask=False)) for m in (X, y))
    found, expected = CCA(2).fit(M, N), CCA(2).fit(X, y)
    np.testing.assert_array_equal(found.canonical_correlations_, expected.canonical_correlations_)
    np.testing.assert_array_equal(correlations(M, M), correlations(X, X))


# Sizes of the rows fitted to, and of finite new ones whose scores, predictions or columns overflow.
SIZES = st.floats(1.0, 100.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(small=SIZES, row=st.integers(0, 5), sign=st.sampled_from([-1.0, 1.0]))
@settings(max_examples=15, deadline=None)
def test_finite_rows_never_give_infinite_results(dtype, small, row, sign):
    rng = np.random.default_rng(0)
    X, y = (rng.standard_normal((30, p)) for p in (4, 3))
    shrunk = CCA(2).fit((X * 1e-3 / small).astype(dtype), y.astype(dtype))
    # The largest that can be told from infinity.
    new = X[:6].astype(dtype)
    new[row] = sign * np.finfo(dtype).max * np.sign(shrunk.x_weights_[:, 0])
    views = ArrayViews(new, y[:6].astype(dtype))
    grown = CCA(2).fit((X * 1e3 * small).astype(dtype), y.astype(dtype))
    scores = X[:6, :2].astype(dtype)
    scores[row] = sign * np.finfo(dtype).max
    kernel = KernelCCA(1, ridge=0.1, kernel="linear").fit(shrunk_rows := X * 1e-9, y)
    assert np.all(np.isfinite(kernel.transform(shrunk_rows)))
    calls = [
        lambda: shrunk.transform(new),
        lambda: shrunk.transform(sp.csr_array(new)),
        lambda: shrunk.transform(views),
        lambda: shrunk.predict(new),
        lambda: shrunk.score(new, y[:6].astype(dtype)),
        lambda: shrunk.score(views),
        lambda: grown.inverse_transform(scores),
    ]
    if dtype == np.float32:
        calls.append(lambda: kernel.transform(new))
    for call in calls:
        with pytest.raises(ValueError, match=f"in row {row} are too large for {np.dtype(dtype).name}"):
            call()


def test_predictions_that_overflow_are_refused(X, y):
    """Scores are finite here; what they predict is not."""
    model = CCA(1).fit(X * 1e8, y * 1e150)
    with pytest.raises(ValueError, match="predictions for X in row 1 are too large for float64"):
        model.predict(np.vstack([X[:1], 1e200 * np.sign(model.x_weights_.T)]))


@pytest.mark.parametrize("solver", ["auto", "qr", "lobpcg"])
def test_numbers_that_doubles_do_not_tell_apart_are_named(solver):
    """Keys, or times in nanoseconds: whole numbers above 2^53 are rounded before anything is computed."""
    rng = np.random.default_rng(0)
    k = rng.integers(0, 10, 300)
    Y = np.column_stack([k + 0.1 * rng.standard_normal(300), rng.standard_normal(300)])
    small = np.column_stack([k, rng.integers(0, 9, 300)])
    for first in (2**60, 2**53, 2**63):
        frame = pd.DataFrame({"time": np.uint64(first) + k.astype(np.uint64), "b": small[:, 1]})
        with pytest.warns(UserWarning, match=r"'time'\) of X holds values of about .* subtract a number"):
            CCA(1, solver=solver, random_state=0).fit(frame, pd.DataFrame(Y, columns=["c", "d"]))
    CCA(1, solver=solver, random_state=0).fit(small + 2**30, Y)


def test_covariances_may_be_sparse_but_not_complex(rng):
    S = np.cov(rng.standard_normal((50, 5)), rowvar=False)
    Sx, Sy, Sxy = S[:3, :3], S[3:, 3:], S[:3, 3:]
    plain = CCA.from_covariance(50, Sx, Sy, Sxy).x_weights_
    sparse = CCA.from_covariance(50, *map(sp.csr_array, (Sx, Sy, Sxy))).x_weights_
    np.testing.assert_array_equal(plain, sparse)
    with pytest.raises(ValueError, match="Sxy holds complex numbers"):
        CCA.from_covariance(50, Sx, Sy, Sxy + 0.1j)
