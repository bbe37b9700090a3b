"""The container of model files and checkpoints: one npz of arrays and JSON, written whole or not at all."""

from __future__ import annotations

import json
import lzma
import os
import secrets
import shutil
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..data.files.npz import require_plausible
from ..machine.arrays import Array

FORMAT = "appgrad-model"


VERSION = 2


def write(
    path: str | os.PathLike[str], arrays: dict[str, Array], meta: dict[str, Any], kind: str = FORMAT
) -> None:
    """Write arrays and metadata atomically."""
    header = json.dumps({"format": kind, "version": VERSION, **meta}, allow_nan=True)
    parts = {"meta": np.frombuffer(header.encode(), np.uint8), **arrays}
    # As `numpy.savez` writes it, which leaves its file open if it is interrupted.
    with whole_file(path) as file:
        archive = zipfile.ZipFile(file, "w", allowZip64=True)
        try:
            for name, array in parts.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as part:
                    np.lib.format.write_array(part, np.asarray(array), allow_pickle=False)
            archive.close()
        except BaseException:
            # The file is given up. To close an archive in the middle would raise another error.
            archive.fp = None
            raise


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Yield a file to write to atomically: a crash or a full disk leaves the old file or the new one.

    A link is followed. A file that is replaced keeps its permissions, a new one has those of any new file.
    """
    require_writable(Path(path))
    target = Path(path).resolve()  # follow links
    # Nobody can guess the name, and nothing that is there is opened. The system applies the umask. The name
    # is short: that of the target may be as long as a name can be.
    temporary = target.parent / f".appgrad-{secrets.token_hex(8)}"
    handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def require_writable(target: Path) -> None:
    """Raise if a file of this name cannot be written, before anything long is computed."""
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{target.parent}: no such folder")
    if target.is_symlink() and not target.resolve().parent.is_dir():
        raise FileNotFoundError(f"{target} is a link into {target.resolve().parent}: no such folder")
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a folder; give the name of a file")
    if target.exists() and not target.is_file():
        raise ValueError(f"{target} is not an ordinary file: it would be replaced")
    folder = target.resolve().parent
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"{folder}: no permission to write there")


# Errors that numpy, zipfile and json raise on files that are truncated, altered or of another kind.
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    KeyError,
    MemoryError,
    NotImplementedError,
    OverflowError,
    RecursionError,
    RuntimeError,
    SyntaxError,
    TypeError,
    UnicodeDecodeError,
    ValueError,
    AttributeError,
    tokenize.TokenError,
    struct.error,
)


def read(path: str | os.PathLike[str], kind: str = FORMAT) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return the arrays and the metadata of a file, or raise one clear error."""
    what = kind.replace("-", " ")
    if not Path(path).exists():
        raise FileNotFoundError(f"{path}: no such file")
    with open(path, "rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("it holds a single array")
            if archive.zip is not None:
                _require_plain(archive.zip, os.fstat(file.fileno()).st_size)
                require_plausible(archive.zip)
            meta = json.loads(archive["meta"].tobytes())
            if not isinstance(meta, dict) or meta.get("format") != kind or not _is_whole(meta["version"]):
                raise ValueError("its metadata are of another kind")
            newer = meta["version"] > VERSION
            arrays = {} if newer else {name: archive[name] for name in archive.files if name != "meta"}
        except DAMAGE as error:
            reason = "it holds Python objects" if "pickle" in str(error) else error
            raise ValueError(f"{path} is damaged or not an {what} file ({reason})") from error
        except OSError as error:
            raise ValueError(f"{path} is damaged or cannot be read ({error})") from error
    if newer:
        raise ValueError(
            f"{path} has {what.split()[-1]} format {meta['version']}, written by appgrad "
            f"{meta.get('library', '?')}; this version reads up to {VERSION}: upgrade appgrad"
        )
    return arrays, meta


def _require_plain(archive: zipfile.ZipFile, size: int) -> None:
    """Raise if arrays would take more room than the file: it is written without compression."""
    members = archive.infolist()
    if any(info.compress_type != zipfile.ZIP_STORED for info in members):
        raise ValueError("its arrays are compressed, which those of appgrad never are")
    if sum(info.file_size for info in members) > size or len({info.filename for info in members}) < len(
        members
    ):
        raise ValueError("it holds arrays twice, or claims more than it holds")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
