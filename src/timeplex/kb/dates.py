"""Partial dates: reading them from text, placing them on a time axis, and writing them back.

Read are `1952`, `1952-03`, `1952-03-17` (also with `/`), `19520317`, ISO date-times (the day counts), the
HyTE form `1952-##-##`, Wikidata's `+1952-00-00T00:00:00Z`, years of one to three digits, negative (BC)
years such as `-405`, and `1952.0` (a year that went through a column of floats). Years are taken as written
on a Gregorian calendar that is extended to all times and has a year 0.

An instant is an integer: the year, the month counted from January of year 0, or the day counted from
1970-01-01, by granularity.

>>> import polars as pl
>>> dates = parse(pl.Series(["1952-03", "19##", "", "1952-02-30"]))
>>> [State(state).name for state in dates.state]
['KNOWN', 'UNKNOWN_YEAR', 'OPEN', 'UNREADABLE']
>>> first, last = place(dates, Granularity.DAY)
>>> write(first[:1], Granularity.DAY), write(last[:1], Granularity.DAY)
(['1952-03-01'], ['1952-03-31'])
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]


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
    """Parsed dates, one row a text; month and day are 0 where not stated. All arrays have shape (n,)."""

    state: Ints
    year: Ints
    month: Ints
    day: Ints

    @property
    def precision(self) -> Ints:
        """0 nothing, 1 the year, 2 the month, 3 the day is stated."""
        return np.where(self.state != State.KNOWN, 0, 1 + (self.month > 0) + (self.day > 0))


_OPEN = r"(?i)^(?:null|none|nan|nat|n/?a|[+]?0000-?00-?00(?:[T ].*)?|[#?\-\s]*)$"
_UNKNOWN_YEAR = r"^[+-]?[0-9]{0,3}#{1,4}(?:-(?:[0-9][0-9]|##)){0,2}$"
_TIME = (
    r"(?:[T ][0-9]{1,2}:[0-9][0-9](?::[0-9][0-9](?:[.,][0-9]+)?)?(?: ?UTC)? ?(?:Z|[+-][0-9][0-9]:?(?:[0-9][0-9])?)?)?"
)
_DATE = r"^([+-]?[0-9]{1,4})(?:-([0-9]{1,2}|##)(?:-([0-9]{1,2}|##)" + _TIME + r")?)?$"
_SLASHED = r"^([0-9]{4})/([0-9]{1,2})(?:/([0-9]{1,2})" + _TIME + r")?$"  # 13/05/14 could mean anything
_FLOAT_YEAR = r"^([+-]?[0-9]{1,4})\.0*$"
_BASIC = r"^([0-9]{4})([0-9][0-9])([0-9][0-9])$"


def parse(texts: pl.Series) -> Dates:
    """Read a column of texts (nulls allowed) as dates. Vectorised; never raises on a bad text."""
    text = texts.cast(pl.String).fill_null("").str.strip_chars()
    forms = [text.str.extract_groups(form).struct.unnest() for form in (_DATE, _SLASHED, _BASIC)]
    frame = pl.DataFrame({"text": text}).with_columns(
        is_open=pl.col("text").str.contains(_OPEN),
        unknown=pl.col("text").str.contains(_UNKNOWN_YEAR),
        year=pl.coalesce([form["1"] for form in forms] + [text.str.extract(_FLOAT_YEAR)]),
        month=pl.coalesce([form["2"] for form in forms]).str.replace("##", "0", literal=True),
        day=pl.coalesce([form["3"] for form in forms]).str.replace("##", "0", literal=True),
    )

    def numbers(name: str) -> Ints:
        plain = frame[name].str.strip_chars_start("+")
        return plain.cast(pl.Int64, strict=False).fill_null(0).to_numpy().astype(np.int64)

    year, month, day = numbers("year"), numbers("month"), numbers("day")
    day = np.where(month == 0, 0, day)  # a day of an unknown month says no more than the year
    readable = frame["year"].is_not_null().to_numpy() & (month <= 12)
    readable &= day <= days_in_month(year, np.clip(month, 1, 12))
    state = np.full(len(text), int(State.UNREADABLE))
    state[frame["unknown"].to_numpy()] = State.UNKNOWN_YEAR
    state[readable] = State.KNOWN
    state[frame["is_open"].to_numpy()] = State.OPEN
    known = state == State.KNOWN
    return Dates(state, np.where(known, year, 0), np.where(known, month, 0), np.where(known, day, 0))


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

    Rows whose date is not known hold values without meaning: look at `dates.state`.
    """
    if granularity is Granularity.YEAR:
        return dates.year, dates.year
    first_month = np.where(dates.month == 0, 1, dates.month)
    last_month = np.where(dates.month == 0, 12, dates.month)
    if granularity is Granularity.MONTH:
        return dates.year * 12 + first_month - 1, dates.year * 12 + last_month - 1
    first_day = np.where(dates.day == 0, 1, dates.day)
    last_day = np.where(dates.day == 0, days_in_month(dates.year, last_month), dates.day)
    return day_number(dates.year, first_month, first_day), day_number(dates.year, last_month, last_day)


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
