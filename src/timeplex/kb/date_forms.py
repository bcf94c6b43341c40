"""One date, written in one of the ways of people: by a pattern each, over a column of texts at once."""

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from timeplex.kb import dates
from timeplex.kb.dates import Dates, State
from timeplex.typing import Bools, Ints

_WORDS = tomllib.loads(Path(__file__).with_name("date_words.toml").read_text("utf-8"))

LANGUAGES: dict[str, dict[str, Any]] = _WORDS["languages"]
"""The months and other words of each language that `--date-language` knows."""

OPEN_WORDS = frozenset([*_WORDS["going_on"].split("|"), *_WORDS["not_known"].split("|")])
"""What stands for an end that is going on or for a date that is not known: both are open."""

WEEKDAYS: str = _WORDS["weekdays"]

ORDINALS = _WORDS["centuries"].split()
"""The centuries in words."""

SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
"""The month in which a season of three months begins, on the northern half of the earth."""


def month_numbers(language: str = "en") -> dict[str, int]:
    """The number of each name and short form of a month."""
    named = {name: number for number, name in enumerate(LANGUAGES[language]["months"].split(), start=1)}
    short = (entry.split("=") for entry in LANGUAGES[language]["short"].split())
    return named | {name: int(number) for name, number in short}


def to_english(language: str) -> dict[str, str]:
    """English for each word of another language."""
    english = LANGUAGES["en"]["months"].split()
    months = {name: english[number - 1] for name, number in month_numbers(language).items()}
    return {**months, **LANGUAGES[language]["words"]}


def _parts() -> dict[str, tuple[int, int]]:
    halves = {"early": (1, 3), "beginning": (1, 3), "start": (1, 3), "mid": (2, 3), "middle": (2, 3)}
    found = halves | {"late": (3, 3), "end": (3, 3)} | {f"q{k}": (k, 4) for k in range(1, 5)} | {"h1": (1, 2)}
    found |= {"h2": (2, 2)}
    for word, of in (("half", 2), ("third", 3), ("quarter", 4)):
        for k, names in enumerate((("first", "1st"), ("second", "2nd"), ("third", "3rd"), ("fourth", "4th")), 1):
            found |= {f"{name} {word}": (k, of) for name in names if k <= of}
        found[f"last {word}"] = (of, of)
    return found


PARTS = _parts()
"""`late` is the third of three parts, `q2` the second of four, `second half` the second of two."""


MONTH = "(?:" + "|".join(sorted(month_numbers(), key=len, reverse=True)) + r")\.?"

# ISO 8601 and its relatives

_OPEN = r"(?i)^(?:null|none|nan|nat|n/?a|[+]?0000-?00-?00(?:[T ].*)?|[#?\-\s]*)$"
_UNKNOWN_YEAR = r"^[+-]?[0-9]{0,3}#{1,4}(?:-(?:[0-9][0-9]|##)){0,2}$"
_TIME = (
    r"(?:[T ][0-9]{1,2}:[0-9][0-9](?::[0-9][0-9](?:[.,][0-9]+)?)?(?: ?UTC)? ?(?:Z|[+-][0-9][0-9]:?(?:[0-9][0-9])?)?)?"
)
_DATE = r"^([+-]?[0-9]{1,4})(?:-([0-9]{1,2}|##|XX)(?:-([0-9]{1,2}|##|XX)" + _TIME + r")?)?$"
_SLASHED = r"^([0-9]{4})/([0-9]{1,2})(?:/([0-9]{1,2})" + _TIME + r")?$"
_FLOAT_YEAR = r"^([+-]?[0-9]{1,4})\.0*$"
_BASIC = r"^([0-9]{4})([0-9][0-9])([0-9][0-9])$"


