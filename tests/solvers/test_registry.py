"""The registry: a solver needs only to be listed to be checked, planned, run, resumed and explained."""

import json
import re
import subprocess
import sys
from types import ModuleType
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from appgrad import CCA, KernelCCA, SparseCCA, load, plan
from appgrad.covariance.linalg import captured
from appgrad.datasets import planted
from appgrad.fitting import archive
from appgrad.fitting.saved_state import packed, unpacked
from appgrad.machine.arrays import Array
from appgrad.solvers import registry
from appgrad.solvers.batch import BatchSolver
from appgrad.solvers.costs import Cost
from appgrad.solvers.exact import ExactSolver
from appgrad.solvers.problem import Diagnostics


class State(NamedTuple):
    A: Array
    B: Array


class Powers:
    """Each side from the other by its own covariance's inverse, as textbooks have it."""

    def __init__(self, k):
        self.k = k

    def init(self, cov, k, rng):
        return self.step(State(rng.standard_normal((6, k)), rng.standard_normal((5, k))), cov)

    def step(self, state, cov):
        xx, yy = cov.squares(np.eye(6), np.eye(5))
        _, xy, yx, _ = cov.products(state.A, state.B)
        A, B = (np.linalg.qr(np.linalg.solve(S, C))[0] for S, C in ((xx, xy), (yy, yx)))
        tcc = captured(*cov.grams(A, B), self.k)[2]
        return State(A, B), Diagnostics(A, B, tcc, 0.0, False)


class Toy(BatchSolver):
    name = "toy"
    records = {"toy-state/1": State}  # noqa: RUF012

    def algorithm(self, ready):
        return Powers(ready.problem.n_components), ready.limits

    def cost(self, views, k, rates):
        return Cost(self.name, 7.0, 0.5, 1000)


@pytest.fixture
def toy(monkeypatch):
    """A solver in a file of its own and a line of the registry, which is all it takes."""
    module = ModuleType("appgrad.solvers.toy")
    module.SOLVER = Toy()
    monkeypatch.setitem(sys.modules, "appgrad.solvers.toy", module)
    entry = registry.Entry("toy", "an example", (registry.LINEAR,))
    monkeypatch.setitem(registry.SOLVERS, "toy", entry)
    return planted(500, 6, 5, [0.9, 0.6], random_state=0)


def test_a_listed_solver_solves(toy):
    with pytest.warns(ConvergenceWarning, match=r"toy stopped at its max_iter after 60 iterations"):
        model = CCA(2, solver="toy", max_iter=60, random_state=0).fit(toy.X, toy.y)
    assert (model.solver_, model.solver_reason_) == ("toy", "asked for")
    exact = CCA(2).fit(toy.X, toy.y)
    np.testing.assert_allclose(model.canonical_correlations_, exact.canonical_correlations_, atol=1e-8)


def test_a_listed_solver_is_planned_and_named(toy):
    assert plan(toy.X, toy.y).costs[-1] == Cost("toy", 7.0, 0.5, 1000)
    with pytest.raises(ValueError, match=r"solver must be one of \['auto', 'exact', .*'toy'\]"):
        CCA(solver="toys").fit(toy.X, toy.y)
    assert not hasattr(CCA(solver="toy"), "partial_fit")


@pytest.mark.filterwarnings("ignore:toy stopped")
def test_a_listed_solver_goes_on_from_its_checkpoint(toy, tmp_path):
    state = State(np.eye(3), np.ones((2, 2)))
    again = unpacked(*packed(state))
    assert type(again) is State
    np.testing.assert_array_equal(again.A, state.A)

    def fitted(iterations, **params):
        return CCA(2, solver="toy", max_iter=iterations, random_state=0, **params).fit(toy.X, toy.y)

    path = tmp_path / "toy.ckpt"
    fitted(3, checkpoint=path)
    resumed = fitted(8, checkpoint=path)
    assert resumed.resumed_from_iteration_ == 3
    np.testing.assert_array_equal(resumed.x_weights_, fitted(8).x_weights_)


