"""Parquet files.

Polars trusts the counts that stand in a Parquet file and reserves the memory they ask for. One flipped bit
can make a count negative or huge, and a memory request that cannot be met ends the whole process, which no
`except` can prevent. So the counts are checked before polars sees the file: those in the footer against
those in the header of each page. That is a walk over a few small structures, not over the data.
"""

import io
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import polars as pl

from timeplex.errors import InputError
from timeplex.kb.readers.opening import too_large
from timeplex.kb.readers.rows import read_frame
from timeplex.kb.readers.table import Columns, Table

MAGIC = b"PAR1"


def read_parquet(data: bytes, *, source: str, split: str, columns: Columns, limit: int) -> Table:
    """Read the bytes of a Parquet file, which may unpack to `limit` bytes."""
    return read_frame(parquet_frame(data, source, limit), source=source, split=split, columns=columns)


def parquet_frame(data: bytes, source: str, limit: int | None = None) -> pl.DataFrame:
    """All columns of a Parquet file, given as bytes."""
    try:
        _, unpacked = declared_sizes(data)
        if limit is not None and unpacked > limit:
            raise too_large(source, limit)
        with quiet_stderr():
            return pl.read_parquet(io.BytesIO(data), memory_map=False)
    except InputError:
        raise
    except BaseException as error:
        # A damaged file can also make the decoder panic, and that is not an `Exception`.
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise InputError(f"{source} is not a readable Parquet file.", "It may be damaged: write it again.") from error


_ALONE = threading.Lock()


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Hold back what is printed on standard error, where polars prints a traceback if it meets a wrong file.

    Standard error is the whole process's, so that one thread at a time does this. What others print meanwhile follows
    when all went well; only beside a file that cannot be read it is lost, with the traceback.
    """
    with _ALONE:
        try:
            kept = os.dup(2)
        except OSError:  # it is closed
            yield
            return
        with _scratch() as held:
            try:
                os.dup2(held.fileno(), 2)
                yield
            finally:
                os.dup2(kept, 2)
                os.close(kept)
            held.seek(0)
            while text := held.read(1 << 16):
                os.write(2, text)


def _scratch() -> BinaryIO:
    """A file without a name; in memory, where the system has such."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("stderr"), "r+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def declared_sizes(data: bytes) -> tuple[int, int]:
    """How many rows a file declares, and how many bytes it unpacks to; an exception if its counts do not fit.

    The numbers are those of the fields in the format's definition, parquet.thrift.
    """
    if not data.startswith(MAGIC) or not data.endswith(MAGIC):
        raise ValueError("no magic number")
    footer = _Thrift(data, len(data) - 8 - int.from_bytes(data[-8:-4], "little")).struct()
    groups = footer[4]
    _check(all(group[1] or group[3] == 0 for group in groups))
    unpacked = walked = 0
    for group in groups:
        for chunk in group[1]:
            size, length = _check_pages(data, chunk[3], rows=group[3])
            unpacked, walked = unpacked + size, walked + length
            _check(walked <= len(data))  # no two columns share their pages
    _check(footer[3] == sum(group[3] for group in groups))
    return footer[3], unpacked


def _check_pages(data: bytes, column: dict[int, Any], rows: int) -> tuple[int, int]:
    """Check the pages of a column: how many bytes they are unpacked (in memory a value takes up to 16), and packed."""
    values, start, dictionary = column[5], column[9], column.get(11) or 0
    _check(0 <= rows <= values)  # there are more values than rows where they are nested in lists
    start = dictionary if 0 < dictionary < start else start
    _check(0 <= column[7] <= len(data) - start)  # polars takes so many bytes from there
    pages = _Thrift(data, start)
    seen = total = 0
    while seen < values:
        header = pages.struct()
        kind, unpacked, packed = header[1], header[2], header[3]
        _check(unpacked >= 0 and packed >= 0)
        total += unpacked
        if kind in (0, 3):  # a page of data, in the first or the second form
            count = header[5 if kind == 0 else 8][1]
            _check(count >= 0)
            seen += count
        elif kind == 2:  # a dictionary, in which each entry takes at least a byte
            _check(0 <= header[7][1] <= unpacked)
        pages.at += packed
    _check(seen == values)
    return max(total, 16 * values), pages.at - start


def _check(holds: bool) -> None:
    if not holds:
        raise ValueError("counts that do not fit together")


class _Thrift:
    """Reads structures in Thrift's compact protocol as {field number: value}; texts and floats are passed over."""

    def __init__(self, data: bytes, at: int) -> None:
        _check(at >= 0)
        self.data, self.at = data, at

    def struct(self) -> dict[int, Any]:
        """The structure that begins here."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._integer()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind)  # a boolean is in its kind
        return fields

    def _value(self, kind: int) -> Any:
        match kind:
            case 1 | 2 | 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._integer()
            case 7:
                self.at += 8
            case 8:
                length = self._natural()
                self.at += length
            case 9 | 10:
                head = self._byte()
                size = head >> 4 if head >> 4 < 15 else self._natural()
                _check(size <= len(self.data) - self.at)
                return [self._value(head & 15) for _ in range(size)]
            case 11:
                size = self._natural()
                _check(size <= len(self.data) - self.at)
                kinds = self._byte() if size else 0
                return [(self._value(kinds >> 4), self._value(kinds & 15)) for _ in range(size)]
            case 12:
                return self.struct()
            case _:
                raise ValueError("unknown kind of field")
        return None

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _natural(self) -> int:
        number = shift = 0
        while (byte := self._byte()) >= 128:
            number |= (byte & 127) << shift
            shift += 7
            _check(shift < 64)
        return number | byte << shift

    def _integer(self) -> int:
        number = self._natural()
        return number >> 1 ^ -(number & 1)
