"""The solver that "auto" takes, the reason it gives, and the costs that `plan` expects."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context

from appgrad import CCA, plan
from appgrad.data.arrays import ArrayViews
from appgrad.fitting.choose import chosen, costs, direct_solver
from appgrad.fitting.plan import measured_rates
from appgrad.machine.memory import budget
from appgrad.machine.readable import duration, size
from appgrad.machine.threads import blas_limit
from appgrad.solvers.costs import NOMINAL


def shaped(n, p1, p2, entries=None, threads=2):
    """Views of these dimensions and no values: whoever reads them fails."""

    class Unread(ArrayViews):
        def parts(self, dtype=None):
            raise AssertionError("rows were read")

    def view(p, share):
        if entries is None:
            return np.broadcast_to(0.0, (n, p))
        nnz = int(n * entries * share)
        data, indices = np.broadcast_to(1.0, nnz), np.broadcast_to(np.int32(0), nnz)
        m = sp.csr_array((n, p))
        m.data, m.indices = data, indices
        m.indptr = np.r_[np.zeros(n, np.int64), nnz]
        return m

    return Unread(view(p1, 0.5), view(p2, 0.5), threads=threads)


@pytest.mark.parametrize(
    ("n", "p1", "p2", "entries", "solver"),
    [
        (20, 3, 3, None, "exact"),
        (60000, 392, 392, None, "exact"),
        (10**6, 50, 50, None, "exact"),
        (100, 20000, 20000, None, "exact"),  # the n x n side
        (10**6, 79341, 97207, 10.5, "lobpcg"),
        (145766, 37376, 43564, 30, "lobpcg"),
        (929585, 10000, 10000, 5, "lobpcg"),
        (10**6, 500, 500, 5, "exact"),
        (20000, 6000, 6000, None, "lobpcg"),  # more than the budget
    ],
)
def test_what_is_taken(n, p1, p2, entries, solver):
    views = shaped(n, p1, p2, entries)
    choice = chosen(views, costs(views, 20))
    assert choice.solver == solver
    assert choice.reason.count(". ") == 0


def test_what_is_certain_is_taken_where_it_may_be_faster():
    """Dense planted data, 20,000 x 1,600 + 1,600: 191 passes, six times as long as covariances."""
    views = shaped(20000, 1750, 1750)
    found = costs(views, 2)
    assert found["lobpcg"].seconds < found["exact"].seconds
    assert chosen(views, found).solver == "exact"
    assert chosen(views, found).reason.endswith("and one pass leaves no error but rounding")
    assert chosen(views, costs(views, 50)).reason.endswith(
        "one pass is expected to take less time than iterating"
    )
    assert costs(shaped(20000, 500, 500), 2)["als"].memory > 8 * 1000**2


def test_iterating_is_taken_where_it_is_cheaper():
    """Sparse rows, and matrices that fit, but take longer to factor than a few hundred thin products."""
    views = shaped(5000, 1500, 1500, 4)
    choice = chosen(views, costs(views, 2))
    assert choice.solver == "lobpcg"
    assert "passes with thin products are expected to take" in choice.reason


@pytest.mark.parametrize("threads", [1, 8, 64])
def test_what_is_taken_depends_on_no_cores(threads):
    for p in (300, 1400, 1800, 1900):
        first, other = (shaped(20000, p, p, threads=count) for count in (2, threads))
        assert chosen(first, costs(first, 20)) == chosen(other, costs(other, 20))


@pytest.mark.parametrize("megabytes", [1, 64, 1024])
def test_auto_keeps_to_the_budget(megabytes):
    shapes = [(20000, p) for p in (50, 200, 500, 1000, 3000, 10000)]
    # With more columns than rows, the solver that may have to take over needs more than the first.
    for n, p in (*shapes, (30, 4000), (300, 4000)):
        views = shaped(n, p, p)
        with config_context(working_memory=megabytes):
            choice = chosen(views, costs(views, 5))
            assert budget() == megabytes * 2**20
            if choice.solver == "exact":
                need = (direct_solver(name).memory(views) for name in ("exact", "qr"))
                assert max(need) <= budget()
            else:
                assert "budget" in choice.reason


def test_the_budget_is_kept_in_a_fit(rng):
    X, Y = rng.standard_normal((300, 40)), rng.standard_normal((300, 30))
    Y[:, 0] += X[:, 0]
    best = CCA(2).fit(X, Y)
    with config_context(working_memory=0.1):
        model = CCA(2, tol=1e-8, random_state=0).fit(X, Y)
    assert (best.solver_, model.solver_) == ("exact", "lobpcg")
    wide = shaped(30, 4000, 4000)
    with config_context(working_memory=1):
        reason = chosen(wide, costs(wide, 5)).reason
    expected = "the triangular matrices of 4000 + 4000 columns and their factors would need 19 MB, more than"
    assert reason.startswith(expected)
    assert model.solver_reason_ == (
        "the covariances of 40 + 30 columns and their factors would need 392 kB, more than the budget of "
        "105 kB (scikit-learn's working_memory), so it iterates on thin products"
    )
    np.testing.assert_allclose(model.canonical_correlations_, best.canonical_correlations_, atol=1e-7)


def test_costs_grow_as_they_should():
    """Linear in rows, entries and columns for what iterates; covariances with the square of the columns."""

    def cost(solver, n=10**5, p=2000, entries=10.0, k=20):
        return costs(shaped(n, p, p, entries), k)[solver]

    one = cost("lobpcg")
    assert cost("lobpcg", n=10**6).seconds == pytest.approx(10 * one.seconds, rel=0.3)
    assert cost("lobpcg", entries=100.0).seconds == pytest.approx(10 * one.seconds, rel=0.3)
    assert cost("lobpcg", p=4000, entries=4000.0).memory == pytest.approx(
        2 * cost("lobpcg", entries=2000.0).memory
    )
    # On sparse rows, those of a head come on top.
    assert one.memory > 1.5 * cost("lobpcg", entries=2000.0).memory
    assert cost("exact", p=4000).memory == pytest.approx(4 * cost("exact").memory)
    assert cost("exact", p=16000).seconds > 6 * cost("exact", p=8000).seconds
    assert set(costs(shaped(100, 5, 5), 2)) == {"exact", "qr", "lobpcg", "als", "appgrad", "stochastic"}


def test_rates_are_measured_quickly():
    # Time of this process: others may be busy. One thread: several would wait for each other.
    start = time.process_time()
    with blas_limit(1):
        rates = measured_rates()
    assert time.process_time() - start < 5
    assert all(0.02 < found / nominal < 50 for found, nominal in zip(rates, NOMINAL, strict=True))


def test_plan_reads_no_row():
    found = plan(shaped(10**5, 3000, 3000, 10), n_components=5)
    assert found.solver == "lobpcg"
    assert {cost.solver for cost in found.costs} >= {"exact", "lobpcg", "stochastic"}
    assert all(np.isfinite(cost.seconds) and cost.memory > 0 and cost.passes >= 1 for cost in found.costs)
    text = str(found)
    assert "lobpcg *" in text
    assert text.endswith(f"* auto takes lobpcg: {found.reason}")


@pytest.mark.parametrize("k", [0, -3, 7, 2.5, "a", True])
def test_plan_takes_what_fit_takes(k, rng):
    with pytest.raises(ValueError, match="n_components must be an integer from 1 to 6"):
        plan(rng.standard_normal((200, 8)), rng.standard_normal((200, 6)), n_components=k)


def test_matrices_that_do_not_fit_are_refused():
    wide = shaped(1000, 10**6, 10**6)
    with pytest.raises(ValueError, match=r"covariance='dense' needs about .* leave covariance at 'auto'"):
        CCA(2, solver="lobpcg", covariance="dense").fit(wide)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("shape", "solvers"), [((1000, 8, 6), ("exact", "stochastic")), ((60, 200, 150), ("exact",))]
)
def test_plan_knows_the_passes_of_fixed_schedules(shape, solvers, rng):
    n, p1, p2 = shape
    X, Y = rng.standard_normal((n, p1)), rng.standard_normal((n, p2))
    expected = {cost.solver: cost.passes for cost in plan(X, Y, n_components=2).costs}
    for solver in solvers:
        assert CCA(2, solver=solver, random_state=0).fit(X, Y).n_passes_ == pytest.approx(
            expected[solver], abs=1
        )


def test_plan_agrees_with_fit(rng):
    X, Y = rng.standard_normal((200, 8)), rng.standard_normal((200, 6))
    found, model = plan(X, Y, n_components=2), CCA(2).fit(X, Y)
    assert (found.solver, found.reason) == (model.solver_, model.solver_reason_)


def test_sizes_and_durations_for_people():
    assert [size(s) for s in (10, 2e4, 3.4e6, 1.5e9, 2e12)] == ["10 B", "20 kB", "3 MB", "1.5 GB", "2.0 TB"]
    assert [duration(s) for s in (0.01, 3.21, 300, 8000, 4e5)] == [
        "< 0.1 s",
        "3.2 s",
        "5 min",
        "2 h",
        "5 days",
    ]
