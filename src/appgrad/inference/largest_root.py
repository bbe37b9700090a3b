"""Exact distribution of the largest squared canonical correlation of unrelated normal views."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..machine.arrays import Array

# Panels on either side of the value asked for, and nodes of each: enough for fifty roots (12 digits against
# 110 digits up to 14 roots, 8 against three times as many panels at 50).
PANELS, NODES = 16, 16
# Points at which the weight is looked at, to find where it matters, how often, and the logarithm of what does
# not.
GRID, REFINED, NEGLIGIBLE = 200, 4, 80.0


def tail(square: float, n: int, p: int, q: int) -> float:
    """Return the probability that the largest squared correlation of noise exceeds a value.

    n is the number of centred rows, p and q are the dimensions of the views, p + q < n. With u = sin^2 t, the
    s = min(p, q) roots have the density prod W(t_i) prod |u_i - u_j|, W(t) = sin^a(t) cos^b(t), a = |p - q|,
    b = n - p - q - 1. By de Bruijn's formula, P(all < x) = Pf A(x) / Pf A(1), where

        a_ij(x) = int_0^x (F_i f_j - F_j f_i) dt,  f_i = (polynomial in u of degree i - 1) W,  F_i = int f_i,

    with one more column int f_i if s is odd. Chiani (2016) takes monomials, in which A is so badly
    conditioned that double precision ends at ten roots, and at fewer where p and q differ much. Here the f_i
    are orthonormal, and integrals are sums over Gauss nodes. The tail comes from D = A(1) - A(x), the nodes
    beyond x, so that small ones keep their digits: P = 1 - sqrt(det(I - A(1)^-1 D)).
    """
    s, a, b = min(p, q), abs(p - q), n - p - q - 1
    at = float(np.arcsin(np.sqrt(square)))
    below, above = _region(0.0, at, s, a, b), _region(at, np.pi / 2, s, a, b)
    t, weights, sums = _nodes(below, above)
    f = _basis(t, weights, s, a, b)
    inside = np.add.reduce((weights[:, None] * f).reshape(2 * PANELS, NODES, s), axis=1)
    start = np.cumsum(inside, axis=0) - inside
    F = (np.repeat(start[:, None], NODES, axis=1) + sums @ f.reshape(2 * PANELS, NODES, s)).reshape(-1, s)
    beyond, weighted = slice(PANELS * NODES, None), weights[:, None] * f
    whole, apart = _skew(F.T @ weighted), _skew(F[beyond].T @ weighted[beyond])
    if s % 2:
        whole = _bordered(whole, weighted.sum(axis=0))
        apart = _bordered(apart, weighted[beyond].sum(axis=0))
    values = np.linalg.eigvals(np.linalg.solve(whole, apart)).real
    with np.errstate(divide="ignore"):
        log = 0.5 * float(np.sum(np.log1p(-np.minimum(values, 1.0))))
    return min(max(-float(np.expm1(log)), 0.0), 1.0)


def _region(low: float, high: float, s: int, a: int, b: int) -> tuple[float, float]:
    """The part of an interval in which functions of the basis are not negligible beside their largest value.

    They are of one size between the edges of the roots (Wachter 1980). Beyond these, polynomials of degree
    s - 1 grow no faster than Chebyshev's, and W falls.
    """
    c1, c2 = (s - 0.5) / (2 * s + a + b), (s + a - 0.5) / (2 * s + a + b)
    ends = [(np.sqrt(c1 * (1 - c2)) + sign * np.sqrt(c2 * (1 - c1))) ** 2 for sign in (-1, 1)]
    # Ever closer: with many rows, it may be a millionth of the interval.
    for _ in range(REFINED):
        step = (high - low) / GRID
        t = low + step * (np.arange(GRID) + 0.5)
        u = np.sin(t) ** 2
        z = (2 * u - ends[0] - ends[1]) / (ends[1] - ends[0])
        size = _log_weight(t, a, b) - _log_weight(np.arcsin(np.sqrt(np.clip(u, *ends))), a, b)
        size += (s - 1) * np.arccosh(np.maximum(np.abs(z), 1.0))
        kept = np.flatnonzero(size > size.max() - NEGLIGIBLE)
        low, high = low + kept[0] * step, low + (kept[-1] + 1) * step
    return low, high


def _log_weight(t: Array, a: int, b: int) -> Array:
    """The logarithm of sin^a cos^b; t is inside of the interval."""
    return np.asarray(a * np.log(np.sin(t)) + b * np.log(np.cos(t)))


def _nodes(below: tuple[float, float], above: tuple[float, float]) -> tuple[Array, Array, Array]:
    """Nodes and weights of all panels, and for each the matrix of integrals from its start to a node."""
    x, w, S = _gauss()
    ends = np.concatenate([np.linspace(*below, PANELS + 1), np.linspace(*above, PANELS + 1)])
    left, right = np.delete(ends[:-1], PANELS), np.delete(ends[1:], PANELS)
    half = (right - left) / 2
    t = ((left + right) / 2)[:, None] + half[:, None] * x
    return t.ravel(), (half[:, None] * w).ravel(), half[:, None, None] * S


@cache
def _gauss() -> tuple[Array, Array, Array]:
    """Gauss nodes and weights on [-1, 1], and integrals of Lagrange's polynomials from -1 to each node."""
    x, w = np.polynomial.legendre.leggauss(NODES)
    # Coefficients in Legendre's polynomials, and the integrals of these.
    degrees = np.arange(NODES)
    V = np.polynomial.legendre.legvander(x, NODES)
    coefficients = (degrees + 0.5)[:, None] * (V[:, :NODES] * w[:, None]).T
    integrals = np.empty((NODES, NODES))
    integrals[:, 0] = x + 1
    integrals[:, 1:] = (V[:, 2:] - V[:, : NODES - 1]) / (2 * degrees[1:] + 1)
    return x, w, integrals @ coefficients


def _basis(t: Array, weights: Array, s: int, a: int, b: int) -> Array:
    """Polynomials in u of degrees 0 to s - 1, times W, orthonormal over the nodes (Arnoldi's method)."""
    u, logs, root = np.sin(t) ** 2, _log_weight(t, a, b), np.sqrt(weights)
    v = np.exp(logs - logs.max()) * root
    Q = np.empty((len(t), s))
    for i in range(s):
        for _ in range(2):
            v = v - Q[:, :i] @ (Q[:, :i].T @ v)
        Q[:, i] = v / np.linalg.norm(v)
        v = u * Q[:, i]
    return np.asarray(Q / root[:, None])


def _skew(G: Array) -> Array:
    return G - G.T


def _bordered(A: Array, column: Array) -> Array:
    """A skew-symmetric matrix with one more row and column."""
    return np.block([[A, column[:, None]], [-column[None, :], np.zeros((1, 1))]])
