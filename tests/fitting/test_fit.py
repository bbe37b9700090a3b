"""The functional core: `fitting.fit` returns a value."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from appgrad import CCA
from appgrad.data.arrays import ArrayViews
from appgrad.data.derived import CountedViews
from appgrad.datasets import planted
from appgrad.fitting import fit as core
from appgrad.fitting.fit import Fit, fit, generator
from appgrad.solvers import registry
from appgrad.solvers.problem import Limits, Problem
from appgrad.solvers.protocol import Options


@pytest.fixture(scope="module")
def data():
    p = planted(300, 7, 6, [0.9, 0.7, 0.5], random_state=0)
    return p.X, p.y


def counted(X, y):
    return CountedViews(ArrayViews(X, y))


def test_the_core_returns_a_value_and_warns_of_nothing(data):
    options = Options("appgrad", limits=Limits(iterations=3), tol=1e-9)
    found = fit(counted(*data), Problem(2), options, generator(0))
    assert isinstance(found, Fit)
    assert (found.solver, found.reason, found.iterations, found.resumed_from) == (
        "appgrad",
        "asked for",
        3,
        0,
    )
    assert [step["iteration"] for step in found.history] == [1, 2, 3]
    assert [remark.category for remark in found.remarks] == [ConvergenceWarning]
    assert not found.interrupted
    with pytest.warns(ConvergenceWarning) as caught:
        model = CCA(2, solver="appgrad", max_iter=3, tol=1e-9, random_state=0).fit(*data)
    assert [remark.text.partition(" s,")[0] for remark in model.remarks] == [
        str(w.message).partition(" s,")[0] for w in caught
    ]
    np.testing.assert_array_equal(model.x_weights_, found.solution.x_weights)
    # One more says on how many rows components rest.
    assert model.n_passes_ == found.passes + 1


def test_the_core_keeps_the_best_state_of_an_interrupted_run(data):
    def interrupt(progress):
        if progress.iteration == 4:
            raise KeyboardInterrupt

    found = fit(counted(*data), Problem(2), Options("appgrad", tol=0), generator(0), callback=interrupt)
    assert found.interrupted
    assert found.iterations == 3
    (remark,) = found.remarks
    assert remark.text.startswith("the model is unfinished: appgrad was interrupted after 3 iterations")
    assert remark.category is ConvergenceWarning


@pytest.mark.parametrize("moment", ["shortfall_remarks", "in_precision"])
def test_a_run_that_is_over_is_not_lost_to_ctrl_c(data, monkeypatch, moment):
    """Ctrl-C comes once, between the last iteration and the result."""
    usual, times = getattr(core, moment), []

    def interrupted(*args):
        times.append(1)
        if len(times) == 1:
            raise KeyboardInterrupt
        return usual(*args)

    whole = CCA(2, solver="lobpcg", random_state=0).fit(*data)
    monkeypatch.setattr(core, moment, interrupted)
    model = CCA(2, solver="lobpcg", random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    np.testing.assert_array_equal(model.canonical_correlations_, whole.canonical_correlations_)
    assert model.remarks == whole.remarks == ()


@pytest.mark.parametrize("solver", [name for name in registry.names(registry.LINEAR) if name != "auto"])
def test_a_step_size_that_is_not_used_is_said(solver):
    """Those that say so give the same result with another; the others do not."""
    X, Y = np.random.default_rng(0).standard_normal((2, 300, 4))
    found = []
    for step in ("auto", (0.3, 0.2)):
        model = CCA(1, solver=solver, step_size=step, max_iter=3, tol=0, random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found.append(model.fit(X, Y).x_weights_)
    said = [str(w.message) for w in caught if "step_size is not used by" in str(w.message)]
    assert len(said) == np.array_equal(*found)


def test_auto_is_free_not_to_use_a_step_size():
    X, Y = np.random.default_rng(0).standard_normal((2, 300, 4))
    CCA(1, step_size=(0.3, 0.2)).fit(X, Y)
