"""How files are written and opened: whole or not at all, and never through a link or a pipe that somebody planted."""

import hashlib
import json
import math
import os
import stat
import tempfile
from io import BufferedReader
from pathlib import Path
from typing import Any

from timeplex.errors import DamagedError, InputError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that appears whole or not at all, also if the power fails; folders above it are made."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:40]}-", delete=False) as file:
            temporary = Path(file.name)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.", "Choose another place.") from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_regular(path: Path, *, follow: bool = True) -> BufferedReader:
    """Open a file to read; a folder, pipe, socket or device is refused, and so is a link unless it may be followed."""
    # Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InputError(f"{path} is not a plain file.", "Give a file, not a folder, pipe or device.")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_inside(folder: Path, name: str) -> BufferedReader:
    """Open a file of a KB or run folder, `sub/file` at the deepest; nothing is followed out of the folder."""
    place = folder
    for part in Path(name).parts:
        if part == ".." or place.joinpath(part).is_symlink():
            raise DamagedError(f"{folder / name} is a link, which is not followed.", "Put the file itself there.")
        place = place / part
    return open_regular(place, follow=False)


def checksum(path: Path) -> str:
    """SHA-256 of a file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def to_json(value: Any, *, indent: int | None = None, ensure_ascii: bool = True, sort_keys: bool = False) -> str:
    """A value as JSON that every reader understands: a number that is none, or not finite, becomes null."""
    try:
        return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, sort_keys=sort_keys, allow_nan=False)
    except ValueError:
        return json.dumps(
            _finite(value), indent=indent, ensure_ascii=ensure_ascii, sort_keys=sort_keys, allow_nan=False
        )


def _finite(value: Any) -> Any:
    """The same with None for every float that is not finite."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
