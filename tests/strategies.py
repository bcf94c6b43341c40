"""Random KBs with names that break careless code, and random damage to files."""

import gzip
import io
import json
import re
import zipfile
from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import cache
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import polars as pl
import xlsxwriter
from hypothesis import strategies as st

from timeplex.kb import spans
from timeplex.kb.dates import Granularity, day_number
from timeplex.kb.facts import SPLITS, Facts, TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.problems import Problems

# Names

PLAIN_NASTY = (
    *("subject", "relation", "object", "begin", "end", "s", "r", "o", "to", "from"),  # headers
    *("1990", "1952-03-17", "####-##-##", "-405", "0", "1.0", "null", "nan", "None", "-", "True"),  # dates, numbers
    *('"', '""', 'a"b', '"quoted"', "a,b", ",", ";", "'", "\\", "\\N", "#comment", "=constant", "{}", "[1]", "null"),
    *(" leading", "trailing ", "\u00a0nbsp\u00a0", "\ufeffmark", "\ufeff", "\u2028line", "\x85next", "\x1funit"),
    *("x^2", "x\x01", "xڀ", "é", "e\u0301", "𝄞", "\x7f", "\x1f\x8b", "BZh9", "PAR1", "\ufffd"),  # also magic numbers
)
"""Names that a file of lines can hold …"""
BREAKING = ("two\nlines", "carriage\r\nreturn", "\rfirst", "last\r", "\r", "\ttab", '"\n"', "\n,\n", "tab\t")
"""… and names that it cannot, without quotes. (One that is blank throughout is no name.)"""


def _is_name(text: str) -> bool:
    return bool(text.strip())


def names(breaking: bool = True) -> st.SearchStrategy[str]:
    """Any name that a KB may have; with TAB and line breaks only if `breaking`."""
    nasty = PLAIN_NASTY + (BREAKING if breaking else ())
    letters = st.characters(codec="utf-8", exclude_characters="\0" if breaking else "\0\t\n\r")
    return (st.sampled_from(nasty) | st.text(letters, min_size=1, max_size=5)).filter(_is_name)


# KBs

RANGE = {
    Granularity.YEAR: (-9999, 9999),
    Granularity.MONTH: (-9999 * 12, 9999 * 12 + 11),
    Granularity.DAY: (int(day_number(-9999, 1, 1)), int(day_number(9999, 12, 31))),
}
"""First and last instant that can be written."""
RECENT = {Granularity.YEAR: 2000, Granularity.MONTH: 24_000, Granularity.DAY: 11_000}


@st.composite
def _spans(draw: st.DrawFn, granularity: Granularity) -> tuple[int, int]:
    recent = RECENT[granularity]
    instants = st.integers(*RANGE[granularity]) | st.integers(recent, recent + 30)
    begin, end = sorted((draw(instants), draw(instants)))
    which = draw(st.sampled_from(("both", "both", "event", "begin", "end", "none")))
    if which == "event":
        return begin, begin
    return (
        begin if which in ("both", "begin") else spans.OPEN_BEGIN,
        end if which in ("both", "end") else spans.OPEN_END,
    )


def _kb(rows: dict[str, list[tuple[str, str, str, int, int]]], granularity: Granularity) -> TemporalKB:
    every = [row for part in rows.values() for row in part]
    entities = Names(pl.Series([name for row in every for name in (row[0], row[2])], dtype=pl.String))
    relations = Names(pl.Series([row[1] for row in every], dtype=pl.String))
    splits = {}
    for split, part in rows.items():
        numbers = [(entities.id(s), relations.id(r), entities.id(o), begin, end) for s, r, o, begin, end in part]
        splits[split] = Facts(*np.array(numbers, np.int32).reshape(-1, 5).T)
    return TemporalKB(entities, relations, granularity, splits, Problems.none(len(every)))


