"""Rows of Python, JSON arrays and spreadsheets say what a table of text says; columns of many trades; names alike."""

import json
import unicodedata
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import names, sheet, triples, write

from timeplex.errors import InputError
from timeplex.kb.names import bare, best_spellings
from timeplex.kb.problems import Action, Kind
from timeplex.kb.readers.table import KNOWN_NAMES, ROLES, Columns, by_header
from timeplex.kb.stats import describe
from timeplex.sources import read

HEADER = ("subject", "relation", "object", "begin", "end")
ROWS = [
    ("Ada", "bornIn", "London", 1815, 1815),
    ("Ada", "worksFor", "Babbage", 1833, None),
    ("Zoë", "r", "o", None, 1850),
]
FACTS = [
    ("Ada", "bornIn", "London", "1815", "1815"),
    ("Ada", "worksFor", "Babbage", "1833", None),
    ("Zoë", "r", "o", None, "1850"),
]
DICTS = [dict(zip(HEADER, row, strict=True)) for row in ROWS]

PYTHON: dict[str, Callable[[], Any]] = {
    "dicts": lambda: DICTS,
    "tuples": lambda: ROWS,
    "tuples after a header": lambda: [HEADER, *ROWS],
    "lists": lambda: [list(row) for row in ROWS],
    "a generator of dicts": lambda: iter(DICTS),
    "a generator of tuples": lambda: (row for row in ROWS),
    "columns": lambda: {name: [row[name] for row in DICTS] for name in HEADER},
    "arrays": lambda: {name: np.array([row[name] for row in DICTS], dtype=object) for name in HEADER},
    "texts": lambda: [tuple(None if value is None else str(value) for value in row) for row in ROWS],
    "floats": lambda: [(*row[:3], *(float("nan") if v is None else float(v) for v in row[3:])) for row in ROWS],
    "days": lambda: [
        (
            *row[:3],
            *(None if v is None else (date(v, 1, 1), datetime(v, 12, 31, 23))[end] for end, v in enumerate(row[3:])),
        )
        for row in ROWS
    ],
}


@pytest.mark.parametrize("kind", PYTHON)
def test_rows_of_python(kind: str) -> None:
    assert triples(read(PYTHON[kind](), granularity="year")) == FACTS


JSON: dict[str, Any] = {
    "objects": DICTS,
    "arrays": [HEADER, *ROWS],
    "arrays without a header": ROWS,
    "in an object": {"version": 1, "about": {"by": ["x"]}, "facts": DICTS, "end": None},
}


@pytest.mark.parametrize("kind", JSON)
@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json(kind: str, indent: int | None, encoding: str, tmp_path: Path) -> None:
    text = json.dumps(JSON[kind], indent=indent, ensure_ascii=False)
    assert triples(read(write(tmp_path, "f.json", text.encode(encoding)))) == FACTS


@pytest.mark.parametrize("suffix", [".xlsx", ".ods"])
def test_sheets(suffix: str, tmp_path: Path) -> None:
    expected = [*FACTS, ("Bo", "r", "2", "1999", "2001")]
    rows = [*ROWS, (), ("Bo", "r", 2, date(1999, 5, 6), 2001.0)]
    table = [["Players of 2020"], [], HEADER, *rows]
    kb = read(write(tmp_path, f"f{suffix}", sheet(suffix, [*table, ["", "r", "o"]])), granularity="year")
    assert triples(kb) == expected
    # Lines are rows of the sheet: two of the title, one of the header, four rows, one that is empty, and this one.
    assert kb.problems.frame.select("line", "kind", "row").rows() == [
        (9, Kind.EMPTY_FIELD, '{"subject": "", "relation": "r", "object": "o", "begin": "", "end": ""}')
    ]
    assert triples(read(write(tmp_path, f"g{suffix}", sheet(suffix, rows)), granularity="year")) == expected


@pytest.mark.parametrize("suffix", [".xlsx", ".ods"])
@given(table=st.lists(st.tuples(*[names(breaking=False)] * 3), min_size=1, max_size=5))
def test_names_survive_in_a_sheet(suffix: str, table: list[tuple[str, ...]], tmp_path_factory: Any) -> None:
    fine = [row for row in table if all(text.isprintable() and text == text.strip() for text in row)]
    if fine:
        path = write(tmp_path_factory.getbasetemp(), f"names{suffix}", sheet(suffix, [HEADER[:3], *fine]))
        assert {row[:3] for row in triples(read(path))} == set(fine)


