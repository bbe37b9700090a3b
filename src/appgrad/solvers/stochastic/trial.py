"""One run of Algorithm 5 with its own step size, which recovers if it runs away."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...covariance.linalg import captured
from ...covariance.preconditioners import Preconditioner
from ...machine.arrays import Array
from ..gradient import CALM, RUNAWAY, cut, is_lost, mean_square
from ..sparse.thresholds import Sparsity
from .algorithm import Grams, Iterate, Move, measured, step
from .minibatches import Minibatch

# Captured correlation is estimated from the Gram matrices of the last fifty normalisers or so.
SMOOTHING = 0.02
# A step that was cut after unusual rows doubles in eight calm minibatches: one in ten may be unusual.
RECOVERY = 2 ** (1 / 8)


class Trial(NamedTuple):
    """A run of Algorithm 5 whose step is a multiple of the common one.

    phi_t, psi_t and `normalisers` are its iterate, `grams` the Gram matrices of its iterates, smoothed.
    `good` is the last state worth returning to, and `best` the most correlation that was captured. `means`
    are averages over the last `weight` iterates, and `mean_grams` their Gram matrices, from effectively
    `mean_rows` rows. `caution` is the part of the step that is left after unusual rows.
    """

    multiple: float
    phi_t: Array
    psi_t: Array
    normalisers: tuple[Array, Array]
    grams: Grams
    good: tuple[Array, Array]
    best: float = 0.0
    weight: int = 0
    means: tuple[Array, ...] = ()
    mean_grams: Grams | None = None
    mean_rows: float = 0.0
    caution: float = 1.0

    @property
    def iterate(self) -> Iterate:
        """The state of Algorithm 5."""
        return Iterate(self.phi_t, self.psi_t, self.normalisers)

    def at(self, move: Move) -> Trial:
        """Return the trial after a move."""
        phi_t, psi_t, normalisers = move.normalised()
        return self._replace(phi_t=phi_t, psi_t=psi_t, normalisers=normalisers)


def begun(multiple: float, move: Move) -> Trial:
    """Return a trial after its first step."""
    return Trial(multiple, *move.normalised(), move.grams, good=(move.phi_t, move.psi_t))


def stepped(
    trial: Trial,
    batch: Minibatch,
    step_size: tuple[float, float],
    M: Preconditioner,
    sparsity: Sparsity | None,
    k: int,
    proved: bool,
) -> tuple[Trial, str | None]:
    """Take one step of Algorithm 5; if it runs away, the trial recovers instead, and the event is returned.

    The step is `proved` once it has worked on other rows. The correlation captured is that of k pairs.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        move = step(trial.iterate, batch, step_size, M, sparsity)
    size, grams = mean_square(move.grams[0], move.grams[2]), trial.grams
    if size <= RUNAWAY:
        grams = towards(grams, move.grams, SMOOTHING)
    tcc = captured(*grams, k)[2]
    if is_lost(size, tcc, trial.best):
        return _recovered(trial, batch, size, proved)
    return trial.at(move)._replace(
        grams=grams,
        good=(move.phi_t, move.psi_t) if size <= CALM else trial.good,
        best=max(trial.best, tcc),
        caution=min(1.0, RECOVERY * trial.caution),
    ), None


def _recovered(trial: Trial, batch: Minibatch, size: float, proved: bool) -> tuple[Trial, str]:
    """Return to the last good state after a step that led to mean squares of `size`; also say what was done.

    If the step has proved itself on other rows, these are unusual: they are left out, and the step is halved
    for a while. If not, it is too long and is cut.
    """
    if proved:
        trial = trial._replace(caution=trial.caution / 2)
        event = "minibatch left out, step halved for a while: the iterate ran away"
    else:
        factor = cut(size, mean_square(trial.grams[0], trial.grams[2]))
        trial = trial._replace(multiple=trial.multiple / factor)
        event = f"step cut to {1 / factor:.3g} of its size: the iterate ran away"
    return trial.at(measured(*trial.good, batch)), event


def towards(means: Any, new: tuple[Array, ...], share: float) -> Any:
    """Return running means moved by a share towards new values."""
    return tuple(a + share * (b - a) for a, b in zip(means, new, strict=True))
