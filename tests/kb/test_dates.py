"""Dates: the calendar against Python's datetime, every form that is read, and the way to the time axis."""

import calendar
from datetime import date

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeplex.kb import date_spellings, dates, spans
from timeplex.kb.dates import Granularity, State

YEAR, MONTH, DAY = Granularity.YEAR, Granularity.MONTH, Granularity.DAY
OPEN, KNOWN, UNKNOWN_YEAR, UNREADABLE = State
EPOCH = date(1970, 1, 1).toordinal()
CYCLE = 146_097  # days of 400 years
DAYS = int(dates.day_number(-9999, 1, 1)), int(dates.day_number(9999, 12, 31))


@st.composite
def civil_days(draw: st.DrawFn) -> tuple[int, int, int]:
    """Any day of the years −9999 to 9999."""
    year, month = draw(st.integers(-9999, 9999)), draw(st.integers(1, 12))
    return year, month, draw(st.integers(1, calendar.monthrange(year % 400 + 400, month)[1]))


def parse(texts: list[str | None] | list[str]) -> list[tuple[int, int, int, int]]:
    """(state, year, month, day) of each text."""
    parsed = date_spellings.parse(pl.Series(texts, dtype=pl.String))
    parts = np.stack(dates.civil(parsed.first)) * (np.arange(3)[:, None] < parsed.precision)
    return list(zip(parsed.state.tolist(), *parts.tolist(), strict=True))


# The calendar


def test_days_are_those_of_datetime() -> None:
    # 11 and the length of the cycle have no common divisor, so each of its days is met.
    ordinals = np.append(np.arange(date.min.toordinal(), date.max.toordinal(), 11), date.max.toordinal())
    assert len({ordinal % CYCLE for ordinal in ordinals.tolist()}) == CYCLE
    days = [date.fromordinal(ordinal) for ordinal in ordinals.tolist()]
    expected = np.array([(day.year, day.month, day.day) for day in days]).T
    np.testing.assert_array_equal(dates.day_number(*expected), ordinals - EPOCH)
    np.testing.assert_array_equal(dates.civil(ordinals - EPOCH), expected)


@given(civil_days())
def test_the_calendar_repeats_after_400_years_in_both_directions(day: tuple[int, int, int]) -> None:
    year, *rest = day
    cycles = 5 - year // 400  # brings the year into 2000 … 2399
    expected = date(year + 400 * cycles, *rest).toordinal() - EPOCH - cycles * CYCLE
    assert dates.day_number(year, *rest) == expected
    assert dates.civil(expected) == day


@given(st.lists(st.integers(-4_000_000, 4_000_000)))
def test_day_number_is_the_inverse_of_civil(numbers: list[int]) -> None:
    np.testing.assert_array_equal(dates.day_number(*dates.civil(numbers)), numbers)


def test_months_have_the_days_that_the_calendar_module_says() -> None:
    years, months = np.meshgrid(np.arange(1, 10_000), np.arange(1, 13), indexing="ij")
    expected = [[calendar.monthrange(year, month)[1] for month in range(1, 13)] for year in range(1, 10_000)]
    np.testing.assert_array_equal(dates.days_in_month(years, months), expected)
    np.testing.assert_array_equal(dates.days_in_month(years - 10_000, months), dates.days_in_month(years, months))


# Reading


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1952", (1952, 0, 0)),
        ("1952-03", (1952, 3, 0)),
        ("1952-3", (1952, 3, 0)),
        ("1952-03-17", (1952, 3, 17)),
        ("1952-3-7", (1952, 3, 7)),
        ("1952/03", (1952, 3, 0)),
        ("1952/03/17", (1952, 3, 17)),
        ("19520317", (1952, 3, 17)),
        ("1952-03-17T23:59:59Z", (1952, 3, 17)),
        ("1952-03-17T23:59", (1952, 3, 17)),
        ("1952-03-17 23:59:59.123456", (1952, 3, 17)),
        ("1952-03-17T23:59:59,5+05:30", (1952, 3, 17)),
        ("1952-03-17T00:00:00-0800", (1952, 3, 17)),
        ("1952-03-17T00:00:00-08", (1952, 3, 17)),
        ("1952-03-17 00:00:00 UTC", (1952, 3, 17)),
        ("1952-##-##", (1952, 0, 0)),
        ("1952-03-##", (1952, 3, 0)),
        ("1952-##-17", (1952, 0, 0)),
        ("1952-##", (1952, 0, 0)),
        ("195-##-##", (195, 0, 0)),
        ("-405-##-##", (-405, 0, 0)),
        ("+1952-00-00T00:00:00Z", (1952, 0, 0)),
        ("+1952-03-00T00:00:00Z", (1952, 3, 0)),
        ("+1952-03-17T00:00:00Z", (1952, 3, 17)),
        ("-0044-03-15T00:00:00Z", (-44, 3, 15)),
        ("844", (844, 0, 0)),
        ("44", (44, 0, 0)),
        ("4", (4, 0, 0)),
        ("0", (0, 0, 0)),
        ("0844", (844, 0, 0)),
        ("-405", (-405, 0, 0)),
        ("-9999-12-31", (-9999, 12, 31)),
        ("9999-12-31", (9999, 12, 31)),
        ("1952.0", (1952, 0, 0)),
        ("-405.0", (-405, 0, 0)),
        ("2000-02-29", (2000, 2, 29)),
        ("1952-02-29", (1952, 2, 29)),
        ("-4-02-29", (-4, 2, 29)),
        ("0-02-29", (0, 2, 29)),
        ("  1952-03-17\t", (1952, 3, 17)),
    ],
)
def test_known_dates(text: str, expected: tuple[int, int, int]) -> None:
    assert parse([text]) == [(KNOWN, *expected)]


