"""Models of which no theory knows the noise level, and fits without warnings."""

import warnings

import numpy as np
import pytest

from appgrad import CCA, KernelCCA, SparseCCA

# Small problems on purpose, whose noise may rest on a few rows.
FEW = pytest.mark.filterwarnings("ignore:components? .* rests? on fewer than")


def quiet(model, *rows, **given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*rows, **given)


def silent_models(X, Y):
    stream = CCA(1, forget=50)
    for rows in np.array_split(np.arange(len(X)), 10):
        stream.partial_fit(X[rows], Y[rows])
    return {
        "the ridge leaves": CCA(1, ridge=1.0).fit(X, Y),
        "which force correlations of 1": quiet(CCA(1), X[:13], Y[:13]),
        "rows count less as they age": stream,
        "functions of a kernel": quiet(KernelCCA(1, ridge=1.0), X, Y),
        "chosen by their correlations": quiet(SparseCCA(1, n_nonzero=3), X, Y),
    }
