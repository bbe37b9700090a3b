"""Back ends, solvers and problems that tests combine, each listed once."""

import gzip
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import check_estimator

from appgrad import CCA
from appgrad.covariance.matrices import MatrixCovariance
from appgrad.covariance.moments import moments, second_moments
from appgrad.covariance.preconditioners import warm_up_rows
from appgrad.covariance.rows import RowCovariance
from appgrad.covariance.units import units
from appgrad.data.arrays import ArrayViews
from appgrad.data.files.mapped import StoredViews
from appgrad.data.files.readers import read_table
from appgrad.solvers.exact import by_rows, exact
from appgrad.solvers.qr import qr
from appgrad.solvers.stochastic.minibatches import Buffer, Minibatches

SOLVERS = {"exact": exact, "qr": qr, "by_rows": by_rows}

# The correlations of the problem that iterative solvers are tried on.
RHO = [0.95, 0.8, 0.6, 0.3]

# Iterative solvers with options that make them exact enough to be compared, and how exact that is.
ITERATIVE = {
    "als": ({"solver": "als", "tol": 1e-7}, 1e-5),
    # With so little memory, p x p matrices count as large.
    "als, conjugate gradients": (
        {"solver": "als", "tol": 1e-5, "preconditioner": "jacobi", "working_memory": 0.01},
        1e-4,
    ),
    "appgrad": ({"solver": "appgrad", "tol": 1e-8}, 1e-4),
    "appgrad, jacobi": ({"solver": "appgrad", "tol": 1e-8, "preconditioner": "jacobi"}, 1e-4),
    "lobpcg": ({"solver": "lobpcg", "tol": 1e-6}, 1e-5),
    "lobpcg, jacobi": ({"solver": "lobpcg", "tol": 1e-6, "preconditioner": "jacobi"}, 1e-5),
    "lobpcg, matrices": ({"solver": "lobpcg", "tol": 1e-6, "covariance": "dense"}, 1e-5),
    "stochastic": ({"solver": "stochastic", "max_passes": 30, "batch_size": 100}, 0.01),
    "stochastic, one pass": ({"solver": "stochastic", "max_passes": 1, "batch_size": 20}, 0.1),
}
# Every solver of linear problems, likewise: what the contract of solvers is tried with.
SOLVER_SETTINGS = {"exact": ({"solver": "exact"}, 1e-8), "qr": ({"solver": "qr"}, 1e-8), **ITERATIVE}


def memmap(m, folder, name):
    path = folder / f"{name}.npy"
    np.save(path, m)
    return np.load(path, mmap_mode="r")


def small_blocks(views, rows=37):
    """The same views cut into many blocks, so that merging is exercised on small data."""
    views.block_rows = rows
    return views


BACKENDS = {
    "dense": lambda X, Y, folder: ArrayViews(X, Y),
    "blocks": lambda X, Y, folder: small_blocks(ArrayViews(X, Y, threads=2)),
    "one thread": lambda X, Y, folder: small_blocks(ArrayViews(X, Y, threads=1)),
    "fortran": lambda X, Y, folder: small_blocks(ArrayViews(np.asfortranarray(X), np.asfortranarray(Y))),
    "csr": lambda X, Y, folder: small_blocks(ArrayViews(sp.csr_array(X), sp.csr_array(Y), threads=2)),
    "mixed": lambda X, Y, folder: small_blocks(ArrayViews(sp.csr_array(X), Y)),
    "memmap": lambda X, Y, folder: small_blocks(StoredViews(memmap(X, folder, "x"), memmap(Y, folder, "y"))),
    "rows": lambda X, Y, folder: small_blocks(
        ArrayViews(np.repeat(X, 2, axis=0), np.repeat(Y, 2, axis=0), rows=np.arange(0, 2 * len(X), 2))
    ),
}


def sparse_counts(rng, n=300, p1=12, p2=9, density=0.04):
    """Integer counts with few entries, related through a shared topic, no column empty."""
    topic = rng.random(n) < 0.3
    X, Y = (rng.poisson(density * (1 + 8 * topic[:, None] * (np.arange(p) < 3)), (n, p)) for p in (p1, p2))
    X[np.arange(p1), np.arange(p1)] += 1
    Y[np.arange(p2), np.arange(p2)] += 1
    return X.astype(float), Y.astype(float)


def statistics_problem(kind, rng):
    """Views whose means matter: dense, sparse counts, or columns of years."""
    if kind == "sparse":
        return sparse_counts(rng)
    X, Y = rng.standard_normal((300, 6)) + 3, rng.standard_normal((300, 5)) @ rng.standard_normal((5, 5))
    if kind == "years":
        X[:, 0] += 2e8
        Y[:, 1] -= 1e8
    return X, Y