def test_what_is_wrong_with_rows() -> None:
    kb = read([("a", "r", "b"), ("a", "r"), "text", 7, None, {"subject": "x"}, ("a", "r", "b", 1, 2, 3)])
    assert kb.problems.frame.select("line", "kind").rows() == [
        (2, Kind.COLUMN_COUNT),
        (3, Kind.UNREADABLE_ROW),
        (4, Kind.UNREADABLE_ROW),
        (5, Kind.UNREADABLE_ROW),
        (6, Kind.EMPTY_FIELD),
        (7, Kind.COLUMN_COUNT),
    ]
    assert kb.problems.rows_read == 7 == len(kb) + kb.problems.set_aside


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"subject": ["a"], "object": ["b", "c"]}, "not lists of the same length"),
        ({"subject": "a"}, "not lists of the same length"),
        ({"subject": 1}, "not lists of the same length"),
        ([1, 2], "No row of table is a fact"),
        ([{"x": 1}], "The table has no column for the subject"),
        ({"s": [], "r": [], "o": []}, "is empty"),
        (iter([]), "is empty"),
        ([{f"{n}": 1} for n in range(10_001)], "more than 10,000 columns"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_read(source: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(source)


def test_not_a_time_of_pandas_is_missing() -> None:
    assert triples(read([("a", "r", "b", pd.NaT), ("a", "r", "c", pd.Timestamp("1990-01-01"))])) == [
        ("a", "r", "b", None, None),
        ("a", "r", "c", "1990-01-01", "1990-01-01"),
    ]


# Columns


def test_no_name_of_a_column_stands_for_two_roles() -> None:
    every = [name for of in KNOWN_NAMES.values() for name in of]
    assert len(set(every)) == len(every)


@pytest.mark.parametrize(
    "header",
    [
        "player,position,team,start_date,end_date",
        "Employee,Job Title,Company,Hire Date,Termination Date",
        "name,office,country,valid_from,valid_to",
        "fullName,role,org,validFrom,validUntil",
        "Politician,Office,Party,date-from,date-to",
        "person,occupation,organization,joined,left",
        "person,relationship,organisation,yearStart,year_end",
        "artist,predicate,club,born,died",
    ],
)
def test_columns_of_many_trades(header: str) -> None:
    layout = by_header(header.split(","), Columns(), "f")
    assert layout.positions == [0, 1, 2, 3, 4]


def test_a_column_that_was_named_is_not_guessed_for_another_role() -> None:
    layout = by_header(["person", "name", "club", "role"], Columns(object="person"), "f")
    assert (layout.subject, layout.object) == (1, 0)


def test_columns_that_are_not_used_are_told(tmp_path: Path) -> None:
    text = "subject,note,relation,object,note,,begin\na,1,r,b,2,3,1990\n"
    for name, content in (("f.csv", text), ("f.tsv", text.replace(",", "\t"))):
        problems = read(write(tmp_path, name, content)).problems
        assert (problems.unused_columns, problems.doubled_columns) == (("note",), ("note",))
    for source in ([{**DICTS[0], "note": 1}], pl.DataFrame([{**DICTS[0], "note": 1}])):
        assert read(source).problems.unused_columns == ("note",)
    frame = pl.DataFrame([{**DICTS[0], "note": 1}])
    frame.write_parquet(tmp_path / "f.parquet")
    frame.write_ndjson(tmp_path / "f.jsonl")
    for suffix in ("parquet", "jsonl"):
        assert read(tmp_path / f"f.{suffix}").problems.unused_columns == ("note",)


# Names that may be one


def plain(name: str) -> str:
    """The rule, letter by letter."""
    letters = unicodedata.normalize("NFD", name)
    text = "".join(letter for letter in letters if not "\u0300" <= letter <= "\u036f").lower()
    return " ".join(text.replace("_", " ").split())


SPELLED = st.text(st.sampled_from("aAbéÉe\u0301ßŠ _\u00a0\u2003-"), min_size=1, max_size=5)


@given(st.lists(SPELLED, min_size=1, max_size=12), st.data())
def test_the_commonest_spelling_wins(found: list[str], data: st.DataObject) -> None:
    distinct = pl.Series(found).unique().sort()
    times = np.array([data.draw(st.integers(1, 3)) for _ in distinct])
    best, alike = best_spellings(distinct, times)
    groups: dict[str, list[int]] = {}
    for number, name in enumerate(distinct):
        groups.setdefault(plain(name) or f"{number}", []).append(number)
    for group in groups.values():
        winner = min(group, key=lambda number: (-times[number], number))
        assert {int(best[number]) for number in group} == {winner}
    assert alike.groups == sum(len(group) > 1 for group in groups.values())
    assert bare(distinct).to_list() == [plain(name) for name in distinct]


def test_what_is_more_than_spelling_stays() -> None:
    assert best_spellings(pl.Series(["m2", "m²", "कि", "की"]), np.ones(4, int))[1].groups == 0


@given(st.lists(st.tuples(SPELLED, st.just("r"), SPELLED), min_size=1, max_size=10))
def test_merging_names_keeps_the_law(rows: list[tuple[str, ...]]) -> None:
    rows = [*rows, ("x", "r", "y")]
    apart, merged = read(rows), read(rows, merge_names=True)
    for kb in (apart, merged):
        assert kb.problems.rows_read == len(rows) == len(kb) + kb.problems.set_aside
    assert merged.problems.alike.groups == 0
    assert len({plain(name) or name for name in merged.entities}) == len(merged.entities)
    told = merged.problems.of(Kind.OTHER_SPELLING)
    assert set(told["action"]) <= {str(Action.REPAIRED)}
    assert (len(told) > 0) == (apart.problems.alike.groups > 0)
    assert set(told["field"]) <= set(ROLES[:3])


def test_merging_does_not_depend_on_the_order(tmp_path: Path) -> None:
    rows = [("ZOE", "r", "b"), ("Zoe", "R", "c"), ("zoe", "r", "d"), ("zoe", "r", "B")]
    assert read(rows, merge_names=True) == read(rows[::-1], merge_names=True)


# More problems than can be listed


def test_what_is_not_listed_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("timeplex.kb.problems.LISTED", 3)
    bad = ["a,r,b,1990,1991", "a,r", "x,,y,,", *(f"a{n},r,b,soon,later" for n in range(5)), *["a,r,b,1990,1991"] * 6]
    text = "\n".join(["subject,relation,object,begin,end", *bad, *["a,r"] * 4, *[",r,b,,"] * 4, *["\udcff"] * 5, ""])
    path = write(tmp_path, "f.csv", text.encode(errors="surrogateescape"))
    kb = read(path, allow_unread_dates=True)
    problems = kb.problems
    assert problems.counts() == [
        (Kind.UNREADABLE_DATE, Action.KEPT, 10),
        (Kind.DUPLICATE, Action.SET_ASIDE, 6),
        (Kind.BAD_ENCODING, Action.SET_ASIDE, 5),
        (Kind.EMPTY_FIELD, Action.SET_ASIDE, 5),
        (Kind.COLUMN_COUNT, Action.SET_ASIDE, 5),
    ]
    assert problems.rows_read == 27 - 1 + 1 == len(kb) + problems.set_aside
    assert problems.frame["kind"].value_counts()["count"].to_list() == [3] * 5
    assert len(problems) == 31
    kb.save(tmp_path / "kb")
    again = type(kb).load(tmp_path / "kb").problems
    assert (again.counts(), again.set_aside, again.unlisted) == (
        problems.counts(),
        problems.set_aside,
        problems.unlisted,
    )
    assert describe(kb).unusable_ends == 5
    lines = "\n".join(['{"s": "a", "r": "b", "o": "c"}', *["1"] * 5, *["{"] * 5, *["{}"] * 5])
    listed = read(write(tmp_path, "f.jsonl", lines)).problems
    assert (listed.rows_read, listed.set_aside, listed.frame.height) == (16, 15, 6)
