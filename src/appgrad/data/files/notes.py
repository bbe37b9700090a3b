"""What was decided about a file while it was read: said with results, and with errors it may have caused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple


class Note(NamedTuple):
    """A decision in words, with the path of the file; `sure` is False if a reader could think otherwise."""

    text: str
    sure: bool


def texts(notes: Iterable[Note | None]) -> tuple[str, ...]:
    """The texts of notes, each once."""
    return tuple(dict.fromkeys(note.text for note in notes if note is not None))


@contextmanager
def noted(notes: Iterable[str]) -> Iterator[None]:
    """Add notes to errors."""
    try:
        yield
    except Exception as error:
        add_notes(error, notes)
        raise


def add_notes(error: BaseException, notes: Iterable[str]) -> None:
    """Add notes to an error, each once."""
    for note in notes:
        if note not in notes_of(error):
            error.add_note(note)


def notes_of(error: BaseException) -> list[str]:
    """The notes of an error."""
    return getattr(error, "__notes__", [])
