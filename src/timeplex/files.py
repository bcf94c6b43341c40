"""How files are written and opened: whole or not at all, and never through a link or a pipe that somebody planted.

All that the package writes it writes here, and every step that changes the disk is a call of `os` or of `_exchange` in
this module: the tests in tests/durability stop, fail and forget each of them. What is being written has a hidden name
of its own (`.name.timeplex-1a2b3c4d`) and is locked by its writer; the lock ends with the process, so the next writer
of the same name knows what was left behind by one that died, and removes it.
"""

import errno
import hashlib
import json
import math
import os
import re
import secrets
import stat
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from timeplex.errors import DamagedError, InputError

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
FULL = (errno.ENOSPC, errno.EDQUOT)
TEMPORARY = re.compile(r"\..*\.timeplex-(?:[0-9a-f]{8}|old)", re.DOTALL)

# Writing --------------------------------------------------------------------------------------------------------------
MOST_TOML, MOST_STOPS = 1_000_000, 200
"""No file of settings has more bytes, or more full stops in a line."""


def write_whole(path: Path, data: bytes) -> None:
    """Write a file that appears whole or not at all, also if the power fails; folders above it are made."""
    with writing(path):
        _make_folder(path.parent)
        _sweep(path)
        temporary, descriptor = _claimed(path, _create_file)
        try:
            _write(descriptor, data)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        finally:
            os.close(descriptor)
        sync_folder(path.parent)


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder of files in one step: whenever the power fails, the old folder or the new one has the name.

    A folder of that name is replaced, whatever files it holds; it is for the caller to look at them first.
    """
    with writing(folder):
        place = folder.resolve()  # where a link leads to, so that the link stays
        _make_folder(place.parent)
        recover(place)
        _sweep(place)
        building, descriptor = _claimed(place, _create_folder)
        try:
            for name, data in files.items():
                file = _create_file(building / name)
                try:
                    _write(file, data)
                finally:
                    os.close(file)
            os.fsync(descriptor)
            _put(building, place)
            sync_folder(place.parent)
        finally:
            remove_folder(building)  # the old one, or what was not finished
            os.close(descriptor)


def append(path: Path, data: bytes) -> None:
    """Add to the end of a file, which is made if it is not there."""
    with writing(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            _write(descriptor, data)
        finally:
            os.close(descriptor)


class Growing:
    """A file that only grows: what `add` has returned from is on the disk. It is locked while it is open."""

    def __init__(self, path: Path) -> None:
        """Open the file, or make it; a link, pipe or device is refused, and so is one that another process has open."""
        self.path = path
        with writing(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            self._descriptor = os.open(path, flags, 0o644)
            try:
                if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                    raise InputError(f"{path} is not a plain file.", "Give a file, not a folder, pipe or device.")
                if _lock(self._descriptor) is False:
                    raise InputError(f"{path} is in use by another process.", "Wait until it has ended, or copy it.")
                sync_folder(path.absolute().parent)
            except BaseException:
                os.close(self._descriptor)
                raise

    def content(self, most: int) -> bytes:
        """All that is in it, at most so many bytes and one more."""
        with writing(self.path), open(os.dup(self._descriptor), "rb") as file:
            file.seek(0)
            return file.read(most + 1)

    def cut(self, size: int) -> None:
        """Drop what comes after so many bytes."""
        with writing(self.path):
            os.ftruncate(self._descriptor, size)
            os.fsync(self._descriptor)

    def add(self, data: bytes) -> None:
        """Add to its end; if that fails nothing is added, not even in part."""
        before = os.fstat(self._descriptor).st_size
        with writing(self.path):
            try:
                _write(self._descriptor, data)
            except BaseException:
                with suppress(OSError):
                    os.ftruncate(self._descriptor, before)
                raise

    def close(self) -> None:
        """Let others have it."""
        os.close(self._descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it, where they are missing."""
    with writing(folder):
        _make_folder(folder)


def _make_folder(folder: Path) -> None:
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(each)
        sync_folder(each.parent)
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def check_writable(path: Path) -> None:
    """Refuse a place for a file that cannot be written before long work is done for it. Nothing is left there."""
    if path.is_dir():
        raise InputError(f"{path} is a folder.", "Give the name of a file.")
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is a pipe or a device.", "Give the name of a file.")
    there = next(folder for folder in path.absolute().parents if folder.exists())
    with writing(path):
        _sweep(there / path.name)
        temporary, descriptor = _claimed(there / path.name, _create_file)
        os.close(descriptor)
        os.unlink(temporary)


