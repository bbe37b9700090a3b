"""Where a model of the command line comes from, what it warned of, and how it did on other rows."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from ..data.display import shown
from ..inference.holdout import HeldOut

# Letters of a text from a file that are shown.
LENGTH = 2000


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
        tested, remarks = found.get("tested"), found.get("remarks", [])
        texts = [found["x"], found["y"], found["command"], *remarks]
        if not isinstance(remarks, list) or not all(isinstance(text, str) for text in texts):
            raise TypeError("where it comes from is not said in words")
        if tested is not None:
            values, method = tested["correlations"], tested["method"]
            if not isinstance(method, str) or [type(value) for value in values] != [float] * k:
                raise TypeError(f"its held-out correlations are not {k} numbers and how they were obtained")
            if np.any(np.abs(values) > 1 + 1e-9):
                raise TypeError(f"its held-out correlations are {values}")
            tested = HeldOut(np.asarray(values), shown(method, LENGTH))
        x, y, command, *remarks = texts
        lines = (shown(text, LENGTH) for text in remarks)
        return cls(shown(x, LENGTH), shown(y, LENGTH), command, tuple(lines), tested)
