"""Dates that could not be read: which spellings are commonest, and what would read them."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from timeplex.counting import counted
from timeplex.errors import UnreadableDatesError
from timeplex.kb.date_words import MONTHS, month_numbers

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