def remove_file(path: Path) -> None:
    """Remove a file, or a link, but not what the link leads to."""
    with writing(path):
        os.unlink(path)


def remove_folder(folder: Path) -> None:
    """Remove a folder with the files in it; one that holds folders stays with them, and a link is left alone."""
    with suppress(OSError):
        if folder.is_symlink():
            return
        for path in sorted(folder.iterdir()):
            if path.is_symlink() or not path.is_dir():
                os.unlink(path)
        os.rmdir(folder)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder unless something is in it."""
    with suppress(OSError):
        os.rmdir(folder)


def is_temporary(name: str) -> bool:
    """Whether a name is one under which we write what is not finished."""
    return TEMPORARY.fullmatch(name) is not None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns trouble with the disk inside into a sentence about the path."""
    try:
        yield
    except OSError as error:
        hint = "Free some space, and repeat the command." if error.errno in FULL else "Choose another place."
        raise InputError(f"{path} cannot be written: {error.strerror or error}.", hint) from error


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # of file systems that do not know it
            raise
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
    os.fsync(descriptor)


def _put(building: Path, place: Path) -> None:
    """Give the finished folder its name. What had the name before, if not an empty folder, has then the other one."""
    try:
        os.rename(building, place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        if not _exchange(building, place):
            _put_in_two_steps(building, place)


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change names in one step; False where the system or the file system cannot."""
    if sys.platform != "linux":
        return False
    import ctypes

    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return False
    here, exchanging = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    if function(here, os.fsencode(one), here, os.fsencode(other), exchanging) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
        return False
    raise OSError(number, os.strerror(number), str(other))


def _put_in_two_steps(building: Path, place: Path) -> None:
    """Put a folder in the place of another by two renames; `recover` knows what to do if we die between them."""
    old = _old_name(place)
    with locked(place):  # so that nobody recovers while we live
        os.rename(place, old)
        try:
            os.rename(building, place)
        except OSError:
            os.rename(old, place)
            raise
        sync_folder(place.parent)
        remove_folder(old)


def recover(place: Path) -> None:
    """Give a folder its name back if a process died between the two renames of replacing it."""
    old = _old_name(place)
    if not place.exists() and old.is_dir():
        # A process that lives has it locked: then this waits until the new folder is there.
        with suppress(OSError, InputError), locked(old, wait=True):
            os.rename(old, place)


def _old_name(place: Path) -> Path:
    return place.parent / f".{place.name[:40]}.timeplex-old"


# Temporary names and locks --------------------------------------------------------------------------------------------


def _create_file(path: Path) -> int:
    return os.open(path, NEW_FILE, 0o644)


def _create_folder(path: Path) -> int:
    os.mkdir(path, 0o755)
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _claimed(path: Path, create: Callable[[Path], int]) -> tuple[Path, int]:
    """A new file or folder beside `path`, with a name of its own and locked while its descriptor is open."""
    while True:
        temporary = path.parent / f".{path.name[:40]}.timeplex-{secrets.token_hex(4)}"
        descriptor = create(temporary)
        # Between making and locking it, somebody who sweeps may have taken it for left behind.
        if _lock(descriptor) is not False and _is_at(temporary, descriptor):
            return temporary, descriptor
        os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _sweep(path: Path) -> None:
    """Remove what processes that died left beside a file or folder while they wrote it."""
    ours = f".{path.name[:40]}.timeplex-"
    with suppress(OSError):
        for name in sorted(os.listdir(path.parent)):
            if name.startswith(ours) and is_temporary(name) and not (name == f"{ours}old" and not path.exists()):
                _remove_if_left(path.parent / name)


def _remove_if_left(path: Path) -> None:
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if _lock(descriptor):
                remove_folder(path) if stat.S_ISDIR(os.fstat(descriptor).st_mode) else os.unlink(path)
        finally:
            os.close(descriptor)


@contextmanager
def locked(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Keep other processes that ask for it out of a folder. The lock ends with the process, however it ends.

    It lies on the folder itself, so no file is left. Some network file systems do not lock folders (NFS), nor does
    Windows: there nobody is kept out.
    """
    with writing(folder):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _lock(descriptor, wait=wait) is False:
            raise InputError(f"{folder} is in use by another process.", "Wait until it has ended, or choose another.")
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool = False) -> bool | None:
    """Lock an open file or folder: whether it is ours now, None where nothing can be locked."""
    if sys.platform == "win32":
        return None
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