def iso(text: pl.Series) -> Dates:
    """What is written in the ways of files: `1952`, `1952-03-17T…`, `1952-##-##`, `19520317`, `1952.0`, open."""
    forms = [text.str.extract_groups(form).struct.unnest() for form in (_DATE, _SLASHED, _BASIC)]
    parts = pl.select(
        year=pl.coalesce([form["1"] for form in forms] + [text.str.extract(_FLOAT_YEAR)]),
        month=pl.coalesce([form["2"] for form in forms]),
        day=pl.coalesce([form["3"] for form in forms]),
    )
    made = dates.on(*map(numbers, parts))
    made.reject(parts["year"].is_null().to_numpy())
    made.mark(text.str.contains(_UNKNOWN_YEAR).to_numpy() & (made.state != State.KNOWN), State.UNKNOWN_YEAR)
    made.mark(text.str.contains(_OPEN).to_numpy(), State.OPEN)
    return made


def numbers(texts: pl.Series) -> Ints:
    """Whole numbers; 0 for what is none (a month that is not stated, `##`)."""
    plain = texts.str.strip_chars_start("+").cast(pl.Int64, strict=False)
    return plain.fill_null(0).to_numpy().astype(np.int64)


# What people write

_CLOCK = (
    r"^(.*[^ ,t])(?:,? at |, ?|[ t])[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)? ?(?:[ap]\.?m\.?)? ?"
    r"(?:z|utc|gmt|c?e[sd]?t|[cmp][sd]t|bst)? ?(?:[+-][0-9]{2}:?(?:[0-9]{2})?)?$"
)
_NUMERIC = r"^([0-9]{1,2}) ?([/.\- ]) ?([0-9]{1,2}) ?([/.\- ]) ?([0-9]{3,4})$"


@dataclass(frozen=True)
class Numeric:
    """Texts such as 31/12/1999: which rows, their three numbers, and whether dots are between them."""

    rows: Ints
    one: Ints
    two: Ints
    year: Ints
    dotted: Bools


def numeric(text: pl.Series) -> Numeric:
    """Find them, as far as one of the two first numbers may be the month."""
    base = text.str.extract(_CLOCK, 1).fill_null(text)
    groups = base.str.extract_groups(_NUMERIC).struct.unnest()
    rows = np.flatnonzero((groups["2"] == groups["4"]).fill_null(False).to_numpy())
    one, two, year = (numbers(groups[name].gather(rows)) for name in ("1", "3", "5"))
    real = (one >= 1) & (two >= 1) & (one <= 31) & (two <= 31) & ((one <= 12) | (two <= 12))
    dotted = (groups["2"].gather(rows) == ".").to_numpy()
    return Numeric(rows[real], one[real], two[real], year[real], dotted[real])


Groups = list[Ints]
_Y = "([0-9]{1,4})"
_D = "([0-9]{1,2})"
_M = f"({MONTH})"


def _century(groups: Groups, sign: Ints) -> Dates:
    number = groups[0]
    last = 100 * np.where(sign < 0, 1 - number, number) - (sign < 0)
    made = dates.years(last - 99, last)
    made.reject((number < 1) | (number > 21))
    return made


def _decade(groups: Groups, sign: Ints) -> Dates:
    """1850s; the 1800s are a century, being the wider meaning, but the 2000s are what everybody calls so."""
    year = groups[0]
    last = year + np.where((year % 100 == 0) & (year % 1000 != 0), 99, 9)
    return dates.years(np.where(sign < 0, -last, year), np.where(sign < 0, -year, last))


