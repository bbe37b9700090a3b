"""Bytes, seconds and numbers of things for people."""

from __future__ import annotations


def size(n_bytes: float) -> str:
    """A number of bytes as readable text, such as '12 MB'."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}" if unit != "GB" else f"{n_bytes:.1f} GB"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def duration(seconds: float) -> str:
    """Return seconds as readable text."""
    for unit, length in (("days", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 0.1 else "< 0.1 s"


def number(count: int, thing: str) -> str:
    """A number of things as readable text, such as '1 iteration' or '20 iterations'."""
    return f"{count} {thing}" + ("" if count == 1 else "s")
