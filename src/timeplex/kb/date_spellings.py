"""Dates as people write them: from text to the days that are meant.

docs/dates.md has the table of all spellings. The forms of ISO 8601, Wikidata and HyTE are tried on every text; the
others only on what is left, each by one regular expression over a column, so that a column of ISO dates costs what it
did before there were others.

>>> import polars as pl
>>> read = parse(pl.Series(["1952-03", "3 March 1821", "c. 1850s", "before 1900", "19##", "present", "1/2/1999"]))
>>> [State(state).name for state in read.state]
['KNOWN', 'KNOWN', 'KNOWN', 'KNOWN', 'UNKNOWN_YEAR', 'OPEN', 'UNREADABLE']
>>> dates.write(read.last[:4], dates.Granularity.DAY)
['1952-03-31', '1821-03-03', '1859-12-31', '1899-12-31']
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import polars as pl

from timeplex.errors import InputError, UnreadableDatesError
from timeplex.kb import dates, spans
from timeplex.kb.date_forms import (
    LANGUAGES,
    MONTH,
    OPEN_WORDS,
    PARTS,
    day_of_year,
    iso,
    month_numbers,
    numbers,
    numeric,
    read_one,
    to_english,
)
from timeplex.kb.dates import Dates, State
from timeplex.text import counted
from timeplex.typing import Bools, Ints

NUMBERS = ("excel", "unix", "unix-ms")
"""Formats that are no pattern: days since 1900 as spreadsheets count them, seconds and milliseconds since 1970."""

_DIRECTIVES = {
    **{"Y": "(?P<year>[+-]?[0-9]{1,4})", "y": "(?P<short>[0-9]{2})", "m": "(?P<month>[0-9]{1,2})"},
    **{"d": "(?P<day>[0-9]{1,2})", "e": "(?P<day>[0-9]{1,2})", "j": "(?P<ordinal>[0-9]{1,3})"},
    **{"H": "[0-9]{1,2}", "I": "[0-9]{1,2}", "M": "[0-9]{1,2}", "S": "[0-9]{1,2}", "f": "[0-9]{1,9}", "%": "%"},
    **{"p": r"[ap]\.?m\.?", "z": "(?:z|[+-][0-9]{2}:?[0-9]{2})", "Z": "[a-z]+", "a": r"\p{L}+\.?", "A": r"\p{L}+"},
}


@cache
def pattern(format_: str, language: str) -> str:
    """The regular expression of a format such as `%d.%m.%y`, with the groups year (or short), month, day, ordinal."""
    names = "|".join(sorted(map(re.escape, month_numbers(language)), key=len, reverse=True))
    directives = {**_DIRECTIVES, **dict.fromkeys("bBh", rf"(?P<name>{names})\.?")}
    made = ""
    for directive, literal in re.findall(r"%(.?)|([^%]+)", format_, re.DOTALL):
        if not literal and directive not in directives:
            raise InputError(
                f"%{directive} of the date format {format_!r} is not understood.",
                f"Known are {', '.join(f'%{known}' for known in directives)}, and the words {', '.join(NUMBERS)}.",
            )
        made += re.escape(literal) if literal else directives[directive]
    groups = re.findall(r"\?P<(\w+)>", made)
    if len(set(groups)) < len(groups) or len({"year", "short"} & set(groups)) != 1 or {"month", "name"} <= set(groups):
        raise InputError(
            f"The date format {format_!r} does not say the year once.", "Write it as %d.%m.%Y or %m/%d/%y, for example."
        )
    return f"(?i)^{made}$"


def read_format(text: pl.Series, format_: str, language: str) -> Dates:
    """What fits the format; all else is unreadable."""
    if format_ in NUMBERS:
        return _counted(text, format_)
    groups = text.str.extract_groups(pattern(format_, language)).struct.unnest()
    zeros = np.zeros(len(text), np.int64)
    found = {name: numbers(groups[name]) for name in groups.columns if name != "name"}
    if "name" in groups.columns:
        months = month_numbers(language)
        named = groups["name"].str.to_lowercase()
        found["month"] = numbers(named.replace(list(months), [str(number) for number in months.values()]))
    if "short" in found:  # as POSIX has it
        found["year"] = found["short"] + np.where(found["short"] < 69, 2000, 1900)
    if "ordinal" in found:
        made = day_of_year([found["year"], found["ordinal"]], zeros)
    else:
        made = dates.on(found["year"], found.get("month", zeros), found.get("day", zeros))
    misses = groups.to_series(0).is_null().to_numpy()
    made.reject(misses)
    return made


COUNT = r"^([+-]?[0-9]{1,15})(?:\.[0-9]*)?$"


def _counted(text: pl.Series, format_: str) -> Dates:
    """Days, seconds or milliseconds that are counted."""
    number = text.str.extract(COUNT, 1)
    count = numbers(number)
    if format_ == "excel":
        # Spreadsheets count a 29 February 1900, which never was, as number 60.
        day = count + dates.day_number(1899, 12, 30) + (count < 60)
        wrong = (count < 1) | (count == 60) | (count > 2_958_465)
    else:
        day = count // (86_400 if format_ == "unix" else 86_400_000)
        wrong = np.zeros(len(count), bool)
    made = dates.between(day, day, 3)
    made.reject(wrong | number.is_null().to_numpy())
    return made


EXCEL = r"^[1-9][0-9]{4}(?:\.[0-9]+)?$"


@dataclass(frozen=True)
class DateStyle:
    """How the dates of a table are written, as far as its owner says so.

    `dayfirst` decides what 1/2/1999 is (None: the columns decide); `format` is a pattern such as `%d.%m.%y`, or one of
    `NUMBERS`, and is tried before all other spellings; `language` is that of the names of months. `allow_unread` takes
    unreadable dates as open however many there are, `keep_placeholders` keeps dates such as 9999-12-31.
    """

    dayfirst: bool | None = None
    format: str | None = None
    language: str = "en"
    allow_unread: bool = False
    keep_placeholders: bool = False

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise InputError(f"{self.language!r} is not a language of dates.", f"Known are {', '.join(LANGUAGES)}.")
        if self.format is not None and self.format not in NUMBERS:
            pattern(self.format, self.language)  # which raises if it is none


USUAL = DateStyle()


@dataclass(frozen=True)
class Decided:
    """What the columns as a whole show of how their dates are written."""

    style: DateStyle
    assumed: bool = False  # nothing showed whether the day or the month comes first
    shown_by: str = ""  # a date that showed it
    contradicting: bool = False  # some dates have the day first, others the month


def parse(texts: pl.Series, style: DateStyle = USUAL) -> Dates:
    """Read a column of texts (nulls allowed) as dates, each by itself. Vectorised; never raises on a bad text."""
    text = texts.cast(pl.String).fill_null("").str.strip_chars()
    return _finish(text, iso(text), style)


def parse_together(columns: Sequence[pl.Series], style: DateStyle = USUAL) -> tuple[list[Dates], Decided]:
    """Read the columns of one import, which show together whether the day comes first and whether 36525 is a date."""
    text = pl.concat([column.cast(pl.String).fill_null("").str.strip_chars() for column in columns])
    made = iso(text)
    decided = _decide(text, made.state, style)
    made = _finish(text, made, decided.style)
    stops = np.cumsum([len(column) for column in columns])
    return [made[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)], decided


def _finish(text: pl.Series, made: Dates, style: DateStyle) -> Dates:
    """Read by the format that is given, and then what is not read yet."""
    counted = np.zeros(len(text), bool)
    if style.format is not None:
        fitting = read_format(text, style.format, style.language)
        fits = fitting.state == State.KNOWN
        if style.format in NUMBERS:  # then no number is a year
            counted = text.str.contains(COUNT).to_numpy()
        made.put(fits | counted, fitting[fits | counted])
    left = np.flatnonzero((made.state == State.UNREADABLE) & ~counted)
    if len(left):
        made.put(left, _written(text.gather(left), style))
    return made


def _decide(text: pl.Series, states: Ints, style: DateStyle) -> Decided:
    rest = plain_text(text.gather(np.flatnonzero(states == State.UNREADABLE)), style.language)
    rest = rest.filter(~rest.is_in(list(OPEN_WORDS)))
    stated = ((states == State.KNOWN) | (states == State.UNKNOWN_YEAR)).any()
    if style.format is None and not stated and len(rest) and rest.str.contains(EXCEL).all():
        return Decided(replace(style, format="excel"), shown_by=min(rest))
    if style.dayfirst is not None or style.format is not None or len(rest) == 0:
        return Decided(style)
    return _which_first(rest, style)


def _which_first(rest: pl.Series, style: DateStyle) -> Decided:
    found = numeric(rest)
    one, two = found.one, found.two
    day_first, month_first = (one > 12) & (two <= 12), (two > 12) & (one <= 12)
    if day_first.any() and month_first.any():
        return Decided(style, contradicting=True)
    for shows, dayfirst in ((day_first, True), (month_first, False)):
        if shows.any():
            return Decided(replace(style, dayfirst=dayfirst), shown_by=min(rest.gather(found.rows[shows])))
    unclear = (one != two) & ~found.dotted
    if not unclear.any():
        return Decided(style)
    # A table of months has the first of each: 1/1, 2/1, 3/1 … has the month first.
    dayfirst = not ((two == 1).all() and (one != 1).any())
    return Decided(replace(style, dayfirst=dayfirst), assumed=True)


def either_first(texts: pl.Series) -> Bools:
    """Which texts are dates such as 1/2/1999, where the day or the month may come first."""
    unclear = np.zeros(len(texts), bool)
    found = numeric(plain_text(texts.cast(pl.String).fill_null(""), "en"))
    unclear[found.rows] = (found.one != found.two) & (found.one <= 12) & (found.two <= 12)
    return unclear


# What people write

_CHARACTERS = {
    **{chr(0xFF10 + digit): str(digit) for digit in range(10)},  # full width
    **dict(zip("／．－？～−‐‑‒—―’‘`´≈", "/.-?~----––''''~", strict=True)),
    **{"≤": "<=", "≥": ">=", "…": "..."},
    **dict.fromkeys("\u200b\u200c\u200d\u200e\u200f\u2060\ufeff", ""),
}
_ERA = r"(?:b\. ?c\. ?e\.?|b\. ?c\.?|bce|bc)", r"(?:a\. ?d\.?|c\. ?e\.?|anno domini|ad|ce)"
_ROUGHLY = "circa|about|around|approx\\.?|approximately|roughly|probably|possibly|perhaps|maybe|prob\\.?|est\\.?"
_APPROXIMATE = rf"^(?:(?:{_ROUGHLY}|estimated|cca\.?|ca\.?|c\.?) |(?:ca\.|c\.|~) ?|ca?([0-9]))(.+)$"
_REMARK = r"\((?:\?|approx\.?|circa|c\.|ca\.|uncertain|estimated)\)|approx\.?"
_DOUBTFUL = rf"^([^?~%]*[^0-9 ?~%][^?~%]*?|[0-9]{{4}}) ?(?:[?~%]+|{_REMARK})$"
_LIMITS = {
    "before": r"^(?:(?:before|bef\.?|prior to|earlier than|pre) |pre-|< ?)(.+)$",
    "until": r"^(?:(?:until|till|til|up to|by|to|no later than|not after) |<= ?|\.\./?)(.+)$",
    "after": r"^(?:(?:after|aft\.?|later than|post) |post-|> ?)(.+)$",
    "since": r"^(?:(?:since|from|as of|starting|no earlier than|not before) |>= ?)(.+)$",
    "or later": r"^(.+?)(?: (?:onwards?|or later|and later|and after|to date|and counting)|\+|/?\.\.| ?[-–])$",
    "or earlier": r"^(.+?) (?:or|and) (?:earlier|before)$",
}


def plain_text(texts: pl.Series, language: str) -> pl.Series:
    """Lower case, one kind of blank, dash and digit, English words, eras as `bc` and `ad`."""
    text = texts.str.replace_many(_CHARACTERS).str.to_lowercase()
    text = text.str.replace_all(r"\s+", " ").str.strip_chars(" ")
    if language != "en":
        for pattern_, english in _translation(language):
            text = text.str.replace_all(pattern_, f"${{1}}{english}${{2}}")
    for written, era in zip(_ERA, ("bc", "ad"), strict=True):
        text = text.str.replace(rf"(^|[0-9 ]) ?{written}( |$)", f"${{1}} {era}${{2}}")
    return text.str.strip_chars(" ").str.replace_all(" +", " ")


@cache
def _translation(language: str) -> list[tuple[str, str]]:
    """(pattern, English) of all words of a language, longest first."""
    words = sorted(to_english(language).items(), key=lambda pair: -len(pair[0]))
    return [(rf"(^|[^\p{{L}}\p{{N}}]){re.escape(word)}\.?($|[^\p{{L}}\p{{N}}])", english) for word, english in words]


def _written(texts: pl.Series, style: DateStyle) -> Dates:
    """What is in none of the ways of files."""
    text = plain_text(texts, style.language)
    made = Dates.blank(np.full(len(text), int(State.UNREADABLE)))
    made.mark(text.is_in(list(OPEN_WORDS)).to_numpy(), State.OPEN)
    for read in (_point, _limited, _range):
        left = np.flatnonzero(made.state == State.UNREADABLE)
        if len(left) == 0:
            break
        made.put(left, read(text.gather(left), style))
    return made


def _point(text: pl.Series, style: DateStyle) -> Dates:
    """One date, perhaps a rough one, or a part of it: `c. 1850`, `1850?`, `late 1850s`, `q3 1999`."""
    bracketed = text.str.contains(r"^\[.+\]$")
    base = text.str.replace(r"^\[(.+)\]$", "${1}")
    groups = base.str.extract_groups(_APPROXIMATE).struct.unnest()
    rough = groups["2"].is_not_null()
    base = (groups["1"].fill_null("") + groups["2"]).fill_null(base)
    doubted = base.str.extract(_DOUBTFUL, 1)
    base = doubted.fill_null(base)
    made = _part(base, style)
    approximate = (bracketed | rough | doubted.is_not_null()).to_numpy()
    made.approximate[:] = approximate & (made.state == State.KNOWN)
    return made


_PART = rf"^({'|'.join(sorted(PARTS, key=len, reverse=True))})[ \-/](?:of )?(?:the )?(.+)$"
_YEAR_PART = r"^([0-9]{4})[ \-/]?([qh][1-4])$"


def _part(text: pl.Series, style: DateStyle) -> Dates:
    """A date, or the part of one that is named: `early 1850s`, `second half of 1999`, `1999-q3`."""
    before, after = (text.str.extract_groups(form).struct.unnest() for form in (_PART, _YEAR_PART))
    name = before["1"].fill_null(after["2"])
    whole = before["2"].fill_null(after["1"])
    named = name.is_in(list(PARTS)).fill_null(False).to_numpy()
    made = read_one(text.zip_with(pl.Series(~named), whole), style.dayfirst)
    rows = np.flatnonzero(named & (made.state == State.KNOWN))
    if len(rows):
        k, of = np.array([PARTS[part] for part in name.gather(rows)], np.int64).T
        made.put(rows, _cut(made[rows], k, of))
    return made


def _cut(whole: Dates, k: Ints, of: Ints) -> Dates:
    """The k-th of so many parts: of centuries and decades in years, of a year in months, of a month in days."""
    (year, month, _), (last_year, last_month, _) = dates.civil(whole.first), dates.civil(whole.last)
    months = year * 12 + month - 1, last_year * 12 + last_month - 1
    long, middle = year < last_year, months[0] < months[1]
    long &= (month == 1) & (last_month == 12)  # a winter is no decade
    start = np.where(long, year, np.where(middle, months[0], whole.first))
    number = np.where(long, last_year, np.where(middle, months[1], whole.last)) - start + 1
    low, high = (start + -(-number * step // of) for step in (k - 1, k))
    high -= 1

    def edge(units: Ints, last: bool) -> Ints:
        at = np.where(long, units * 12 + 11 * last, units)
        day = dates.day_number((at + last) // 12, (at + last) % 12 + 1, 1) - last
        return np.where(long | middle, day, units)

    precision = np.where(long, 1, np.where(middle, 2, 3))
    made = replace(whole, first=edge(low, False), last=edge(high, True), precision=precision)
    made.state[whole.first == whole.last] = State.UNREADABLE  # a day has no parts
    return dates.checked(made)


def _limited(text: pl.Series, style: DateStyle) -> Dates:
    """`before 1900`, `until 1900`, `after 1900`, `since 1900`, `1900 or later`, `1900–`."""
    made = Dates.blank(np.full(len(text), int(State.UNREADABLE)))
    for name, form in _LIMITS.items():
        base = text.str.extract(form, 1)
        rows = np.flatnonzero(base.is_not_null().to_numpy() & (made.state != State.KNOWN))
        if len(rows) == 0:
            continue
        limit = _point(base.gather(rows), style)
        if name in ("before", "until", "or earlier"):
            limit.last[:] = limit.first - 1 if name == "before" else limit.last
            limit.first[:] = spans.OPEN_BEGIN
        else:
            limit.first[:] = limit.last + 1 if name == "after" else limit.first
            limit.last[:] = spans.OPEN_END
        made.put(rows, dates.checked(limit))
    return made


_BETWEEN = r"^(?:between|from) (.+?) (?:and|to|until|till|through|-|–) (.+)$"
_TWO_DATES = (
    _BETWEEN,
    r"^(.+?) ?(?: - | to | until | till | through | or |\.\.|--| ?– ?) ?(.+)$",
    r"^([^/]*[^/ ]) ?/ ?([^/]+)$",
    r"^([^-]*[^- ])-([^-]+)$",
)
_SHARED = (  # what one says once for both: (pattern, begin, end)
    (r"^([0-9]{1,4}) ?[-–] ?([0-9]{1,4}) (bc)$", "${1} ${3}", "${2} ${3}"),
    (rf"^([0-9]{{1,2}}) ?[-–] ?([0-9]{{1,2}}) ({MONTH} [0-9]{{3,4}})$", "${1} ${3}", "${2} ${3}"),
    (
        rf"^((?:[0-9]{{1,2}} )?{MONTH}) ?(?:[-–/]|to|and) ?((?:[0-9]{{1,2}} )?{MONTH}) ([0-9]{{3,4}})$",
        "${1} ${3}",
        "${2} ${3}",
    ),
)
_BARE = r"^[0-9]+$"


def _range(text: pl.Series, style: DateStyle) -> Dates:
    """From one date to another: `1999/2000`, `1914–18`, `between 1850 and 1860`, `3-5 March 1821`, `1999–present`."""
    made = _short_end(text)
    for form, one, other in _SHARED:
        fits = text.str.contains(form)
        begin, end = (text.str.replace(form, side) for side in (one, other))
        _put_range(made, fits, begin, end, style)
    for form in _TWO_DATES:
        groups = text.str.extract_groups(form).struct.unnest()
        begin, end = groups["1"], groups["2"]
        # 5/14 and 555-1234 are no years; those of "between 5 and 14" are.
        bare = pl.Series([form != _BETWEEN]) & begin.str.contains(_BARE) & end.str.contains(_BARE)
        lengths = begin.str.len_chars(), end.str.len_chars()
        fits = begin.is_not_null() & (~bare | ((lengths[0] == lengths[1]) & (lengths[0] >= 3)))
        _put_range(made, fits.fill_null(False), begin.fill_null(""), end.fill_null(""), style)
    return made


def _put_range(made: Dates, fits: pl.Series, begin: pl.Series, end: pl.Series, style: DateStyle) -> None:
    """Read the two ends of the rows that fit and are not read yet."""
    rows = np.flatnonzero(fits.to_numpy() & (made.state == State.UNREADABLE))
    if len(rows) == 0:
        return
    begin, end = (side.gather(rows).str.strip_chars(" ") for side in (begin, end))
    one, other = _point(begin, style), _point(end, style)
    goes_on = end.is_in(list(OPEN_WORDS)).to_numpy()
    known = (one.state == State.KNOWN) & ((other.state == State.KNOWN) | goes_on)
    state = np.where(known, State.KNOWN, State.UNREADABLE)
    last = np.where(goes_on, spans.OPEN_END, other.last)
    coarsest = np.where(goes_on, one.precision, np.minimum(one.precision, other.precision))
    approximate = one.approximate | other.approximate
    made.put(rows, dates.checked(Dates(state, one.first.copy(), last, coarsest, approximate)))


def _short_end(text: pl.Series) -> Dates:
    """`1914-18`, `1999–00`: the end in two digits. After a hyphen or a slash 01 to 12 would be months."""
    groups = text.str.extract_groups(r"^([0-9]{4}) ?([-–/]) ?([0-9]{2})$").struct.unnest()
    year, two = numbers(groups["1"]), numbers(groups["3"])
    end = year // 100 * 100 + two + np.where(two <= year % 100, 100, 0)
    right = (end // 100 == year // 100) | (end == year + 1)
    right &= (groups["2"] == "–").fill_null(False).to_numpy() | (two > 12)
    right &= groups["1"].is_not_null().to_numpy()
    made = dates.years(year, end)
    made.reject(~right)
    return made


# Dates that stand for none --------------------------------------------------------------------------------------------
#
# 9999-12-31 for an end that is open, 1900-01-01 or 1970-01-01 for one not known: any of them may be meant. One is taken
# for a placeholder only where it stands far too often at one end:
#
# - the year 9999 even once, if no other date of the KB is within `NEAR_YEARS` of it;
# - a far year (`YEARS`) at least `LEAST` times and in one of a hundred dates of that end, if hardly any other date of
#   the KB is near it (fewer than a twentieth as many within `NEAR_YEARS`);
# - a usual day (`DAYS`), which may well be real, at least twice as often as that, and ten times as often as any other
#   day within ten years.


YEARS = (-9999, -1, 0, 2099, 2100, 2199, 2200, 2999, 3000, 4000, 8888, 9000, 9998, 9999)
DAYS = (
    *((1, 1, 1), (1000, 1, 1), (1582, 10, 15), (1601, 1, 1), (1753, 1, 1), (1800, 1, 1)),
    *((1899, 12, 30), (1899, 12, 31), (1900, 1, 1), (1901, 1, 1), (1970, 1, 1)),
)
CERTAIN = 9999
"""The year that nobody means."""

LEAST = 5
NEAR_YEARS = 30
SPIKE = 10
"""How many times as often as its neighbours a usual day must stand."""


def placeholders(columns: Sequence[tuple[Dates, Ints]]) -> list[Bools]:
    """Which of the distinct dates of each column (begins, ends) are placeholders, given how often each stands there."""
    every = np.concatenate([_single(read) * counts for read, counts in columns])
    days = np.concatenate([read.first for read, _ in columns])
    return [_far(read, counts, days, every) | _usual(read, counts) for read, counts in columns]


def _single(read: Dates) -> Bools:
    """Which dates are known, and no range of years."""
    one_year = dates.civil(read.first)[0] == dates.civil(read.last)[0]
    single: Bools = (read.state == State.KNOWN) & one_year
    return single


def _far(read: Dates, counts: Ints, days: Ints, every: Ints) -> Bools:
    found = np.zeros(len(counts), bool)
    single = _single(read)
    stated = int(counts[single].sum())
    own, all_years = dates.civil(read.first)[0], dates.civil(days)[0]
    for year in YEARS:
        mine = single & (own == year)
        number = int(counts[mine].sum())
        if number < (1 if year == CERTAIN else max(LEAST, stated / 100)):
            continue
        apart = np.abs(all_years - year)
        near = int(every[(apart <= NEAR_YEARS) & (apart > 0)].sum())
        others = int(every[apart > NEAR_YEARS].sum())
        if others > 0 and near < number / 20:
            found |= mine
    return found


def _usual(read: Dates, counts: Ints) -> Bools:
    found = np.zeros(len(counts), bool)
    exact = _single(read) & (read.precision == 3) & (read.first == read.last)
    stated = int(counts[_single(read)].sum())
    distinct, group = np.unique(read.first[exact], return_inverse=True)
    often = np.bincount(group, weights=counts[exact], minlength=len(distinct))
    for day in (int(dates.day_number(*parts)) for parts in DAYS):
        number = int(often[distinct == day].sum())
        if number < max(2 * LEAST, stated / 50) or number == stated:
            continue
        near = (np.abs(distinct - day) <= 3653) & (distinct != day)
        if number >= SPIKE * often[near].max(initial=0):
            found |= exact & (read.first == day)
    return found


MOST_UNREAD = 0.1
"""If more than this share of the stated dates cannot be read, a table is refused."""
SHOWN = 5
LENGTH = 40
"""Characters of a spelling that a message shows."""

_SEP, _MONTH = "(?P<sep>[/.-])", r"[^\W\d_]{3,4}\.?"
_SUGGESTIONS = (
    (rf"(?:0?\d|1[0-2]){_SEP}(?:1[3-9]|2\d|3[01])(?P=sep)\d\d", "--date-format %m-%d-%y"),
    (rf"\d{{1,2}}{_SEP}\d{{1,2}}(?P=sep)\d\d", "--date-format %d-%m-%y"),
    (rf"\d{{1,2}}{_SEP}\d{{1,2}}(?P=sep)\d{{4}}(?:[ T].*)?", "--dayfirst or --monthfirst"),
    (rf"\d{{1,2}}(?P<sep>[ -]){_MONTH}(?P=sep)\d\d", "--date-format %d-%b-%y"),
    (rf"{_MONTH}(?P<sep>[ -])\d\d", "--date-format %b-%y"),
    (r"[12]\d{3}(?:0[1-9]|1[0-2])", "--date-format %Y%m"),
    (r"[1-9]\d{4}(?:\.\d+)?", "--date-format excel"),
    (r"\d{9,10}", "--date-format unix"),
    (r"\d{12,13}", "--date-format unix-ms"),
)
"""What a spelling looks like, and the option that reads it (with the separator of the spelling)."""


@dataclass(frozen=True)
class Shape:
    """Unread dates that look alike: the commonest of them, how many there are, and the option that may read them."""

    example: str
    number: int
    suggestion: str


def suggest(text: str) -> str:
    """The option that may read a date, or nothing."""
    text = text.strip()
    for form, option in _SUGGESTIONS:
        found = re.fullmatch(form, text)
        if found:
            name, _, value = option.partition(" %")
            separator = found.groupdict().get("sep", "-")
            quote = "'" if separator == " " else ""
            return f"{name} {quote}%{value.replace('-', separator)}{quote}" if value else option
    words = set(re.findall(r"[^\W\d_]+", text.lower())) - set(month_numbers())
    for language in LANGUAGES if re.search(r"\d{3}", text) else ():
        if words & set(month_numbers(language)):
            return f"--date-language {language}"
    return ""


def shapes(spellings: Mapping[str, int]) -> list[Shape]:
    """The shapes of unread spellings (and how often each occurs), commonest first."""
    groups: dict[str, Counter[str]] = {}
    for text, number in spellings.items():
        groups.setdefault(_shape(text), Counter())[text] += number
    found = []
    for alike in groups.values():
        example = max(alike, key=lambda text: (alike[text], text))
        options = Counter(filter(None, map(suggest, alike))).most_common()
        # One date may show what others leave open: 12/31/99 beside 1/2/99.
        first = [option for option, _ in options if option.startswith("--date-format %m")]
        found.append(Shape(example, alike.total(), (first or [option for option, _ in options] or [""])[0]))
    return sorted(found, key=lambda shape: (-shape.number, shape.example))


def _shape(text: str) -> str:
    """Digits and letters without which they are: `31/12/99` and `1/2/03` look alike."""
    words = re.sub(r"[^\W\d_]+", "a", text.strip())
    return re.sub(r"[0-9]+", lambda digits: "0" * max(len(digits[0]), 2), words)[:LENGTH]


def sentence(stated: int, found: Sequence[Shape]) -> str:
    """`412 of 1,000 dates cannot be read: '31/12/99' and the like 412 times.`"""
    number = sum(shape.number for shape in found)
    parts = [f"{_quoted(shape.example)} and the like {counted(shape.number, 'time')}" for shape in found[:SHOWN]]
    more = ", …" if len(found) > SHOWN else ""
    return f"{number:,} of {counted(stated, 'date')} cannot be read: {', '.join(parts)}{more}."


def in_python(option: str) -> str:
    """The argument of `read` that does what an option does: `date_format="%d/%m/%y"`."""
    name, _, value = option.removeprefix("--").replace("-", "_", 1).partition(" ")
    return "dayfirst=True or False" if name == "dayfirst" else f'{name}="{value.strip(chr(39))}"'


def _quoted(text: str) -> str:
    text = text.strip()
    return repr(text if len(text) <= LENGTH else text[: LENGTH - 1] + "…")


def refusal(stated: int, found: Sequence[Shape]) -> UnreadableDatesError:
    """The error that too many dates cannot be read, with what would read them."""
    told = [shape for shape in found[:SHOWN] if shape.suggestion]

    def hint(said: Callable[[str], str], usual: str, anyway: str) -> str:
        tries = "; ".join(f"{said(shape.suggestion)} for {_quoted(shape.example)}" for shape in told)
        return f"Try {tries or usual}, or take them as open with {anyway}; see docs/dates.md."

    return UnreadableDatesError(
        sentence(stated, found),
        hint(in_python, "date_format=, dayfirst= or date_language=", "allow_unread_dates=True"),
        hint(str, "--date-format, --dayfirst, --monthfirst or --date-language", "--allow-unread-dates"),
    )
