"""Helpers of tests of LOBPCG."""

import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from appgrad import CCA


def fitted(X, Y, k, random_state=0, **params):
    """A model, and whether it says that something may be wrong with it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = CCA(k, solver="lobpcg", random_state=random_state, **params).fit(X, Y)
    return model, any(issubclass(w.category, ConvergenceWarning) for w in caught)


def topics(n, p1, p2, seed=0, subjects=60, words=8):
    """Two sparse views of texts on common subjects: words of a frequency that falls with their rank."""
    rng = np.random.default_rng(seed)
    subject = np.minimum(rng.zipf(1.2, n), subjects)[:, None]
    sides = []
    for p in (p1, p2):
        # A subject has a range of words of its own, among words that are common to all.
        common = np.minimum(rng.zipf(1.1, (n, words)), p) - 1
        own = (37 * subject + np.minimum(rng.zipf(1.3, (n, words)), 500)) % p
        ids = np.where(rng.random((n, words)) < 0.5, own, common)
        counts = sp.csr_array(
            (np.ones(n * words), ids.ravel(), np.arange(0, n * words + 1, words)), shape=(n, p)
        )
        counts.sum_duplicates()
        sides.append(counts)
    return sides[0], sides[1]


def crowd(n, groups, parts=2, per=5, noise=0.02, seed=0, spread=1.0):
    """Sparse views of events that each show one of a few rare columns: hundreds of correlations below 1."""
    rng = np.random.default_rng(seed)
    share = rng.lognormal(0, spread, groups)
    events = groups * parts * per
    group, row = rng.choice(groups, events, p=share / share.sum()), rng.integers(0, n, events)
    sides = []
    for _ in range(2):
        column, seen = group * parts + rng.integers(0, parts, events), rng.random(events) >= noise
        occurs = sp.csr_array((np.ones(seen.sum()), (row[seen], column[seen])), shape=(n, groups * parts))
        occurs.data[:] = 1.0
        sides.append(occurs)
    return sides[0], sides[1]
