"""From a file, several files, a folder or a DataFrame to a `TemporalKB`; or to the table that a file is.

Readers of facts set odd rows aside. `read_source_table` is for those who want the table back with columns added: it has
every row and every column as it stands, a row that has too few fields is filled up, and what cannot be kept as it is
(too many fields, a quote that is never closed) is an error that names the line.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import narwhals as nw
import polars as pl

from timeplex.errors import InputError
from timeplex.kb.assemble import Making, assemble
from timeplex.kb.facts import SPLITS, TemporalKB
from timeplex.kb.readers.packed import (
    STANDARD_INPUT,
    file_bytes,
    parquet_frame,
    read_parquet,
    read_sheet,
    sheet_rows,
    shown,
    unpacked_limit,
)
from timeplex.kb.readers.rows import known_frame, read_frame, read_json, read_json_lines, read_rows
from timeplex.kb.readers.table import MOST_COLUMNS, ROLES, USUAL_NAMES, Columns, Layout, Table, by_header, find_layout
from timeplex.kb.readers.text import as_utf8, read_text, separating

TEXT: dict[str, Callable[..., Table]] = {
    ".csv": partial(read_text, separator=",", others=";\t|", quoting=True),
    ".tsv": partial(read_text, separator="\t", quoting=True),
    ".txt": partial(read_text, separator="\t", quoting=False),
}
"""Readers that take `encoding`."""

PACKED: dict[str, Callable[..., Table]] = {".parquet": read_parquet, ".xlsx": read_sheet, ".ods": read_sheet}
"""Readers of what is packed in itself, which take `limit`; those of spreadsheets take `sheet`, too."""

READERS: dict[str, Callable[..., Table]] = {
    **TEXT,
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json,
    **PACKED,
}
"""Readers by suffix; each also reads the file packed with gzip (`.csv.gz`). To add a format, add a line."""


@dataclass(frozen=True)
class Opening:
    """How files are opened: the encoding of text that is not UTF-8, the sheet of a spreadsheet, the format where the
    suffix does not tell (`csv`), and how many bytes a packed file may unpack to.
    """

    encoding: str | None = None
    sheet: str | None = None
    format: str | None = None
    max_unpacked: int | None = None


def read_table(path: Path, *, split: str = "train", columns: Columns, opening: Opening | None = None) -> Table:
    """Read one file as a table of text, by its suffix; `-` is standard input."""
    opening, source = opening or Opening(), shown(path)
    if path != STANDARD_INPUT and path.is_dir():
        raise InputError(f"{source} is a folder, not a file.", "Give the files in it.")
    given = "" if opening.format is None else f".{opening.format.lower().removeprefix('.')}"
    if given and given not in READERS:
        known = ", ".join(kind.removeprefix(".") for kind in READERS)
        raise InputError(f"{opening.format!r} is not a format.", f"Known are {known}.")
    if not given and path != STANDARD_INPUT and suffix(path) not in READERS:
        hint = f"Known are {', '.join(READERS)}, each also with .gz; or say the"
        problem = f"{source} has no suffix that says how to read it."
        raise InputError(problem, f'{hint} format="csv".', f"{hint} --format.")
    data = file_bytes(path, opening.max_unpacked)
    kind = given or (sniffed(data) if path == STANDARD_INPUT else suffix(path))
    return READERS[kind](
        data, source=source, split=split, columns=columns, **_options(kind, opening, len(data), source)
    )


def _options(kind: str, opening: Opening, size: int, source: str) -> dict[str, Any]:
    """What the reader of a format is told besides; what it cannot use is an error."""
    options: dict[str, Any] = {}
    if opening.encoding is not None:
        if kind not in TEXT:
            raise InputError(f"{source} has its encoding fixed by its format.", "Leave the encoding out.")
        options["encoding"] = opening.encoding
    if kind in PACKED:
        options["limit"] = unpacked_limit(size, opening.max_unpacked)
    if PACKED.get(kind) is read_sheet:
        options["sheet"] = opening.sheet
    elif opening.sheet is not None:
        raise InputError(f"{source} is not a spreadsheet.", "Leave the sheet out.")
    return options


def sniffed(data: bytes) -> str:
    """The format of data that has no name."""
    beginning = data[: 1 << 16].removeprefix(b"\xef\xbb\xbf").lstrip()
    if beginning.startswith(b"PAR1"):
        return ".parquet"
    if beginning.startswith(b"PK\x03\x04"):
        return ".ods" if b"opendocument" in beginning[:200] else ".xlsx"
    first_line = beginning.split(b"\n", 1)[0].strip()
    if beginning.startswith(b"["):
        return ".json"
    if beginning.startswith(b"{"):
        return ".jsonl" if first_line.endswith(b"}") else ".json"
    return ".tsv" if b"\t" in first_line else ".csv"


def suffix(path: Path) -> str:
    """What says how a file is written, in lower case and without .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _require_rows(rows: int, source: str) -> None:
    if rows == 0:
        raise InputError(f"{source} is empty.", "Give a table with one fact a row.")


def read_files(
    paths: Iterable[Path],
    *,
    columns: Columns = USUAL_NAMES,
    opening: Opening | None = None,
    name: str | None = None,
    **making: Unpack[Making],
) -> TemporalKB:
    """Read one or more files into the training split of a KB."""
    files = list(dict.fromkeys(paths))
    if not files:
        raise InputError("There is no file to read.", "Give at least one path.")
    tables = [read_table(path, columns=columns, opening=opening) for path in files]
    for table in tables:
        _require_rows(table.rows_read, table.source)
    name = name or ("table" if files[0] == STANDARD_INPUT else shown(Path(files[0].name)).split(".")[0])
    return assemble(tables, name=name, **making)


