"""Failures and interruptions: each ends a command with one clear line and an exit code."""

from __future__ import annotations

from typing import NoReturn

import typer

from .terminal import err, say

# Exit codes: something went wrong, or Ctrl-C.
FAILED, INTERRUPTED = 1, 1

FAILURES = (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError, ArithmeticError)


def reason(error: BaseException) -> str:
    """The message of an error, or its type; and what was decided about files, which may be its cause."""
    words = str(error) or ("interrupted" if isinstance(error, KeyboardInterrupt) else type(error).__name__)
    return "; ".join([words, *getattr(error, "__notes__", [])])


def interrupted(what: str = "") -> NoReturn:
    """Say that a command was interrupted, and what there is of its work; then end it."""
    say("error: interrupted" + what, err)
    raise typer.Exit(INTERRUPTED) from None


def failed(what: str) -> NoReturn:
    """Say what went wrong, and end the command."""
    say(f"error: {what}", err)
    raise typer.Exit(FAILED) from None
