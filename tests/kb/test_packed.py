"""What is opened, and what is refused before it takes time or memory: pipes, bombs, folders, odd names."""

import gzip
import io
import json
import os
import socket
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.patience import patience
from tests.strategies import sheet, triples, write

from timeplex.errors import InputError
from timeplex.kb.readers import Opening, read_files, read_labels, sniffed
from timeplex.kb.readers.packed import FREE, file_bytes, unpacked
from timeplex.sources import read

HEADER = ("subject", "relation", "object", "begin", "end")
FACT = ("Ada", "worksFor", "Acme", "1990", "1999")
CSV = f"{','.join(HEADER)}\n{','.join(FACT)}\n".encode()
LIMIT = 800_000_000
"""Bytes of address space above what Python, numpy and polars take: what is refused is refused before it takes them."""


def refused(path: Path, memory: int = LIMIT, seconds: int = 60) -> str:
    """Read a file in a process of its own with little memory and time; the error that it gives."""
    code = f"""
import resource, sys
from timeplex.sources import read
from timeplex.errors import InputError
read({{"s": ["a"], "r": ["b"], "o": ["c"]}})
mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + {memory}, mapped + {memory}))
try:
    print(read(sys.argv[1]))
except InputError as error:
    print("refused:", error)
"""
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, timeout=patience(seconds))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("refused: "), done.stdout
    return done.stdout


# What is not a plain file


def test_pipes_sockets_devices_and_folders_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.csv"))
        (tmp_path / "null.csv").symlink_to("/dev/null")
        (tmp_path / "folder.csv").mkdir()
        for name, message in (
            ("pipe.csv", "is not a plain file. To read from a pipe, give -"),
            ("socket.csv", "cannot be read"),
            ("null.csv", "is not a plain file"),
            ("folder.csv", "is a folder"),
        ):
            with pytest.raises(InputError, match=message):
                read_files([tmp_path / name])
            with pytest.raises(InputError, match=message):
                read_labels(tmp_path / name)


def test_every_verb_with_a_file_refuses_pipes(tmp_path: Path) -> None:
    from timeplex.auditing.findings import read_earlier
    from timeplex.auditing.own_rules import read_own_rules
    from timeplex.kb.readers import read_source_table
    from timeplex.kb.readers.table import Columns

    for name in ("pipe.csv", "pipe.toml"):
        os.mkfifo(tmp_path / name)
    kb = read([FACT])
    for attempt in (
        lambda: read_earlier(tmp_path / "pipe.csv"),
        lambda: read_own_rules(tmp_path / "pipe.toml", kb),
        lambda: read_source_table(tmp_path / "pipe.csv", columns=Columns()),
    ):
        with pytest.raises(InputError, match="is not a plain file"):
            attempt()


