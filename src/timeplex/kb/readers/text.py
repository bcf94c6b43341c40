"""CSV, TSV and HyTE/ICEWS text: any file of lines with a separator.

A clean file is read in one go by polars. That it is clean is proved by counting bytes: valid UTF-8, no
quote, carriage return or NUL, and (columns − 1) × lines separators in all while no line has more than its
share, so none has less.
Otherwise the *plain* lines, which are clean by themselves, are still split by polars, and every other
line is looked at by itself: a quoted record (which may run over several lines), or a problem.
Memory: about eight times the size of the (unpacked) file at the peak.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from timeplex.errors import InputError
from timeplex.kb.problems import Action, Kind, record
from timeplex.kb.readers.columns import Columns, Layout, find_layout
from timeplex.kb.table import ROLES, Table

MOST_LINES = 1000
"""A quoted record over more lines than this is taken for a quote that was never closed."""

BYTE_ORDER_MARK = "\ufeff".encode()

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]


class Lines:
    """The lines of a file as positions in its bytes: line i is data[starts[i]:stops[i]], without its end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)

    @cached_property
    def _bounds(self) -> tuple[Ints, Ints]:
        breaks = np.flatnonzero(self.bytes == ord("\n"))
        if len(self.data) and (len(breaks) == 0 or breaks[-1] != len(self.data) - 1):
            breaks = np.append(breaks, len(self.data))
        starts = np.concatenate([[0], breaks[:-1] + 1]) if len(breaks) else breaks
        if b"\r" in self.data:
            breaks = breaks - ((breaks > starts) & (self.bytes[breaks - 1] == ord("\r")))
        return starts, breaks

    @property
    def starts(self) -> Ints:
        """Where each line begins."""
        return self._bounds[0]

    @property
    def stops(self) -> Ints:
        """Where each line ends, before its line feed and carriage return."""
        return self._bounds[1]

    def __len__(self) -> int:
        return len(self.starts)

    def are_clean(self, start: int, width: int, separator: str, quoting: bool) -> bool:
        """Whether the bytes from `start` on may be lines of `width` plain fields each.

        They are if, besides, no line has more than `width` fields (which polars sees when it splits them).
        """
        data = self.data
        line_feeds = self._total("\n", start) + (not data.endswith(b"\n"))
        separators = self._total(separator, start)
        odd = b"\r" in data or b"\0" in data or (quoting and data.find(b'"', start) >= 0)
        odd = odd or data.startswith(BYTE_ORDER_MARK, start)  # polars would take it from the first field
        return not odd and separators == (width - 1) * line_feeds and (data.isascii() or _decodes(data))

    def _total(self, character: str, start: int) -> int:
        """How often an ASCII character stands from `start` on; in blocks that fit the processor's cache."""
        blocks = range(start, len(self.bytes), 1 << 20)
        return sum(int(np.count_nonzero(self.bytes[at : at + (1 << 20)] == ord(character))) for at in blocks)

    def count(self, character: str) -> Ints:
        """How often an ASCII character stands in each line."""
        where = np.flatnonzero(self.bytes == ord(character))
        return np.searchsorted(where, self.stops) - np.searchsorted(where, self.starts)

    @cached_property
    def broken(self) -> Mask:
        """Which lines are not valid UTF-8 or hold a NUL byte."""
        broken = np.zeros(len(self), bool)
        if not _decodes(self.data):
            above_ascii = np.flatnonzero(self.bytes >= 0x80)
            lines = np.unique(np.searchsorted(self.starts, above_ascii, side="right") - 1)
            broken[[line for line in lines if not _decodes(self.line(line))]] = True
        if b"\0" in self.data:
            broken |= self.count("\0") > 0
        return broken

    def skip(self, number: int) -> int:
        """Where line `number` begins, found without looking at the lines after it."""
        at = 0
        for _ in range(number):
            at = self.data.find(b"\n", at) + 1 or len(self.data)
        return at

    def line(self, number: int) -> bytes:
        """The bytes of a line."""
        return self.data[self.starts[number] : self.stops[number]]

    def text(self, first: int, last: int | None = None) -> str:
        """The text from line `first` to line `last`, inclusive; bytes that are no text are shown as \\x.."""
        stop = self.stops[first if last is None else last]
        return self.data[self.starts[first] : stop].decode(errors="backslashreplace")

    def only(self, chosen: Mask) -> bytes:
        """The chosen lines, joined by line feeds."""
        starts, stops = self.starts[chosen], self.stops[chosen]
        if (starts[1:] == stops[:-1] + 1).all():  # one run without carriage returns: no need to copy byte by byte
            return self.data[starts[0] : stops[-1]]
        change = np.zeros(len(self.data) + 2, np.int8)
        np.add.at(change, starts, 1)
        np.add.at(change, stops + 1, -1)
        picked = np.append(self.bytes, np.uint8(ord("\n")))[np.cumsum(change[:-1], dtype=np.int8) > 0]
        picked[np.cumsum(stops - starts + 1) - 1] = ord("\n")  # in place of a carriage return
        return picked.tobytes()


