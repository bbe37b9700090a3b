"""Display of names and texts from files, whatever characters they hold."""

from __future__ import annotations


def shown(name: str, length: int) -> str:
    """A name on one line of at most `length` characters."""
    # Cut first: a name may be a whole text. Joiners are not printable, but some scripts need them.
    words = " ".join(name[: 4 * length].split())
    line = "".join(c if c.isprintable() or c in "\u200c\u200d" else "\ufffd" for c in words)
    if len(line) <= length and len(name) > 4 * length:
        return line[: length - 1] + "…"
    return line if len(line) <= length else line[: length - 1] + "…"
