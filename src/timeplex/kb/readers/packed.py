"""How files are opened, and those that are packed in themselves: gzip, Parquet, spreadsheets. None of them is trusted.

What a packed file unpacks to is not told by its own size: two megabytes may hold two gigabytes of nothing. So there
is a limit, `max_unpacked`: fifty times what is packed (ordinary tables pack to a fifth or a tenth), 64 MB for small
files.

Polars trusts the counts that stand in a Parquet file and reserves the memory they ask for. One flipped bit can make a
count negative or huge, and a request that cannot be met ends the whole process, which no `except` can prevent. So the
counts in the footer are checked against those in the header of each page before polars sees the file: a walk over a few
small structures, not over the data.

Calamine trusts spreadsheets, which are zip files of XML: it unpacks whatever is packed, and makes room for every cell
up to the outermost one. So the parts are unpacked here, up to the limit, the outermost cell is looked for, and calamine
is given a zip file that holds just these parts.
"""

import gzip
import io
import os
import re
import sys
import tempfile
import threading
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import time, timedelta
from pathlib import Path
from typing import IO, Any, BinaryIO
from xml.parsers import expat

import polars as pl

from timeplex.errors import InputError
from timeplex.files import open_regular
from timeplex.kb.readers.rows import Collector, read_frame, text_of
from timeplex.kb.readers.table import ROLES, Columns, Table, doubled, find_layout

FREE, RATIO = 64_000_000, 50
"""Bytes that anything packed may unpack to, and how many times its own size if that is more."""

STREAM = 4_000_000_000
"""The most bytes that are read from standard input, unless `max_unpacked` says otherwise."""

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


@contextmanager
def _decoding(problem: str, hint: str) -> Iterator[None]:
    """Turns whatever a decoder raises over a damaged file, also a panic, which is no `Exception`, into a sentence."""
    try:
        yield
    except (InputError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError):
        raise
    except BaseException as error:
        raise InputError(problem, hint) from error


def _up_to(stream: IO[bytes] | gzip.GzipFile, limit: int, source: str) -> bytes:
    """All that a stream has, if it is not more than the limit."""
    collected = io.BytesIO()
    while chunk := stream.read(CHUNK):
        if collected.tell() + len(chunk) > limit:
            raise too_large(source, limit)
        collected.write(chunk)
    return collected.getvalue()


# Parquet --------------------------------------------------------------------------------------------------------------


MAGIC = b"PAR1"


def read_parquet(data: bytes, *, source: str, split: str, columns: Columns, limit: int) -> Table:
    """Read the bytes of a Parquet file, which may unpack to `limit` bytes."""
    return read_frame(parquet_frame(data, source, limit), source=source, split=split, columns=columns)


def parquet_frame(data: bytes, source: str, limit: int | None = None) -> pl.DataFrame:
    """All columns of a Parquet file, given as bytes."""
    with _decoding(f"{source} is not a readable Parquet file.", "It may be damaged: write it again."):
        _, unpacked = declared_sizes(data)
        if limit is not None and unpacked > limit:
            raise too_large(source, limit)
        with quiet_stderr():
            return pl.read_parquet(io.BytesIO(data), memory_map=False)


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


# Spreadsheets, .xlsx and .ods -----------------------------------------------------------------------------------------


MOST_PARTS = 10_000

FREE_CELLS = 4_000_000
"""The most cells that a sheet may span, unless its file has more bytes."""

DAMAGED = "It may be damaged: save it again, or as CSV."


def read_sheet(
    data: bytes, *, source: str, split: str, columns: Columns, limit: int, sheet: str | None = None
) -> Table:
    """Read one sheet: that of a name, or the first that has rows. Lines are the rows of the sheet, from 1.

    Empty rows are passed over, and titles of one cell above the table, too.
    """
    rows = _without_titles(list(sheet_rows(data, source, limit, sheet)))
    collector = Collector(source, split, columns)
    if not rows:
        return collector.table()
    first = _trimmed(rows[0][1])
    _, has_header = find_layout(first, columns, source)
    names = [*first, *("" for _ in rows[0][1][len(first) :])] if has_header else list(ROLES)
    for number, cells in rows[has_header:]:
        if not has_header and not 3 <= len(_trimmed(cells)) <= len(ROLES):
            collector.bad_width(number, len(_trimmed(cells)), "3 to 5", "\t".join(_trimmed(cells)))
        else:
            # Of two columns with one name the first counts; without a header, what the first row has not no row has.
            used = names if has_header else names[: max(len(first), len(_trimmed(cells)))]
            collector.add(number, dict(reversed(list(zip(used, cells, strict=False)))))
    return collector.table(doubled=doubled(first) if has_header else ())


def _trimmed(cells: Sequence[str]) -> list[str]:
    """Cells without the empty ones at the end."""
    filled = [at for at, text in enumerate(cells) if text.strip()]
    return list(cells[: filled[-1] + 1]) if filled else []


def _without_titles(rows: list[tuple[int, list[str]]]) -> list[tuple[int, list[str]]]:
    """Rows from the first on that has three cells or more, if those above it have just one."""
    for at, (_, cells) in enumerate(rows):
        filled = sum(bool(text.strip()) for text in cells)
        if filled != 1:
            return rows[at:] if filled >= 3 else rows
    return rows


