"""How files are written and opened: whole or not at all, and never through a link or a pipe that somebody planted."""

import hashlib
import os
import stat
import tempfile
import tomllib
from io import BufferedReader
from pathlib import Path
from typing import Any

from timeplex.errors import DamagedError, InputError

MOST_TOML, MOST_STOPS = 1_000_000, 200
"""No file of settings has more bytes, or more full stops in a line."""


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


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file of anyone's making says: a plain file of 1 MB at most."""
    try:
        with open_regular(path) as file:
            data = file.read(MOST_TOML + 1)
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist.", "Check the path.") from error
    except (OSError, ValueError) as error:  # the name may hold what no name can
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InputError(f"{path} cannot be read: {reason}.", "Check the path.") from error
    if len(data) > MOST_TOML:
        raise InputError(f"{path} is larger than 1 MB.", "Give a file of settings, which is small.")
    try:
        return parse_toml(data.decode())
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text.", "Give a file of settings as TOML.") from error
    except ValueError as error:
        raise InputError(f"{path} is not TOML: {str(error).rstrip('.')}.", "Mend it, or give another file.") from error


def parse_toml(text: str) -> dict[str, Any]:
    """What TOML says; all that is wrong with it is a ValueError."""
    if any(line.count(".") > MOST_STOPS for line in text.splitlines()):
        raise ValueError("a line has too many full stops")  # a key of n parts takes n² steps
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error
