"""Laws of tables: the same facts whatever the library, the types and the names of the columns; and clear errors."""

import gzip
import json
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import names

from timeplex.errors import InputError, TimeplexError
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import TemporalKB
from timeplex.kb.problems import Action, Kind
from timeplex.kb.readers import READERS, from_frame, read_files, read_folder
from timeplex.kb.readers.columns import BY_POSITION, KNOWN_NAMES, Columns
from timeplex.kb.table import ROLES
from timeplex.kb.write import write_frame

# The same table in three libraries, with every type that a column can have


def _floats(values: Sequence[int | None]) -> list[float]:
    return [float("nan") if value is None else float(value) for value in values]


def _nights(values: Sequence[date | None]) -> list[datetime | None]:
    """A time of each day that belongs to the day before where the sun rises later."""
    return [None if value is None else datetime.combine(value, time(1, 30)) for value in values]


def _texts(values: Sequence[Any]) -> list[str | None]:
    return [None if value is None else str(value) for value in values]


Column = Callable[[Sequence[Any]], Any]
ZONE = "Asia/Tokyo"

YEARS: dict[str, dict[str, Column]] = {
    "polars": {
        "integers": lambda years: pl.Series(years, dtype=pl.Int64),
        "small integers": lambda years: pl.Series(years, dtype=pl.Int16),
        "floats with NaN": lambda years: pl.Series(_floats(years), dtype=pl.Float64),
        "floats with null": lambda years: pl.Series(years, dtype=pl.Float32),
        "decimals": lambda years: pl.Series(years, dtype=pl.Int64).cast(pl.Decimal(8, 2)),
        "texts": lambda years: pl.Series(_texts(years), dtype=pl.String),
        "categories": lambda years: pl.Series(_texts(years), dtype=pl.String).cast(pl.Categorical),
        "objects": lambda years: pl.Series(years, dtype=pl.Object),
    },
    "pandas": {
        "integers": lambda years: pd.array(years, dtype="Int64"),
        "floats with NaN": lambda years: pd.Series(_floats(years), dtype="float64"),
        "floats with NA": lambda years: pd.array(years, dtype="Float64"),
        "texts": lambda years: pd.array(_texts(years), dtype="str"),
        "texts with NA": lambda years: pd.array(_texts(years), dtype="string"),
        "categories": lambda years: pd.Categorical(_texts(years)),
        "categories of integers": lambda years: pd.Categorical(years),
        "objects": lambda years: pd.Series(years, dtype=object),
        "objects with NA": lambda years: pd.Series([pd.NA if year is None else year for year in years], dtype=object),
        "arrow": lambda years: pd.array(years, dtype="int64[pyarrow]"),
    },
    "pyarrow": {
        "integers": lambda years: pa.array(years, pa.int64()),
        "floats with NaN": lambda years: pa.array(_floats(years), pa.float64()),
        "floats with null": lambda years: pa.array(years, pa.float32()),
        "texts": lambda years: pa.array(_texts(years), pa.string()),
        "categories": lambda years: pa.array(_texts(years), pa.string()).dictionary_encode(),
    },
}
DAYS: dict[str, dict[str, Column]] = {
    "polars": {
        "dates": lambda days: pl.Series(days, dtype=pl.Date),
        "times": lambda days: pl.Series(_nights(days), dtype=pl.Datetime("us")),
        "times of a zone": lambda days: pl.Series(_nights(days)).cast(pl.Datetime("ms")).dt.replace_time_zone(ZONE),
    },
    "pandas": {
        "dates": lambda days: pd.Series(days, dtype=object),
        "times": lambda days: pd.Series(_nights(days), dtype="datetime64[us]"),
        "times of a zone": lambda days: pd.Series(_nights(days), dtype="datetime64[us]").dt.tz_localize(ZONE),
        "arrow": lambda days: pd.array(days, dtype="date32[pyarrow]"),
    },
    "pyarrow": {
        "dates": lambda days: pa.array(days, pa.date32()),
        "long dates": lambda days: pa.array(days, pa.date64()),
        "times": lambda days: pa.array(_nights(days), pa.timestamp("us")),
    },
}  # fmt: skip
FRAMES: dict[str, Callable[..., Any]] = {"polars": pl.DataFrame, "pandas": pd.DataFrame, "pyarrow": pa.table}


