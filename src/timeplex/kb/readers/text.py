"""CSV, TSV and HyTE/ICEWS text: any file of lines with a separator.

A clean file is read in one go by polars. That it is clean is proved by counting bytes: valid UTF-8, no
quote, carriage return or NUL, and (columns − 1) × lines separators in all while no line has more than its
share, so none has less.
Otherwise the file is read in blocks of lines. The *plain* lines of a block, which are clean by themselves, are still
split by polars; a line without quotes that has the wrong number of fields is a problem; the others are looked at by
themselves: a quoted record (which may run over several lines), or a problem.
Memory: see docs/data.md.
"""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from timeplex.errors import InputError
from timeplex.kb.problems import ROW_LENGTH, Action, Kind, Log
from timeplex.kb.readers.table import Columns, Layout, Table, doubled, find_layout, unused
from timeplex.typing import Bools, Ints

MOST_LINES = 1000
"""A quoted record over more lines than this is taken for a quote that was never closed."""

BLOCK = 1 << 20
"""Bytes of lines that are looked at together, at least."""

csv.field_size_limit(2**31 - 1)  # a field of 131,072 characters is long, but it is one

BYTE_ORDER_MARK = "\ufeff".encode()


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
    def broken(self) -> Bools:
        """Which lines are not valid UTF-8 or hold a NUL byte."""
        broken = np.zeros(len(self), bool)
        if not _decodes(self.data):
            text, line, at = self.data.decode(errors="surrogateescape"), 0, 0
            for found in re.finditer("[\udc80-\udcff][^\n]*", text):  # what bytes become that are no text
                line, at = line + text.count("\n", at, found.start()), found.start()
                broken[line] = True
        if b"\0" in self.data:
            broken |= self.count("\0") > 0
        return broken

    def text(self, first: int, last: int | None = None) -> str:
        """The text from line `first` to line `last`, inclusive; bytes that are no text are shown as \\x.."""
        stop = self.stops[first if last is None else last]
        return self.data[self.starts[first] : stop].decode(errors="backslashreplace")

    def only(self, chosen: Bools) -> bytes:
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


def cut(line: bytes) -> str:
    """The beginning of a line, as far as a problem shows it."""
    return line[: 4 * (ROW_LENGTH + 1)].decode(errors="backslashreplace")


def as_utf8(data: bytes, encoding: str | None, source: str) -> bytes:
    """The bytes of a text as UTF-8, whatever they were, without a byte order mark."""
    if encoding is None and data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        encoding = "utf-16"  # what spreadsheets call "Unicode text"
    if encoding is not None:
        try:
            return data.decode(encoding).removeprefix("\ufeff").encode()
        except UnicodeError as error:
            raise InputError(
                f"{source} is not text in {encoding}.", "Give its real encoding=.", "Give its real --encoding."
            ) from error
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


NOT_UTF8 = "the line is not valid UTF-8 text; if it is in another encoding, say which"