@st.composite
def kbs(draw: st.DrawFn, *, breaking: bool = True, split: bool = False) -> TemporalKB:
    """A small KB without duplicates, in one or (if `split`) up to three splits, of which train has a fact."""
    granularity = draw(st.sampled_from(Granularity))
    pool = st.sampled_from(draw(st.lists(names(breaking), min_size=1, max_size=6)))
    fact = st.tuples(pool, pool, pool, _spans(granularity)).map(lambda parts: (*parts[:3], *parts[3]))
    facts = {"train": draw(st.lists(fact, min_size=1, max_size=8, unique=True))}
    for other in SPLITS[1:]:
        if split and draw(st.booleans()):
            facts[other] = draw(st.lists(fact, max_size=4, unique=True))
    return _kb(facts, granularity)


# Files that are fine

CLEAN = [
    ("Ada", "worksFor", "Acme", "1990", "1999"),
    ("Bob", "marriedTo", "Ada", "1985-03", ""),
    *((f"person {year}", "bornIn", "Zürich", f"{year}", f"{year}") for year in range(1950, 1954)),
]
NASTY = [
    ('say "hi"', "a,b", "two\nlines", "-405", "####-##-##"),
    ("x^2", "subject", "\u00a0nbsp\u00a0", "1952-03-17", "1952-##-##"),
    ("last\r", "#", "'", "19##", "not a date"),
    ("Ada", "worksFor", "Acme", "2001", "1999"),
    ("Ada", "worksFor", "", "", ""),
]
HEADER = ("subject", "relation", "object", "begin", "end")


@cache
def good_files(suffix: str) -> tuple[bytes, ...]:
    """Small files of a format, made without the writer of timeplex."""
    long = [("Ada", "knows", "n" * 5000, "1990", "1991")]  # so that damage also comes after the first 4096 bytes
    tables = [CLEAN, CLEAN[:2] + NASTY, long + CLEAN]
    if suffix in (".csv", ".tsv"):
        separator = "," if suffix == ".csv" else "\t"
        with_header = [_csv([HEADER, *rows], separator) for rows in tables]
        return (*with_header, _csv([row[:3] for row in CLEAN], separator), _csv([row[:4] for row in CLEAN], separator))
    if suffix == ".txt":
        plain = [[row for row in rows if not set("".join(row)) & set("\t\n\r")] for rows in tables]
        return tuple("".join("\t".join(row) + "\n" for row in rows).encode() for rows in plain)
    if suffix in (".jsonl", ".ndjson"):
        others: list[Any] = [7, 1.5, None, True, ["list"], {"a": "b"}]
        odd = [(value, "r", "o", 1990.0, value) for value in others]
        return tuple(
            "".join(json.dumps(dict(zip(HEADER, row, strict=True)), ensure_ascii=False) + "\n" for row in rows).encode()
            for rows in (*tables, odd)
        )
    if suffix == ".json":
        whole = [[dict(zip(HEADER, row, strict=True)) for row in rows] for rows in tables]
        arrays = [[list(HEADER), *map(list, rows)] for rows in tables]
        others = [{"version": 1, "facts": whole[0]}, [list(row) for row in CLEAN]]
        return tuple(json.dumps(value, ensure_ascii=False).encode() for value in (*whole, *arrays, *others))
    if suffix in (".xlsx", ".ods"):
        return tuple(sheet(suffix, [HEADER, *rows]) for rows in tables)
    return _parquet_files(tables)


def sheet(suffix: str, rows: Sequence[Sequence[Any]], name: str = "Sheet1") -> bytes:
    """A spreadsheet with one sheet, made by XlsxWriter, or by hand with as little as LibreOffice reads."""
    buffer = io.BytesIO()
    if suffix == ".xlsx":
        with xlsxwriter.Workbook(buffer, {"in_memory": True, "strings_to_formulas": False}) as book:
            book.set_properties({"created": datetime(2020, 1, 1)})
            page, day = book.add_worksheet(name), book.add_format({"num_format": "dd.mm.yyyy"})
            for number, row in enumerate(rows):
                for column, value in enumerate(row):
                    if isinstance(value, date):
                        page.write_datetime(number, column, value, day)
                    else:
                        page.write(number, column, value)
        return buffer.getvalue()
    cells = "".join(f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in rows)
    spaces = " ".join(
        f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{prefix}:1.0"' for prefix in ("office", "table", "text")
    )
    body = f'<office:spreadsheet><table:table table:name="{name}">{cells}</table:table></office:spreadsheet>'
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("mimetype"), "application/vnd.oasis.opendocument.spreadsheet")
        document = f"<office:document-content {spaces}><office:body>{body}</office:body></office:document-content>"
        archive.writestr(zipfile.ZipInfo("content.xml"), document)
        manifest = '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
        archive.writestr(zipfile.ZipInfo("META-INF/manifest.xml"), manifest)
    return buffer.getvalue()


