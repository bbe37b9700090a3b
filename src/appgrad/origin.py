"""Where a model of the command line comes from, what it warned of, and how it did on other rows."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from .views import Array


class HeldOut(NamedTuple):
    """Correlations on rows left out of the fit, one per component, and how they were obtained.

    They are NaN where they cannot be had.
    """

    correlations: Array
    method: str


class Origin(NamedTuple):
    """The files of a fit, its command, what it warned of, and its held-out check if there was one."""

    x: str
    y: str
    command: str
    remarks: tuple[str, ...] = ()
    tested: HeldOut | None = None

    def packed(self) -> dict[str, Any]:
        """As JSON can hold it."""
        tested = self.tested
        kept = None if tested is None else {**tested._asdict(), "correlations": tested.correlations.tolist()}
        return self._asdict() | {"tested": kept}

    @classmethod
    def unpacked(cls, found: dict[str, Any], k: int) -> Self:
        """What `packed` made of the origin of a model of so many components; TypeError for what is none."""
        tested = found.get("tested")
        if tested is not None:
            values = np.asarray(tested["correlations"], dtype=np.float64)
            if values.shape != (k,) or np.any(np.abs(values) > 1 + 1e-9):
                raise TypeError(f"held-out correlations are {values}, expected {k} from -1 to 1")
            tested = HeldOut(values, str(tested["method"]))
        remarks = tuple(map(str, found.get("remarks", ())))
        return cls(str(found["x"]), str(found["y"]), str(found["command"]), remarks, tested)
