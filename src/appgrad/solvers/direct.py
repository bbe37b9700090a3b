"""Shared by direct solvers: they have no state, and need their matrices in memory."""

from __future__ import annotations

from typing import Any, ClassVar

from ..data.views import Views
from .costs import require_memory
from .problem import Problem, Whitened
from .protocol import Options, Outcome
from .shortfall import rounded, with_scores


class DirectBase:
    """A solver that needs one step."""

    name: str
    records: ClassVar[dict[str, Any]] = {}
    successor: ClassVar[str | None] = None
    # Second advice of the out-of-memory error.
    alternative: ClassVar[str] = "'auto'"

    def whitened(self, views: Views, problem: Problem) -> Whitened:
        """Return all directions that `solve` works with, not the canonical ones alone."""
        raise NotImplementedError

    def memory(self, views: Views) -> int:
        """Return the bytes of the dense matrices held at a time, beyond the data."""
        raise NotImplementedError

    def refuses(self, options: Options) -> str | None:
        """Return None: parameters of iterative solvers are ignored."""
        return None

    def require(self, views: Views, problem: Problem, options: Options) -> None:
        """Raise if its matrices cannot fit into this machine."""
        advice = f"use solver='lobpcg', or {self.alternative}"
        require_memory(views, self.memory(views), f"solver={self.name!r}", advice)

    def shortfalls(self, outcome: Outcome) -> list[str]:
        """Return a warning if rounding may have changed the correlations."""
        advice = (
            "use a larger ridge" if self.successor is None else f"use solver={self.successor!r}, or a ridge"
        )
        return rounded(outcome, with_scores(outcome.solution), advice)