@pytest.mark.parametrize(
    "name", [b"caf\xe9.csv", b"\xff\xfe.csv", b"a\nb.csv", b"%s {} [b]*?.csv", b"x" * 251 + b".csv"]
)
def test_a_file_may_have_any_name(name: bytes, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(name)
    path.write_bytes(CSV + b"Ada,worksFor\n")
    kb = read(path)
    assert triples(kb) == [FACT]
    kb.save(tmp_path / "kb")  # what it is called is stored, too
    assert len(type(kb).load(tmp_path / "kb").problems) == 1
    path.write_bytes(b"a,b\n")
    with pytest.raises(InputError) as error:
        read(path)
    str(error.value).encode()


def test_a_folder_may_have_any_name(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "train.csv").write_bytes(CSV)
    read(folder).save(tmp_path / "kb")


# Packed files


def test_gzip_is_unpacked_up_to_the_limit(tmp_path: Path) -> None:
    many = CSV + b"".join(b"a%d,r,b,1990,1991\n" % number for number in range(10_000))
    packed = gzip.compress(many, mtime=0)
    assert unpacked(packed, "f", len(many)) == many
    with pytest.raises(InputError, match="unpacks to more than") as error:
        unpacked(packed, "f", len(many) - 1)
    assert "max_unpacked=" in str(error.value)
    assert "--max-unpacked" in error.value.for_command_line()
    path = write(tmp_path, "f.csv.gz", packed)
    assert len(read(path, max_unpacked=len(many))) == 10_001
    with pytest.raises(InputError, match="unpacks to more than"):
        read(path, max_unpacked=1000)


def test_gzip_of_several_members_and_with_something_after_it() -> None:
    members = gzip.compress(CSV, mtime=0) + gzip.compress(b"b,r,c,,\n", mtime=0)
    assert unpacked(members, "f") == CSV + b"b,r,c,,\n"
    assert unpacked(members + b"\0" * 100, "f") == CSV + b"b,r,c,,\n"
    with pytest.raises(InputError, match="not a whole gzip file"):
        unpacked(members + b"garbage", "f")


def gzip_bomb(size: int) -> bytes:
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=9, mtime=0) as file:
        file.write(CSV)
        for _ in range(size // 10_000_000):
            file.write(b"\n" * 10_000_000)
    return buffer.getvalue()


def zip_bomb(name: str, lie: bool) -> bytes:
    """A spreadsheet with a part of 100 MB; in the one that lies it is declared as ten bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, b"<a>" + b" " * 100_000_000 + b"</a>")
    data = bytearray(buffer.getvalue())
    if lie:
        entry = data.rindex(b"PK\x01\x02")
        data[entry + 24 : entry + 28] = struct.pack("<I", 10)
    return bytes(data)


def far_cell(reference: str) -> bytes:
    """A good spreadsheet with one more cell, far out."""
    cell = (
        f'<row r="{reference.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}"><c r="{reference}"><v>1</v></c></row></sheetData>'
    )
    return with_part(sheet(".xlsx", [HEADER, FACT]), "xl/worksheets/sheet1.xml", "</sheetData>", cell)


def with_part(data: bytes, name: str, old: str, new: str) -> bytes:
    """A zip file in one part of which a text stands for another."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(buffer, "w") as target:
        for info in source.infolist():
            content = source.read(info).decode()
            assert info.filename != name or old in content
            target.writestr(info, content.replace(old, new) if info.filename == name else content)
    return buffer.getvalue()


def far_ods(rows: int, columns: int) -> bytes:
    empty = f'<table:table-cell table:number-columns-repeated="{columns}"/>'
    gap = f'<table:table-row table:number-rows-repeated="{rows}">{empty}</table:table-row>'
    last = f'<table:table-row>{empty}<table:table-cell office:value-type="float" office:value="1"/></table:table-row>'
    return with_part(sheet(".ods", [HEADER, FACT]), "content.xml", "</table:table>", gap + last + "</table:table>")


def repeated_ods(rows: int, columns: int) -> bytes:
    cell = f'<table:table-cell office:value-type="float" office:value="1" table:number-columns-repeated="{columns}"/>'
    row = f'<table:table-row table:number-rows-repeated="{rows}">{cell}</table:table-row></table:table>'
    return with_part(sheet(".ods", [HEADER, FACT]), "content.xml", "</table:table>", row)


def laughs() -> bytes:
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10 if n else "ha" * 50}">' for n in range(10))
    doctype = f"<!DOCTYPE x [{entities}]>"
    return with_part(
        sheet(".ods", [HEADER, FACT]), "content.xml", "<office:document-content", f"{doctype}<office:document-content"
    )


def parquet_bomb(rows: int) -> bytes:
    """A small file of very many equal rows."""
    buffer = io.BytesIO()
    pl.select(pl.repeat("a", rows).alias(name) for name in HEADER[:3]).write_parquet(buffer)
    return buffer.getvalue()