def as_utf8(data: bytes, encoding: str | None, source: str) -> bytes:
    """The bytes of a text as UTF-8, whatever they were, without a byte order mark."""
    if encoding is None and data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"  # what spreadsheets call "Unicode text"
    if encoding is not None:
        try:
            return data.decode(encoding).removeprefix("\ufeff").encode()
        except UnicodeError as error:
            raise InputError(f"{source} is not text in {encoding}.", "Give its real --encoding.") from error
        except (LookupError, ValueError) as error:
            raise InputError(f"{encoding!r} is not an encoding.", "Try utf-8, cp1252 or utf-16.") from error
    return data.removeprefix(BYTE_ORDER_MARK)


def _decodes(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True)
class Record:
    """A row that was looked at by itself: its lines and its fields, or what is wrong with it."""

    first: int
    last: int
    fields: list[str]
    problem: tuple[Kind, str] | None = None


class RecordReader:
    """Reads the hard lines one record at a time."""

    def __init__(self, lines: Lines, separator: str, quoting: bool) -> None:
        self.lines, self.separator, self.quoting = lines, separator, quoting
        self.quotes = lines.count('"') if quoting and b'"' in lines.data else np.zeros(len(lines), np.int64)

    def read(self, first: int, width: int | None) -> Record:
        """The record that begins at a line; `width` is the number of fields it must have, if known."""
        if self.lines.broken[first]:
            reason = "the line is not valid UTF-8 text; if it is in another encoding, say --encoding"
            return Record(first, first, [], (Kind.BAD_ENCODING, reason))
        text = self.lines.text(first)
        fields = self._split(text)
        if fields is None:
            longer = self._over_lines(first, width)
            if longer is not None:
                return longer
            fields = text.split(self.separator)  # a quote that is not CSV's: take it as it stands
        if width is not None and len(fields) != width:
            open_quote = self.quoting and self.quotes[first] % 2 == 1
            reason = f"the row has {len(fields)} columns instead of {width}"
            reason += "; it has a quote that is never closed" if open_quote else ""
            return Record(first, first, [], (Kind.COLUMN_COUNT, reason))
        return Record(first, first, fields)

    def _over_lines(self, first: int, width: int | None) -> Record | None:
        """A quoted record that runs over several lines, if the lines from `first` on make one."""
        if self.quotes[first] % 2 == 0:
            return None
        until = np.cumsum(self.quotes[first : first + MOST_LINES]) % 2 == 0
        if not until.any():
            return None
        last = first + int(np.argmax(until))
        if self.lines.broken[first : last + 1].any():
            return None
        fields = self._split(self.lines.text(first, last))
        if fields is None or (width is not None and len(fields) != width):
            return None
        return Record(first, last, fields)

    def _split(self, text: str) -> list[str] | None:
        """The fields of a record, or None if its quotes are not those of CSV."""
        if not self.quoting or '"' not in text:
            return text.split(self.separator)
        try:
            rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=self.separator, strict=True))
        except csv.Error:
            return None
        return rows[0] if len(rows) == 1 else None


def read_text(
    data: bytes,
    *,
    source: str,
    split: str,
    columns: Columns,
    separator: str,
    quoting: bool,
    others: str = "",
    encoding: str | None = None,
) -> Table:
    """Read the bytes of a text file; see the module's docstring for how.

    If the first line has no `separator` but one of the `others`, as spreadsheets in many countries write it, that one
    separates.
    """
    lines = Lines(as_utf8(data, encoding, source))
    separator = separating(lines.data, separator, others)
    beginning = _head(lines, separator, quoting, source)
    if beginning is None:
        return Table.empty(source, split)
    head, first = beginning
    layout, has_header = find_layout(head, columns, source)
    start = first if has_header else 0
    names = [f"{position}" for position in range(len(head))]
    frame = None
    if lines.are_clean(lines.skip(start), len(names), separator, quoting):
        frame = _split(lines.data, names, separator, skip=start)
    if frame is not None:
        first_lines = last_lines = np.arange(start, start + frame.height)
        problems: list[pl.DataFrame] = []
    else:
        frame, first_lines, last_lines, problems = _split_carefully(lines, start, names, separator, quoting, source)
    rows = frame.select(_roles(layout, names)).with_columns(line=pl.Series(first_lines + 1))

    def raw(positions: Sequence[int]) -> list[str]:
        return [lines.text(int(first_lines[at]), int(last_lines[at])) for at in positions]

    return Table(source, split, rows, raw, problems)


