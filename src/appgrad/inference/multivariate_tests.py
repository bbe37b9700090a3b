"""Tests of canonical correlations of normal rows: Wilks, Bartlett, Pillai, Hotelling-Lawley and Roy.

Notation: lambda_1 >= lambda_2 ... are all squared correlations, p and q the numbers of independent columns,
s the smaller one, N the number of rows, one more if the columns were not centred.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, fdtrc

from ..machine.arrays import Array
from .distributions import EXACT, largest_tail, require_room


class Steps(NamedTuple):
    """Tests that all correlations from component k + 1 on are zero: an entry for each k, from 0 on.

    Wilks' lambda with the F of Rao (1951) and the chi-square of Bartlett (1938).
    """

    wilks: Array
    df1: Array
    df2: Array
    f: Array
    p_f: Array
    chi2: Array
    p_chi2: Array


class Statistic(NamedTuple):
    """One multivariate statistic of the hypothesis that the views are not related, with its p-value.

    `reference` is the distribution that the p-value comes from. The degrees of freedom are those of F.
    """

    value: float
    df1: float
    df2: float
    f: float
    p: float
    reference: str


def step_down(squares: Array, n: int, p: int, q: int) -> Steps:
    """Return Wilks' tests of all steps, from all min(p, q) squared correlations.

    L_k = prod_(j > k) (1 - lambda_j) with m = N - 1 - (p + q + 1) / 2, P = p - k, Q = q - k:
    chi2 = -m ln L_k, and F = (L_k^(-1/t) - 1) df2 / df1 with t = sqrt((P^2 Q^2 - 4) / (P^2 + Q^2 - 5)),
    df1 = P Q, df2 = m t - P Q / 2 + 1.
    """
    require_room(n, p, q)
    logs = log_wilks(squares)
    k = np.arange(len(squares))
    P, Q = p - k.astype(float), q - k.astype(float)
    df1, m = P * Q, n - 1 - (p + q + 1) / 2
    t = np.ones(len(k))
    wide = df1 > 2
    t[wide] = np.sqrt((df1[wide] ** 2 - 4) / (P[wide] ** 2 + Q[wide] ** 2 - 5))
    df2 = m * t - df1 / 2 + 1
    with np.errstate(over="ignore", invalid="ignore"):
        # Degrees of freedom below zero: so few rows that F has no distribution.
        f = np.where(df2 > 0, np.expm1(-logs / t) * df2 / df1, np.nan)
        p_f = np.where(np.isinf(f), 0.0, fdtrc(df1, df2, f))
        chi2 = np.maximum(-m * logs, 0.0)
        p_chi2 = np.where(np.isinf(chi2), 0.0, chdtrc(df1, chi2))
    return Steps(np.exp(logs), df1, df2, f, p_f, chi2, p_chi2)


def log_wilks(squares: Array) -> Array:
    """ln L_k for every k, from 0 on; minus infinity where a correlation is 1."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.cumsum(np.log1p(-np.clip(squares, 0.0, 1.0))[::-1])[::-1])


def multivariate(squares: Array, n: int, p: int, q: int) -> dict[str, Statistic]:
    """Return the four multivariate statistics by their names."""
    require_room(n, p, q)
    first = step_down(squares, n, p, q)
    value, df1, df2, f, tail = (float(part[0]) for part in first[:5])
    return {
        "Wilks' lambda": Statistic(value, df1, df2, f, tail, "F (Rao)"),
        "Pillai's trace": pillai(squares, n, p, q),
        "Hotelling-Lawley trace": hotelling_lawley(squares, n, p, q),
        "Roy's greatest root": roy(squares, n, p, q),
    }


def pillai(squares: Array, n: int, p: int, q: int) -> Statistic:
    """V = sum lambda_j, with its F: (2 r + s + 1) / (2 m + s + 1) V / (s - V)."""
    s, m, r = _sizes(n, p, q)
    value = float(np.sum(squares))
    df1, df2 = s * (2 * m + s + 1), s * (2 * r + s + 1)
    f = np.inf if value >= s else df2 / df1 * value / (s - value)
    return Statistic(value, df1, df2, f, _tail(f, df1, df2), "F")


def hotelling_lawley(squares: Array, n: int, p: int, q: int) -> Statistic:
    """U = sum lambda_j / (1 - lambda_j), with the F of McKeon (1974).

    With so few rows that this has no degrees of freedom, p is NaN: U has no finite mean.
    """
    _, _, r = _sizes(n, p, q)
    value = _sum_of_ratios(squares)
    if r <= 0:
        return Statistic(value, p * q, np.nan, np.nan, np.nan, "none: too few rows")
    # b is infinite for r = 1.
    ratio = (p * q + 2) * 2 * (2 * r + 1) * (r - 1)
    ratio /= (p + 2 * r) * (q + 2 * r) - 2 * (2 * r + 1) * (r - 1)
    df1, df2 = p * q, 4 + ratio
    f = value * 2 * r / (2 + ratio) * df2 / df1
    return Statistic(value, df1, df2, f, _tail(f, df1, df2), "F (McKeon)")


def roy(squares: Array, n: int, p: int, q: int) -> Statistic:
    """The largest lambda / (1 - lambda), with the distribution of the largest root.

    The usual F, which is given too, is an upper bound: its p-value would be too small.
    """
    first = float(squares[0])
    value = _sum_of_ratios(squares[:1])
    df1, df2 = max(p, q), n - 1 - max(p, q)
    reference = "exact" if min(p, q) <= EXACT else "Tracy-Widom (Johnstone)"
    return Statistic(value, df1, df2, value * df2 / df1, largest_tail(first, n, p, q), reference)


def _sizes(n: int, p: int, q: int) -> tuple[int, float, float]:
    """s, m = (|p - q| - 1) / 2 and r = (N - p - q - 2) / 2."""
    return min(p, q), (abs(p - q) - 1) / 2, (n - p - q - 2) / 2


def _sum_of_ratios(squares: Array) -> float:
    """Sum of lambda / (1 - lambda); infinite where a correlation is 1."""
    with np.errstate(divide="ignore"):
        return float(np.sum(squares / (1 - squares)))


def _tail(f: float, df1: float, df2: float) -> float:
    if not df2 > 0:
        return float("nan")
    return 0.0 if np.isinf(f) else float(fdtrc(df1, df2, f))
