"""Held-out correlations: those of refits without the rows they are of."""

import numpy as np
import pytest
from sklearn.base import clone

from appgrad import CCA, SparseCCA, correlations
from appgrad.data.arrays import ArrayViews
from appgrad.datasets import planted
from appgrad.fitting.fit import fit
from appgrad.inference.holdout import held_out


@pytest.fixture(scope="module")
def data():
    p = planted(300, 7, 6, [0.9, 0.7, 0.5], random_state=0)
    return p.X, p.y


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "model",
    [
        CCA(2, random_state=3),
        CCA(2, solver="stochastic", batch_size=40, random_state=3, n_jobs=1),
        CCA(2, solver="lobpcg", tol=1e-9, random_state=np.random.default_rng(1)),
        SparseCCA(2, n_nonzero=4, random_state=0),
    ],
)
@pytest.mark.parametrize("n", [60, 300])
def test_held_out_correlations_are_those_of_refits(model, n, dtype, data):
    views = ArrayViews(data[0][:n].astype(dtype), data[1][:n].astype(dtype))
    params = {"random_state": model.random_state, "n_jobs": model.n_jobs}
    found = held_out(views, *model.problem_and_options(), share=0.1, seed=5, **params)
    rng = np.random.default_rng(5)
    if n == 300:
        order = rng.permutation(n)
        splits = [(np.sort(order[30:]), np.sort(order[:30]))]
        assert found.method == "a second fit without 30 random rows"
    else:
        from sklearn.model_selection import KFold

        splits = KFold(5, shuffle=True, random_state=5).split(np.empty((n, 1)))
        assert found.method.startswith("5-fold cross-validation: 6 held-out rows are too few")
    scores = [clone(model).fit(views.take(train)).transform(views.take(test)) for train, test in splits]
    expected = correlations(*(np.vstack(parts) for parts in zip(*scores, strict=True)))
    np.testing.assert_array_equal(found.correlations, expected)


def test_an_interrupted_refit_is_no_check(data, monkeypatch):
    def interrupted(*args, **kwargs):
        return fit(*args, **kwargs)._replace(interrupted=True)

    monkeypatch.setattr("appgrad.inference.holdout.fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        held_out(ArrayViews(*data), *CCA(2).problem_and_options(), share=0.1, seed=0)