def cases(columns: dict[str, dict[str, Column]], without: str = "") -> list[Any]:
    return [
        pytest.param(library, column, id=f"{library}-{kind}")
        for library, kinds in columns.items()
        for kind, column in kinds.items()
        if kind != without
    ]


def check_typed(library: str, column: Column, begins: Sequence[Any], ends: Sequence[Any], who: Sequence[Any]) -> None:
    """The table with typed dates and names says the same as one of plain texts."""
    count = range(len(begins))
    rest = {"relation": ["r"] * len(begins), "object": [f"o{number}" for number in count]}
    typed = {"subject": who, **rest, "begin": column(begins), "end": column(ends)}
    plain = {"subject": _texts(who), **rest, "begin": _texts(begins), "end": _texts(ends)}
    expected = from_frame(pl.DataFrame(plain, schema_overrides=dict.fromkeys(ROLES, pl.String)))
    read = from_frame(FRAMES[library](typed))
    assert read == expected
    assert read.digest == expected.digest
    assert read.problems.counts() == expected.problems.counts()
    assert len(read) == len(begins) - sum(name is None for name in who)


YEAR = st.none() | st.integers(-9999, 9999) | st.integers(1900, 2030)
DAY = st.none() | st.dates()


@pytest.mark.parametrize(("library", "column"), cases(YEARS))
@settings(max_examples=8)
@given(st.lists(st.tuples(YEAR, YEAR, names()), min_size=1, max_size=6))
def test_years_of_any_type(library: str, column: Column, rows: list[tuple[int | None, int | None, str]]) -> None:
    begins, ends, who = (list(part) for part in zip(*rows, strict=True))
    check_typed(library, column, begins, ends, who)


@pytest.mark.parametrize(("library", "column"), cases(DAYS))
@settings(max_examples=8)
@given(st.lists(st.tuples(DAY, DAY, names()), min_size=1, max_size=6))
def test_days_of_any_type(library: str, column: Column, rows: list[tuple[date | None, date | None, str]]) -> None:
    begins, ends, who = (list(part) for part in zip(*rows, strict=True))
    check_typed(library, column, begins, ends, who)


@pytest.mark.parametrize(("library", "column"), cases(YEARS, without="decimals"))
def test_names_of_any_type(library: str, column: Column) -> None:
    """Numbers are names, too: without a point, whatever the library made of them; one that is missing is missing."""
    frame = {"subject": column([7, 12, None]), "relation": ["r"] * 3, "object": column([1, 2, 3])}
    kb = from_frame(FRAMES[library](frame))
    assert list(kb.entities) == ["1", "12", "2", "7"]
    assert kb.problems.frame.select("line", "kind", "action", "field").rows() == [
        (3, Kind.EMPTY_FIELD, Action.SET_ASIDE, "subject")
    ]


@pytest.mark.parametrize("library", FRAMES)
def test_booleans_are_names_alike(library: str) -> None:
    kb = from_frame(FRAMES[library]({"s": [True, False], "r": ["r", "r"], "o": ["a", "b"]}))
    assert list(kb.entities) == ["a", "b", "false", "true"]


