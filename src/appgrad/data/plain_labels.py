"""Row labels as text, the same for all types that may hold them: 2.0 and 2, a time in two zones."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

# What follows a whole number or a day that was written in full.
ZEROS = re.compile(r"(?<=\d)(\.0+)$|[T ]00:00:00(\.0+)?$")
# Zeros at the end of fractions of seconds.
FRACTION = re.compile(r"(?<=:\d\d)(\.\d*[1-9])0+$")
# A day, a time of it with fractions of seconds, and how far its zone is ahead of UTC.
TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(\.\d+)?(Z|([+-])(\d\d):?(\d\d)(?::?(\d\d))?)?", re.ASCII
)


def plain_label(text: str) -> str:
    """A label as text, the same for all types that may hold it: 2.0 and 2, a day and its midnight.

    Times with a zone are those of UTC. Labels of several levels, `a, 2.0`, are made plain level by level.

    >>> plain_label("2024-01-01 00:30:00.500000+01:00")
    '2023-12-31 23:30:00.5Z'
    """
    if ", " in text:
        return ", ".join(map(_plain, text.split(", ")))
    return _plain(text)


def _plain(text: str) -> str:
    text = text.strip()
    if text[10:11] in ("T", " "):
        text = _plain_time(text)
    return FRACTION.sub(r"\1", ZEROS.sub("", text)) if text.endswith("0") else text


def _plain_time(text: str) -> str:
    """A time with a blank behind the day, that of UTC if it has a zone; other texts as they are."""
    found = TIME.fullmatch(text)
    if found is None:
        return text
    day, clock, fraction, zone, sign, *parts = found.groups()
    if zone is None:
        return f"{day} {clock}{fraction or ''}"
    hours, minutes, seconds = (int(part or 0) for part in parts)
    ahead = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    try:
        time = datetime.fromisoformat(f"{day} {clock}")
        time = time + ahead if sign == "-" else time - ahead
    except (ValueError, OverflowError):
        return text
    return f"{time}{(fraction or '').rstrip('0').rstrip('.')}Z"
