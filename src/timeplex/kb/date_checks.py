"""Dates that stand for "no date": 9999-12-31 for an end that is open, 1900-01-01 or 1970-01-01 for one not known.

Any of them may be meant. One is taken for a placeholder only where it stands far too often at one end:

- the year 9999 even once, if no other date of the KB is within `NEAR_YEARS` of it;
- a far year (`YEARS`) at least `LEAST` times and in one of a hundred dates of that end, if hardly any other date of the
  KB is near it (fewer than a twentieth as many within `NEAR_YEARS`);
- a usual day (`DAYS`), which may well be real, at least twice as often as that, and ten times as often as any other day
  within ten years.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from timeplex.errors import UnreadableDatesError
from timeplex.kb import dates
from timeplex.kb.date_forms import MONTHS, month_numbers
from timeplex.kb.dates import Dates, State
from timeplex.text import counted
from timeplex.typing import Bools, Ints

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


def placeholders(columns: list[tuple[Dates, Ints]]) -> list[Bools]:
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
            return (
                f"{name} '%{value.replace('-', separator)}'"
                if separator == " "
                else (f"{name} %{value.replace('-', separator)}" if value else option)
            )
    words = set(re.findall(r"[^\W\d_]+", text.lower())) - set(month_numbers())
    for language in MONTHS if re.search(r"\d{3}", text) else ():
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


def sentence(stated: int, found: Iterable[Shape]) -> str:
    """`412 of 1,000 dates cannot be read: '31/12/99' and the like 412 times.`"""
    found = list(found)
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


def refusal(stated: int, found: Iterable[Shape]) -> UnreadableDatesError:
    """The error that too many dates cannot be read, with what would read them."""
    found = list(found)
    told = [shape for shape in found[:SHOWN] if shape.suggestion]

    def hint(said: Callable[[str], str], usual: str, anyway: str) -> str:
        tries = "; ".join(f"{said(shape.suggestion)} for {_quoted(shape.example)}" for shape in told)
        return f"Try {tries or usual}, or take them as open with {anyway}; see docs/dates.md."

    return UnreadableDatesError(
        sentence(stated, found),
        hint(in_python, "date_format=, dayfirst= or date_language=", "allow_unread_dates=True"),
        hint(str, "--date-format, --dayfirst, --monthfirst or --date-language", "--allow-unread-dates"),
    )
