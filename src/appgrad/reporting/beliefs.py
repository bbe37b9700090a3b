"""Which components to believe, and why: one sentence each, from all that is known of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..estimators.base import BaseCCA
from ..inference.effective_rows.components import few_of
from ..inference.noise import Noise
from ..inference.results import HELD_OUT, CanonicalTest
from ..machine.arrays import Array
from ..machine.readable import listed, number, ranges

# Family-wise error of tests, and the share of a correlation that held-out rows must keep.
LEVEL, KEEPS = 0.05, 0.5
# Standard deviations above zero of a correlation on other rows that shows something.
SURE = 3.0


class OnOthers(NamedTuple):
    """Correlations on n rows that the fit has not seen, and what these rows are called; n is 0 if unknown."""

    name: str
    correlations: Array
    n: int


class Evidence(NamedTuple):
    """What is known of the components of a model; NaN where nothing is.

    `limits` are the correlations that noise alone reaches, one for each component; components on fewer rows
    than `few` are said to rest on few. Where columns are not `centred`, means that are not zero make
    correlations, so that neither noise level nor tests show a relation.
    """

    noise: Noise
    limits: Array
    effective_rows: Array
    few: float
    test: CanonicalTest | None = None
    others: tuple[OnOthers, ...] = ()
    centred: bool = True


class Belief(NamedTuple):
    """A sentence on one component; `holds` is None if there is no evidence."""

    holds: bool | None
    text: str


def evidence_of(model: BaseCCA) -> Evidence:
    """Return the evidence that a fitted model has: its test and held-out rows only if its file keeps them."""
    noise, origin = model.noise, model.provenance
    limits = noise.limits(len(model.canonical_correlations_))
    found = Evidence(noise, limits, model.effective_rows_, few_of(model.n_samples_))
    found = found._replace(centred=bool(getattr(model, "center", True)))
    return found if origin is None else found._replace(test=origin.test)


def noise_fact(evidence: Evidence, correlations: Array) -> str:
    """Return the noise level in words, and which components are above it."""
    noise = evidence.noise
    if noise.reason:
        return f"level not known: {noise.reason}"
    above = above_noise(evidence, correlations)
    which = f"component{'s' if above > 1 else ''} {ranges(range(1, above + 1))}" if above else "no component"
    most = "" if noise.known else " at most"
    each = ", each with its own level," if above > 1 else ""
    return (
        f"noise alone reaches {noise.level:.2f}{most} (5 of 100 data sets of noise exceed it); {which}{each} "
        f"{'are' if above > 1 else 'is'} above it"
    )


def above_noise(evidence: Evidence, correlations: Array) -> int:
    """Return how many components, from the first one on, are above what noise reaches after those before."""
    above = correlations > evidence.limits
    return len(above) if above.all() else int(np.argmin(above))


def beliefs(evidence: Evidence, correlations: Array, training: Array) -> list[Belief]:
    """Return a sentence for each component, from `correlations` and those of the `training` rows."""
    above, p_values = above_noise(evidence, correlations), _p_values(evidence, len(correlations))
    found = []
    for i, rho in enumerate(correlations):
        good, bad, neutral = _noise_says(evidence, i, rho, above)
        if not evidence.centred:
            neutral, good = [*neutral, *good, "columns were not centred"], []
        elif np.isfinite(p_values[i]):
            (good if p_values[i] <= LEVEL else bad).append(f"p is {_p(p_values[i])}")
        for name, values, n in evidence.others:
            if np.isfinite(values[i]):
                text = f"{values[i]:.2f} of its {training[i]:.2f} is left on {name}"
                if values[i] < KEEPS * training[i]:
                    bad.append(text)
                else:
                    # Correlations of n unrelated pairs have a standard deviation of 1 / sqrt(n).
                    (good if values[i] > SURE / np.sqrt(max(n, 1)) else neutral).append(text)
        if not evidence.others:
            neutral.append("no other rows have been looked at")
        rows = evidence.effective_rows[i]
        if np.isfinite(rows):
            few = rows < evidence.few
            only = "only " if few else ""
            (bad if few else neutral).append(f"it rests on {only}about {number(round(rows), 'row')}")
        found.append(_belief(i, rho, good, bad, neutral))
    return found


def cells(evidence: Evidence, k: int) -> dict[str, list[str]]:
    """Return columns beside k correlations as text: what noise reaches, effective rows, p-values."""
    p_values, found = _p_values(evidence, k), {}
    if not np.all(np.isnan(evidence.limits)):
        found["noise"] = [_known(value, ".4f") for value in evidence.limits]
    if not np.all(np.isnan(evidence.effective_rows)):
        found["eff. rows"] = [_known(value, ",.0f") for value in evidence.effective_rows]
    if evidence.test is not None:
        found["p"] = ["-" if np.isnan(p) else f"{p:.4f}" if p >= 1e-4 else "< 0.0001" for p in p_values]
    return found


def _known(value: float, form: str) -> str:
    return "-" if np.isnan(value) else format(value, form)


def _noise_says(evidence: Evidence, i: int, rho: float, above: int) -> tuple[list[str], list[str], list[str]]:
    """What speaks for a component, against it, and neither, from the noise level alone."""
    if not np.isfinite(evidence.limits[i]):
        return [], [], []
    limit = f"what noise alone reaches ({evidence.limits[i]:.2f})"
    if i < above:
        return [f"it is above {limit}"], [], []
    if rho <= evidence.limits[i]:
        return [], [f"it is not above {limit}"], []
    return [], ["one before it is not above noise"], []


def _belief(i: int, rho: float, good: list[str], bad: list[str], neutral: list[str]) -> Belief:
    name = f"Component {i + 1} ({rho:.2f})"
    if bad:
        but = f", although {listed(good)}" if good else ""
        return Belief(False, f"{name}: doubt it, as {listed(bad)}{but}.")
    if not good:
        known = f" ({listed(neutral)})" if neutral else ""
        return Belief(None, f"{name}: nothing shows whether it is real{known}; judge it by held-out rows.")
    return Belief(True, f"{name}: believe it, as {listed([*good, *neutral])}.")


def _p_values(evidence: Evidence, k: int) -> Array:
    found = np.full(k, np.nan)
    if evidence.test is not None:
        values = evidence.test.family_wise[:k]
        found[: len(values)] = values
    return found


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 1e-4 else "below 0.0001"


def p_fact(test: CanonicalTest) -> str:
    """Return how p-values were obtained and why in this way, in words."""
    if test.method == HELD_OUT:
        how = f"{test.n_resamples} permutations of {test.n_samples} rows that a second fit has not seen"
    elif test.n_resamples is not None:
        how = f"{test.n_resamples} permutations of the rows"
    else:
        how = "Wilks' lambda, for normal and independent rows"
    return how + (f", as {test.reason}" if test.reason else "") + "; family-wise"