def _ods_cell(value: Any) -> str:
    if value is None or value == "":
        return "<table:table-cell/>"
    if isinstance(value, date):
        return f'<table:table-cell office:value-type="date" office:date-value="{value.isoformat()}"/>'
    if isinstance(value, int | float):
        return f'<table:table-cell office:value-type="float" office:value="{value}"/>'
    lines = "".join(
        f"<text:p>{escape(line)}</text:p>" for line in re.sub("[\x00-\x08\x0b-\x1f]", "", value).split("\n")
    )
    return f'<table:table-cell office:value-type="string">{lines}</table:table-cell>'


def _csv(rows: list[Any], separator: str) -> bytes:
    frame = pl.DataFrame(rows, orient="row", schema=[f"{number}" for number in range(len(rows[0]))])
    style = "non_numeric" if any("\r" in text for row in rows for text in row) else "necessary"
    return frame.write_csv(separator=separator, include_header=False, quote_style=style).encode()


def _parquet_files(tables: list[list[tuple[str, ...]]]) -> tuple[bytes, ...]:
    texts = [pl.DataFrame(rows, orient="row", schema=list(HEADER)) for rows in tables]
    typed = texts[0].with_columns(
        pl.col("subject").cast(pl.Categorical),
        relation=pl.int_range(pl.len()),
        begin=pl.Series([date(1990, 1, 1)] * 3 + [None] * 3),
        end=pl.Series([datetime(1995, 1, 1)] * 6),
    )
    years = pl.Series([1990.0, float("nan"), None, 1e300, 1.5, -405.0])
    floats = texts[0].with_columns(begin=years, list=pl.Series([[1], []] * 3))
    files = []
    for frame in (*texts, typed, floats):
        for compression in ("zstd", "uncompressed"):
            buffer = io.BytesIO()
            frame.write_parquet(buffer, compression=compression)  # type: ignore[arg-type]
            files.append(buffer.getvalue())
    return tuple(files)


# Damage

Damage = Callable[[bytes, int, int], bytes]
"""What becomes of the bytes, given a place in them and a number to choose by."""