def far_days(library: str) -> Any:
    numbers = [2**31 - 1, -(2**31), 0]
    return pl.Series(numbers, dtype=pl.Int32).cast(pl.Date) if library == "polars" else pa.array(numbers, pa.date32())


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_days_beyond_any_calendar_are_reported(library: str) -> None:
    frame = {"s": ["a", "b", "c"], "r": ["r"] * 3, "o": ["x"] * 3, "begin": far_days(library)}
    kb = from_frame(FRAMES[library](frame), granularity=Granularity.DAY)
    assert len(kb) == 3
    assert kb.problems.of(Kind.UNREADABLE_DATE)["line"].to_list() == [1, 2]
    assert kb.to_polars()["begin"].to_list() == [None, None, "1970-01-01"]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pl.DataFrame(), "is empty"),
        (pl.DataFrame({"s": [], "r": [], "o": []}), "is empty"),
        (pl.LazyFrame({"s": ["a"]}), "LazyFrame is not a table"),
        (pd.Series(["a"]), "Series is not a table"),
        ({"s": ["a"]}, "dict is not a table"),
        (pd.DataFrame([["a", "r", "b", "c"]], columns=["s", "r", "o", "o"]), "the same name"),
        (pl.DataFrame({"s": [["a"]], "r": ["r"], "o": ["b"]}), "'s' of DataFrame holds List"),
        (pl.DataFrame({"s": [b"a"], "r": ["r"], "o": ["b"]}), "'s' of DataFrame holds Binary"),
        (pl.DataFrame({"s": ["a"], "r": ["r"], "o": ["b"], "begin": [time(1)]}), "'begin' of DataFrame holds Time"),
        (pl.DataFrame({"s": ["a"], "r": ["r"], "x": ["b"]}), "no column for the object. Its columns are: s, r, x"),
        (pd.DataFrame({1: ["a"], 2: ["b"]}), "Its columns are: 1, 2"),
        (pl.DataFrame({"two\nlines": ["a"], "\x1b[31m": ["b"]}), "Its columns are: 'two\\\\nlines', '\\\\x1b"),
    ],
)  # fmt: skip
def test_a_frame_that_cannot_be_read(frame: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        from_frame(frame)
    assert "\n" not in str(error.value)


# Which column is which


def triples(kb: TemporalKB) -> list[tuple[Any, ...]]:
    return kb.to_polars().drop("split").rows()


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_columns_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, "f.csv", "to,who,note,where,what,from\n1999,Ada,x,Acme,worksFor,1990\n")
    own = Columns(subject="who", relation="what", object="where", begin="from", end="to")
    assert triples(read_files([path], columns=own)) == [("Ada", "worksFor", "Acme", "1990", "1999")]
    swapped = Columns(subject="where", relation="what", object="who", begin="from")  # the end is found by itself
    assert triples(read_files([path], columns=swapped)) == [("Acme", "worksFor", "Ada", "1990", "1999")]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_one_relation_for_all_rows(suffix: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"person": ["Ada", "Bob"], "value": ["Acme", "Globex"], "year": ["1990", "1991"]})
    path = tmp_path / f"f{suffix}"
    {".csv": frame.write_csv, ".parquet": frame.write_parquet, ".jsonl": frame.write_ndjson}[suffix](path)
    kb = read_files([path], columns=Columns(relation="=worksFor"))
    assert triples(kb) == [("Ada", "worksFor", "Acme", "1990", "1990"), ("Bob", "worksFor", "Globex", "1991", "1991")]


@settings(max_examples=60)
@given(st.data())
def test_usual_names_in_any_order_and_spelling(data: st.DataObject) -> None:
    header = {role: data.draw(st.sampled_from(KNOWN_NAMES[role]), label=role) for role in ROLES}
    for role in ("begin", "end"):
        header[role] += data.draw(st.sampled_from(["", "_date", " Date", "_time", " year"]))
    spelling = data.draw(st.sampled_from([str.upper, str.title, str.lower, " {} ".format]))
    fact = dict(zip(ROLES, ("Ada", "worksFor", "Acme", "1990", "1999"), strict=True))
    order = data.draw(st.permutations(ROLES))
    frame = pl.DataFrame({spelling(header[role]): [fact[role]] for role in order})
    assert triples(from_frame(frame)) == [tuple(fact.values())]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
@pytest.mark.parametrize("width", BY_POSITION)
def test_without_header(suffix: str, width: int, tmp_path: Path) -> None:
    rows = [("Ada", "worksFor", "Acme", "1990", "1999"), ("Bob", "bornIn", "Rome", "1970", "1970")]
    separator = "," if suffix == ".csv" else "\t"
    path = write(tmp_path, f"f{suffix}", "".join(separator.join(row[:width]) + "\n" for row in rows))
    expected = {
        3: [(*row[:3], None, None) for row in rows],
        4: [(*row[:4], row[3]) for row in rows],  # one date: an event
        5: rows,
    }
    kb = read_files([path])
    assert triples(kb) == expected[width]
    assert len(kb.problems) == 0


@pytest.mark.parametrize(
    ("first", "is_header"),
    [
        ("subject,relation,object,begin,end", True),
        ("S,P,O,when,", True),  # the last column has no name
        ("subject,relation,object", True),
        ("subject,relation,object,,", True),
        ("subject,relation,object,1990,1991", False),  # a fact about words
        ("subject,relation,object,####-##-##,####-##-##", False),
        ("a,b,c", False),
        ("a,b,c,soon,1991", False),  # an unreadable date beside a readable one
        ("a,b,c,,", False),
    ],
)
def test_what_a_header_is(first: str, is_header: bool, tmp_path: Path) -> None:
    path = write(tmp_path, "f.csv", f"{first}\n{','.join(('x', 'y', 'z', '1990', '1995')[: first.count(',') + 1])}\n")
    assert read_files([path]).problems.rows_read == 2 - is_header