@pytest.mark.parametrize(
    ("state", "texts"),
    [
        (OPEN, [None, "", " ", "null", "NULL", "None", "nan", "NaN", "NaT", "n/a", "NA", "N/A", "-", "?", "####"]),
        (OPEN, ["####-##-##", "0000-00-00", "--", "##"]),
        (UNKNOWN_YEAR, ["19##", "195#", "1###", "19##-##-##", "195#-03-17", "-4##", "19##-03"]),
        (UNREADABLE, ["1900-02-29", "1951-02-29", "2001-02-29", "1952-02-30", "1952-04-31", "1952-13", "1952-12-32"]),
        (
            UNREADABLE,
            [
                "13/13/2014",
                "13/05/14",
                "5/14",
                "1952-03-17T",
                "1952-03-17x",
                "1952a",
            ],
        ),
        (UNREADABLE, ["19520", "12345-01-01", "+12345", "195203", "1952031", "195203170", "19521317", "19520230"]),
        (UNREADABLE, ["١٩٥٢", "1952-٠٣-17", "19²2", "1952.5", "1e3", "--405", "+-405", "+", "1952--03"]),
        (UNREADABLE, ["1952-03-17-01", "nul", "nothing", "inf", "1952\n1953"]),
    ],
)
def test_what_is_no_known_date(state: State, texts: list[str | None]) -> None:
    assert dict(zip(texts, parse(texts), strict=True)) == dict.fromkeys(texts, (state, 0, 0, 0))


@given(civil_days())
def test_every_form_of_one_day_is_read_alike(day: tuple[int, int, int]) -> None:
    year, month, number = day
    sign, digits = "-" if year < 0 else "", f"{abs(year):04}"
    iso = f"{sign}{digits}-{month:02}-{number:02}"
    forms = [iso, f"{year}-{month}-{number}", f"{iso}T12:34:56Z", f"{iso} 01:02:03.5+02:00"]
    if year >= 0:
        forms += [iso.replace("-", "/"), f"+{iso}T00:00:00Z", f"{digits}{month:02}{number:02}"]
    assert dict(zip(forms, parse(forms), strict=True)) == dict.fromkeys(forms, (KNOWN, *day))


@given(st.lists(st.none() | st.text() | st.text("0123456789-+#/.:TZ ?", max_size=12)))
def test_no_text_is_an_error_and_what_is_known_is_a_date(texts: list[str | None]) -> None:
    parsed = date_spellings.parse(pl.Series(texts, dtype=pl.String))
    columns = (parsed.state, parsed.first, parsed.last, parsed.precision, parsed.approximate)
    assert {len(column) for column in columns} == {len(texts)}
    for state, first, last, precision, approximate in zip(*(column.tolist() for column in columns), strict=True):
        if state != KNOWN:
            assert (first, last, precision, approximate) == (0, 0, 0, False)
        else:
            assert first <= last
            assert 1 <= precision <= 3
            assert first == spans.OPEN_BEGIN or DAYS[0] <= first <= DAYS[1]
            assert last == spans.OPEN_END or DAYS[0] <= last <= DAYS[1]


@given(
    st.lists(
        st.sampled_from(["1952", "1952-03", "19##", "", "x", "-405-01-02", "1/2/1999", "31/12/1999", "12/31/1999"]),
        min_size=1,
    )
)
def test_each_text_is_read_by_itself(texts: list[str]) -> None:
    alone = {text: parse([text])[0] for text in set(texts)}
    assert parse(texts) == [alone[text] for text in texts]