def separating(data: bytes, separator: str, others: str) -> str:
    """The separator, or the first of the others that stands in the first line, if the separator does not."""
    first_line = data[: 1 << 16].lstrip(b"\r\n").split(b"\n", 1)[0]
    if separator.encode() in first_line:
        return separator
    return next((other for other in others if other.encode() in first_line), separator)


def _head(lines: Lines, separator: str, quoting: bool, source: str) -> tuple[list[str], int] | None:
    """The fields of the first row that is not blank, and the number of lines up to its end; None without rows."""
    if b"\0" in lines.data[:4096]:
        raise InputError(f"{source} is not a table of text.", "Give CSV, TSV, JSON lines, Parquet or HyTE text.")
    beginning = Lines(lines.data[: lines.data.find(b"\n", 1 << 16) + 1] or lines.data)
    for part in (beginning, lines):
        filled = np.flatnonzero(part.stops > part.starts)
        if len(filled):
            records = RecordReader(part, separator, quoting)
            if part is beginning and records.quotes[filled[0]] % 2:
                continue  # a record over several lines may end far down in the file
            head = records.read(int(filled[0]), None)
            if head.problem is not None:
                raise InputError(f"The first line of {source} is not UTF-8 text.", "Say its --encoding.")
            return head.fields, head.last + 1
    return None


def _roles(layout: Layout, names: list[str]) -> list[pl.Expr]:
    positions = (layout.subject, layout.relation, layout.object, layout.begin, layout.end)
    chosen = [pl.col(names[at]).alias(role) for role, at in zip(ROLES, positions, strict=True) if at is not None]
    if layout.constant_relation is not None:
        chosen.append(pl.lit(layout.constant_relation).alias("relation"))
    return chosen


def _split(data: bytes, names: list[str], separator: str, skip: int = 0) -> pl.DataFrame | None:
    """Split plain lines into fields, after `skip` lines; None if a line has more fields than names."""
    if data.startswith(b"x"):  # polars would try to unpack what begins like zlib, such as "x^"
        data, skip = b"\n" + data, skip + 1
    elif data.startswith(BYTE_ORDER_MARK):  # polars drops one
        data = BYTE_ORDER_MARK + data
    try:
        return pl.read_csv(
            data,
            has_header=False,
            skip_lines=skip,
            separator=separator,
            quote_char=None,
            schema=dict.fromkeys(names, pl.String),
            empty_string_is_null=False,
        )
    except (pl.exceptions.ComputeError, pl.exceptions.SchemaError):
        return None


def _split_carefully(
    lines: Lines, start: int, names: list[str], separator: str, quoting: bool, source: str
) -> tuple[pl.DataFrame, Ints, Ints, list[pl.DataFrame]]:
    """Plain lines all at once, the others one by one.

    Returns the fields, the first and the last line of each row, and the problems.
    """
    records = RecordReader(lines, separator, quoting)
    filled = lines.stops > lines.starts
    filled[:start] = False
    plain = filled & (lines.count(separator) == len(names) - 1) & ~lines.broken & (records.quotes == 0)
    if lines.data.count(b"\r") > lines.data.count(b"\r\n"):  # polars drops one from the end of a field
        plain &= lines.count("\r") == 0
    hard = _hard_records(records, np.flatnonzero(filled & ~plain), plain, len(names))
    split = _split(lines.only(plain), names, separator) if plain.any() else None
    good = [each for each in hard if each.problem is None]
    schema = dict.fromkeys(names, pl.String)
    frame = pl.concat(
        [
            pl.DataFrame(schema=schema) if split is None else split,
            pl.DataFrame([each.fields for each in good], schema=schema, orient="row"),
        ]
    )
    first = np.append(np.flatnonzero(plain), [each.first for each in good]).astype(np.int64)
    last = np.append(np.flatnonzero(plain), [each.last for each in good]).astype(np.int64)
    order = np.argsort(first, kind="stable")
    return frame[order], first[order], last[order], _bad_records(lines, hard, source)


def _hard_records(records: RecordReader, hard: Ints, plain: Mask, width: int) -> list[Record]:
    """Read the hard lines in order; a record over several lines takes them (plain ones too) with it."""
    found: list[Record] = []
    done = -1
    for line in hard.tolist():
        if line <= done:
            continue
        found.append(records.read(line, width))
        done = found[-1].last
        plain[line : done + 1] = False
    return found


def _bad_records(lines: Lines, hard: list[Record], source: str) -> list[pl.DataFrame]:
    frames = []
    for kind in (Kind.BAD_ENCODING, Kind.COLUMN_COUNT):
        bad = [each for each in hard if each.problem is not None and each.problem[0] is kind]
        if bad:
            numbers = [each.first + 1 for each in bad]
            reasons = [each.problem[1] for each in bad if each.problem is not None]
            texts = [lines.text(each.first) for each in bad]
            frames.append(record(source, numbers, kind, Action.SET_ASIDE, "", reasons, texts))
    return frames
