"""Loader of URL Reputation as published: one svmlight file per day, and the columns of each view."""

from __future__ import annotations

import tarfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from ..machine.arrays import Array
from .loaders import SOURCES, Folder, Paired, downloaded, named

# Indices in the files begin with 1.
URL_FEATURES = 3_231_962


@named("URL Reputation")
def load_url_reputation(
    folder: Folder = None,
    host: Sequence[int] | None = None,
    lexical: Sequence[int] | None = None,
    n_features: int = 100_000,
    n_samples: int = 2_000_000,
) -> Paired:
    """Host-based against lexical features of URLs, from the files of URL Reputation (Ma et al. 2009).

    `folder` holds Day0.svm, Day1.svm, ... as unpacked from url_svmlight.tar.gz. Each view keeps the
    `n_features` columns that occur in most training rows. The first half of the first
    `n_samples` rows is for training, the other half for testing. The columns of each view come from the index
    lists given; else from files host.txt and lexical.txt with one index per line; else from the file
    FeatureTypes, with an index and a type (host or lexical) per line. FeatureTypes of the archive only lists
    the indices of real-valued features: these are then one view, all others the other.
    """
    days = _days(folder)
    matrices, total = [], 0
    for day in days:
        matrices.append(
            load_svmlight_file(str(day), n_features=URL_FEATURES, zero_based=True, dtype=np.float32)[0][
                : n_samples - total
            ]
        )
        total += matrices[-1].shape[0]
        if total >= n_samples:
            break
    rows = sp.csr_array(sp.vstack(matrices, format="csr"))
    del matrices
    if rows.shape[0] < 2:
        raise ValueError(f"{days[0].parent} holds {rows.shape[0]} rows: expected at least two")
    half = rows.shape[0] // 2
    columns = _url_columns(days[0].parent, host, lexical)
    parts = [_most_frequent(rows, chosen, half, n_features) for chosen in columns]
    return Paired(*(part[:half] for part in parts), *(part[half:] for part in parts))


def is_url_reputation(folder: Folder) -> bool:
    """True if this folder holds the original files of URL Reputation."""
    return folder is not None and any(
        place.is_dir() and any(place.glob("Day*.svm"))
        for place in (Path(folder), Path(folder) / "url_svmlight")
    )


def _days(folder: Folder) -> list[Path]:
    """The files of URL Reputation, day by day."""
    if folder is None:
        folder = _unpacked(downloaded("url_svmlight.tar.gz"))
    for place in (Path(folder), Path(folder) / "url_svmlight"):
        days = [day for day in place.glob("Day*.svm") if day.stem[3:].isdecimal()]
        if days:
            return sorted(days, key=lambda day: int(day.stem[3:]))
    raise FileNotFoundError(
        f"{folder} has no Day0.svm, Day1.svm, ...: unpack {SOURCES['url_svmlight.tar.gz'][0]} there"
    )


def _url_columns(
    folder: Path, host: Sequence[int] | None, lexical: Sequence[int] | None
) -> tuple[Array, Array]:
    """The columns of both views."""
    if host is None and lexical is None:
        if (folder / "host.txt").exists() and (folder / "lexical.txt").exists():
            host, lexical = (_indices(folder / f"{name}.txt")[0] for name in ("host", "lexical"))
        elif (folder / "FeatureTypes").exists():
            host, lexical = _typed(folder / "FeatureTypes")
            if lexical is None:
                warnings.warn(
                    f"{folder / 'FeatureTypes'} names no types: the {len(host)} columns it lists, which are "
                    "real-valued in the archive, are one view, and all others the other",
                    stacklevel=4,
                )
    if host is None and lexical is None:
        raise ValueError(
            f"{folder} does not say which columns are host-based: give host and lexical, lists of column "
            "numbers, or put files host.txt and lexical.txt, or FeatureTypes, beside the days"
        )
    found = [_set(chosen) for chosen in (host, lexical)]
    if host is None or lexical is None:
        rest = np.setdiff1d(np.arange(URL_FEATURES), found[0 if lexical is None else 1])
        found[1 if lexical is None else 0] = rest
    shared = np.intersect1d(found[0], found[1])
    if len(shared):
        raise ValueError(f"{len(shared)} columns are in both views: correlations of 1 would follow")
    return found[0], found[1]


def _set(chosen: Sequence[int] | None) -> Array:
    found = np.unique(np.asarray([] if chosen is None else chosen, dtype=np.int64))
    if len(found) and (found[0] < 0 or found[-1] >= URL_FEATURES):
        raise ValueError(f"columns run from 0 to {URL_FEATURES - 1}, got {found[0]} to {found[-1]}")
    return found


def _typed(path: Path) -> tuple[Sequence[int], Sequence[int] | None]:
    """Host-based and lexical columns of a FeatureTypes file; without types, all listed ones and None."""
    indices, types = _indices(path)
    if not any(types):
        return indices, None
    host, lexical = (
        [j for j, kind in zip(indices, types, strict=True) if kind.lower().startswith(name)]
        for name in ("host", "lex")
    )
    if not host or not lexical:
        raise ValueError(
            f"{path} has {len(host)} host and {len(lexical)} lexical columns: expected some of each"
        )
    return host, lexical


def _indices(path: Path) -> tuple[list[int], list[str]]:
    """The index at the start of each line, and the text that follows it."""
    indices, types = [], []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        parts = text.split()
        if not parts:
            continue
        if not parts[0].isdecimal():
            raise ValueError(f"{path}, line {number}: expected a column number, found {text[:40]!r}")
        indices.append(int(parts[0]))
        types.append(" ".join(parts[1:]))
    return indices, types


def _most_frequent(rows: Any, chosen: Array, training: int, size: int) -> Any:
    """The `size` chosen columns that occur in most training rows, in their original order."""
    found = rows[:, chosen]
    counts = np.bincount(found[:training].indices, minlength=len(chosen))
    keep = np.sort(np.argsort(-counts, kind="stable")[:size])
    keep = keep[counts[keep] > 0]
    if not len(keep):
        raise ValueError(f"no training row has any of the {len(chosen)} columns of one view")
    return sp.csr_array(found[:, keep])


def _unpacked(archive: Path) -> Path:
    """The folder of an archive, which is unpacked beside it the first time."""
    place = archive.parent / "url_svmlight"
    if not (place / "complete").exists():
        with tarfile.open(archive) as files:
            files.extractall(archive.parent, filter="data")
        (place / "complete").touch()
    return place
