"""Which components to believe, and why: one sentence each, from all that is known of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..estimators.base import BaseCCA
from ..inference.canonical_test import HELD_OUT, CanonicalTest
from ..inference.effective_rows import FEW
from ..inference.noise import Noise
from ..machine.arrays import Array
from ..machine.readable import listed, ranges

# Family-wise error of tests, and the share of a correlation that held-out rows must keep.
LEVEL, KEEPS = 0.05, 0.5


class Evidence(NamedTuple):
    """What is known of the components of a model; NaN where nothing is.

    `limits` are the correlations that noise alone reaches, `noise` is the level of the first one.
    """

    noise: Noise
    limits: Array
    effective_rows: Array
    test: CanonicalTest | None = None


class Belief(NamedTuple):
    """A sentence on one component; `holds` is None if there is no evidence."""

    holds: bool | None
    text: str


def evidence_of(model: BaseCCA) -> Evidence:
    """Return the evidence that a fitted model has, without tests."""
    noise = model.noise
    return Evidence(noise, noise.limits(len(model.canonical_correlations_)), model.effective_rows_)


def noise_fact(evidence: Evidence, correlations: Array) -> str:
    """Return the noise level in words, and which components are above it."""
    noise = evidence.noise
    if noise.reason:
        return f"level not known: {noise.reason}"
    above = above_noise(evidence, correlations)
    which = "no component is" if not above else f"component{'s' if above > 1 else ''} {_up_to(above)} "
    which += "" if not above else "are" if above > 1 else "is"
    most = "" if noise.known else " at most"
    return f"noise alone reaches {noise.level:.2f}{most} (in 95 of 100 data sets); {which} above it"


def above_noise(evidence: Evidence, correlations: Array) -> int:
    """Return how many components, from the first one on, are above what noise reaches after those before."""
    above = correlations > evidence.limits
    return len(above) if above.all() else int(np.argmin(above))


def beliefs(evidence: Evidence, correlations: Array, columns: dict[str, Array]) -> list[Belief]:
    """Return a sentence for each component.

    `columns` are correlations by heading; those of training rows are no evidence.
    """
    others = {name: values for name, values in columns.items() if name in ("held out", "these rows")}
    p_values = _p_values(evidence.test)
    above = above_noise(evidence, correlations)
    found = []
    for i, rho in enumerate(correlations):
        good: list[str] = []
        bad: list[str] = []
        if np.isfinite(evidence.limits[i]):
            limit = f"what noise alone reaches ({evidence.limits[i]:.2f})"
            if i < above:
                good.append(f"it is above {limit}")
            elif rho <= evidence.limits[i]:
                bad.append(f"it is not above {limit}")
            else:
                bad.append("one before it is not above noise")
        if i < len(p_values) and np.isfinite(p_values[i]):
            (good if p_values[i] <= LEVEL else bad).append(f"p = {_p(p_values[i])}")
        for name, values in others.items():
            if np.isfinite(values[i]):
                where = "on held-out rows" if name == "held out" else "on these rows"
                kept = values[i] >= KEEPS * columns["training"][i]
                (good if kept else bad).append(f"it is {values[i]:.2f} {where}")
        rows = evidence.effective_rows[i]
        if np.isfinite(rows):
            few = rows < FEW
            (bad if few else good).append(f"it rests on {'only ' if few else ''}about {rows:,.0f} rows")
        found.append(_belief(i, rho, good, bad))
    return found


def _belief(i: int, rho: float, good: list[str], bad: list[str]) -> Belief:
    name = f"Component {i + 1} ({rho:.2f})"
    # Rows alone show no relation.
    proof = [text for text in good if not text.startswith("it rests")]
    if bad:
        but = f", although {listed(proof)}" if proof else ""
        return Belief(False, f"{name}: doubt it, as {listed(bad)}{but}.")
    if not proof:
        return Belief(None, f"{name}: nothing shows whether it is real; judge it by held-out rows.")
    return Belief(True, f"{name}: believe it, as {listed(good)}.")


def _p_values(test: CanonicalTest | None) -> Array:
    return np.empty(0) if test is None else test.family_wise


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"


def _up_to(count: int) -> str:
    return ranges(range(1, count + 1))


def p_fact(test: CanonicalTest) -> str:
    """Return how p-values were obtained, in words."""
    if test.method == HELD_OUT:
        return f"{test.n_resamples} permutations of {test.n_samples} rows that a second fit has not seen"
    if test.n_resamples is not None:
        return f"{test.n_resamples} permutations of the rows"
    return "Wilks' lambda, for normal and independent rows"
