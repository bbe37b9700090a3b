"""Failures that end a command with one clear line."""

from __future__ import annotations

FAILURES = (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError, ArithmeticError)


def reason(error: BaseException) -> str:
    """The message of an error; its type if it has none."""
    return str(error) or ("interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__)
