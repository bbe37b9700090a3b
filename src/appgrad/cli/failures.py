"""Failures and interruptions: each ends a command with one line, or one JSON object, and an exit code."""

from __future__ import annotations

from typing import Any, NoReturn

from . import signals

# Exit codes: something went wrong, or the command is not written as it should be. That of a signal is 128
# and its number: 130 after Ctrl-C, 143 after SIGTERM.
FAILED, USAGE = 1, 2

FAILURES = (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError, ArithmeticError)


class FailedError(Exception):
    """The end of a command that cannot go on: a text, an exit code, and facts for `--json`.

    `warnings` are those given until then.
    """

    def __init__(self, text: str, code: int = FAILED, warnings: tuple[str, ...] = (), **facts: Any) -> None:
        super().__init__(text)
        self.text, self.code, self.warnings, self.facts = text, code, warnings, facts

    def record(self) -> dict[str, Any]:
        """The failure as `--json` prints it."""
        warnings = {"warnings": list(self.warnings)} if self.warnings else {}
        return {"error": self.text, "exit_code": self.code, **self.facts, **warnings}


def reason(error: BaseException) -> str:
    """The message of an error on one line, or its type; and what was decided about files, maybe its cause."""
    if isinstance(error, KeyboardInterrupt):
        return signals.word()
    words = " ".join(str(error).split()) or type(error).__name__
    return "; ".join([words, *getattr(error, "__notes__", [])])


def interrupted(what: str = "", warnings: tuple[str, ...] = (), **facts: Any) -> NoReturn:
    """End a command that was interrupted, and say what there is of its work."""
    raise FailedError(signals.word() + what, signals.exit_code(), warnings, **facts) from None