def find_splits(folder: Path) -> dict[str, Path]:
    """The train, valid and test file of a folder, as far as they are there."""
    found: dict[str, Path] = {}
    for split in SPLITS:
        matches = [
            path for path in sorted(folder.iterdir()) if path.name.split(".")[0] == split and suffix(path) in READERS
        ]
        if len(matches) > 1:
            both = " and ".join(path.name for path in matches)
            raise InputError(f"{folder} has two files for {split}: {both}.", "Keep one.")
        if matches:
            found[split] = matches[0]
    return found


def read_folder(
    folder: Path, *, columns: Columns = USUAL_NAMES, name: str | None = None, **making: Unpack[Making]
) -> TemporalKB:
    """Read a folder with train, valid and test files (valid and test may be missing or empty), and its labels."""
    files = find_splits(folder)
    if "train" not in files:
        raise InputError(f"{shown(folder)} has no train file.", "It needs train.txt (or .csv, .parquet, .json …).")
    tables = [read_table(path, split=split, columns=columns) for split, path in files.items()]
    _require_rows(tables[0].rows_read, tables[0].source)
    paths = (folder / "entity_labels.tsv", folder / "relation_labels.tsv")
    entities, relations = (read_labels(path) if path.is_file() else None for path in paths)
    name = name or shown(Path(folder.name))
    return assemble(tables, name=name, entity_labels=entities, relation_labels=relations, **making)


def from_table(
    data: Any, *, columns: Columns = USUAL_NAMES, name: str = "table", **making: Unpack[Making]
) -> TemporalKB:
    """Read a DataFrame of pandas, polars or pyarrow, or rows: mappings {column: value} or (s, r, o[, begin[, end]])."""
    if isinstance(data, list | tuple | Iterator):
        table = read_rows(data, source="The table", split="train", columns=columns)
    else:
        table = read_frame(data, source="DataFrame", split="train", columns=columns)
    _require_rows(table.rows_read, table.source)
    return assemble([table], name=name, **making)


def read_labels(path: Path) -> dict[str, str]:
    """Name → label, from lines `Q76<TAB>Barack Obama`; further columns and lines without a label are passed over.

    The first label of a name counts.
    """
    try:
        text = file_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{shown(path)} is not UTF-8 text.", "Give id, TAB, label, one a line.") from error
    labels: dict[str, str] = {}
    for line in text.split("\n"):
        name, tab, rest = line.rstrip("\r").partition("\t")
        label = rest.split("\t")[0]
        if tab and name and label:
            labels.setdefault(name, label)
    if not labels:
        raise InputError(f"{shown(path)} has no labels.", "Give id, TAB, label, one a line.")
    return labels


# A file as it stands --------------------------------------------------------------------------------------------------


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
    _require_rows(frame.height, source)
    return SourceTable(frame, by_header(frame.columns, columns, source))


def layout_of(frame: Any, columns: Columns, source: str) -> "tuple[nw.DataFrame[Any], Layout]":
    """A DataFrame as narwhals sees it, and which of its columns plays which role."""
    data = known_frame(frame, source)
    _require_rows(len(data), source)
    return data, by_header([str(name) for name in data.columns], columns, source)


def _text(data: bytes, source: str, columns: Columns, encoding: str | None, separator: str, others: str) -> SourceTable:
    """Fields as they stand; an empty one is null, which is written as an empty one again."""
    plain = as_utf8(data, encoding, source)
    if b"\0" in plain:
        raise InputError(f"{source} is not a table of text.", "Give CSV, TSV, JSON lines or Parquet.")
    try:
        text = plain.decode()
    except UnicodeDecodeError as error:
        problem = f"{source} is not UTF-8 text."
        raise InputError(problem, "Give its encoding=.", "Give its --encoding.") from error
    if "\n" not in text:  # line ends of the old Macintosh
        text = text.replace("\r", "\n")
    separator = separating(plain, separator, others)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        raise InputError(f"Line {reader.line_num} of {source} is not CSV: {error}.", "Correct its quotes.") from error
    return replace(_table(rows, source, columns, "Line"), separator=separator)


def _table(rows: list[tuple[int, list[str]]], source: str, columns: Columns, what: str) -> SourceTable:
    """The table of numbered rows, of which the first may be a header."""
    _require_rows(len(rows), source)
    head = rows[0][1]
    layout, has_header = find_layout(head, columns, source)
    names = head if has_header else list(ROLES[: len(head)])
    if len(set(names)) < len(names):
        raise InputError(f"Two columns of {source} have the same name.", "Rename one.")
    for line, row in rows:
        if len(row) > len(names):
            reason = f"{what} {line} of {source} has {len(row)} fields instead of {len(names)}"
            raise InputError(f"{reason}.", "Correct it: text with a separator in it needs quotes.")
    fields = [row + [""] * (len(names) - len(row)) for _, row in rows[has_header:]]
    frame = pl.DataFrame(fields, schema=dict.fromkeys(names, pl.String), orient="row")
    _require_rows(frame.height, source)
    return SourceTable(frame.with_columns(pl.all().replace("", None)), layout)


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
