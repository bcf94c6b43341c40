"""Laws of tables: the same facts whatever the library, the types and the names of the columns; and clear errors."""

import json
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies import names, triples, write

from timeplex.errors import InputError
from timeplex.kb.date_spellings import DateStyle
from timeplex.kb.dates import Granularity
from timeplex.kb.problems import Action, Kind
from timeplex.kb.readers import from_table, read_files
from timeplex.kb.readers.table import BY_POSITION, KNOWN_NAMES, ROLES, Columns

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
PANDAS_3 = int(pd.__version__.partition(".")[0]) >= 3
# Before pandas 3, its type for texts made a text of None, and zones did not reach far back.
TEXTS = "str" if PANDAS_3 else object
PANDAS_ZONE = ZONE if PANDAS_3 else timezone(timedelta(hours=9))

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
        "texts": lambda years: pd.array(_texts(years), dtype=TEXTS),
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
        "times of a zone": lambda days: pd.Series(_nights(days), dtype="datetime64[us]").dt.tz_localize(PANDAS_ZONE),
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
    expected = from_table(pl.DataFrame(plain, schema_overrides=dict.fromkeys(ROLES, pl.String)))
    read = from_table(FRAMES[library](typed))
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
    kb = from_table(FRAMES[library](frame))
    assert list(kb.entities) == ["1", "12", "2", "7"]
    assert kb.problems.frame.select("line", "kind", "action", "field").rows() == [
        (3, Kind.EMPTY_FIELD, Action.SET_ASIDE, "subject")
    ]


@pytest.mark.parametrize("library", FRAMES)
def test_booleans_are_names_alike(library: str) -> None:
    kb = from_table(FRAMES[library]({"s": [True, False], "r": ["r", "r"], "o": ["a", "b"]}))
    assert list(kb.entities) == ["a", "b", "false", "true"]


def far_days(library: str) -> Any:
    numbers = [2**31 - 1, -(2**31), 0]
    return pl.Series(numbers, dtype=pl.Int32).cast(pl.Date) if library == "polars" else pa.array(numbers, pa.date32())


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_days_beyond_any_calendar_are_reported(library: str) -> None:
    frame = {"s": ["a", "b", "c"], "r": ["r"] * 3, "o": ["x"] * 3, "begin": far_days(library)}
    kb = from_table(FRAMES[library](frame), granularity=Granularity.DAY, style=DateStyle(allow_unread=True))
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
        from_table(frame)
    assert "\n" not in str(error.value)


# Which column is which


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
    assert triples(from_table(frame)) == [tuple(fact.values())]


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
        ("s,r,o,from,to date", True),  # which stands for an open end, too
        ("s,r,o,current,now", True),
        ("a,b,c,1/2/1999,", False),
        ("a,b,c,31/12/99,", False),  # dates that need an option are no names
        ("a,b,c,36525,36600", False),
        ("a,b,c,3 March 1821,present", False),
    ],
)
def test_what_a_header_is(first: str, is_header: bool, tmp_path: Path) -> None:
    path = write(tmp_path, "f.csv", f"{first}\n{','.join(('x', 'y', 'z', '1990', '1995')[: first.count(',') + 1])}\n")
    kb = read_files([path], style=DateStyle(allow_unread=True))
    assert kb.problems.rows_read == 2 - is_header


def test_reasons_are_one_line(tmp_path: Path) -> None:
    path = write(tmp_path, "f.csv", 'subject,relation,object,begin,end\na,r,b,"\n2001\n"," 1999\n"\n')
    kb = read_files([path])
    assert triples(kb) == [("a", "r", "b", "2001", "2001")]
    assert kb.problems.frame.select("line", "kind", "action", "field", "reason").rows() == [
        (2, Kind.BEGIN_AFTER_END, Action.REPAIRED, "end", "it begins 2001 and ends 1999; the end was set to the begin")
    ]


def test_an_event_has_one_date(tmp_path: Path) -> None:
    path = write(tmp_path, "f.csv", "subject,relation,object,date\na,r,b,1990-05\na,r,c,\na,r,d,soon\n")
    kb = read_files([path], style=DateStyle(allow_unread=True))
    assert triples(kb) == [
        ("a", "r", "b", "1990-05", "1990-05"),
        ("a", "r", "c", None, None),
        ("a", "r", "d", None, None),
    ]
    assert kb.problems.frame.select("line", "kind", "field").rows() == [(4, Kind.UNREADABLE_DATE, "begin and end")]


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
