"""Rows that come one by one: JSON lines, JSON arrays, and mappings or sequences of Python.

Only the columns that may play a role are kept, as texts, block by block of rows.
"""

import json
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import narwhals as nw
import numpy as np
import polars as pl

from timeplex.errors import InputError
from timeplex.files import to_json
from timeplex.kb import dates
from timeplex.kb.dates import Granularity
from timeplex.kb.problems import ROW_LENGTH, Action, Kind, Log
from timeplex.kb.readers.table import (
    MOST_COLUMNS,
    ROLES,
    Columns,
    Layout,
    Table,
    by_header,
    find_layout,
    is_candidate,
    role_columns,
    unused,
)
from timeplex.kb.readers.text import cut, shown_lines

BLOCK = 10_000
"""Rows that are turned into columns together."""


def text_of(value: Any) -> str | None:
    """One value as text. A whole number is written without a point, for one gap makes a column of numbers floats."""
    if value is None or isinstance(value, str):
        return None if value is None else _sound(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | dict):
        return _sound(to_json(value, ensure_ascii=False, default=str))  # no date, and an honest name
    if isinstance(value, datetime):
        value = value.date() if value == value else None  # not so for what pandas calls "not a time"
    if value is None or (isinstance(value, float) and value != value):
        return None
    return _sound(str(value)).removesuffix(".0") if isinstance(value, float) else _sound(str(value))


def _sound(text: str) -> str:
    """A lone surrogate can stand in a Python string but not in UTF-8."""
    return text if text.isascii() else text.encode(errors="replace").decode()


class Collector:
    """Makes a table of rows that come as {column: value}."""

    def __init__(self, source: str, split: str, columns: Columns) -> None:
        self.source, self.split, self.columns = source, split, columns
        self.log = Log(source)
        self.keys: dict[str, bool] = {}  # all columns in the order in which they were met: may it play a role?
        self.lines = array("q")
        self._pending: list[Mapping[str, Any]] = []
        self._parts: dict[str, list[pl.Series]] = {}
        self._bad: dict[Kind, list[tuple[int, str, str]]] = {}

    def add(self, line: int, row: Mapping[str, Any]) -> None:
        """The next row."""
        for key in row:
            if key not in self.keys:
                self._meet(str(key))
        self.lines.append(line)
        self._pending.append(row)
        if len(self._pending) == BLOCK:
            self._flush()

    def _meet(self, key: str) -> None:
        if len(self.keys) == MOST_COLUMNS:
            raise InputError(
                f"{self.source} has more than {MOST_COLUMNS:,} columns.", "Give a table with one fact a row."
            )
        self.keys[key] = is_candidate(key, self.columns)
        if self.keys[key]:
            done = len(self.lines) - len(self._pending)
            self._parts[key] = [pl.Series([None], dtype=pl.String).new_from_index(0, done)] if done else []

    def _flush(self) -> None:
        for key, parts in self._parts.items():
            parts.append(pl.Series([text_of(row.get(key)) for row in self._pending], dtype=pl.String))
        self._pending = []

    def bad(self, line: int, kind: Kind, reason: str, shown: str) -> None:
        """A row that cannot be used."""
        if self.is_full(kind):
            self.log.count(kind, Action.SET_ASIDE, "", 1)
        else:
            self._bad.setdefault(kind, []).append((line, reason, shown[: ROW_LENGTH + 1]))

    def is_full(self, kind: Kind) -> bool:
        """Whether further problems of a kind are counted, not listed."""
        return len(self._bad.get(kind, ())) >= self.log.room(kind)

    @property
    def has_bad(self) -> bool:
        """Whether a row could not be used."""
        return bool(self._bad)

    def bad_width(self, line: int, width: int, wanted: str, shown: str) -> None:
        """A row with the wrong number of fields."""
        self.bad(line, Kind.COLUMN_COUNT, f"the row has {width} columns instead of {wanted}", shown)

    def table(self, raw: Any = None, doubled: tuple[str, ...] = ()) -> Table:
        """The table of all rows; `raw` gives the texts of rows by their positions, where the source has texts."""
        self._flush()
        for kind, found in self._bad.items():
            lines, reasons, shown = zip(*found, strict=True)
            self.log.add(lines, kind, Action.SET_ASIDE, "", reasons, shown)
        if not self.lines:
            return replace(Table.empty(self.source, self.split), log=self.log)
        keys = list(self.keys)
        layout = by_header(keys, self.columns, self.source)
        texts = {at: pl.concat(self._parts.pop(keys[at])) for at in layout.positions}
        rows = role_columns(texts, layout, len(self.lines)).with_columns(line=pl.Series(np.array(self.lines)))
        return Table(self.source, self.split, rows, raw or as_json(rows), self.log, unused(keys, layout), doubled)


