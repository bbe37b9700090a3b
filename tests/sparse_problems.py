"""Problems for tests of sparse components, and measures of how well these are found."""

import numpy as np

from appgrad.datasets import sparse_planted


def support(W):
    return set(np.flatnonzero(np.any(W != 0, axis=1)))


def f1(W, truth):
    """Twice what both have over what each has."""
    a, b = support(W), support(truth)
    return 2 * len(a & b) / (len(a) + len(b))


def both_f1(model, p):
    return (f1(model.x_weights_, p.x_weights) + f1(model.y_weights_, p.y_weights)) / 2


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def small(seed=0, **params):
    return sparse_planted(300, 120, 100, random_state=seed, **{"n_active": 6, **params})
