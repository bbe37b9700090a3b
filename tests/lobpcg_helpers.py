"""Helpers of tests of LOBPCG."""

import warnings

from sklearn.exceptions import ConvergenceWarning

from appgrad import CCA


def fitted(X, Y, k, **params):
    """A model, and whether it says that something may be wrong with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = CCA(k, solver="lobpcg", random_state=0, **params).fit(X, Y)
    return model, any(issubclass(w.category, ConvergenceWarning) for w in caught)
