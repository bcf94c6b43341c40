"""Dates of any precision: what a date covers, where that lies on a time axis, and how it is written back.

`kb.date_spellings` reads dates from text. Years are taken as written on a Gregorian calendar that is extended to all
times and has a year 0.

An instant is an integer: the year, the month counted from January of year 0, or the day counted from
1970-01-01, by granularity.

>>> first, last = place(on(1952, 3, 0), Granularity.DAY)
>>> write(first, Granularity.DAY), write(last, Granularity.DAY)
(['1952-03-01'], ['1952-03-31'])
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from timeplex import text
from timeplex.kb import spans
from timeplex.typing import Bools, Ints

MAX_YEAR = 9999
"""The last year that can be written; the first is its negative."""


class Granularity(StrEnum):
    """What one instant of a time axis is."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"


class State(IntEnum):
    """What became of a text that should be a date."""

    OPEN = 0  # nothing stated: empty, null, ####-##-##
    KNOWN = 1
    UNKNOWN_YEAR = 2  # 19##: stated, but the year is not known
    UNREADABLE = 3


@dataclass(frozen=True)
class Dates:
    """What texts mean as dates, one row a text: the days that each may be. All arrays have shape (n,).

    A date that is not known covers nothing (0, 0). `precision` is 0 if nothing, 1 if the year, 2 if the month, 3 if
    the day is stated; `approximate` marks what was written with *circa* or a question mark.
    """

    state: Ints
    first: Ints  # day numbers; `spans.OPEN_BEGIN` for "before 1900"
    last: Ints  # `spans.OPEN_END` for "after 1900"
    precision: Ints
    approximate: Bools

    @classmethod
    def blank(cls, state: Ints) -> Self:
        """Nothing but states."""
        zeros = np.zeros(len(state), np.int64)
        return cls(state, zeros, zeros.copy(), zeros.copy(), np.zeros(len(state), bool))

    def put(self, rows: ArrayLike, other: "Dates") -> None:
        """Overwrite some rows by the others."""
        for mine, new in zip(vars(self).values(), vars(other).values(), strict=True):
            mine[rows] = new

    def mark(self, rows: ArrayLike, state: State) -> None:
        """Leave nothing of some rows but a state."""
        self.put(rows, Dates.blank(np.array([int(state)])))

    def reject(self, rows: ArrayLike) -> None:
        """Make some rows unreadable."""
        self.mark(rows, State.UNREADABLE)

    def __getitem__(self, rows: ArrayLike | slice) -> "Dates":
        return Dates(*(column[rows] for column in vars(self).values()))


def on(year: ArrayLike, month: ArrayLike, day: ArrayLike) -> Dates:
    """The dates of years, months and days, 0 where one is not stated; unreadable if there is no such day."""
    year, month, day = (np.atleast_1d(np.asarray(part, np.int64)) for part in (year, month, day))
    day = np.where(month == 0, 0, day)  # a day of an unknown month says no more than the year
    real = (np.abs(year) <= MAX_YEAR) & (month >= 0) & (month <= 12) & (day >= 0)
    first_month, last_month = np.where(month == 0, 1, month).clip(1, 12), np.where(month == 0, 12, month).clip(1, 12)
    length = days_in_month(year, last_month)
    real &= day <= length
    made = Dates.blank(np.where(real, State.KNOWN, State.UNREADABLE))
    first = day_number(year, first_month, np.maximum(day, 1))
    last = day_number(year, last_month, np.where(day == 0, length, day))
    values = (first, last, 1 + (month > 0) + (day > 0))
    for column, value in zip((made.first, made.last, made.precision), values, strict=True):
        column[real] = value[real]
    return made


def between(first: Ints, last: Ints, precision: ArrayLike = 1) -> Dates:
    """The dates that cover the days from a first to a last; unreadable where that is nothing that can be written."""
    state = np.full(len(first), int(State.KNOWN))
    approximate = np.zeros(len(first), bool)
    return checked(Dates(state, first.copy(), last.copy(), np.broadcast_to(precision, len(first)).copy(), approximate))


def years(first: Ints, last: Ints) -> Dates:
    """The dates from one year to another."""
    return between(day_number(first, 1, 1), day_number(last, 12, 31))


def checked(made: Dates) -> Dates:
    """Without what is unreadable, runs backwards, or lies outside of the years that can be written."""
    first, last = day_number([-MAX_YEAR, MAX_YEAR], [1, 12], [1, 31])
    inside = ((made.first == spans.OPEN_BEGIN) | (made.first >= first)) & (made.first <= last)
    inside &= ((made.last == spans.OPEN_END) | (made.last <= last)) & (made.last >= first)
    wrong = (made.state != State.KNOWN) | (made.first > made.last) | ~inside
    made.reject(wrong)
    return made


def days_in_month(year: ArrayLike, month: ArrayLike) -> Ints:
    """28 to 31, by the Gregorian calendar. Months are 1 to 12."""
    year, month = np.asarray(year, np.int64), np.asarray(month, np.int64)
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    lengths = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31], np.int64)
    days: Ints = lengths[month - 1] + (leap & (month == 2))
    return days


