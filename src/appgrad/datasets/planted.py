"""Simulated problems with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..machine.arrays import Array


class Planted(NamedTuple):
    """Two views with their true correlations and weights."""

    X: Array
    y: Array
    correlations: Array
    x_weights: Array
    y_weights: Array


def planted(
    n_samples: int = 1000,
    n_features_x: int = 20,
    n_features_y: int = 15,
    correlations: Sequence[float] = (0.9, 0.7, 0.5),
    *,
    condition: float = 10.0,
    exact: bool = False,
    random_state: int | None = None,
) -> Planted:
    """Gaussian views with known canonical correlations and vectors.

    Latent scores u_i, v_i have correlation correlations[i] and are otherwise independent; X and y mix
    them by matrices of the given condition number. With exact=True the correlations hold for the
    sample itself to rounding (needs more rows than columns), otherwise for the population.

    Examples
    --------
    >>> from appgrad import CCA
    >>> from appgrad.datasets import planted
    >>> p = planted(200, 6, 5, correlations=[0.9, 0.4], exact=True, random_state=0)
    >>> CCA(2).fit(p.X, p.y).canonical_correlations_.round(6)
    array([0.9, 0.4])
    """
    rho = np.asarray(correlations, dtype=np.float64)
    k, p = len(rho), n_features_x + n_features_y
    if k > min(n_features_x, n_features_y):
        raise ValueError(f"{k} correlations need {k} columns a view, got {n_features_x} and {n_features_y}")
    if np.any(rho < 0) or np.any(rho > 1) or np.any(np.diff(rho) > 0):
        raise ValueError(f"correlations must lie in [0, 1], largest first, got {list(correlations)}")
    if exact and n_samples <= p:
        raise ValueError(f"exact=True needs more rows than columns, got {n_samples} rows and {p} columns")
    rng = np.random.default_rng(random_state)
    Z = rng.standard_normal((n_samples, p))
    if exact:
        Z = np.linalg.qr(Z - Z.mean(axis=0))[0] * np.sqrt(n_samples)
    U, V = Z[:, :n_features_x], Z[:, n_features_x:].copy()
    V[:, :k] = rho * U[:, :k] + np.sqrt(1 - rho**2) * V[:, :k]
    x_mix, x_weights = _mixing(n_features_x, condition, rng)
    y_mix, y_weights = _mixing(n_features_y, condition, rng)
    return Planted(U @ x_mix, V @ y_mix, rho, x_weights[:, :k], y_weights[:, :k])


def sparse_planted(
    n_samples: int = 500,
    n_features_x: int = 1000,
    n_features_y: int = 1000,
    correlations: Sequence[float] = (0.9,),
    *,
    n_active: int = 10,
    autocorrelation: float = 0.6,
    shared: bool = True,
    random_state: int | None = None,
) -> Planted:
    """Gaussian views with sparse canonical vectors; columns are correlated with their neighbours.

    Columns i and j of a view have correlation autocorrelation^|i - j|. Each canonical vector has weights on
    `n_active` random columns, of random signs and sizes from 0.5 to 1 before they are made uncorrelated and
    of unit variance. All vectors share the same columns; with shared=False each has its own, which needs
    autocorrelation=0: otherwise they would not be uncorrelated.

    Examples
    --------
    >>> from appgrad.datasets import sparse_planted
    >>> p = sparse_planted(200, 100, 80, correlations=[0.9, 0.8], random_state=0)
    >>> (p.x_weights != 0).any(axis=1).sum()
    np.int64(10)
    """
    rho = np.asarray(correlations, dtype=np.float64)
    k, least = len(rho), min(n_features_x, n_features_y)
    if np.any(rho < 0) or np.any(rho > 1) or np.any(np.diff(rho) > 0):
        raise ValueError(f"correlations must lie in [0, 1], largest first, got {list(correlations)}")
    if not shared and autocorrelation != 0:
        raise ValueError("shared=False needs autocorrelation=0: other columns are never uncorrelated")
    need = n_active if shared else k * n_active
    if need > least or n_active < (k if shared else 1):
        raise ValueError(f"{k} components on {need} columns do not fit into {least} columns a view")
    rng = np.random.default_rng(random_state)
    weights = [_few(p, k, n_active, autocorrelation, shared, rng) for p in (n_features_x, n_features_y)]
    X, y = (_neighbours(n_samples, p, autocorrelation, rng) for p in (n_features_x, n_features_y))
    scores = rho * (X @ weights[0][0]) + np.sqrt(1 - rho**2) * rng.standard_normal((n_samples, k))
    # Replace the scores of y; the part of y that is uncorrelated with them stays.
    y += (scores - y @ weights[1][0]) @ weights[1][1].T
    return Planted(X, y, rho, weights[0][0], weights[1][0])


def _few(
    p: int, k: int, n_active: int, a: float, shared: bool, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Weights W on few rows with W'SW = I, and S W."""
    W = np.zeros((p, k))
    places = rng.permutation(p)
    for i in range(k):
        rows = places[:n_active] if shared else places[i * n_active : (i + 1) * n_active]
        W[rows, i] = rng.choice([-1.0, 1.0], n_active) * rng.uniform(0.5, 1.0, n_active)
    S = a ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    L = np.linalg.cholesky(W.T @ S @ W)
    W = np.linalg.solve(L, W.T).T
    return W, S @ W


def _neighbours(n: int, p: int, a: float, rng: np.random.Generator) -> Array:
    """Gaussian columns of unit variance, each `a` times the previous one plus noise."""
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = a * X[:, j - 1] + np.sqrt(1 - a * a) * X[:, j]
    return X


def _mixing(p: int, condition: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """A random p x p matrix of this condition number, and its inverse."""
    P = np.linalg.qr(rng.standard_normal((p, p)))[0]
    Q = np.linalg.qr(rng.standard_normal((p, p)))[0]
    s = np.geomspace(1.0, 1.0 / condition, p)
    return (P * s) @ Q.T, (Q / s) @ P.T
