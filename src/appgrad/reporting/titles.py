"""Titles of reports: the names of views, made from their sources."""

from __future__ import annotations

import re
from html import escape

# Wildcards of patterns, and endings of names that say how a file is packed.
WILDCARDS, PACKED = re.compile(r"[*?\[\]]+"), (".gz", ".bz2", ".xz", ".zst")
# Characters of a name after which a heading may be broken.
BREAKS = re.compile(r"(?<=[_\-/,])(?=\S)")


def title_of(x: str, y: str) -> str:
    """The title of a model of two views, from their sources: file names without folders and endings.

    Examples
    --------
    >>> from appgrad.reporting.titles import title_of
    >>> title_of("data/genes.parquet", "data/clinic.csv.gz::columns=age,height")
    'genes and clinic'
    >>> title_of("both.npz::words", "both.npz::pictures")
    'both: words and pictures'
    """
    a, b = name_of(x), name_of(y)
    if a != b:
        return f"{a} and {b}"
    keys = [_key(source) for source in (x, y)]
    return f"{a}: {keys[0]} and {keys[1]}" if all(keys) and keys[0] != keys[1] else a


def name_of(source: str) -> str:
    """The name of a view or a file: without folder, ending and columns."""
    path = source.split("::")[0].rstrip("/\\")
    name = re.split(r"[/\\]", path)[-1]
    for ending in PACKED:
        name = name.removesuffix(ending)
    stem, dot, _ = name.rpartition(".")
    name = stem if dot and stem else name
    if not WILDCARDS.search(name):
        return name or source
    # A pattern is named by what all its files share, or by their folder.
    folder = re.split(r"[/\\]", path)[-2:-1]
    return WILDCARDS.sub("", name).strip("-_. ") or "".join(folder) or name


def heading(title: str) -> str:
    """A title as HTML that may be broken after separators, so that long names are not cut within words."""
    return "<wbr>".join(escape(part) for part in BREAKS.split(title))


def _key(source: str) -> str:
    """The array that a source asks for; empty if it asks for none."""
    return next((part for part in source.split("::")[1:] if not part.startswith("columns=")), "")
