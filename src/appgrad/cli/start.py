"""Where the command `appgrad` begins: a signal is one line from here on, while modules are imported too."""

from __future__ import annotations

from . import signals


def main() -> None:
    """Import the command line, and run it."""
    with signals.at_once():
        from . import main as command_line
    command_line.main()