def test_an_event_has_one_date(tmp_path: Path) -> None:
    path = write(tmp_path, "f.csv", "subject,relation,object,date\na,r,b,1990-05\na,r,c,\na,r,d,soon\n")
    kb = read_files([path])
    assert triples(kb) == [
        ("a", "r", "b", "1990-05", "1990-05"),
        ("a", "r", "c", None, None),
        ("a", "r", "d", None, None),
    ]
    assert kb.problems.frame.select("line", "kind", "field").rows() == [(4, Kind.UNREADABLE_DATE, "begin")]


@pytest.mark.parametrize(
    ("header", "columns", "message"),
    [
        ("who,relation,object,date", Columns(), "column for the subject. Its columns are: who, relation, object, date"),
        (
            "subject,what,object,date",
            Columns(),
            "column for the relation. Its columns are: subject, what, object, date",
        ),
        ("who,what,where", Columns(subject="whom"), "no column 'whom'. Its columns are: who, what, where"),
        ("subject,relation,object", Columns(end="until"), "no column 'until'. Its columns are: subject"),
        ("subject,relation,object", Columns(object="subject"), "Two roles of .* one column"),
        ("subject,relation,object,year", Columns(begin="year", end="year"), "Two roles of .* one column"),
        ("a,b,c,d,e,f", Columns(), "no column for the subject"),
        ("," * 5000, Columns(), "no column for the subject"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_columns_that_cannot_be_found(header: str, columns: Columns, message: str, suffix: str, tmp_path: Path) -> None:
    content = f"{header}\n{header}\n" if suffix == ".csv" else json.dumps(dict.fromkeys(header.split(","), "x"))
    with pytest.raises(InputError, match=message) as error:
        read_files([write(tmp_path, f"f{suffix}", content)], columns=columns)
    assert len(str(error.value)) < 1000


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
    ("facts.xlsx", FACTS, "no suffix that says how to read it. Known are .csv, "),
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
        (lambda: read_files([facts], encoding="klingon"), "'klingon' is not an encoding"),
        (lambda: read_files([facts], encoding="utf\0"), "is not an encoding"),
        (lambda: read_files([facts], encoding="base64"), "'base64' is not an encoding"),
        (lambda: read_files([facts], encoding="utf-32"), "is not text in utf-32"),
        (lambda: read_files([write(tmp_path, "f.jsonl", b"{}")], encoding="cp1252"), "encoding fixed by its format"),
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
    assert triples(from_frame(objects)) == [("?", "r", "o", None, None)]
    with pytest.raises(InputError, match="no column for the subject") as error:
        read_files([write(tmp_path, "g.jsonl", r'{"\ud800": 1}')])
    assert str(error.value).isprintable()


def test_encodings(tmp_path: Path) -> None:
    text = "subject,relation,object\nZoë,kennt,Jürgen\n"
    expected = [("Zoë", "kennt", "Jürgen", None, None)]
    for number, (encoding, given_encoding) in enumerate([("utf-8-sig", None), ("utf-16", None), ("cp1252", "cp1252")]):
        path = write(tmp_path, f"{number}.csv", text.encode(encoding))
        assert triples(read_files([path], encoding=given_encoding)) == expected
    unsaid = read_files([write(tmp_path, "unsaid.csv", text.encode("cp1252") + b"a,r,b\n")])
    assert triples(unsaid) == [("a", "r", "b", None, None)]
    assert unsaid.problems.frame.select("line", "kind").rows() == [(2, Kind.BAD_ENCODING)]


@pytest.mark.parametrize("suffix", READERS)
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
    expected = from_frame(table)
    path = tmp_path / "facts.parquet"
    for version in ("1.0", "2.0"):
        for compression in ("none", "snappy", "gzip", "zstd", "brotli"):
            for dictionary in (True, False):
                pq.write_table(
                    table, path, compression=compression, use_dictionary=dictionary, data_page_version=version,
                    row_group_size=130, data_page_size=100, write_page_index=dictionary,
                )  # fmt: skip
                assert read_files([path]) == expected