# The time axis


@given(civil_days(), st.integers(1, 3))
def test_a_date_covers_exactly_its_days(day: tuple[int, int, int], precision: int) -> None:
    stated = (*day[:precision], *(0, 0, 0)[precision:])
    (first,), (last,) = dates.place(dates.on(*stated), DAY)

    def inside(number: int) -> bool:
        return tuple(int(part) for part in dates.civil(number))[:precision] == day[:precision]

    assert first <= last
    assert inside(first)
    assert inside(last)
    assert not inside(first - 1)
    assert not inside(last + 1)
    assert first <= dates.day_number(*day) <= last


@given(civil_days(), st.integers(1, 3), st.sampled_from([(DAY, MONTH), (DAY, YEAR), (MONTH, YEAR), (DAY, DAY)]))
def test_coarsening_agrees_with_placing_at_once(
    day: tuple[int, int, int], precision: int, units: tuple[Granularity, Granularity]
) -> None:
    stated = dates.on(*day[:precision], *(0, 0, 0)[precision:])
    fine, coarse = units
    for finely, coarsely in zip(dates.place(stated, fine), dates.place(stated, coarse), strict=True):
        np.testing.assert_array_equal(dates.coarsen(finely, fine, coarse), coarsely)


def test_instants_by_hand() -> None:
    assert [bound.tolist() for bound in dates.place(dates.on(1952, 0, 0), YEAR)] == [[1952], [1952]]
    assert [bound.tolist() for bound in dates.place(dates.on(1, 0, 0), MONTH)] == [[12], [23]]
    assert [bound.tolist() for bound in dates.place(dates.on(-1, 12, 0), MONTH)] == [[-1], [-1]]
    assert [bound.tolist() for bound in dates.place(dates.on(1970, 1, 0), DAY)] == [[0], [30]]
    assert dates.coarsen([-1, 0, 11, 12], MONTH, YEAR).tolist() == [-1, 0, 0, 1]


@pytest.mark.parametrize(
    ("granularity", "first", "last"),
    [
        (YEAR, -9999, 9999),
        (MONTH, -9999 * 12, 9999 * 12 + 11),
        (DAY, int(dates.day_number(-9999, 1, 1)), int(dates.day_number(9999, 12, 31))),
    ],
)
def test_what_is_written_is_read_back(granularity: Granularity, first: int, last: int) -> None:
    @given(st.lists(st.integers(first, last)))
    def check(instants: list[int]) -> None:
        parsed = date_spellings.parse(pl.Series(dates.write(instants, granularity), dtype=pl.String))
        assert (parsed.state == KNOWN).all()
        for bound in dates.place(parsed, granularity):
            np.testing.assert_array_equal(bound, instants)

    check()


def test_dates_are_written_as_people_do() -> None:
    assert dates.write([1952, -405, 1952, 0], YEAR) == ["1952", "-405", "1952", "0"]
    assert dates.write([1952 * 12 + 2, -1], MONTH) == ["1952-03", "-1-12"]
    assert dates.write([0, -1], DAY) == ["1970-01-01", "1969-12-31"]


# Granularity


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((5, 0, 0, 0), YEAR),
        ((0, 0, 0, 0), YEAR),
        ((0, 1, 0, 9), DAY),
        ((0, 0, 1, 9), DAY),
        ((99, 1, 0, 9), DAY),  # dates that state nothing have no say
        ((0, 11, 0, 89), YEAR),
        ((0, 0, 11, 89), MONTH),
        ((0, 1, 8, 1), MONTH),
        ((0, 101, 450, 449), YEAR),
        ((0, 100, 450, 450), MONTH),
        ((0, 0, 0, 1), DAY),
        ((0, 0, 1, 0), MONTH),
        ((0, 1, 0, 0), YEAR),
    ],
)
def test_nine_of_ten_decide(counts: tuple[int, ...], expected: Granularity) -> None:
    assert dates.detect_granularity(counts) is expected


@given(st.integers(1, 10**9))
def test_exactly_nine_of_ten_is_enough_and_one_less_is_not(tens: int) -> None:
    assert dates.detect_granularity((0, tens, 0, 9 * tens)) is DAY
    assert dates.detect_granularity((0, tens, 1, 9 * tens - 1)) is MONTH
    assert dates.detect_granularity((0, tens + 1, 0, 9 * tens - 1)) is YEAR
