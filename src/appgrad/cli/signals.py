"""Signals that end a command: Ctrl-C (SIGINT) and SIGTERM, after both of which it saves what there is.

Imports nothing heavy: a signal may come while everything else is imported.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

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


@contextmanager
def handled() -> Iterator[None]:
    """Make both signals raise a KeyboardInterrupt, as Ctrl-C does by itself; forgets earlier ones."""
    global _arrivals
    _arrivals = Arrivals()
    with _installed():
        yield


@contextmanager
def at_once() -> Iterator[None]:
    """End the process with one line if a signal comes, as nothing is there to be saved: for imports.

    An exception there would be lost or changed by modules that are half imported.
    """
    with _installed():
        _arrivals.at_once += 1
        try:
            yield
        finally:
            _arrivals.at_once -= 1


@contextmanager
def held() -> Iterator[None]:
    """Let a signal wait until the end of the context: a model that is being saved is saved to its end."""
    _arrivals.held += 1
    try:
        yield
    finally:
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
        os.write(1, f'{{"error": "{word()}", "exit_code": {exit_code()}}}\n'.encode())
    else:
        os.write(2, f"error: {word()}\n".encode())
    os._exit(exit_code())


@contextmanager
def _installed() -> Iterator[None]:
    """Receive the signals that would end this process, and none that it was told to ignore."""
    before = {}
    # Python allows this in the main thread only.
    if threading.current_thread() is threading.main_thread():
        for number in ENDING:
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                before[number] = signal.signal(number, _receive)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
