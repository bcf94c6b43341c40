"""Dates as people write them: the tables of docs/dates.md row by row, and what columns decide together."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from timeplex.errors import InputError
from timeplex.kb import date_spellings, dates, spans
from timeplex.kb.date_spellings import DateStyle
from timeplex.kb.dates import Dates, Granularity, State

PAGE = Path(__file__).parents[2] / "docs" / "dates.md"
UNITS = (Granularity.YEAR, Granularity.MONTH, Granularity.DAY)


def table() -> list[tuple[str, str, str]]:
    """(text, option, meaning) of all rows of the page."""
    rows = []
    for section in PAGE.read_text(encoding="utf-8").split("\n## "):
        found = re.search(r"^\| text \|.*\n\|[-|]+\n((?:\|.*\n?)+)", section, re.MULTILINE)
        if found:
            header = [cell.strip() for cell in found[0].splitlines()[0].strip("|").split("|")]
            for line in found[1].splitlines():
                row = dict(zip(header, (cell.strip(" ") for cell in line.strip("|").split("|")), strict=True))
                rows.append((row["text"][1:-1], row.get("option", "").strip("`"), row["means"]))
    return rows


def style(option: str) -> DateStyle:
    name, _, value = option.partition(" ")
    options = {
        "": DateStyle(),
        "--dayfirst": DateStyle(dayfirst=True),
        "--monthfirst": DateStyle(dayfirst=False),
    }
    return options.get(name) or (DateStyle(format=value) if name == "--date-format" else DateStyle(language=value))


def meaning(read: Dates, row: int = 0) -> str:
    """What was read, in the words of the page."""
    if read.state[row] != State.KNOWN:
        return {State.OPEN: "open", State.UNKNOWN_YEAR: "year not known"}.get(State(read.state[row]), "unreadable")
    unit = UNITS[int(read.precision[row]) - 1]
    first, last = (int(side[row]) for side in dates.place(read, unit))
    about = "about " if read.approximate[row] else ""
    if first == spans.OPEN_BEGIN:
        return f"{about}up to {dates.write([last], unit)[0]}"
    if last == spans.OPEN_END:
        return f"{about}from {dates.write([first], unit)[0]}"
    return about + " to ".join(dict.fromkeys(dates.write([first, last], unit)))


def test_the_page_has_the_spellings_that_were_promised() -> None:
    rows = table()
    assert len({row[:2] for row in rows}) >= 300
    meanings = [row[2] for row in rows]
    assert meanings.count("unreadable") >= 25
    assert meanings.count("open") >= 25


@pytest.mark.parametrize(("text", "option", "means"), table())
def test_every_row_of_the_page(text: str, option: str, means: str) -> None:
    assert meaning(date_spellings.parse(pl.Series([text]), style(option))) == means


def test_each_text_of_a_column_is_read_as_alone() -> None:
    texts = [text for text, option, _ in table() if not option]
    together = date_spellings.parse(pl.Series([*texts, *texts[::-1]]))
    alone = [meaning(date_spellings.parse(pl.Series([text]))) for text in texts]
    assert [meaning(together, row) for row in range(len(together.state))] == alone + alone[::-1]


# What the columns show


def read(*columns: list[str], **options: object) -> tuple[list[list[str]], date_spellings.Decided]:
    found, decided = date_spellings.parse_together([pl.Series(column) for column in columns], DateStyle(**options))
    return [[meaning(column, row) for row in range(len(column.state))] for column in found], decided


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([["1/2/1999", "31/12/1999"]], [["1999-02-01", "1999-12-31"]]),
        ([["1/2/1999", "12/31/1999"]], [["1999-01-02", "1999-12-31"]]),
        ([["1/2/1999"], ["31/12/1999"]], [["1999-02-01"], ["1999-12-31"]]),  # another column
        ([["1/2/1999"], ["31.12.1999"]], [["1999-02-01"], ["1999-12-31"]]),  # another separator
        ([["1/2/1999", "31/12/1999", "12/31/1999"]], [["unreadable", "1999-12-31", "1999-12-31"]]),
        ([["1.2.1999", "31/12/1999", "12/31/1999"]], [["1999-02-01", "1999-12-31", "1999-12-31"]]),
        ([["1/2/1999", "3/4/1999"]], [["1999-02-01", "1999-04-03"]]),  # nothing shows it
        ([["1/1/1999", "2/1/1999"]], [["1999-01-01", "1999-02-01"]]),  # the first of each month
        ([["1/1/1999", "1/2/1999"]], [["1999-01-01", "1999-02-01"]]),
        ([["31/31/1999", "1/2/1999"]], [["unreadable", "1999-02-01"]]),  # shows nothing
        ([["31/12/99", "1/2/1999"]], [["unreadable", "1999-02-01"]]),
    ],
)
def test_the_columns_show_whether_the_day_comes_first(columns: list[list[str]], expected: list[list[str]]) -> None:
    assert read(*columns)[0] == expected
    assert read(*(column[::-1] for column in columns[::-1]))[0] == [column[::-1] for column in expected[::-1]]


def test_what_was_decided_is_told() -> None:
    assert read(["1/2/1999", "31/12/1999"])[1].shown_by == "31/12/1999"
    assert read(["1/2/1999", "12/31/1999"])[1].style.dayfirst is False
    assert read(["1/2/1999", "12/31/1999", "31/12/1999"])[1].contradicting
    assert read(["1/2/1999"])[1].assumed
    for clear in (["1.2.1999"], ["5/5/1999"], ["1999"], []):
        assert read(clear)[1] == date_spellings.Decided(DateStyle())
    assert not read(["1/2/1999"], dayfirst=False)[1].assumed


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ([["36525", "36526.5"], ["", "present"]], [["1999-12-31", "2000-01-01"], ["open", "open"]]),
        ([["36525", "1999"]], [["unreadable", "1999"]]),
        ([["36525"], ["1999-12-31"]], [["unreadable"], ["1999-12-31"]]),
        ([["36525", "soon"]], [["unreadable", "unreadable"]]),
        ([["365250"]], [["unreadable"]]),
    ],
)
def test_numbers_are_days_of_a_spreadsheet_if_all_are(columns: list[list[str]], expected: list[list[str]]) -> None:
    assert read(*columns)[0] == expected


@pytest.mark.parametrize("wrong", ["%d/%m", "%q", "%Y %y", "%Y %Y", "soon", "%", "%m %b %Y"])
def test_a_format_that_cannot_be_used(wrong: str) -> None:
    with pytest.raises(InputError, match="date format"):
        DateStyle(format=wrong)


def test_a_language_that_is_not_known() -> None:
    with pytest.raises(InputError, match="Known are en, de"):
        DateStyle(language="tlh")


def test_days_of_spreadsheets_are_those_of_the_calendar() -> None:
    numbers = np.arange(61, 120_000, 379)
    found = date_spellings.parse(pl.Series([str(number) for number in numbers]), DateStyle(format="excel"))
    np.testing.assert_array_equal(found.first, numbers - 25_569)  # 25,569 is 1970-01-01