def sheet_rows(data: bytes, source: str, limit: int, sheet: str | None = None) -> Iterator[tuple[int, list[str]]]:
    """Number and texts of each row of a sheet that is not empty."""
    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise InputError(f"{source} is locked by a password, or of an old Excel.", "Save it as .xlsx without one.")
    parts = _parts(data, source, limit)
    for name, content in parts.items():
        _check_extent(name, content, source)
    with _decoding(f"{source} is not a readable spreadsheet.", DAMAGED):
        yield from _rows(parts, source, sheet)


def _parts(data: bytes, source: str, limit: int) -> dict[str, bytes]:
    """The parts that describe cells, unpacked: not more than `limit` bytes."""
    parts: dict[str, bytes] = {}
    with (
        _decoding(f"{source} is not a readable spreadsheet.", DAMAGED),
        zipfile.ZipFile(io.BytesIO(data)) as archive,
    ):
        infos = archive.infolist()
        if len(infos) > MOST_PARTS or sum(info.file_size for info in infos) > limit:
            raise too_large(source, limit)
        for info in infos:
            if not info.filename.lower().endswith((".xml", ".rels", "mimetype")):
                continue
            with archive.open(info) as part:
                left = limit - sum(map(len, parts.values()))
                parts[info.filename] = part.read(left + 1)
                if len(parts[info.filename]) > left:
                    raise too_large(source, limit)
    return parts


def _rows(parts: dict[str, bytes], source: str, sheet: str | None) -> Iterator[tuple[int, list[str]]]:
    from python_calamine import CalamineWorkbook

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    packed.seek(0)
    book = CalamineWorkbook.from_filelike(packed)
    names = book.sheet_names
    if sheet is not None and sheet not in names:
        listed = ", ".join(ascii(name) if not name.isprintable() else name for name in names[:20])
        raise InputError(f"{source} has no sheet {sheet!r}.", f"Its sheets are: {listed}.")
    for name in names if sheet is None else [sheet]:
        found = book.get_sheet_by_name(name)
        filled = False
        for number, cells in enumerate(found.to_python(skip_empty_area=False), start=1):
            texts = [str(cell) if isinstance(cell, time | timedelta) else text_of(cell) or "" for cell in cells]
            if any(text.strip() for text in texts):
                filled = True
                yield number, texts
        if filled:
            return


# How far the cells reach


def _check_extent(name: str, content: bytes, source: str) -> None:
    """Refuse a sheet whose outermost cell is so far out that making room for all others is out of the question."""
    extent = _Extent()
    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = extent.start, extent.end
    parser.StartDoctypeDeclHandler = _no_doctype
    try:
        parser.Parse(content, True)
    except (expat.ExpatError, ValueError, LookupError) as error:
        if name.endswith((".xml", ".rels")):
            raise InputError(f"{source} is not a readable spreadsheet.", DAMAGED) from error
    if extent.rows * extent.columns > max(FREE_CELLS, len(content)):
        raise InputError(
            f"{source} has a sheet that spans {extent.rows:,} rows and {extent.columns:,} columns, nearly all empty.",
            "Delete what stands far from the table, or save it as CSV.",
        )


def _no_doctype(*_: Any) -> None:
    raise ValueError("a document type may define anything")


class _Extent:
    """Follows the elements of a sheet: up to which row and column are there cells?"""

    REFERENCE = re.compile(r"([A-Za-z]{0,9})(\d{1,18})")

    def __init__(self) -> None:
        self.rows = self.columns = 0
        self._row = self._column = 0  # where the next ones are
        self._height = self._width = 1  # how often the row or cell of .ods is repeated
        self._filled = 0  # up to which column the row of .ods has content
        self._in_cell = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        match name.rpartition(":")[2]:
            case "row":
                self._row, self._column = self._place(attributes.get("r", ""), self._row + 1)[0], 0
                self.rows = max(self.rows, self._row)
            case "c":
                row, column = self._place(attributes.get("r", ""), self._row, self._column + 1)
                self._row, self._column = max(self._row, row), column
                self.rows, self.columns = max(self.rows, row), max(self.columns, column)
            case "table-row":
                self._height, self._column, self._filled = self._times(attributes, "rows"), 0, 0
            case "table-cell" | "covered-table-cell":
                self._width, self._in_cell = self._times(attributes, "columns"), True
                self._column += self._width
                if any(key.startswith("office:") or key.startswith("calcext:") for key in attributes):
                    self._filled = self._column
            case "table":
                self._row = 0
            case _:
                if self._in_cell:
                    self._filled = self._column

    def end(self, name: str) -> None:
        match name.rpartition(":")[2]:
            case "table-row":
                self._row += self._height
                if self._filled:
                    self.rows, self.columns = max(self.rows, self._row), max(self.columns, self._filled)
            case "table-cell" | "covered-table-cell":
                self._in_cell = False

    def _place(self, reference: str, row: int, column: int = 0) -> tuple[int, int]:
        """Row and column of a reference such as `B12` (or `12`); what it does not say is as given."""
        found = self.REFERENCE.fullmatch(reference)
        if found is None:
            return row, column
        letters = 0
        for letter in found[1].upper():
            letters = 26 * letters + ord(letter) - 64
        return int(found[2]), letters or column

    def _times(self, attributes: dict[str, str], what: str) -> int:
        text = attributes.get(f"table:number-{what}-repeated", "1")
        return int(text[:18]) if text.isdecimal() else 1
