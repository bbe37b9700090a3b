"""Bytes, seconds and numbers of things for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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


def ranges(numbers: Iterable[int], most: int = 100) -> str:
    """Return whole numbers as readable text, neighbours as ranges, of which `most` are named.

    >>> ranges([1, 2, 3, 7, 9, 10]), ranges([1, 2]), ranges([1, 3, 5], most=1)
    ('1 to 3, 7, 9 and 10', '1 and 2', '1 and 2 more')
    """
    runs: list[list[int]] = []
    for one in sorted(map(int, numbers)):
        if runs and one == runs[-1][-1] + 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    words: list[str] = []
    for run in runs[:most]:
        words += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    left = sum(map(len, runs[most:]))
    return listed([*words, f"{left} more"] if left else words)


def listed(words: Sequence[str]) -> str:
    """Words joined by commas, the last one by "and"."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
