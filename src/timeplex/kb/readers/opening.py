"""How a source is opened: plain files alone, and packed ones only up to a size.

What a packed file unpacks to is not told by its own size: two megabytes may hold two gigabytes of nothing. So there
is a limit, `max_unpacked`: fifty times what is packed (ordinary tables pack to a fifth or a tenth), 64 MB for small
files.
"""

import gzip
import io
import os
import sys
import zlib
from pathlib import Path
from typing import IO

from timeplex.errors import InputError
from timeplex.files import open_regular

FREE, RATIO = 64_000_000, 50
"""What is packed may be so many bytes unpacked, or so many times as large."""

STREAM = 4_000_000_000
"""So many bytes are read from standard input, unless `max_unpacked` says otherwise."""

STANDARD_INPUT = Path("-")

CHUNK = 1 << 20


def shown(path: Path) -> str:
    """A path as a text that can be printed and stored, also if its bytes are not UTF-8."""
    return "standard input" if path == STANDARD_INPUT else os.fsencode(path).decode(errors="backslashreplace")


def unpacked_limit(packed: int, max_unpacked: int | None = None) -> int:
    """How many bytes something packed may have when it is unpacked."""
    return max(FREE, RATIO * packed) if max_unpacked is None else max_unpacked


def too_large(source: str, limit: int) -> InputError:
    """The error that a packed file holds too much."""
    problem = f"{source} unpacks to more than {limit / 1e6:,.0f} MB."
    why = "If it is meant to be so large, allow it with"
    return InputError(problem, f"{why} max_unpacked=BYTES.", f"{why} --max-unpacked BYTES.")


def file_bytes(path: Path, max_unpacked: int | None = None) -> bytes:
    """The bytes of a file, unpacked if it ends in .gz; `-` is standard input."""
    if path == STANDARD_INPUT:
        return _standard_input(max_unpacked)
    if path.is_dir():
        raise InputError(f"{shown(path)} is a folder, not a file.", "Give the files in it.")
    try:
        with open_regular(path) as file:
            data = file.read()
    except FileNotFoundError as error:
        raise InputError(f"{shown(path)} does not exist.", "Check the path.") from error
    except OSError as error:
        raise InputError(f"{shown(path)} cannot be read: {error.strerror}.", "Check its permissions.") from error
    except InputError as error:
        hint = "To read from a pipe, give - and let it be standard input."
        raise InputError(f"{shown(path)} is not a plain file.", hint) from error
    except MemoryError as error:
        raise InputError(f"{shown(path)} does not fit into memory.", "Give it in parts.") from error
    return unpacked(data, shown(path), max_unpacked) if path.name.lower().endswith(".gz") else data


def _standard_input(max_unpacked: int | None) -> bytes:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or stream.isatty():
        raise InputError("Standard input has no data.", "Send a table to it: timeplex import - < FILE")
    data = _up_to(stream, STREAM if max_unpacked is None else max_unpacked, shown(STANDARD_INPUT))
    return unpacked(data, shown(STANDARD_INPUT), max_unpacked) if data.startswith(b"\x1f\x8b") else data


def unpacked(data: bytes, source: str, max_unpacked: int | None = None) -> bytes:
    """What a gzip file holds, all its members; never more than the limit is unpacked."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            return _up_to(file, unpacked_limit(len(data), max_unpacked), source)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{source} is not a whole gzip file.", "Pack or download it again.") from error


def _up_to(stream: IO[bytes] | gzip.GzipFile, limit: int, source: str) -> bytes:
    """All that a stream has, if it is not more than the limit."""
    collected = io.BytesIO()
    while chunk := stream.read(CHUNK):
        if collected.tell() + len(chunk) > limit:
            raise too_large(source, limit)
        collected.write(chunk)
    return collected.getvalue()
