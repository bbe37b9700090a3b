"""Signals that end a command: Ctrl-C (SIGINT) and SIGTERM, after both of which it saves what there is.

Imports next to nothing: a signal may come while everything else is imported, and Python itself prints a
traceback until this file is read.
"""

from __future__ import annotations

import os
import sys
import time

# True for type checkers.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from types import FrameType
    from typing import Any
else:
    try:
        # `signal` without its enumerations, which take ten times as long to import as this file.
        import _signal as signal
    except ImportError:
        import signal

# Seconds in which a second signal counts as the same one: `timeout` and some shells send theirs twice.
SAME = 1.0
ENDING = (signal.SIGINT, signal.SIGTERM)


class Arrivals:
    """What has arrived so far, and what to do about the next signal."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.when = -SAME
        # How many contexts ask to exit at once, or to wait; and whether a signal is waiting.
        self.at_once = self.held = 0
        self.waiting = False


_arrivals = Arrivals()


def arrived() -> bool:
    """True if a signal has asked this command to end."""
    return _arrivals.first is not None


def exit_code() -> int:
    """The exit code after a signal: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (_arrivals.first or signal.SIGINT)


def word() -> str:
    """What a message calls the signal that has arrived."""
    return "terminated" if _arrivals.first == signal.SIGTERM else "interrupted"


def wants_json() -> bool:
    """True if the command was called with `--json`, be it right or wrong otherwise."""
    arguments = sys.argv[1:]
    return "--json" in (arguments[: arguments.index("--")] if "--" in arguments else arguments)


def is_fit() -> bool:
    """True if the command is `appgrad fit`."""
    return sys.argv[1:2] == ["fit"]


def raise_lost() -> None:
    """Raise the interrupt of a signal once more: Python drops one that meets a destructor.

    For callbacks of a run, which would have ended.
    """
    if arrived() and not _arrivals.held:
        raise KeyboardInterrupt


class Installed:
    """A context in which the signals that would end this process are received, if it does not ignore them."""

    def __enter__(self) -> None:
        self.before: dict[int, Any] = {}
        for number in ENDING:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                try:
                    self.before[number] = signal.signal(number, _receive)
                except ValueError:
                    # Python allows this in the main thread only.
                    return

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)


class handled(Installed):  # noqa: N801
    """A context in which both signals raise a KeyboardInterrupt, as Ctrl-C does by itself.

    Exceptions in destructors are ignored by Python, which prints them. After a signal they are not printed.
    """

    def __enter__(self) -> None:
        global _arrivals
        _arrivals = Arrivals()
        self.shown = sys.unraisablehook
        sys.unraisablehook = lambda lost: None if arrived() else self.shown(lost)
        super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        sys.unraisablehook = self.shown


class at_once(Installed):  # noqa: N801
    """A context in which a signal ends the process with one line, as nothing is there to be saved: imports.

    An exception there would be lost or changed by modules that are half imported.
    """

    def __enter__(self) -> None:
        _arrivals.at_once += 1
        super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        _arrivals.at_once -= 1


class held:  # noqa: N801
    """A context to whose end a signal waits: a model that is being saved is saved to its end."""

    def __enter__(self) -> None:
        _arrivals.held += 1

    def __exit__(self, *_: object) -> None:
        _arrivals.held -= 1
        if _arrivals.waiting and not _arrivals.held:
            _arrivals.waiting = False
            raise KeyboardInterrupt


def _receive(number: int, frame: FrameType | None) -> None:
    state, now = _arrivals, time.monotonic()
    if state.at_once:
        _exit(number)
    # A second SIGTERM says nothing new; a second Ctrl-C also breaks what the first one has begun to save.
    if state.first is not None and (number == signal.SIGTERM or now - state.when < SAME):
        return
    state.first, state.when = state.first or number, now
    if state.held:
        state.waiting = True
        return
    raise KeyboardInterrupt


def _exit(number: int) -> None:
    _arrivals.first = number
    # Plain writes: the module that a signal breaks into may be the one that knows how to print.
    if wants_json():
        files = ', "model": null, "checkpoint": null' if is_fit() else ""
        os.write(1, f'{{"error": "{word()}", "exit_code": {exit_code()}{files}}}\n'.encode())
    else:
        os.write(2, f"error: {word()}\n".encode())
    os._exit(exit_code())