INVALID = (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf8\x88\x80", b"\x80", b"\xe2\x82")
PIECES = (
    *(b",", b"\t", b'"', b'""', b"\n", b"\r\n", b"\r", b"\0", b'"\n', b'\n"', b'","', b"\n\n\n", b" ", b"\xc2\xa0\n"),
    *(b"{", b"}", b"[", b":", b"\\", b"\\ud800", b'"\\ud800"', b"NaN", b"1e999", b"null", b"9" * 5000, b"[" * 2000),
    *(b"garbage\n", b"a,b\n", b"\n\xff\xfe\x00\n", b"a\tb\tc\td\te\tf\tg\n", b"\nx^,y,z,1990,1991\n"),
    *(b"[1, 2]\n", b"{}\n", b"\xef\xbb\xbf", b"PAR1", b"\x1f\x8b", b"#", b"-", b"2147483648", b"0000-00-00"),
)


def _lines(data: bytes) -> list[bytes]:
    return data.split(b"\n")


def _swap_lines(data: bytes, at: int, number: int) -> bytes:
    lines = _lines(data)
    one, other = at % len(lines), number % len(lines)
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _repeat_line(data: bytes, at: int, number: int) -> bytes:
    lines = _lines(data)
    lines.insert(at % len(lines), lines[number % len(lines)])
    return b"\n".join(lines)


def _drop_one(data: bytes, at: int, number: int) -> bytes:
    """Drop the first separator or quote after a place."""
    place = data.find((b",", b"\t", b'"', b":")[number % 4], at)
    return data if place < 0 else data[:place] + data[place + 1 :]


def _flip(data: bytes, at: int, number: int) -> bytes:
    return data[:at] + bytes(byte ^ 1 << number % 8 for byte in data[at : at + 1]) + data[at + 1 :]


def _huge_line(data: bytes, at: int, number: int) -> bytes:
    return data[:at] + b'\n"'[: number % 3] + b"long," * 8000 + b"\n" + data[at:]


DAMAGES: dict[str, Damage] = {
    "flip a bit": _flip,
    "set a byte": lambda data, at, number: data[:at] + bytes([number]) + data[at + 1 :],
    "insert a byte": lambda data, at, number: data[:at] + bytes([number]) + data[at:],
    "delete bytes": lambda data, at, number: data[:at] + data[at + 1 + number % 20 :],
    "repeat bytes": lambda data, at, number: data[: at + number % 50] + data[at:],
    "cut off": lambda data, at, number: data[:at],
    "cut off the beginning": lambda data, at, number: data[at:] if number % 4 == 0 else data[number % 8 :],
    "insert invalid UTF-8": lambda data, at, number: data[:at] + INVALID[number % len(INVALID)] + data[at:],
    "insert a piece": lambda data, at, number: data[:at] + PIECES[number % len(PIECES)] + data[at:],
    "insert a piece, too": lambda data, at, number: data[:at] + PIECES[number % len(PIECES)] + data[at:],
    "drop a separator": _drop_one,
    "insert a huge line": _huge_line,
    "Windows line ends": lambda data, at, number: data.replace(b"\n", b"\r\n"),
    "old Macintosh line ends": lambda data, at, number: data.replace(b"\n", b"\r", number % 5),
    "byte order mark": lambda data, at, number: b"\xef\xbb\xbf" + data,
    "byte order mark of UTF-16": lambda data, at, number: (b"\xff\xfe", b"\xfe\xff")[number % 2] + data,
    "UTF-16": lambda data, at, number: data.decode(errors="replace").encode("utf-16"),
    "Latin-1": lambda data, at, number: data.decode(errors="replace").encode("latin-1", errors="replace"),
    "swap lines": _swap_lines,
    "repeat a line": _repeat_line,
    "twice": lambda data, at, number: data + data,
    "letters for digits": lambda data, at, number: data.replace(b"%d" % (number % 10), b"l"),
}  # fmt: skip


def apply(damage: tuple[str, int, int], data: bytes) -> bytes:
    """Do one damage; a place beyond the end counts from the beginning again."""
    name, at, number = damage
    return DAMAGES[name](data, at % (len(data) + 1), number)


def damages(most: int = 4) -> st.SearchStrategy[list[tuple[str, int, int]]]:
    """One or more damages, one after the other."""
    damage = st.tuples(st.sampled_from(list(DAMAGES)), st.integers(0, 9999), st.integers(0, 255))
    return st.lists(damage, min_size=1, max_size=most)


@st.composite
def damaged_files(draw: st.DrawFn, suffix: str) -> bytes:
    """The bytes of a damaged file; a packed one is damaged before it is packed, or after."""
    inner = suffix.removesuffix(".gz")
    data = draw(st.sampled_from(good_files(inner)))
    packed = suffix != inner
    late = packed and draw(st.booleans())
    if late:
        data = gzip.compress(data, mtime=0)
    for damage in draw(damages()):
        data = apply(damage, data)
    return gzip.compress(data, 1, mtime=0) if packed and not late else data


def triples(kb: TemporalKB) -> list[tuple[Any, ...]]:
    """All facts as rows of texts, whatever their split."""
    return kb.to_polars().drop("split").rows()


def write(folder: Path, name: str, content: str | bytes) -> Path:
    """A file with this content in a folder."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path
