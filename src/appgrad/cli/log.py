"""The log of a command on stderr: how much of it is asked for, and lines of progress every few seconds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from ..fitting.progress import Text, logger, nothing
from .terminal import err, say

# Seconds between two lines of progress.
EVERY = 5.0
# Characters of a line: a log has room.
WIDE = 1000
progress = logger.getChild("progress")


class Stderr(logging.Handler):
    """Lines of a log on stderr, printed above a progress bar if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one record."""
        say(self.format(record), err)


@contextmanager
def logged(level: str | None) -> Iterator[None]:
    """Print the log from this level on; by default lines of progress, unless a bar shows it, and warnings."""
    handler, before = Stderr(), (logger.level, progress.level)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%H:%M:%S"))
    logger.addHandler(handler)
    logger.setLevel((level or "warning").upper())
    progress.setLevel(logging.INFO if level is None and not err.is_terminal else logging.NOTSET)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        for log, old in zip((logger, progress), before, strict=True):
            log.setLevel(old)


class LogLines:
    """A display for logs: every few seconds a line that says how far the task is."""

    def __init__(self) -> None:
        self.name, self.start = "", time.perf_counter()
        self.text: Text = nothing

    def begin(self, name: str) -> None:
        """Show that a task begins."""
        self.name, self.start, self.text = name, time.perf_counter(), nothing
        progress.debug("%s begins", name)

    def show(self, text: Text) -> None:
        """Keep the call that says how far the task is."""
        self.text = text

    def write(self) -> None:
        """Log a line."""
        spent = timedelta(seconds=int(time.perf_counter() - self.start))
        progress.info("%s", ", ".join(filter(None, (f"{self.name} {spent}", self.text(WIDE)))))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Log a line every few seconds, also while nothing is reported: a file may take long to read."""
        done = threading.Event()

        def write() -> None:
            while not done.wait(EVERY):
                self.write()

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
