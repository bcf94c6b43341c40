"""Laws of reading dates: the fast reader is the slow one, every spelling of a day is that day, nothing is an error."""

import calendar
from random import Random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kb.test_spellings import table
from tests.slow_dates import Meaning, slow_date

from timeplex.kb import date_spellings, dates, spans
from timeplex.kb.date_forms import month_numbers
from timeplex.kb.date_spellings import DateStyle
from timeplex.kb.dates import Granularity, State

TEXTS = sorted({text for text, option, _ in table() if not option})
STATES = {State.OPEN: "open", State.KNOWN: "known", State.UNKNOWN_YEAR: "unknown year", State.UNREADABLE: "unreadable"}
WORDS = ("c. ", "ca. ", "the ", " of ", "before ", "after ", " bc", "ad ", "s", "th", " century", " to ")
PIECES = [*"0123456789/.-–: ,?~#xX'[]()+<>", *month_numbers(), *WORDS]


def fast(texts: list[str], dayfirst: bool | None) -> list[Meaning]:
    read = date_spellings.parse(pl.Series(texts, dtype=pl.String), DateStyle(dayfirst=dayfirst))
    columns = (read.state, read.first, read.last, read.precision, read.approximate)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [
        (
            STATES[State(state)],
            None if first == spans.OPEN_BEGIN else first,
            None if last == spans.OPEN_END else last,
            precision,
            approximate,
        )
        for state, first, last, precision, approximate in rows
    ]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A spelling with a few characters changed, put in or left out."""
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        kept = at + draw(st.integers(0, 2))
        text = text[:at] + draw(st.sampled_from(["", *PIECES])) + text[kept:]
    return draw(st.sampled_from([text, text.upper(), text.lower(), f" {text} "]))


def test_the_slow_reader_reads_the_page() -> None:
    assert dict(zip(TEXTS, fast(TEXTS, None), strict=True)) == {text: slow_date(text) for text in TEXTS}


@settings(max_examples=30)
@given(st.lists(mutated(), min_size=1, max_size=30), st.sampled_from([None, True, False]))
def test_the_fast_reader_is_the_slow_one(texts: list[str], dayfirst: bool | None) -> None:
    expected = {text: slow_date(text, dayfirst) for text in texts}
    assert dict(zip(texts, fast(texts, dayfirst), strict=True)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("dayfirst", [None, True, False])
def test_the_fast_reader_is_the_slow_one_for_many(dayfirst: bool | None) -> None:
    random = Random(f"{dayfirst}")
    texts = []
    for _ in range(8000):
        text = random.choice(TEXTS)
        for _ in range(random.randint(1, 3)):
            at = random.randint(0, len(text))
            text = (
                text[:at]
                + random.choice(random.choice([["", *PIECES], "0123456789"]))
                + text[at + random.randint(0, 2) :]
            )
        texts.append(text)
    expected = {text: slow_date(text, dayfirst) for text in texts}
    assert dict(zip(texts, fast(texts, dayfirst), strict=True)) == expected
    assert sum(meaning[0] == "known" for meaning in expected.values()) > 600  # they are not all nonsense


@settings(max_examples=30)
@given(st.integers(100, 9999), st.integers(1, 12), st.data())
def test_every_spelling_of_a_day_is_that_day(year: int, month: int, data: st.DataObject) -> None:
    of_month = data.draw(st.integers(1, calendar.monthrange(year, month)[1]))
    name, short = calendar.month_name[month], calendar.month_abbr[month]
    forms = [
        *(f"{of_month} {name} {year}", f"{name} {of_month}, {year}", f"{of_month:02}-{short}-{year}"),
        *(f"{of_month}.{month}.{year}", f"{of_month:02}/{month:02}/{year}", f"the {of_month}th of {name}, {year}"),
        *(f"{of_month} {short}. {year}", f"{of_month}/{month}/{year} 23:59", f"c. {of_month} {name} {year}"),
    ]
    day = int(dates.day_number(year, month, of_month))
    about = [form.startswith("c.") for form in forms]
    assert fast(forms, True) == [("known", day, day, 3, approximate) for approximate in about]
    assert fast([f"{month}/{of_month}/{year}"], False) == [("known", day, day, 3, False)]
    for pattern in ("%d.%m.%Y", "%m/%d/%Y", "%B %d %Y", "%Y%j"):
        text = _by_format(pattern, year, month, of_month)
        read = date_spellings.parse(pl.Series([text]), DateStyle(format=pattern))
        assert (read.first.tolist(), read.last.tolist()) == ([day], [day])


def _by_format(pattern: str, year: int, month: int, of_month: int) -> str:
    ordinal = int(dates.day_number(year, month, of_month) - dates.day_number(year, 1, 1)) + 1
    values = {"%d": of_month, "%m": month, "%Y": f"{year:04}", "%B": calendar.month_name[month], "%j": f"{ordinal:03}"}
    for directive, value in values.items():
        pattern = pattern.replace(directive, str(value))
    return pattern


@settings(max_examples=40)
@given(st.integers(-9999, 9999), st.integers(-9999, 9999))
def test_ranges_of_years(one: int, other: int) -> None:
    first, last = sorted((one, other))
    read = date_spellings.parse(pl.Series([f"between {first} and {last}", f"before {last}", f"after {first}"]))
    begin, end = dates.place(read, Granularity.YEAR)
    assert (begin[0], end[0]) == (first, last)
    assert (begin[1], end[1]) == (spans.OPEN_BEGIN, last - 1) or last == -9999
    assert (begin[2], end[2]) == (first + 1, spans.OPEN_END) or first == 9999


@settings(max_examples=30)
@given(
    st.lists(st.none() | st.text(max_size=12) | st.text("".join(PIECES), max_size=12)),
    st.sampled_from(["en", "de", "fr"]),
)
def test_no_text_is_an_error(texts: list[str | None], language: str) -> None:
    column = pl.Series(texts, dtype=pl.String)
    (read,), _ = date_spellings.parse_together([column], DateStyle(language=language))
    assert len(read.state) == len(texts)
    for pattern in ("%d/%m/%y", "excel"):
        date_spellings.parse(column, DateStyle(format=pattern, language=language))