def _season(groups: Groups, sign: Ints) -> Dates:
    month, year = groups
    begin = dates.day_number(year, month, 1)
    after = year * 12 + month - 1 + 3
    end = dates.day_number(after // 12, after % 12 + 1, 1) - 1
    return dates.between(begin, end, 2)


def _week(groups: Groups, sign: Ints) -> Dates:
    """Weeks of ISO 8601: from Monday, and week 1 has the 4th of January."""
    year, week, weekday = groups
    start = _first_monday(year) + 7 * (week - 1)
    first, last = (start + np.where(weekday > 0, weekday - 1, edge) for edge in (0, 6))
    made = dates.between(first, last, 3)
    made.reject((week < 1) | (start >= _first_monday(year + 1)))
    return made


def _first_monday(year: Ints) -> Ints:
    fourth = dates.day_number(year, 1, 4)
    return fourth - (fourth + 3) % 7  # day 0, 1970-01-01, was a Thursday


def day_of_year(groups: Groups, sign: Ints) -> Dates:
    """The n-th day of a year."""
    year, number = groups
    day = dates.day_number(year, 1, 1) + number - 1
    made = dates.between(day, day, 3)
    made.reject((number < 1) | (day > dates.day_number(year, 12, 31)))
    return made


def _on(*order: int) -> Callable[[Groups, Ints], Dates]:
    """A date whose year, month and day are the groups of these numbers (0: not stated)."""

    def read(groups: Groups, sign: Ints) -> Dates:
        parts = [groups[at - 1] if at else np.zeros(len(sign), np.int64) for at in order]
        made = dates.on(np.where(sign < 0, -parts[0], parts[0]), parts[1], parts[2])
        short = (parts[0] < 100) & (sign == 0) | (parts[0] < 1)  # 3-Mar-21 may be 1921 or 2021
        stated_zero = np.zeros(len(sign), bool)
        for at, part in zip(order[1:], parts[1:], strict=True):
            stated_zero |= (at > 0) & (part == 0)
        made.reject(short | stated_zero)
        return made

    return read


_FORMS: tuple[tuple[str, Callable[[Groups, Ints], Dates]], ...] = (
    (r"^([0-9]{4}) ?[./ ] ?([0-9]{1,2}) ?[./ ] ?([0-9]{1,2})\.?$", _on(1, 2, 3)),
    (r"^([0-9]{4})年([0-9]{1,2})月([0-9]{1,2})日$", _on(1, 2, 3)),
    (r"^([0-9]{4})年([0-9]{1,2})月$", _on(1, 2, 0)),
    (r"^([0-9]{4})年$", _on(1, 0, 0)),
    (r"^([0-9]{1,2}) ?[/-] ?([0-9]{4})$", _on(2, 1, 0)),
    (r"^(0[1-9]|1[0-2])\.([0-9]{4})$", _on(2, 1, 0)),
    (r"^([0-9]{4})-([0-9]{3})$", day_of_year),
    (r"^([0-9]{4})-?w([0-9]{2})(?:-?([1-7]))?$", _week),
    (r"^week ([0-9]{1,2}),? (?:of )?([0-9]{4})$", lambda groups, sign: _week([*groups[::-1], 0 * sign], sign)),
    (r"^(?:the )?([0-9]{2,3}0)'?s$", _decade),
    (r"^(?:the )?([0-9]{1,2})(?:st|nd|rd|th)[ -](?:century|cent\.?|c\.?)$", _century),
    (rf"^(?:the )?({'|'.join(ORDINALS)})[ -]century$", _century),
    (rf"^{_Y}$", _on(1, 0, 0)),
)
"""Forms of numbers: a pattern and what makes dates of its groups."""

_NAMED: tuple[tuple[str, Callable[[Groups, Ints], Dates]], ...] = (
    (f"^{_D} {_M} {_Y}$", _on(3, 2, 1)),
    (f"^{_M} {_D} {_Y}$", _on(3, 1, 2)),
    (f"^{_M} {_Y}$", _on(2, 1, 0)),
    (f"^{_Y} {_M} {_D}$", _on(1, 2, 3)),
    (f"^{_Y} {_M}$", _on(1, 2, 0)),
    (rf"^([0-9]{{1,2}})({MONTH})([0-9]{{4}})$", _on(3, 2, 1)),
    (rf"^({'|'.join(SEASONS)}) ([0-9]{{4}})$", _season),
    (rf"^([0-9]{{4}}) ({'|'.join(SEASONS)})$", lambda groups, sign: _season(groups[::-1], sign)),
)
"""Forms with words, after commas, ordinals and the like are gone."""


def read_one(text: pl.Series, dayfirst: bool | None) -> Dates:
    """One date without anything around it but a time of day and an era."""
    clock = text.str.extract(_CLOCK, 1)
    timed = clock.is_not_null().to_numpy()
    base = clock.fill_null(text)
    era = base.str.extract_groups(r"^(?:(ad) )?(.*?)(?: (bc|ad))?$").struct.unnest()
    twice = (era["1"].is_not_null() & era["3"].is_not_null()).to_numpy()
    era_name = era["1"].fill_null(era["3"]).fill_null("")
    sign = np.where(era_name == "bc", -1, np.where(era_name == "ad", 1, 0))
    base = era["2"].fill_null("")
    made = iso(base.str.to_uppercase())  # T, Z and XX
    # A sign or a year 0 has no era, and what is open or of an unknown year was seen before.
    made.reject((made.state != State.KNOWN) | (sign != 0))
    _put_numeric(made, base, sign, dayfirst)
    _put_forms(made, base, sign, (*_FORMS, *_DIGITS))
    _put_forms(made, _words(base), sign, _NAMED)
    made.reject((timed & (made.precision != 3)) | twice)
    return made


def _put_numeric(made: Dates, text: pl.Series, sign: Ints, dayfirst: bool | None) -> None:
    """31/12/1999, 12/31/1999 and, if it is known which is meant, 1/2/1999."""
    rows = np.flatnonzero(made.state == State.UNREADABLE)
    found = numeric(text.gather(rows))
    first = np.where(found.dotted, 1, 0) if dayfirst is None else np.full(len(found.rows), int(dayfirst))
    clear = (found.one > 12) | (found.two > 12) | (found.one == found.two)
    clear |= found.dotted | (dayfirst is not None)
    day_first = np.where(found.one > 12, 1, np.where(found.two > 12, 0, first)) == 1
    day, month = np.where(day_first, found.one, found.two), np.where(day_first, found.two, found.one)
    at = rows[found.rows]
    year = np.where(sign[at] < 0, -found.year, found.year)
    made.put(at[clear], dates.on(year, month, day)[clear])


def _put_forms(
    made: Dates, text: pl.Series, sign: Ints, forms: Sequence[tuple[str, Callable[[Groups, Ints], Dates]]]
) -> None:
    """Read by each form what is not read yet."""
    rows = np.flatnonzero(made.state == State.UNREADABLE)
    for form, read in forms:
        if len(rows) == 0:
            return
        groups = text.gather(rows).str.extract_groups(form).struct.unnest()
        fits = groups["1"].is_not_null().to_numpy()
        if fits.any():
            numbers = [_group(groups[name].filter(pl.Series(fits))) for name in groups.columns]
            made.put(rows[fits], read(numbers, sign[rows[fits]]))
            rows = rows[(made.state == State.UNREADABLE)[rows]]


def _group(texts: pl.Series) -> Ints:
    """A group as numbers: digits, months, seasons and ordinals."""
    names = {**month_numbers(), **SEASONS, **{word: number for number, word in enumerate(ORDINALS, start=1)}}
    plain = texts.str.strip_chars_end(".")
    return numbers(plain.replace(list(names), [str(number) for number in names.values()]))


def _unspecified(places: int) -> Callable[[Groups, Ints], Dates]:
    """199X, 19XX: any year with these digits."""
    size = 10**places
    return lambda groups, sign: dates.years(groups[0] * size, groups[0] * size + size - 1)


_DIGITS = ((r"^([0-9]{3})[xu]$", _unspecified(1)), (r"^([0-9]{2})(?:xx|uu)$", _unspecified(2)))


def _words(text: pl.Series) -> pl.Series:
    """Without commas, weekdays, articles and the endings of ordinals; one blank between words and numbers."""
    text = text.str.replace(rf"^(?:{WEEKDAYS})\.?,? ", "")
    text = text.str.replace_all(r"([0-9])(?:st|nd|rd|th)([ ,]|$)", "${1}${2}")
    text = text.str.replace_all(r"[,./\- ]+", " ").str.replace_all(r"(^| )(?:of|the)( |$)", " ")
    return text.str.replace_all(" +", " ").str.strip_chars(" ")
