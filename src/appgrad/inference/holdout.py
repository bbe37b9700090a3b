"""Held-out correlations: what is left of a model's correlations on rows it has not seen."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold

from ..data.views import Views
from ..estimators.cca import CCA
from ..estimators.provenance import HeldOut
from ..metrics import correlations

FOLDS = 5


def held_out(model: CCA, views: Views, share: float, seed: int) -> HeldOut:
    """Refit a model without a random share of the rows and correlate the scores of those rows.

    With fewer than 10 rows per component left out, five-fold cross-validation instead: each row is
    scored by the model that has not seen it, and the correlations are those of all rows together.
    """
    n, k = views.n_samples, model.n_components
    size = round(share * n)
    if size >= 10 * k:
        order = np.random.default_rng(seed).permutation(n)
        splits = [(np.sort(order[size:]), np.sort(order[:size]))]
        method = f"a second fit without {size} random rows"
    else:
        folds = KFold(min(FOLDS, n), shuffle=True, random_state=seed)
        splits = list(folds.split(np.empty((n, 1))))
        method = f"{len(splits)}-fold cross-validation: {size} held-out rows are too few for {k} components"
    plain = clone(model).set_params(checkpoint=None)
    scores = [clone(plain).fit(views.take(train)).transform(views.take(test)) for train, test in splits]
    U, V = (np.vstack(parts) for parts in zip(*scores, strict=True))
    return HeldOut(correlations(U, V), method)
