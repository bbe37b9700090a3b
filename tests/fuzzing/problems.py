"""Structured random problems: two views, what was done to them, and the forms they come in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

Rng = np.random.Generator


class Data(NamedTuple):
    """Two views as a solver is given them, the same numbers as dense doubles, and their story."""

    X: Any
    Y: Any
    dense: tuple[np.ndarray, np.ndarray]
    story: str
    single: bool


def data(rng: Rng) -> Data:
    """Two related views with troubles of many kinds, as arrays or sparse matrices of some type."""
    n = int(np.exp(rng.uniform(np.log(5), np.log(3000))))
    p, q = (_width(rng, n) for _ in range(2))
    if max(p, q) > 16:
        n = min(n, 800 if rng.random() < 0.7 else 2000)
    wide = rng.random() < 0.08
    if wide:
        n, p = int(rng.integers(5, 40)), int(rng.integers(10, 60))
    X, Y, story = _base(rng, n, p, q)
    for _ in range(int(rng.choice([0, 1, 2, 3], p=[0.15, 0.4, 0.3, 0.15]))):
        change = CHANGES[rng.integers(len(CHANGES))]
        if rng.random() < 0.5:
            X, Y, said = change(rng, X, Y)
        else:
            Y, X, said = change(rng, Y, X)
            said = f"y {said}"
        story += f", {said}"
    return _in_form(rng, X, Y, f"n={n} p={X.shape[1]}+{Y.shape[1]} {story}")


def _width(rng: Rng, n: int) -> int:
    return int(rng.integers(17, 60)) if rng.random() < 0.05 else int(rng.integers(1, 13))


def _base(rng: Rng, n: int, p: int, q: int) -> tuple[np.ndarray, np.ndarray, str]:
    kind = str(rng.choice(["normal", "counts", "one-hot", "low rank", "heavy tails", "binary", "equal"]))
    shared = rng.standard_normal((n, min(p, q, 3)))
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, q))
    strength = rng.uniform(0, 2, shared.shape[1]) * (rng.random() < 0.85)
    X[:, : shared.shape[1]] += strength * shared
    Y[:, : shared.shape[1]] += strength * shared
    if kind == "counts":
        X, Y = (rng.poisson(np.exp(np.clip(Z - rng.uniform(0, 3), -8, 4))).astype(float) for Z in (X, Y))
    elif kind == "one-hot":
        X = np.eye(p)[np.clip(np.rint(X[:, 0] * 2 + p / 2), 0, p - 1).astype(int)]
        if rng.random() < 0.5:
            Y = np.eye(q)[np.clip(np.rint(Y[:, 0] * 2 + q / 2), 0, q - 1).astype(int)]
    elif kind == "low rank":
        r = int(rng.integers(1, p + 1))
        X = X[:, :r] @ rng.standard_normal((r, p))
    elif kind == "heavy tails":
        X, Y = X**3, Y * np.exp(Y)
    elif kind == "binary":
        X, Y = (X > 0).astype(float), (Y > 0.5).astype(float)
    elif kind == "equal":
        # Ties between correlations.
        m = min(p, q)
        rho = rng.uniform(0, 1)
        Y[:, :m] = rho * X[:, :m] + np.sqrt(1 - rho**2) * Y[:, :m]
    return X, Y, kind


def _collinear(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    """Two columns that nearly coincide; the other view may know of their difference alone."""
    eps = 10.0 ** rng.uniform(-9, -1)
    z = rng.standard_normal(len(X))
    j = int(rng.integers(X.shape[1]))
    size = float(np.std(X[:, j])) or 1.0
    X = np.column_stack([X, X[:, j] + eps * size * z])
    said = f"near-collinear {eps:.0e}"
    if rng.random() < 0.7:
        i = int(rng.integers(Y.shape[1]))
        Y = Y.copy()
        Y[:, i] = 0.9 * z * (float(np.std(Y[:, i])) or 1.0) + 0.4 * Y[:, i]
        said += " with signal"
    return X, Y, said


def _subtotals(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    half = max(1, X.shape[1] // 2)
    parts = [X, X[:, :half].sum(axis=1, keepdims=True), X.sum(axis=1, keepdims=True)]
    said = "subtotals"
    if rng.random() < 0.3:
        eps = 10.0 ** rng.uniform(-9, -1)
        z = rng.standard_normal(len(X))
        parts[-1] = parts[-1] + eps * z[:, None]
        Y = Y.copy()
        Y[:, 0] = z + 0.3 * Y[:, 0]
        said += f" off by {eps:.0e} with signal"
    return np.hstack(parts), Y, said


def _shares(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    X = np.abs(X) + 0.1
    return X / X.sum(axis=1, keepdims=True), Y, "shares"


def _twins(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    factor = float(rng.choice([1.0, -1.0, 3.0, 0.1]))
    return np.hstack([X, factor * X[:, [int(rng.integers(X.shape[1]))]]]), Y, f"twin column x {factor:g}"


def _repeated_rows(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    rows = rng.integers(0, max(2, len(X) // int(rng.integers(1, 6))), len(X))
    return X[rows], Y[rows], "repeated rows"


def _constant(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    value = float(rng.choice([0.0, 1.0, 0.1, -1e6, 1e-7]))
    return np.column_stack([X, np.full(len(X), value)]), Y, f"constant column {value:g}"


def _scales(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    return X * 10.0 ** rng.uniform(-8, 8, X.shape[1]), Y, "scales"


def _one_scale(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    size = 10.0 ** rng.uniform(-8, 8)
    return X * size, Y, f"x {size:.0e}"


def _means(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    size = 10.0 ** rng.uniform(0, 6)
    sd = np.std(X, axis=0)
    return X + size * rng.standard_normal(X.shape[1]) * np.where(sd > 0, sd, 1.0), Y, f"means {size:.0e}"


def _copied(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    """The other view has a column of this one: a correlation of 1."""
    return X, np.column_stack([Y, X[:, int(rng.integers(X.shape[1]))]]), "shared column"


def _outlier(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    X, size = X.copy(), 10.0 ** rng.uniform(1, 6)
    X[int(rng.integers(len(X)))] *= size
    return X, Y, f"outlier x {size:.0e}"


def _rare(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    """A column that is not zero in a row or two."""
    column = np.zeros(len(X))
    column[rng.integers(0, len(X), 2)] = 1.0
    return np.column_stack([X, column]), Y, "rare column"


def _ladder(rng: Rng, X: np.ndarray, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray, str]:
    """Principal directions whose variances fall by decades, mixed; the weakest carries a signal."""
    p, decades = X.shape[1], rng.uniform(1, 8)
    Q = np.linalg.qr(rng.standard_normal((p, p)))[0]
    X = rng.standard_normal(X.shape)
    Y = Y.copy()
    Y[:, 0] = X[:, -1] + 0.5 * rng.standard_normal(len(X))
    return (X * np.logspace(0, -decades, p)) @ Q, Y, f"spectrum to 1e-{decades:.0f} with signal"


Change = Callable[[Rng, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, str]]
CHANGES: list[Change] = [
    _collinear,
    _collinear,
    _collinear,
    _subtotals,
    _subtotals,
    _shares,
    _twins,
    _repeated_rows,
    _constant,
    _scales,
    _one_scale,
    _means,
    _copied,
    _outlier,
    _rare,
    _ladder,
]

FORMS = {
    "float64": 8,
    "float32": 4,
    "int": 2,
    "fortran": 1,
    "csr": 2,
    "csc": 1,
    "coo": 1,
    "csr float32": 2,
    "csr int": 1,
    "mixed": 1,
}


def _in_form(rng: Rng, X: np.ndarray, Y: np.ndarray, story: str) -> Data:
    weights = np.array(list(FORMS.values()), dtype=float)
    form = str(rng.choice(list(FORMS), p=weights / weights.sum()))
    given: list[Any] = [X, Y]
    if "32" in form:
        given = [Z.astype(np.float32) for Z in given]
    if "int" in form:
        given = [_whole(Z) for Z in given]
    if "cs" in form or form == "coo":
        given = [_thinned(rng, Z) for Z in given] if rng.random() < 0.4 else given
        make = sp.csc_array if "csc" in form else sp.coo_array if form == "coo" else sp.csr_array
        dense = [np.asarray(Z, dtype=np.float64) for Z in given]
        given = [make(Z) for Z in given]
    else:
        dense = [np.asarray(Z, dtype=np.float64) for Z in given]
        if form == "fortran":
            given = [np.asfortranarray(Z) for Z in given]
        if form == "mixed":
            given = [sp.csr_array(given[0]), given[1].astype(np.float64)]
    return Data(given[0], given[1], (dense[0], dense[1]), f"{story}; {form}", "32" in form)


def _whole(Z: np.ndarray) -> np.ndarray:
    """Values as integers, of a few digits where they have some."""
    largest = float(np.abs(Z).max()) or 1.0
    factor = 1.0 if np.array_equal(Z, np.rint(Z)) and largest < 1e9 else 1e6 / largest
    return np.rint(Z * factor).astype(np.int64)


def _thinned(rng: Rng, Z: np.ndarray) -> np.ndarray:
    kept = rng.random(Z.shape) < rng.uniform(0.05, 0.5)
    return np.where(kept, Z, 0).astype(Z.dtype)
