"""Failures and interruptions: each ends a command with one line, or one JSON object, and an exit code."""

from __future__ import annotations

from typing import Any, NoReturn

from . import signals

# Exit codes: something went wrong, or the command is not written as it should be. That of a signal is 128
# and its number: 130 after Ctrl-C, 143 after SIGTERM.
FAILED, USAGE, SIGNALLED = 1, 2, 128

FAILURES = (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError, ArithmeticError)


class FailedError(Exception):
    """The end of a command that cannot go on: a text, an exit code, and facts for `--json`.

    `warnings` are those given until then, `files` what was decided about files, None if none were asked for.
    """

    def __init__(
        self,
        text: str,
        code: int = FAILED,
        warnings: tuple[str, ...] = (),
        files: tuple[str, ...] | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(text)
        self.text, self.code, self.warnings, self.files, self.facts = text, code, warnings, files, facts

    def line(self) -> str:
        """The failure in one line, with what was decided about files unless warnings have said it."""
        return "; ".join([self.text, *(note for note in self.files or () if note not in self.warnings)])

    def record(self) -> dict[str, Any]:
        """The failure as `--json` prints it; with the same keys whenever a signal has ended a fit."""
        found: dict[str, Any] = {"error": self.text, "exit_code": self.code}
        if self.code > SIGNALLED and signals.is_fit():
            found |= {"model": None, "checkpoint": None}
        found |= self.facts
        if self.files is not None:
            found["files"] = list(self.files)
        return found | ({"warnings": list(self.warnings)} if self.warnings else {})


def message(error: BaseException) -> str:
    """The message of an error on one line, or its type."""
    if isinstance(error, KeyboardInterrupt):
        return signals.word()
    return " ".join(str(error).split()) or type(error).__name__


def reason(error: BaseException) -> str:
    """The message of an error, and what was decided about files, which may be its cause."""
    return "; ".join([message(error), *getattr(error, "__notes__", [])])


def interrupted(what: str = "", warnings: tuple[str, ...] = (), **facts: Any) -> NoReturn:
    """End a command that was interrupted, and say what there is of its work."""
    raise FailedError(signals.word() + what, signals.exit_code(), warnings, **facts) from None
