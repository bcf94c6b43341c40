"""A file as one table with every row and every column as it stands, for those who want it back with columns added.

Readers of facts set odd rows aside; here a row that has too few fields is filled up, and what cannot be kept as it is
(too many fields, a quote that is never closed) is an error that names the line.
"""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import polars as pl

from timeplex.errors import InputError
from timeplex.kb.readers import suffix
from timeplex.kb.readers.opening import file_bytes, shown, unpacked_limit
from timeplex.kb.readers.parquet import parquet_frame
from timeplex.kb.readers.rows import known_frame
from timeplex.kb.readers.sheets import sheet_rows
from timeplex.kb.readers.table import MOST_COLUMNS, ROLES, Columns, Layout, by_header, find_layout
from timeplex.kb.readers.text import as_utf8, separating

WRITTEN = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
"""What can be read whole and be written again; each also with .gz."""

FORMATS = (*WRITTEN, ".xlsx", ".ods")
"""What can be read whole; each also with .gz."""


@dataclass(frozen=True)
class SourceTable:
    """A file as a table; the separator is that of its text, if it is text."""

    frame: pl.DataFrame
    layout: Layout
    separator: str = ","


def check_format(path: Path, formats: Sequence[str] = FORMATS) -> None:
    """Refuse a suffix that says nothing."""
    if suffix(path) not in formats:
        known = ", ".join(formats)
        raise InputError(f"{shown(path)} has no suffix that says what it is.", f"Use {known}, each also with .gz.")


def read_source_table(
    path: Path, *, columns: Columns, encoding: str | None = None, max_unpacked: int | None = None
) -> SourceTable:
    """Read a file by its suffix, all of it."""
    check_format(path)
    kind, source = suffix(path), shown(path)
    data = file_bytes(path, max_unpacked)
    if kind in (".csv", ".tsv"):
        return _text(data, source, columns, encoding, *((",", ";\t|") if kind == ".csv" else ("\t", "")))
    if encoding is not None:
        raise InputError(f"{source} has its encoding fixed by its format.", "Leave the encoding out.")
    limit = unpacked_limit(len(data), max_unpacked)
    if kind in (".xlsx", ".ods"):
        return _table(list(sheet_rows(data, source, limit)), source, columns, "Row")
    if kind == ".parquet":
        frame = parquet_frame(data, source, limit)
    else:
        frame = _objects(_json_lines(data, source) if kind != ".json" else _json_array(data, source), source)
    return SourceTable(_filled(frame, source), by_header(frame.columns, columns, source))


def layout_of(frame: Any, columns: Columns, source: str) -> "tuple[nw.DataFrame[Any], Layout]":
    """A DataFrame as narwhals sees it, and which of its columns plays which role."""
    data = known_frame(frame, source)
    if data.is_empty():
        raise _empty(source)
    return data, by_header([str(name) for name in data.columns], columns, source)


def _empty(source: str) -> InputError:
    return InputError(f"{source} is empty.", "Give a table with one fact a row.")


def _filled(frame: pl.DataFrame, source: str) -> pl.DataFrame:
    if frame.is_empty():
        raise _empty(source)
    return frame


def _text(data: bytes, source: str, columns: Columns, encoding: str | None, separator: str, others: str) -> SourceTable:
    """Fields as they stand; an empty one is null, which is written as an empty one again."""
    plain = as_utf8(data, encoding, source)
    if b"\0" in plain:
        raise InputError(f"{source} is not a table of text.", "Give CSV, TSV, JSON lines or Parquet.")
    try:
        text = plain.decode()
    except UnicodeDecodeError as error:
        problem = f"{source} is not UTF-8 text."
        raise InputError(problem, "Say its encoding=.", "Say its --encoding.") from error
    if "\n" not in text:  # line ends of the old Macintosh
        text = text.replace("\r", "\n")
    separator = separating(plain, separator, others)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise InputError(f"Line {reader.line_num} of {source} is not CSV: {error}.", "Mend its quotes.") from error
    return replace(_table(rows, source, columns, "Line"), separator=separator)


def _table(rows: list[tuple[int, list[str]]], source: str, columns: Columns, what: str) -> SourceTable:
    """The table of numbered rows, of which the first may be a header."""
    if not rows:
        raise _empty(source)
    head = rows[0][1]
    layout, has_header = find_layout(head, columns, source)
    names = head if has_header else list(ROLES[: len(head)])
    if len(set(names)) < len(names):
        raise InputError(f"Two columns of {source} have the same name.", "Rename one.")
    for line, row in rows:
        if len(row) > len(names):
            reason = f"{what} {line} of {source} has {len(row)} fields instead of {len(names)}"
            raise InputError(f"{reason}.", "Mend it: text with a separator in it wants quotes.")
    fields = [row + [""] * (len(names) - len(row)) for _, row in rows[has_header:]]
    frame = pl.DataFrame(fields, schema=dict.fromkeys(names, pl.String), orient="row")
    return SourceTable(_filled(frame.with_columns(pl.all().replace("", None)), source), layout)


def _json_lines(data: bytes, source: str) -> list[Any]:
    """One object a line."""
    rows = []
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), start=1):
        if line.strip():
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                raise InputError(f"Line {number} of {source} is not JSON.", "Give one JSON object a line.") from error
            if not isinstance(rows[-1], dict):
                raise InputError(f"Line {number} of {source} is not an object.", "Give one JSON object a line.")
    return rows


def _json_array(data: bytes, source: str) -> list[Any]:
    """An array of objects."""
    try:
        rows = json.loads(data) if data.strip() else []
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source} is not JSON.", "Give an array of objects.") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{source} is not an array of objects.", "Give one JSON object a row.")
    return rows


def _objects(rows: list[Any], source: str) -> pl.DataFrame:
    """The table of objects; a key that one does not have is null."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    if len(keys) > MOST_COLUMNS:
        raise InputError(f"{source} has more than {MOST_COLUMNS:,} columns.", "Give a table with one fact a row.")
    columns = {key: [row.get(key) for row in rows] for key in keys}
    for key, values in columns.items():
        kinds = {type(value) for value in values if value is not None}
        if len(kinds) > 1 and kinds & {list, dict}:
            raise InputError(f"{key!r} of {source} mixes lists or objects with other values.", "Give it one kind.")
    return pl.DataFrame(columns, strict=False, nan_to_null=False)