def as_json(rows: pl.DataFrame) -> Any:
    """A function that shows rows by their positions as JSON, for sources that have no text of their own."""

    def raw(positions: Sequence[int]) -> list[str]:
        cut = rows[list(positions)].drop("line").select(pl.all().str.head(ROW_LENGTH))
        return [to_json(row, ensure_ascii=False) for row in cut.iter_rows(named=True)]

    return raw


# Python's own


def read_rows(rows: Iterable[Any], *, source: str, split: str, columns: Columns) -> Table:
    """Read mappings {column: value}, or sequences (s, r, o[, begin[, end]]), perhaps after one that is a header.

    What is neither, or a sequence of another length, is a problem. Lines are row numbers from 1.
    """
    collector = Collector(source, split, columns)
    _collect(collector, enumerate(rows, start=1), lambda _, row: _sound(repr(row)[: ROW_LENGTH + 1]))
    return collector.table()


def _collect(collector: Collector, rows: Iterable[tuple[int, Any]], show: Callable[[int, Any], str]) -> None:
    """Add rows that are mappings or sequences, each with its line; `show` gives the text of one."""
    header: Sequence[str] | None = None
    for line, row in rows:
        if isinstance(row, Mapping):
            collector.add(line, row)
            continue
        if not isinstance(row, Sequence) or isinstance(row, str | bytes):
            collector.bad(line, Kind.UNREADABLE_ROW, "the row is neither an object nor a list", show(line, row))
            continue
        if header is None:
            texts = [text_of(value) or "" for value in row]
            _, has_header = find_layout(texts, collector.columns, collector.source)
            header = texts if has_header else ROLES
            if has_header:
                continue
        width = len(row)
        if width != len(header) and not (header is ROLES and 3 <= width <= len(ROLES)):
            collector.bad_width(line, width, "3 to 5" if header is ROLES else str(len(header)), show(line, row))
            continue
        # Of two columns with one name the first counts.
        collector.add(line, dict(reversed(list(zip(header, row, strict=False)))))


# JSON