class RecordReader:
    """Reads the hard lines of a block one record at a time."""

    def __init__(self, lines: Lines, separator: str, quoting: bool) -> None:
        self.lines, self.separator, self.quoting = lines, separator, quoting
        self.quotes = lines.count('"') if quoting and b'"' in lines.data else np.zeros(len(lines), np.int64)
        self.odd = np.flatnonzero(self.quotes % 2)

    def closing(self, first: int) -> int | None:
        """The next line with an odd number of quotes: where what is opened in line `first` is closed."""
        at = int(np.searchsorted(self.odd, first, side="right"))
        last = int(self.odd[at]) if at < len(self.odd) else None
        return last if last is not None and last - first < MOST_LINES else None

    def is_open(self, line: int) -> bool:
        """Whether a quote is opened in a line and may be closed after the last one."""
        return self.quotes[line] % 2 == 1 and self.closing(line) is None and len(self.lines) - line < MOST_LINES

    def read(self, first: int, width: int | None) -> Record:
        """The record that begins at a line; `width` is the number of fields it must have, if known."""
        if self.lines.broken[first]:
            return Record(first, first, [], (Kind.BAD_ENCODING, NOT_UTF8))
        text = self.lines.text(first)
        fields = self._split(text)
        if fields is None:
            longer = self._over_lines(first, width)
            if longer is not None:
                return longer
            fields = text.split(self.separator)  # a quote that is not CSV's: take it as it stands
        if width is not None and len(fields) != width:
            return Record(first, first, [], (Kind.COLUMN_COUNT, self.reason(first, len(fields), width)))
        return Record(first, first, fields)

    def reason(self, line: int, found: int, width: int) -> str:
        """Why a line is not a row of `width` fields."""
        open_quote = self.quoting and self.quotes[line] % 2 == 1
        reason = f"the row has {found} columns instead of {width}"
        return reason + ("; it has a quote that is never closed" if open_quote else "")

    def _over_lines(self, first: int, width: int | None) -> Record | None:
        """A quoted record that runs over several lines, if the lines from `first` on make one."""
        last = self.closing(first) if self.quotes[first] % 2 else None
        if last is None or self.lines.broken[first : last + 1].any():
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
    plain = as_utf8(data, encoding, source)
    if b"\r" in plain and b"\n" not in plain:  # line ends of the old Macintosh, which some spreadsheets still write
        plain = plain.replace(b"\r", b"\n")
    separator = separating(plain, separator, others)
    head, *after = _head(plain, separator, quoting, source)
    if not head:
        return Table.empty(source, split)
    layout, has_header = find_layout(head, columns, source)
    start, place = after if has_header else (0, 0)
    names = [f"{position}" for position in range(len(head))]
    frame, log = None, Log(source)
    if Lines(plain).are_clean(place, len(names), separator, quoting):
        frame = _split(plain, names, separator, skip=start)
    if frame is not None:
        rows = frame.select(_roles(layout, names)).with_columns(
            line=pl.int_range(start + 1, start + 1 + frame.height), more=pl.lit(0, pl.UInt16)
        )
    else:
        rows = _Blocks(plain, names, separator, quoting, layout, log).read(start, place)
    told = (unused(head, layout), doubled(head)) if has_header else ((), ())

    def raw(positions: Sequence[int]) -> list[str]:
        chosen = rows[list(positions), ["line", "more"]]
        return shown_lines(plain, chosen["line"].to_list(), chosen["more"].to_list())

    return Table(source, split, rows.drop("more"), raw, log, *told)


def shown_lines(data: bytes, lines: Sequence[int], more: Sequence[int] | None = None) -> list[str]:
    """The text of rows as far as a problem shows it: numbers of lines from 1, ascending, and how many more it takes."""
    texts, place, line = [], 0, 1
    for number, further in zip(lines, more or [0] * len(lines), strict=True):
        place, line = _skip(data, place, number - line), number
        last = data.find(b"\n", _skip(data, place, further))
        text = data[place : len(data) if last < 0 else last].removesuffix(b"\r")
        texts.append(cut(text))
    return texts


def _skip(data: bytes, place: int, lines: int) -> int:
    """The place so many lines further."""
    step = 4096
    while lines > 64 and (breaks := data.count(b"\n", place, place + step)) < lines and place < len(data):
        place, lines = min(place + step, len(data)), lines - breaks
    for _ in range(lines):
        place = data.find(b"\n", place) + 1 or len(data)
    return place


def separating(data: bytes, separator: str, others: str) -> str:
    """The separator, or the first of the others that stands in the first line, if the separator does not."""
    first_line = data[: 1 << 16].lstrip(b"\r\n").split(b"\n", 1)[0]
    if separator.encode() in first_line:
        return separator
    return next((other for other in others if other.encode() in first_line), separator)


