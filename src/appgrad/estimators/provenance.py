"""Provenance of a model of the command line: its files, its command, its warnings, its held-out check."""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np

from ..data.display import shown
from ..inference.holdout import HeldOut
from ..inference.results import CanonicalTest

# Most characters shown of a text from a file.
LENGTH = 2000


class Origin(NamedTuple):
    """The files of a fit, its command, its warnings, and its held-out check and test if there were any."""

    x: str
    y: str
    command: str
    remarks: tuple[str, ...] = ()
    tested: HeldOut | None = None
    test: CanonicalTest | None = None

    def packed(self) -> dict[str, Any]:
        """The origin as a dict that JSON can hold."""
        tested = self.tested
        kept = None if tested is None else {**tested._asdict(), "correlations": tested.correlations.tolist()}
        test = None if self.test is None else self.test.to_dict()
        return self._asdict() | {"tested": kept, "test": test}

    @classmethod
    def unpacked(cls, found: dict[str, Any], k: int) -> Self:
        """The origin of a model with k components, from the dict of `packed`; TypeError if it is not one."""
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
            n = tested.get("n", 0)
            if type(n) is not int or n < 0:
                raise TypeError(f"its held-out correlations are of {n!r} rows")
            tested = HeldOut(np.asarray(values), shown(method, LENGTH), n)
        x, y, command, *remarks = texts
        lines = (shown(text, LENGTH) for text in remarks)
        test = None if found.get("test") is None else CanonicalTest.from_dict(found["test"])
        return cls(shown(x, LENGTH), shown(y, LENGTH), command, tuple(lines), tested, test)
