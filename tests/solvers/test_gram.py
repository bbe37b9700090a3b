"""Solvers on Gram matrices of kernels: memory that their factors need."""

import pytest

from appgrad import KernelCCA
from kernel_problems import related


@pytest.mark.parametrize("solver", ["exact", "qr", "stochastic"])
def test_gram_matrices_too_large_for_this_machine_are_refused(solver, rng, monkeypatch):
    X, Y, *_ = related(rng)
    monkeypatch.setattr("appgrad.solvers.costs.physical_memory", lambda: 10**6)
    expected = rf"solver='{solver}' needs about 1 MB .*: use solver='lobpcg', or an approximation"
    with pytest.raises(ValueError, match=expected):
        KernelCCA(1, solver=solver).fit(X, Y)
    assert KernelCCA(1, solver="lobpcg", ridge=0.1, random_state=0).fit(X, Y).solver_ == "lobpcg"
