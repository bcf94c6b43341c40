"""Files read whole: every row and column as it stands, or an error that names the line."""

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

from timeplex.errors import InputError
from timeplex.files import check_writable
from timeplex.kb.readers import SourceTable, check_format, layout_of, read_source_table
from timeplex.kb.readers.table import Columns
from timeplex.kb.store import write_frame

HEADER = "subject,relation,object,begin,end,note\n"


def read(path: Path, data: str | bytes, encoding: str | None = None) -> SourceTable:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_source_table(path, columns=Columns(), encoding=encoding)


def test_csv_keeps_texts_and_nulls(tmp_path: Path) -> None:
    text = HEADER + 'a,r, b ,01.5,,"x, ""y"""\n\na,r,,,2000\n"two\nlines",r,c,1,2,NULL\n'
    found = read(tmp_path / "t.csv", text)
    assert found.frame.rows() == [
        ("a", "r", " b ", "01.5", None, 'x, "y"'),
        ("a", "r", None, None, "2000", None),  # a row that is too short
        ("two\nlines", "r", "c", "1", "2", "NULL"),
    ]
    assert (found.layout.object, found.layout.end) == (2, 4)


def test_csv_comes_back_byte_for_byte(tmp_path: Path) -> None:
    text = HEADER + 'a,r,b,1990,,"x, y"\nÅsa,r, c ,,007,1e5\n'
    found = read(tmp_path / "t.csv", text)
    write_frame(found.frame, tmp_path / "again.csv", found.separator)
    assert (tmp_path / "again.csv").read_text() == text


def test_other_separators_are_kept(tmp_path: Path) -> None:
    text = "subject;relation;object;begin\na,b;r;c;1990\n"
    found = read(tmp_path / "t.csv", text)
    assert found.separator == ";"
    assert found.frame["subject"].to_list() == ["a,b"]
    write_frame(found.frame, tmp_path / "again.csv", found.separator)
    assert (tmp_path / "again.csv").read_text() == text


def test_a_table_without_a_header_gets_names(tmp_path: Path) -> None:
    found = read(tmp_path / "t.tsv", "a\tr\tb\t1990\t\nc\tr\td\t\t1991\n")
    assert found.frame.columns == ["subject", "relation", "object", "begin", "end"]
    assert found.frame.height == 2


def test_encodings_marks_and_gzip(tmp_path: Path) -> None:
    text = "subject,relation,object\nZoë,r,b\n"
    assert read(tmp_path / "t.csv", text.encode("cp1252"), "cp1252").frame["subject"][0] == "Zoë"
    assert read(tmp_path / "t.csv", text.encode("utf-8-sig")).frame.columns[0] == "subject"
    assert read(tmp_path / "t.csv.gz", gzip.compress(text.encode())).frame["subject"][0] == "Zoë"


def test_json_lines_and_parquet(tmp_path: Path) -> None:
    rows = [
        {"subject": "a", "relation": "r", "object": None, "begin": 1990, "more": [1, 2]},
        {"subject": "b", "x": 1.5},
    ]
    found = read(tmp_path / "t.jsonl", "\n".join(json.dumps(row) for row in rows) + "\n\n")
    assert found.frame.columns == ["subject", "relation", "object", "begin", "more", "x"]
    assert found.frame["begin"].to_list() == [1990, None]
    assert found.frame["more"][0].to_list() == [1, 2]
    frame = pl.DataFrame({"subject": ["a"], "relation": ["r"], "object": ["b"], "year": [1990]})
    frame.write_parquet(tmp_path / "t.parquet")
    whole = read_source_table(tmp_path / "t.parquet", columns=Columns())
    assert whole.frame.equals(frame)
    assert whole.layout.begin == 3


@pytest.mark.parametrize(
    ("name", "data", "encoding", "message"),
    [
        ("t.csv", HEADER + "a,r,b,1,2,3,4\n", None, "Line 2 of {} has 7 fields instead of 6."),
        ("t.csv", HEADER + 'a,r,"b,1,2,3\n', None, "Line 2 of {} is not CSV: unexpected end of data."),
        ("t.csv", b"subject,relation,object\nZo\xeb,r,b\n", None, "{} is not UTF-8 text. Give its encoding=."),
        ("t.csv", b"a\0b", None, "{} is not a table of text."),
        ("t.csv", "", None, "{} is empty."),
        ("t.csv", HEADER, None, "{} is empty."),
        ("t.csv", "subject,relation,object,x,x\na,b,c,d,e\n", None, "Two columns of {} have the same name."),
        ("t.csv", "x,y\n1,2\n", None, "{} has no column for the subject, the relation, the object."),
        ("t.jsonl", "{}\n[1]\n", None, "Line 2 of {} is not an object."),
        ("t.jsonl", '{"a": {"b": 1}}\n{"a": "x"}\n', None, "'a' of {} mixes lists or objects with other values."),
        ("t.jsonl", "{\n", None, "Line 1 of {} is not JSON."),
        ("t.jsonl", "\n", None, "{} is empty."),
        ("t.parquet", b"PAR1", None, "{} is not a readable Parquet file."),
        ("t.parquet", b"PAR1", "utf-8", "{} has its encoding fixed by its format."),
        ("t.xls", b"", None, "{} has no suffix that says what it is."),
        ("t.xlsx", b"", None, "{} is not a readable spreadsheet."),
        ("t.json", "[1]", None, "{} is not an array of objects."),
        ("t.json", "[", None, "{} is not JSON."),
        ("t.csv.gz", b"no", None, "{} is not a whole gzip file."),
    ],
)
def test_what_cannot_be_kept_is_refused(
    tmp_path: Path, name: str, data: str | bytes, encoding: str | None, message: str
) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path / name, data, encoding)
    assert str(error.value).startswith(message.replace("{}", str(tmp_path / name), 1))


def test_folders_and_absent_files(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match="is a folder, not a file"):
        read_source_table(tmp_path / "folder.csv", columns=Columns())
    with pytest.raises(InputError, match="does not exist"):
        read_source_table(tmp_path / "absent.csv", columns=Columns())
    check_format(Path("t.NDJSON.gz"))


def test_an_empty_frame_is_refused() -> None:
    with pytest.raises(InputError, match="it is empty"):
        layout_of(pl.DataFrame({"subject": []}), Columns(), "it")


def test_places_are_looked_at_without_a_trace(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b" / "c.csv")
    check_writable(tmp_path / "c.csv")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match="is a folder"):
        check_writable(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        check_writable(tmp_path / "file" / "c.csv")