def minibatches(views, size, normaliser, steps, rng, passes=0.0, portion=None, **params):
    """Minibatches of views, from portions as large as a fit would draw unless told otherwise."""
    drawn = min(max(size, normaliser or 0, warm_up_rows(views)), views.n_samples)
    found = Minibatches(views, Buffer(size, normaliser, drawn, **params), steps, rng, passes)
    if portion is not None:
        found.buffer.portion = portion
    return found


# Every kind of file that can be written and read.
KINDS = [
    ".npy",
    "dense.npz",
    "sparse.npz",
    ".csv",
    "bare.csv",
    ".csv.gz",
    ".tsv",
    "bare.tsv.gz",
    ".parquet",
    "folder",
    ".svm",
    ".svmlight.gz",
    ".h5",
    ".zarr",
]


def write(kind, path, m):
    """A matrix as a file of some kind."""
    names = [f"c{j}" for j in range(m.shape[1])]
    if kind == ".npy":
        np.save(path, m)
    elif kind == "dense.npz":
        np.savez(path, only=m)
    elif kind == "sparse.npz":
        sp.save_npz(path, sp.csc_matrix(m))
    elif kind == ".parquet":
        import pandas as pd

        pd.DataFrame(m, columns=names).to_parquet(path)
    elif kind in (".svm", ".svmlight.gz"):
        opener = gzip.open if kind.endswith(".gz") else open
        with opener(path, "wt", encoding="utf-8") as file:
            for row in m:
                file.write("+1 " + " ".join(f"{j}:{float(v)!r}" for j, v in enumerate(row)) + "\n")
    elif kind == ".h5":
        import h5py

        with h5py.File(path, "w") as file:
            file["group/only"] = m
    elif kind == ".zarr":
        import zarr

        zarr.create_array(str(path), data=m)
    elif kind == "folder":
        import pandas as pd

        path.mkdir()
        for i, rows in enumerate(np.array_split(m, 3)):
            pd.DataFrame(rows, columns=names).to_parquet(path / f"part-{i}.parquet")
    else:
        delimiter = "\t" if ".tsv" in kind else ","
        lines = [] if "bare" in kind else [delimiter.join(f'"{n}"' for n in names)]
        lines += [delimiter.join(map(repr, map(float, row))) for row in m]
        opener = gzip.open if kind.endswith(".gz") else open
        with opener(path, "wt", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


def refuse(path, match, error=ValueError):
    """Reading the file fails, in one line."""
    with pytest.raises(error, match=match) as caught:
        read_table(str(path))
    assert "\n" not in str(caught.value)


def arrays(folder):
    """Both views of a folder that a test of the command has written."""
    return np.load(folder / "x.npy"), np.load(folder / "y.npy")


def fitted(X, Y, k=3, quiet=True, working_memory=None, **params):
    """A model that says nothing of convergence, or raises what it says."""
    with warnings.catch_warnings(), config_context(working_memory=working_memory):
        warnings.simplefilter("ignore" if quiet else "error", ConvergenceWarning)
        return CCA(k, random_state=0, **params).fit(X, Y)


def quiet(model, *data):
    """The model, fitted, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data)


def said(model, *data):
    """The model, fitted, and its warnings but for those that it may be noise."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(*data)
    return model, [w for w in caught if "noise alone" not in str(w.message)]


def operator(X, Y, ridge="auto", dense=False):
    """The covariances of two arrays, by passes over them or as matrices."""
    views = ArrayViews(X, Y)
    m = moments(views)
    u = units(m, views.dtype, ridge=ridge)
    return MatrixCovariance.of_moments(second_moments(views), u) if dense else RowCovariance(views, m, u)


def pairs(X, Y, size):
    """The rows of two views, so many at a time."""
    for start in range(0, X.shape[0], size):
        yield X[start : start + size], Y[start : start + size]


# Fitted attributes that must not depend on how rows came.
SAME = ("canonical_correlations_", "training_correlations_", "x_weights_", "y_weights_", "coef_")


def assert_same(model, reference, atol=1e-10):
    """Two models are one, whichever way their rows came."""
    for name in SAME:
        np.testing.assert_allclose(getattr(model, name), getattr(reference, name), atol=atol, rtol=1e-9)


def in_phase(phi, psi, Sxy):
    """phi rotated so that phi'Sxy psi is symmetric and positive."""
    P, _, Qt = np.linalg.svd(phi.T @ Sxy @ psi)
    return phi @ P @ Qt, psi


def failed_checks(model):
    """scikit-learn's checks that an estimator fails, with their errors.

    Those of transformers know by the name of the class that fit_transform returns the scores of both views.
    """
    estimator = type(model)
    name, estimator.__name__ = estimator.__name__, "CCA"
    try:
        found = check_estimator(model, on_fail=None, on_skip=None)
    finally:
        estimator.__name__ = name
    return {r["check_name"]: r["exception"] for r in found if r["status"] == "failed"}
