"""The part of a model file that says how far to trust it: ranks, all correlations, effective rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..data.display import shown
from ..fitting.fit import Fit
from ..machine.arrays import Array
from ..solvers.problem import Dimensions, Spectrum
from .provenance import LENGTH

# Names of arrays in the file.
SQUARES, ROWS, REDUNDANCY = "all_squared_correlations", "effective_rows_", ("x_redundancy_", "y_redundancy_")


class Trust(NamedTuple):
    """What a file says of this; None for what it does not, as those of older versions."""

    dimensions: Dimensions | None = None
    spectrum: Spectrum | None = None
    effective_rows: Array | None = None
    redundancy: tuple[Array, Array] | None = None


def packed_trust(fit: Fit) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the part of a fit's file as JSON and arrays."""
    meta: dict[str, Any] = {}
    arrays: dict[str, Array] = {}
    found, all_pairs, redundancy = fit.dimensions, fit.solution.spectrum, fit.solution.redundancy
    if found is not None:
        meta["dimensions"] = [float(found.n), list(found.ranks), found.known, found.reason]
    if all_pairs is not None:
        parts = list(all_pairs.ranks), list(all_pairs.left), float(all_pairs.rows), all_pairs.condition
        meta["spectrum"] = list(parts)
        arrays[SQUARES] = all_pairs.squares
    if fit.effective_rows is not None:
        arrays[ROWS] = fit.effective_rows
    if redundancy is not None:
        arrays |= dict(zip(REDUNDANCY, redundancy, strict=True))
    return meta, arrays


def unpacked_trust(meta: Any, arrays: dict[str, Array], k: int, n_samples: int) -> Trust:
    """Return what a file of a model with k components of so many rows says; TypeError if that cannot be."""
    if meta is None:
        return Trust()
    dimensions = spectrum = redundancy = None
    if meta.get("dimensions") is not None:
        n, ranks, known, reason = meta["dimensions"]
        if not isinstance(reason, str) or not isinstance(known, bool) or not 0 <= n < np.inf:
            raise TypeError(f"its dimensions are {meta['dimensions']!r}")
        dimensions = Dimensions(float(n), _pair(ranks, int), known, shown(reason, LENGTH))
        x, y = dimensions.ranks
        # Without centring there is one row more; fractions of rows are cut off where shards are merged.
        counted = min(x, y) >= 1 and x + y < n == round(n) and abs(n - n_samples) <= 1 + n_samples / 100
        if not dimensions.reason and not counted:
            raise TypeError(f"its dimensions are {meta['dimensions']!r}")
    if meta.get("spectrum") is not None:
        found, left, rows, condition = meta["spectrum"]
        spectrum = Spectrum(
            arrays[SQUARES], _pair(found, int), _pair(left, float), float(rows), float(condition)
        )
        if min(spectrum.ranks) < 1:
            raise TypeError(f"its ranks are {spectrum.ranks}")
        _require(SQUARES, spectrum.squares, min(spectrum.ranks), 1.0)
        _require_one_story(spectrum, dimensions)
    if all(name in arrays for name in REDUNDANCY):
        redundancy = arrays[REDUNDANCY[0]], arrays[REDUNDANCY[1]]
        for name, values in zip(REDUNDANCY, redundancy, strict=True):
            _require(name, values, k, 1.0)
    effective = arrays.get(ROWS)
    if effective is not None:
        _require(ROWS, effective, k, float(n_samples))
    return Trust(dimensions, spectrum, effective, redundancy)


def _require_one_story(found: Spectrum, dimensions: Dimensions | None) -> None:
    """Raise TypeError unless all correlations are of the dimensions that the file says."""
    falls = np.all(np.isfinite(found.squares)) and np.all(np.diff(found.squares) <= 0)
    within = all(part <= rank + 1e-6 * (1 + rank) for part, rank in zip(found.left, found.ranks, strict=True))
    same = dimensions is not None and (found.rows, found.ranks) == (dimensions.n, dimensions.ranks)
    if not (falls and within and same):
        raise TypeError("its correlations and its dimensions contradict each other")


def _pair(values: Any, kind: type) -> Any:
    if not isinstance(values, list) or [type(value) for value in values] != [kind, kind]:
        raise TypeError(f"expected two numbers, found {values!r}")
    if not all(0 <= value < np.inf for value in values):
        raise TypeError(f"expected two numbers of at least 0, found {values!r}")
    return values[0], values[1]


def _require(name: str, values: Array, length: int, most: float) -> None:
    """Raise TypeError unless an array has this length, and values from 0 to `most`; NaN is unknown."""
    if values.shape != (length,) or values.dtype.kind != "f":
        raise TypeError(f"{name} has shape {values.shape} and type {values.dtype}, expected {length} numbers")
    if np.any(values < 0) or np.any(values > most):
        raise TypeError(f"{name} is not from 0 to {most:g}")