def read_json_lines(data: bytes, *, source: str, split: str, columns: Columns) -> Table:
    """Read JSON lines: one object a line, its keys are the columns. A line that is no object is a problem."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    collector = Collector(source, split, columns)
    number, counted = 1, 0
    for found in re.finditer(rb"[^\n]+", data):
        number, counted = number + data.count(b"\n", counted, found.start()), found.start()
        line = found[0].strip()
        if not line:
            continue
        if not line.startswith(b"{") and collector.is_full(Kind.UNREADABLE_ROW) and line.isascii():
            collector.bad(number, Kind.UNREADABLE_ROW, "", "")  # no need to find out why: it will not be told
            continue
        try:
            value = json.loads(line.decode())
        except UnicodeDecodeError:
            collector.bad(number, Kind.BAD_ENCODING, "the line is not valid UTF-8 text", cut(line))
        except (ValueError, RecursionError):
            collector.bad(number, Kind.UNREADABLE_ROW, "the line is not JSON", cut(line))
        else:
            if isinstance(value, dict):
                collector.add(number, value)
            else:
                collector.bad(number, Kind.UNREADABLE_ROW, "the line is JSON, but not an object", cut(line))
    if not collector.lines and collector.has_bad:
        raise InputError(f"{source} holds no JSON object.", "Give one JSON object a line.")

    def raw(positions: Sequence[int]) -> list[str]:
        return shown_lines(data, [collector.lines[at] for at in positions])

    return collector.table(raw)


def read_json(data: bytes, *, source: str, split: str, columns: Columns) -> Table:
    """Read a JSON array of objects, or of arrays; it may also be the one such array in an object.

    Lines are the numbers of the elements, from 1.
    """
    try:
        text = data.decode(json.detect_encoding(data))
    except UnicodeDecodeError as error:
        raise InputError(f"{source} is not UTF-8 text.", "Write it again as UTF-8.") from error
    collector, places = Collector(source, split, columns), array("q")
    scanner = _Scanner(text)

    def shown(place: int) -> str:
        return _sound(text[place : min(scanner.decode(text, place)[1], place + ROW_LENGTH + 1)])

    def elements() -> Iterator[tuple[int, Any]]:
        for number, (place, value) in enumerate(scanner.table(source), start=1):
            places.append(place)
            yield number, value

    try:
        _collect(collector, elements(), lambda line, _: shown(places[line - 1]))
    except (ValueError, RecursionError) as error:
        line = text.count("\n", 0, scanner.at) + 1
        raise InputError(f"{source} is not JSON: line {line} cannot be read.", "Give an array of objects.") from error
    if not collector.lines and collector.has_bad:
        raise InputError(f"{source} holds no JSON object.", "Give an array of objects.")
    return collector.table(lambda positions: [shown(places[collector.lines[at] - 1]) for at in positions])


class _Scanner:
    """Walks over a JSON text, one element of the array at a time, so that memory is for one element."""

    BLANKS = re.compile(r"[ \t\n\r]*")

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0
        self.decode = json.JSONDecoder().raw_decode

    def table(self, source: str) -> Iterator[tuple[int, Any]]:
        """The elements of the array that the text is or holds, each with its place."""
        if self._next() == "":
            return
        if self._next() == "[":
            yield from self._array()
        else:
            yield from self._array_in_object(source)
        if self._next():
            raise ValueError("something follows")

    def _array_in_object(self, source: str) -> Iterator[tuple[int, Any]]:
        tables: list[str] = []
        self._take("{")
        while self._next() != "}":
            key = self._value()
            self._take(":")
            if self._next() == "[" and self.BLANKS.sub("", self.text[self.at + 1 : self.at + 100])[:1] in ("{", "["):
                tables.append(str(key))
                if len(tables) > 1:
                    raise InputError(
                        f"{source} holds several arrays: {tables[0]!a}, {tables[1]!a}.",
                        "Give one of them in a file of its own.",
                    )
                yield from self._array()
            else:
                self._value()
            if self._next() != "}":
                self._take(",")
        self._take("}")
        if not tables:
            raise InputError(f"{source} holds no array of objects.", "Give an array with one object a fact.")

    def _array(self) -> Iterator[tuple[int, Any]]:
        self._take("[")
        if self._next() == "]":
            self.at += 1
            return
        while True:
            self._next()
            place = self.at
            yield place, self._value()
            if self._next() == "]":
                self.at += 1
                return
            self._take(",")

    def _next(self) -> str:
        """The next character that is not blank, which is not taken."""
        found = self.BLANKS.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.text[self.at : self.at + 1]

    def _take(self, character: str) -> None:
        if self._next() != character:
            raise ValueError(f"no {character}")
        self.at += 1

    def _value(self) -> Any:
        self._next()
        value, self.at = self.decode(self.text, self.at)
        return value


def read_frame(frame: Any, *, source: str, split: str, columns: Columns) -> Table:
    """Read a DataFrame of any library that narwhals knows. Lines are row numbers from 1."""
    data = known_frame(frame, source)
    if data.is_empty():
        return Table.empty(source, split)
    names = [str(name) for name in data.columns]
    layout = by_header(names, columns, source)
    rows = role_texts(data, layout, source).with_columns(line=pl.int_range(1, len(data) + 1, dtype=pl.Int64))
    return Table(source, split, rows, as_json(rows), Log(source), unused(names, layout))


def known_frame(frame: Any, source: str) -> "nw.DataFrame[Any]":
    """Any DataFrame as narwhals sees it; what is none is an error."""
    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InputError(
            f"{type(frame).__name__} is not a table that can be read.",
            "Give a path, or a DataFrame of pandas, polars or pyarrow.",
        ) from error
    except nw.exceptions.DuplicateError as error:
        raise InputError(f"Two columns of {source} have the same name.", "Rename one.") from error


def role_texts(data: "nw.DataFrame[Any]", layout: Layout, source: str) -> pl.DataFrame:
    """The columns that play a role, by its name, as texts with nulls."""
    return role_columns({at: _texts(data[:, at], source) for at in layout.positions}, layout, len(data))


def _texts(column: Any, source: str) -> pl.Series:
    """A column of any type as texts with nulls; dates and times as ISO days."""
    kind = column.dtype
    if isinstance(kind, nw.Date | nw.Datetime):
        return _days(column)
    if kind.is_nested() or kind.is_temporal() or isinstance(kind, nw.Binary):
        raise InputError(
            f"Column {column.name!r} of {source} holds {kind}, which is neither a name nor a date.",
            "Turn it into text first.",
        )
    native = column.to_native()
    if isinstance(native, pl.Series) and native.dtype == pl.String:
        return native
    # Libraries differ in how they mark what is missing (None, NaN, NaT, NA) and in how they write numbers.
    missing = column.is_null().to_list()
    values = [None if null else text_of(value) for value, null in zip(column.to_list(), missing, strict=True)]
    return pl.Series(values, dtype=pl.String)


def _days(column: Any) -> pl.Series:
    """Dates and times as texts, by our own calendar: that of polars panics at a date far off."""
    if getattr(column.dtype, "time_zone", None):
        column = column.dt.replace_time_zone(None)
    missing = column.is_null().to_list()
    milliseconds = column.dt.timestamp("ms").to_list()
    days = [0 if null else int(value) // 86_400_000 for value, null in zip(milliseconds, missing, strict=True)]
    texts = pl.Series(dates.write(days, Granularity.DAY), dtype=pl.String)
    return texts.zip_with(~pl.Series(missing, dtype=pl.Boolean), pl.Series([None], dtype=pl.String))