# Reading --------------------------------------------------------------------------------------------------------------


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


def to_json(value: Any, **options: Any) -> str:
    """A value as JSON that every reader understands: a number that is none, or not finite, becomes null.

    `options` are those of `json.dumps`.
    """
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, **options)


def _finite(value: Any) -> Any:
    """The same with None for every float that is not finite."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
        raise InputError(
            f"{path} is not TOML: {str(error).rstrip('.')}.", "Correct it, or give another file."
        ) from error


def parse_toml(text: str) -> dict[str, Any]:
    """What TOML says; all that is wrong with it is a ValueError."""
    if any(line.count(".") > MOST_STOPS for line in text.splitlines()):
        raise ValueError("a line has too many full stops")  # a key of n parts takes n² steps
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ValueError("its brackets are nested too deeply") from error


MANIFEST = "MANIFEST.json"
FORMAT = 1
AGAIN = "Import the source again, or get the folder anew."

MOST_JSON = 8_000_000
"""No JSON file is larger; it takes up to about thirty times as much memory while it is read."""

Kind = TypeVar("Kind")


class Record(BaseModel):
    """Part of a stored JSON file: every value has just the type that is stated; what is not known is passed over."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore")


class Manifest(Record):
    """The checksums of the files of a folder."""

    format: Literal[1]
    sha256: dict[str, str]


class _Format(Record):
    format: int


def read(folder: Path, name: str, most: int | None = None) -> bytes:
    """The content of a file of a folder; one that is missing, a link, no file or larger than `most` is refused."""
    try:
        with open_inside(folder, name) as file:
            content = file.read() if most is None else file.read(most + 1)
    except FileNotFoundError as error:
        raise DamagedError(f"{folder / name} is missing.", AGAIN) from error
    except NotADirectoryError as error:
        raise DamagedError(f"{folder / name} is not a file.", AGAIN) from error
    except PermissionError as error:
        raise InputError(f"{folder / name} cannot be read: {error.strerror}.", "Check its permissions.") from error
    except OSError as error:
        raise DamagedError(f"{folder / name} cannot be read: {error.strerror or error}.", AGAIN) from error
    if most is not None and len(content) > most:
        raise DamagedError(f"{folder / name} is larger than {most:,} bytes.", AGAIN)
    return content


def parse_json(content: bytes, kind: type[Kind], source: object) -> Kind:
    """JSON as a value of a type; `source` is named where it is none."""
    if len(content) > MOST_JSON:
        raise DamagedError(f"{source} is larger than {MOST_JSON:,} bytes.", AGAIN)
    try:
        return TypeAdapter(kind).validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        if first["type"] == "json_invalid":
            raise DamagedError(f"{source} is not JSON.", AGAIN) from error
        where = ".".join(str(part)[:40] for part in first["loc"])
        what = f"{where}: {first['msg']}" if where else first["msg"]
        raise DamagedError(f"{source} is not what it should be ({what}).", AGAIN) from error


def read_json(folder: Path, name: str, kind: type[Kind]) -> Kind:
    """A JSON file of a folder."""
    return parse_json(read(folder, name, MOST_JSON), kind, folder / name)


def verified(folder: Path, files: Sequence[str]) -> dict[str, bytes]:
    """The content of each file, after checking that the manifest lists just these and that each has its checksum."""
    content = read(folder, MANIFEST, MOST_JSON)
    found = parse_json(content, _Format, folder / MANIFEST).format
    if found != FORMAT:
        raise InputError(
            f"{folder} has format {found}, this version reads format {FORMAT}.", "Import the source again."
        )
    sums = parse_json(content, Manifest, folder / MANIFEST).sha256
    if set(sums) != set(files):
        raise DamagedError(f"{folder / MANIFEST} does not list the checksums.", AGAIN)
    contents = {name: read(folder, name) for name in files}
    for name, content in contents.items():
        if hashlib.sha256(content).hexdigest() != sums[name]:
            raise DamagedError(f"{folder / name} has been changed or damaged.", AGAIN)
    return contents


def refuse_link(folder: Path) -> None:
    """Refuse a folder inside a run that is a link: it would lead out of the run."""
    if folder.is_symlink():
        raise DamagedError(f"{folder} is a link, which is not followed.", "Put the folder itself there.")


Table = dict[str, Any]
"""A JSON object whose values are checked by what reads it."""
