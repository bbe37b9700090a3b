"""Failures that end a command with one clear line."""

from __future__ import annotations

FAILURES = (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError, ArithmeticError)


def reason(error: BaseException) -> str:
    """What went wrong, in words."""
    return str(error) or ("interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__)
