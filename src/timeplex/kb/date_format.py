"""Dates in a format that the user gives: `%d.%m.%y`, or a number that counts days or seconds."""

import re
from functools import cache

import numpy as np
import polars as pl

from timeplex.errors import InputError
from timeplex.kb import dates
from timeplex.kb.date_forms import day_of_year, numbers
from timeplex.kb.date_words import month_numbers
from timeplex.kb.dates import Dates

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
