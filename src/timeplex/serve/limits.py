"""How much a request may ask for, and what it is refused with."""

from collections.abc import Callable
from typing import Any

from timeplex.errors import InputError
from timeplex.text import quoted

Row = dict[str, Any]

MOST_ANSWERS = 1_000
"""k: so many answers to a question, so many missing facts."""
MOST_QUESTIONS = 256
"""So many questions, or rows to fill, in a call."""
MOST_IN_ALL = 25_600
"""So many answers to all questions of a call together."""
MOST_EXPLAINED = 1_000
"""So many of them with their reasons."""
LONGEST_NAME = 512
"""Characters of a name, a date, a text that is searched for."""
MOST_ROWS = 1_000
"""So many rows of a list on a page of it."""
ROWS = 50
"""So many if one does not say."""
MOST_NEIGHBOURS = 50
"""So many neighbours in the small graph."""
BARS = 240
"""A curve has so many parts at most."""
REASONS = 4
"""So many facts are told for a date."""
OTHERS = 5
"""So many other facts are named with a finding."""
LATER = 10**9
"""A page begins at this row at the latest."""
DISCOVERIES = 16
"""So many searches for missing facts are remembered."""
FACETS = 200
"""So many values of a facet are counted."""


def check_text(text: str, what: str) -> None:
    """Refuse a text that is longer than any name."""
    if not isinstance(text, str):
        raise InputError(f"{quoted(text)} is no text.", "Give a text.")
    if len(text) > LONGEST_NAME:
        raise InputError(f"{what} has at most {LONGEST_NAME} characters, not {len(text):,}.", "Give a shorter one.")


def check_page(limit: int, offset: int) -> None:
    """Refuse a page that is too long, or begins nowhere."""
    check_number(limit, 1, MOST_ROWS, "rows")
    check_number(offset, 0, LATER, "rows before it")


def check_number(number: int, least: int, most: int, what: str) -> None:
    """Refuse a number that is too small or too large."""
    if not least <= number <= most:
        raise InputError(f"{number:,} {what} cannot be given.", f"Give from {least} to {most:,}.")


def page(rows: Any, limit: int, offset: int, tell: Callable[[Any], list[Row]] = list) -> Row:
    """A part of a list: its items, how many there are in all, and where the next part begins (None at the end)."""
    total, stop = len(rows), offset + limit
    return {"total": total, "offset": offset, "next": stop if stop < total else None, "items": tell(rows[offset:stop])}
