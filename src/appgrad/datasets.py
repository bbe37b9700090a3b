"""Problems with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .views import Array


class Planted(NamedTuple):
    """Two views and the truth behind them."""

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


def _mixing(p: int, condition: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """A random p x p matrix of this condition number, and its inverse."""
    P = np.linalg.qr(rng.standard_normal((p, p)))[0]
    Q = np.linalg.qr(rng.standard_normal((p, p)))[0]
    s = np.geomspace(1.0, 1.0 / condition, p)
    return (P * s) @ Q.T, (Q / s) @ P.T
