"""What cannot be read at all gives one clear sentence; encodings, empty splits and Parquet of others."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from tests.strategies import triples, write

from timeplex.errors import InputError, TimeplexError
from timeplex.kb.date_spellings import DateStyle
from timeplex.kb.problems import Kind
from timeplex.kb.readers import READERS, Opening, from_table, read_files, read_folder
from timeplex.kb.readers.table import ROLES
from timeplex.kb.store import write_frame

# What cannot be read at all

HEADER = b"subject,relation,object\n"
FACTS = HEADER + b"a,r,b\n"
PACKED = gzip.compress(FACTS, mtime=0)


UNREADABLE = [
    ("empty.csv", b"", "is empty"),
    ("empty.txt", b"", "is empty"),
    ("empty.jsonl", b"", "is empty"),
    ("empty.parquet", b"", "not a readable Parquet"),
    ("empty.csv.gz", gzip.compress(b"", mtime=0), "is empty"),
    ("nothing.csv.gz", b"", "is empty"),
    ("lines.csv", b"\n\r\n\n", "is empty"),
    ("lines.jsonl", b"\n \n\t\n", "is empty"),
    ("mark.csv", b"\xef\xbb\xbf", "is empty"),
    ("header.csv", HEADER, "is empty"),
    ("line.csv", HEADER.strip(), "is empty"),
    ("blanks.csv", HEADER + b" , , \n", "No row of blanks is a fact. The first problem is in line 2: the subject"),
    ("blank.txt", b"   \n  \n", "no column for the subject"),
    ("binary.csv", bytes(range(256)) * 4, "not a table of text"),
    ("binary.txt", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "not a table of text"),
    ("binary.jsonl", bytes(range(256)) * 4, "holds no JSON object"),
    ("binary.parquet", bytes(range(256)) * 4, "not a readable Parquet"),
    ("latin.csv", "subject,rélation\n".encode("latin-1"), "first line of .* is not UTF-8"),
    ("odd.csv", b"\xff\xfea", "not text in utf-16"),
    ("facts.xls", FACTS, "no suffix that says how to read it. Known are .csv, "),
    ("facts.xlsx", FACTS, "not a readable spreadsheet"),
    ("old.xlsx", b"\xd0\xcf\x11\xe0" + FACTS, "locked by a password"),
    ("facts.json", FACTS, "is not JSON: line 1"),
    ("cut.json", b'[{"s": "a",\n', "is not JSON: line 1"),
    ("single.json", b'{"s": "a"}', "holds no array of objects"),
    ("two.json", b'{"a": [{}], "b": [{}]}', "several arrays: 'a', 'b'"),
    ("deep.json", b"[" * 100_000, "is not JSON"),
    ("numbers.json", b"[1, 2]", "holds no JSON object"),
    ("nothing.json", b"[]", "is empty"),
    ("facts", FACTS, "no suffix"),
    ("facts.gz", PACKED, "no suffix"),
    ("cut.csv.gz", PACKED[:-9], "not a whole gzip file"),
    ("short.csv.gz", PACKED[:5], "not a whole gzip file"),
    ("plain.csv.gz", FACTS, "not a whole gzip file"),
    ("array.jsonl", b'[{"subject": "a"}]\n', "holds no JSON object"),
]


@pytest.mark.parametrize(("name", "content", "message"), UNREADABLE, ids=[name for name, _, _ in UNREADABLE])
def test_a_file_that_cannot_be_read(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as error:
        read_files([write(tmp_path, name, content)])
    assert "\n" not in str(error.value)
    assert error.value.hint


def test_a_path_that_cannot_be_read(tmp_path: Path) -> None:
    facts = write(tmp_path, "facts.csv", FACTS)
    attempts: list[tuple[Callable[[], Any], str]] = [
        (lambda: read_files([tmp_path]), "is a folder, not a file"),
        (lambda: read_files([tmp_path / "none.csv"]), "does not exist"),
        (lambda: read_files([facts / "below.csv"]), "cannot be read: Not a directory"),
        (lambda: read_files([]), "no file to read"),
        (lambda: read_files([facts], opening=Opening("klingon")), "'klingon' is not an encoding"),
        (lambda: read_files([facts], opening=Opening("utf\0")), "is not an encoding"),
        (lambda: read_files([facts], opening=Opening("base64")), "'base64' is not an encoding"),
        (lambda: read_files([facts], opening=Opening("utf-32")), "is not text in utf-32"),
        (
            lambda: read_files([write(tmp_path, "f.jsonl", b"{}")], opening=Opening("cp1252")),
            "encoding fixed by its format",
        ),
        (lambda: read_folder(tmp_path), "has no train file"),
    ]
    for attempt, message in attempts:
        with pytest.raises(TimeplexError, match=message) as error:
            attempt()
        assert "\n" not in str(error.value)


def test_half_characters(tmp_path: Path) -> None:
    """JSON and Python can hold half of a character that takes two; UTF-8 and our KBs cannot."""
    path = write(tmp_path, "f.jsonl", r'{"s": "\ud800", "r": ["\udfff"], "o": {"\ud800": 1}, "\ud800": 2}')
    assert triples(read_files([path])) == [("?", '["?"]', '{"?": 1}', None, None)]
    objects = pd.DataFrame({"s": ["\ud800"], "r": ["r"], "o": ["o"]}, dtype=object)
    assert triples(from_table(objects)) == [("?", "r", "o", None, None)]
    with pytest.raises(InputError, match="no column for the subject") as error:
        read_files([write(tmp_path, "g.jsonl", r'{"\ud800": 1}')])
    assert str(error.value).isprintable()


def test_encodings(tmp_path: Path) -> None:
    text = "subject,relation,object\nZoë,kennt,Jürgen\n"
    expected = [("Zoë", "kennt", "Jürgen", None, None)]
    for number, (encoding, given_encoding) in enumerate([("utf-8-sig", None), ("utf-16", None), ("cp1252", "cp1252")]):
        path = write(tmp_path, f"{number}.csv", text.encode(encoding))
        assert triples(read_files([path], opening=Opening(given_encoding))) == expected
    unsaid = read_files([write(tmp_path, "unsaid.csv", text.encode("cp1252") + b"a,r,b\n")])
    assert triples(unsaid) == [("a", "r", "b", None, None)]
    assert unsaid.problems.frame.select("line", "kind").rows() == [(2, Kind.BAD_ENCODING)]


@pytest.mark.parametrize("suffix", [suffix for suffix in READERS if suffix not in (".xlsx", ".ods")])
def test_only_train_must_have_facts(suffix: str, tmp_path: Path) -> None:
    facts = pl.DataFrame({role: ["1990" if role in ("begin", "end") else role] for role in ROLES})
    write_frame(facts, tmp_path / f"train{suffix}")
    write_frame(facts.clear(), tmp_path / f"test{suffix}")
    kb = read_folder(tmp_path)
    assert {split: len(part) for split, part in kb.splits.items()} == {"train": 1, "test": 0}
    (tmp_path / f"train{suffix}").unlink()
    (tmp_path / f"test{suffix}").rename(tmp_path / f"train{suffix}")
    with pytest.raises(InputError, match="is empty"):
        read_folder(tmp_path)


# Parquet


def test_counts_that_would_end_the_process(tmp_path: Path) -> None:
    """In the header of a page, 24 stands for 12 values and 25 for −13, of which polars would make room for 2⁶⁴."""
    frame = pl.DataFrame({role: [f"{role} {number}" for number in range(12)] for role in ROLES[:3]})
    path = tmp_path / "facts.parquet"
    frame.write_parquet(path, compression="uncompressed")
    data = path.read_bytes()
    page = b"\x2c\x15\x18"  # the header of a page of data begins with the number of values: 12
    assert page in data
    path.write_bytes(data.replace(page, b"\x2c\x15\x19", 1))
    with pytest.raises(InputError, match="not a readable Parquet file"):
        read_files([path])


def test_parquet_of_another_writer(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = pa.table({role: [f"{role} {number % 7}" for number in range(500)] for role in ROLES[:3]})
    table = table.append_column("list", pa.array([[number, None][: number % 3] for number in range(500)]))
    table = table.append_column("nested", pa.array([{"a": None, "b": [True]}, None] * 250))
    expected = from_table(table)
    path = tmp_path / "facts.parquet"
    for version in ("1.0", "2.0"):
        for compression in ("none", "snappy", "gzip", "zstd", "brotli"):
            for dictionary in (True, False):
                pq.write_table(
                    table, path, compression=compression, use_dictionary=dictionary, data_page_version=version,
                    row_group_size=130, data_page_size=100, write_page_index=dictionary,
                )  # fmt: skip
                assert read_files([path]) == expected


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_csv_with_another_separator(separator: str, tmp_path: Path) -> None:
    """What spreadsheets write in countries with a decimal comma; commas are then part of names."""
    rows = [["subject", "relation", "object", "from", "to"], ["Dupont, Elise", "r", "b", "1990", "1,5"]]
    allowing = DateStyle(allow_unread=True)
    path = write(tmp_path, "f.csv", "\n".join(separator.join(row) for row in rows))
    assert triples(read_files([path], style=allowing)) == [("Dupont, Elise", "r", "b", "1990", None)]
