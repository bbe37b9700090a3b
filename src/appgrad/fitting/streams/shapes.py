"""Checks of the state of steps from a file: shapes that fit together, and numbers that are finite."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...covariance.moments import Moments
from ...covariance.preconditioners import Preconditioner
from ...machine.arrays import Array
from ...solvers.problem import Diagnostics
from ...solvers.stochastic.racing import State, Stochastic
from ...solvers.stochastic.trial import Trial


def require_moments(m: Moments, p1: int, p2: int) -> None:
    """Raise ValueError unless means and variances are of p1 and p2 columns."""
    if not (0 < m.n < np.inf and len(m.views) == 2):
        raise ValueError("moments of no rows, or of other views")
    for view, p in zip(m.views, (p1, p2), strict=True):
        _require(view.mean, (p,))
        _require(view.var, (p,))
        if np.any(view.var < 0):
            raise ValueError("a variance is negative")


def require_peaks(peaks: tuple[Array, Array], p1: int, p2: int) -> None:
    """Raise ValueError unless peaks are of p1 and p2 columns."""
    for peak, p in zip(peaks, (p1, p2), strict=True):
        _require(peak, (p,))


def require_solver(solver: Stochastic, k: int, p1: int, p2: int) -> None:
    """Raise ValueError unless a solver is for k components of p1 and p2 columns."""
    if solver.n_components != k or not all(0 < step < np.inf for step in solver.step_size):
        raise ValueError("steps of another problem")
    if solver.sparsity is not None or solver.first is not None:
        raise ValueError("steps of sparse components, which no stream has")
    require_preconditioner(solver.preconditioner, p1, p2)


def require_preconditioner(M: Preconditioner, p1: int, p2: int) -> None:
    """Raise ValueError unless a preconditioner is for p1 and p2 columns."""
    for side, p in zip((M.x, M.y), (p1, p2), strict=True):
        if side is None:
            continue
        _require(side.d, (p,))
        _require(side.V, (p, side.values.size))
        _require(side.values, (side.V.shape[1],))
        if isinstance(side.shield, np.ndarray):
            _require(side.shield, (p,))
        if not 0 < side.tail < np.inf or np.any(side.values <= 0):
            raise ValueError("a preconditioner that is not positive")


def require_state(state: State, p1: int, p2: int) -> None:
    """Raise ValueError unless all trials have bases of p1 and p2 columns and the same width."""
    if not state.trials or state.checks < 0:
        raise ValueError("steps without a state")
    width = state.trials[0].phi_t.shape[-1]
    for trial in state.trials:
        _require_trial(trial, p1, p2, width)


def _require_trial(trial: Trial, p1: int, p2: int, width: int) -> None:
    bases = (trial.phi_t, trial.psi_t), trial.good, trial.means
    for pair in bases:
        for basis, p in zip(pair, (p1, p2), strict=bool(pair)):
            _require(basis, (p, width))
    squares = *trial.normalisers, *trial.grams, *(trial.mean_grams or ())
    for square in squares:
        _require(square, (width, width))


def require_diagnostics(found: Diagnostics | None, p1: int, p2: int) -> None:
    """Raise ValueError unless bases of p1 and p2 columns, and what was measured of them, fit together."""
    if found is None:
        return
    width = found.A.shape[-1]
    _require(found.A, (p1, width))
    _require(found.B, (p2, width))
    for square in found.grams or ():
        _require(square, (width, width))
    for product, p in zip(found.products or (), (p1, p1, p2, p2), strict=bool(found.products)):
        _require(product, (p, width))
    for numbers in (found.correlations, found.judged):
        if numbers is not None and (numbers.ndim != 1 or numbers.size > width):
            raise ValueError("correlations of other components")


def _require(array: Array, shape: tuple[Any, ...]) -> None:
    if array.shape != shape:
        raise ValueError(f"an array has shape {array.shape}, expected {shape}")
    if array.dtype.kind != "f" or not np.all(np.isfinite(array)):
        raise ValueError("an array is not of finite numbers")
