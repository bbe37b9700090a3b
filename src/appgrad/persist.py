"""Model files: one npz of arrays and JSON, written whole or not at all, read without unpickling."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .views import Array

FORMAT = "appgrad-model"
VERSION = 1


def write(path: str | os.PathLike[str], arrays: dict[str, Array], meta: dict[str, Any]) -> None:
    """Write a model file atomically: a crash or a full disk leaves the old file or the new one."""
    target = Path(path)
    require_writable(target)
    header = json.dumps({"format": FORMAT, "version": VERSION, **meta}, allow_nan=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, allow_pickle=False, meta=np.frombuffer(header.encode(), np.uint8), **arrays)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes the file private; give it the permissions that open() would have.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def require_writable(target: Path) -> None:
    """Raise when a file of this name cannot be written, before anything long is computed."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: no such folder")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file")
    if not os.access(target.parent, os.W_OK):
        raise PermissionError(f"{target.parent}: no permission to write there")


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """The arrays and the metadata of a model file, or one clear error."""
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        with open(path, "rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile) or "meta" not in archive.files:
                raise ValueError(f"{path} is not an appgrad model file")
            meta = json.loads(archive["meta"].tobytes())
            if not isinstance(meta, dict) or meta.get("format") != FORMAT:
                raise ValueError(f"{path} is not an appgrad model file")
            if meta["version"] > VERSION:
                raise ValueError(
                    f"{path} has model format {meta['version']}, written by appgrad "
                    f"{meta.get('library', '?')}; this version reads up to {VERSION}: upgrade appgrad"
                )
            return {name: archive[name] for name in archive.files if name != "meta"}, meta
    except (zipfile.BadZipFile, EOFError, KeyError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is damaged or not an appgrad model file ({error})") from error
    except ValueError as error:
        if "appgrad" in str(error):
            raise
        raise ValueError(f"{path} is damaged or not an appgrad model file ({error})") from error