def _head(data: bytes, separator: str, quoting: bool, source: str) -> tuple[list[str], int, int]:
    """The fields of the first row that is not blank, and where it ends: a number of lines, and a place."""
    if b"\0" in data[:4096]:
        raise InputError(f"{source} is not a table of text.", "Give CSV, TSV, JSON, Parquet, Excel or HyTE text.")
    at, line, size = 0, 0, 1 << 16
    while at < len(data):
        stop = data.find(b"\n", at + size) + 1 or len(data)
        part = Lines(data[at:stop])
        filled = np.flatnonzero(part.stops > part.starts)
        if len(filled) == 0:
            at, line = stop, line + len(part)
            continue
        records, first = RecordReader(part, separator, quoting), int(filled[0])
        if records.is_open(first) and stop < len(data):
            size *= 4  # a record over several lines may end far down in the file
            continue
        head = records.read(first, None)
        if head.problem is not None:
            problem = f"The first line of {source} is not UTF-8 text."
            raise InputError(problem, "Give its encoding=.", "Give its --encoding.")
        after = int(part.starts[head.last + 1]) if head.last + 1 < len(part) else len(part.data)
        return head.fields, line + head.last + 1, at + after
    return [], 0, 0


def _roles(layout: Layout, names: list[str]) -> list[pl.Expr]:
    chosen = [pl.col(names[at]).alias(role) for role, at in layout.by_role.items()]
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


class _Blocks:
    """Reads a file that is not clean, block by block of lines: memory for one block and for the columns with a role."""

    def __init__(self, data: bytes, names: list[str], separator: str, quoting: bool, layout: Layout, log: Log) -> None:
        self.data, self.names, self.separator, self.quoting = data, names, separator, quoting
        self.used, self.roles, self.log = [names[at] for at in layout.positions], _roles(layout, names), log

    def read(self, line: int, place: int) -> pl.DataFrame:
        """All rows after a number of lines: the roles, line (from 1), and how many more lines each row takes."""
        nothing = (
            pl.DataFrame(schema=dict.fromkeys(self.used, pl.String))
            .select(self.roles)
            .with_columns(line=pl.lit(0, pl.Int64), more=pl.lit(0, pl.UInt16))
        )
        return pl.concat([nothing.clear(), *self._frames(line, place)])

    def _frames(self, line: int, at: int) -> Iterator[pl.DataFrame]:
        size = BLOCK
        while at < len(self.data):
            stop = self.data.find(b"\n", at + size - 1) + 1 or len(self.data)
            block = _Block(Lines(self.data[at:stop]), self.separator, self.quoting, len(self.names))
            block.look(is_last=stop == len(self.data))
            if block.used == 0:  # a record that is longer than the block
                size *= 2
                continue
            self._tell(block, line)
            yield self._rows(block, line)
            at += block.size
            line, size = line + block.used, BLOCK

    def _rows(self, block: "_Block", line: int) -> pl.DataFrame:
        """The rows of a block that begins after `line` lines."""
        plain, good = np.flatnonzero(block.plain), block.good
        split = _split(block.lines.only(block.plain), self.names, self.separator) if len(plain) else None
        columns = {name: [each.fields[int(name)] for each in good] for name in self.used}
        records = pl.DataFrame(columns, schema=dict.fromkeys(self.used, pl.String))
        frame = records if split is None else pl.concat([split.select(self.used), records])
        frame = frame.select(self.roles)
        first = np.append(plain, [each.first for each in good]).astype(np.int64)
        more = np.append(np.zeros(len(plain)), [each.last - each.first for each in good]).astype(np.uint16)
        order = np.argsort(first, kind="stable")
        return frame[order].with_columns(line=pl.Series(first[order] + line + 1), more=pl.Series(more[order]))

    def _tell(self, block: "_Block", line: int) -> None:
        """Put the lines that are no rows into the log."""
        for kind, wrong in ((Kind.BAD_ENCODING, block.broken), (Kind.COLUMN_COUNT, block.wrong)):
            which = np.flatnonzero(wrong)
            told = which[: self.log.room(kind)].tolist()
            if told:
                numbers, lines = [at + line + 1 for at in told], block.lines
                texts = [cut(lines.data[lines.starts[at] : lines.stops[at]]) for at in told]
                self.log.add(numbers, kind, Action.SET_ASIDE, "", [block.reason(at) for at in told], texts)
            self.log.count(kind, Action.SET_ASIDE, "", len(which) - len(told))