BOMBS: dict[str, Any] = {
    "gzip.csv.gz": lambda: gzip_bomb(300_000_000),
    "zip.xlsx": lambda: zip_bomb("xl/worksheets/sheet1.xml", lie=False),
    "lie.xlsx": lambda: zip_bomb("xl/sharedStrings.xml", lie=True),
    "zip.ods": lambda: zip_bomb("content.xml", lie=False),
    "far.xlsx": lambda: far_cell("XFD1048576"),
    "farther.xlsx": lambda: far_cell("ZZZZZZ4294967295"),
    "far.ods": lambda: far_ods(1_000_000, 16_000),
    "repeated.ods": lambda: repeated_ods(100_000, 16_000),
    "laughs.ods": laughs,
    # A list, and a map, that say to have 2⁶⁰ elements; the list is the one of the report.
    "list.parquet": lambda: bytes.fromhex("5041523119f7808080808080808010000c00000050415231"),
    "map.parquet": lambda: bytes.fromhex("504152311b808080808080808010770000" + "0d000000" + "50415231"),
    "rows.parquet": lambda: parquet_bomb(5_000_000),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_it_takes_memory(name: str, tmp_path: Path) -> None:
    data = BOMBS[name]()
    assert len(data) < 3_000_000
    said = refused(write(tmp_path, name, data))
    assert any(reason in said for reason in ("is not a readable", "unpacks to more than", "nearly all empty"))


def test_what_office_programs_write_far_out_is_no_bomb(tmp_path: Path) -> None:
    """LibreOffice fills a sheet up with empty cells to its last row and column."""
    tail = (
        '<table:table-row table:number-rows-repeated="1048574">'
        '<table:table-cell table:number-columns-repeated="16384"/>'
        "</table:table-row></table:table>"
    )
    data = with_part(sheet(".ods", [HEADER, FACT]), "content.xml", "</table:table>", tail)
    assert triples(read(write(tmp_path, "f.ods", data))) == [FACT]


def test_small_files_may_unpack_to_much(tmp_path: Path) -> None:
    packed = gzip.compress(CSV + b"\n" * 1_000_000, mtime=0)
    assert len(packed) * 50 < 1_000_000 < FREE
    assert len(read(write(tmp_path, "f.csv.gz", packed))) == 1


# Standard input, and formats by what the data is


SNIFFED = {
    ".csv": CSV,
    ".tsv": CSV.replace(b",", b"\t"),
    ".jsonl": json.dumps(dict(zip(HEADER, FACT, strict=True))).encode() + b"\n",
    ".json": json.dumps([dict(zip(HEADER, FACT, strict=True))], indent=1).encode(),
    ".xlsx": sheet(".xlsx", [HEADER, FACT]),
    ".ods": sheet(".ods", [HEADER, FACT]),
}


@pytest.mark.parametrize("kind", SNIFFED)
@pytest.mark.parametrize("packed", [False, True])
def test_standard_input(kind: str, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = SNIFFED[kind]
    assert sniffed(data) == kind
    path = write(tmp_path, "data", gzip.compress(data) if packed else data)
    with path.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        kb = read("-")
    assert triples(kb) == [FACT]
    assert kb.name == "table"


def test_standard_input_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            return b"\n" * size

    class Stdin:
        buffer = Endless()

    monkeypatch.setattr("sys.stdin", Stdin())
    with pytest.raises(InputError, match="standard input unpacks to more than 5 MB"):
        file_bytes(Path("-"), 5_000_000)


def test_a_format_can_be_said(tmp_path: Path) -> None:
    path = write(tmp_path, "facts.dat", CSV)
    with pytest.raises(InputError, match="no suffix that says how to read it"):
        read(path)
    assert triples(read_files([path], opening=Opening(format="csv"))) == [FACT]
    assert triples(read(path, format=".CSV")) == [FACT]
    with pytest.raises(InputError, match=r"'xls' is not a format\. Known are csv, "):
        read(path, format="xls")
