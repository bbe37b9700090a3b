"""Right answers to a setting on some data: those of the oracle, and those that rounding excuses."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .oracle import HIDDEN, VAGUE, Exact
from .problems import Data, Rng
from .settings import Setting, covariances

# Samples of rounded data, and how many times their changes an answer may be off.
SAMPLES, ALLOWED = 3, 10.0


class Truth:
    """Right answers; what is dear is computed when it is asked for."""

    def __init__(self, setting: Setting, data: Data, rng: Rng) -> None:
        self.setting, self.data, self.rng = setting, data, rng
        self.eps = float(np.finfo(np.float32 if data.single else np.float64).eps)
        self.center = bool(setting.params.get("center", True))
        self.cut = HIDDEN * self.eps

    @cached_property
    def exact(self) -> Exact:
        """The oracle of the data."""
        if self.setting.way == "from_covariance":
            return Exact.of_covariances(*covariances(self.data, self.center))
        return Exact(*self.data.dense, self.center)

    @cached_property
    def correlations(self) -> np.ndarray:
        """All correlations of the exact problem, as decimals."""
        return self._solved(self.exact)

    @cached_property
    def strengths(self) -> tuple[np.ndarray, np.ndarray]:
        """How far each direction of each view is above the values it is made of, ascending."""
        x, y = self.exact.strengths()
        return x.astype(np.float64), y.astype(np.float64)

    @cached_property
    def answers(self) -> list[tuple[np.ndarray, float]]:
        """Correlations of the exact problem, and of those without directions that are not determined.

        Each is followed by its blur.
        """
        found = [(self.correlations, 0.0)]
        if not self.without_ridge:
            return found
        hidden = [[s * 1.000001 for s in side if s < self.cut] for side in self.strengths]
        cuts = {(x, y) for x in (0.0, *hidden[0][-1:]) for y in (0.0, *hidden[1][-1:])}
        for below in sorted(hidden[0] + hidden[1])[:6]:
            cuts.add((below, below))
        others = sorted(cuts - {(0.0, 0.0)})
        return found + [(self._solved(self.exact, pair), self._blur(pair)) for pair in others]

    def _blur(self, cut: tuple[float, float]) -> float:
        """How far an answer without these directions depends on the units in which they are chosen.

        It is the strongest direction left out over the weakest one kept: 1e-16 for a rounded total, and
        large where strengths fall gradually.
        """
        found = 0.0
        for side, below in zip(self.strengths, cut, strict=True):
            left, kept = side[side < below], side[side >= below]
            if len(left) and len(kept):
                found = max(found, float(left.max() / kept.min()))
        return found

    @property
    def without_ridge(self) -> bool:
        """True if a view has no ridge at all."""
        ridge = self.setting.params["ridge"]
        return any(r == 0 for r in (ridge if isinstance(ridge, tuple) else (ridge,)))

    @cached_property
    def vagueness(self) -> np.ndarray:
        """Largest change of each leading correlation when the data are rounded; of the determined part."""
        cut = (self.cut, self.cut) if self.without_ridge else (0.0, 0.0)
        base, changes = self._solved(self.exact, cut), []
        for _ in range(SAMPLES):
            if self.setting.way == "from_covariance":
                S = [
                    s * (1 + 4 * self.eps * self.rng.uniform(-1, 1, s.shape))
                    for s in covariances(self.data, self.center)
                ]
                rounded = Exact.of_covariances(*S)
            else:
                Z = [z * (1 + 4 * self.eps * self.rng.uniform(-1, 1, z.shape)) for z in self.data.dense]
                rounded = Exact(Z[0], Z[1], self.center)
            found = self._solved(rounded, cut)
            m = min(len(found), len(base))
            change = np.ones(len(base))
            change[:m] = np.abs((found[:m] - base[:m]).astype(np.float64))
            changes.append(change)
        return np.max(changes, axis=0)

    @property
    def vague(self) -> bool:
        """True if there is no right answer: rounding the data changes it."""
        k = self.setting.params["n_components"]
        return len(self.vagueness) < k or bool(np.any(self.vagueness[:k] * ALLOWED > VAGUE))

    def error(self, found: np.ndarray) -> float:
        """Largest error of these correlations; what rounding of the data excuses is taken off."""
        k = len(found)
        first = _distance(found, self.correlations)
        if first <= 1e-6:
            return first
        excused = 0.0 if len(self.vagueness) < k else ALLOWED * float(self.vagueness[:k].max())
        others = min((_distance(found, answer) - blur for answer, blur in self.answers[1:]), default=np.inf)
        return max(0.0, min(first, others) - excused)

    def nearest(self, value: float) -> float:
        """Distance of a value to a right correlation, of whatever rank.

        Where directions may be left out, it is not known to the last digit which: what rounding of the data
        changes is taken off.
        """
        right = [float(abs(c - type(c)(value))) - blur for answer, blur in self.answers for c in answer]
        off = max(0.0, min(right, default=np.inf))
        if len(self.answers) == 1:
            return off
        return max(0.0, off - ALLOWED * float(self.vagueness.max(initial=0.0)))

    def _solved(self, exact: Exact, cut: tuple[float, float] = (0.0, 0.0)) -> np.ndarray:
        params = self.setting.params
        # Covariances are doubles, whatever they were computed from.
        single = self.data.single and self.setting.way != "from_covariance"
        ridges = exact.ridges(params["ridge"], bool(params.get("scale", False)), single)
        return exact.correlations(ridges, cut)


def _distance(found: np.ndarray, answer: np.ndarray) -> float:
    if len(answer) < len(found):
        return np.inf
    return float(np.max(np.abs(found - answer[: len(found)].astype(np.float64))))