class _Block:
    """Some lines, and what each of them is: `plain`, `broken`, of the `wrong` number of fields, or part of `good`."""

    def __init__(self, lines: Lines, separator: str, quoting: bool, width: int) -> None:
        self.lines, self.separator, self.width = lines, separator, width
        self.records = RecordReader(lines, separator, quoting)
        self.separators = lines.count(separator)
        self.good: list[Record] = []
        self.used = len(lines)

    @property
    def size(self) -> int:
        """How many bytes the lines that were used take."""
        return int(self.lines.starts[self.used]) if self.used < len(self.lines) else len(self.lines.data)

    def look(self, is_last: bool) -> None:
        """Decide about each line, up to one of which the next block must be known."""
        lines, fits = self.lines, self.separators == self.width - 1
        filled, quoted = lines.stops > lines.starts, self.records.quotes > 0
        self.broken = filled & lines.broken
        self.plain = filled & fits & ~self.broken & ~quoted
        if lines.data.count(b"\r") > lines.data.count(b"\r\n"):  # polars drops one from the end of a field
            self.plain &= lines.count("\r") == 0
        self.wrong = filled & ~self.broken & ~self.plain
        by_itself = self.wrong & (quoted | fits)
        by_itself[self._hopeless(np.flatnonzero(by_itself), is_last)] = False
        alone = np.flatnonzero(by_itself)
        if not self._all_at_once(alone):
            self._one_by_one(alone, is_last)
        self.wrong[[each.first for each in self.good]] = False
        for each in self.good:
            if each.last > each.first:
                for kind in (self.plain, self.broken, self.wrong):
                    kind[each.first : each.last + 1] = False
        for kind in (self.plain, self.broken, self.wrong):
            kind[self.used :] = False

    def _hopeless(self, which: Ints, is_last: bool) -> Ints:
        """The lines with too few separators for a row, also together with those up to where their quote is closed."""
        odd = self.records.odd
        closing = np.append(odd, len(self.lines))[np.searchsorted(odd, which, side="right")]
        unknown = (closing == len(self.lines)) & (len(self.lines) - which < MOST_LINES) & (not is_last)
        single = (self.records.quotes[which] % 2 == 0) | (closing == len(self.lines))
        last = np.where(single, which, closing)
        before = np.append(0, np.cumsum(self.separators))
        few = before[last + 1] - before[which] < self.width - 1
        hopeless: Ints = which[few & ~(unknown & (self.records.quotes[which] % 2 == 1))]
        return hopeless

    def _all_at_once(self, which: Ints) -> bool:
        """Read lines that are a quoted record each; False if it cannot be done together."""
        quoted = which[self.records.quotes[which] > 0]
        if len(self.records.odd) or len(quoted) < len(which):
            return False
        reader = csv.reader(map(self.lines.text, which.tolist()), delimiter=self.separator, strict=True)
        try:
            rows = list(reader)
        except csv.Error:
            return False
        if len(rows) != len(which):  # one took the line after it, too
            return False
        found = zip(which.tolist(), rows, strict=True)
        self.good = [Record(at, at, row) for at, row in found if len(row) == self.width]
        return True

    def _one_by_one(self, which: Ints, is_last: bool) -> None:
        """Read lines in order; a record over several lines takes them (plain ones too) with it."""
        done = -1
        for line in which.tolist():
            if line <= done:
                continue
            if not is_last and self.records.is_open(line):
                self.used = line
                return
            record = self.records.read(line, self.width)
            done = record.last
            if record.problem is None:
                self.good.append(record)

    def reason(self, line: int) -> str:
        """What is wrong with a line."""
        if self.broken[line]:
            return NOT_UTF8
        if self.records.quotes[line]:
            problem = self.records.read(line, self.width).problem
            return "" if problem is None else problem[1]
        return self.records.reason(line, int(self.separators[line]) + 1, self.width)