@pytest.mark.parametrize(
    ("estimator", "problem"), [(CCA, "linear"), (KernelCCA, "kernel"), (SparseCCA, "sparse")]
)
def test_docstrings_name_the_solvers_of_the_registry(estimator, problem):
    (listed,) = re.findall(r"solver : \{(.*?)\}", estimator.__doc__)
    assert re.findall(r'"(\w+)"', listed) == list(registry.names(problem))


def test_every_solver_has_the_name_it_is_listed_under():
    for name in registry.SOLVERS:
        assert registry.solver(name).name == name


def test_reading_the_table_imports_nothing_heavy():
    code = (
        "import sys, appgrad.solvers.registry\n"
        "heavy = {'numpy', 'scipy', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("solver", [name for name in registry.SOLVERS if name != "pursuit"])
def test_statistics_alone_are_for_solvers_that_keep_sums(solver, toy):
    S = np.eye(2)
    if registry.SOLVERS[solver].stream == registry.SUMS:
        model = CCA.from_covariance(50, S, S, 0.5 * S, n_components=1, solver=solver)
        np.testing.assert_allclose(model.canonical_correlations_, 0.5)
    else:
        with pytest.raises(ValueError, match=rf"solver='{solver}' needs rows: use 'auto' or 'exact' here"):
            CCA.from_covariance(50, S, S, 0.5 * S, n_components=1, solver=solver)


def test_a_listed_solver_of_sums_solves_streams(toy, monkeypatch):
    class Direct(ExactSolver):
        name = "direct"

        def solve_moments(self, second, widths, dtype, problem):
            found = super().solve_moments(second, widths, dtype, problem)
            return found._replace(correlations=found.correlations / 2)

    module = ModuleType("appgrad.solvers.direct_toy")
    module.SOLVER = Direct()
    monkeypatch.setitem(sys.modules, "appgrad.solvers.direct_toy", module)
    entry = registry.Entry("direct_toy", "an example", (registry.LINEAR,), False, registry.SUMS)
    monkeypatch.setitem(registry.SOLVERS, "direct", entry)
    model = CCA(2, solver="direct").partial_fit(toy.X, toy.y)
    exact = CCA(2).fit(toy.X, toy.y)
    assert (model.solver_, model.solver_reason_) == ("direct", "asked for")
    np.testing.assert_allclose(model.canonical_correlations_, exact.canonical_correlations_ / 2)
    with pytest.raises(
        ValueError, match="solver='lobpcg' needs rows: use 'auto' or 'exact' or 'direct' here"
    ):
        CCA.from_covariance(50, np.eye(2), np.eye(2), np.eye(2) / 2, n_components=1, solver="lobpcg")


@pytest.mark.parametrize("name", registry.names(registry.KERNEL)[1:])
def test_solvers_of_kernel_problems_have_a_form_for_them(name):
    assert registry.solver(name, registry.KERNEL).name == name


def test_a_stream_of_sums_whose_options_name_another_solver_is_damaged(toy, tmp_path):
    path = tmp_path / "stream.cca"
    CCA(2, solver="exact").partial_fit(toy.X, toy.y).save(path)
    arrays, meta = archive.read(path)
    text = json.dumps(meta["stream"]["state"])
    assert text.count('"exact"') == 1
    meta["stream"]["state"] = json.loads(text.replace('"exact"', '"stochastic"'))
    archive.write(path, arrays, meta)
    with pytest.raises(ValueError, match=r"damaged .*the stream is of stochastic, not of exact"):
        load(path)


@pytest.mark.parametrize("solver", ["qr", "auto", "unknown"])
def test_a_stream_of_a_solver_that_has_none_is_damaged(solver, toy, tmp_path):
    path = tmp_path / "stream.cca"
    CCA(2).partial_fit(toy.X, toy.y).save(path)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    meta = json.loads(arrays.pop("meta").tobytes())
    meta["stream"]["solver"] = solver
    with open(path, "wb") as file:
        np.savez(file, meta=np.frombuffer(json.dumps(meta).encode(), np.uint8), **arrays)
    with pytest.raises(ValueError, match=rf"damaged or not an appgrad model file .*{solver}"):
        load(path)