def day_number(year: ArrayLike, month: ArrayLike, day: ArrayLike) -> Ints:
    """Days since 1970-01-01. Years are counted from March, so that the leap day comes last."""
    year, month, day = (np.asarray(part, np.int64) for part in (year, month, day))
    from_march = (month - 3) % 12
    year = year - (month < 3)
    before_year = 365 * year + year // 4 - year // 100 + year // 400
    before_month = (153 * from_march + 2) // 5
    return before_year + before_month + day - 1 - 719468  # 719468 days from 0000-03-01 to 1970-01-01


def civil(days: ArrayLike) -> tuple[Ints, Ints, Ints]:
    """(year, month, day) of a day number: the inverse of `day_number`."""
    days = np.asarray(days, np.int64) + 719468
    era, day_of_era = np.divmod(days, 146097)  # 146097 days are 400 years
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    from_march = (5 * day_of_year + 2) // 153
    month = (from_march + 2) % 12 + 1
    day = day_of_year - (153 * from_march + 2) // 5 + 1
    return era * 400 + year_of_era + (month < 3), month, day


def place(dates: Dates, granularity: Granularity) -> tuple[Ints, Ints]:
    """First and last instant that each known date covers; a coarse date covers several fine instants.

    A side without limit is `spans.OPEN_BEGIN` or `spans.OPEN_END`. Rows whose date is not known hold values without
    meaning: look at `dates.state`.
    """

    def side(days: Ints, unlimited: int) -> Ints:
        is_open = days == unlimited
        return np.where(is_open, unlimited, coarsen(np.where(is_open, 0, days), Granularity.DAY, granularity))

    return side(dates.first, spans.OPEN_BEGIN), side(dates.last, spans.OPEN_END)


def detect_granularity(counts: ArrayLike) -> Granularity:
    """The finest granularity that at least nine of ten stated dates have; year if none is stated.

    `counts`, shape (4,): how many dates state nothing, the year, the month, the day (see `Dates.precision`).
    """
    _, years, months, days = np.asarray(counts, np.int64).tolist()
    stated = years + months + days
    if stated and days >= 0.9 * stated:
        return Granularity.DAY
    return Granularity.MONTH if stated and days + months >= 0.9 * stated else Granularity.YEAR


def coarsen(instants: ArrayLike, granularity: Granularity, unit: Granularity) -> Ints:
    """The instant of a coarser (or the same) granularity that each instant lies in."""
    instants = np.asarray(instants, np.int64)
    if unit is granularity:
        return instants
    if granularity is Granularity.DAY:
        year, month, _ = civil(instants)
        return year if unit is Granularity.YEAR else year * 12 + month - 1
    return instants // 12


def write(instants: ArrayLike, granularity: Granularity) -> list[str]:
    """The date a person would write for each instant: `1952`, `1952-03`, `1952-03-17`, `-405`."""
    distinct, rows = np.unique(np.asarray(instants, np.int64), return_inverse=True)
    if granularity is Granularity.YEAR:
        names = [f"{year}" for year in distinct]
    elif granularity is Granularity.MONTH:
        names = [f"{year}-{month + 1:02}" for year, month in zip(*np.divmod(distinct, 12), strict=True)]
    else:
        names = [f"{year}-{month:02}-{day:02}" for year, month, day in zip(*civil(distinct), strict=True)]
    return [names[row] for row in rows]


def write_spans(some: Sequence[tuple[int, int]], granularity: Granularity) -> list[str]:
    """Each (begin, end) as `text.span` writes it; ends may be open."""
    ends = np.array(some, np.int64).reshape(-1, 2)
    gone = np.stack(spans.is_open((ends[:, 0], ends[:, 1])), 1)
    dates = np.array(write(np.where(gone, 0, ends).ravel(), granularity), object).reshape(-1, 2)
    dates[gone] = None
    return [text.span(*sides) for sides in dates.tolist()]


YEARS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
STEPS: dict[Granularity, tuple[int, ...]] = {
    Granularity.YEAR: YEARS,
    Granularity.MONTH: (1, 3, 6, *(12 * years for years in YEARS)),
}
"""How far apart the marks of an axis may be, in instants."""
DAY_STEPS = (1, 2, 7, 14)
"""Those of days, while they are not months or years."""


def ticks(first: int, last: int, granularity: Granularity, most: int = 7) -> list[tuple[int, str]]:
    """Round instants from a first to a last for an axis, at most so many, each with what is written there.

    >>> ticks(1983, 2021, Granularity.YEAR)
    [(1990, '1990'), (2000, '2000'), (2010, '2010'), (2020, '2020')]
    """
    if granularity is Granularity.DAY:
        for step in DAY_STEPS:
            if (last - first) // step < most:
                chosen = np.arange(first + -first % step, last + 1, step)
                return list(zip(chosen.tolist(), write(chosen, granularity), strict=True))
        low, high = (int(each) for each in coarsen([first, last], granularity, Granularity.MONTH))
        months = ticks(low, high, Granularity.MONTH, most)
        days = [int(day_number(month // 12, month % 12 + 1, 1)) for month, _ in months]
        return [(day, text) for day, (_, text) in zip(days, months, strict=True) if first <= day <= last]
    steps = STEPS[granularity]
    step = next((each for each in steps if (last - first) // each < most), steps[-1])
    chosen = np.arange(first + -first % step, last + 1, step)
    whole_years = granularity is Granularity.MONTH and step % 12 == 0
    written = [f"{month // 12}" for month in chosen.tolist()] if whole_years else write(chosen, granularity)
    return list(zip(chosen.tolist(), written, strict=True))
