"""KernelCCA: parameters, matrices and rows that are refused, and what is said of them."""

import numpy as np
import pytest

from appgrad import KernelCCA
from kernel_problems import related

BAD = {
    "kernel": ({"kernel": "gauss"}, "kernel must be callable or one of"),
    "three kernels": ({"kernel": ("rbf",) * 3}, "pair, got 3"),
    "gamma of linear": ({"kernel": "linear", "gamma": 1.0}, "gamma=1.0 does not apply to kernel='linear'"),
    "gamma of one": ({"kernel": ("rbf", "cosine"), "gamma": 1.0}, "a pair with None for this view"),
    "gamma of a function": ({"kernel": np.dot, "gamma": 1.0}, "does not apply to kernel='a function'"),
    "degree of rbf": ({"degree": 3}, "degree=3 does not apply to kernel='rbf'"),
    "coef0 of rbf": ({"coef0": 0.0}, "coef0=0.0 does not apply to kernel='rbf'"),
    "gamma": ({"gamma": 0.0}, "gamma must be None or a finite number above 0"),
    "infinite gamma": ({"gamma": np.inf}, "gamma must be None or a finite number above 0"),
    "degree": ({"kernel": "poly", "degree": 1.5}, "degree must be an integer"),
    "coef0": ({"kernel": "poly", "coef0": -1.0}, "coef0 must be a finite number of at least 0"),
    "approximation": ({"approximation": "landmarks"}, "approximation must be None, 'nystroem' or 'fourier'"),
    "landmarks": ({"approximation": "nystroem", "n_landmarks": 0}, "n_landmarks must be an integer"),
    "fourier": ({"approximation": "fourier", "kernel": "poly"}, "'fourier' is for kernel='rbf'"),
    "precomputed": ({"approximation": "nystroem", "kernel": "precomputed"}, "a precomputed kernel is exact"),
    "not square": ({"kernel": "precomputed"}, "120 rows and 4 columns.*square"),
    "ridge": ({"ridge": -1.0}, "ridge must be"),
    "solver": ({"solver": "svd"}, "solver must be"),
    "components": ({"n_components": 200}, "n_components=200"),
    "not symmetric": ({"kernel": lambda a, b: a[:, :1] - b[:, 0]}, "not symmetric"),
    "not definite": ({"kernel": lambda a, b: -np.exp(-((a[:, None] - b) ** 2).sum(axis=2))}, "not positive"),
    "shape": ({"kernel": lambda a, b: np.ones(3)}, "returned shape"),
    "NaN": ({"kernel": lambda a, b: np.full((len(a), len(b)), np.nan)}, "returned NaN"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_parameters(name, rng):
    params, message = BAD[name]
    X, Y, *_ = related(rng)
    with pytest.raises(ValueError, match=message):
        KernelCCA(**params).fit(X, Y)


def test_precomputed_matrices_that_are_no_kernels(rng):
    Y = rng.standard_normal((30, 2))
    K = rng.standard_normal((30, 30))
    with pytest.raises(ValueError, match="kernel of X is not symmetric"):
        KernelCCA(1, kernel=("precomputed", "rbf")).fit(K, Y)
    with pytest.raises(ValueError, match="kernel of y is not positive semidefinite"):
        KernelCCA(1, kernel=("rbf", "precomputed")).fit(Y, K + K.T)


def test_bad_rows_are_named(rng):
    X, Y, *_ = related(rng)
    model = KernelCCA(1).fit(X, Y)
    bad = X.copy()
    bad[17, 2] = np.nan
    for params in ({}, {"approximation": "nystroem"}, {"approximation": "fourier", "n_landmarks": 5}):
        with pytest.raises(ValueError, match="column 2 of X contains NaN, first in row 17"):
            KernelCCA(1, **params).fit(bad, Y)
    with pytest.raises(ValueError, match="column 2 of X contains NaN, first in row 17"):
        model.transform(bad)
    np.testing.assert_array_equal(model.transform(X), model.transform(X, Y)[0])
    with pytest.raises(ValueError, match="expecting 4 features"):
        model.transform(X[:, :3])


def test_rows_all_alike_have_no_components(rng):
    Y = rng.standard_normal((30, 2))
    for params in ({}, {"kernel": "linear"}, {"approximation": "nystroem", "n_landmarks": 10}):
        with pytest.raises(ValueError, match="rank of the data"):
            KernelCCA(1, **params).fit(np.ones((30, 3)), Y)


def test_kernels_that_overflow_are_said(rng):
    X, Y, *_ = related(rng)
    with pytest.raises(ValueError, match="'poly' overflows: rescale"):
        KernelCCA(1, kernel="poly", gamma=1.0, degree=9).fit(1e60 * X, Y)
