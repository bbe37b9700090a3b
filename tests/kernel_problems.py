"""Problems for tests of kernels, and a comparison of scores."""

import numpy as np


def related(rng, n=120, extra=0):
    """Two views that share two latent variables, one of them squared."""
    Z = rng.standard_normal((n + extra, 2))
    X = np.hstack([Z, rng.standard_normal((n + extra, 2))]) @ rng.standard_normal((4, 4))
    Y = np.column_stack([Z[:, 0] ** 2, Z[:, 1]]) + 0.3 * rng.standard_normal((n + extra, 2))
    return X[:n], Y[:n], X[n:], Y[n:]


def circle(rng, n, noise=0.1):
    """Points on a circle and the cosine of three times their angle."""
    angle = rng.uniform(-np.pi, np.pi, (n, 1))
    X = np.hstack([np.cos(angle), np.sin(angle)]) + noise * rng.standard_normal((n, 2))
    return X, np.cos(3 * angle) + noise * rng.standard_normal((n, 1))


def xor(rng, n):
    """Two coordinates and whether their signs agree."""
    X = rng.standard_normal((n, 2))
    return X, np.sign(X[:, :1] * X[:, 1:])


def assert_same_scores(ours, theirs, atol):
    """Signs are the library's choice."""
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a * np.sign(np.sum(a * b, axis=0)), b, atol=atol)
