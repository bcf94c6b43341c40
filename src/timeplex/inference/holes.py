"""Rows of a table as questions: names and dates as numbers, what is missing in each row, or why it cannot be asked."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl

from timeplex.errors import UnknownNameError
from timeplex.inference.asking import Asking
from timeplex.kb import dates, spans, spellings
from timeplex.kb.dates import Ints, State
from timeplex.kb.names import Names


class Hole(IntEnum):
    """What is missing in a row."""

    NOTHING = 0  # or nothing that can be asked for: the row has a reason
    OBJECT = 1
    BEGIN = 2
    END = 3
    BOTH = 4  # begin and end


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table, arrays (n,): numbers (−1 where missing or unknown), calendar instants with open ends, holes.

    `reason` says for a row with Hole.NOTHING why; it is empty for the others.
    """

    s: Ints
    r: Ints
    o: Ints
    begin: Ints
    end: Ints
    hole: Ints
    reason: list[str]

    def __len__(self) -> int:
        return len(self.s)


class Reader:
    """Turns texts into numbers; a name that comes often is looked up once."""

    def __init__(self, asking: Asking) -> None:
        self.asking = asking
        self._found: dict[tuple[str, str], int | str] = {}
        self._learned = {"entity": asking.seen, "relation": asking.used}

    def read(self, texts: pl.DataFrame) -> Rows:
        """The rows of a table with the columns subject, relation, object and perhaps begin and end, all texts.

        With a begin and no end column each row is an event, whose end is its begin.
        """
        count, reason = len(texts), [""] * len(texts)
        events = "begin" in texts.columns and "end" not in texts.columns
        s, r, o = (self._numbers(texts[role].to_list(), role, reason) for role in ("subject", "relation", "object"))
        begin = self._dates(texts, "begin", spans.OPEN_BEGIN, reason)
        end = self._dates(texts, "begin" if events else "end", spans.OPEN_END, reason)
        first, last = (int(self.asking.timeline.instants[at]) for at in (0, -1))
        for row in np.flatnonzero(begin > end):
            _because(reason, int(row), "the row ends before it begins")
        for row in np.flatnonzero((begin > last) | (end < first)):
            reach = self.asking.span_text(first, last)
            _because(reason, int(row), f"the row lies outside of the timeline, {reach}, where nothing was learned")
        no_begin, no_end = spans.is_open((begin, end))
        hole = np.select(
            [o < 0, no_begin & no_end, no_begin, no_end],
            [Hole.OBJECT, Hole.BOTH, Hole.BEGIN, Hole.END],
            int(Hole.NOTHING),
        )
        for row in np.flatnonzero((hole == Hole.OBJECT) & no_begin & no_end):
            _because(reason, int(row), "object and dates are both missing: give one of them")
        for row in np.flatnonzero(hole == Hole.NOTHING):
            _because(reason, int(row), "the row has no hole")
        hole[[bool(reason[row]) for row in range(count)]] = Hole.NOTHING
        return Rows(s, r, o, begin, end, hole, reason)

    def _numbers(self, names: Sequence[str | None], role: str, reason: list[str]) -> Ints:
        what = "relation" if role == "relation" else "entity"
        numbers = np.full(len(names), -1, np.int64)
        for row, name in enumerate(names):
            if name is None or not name.strip():
                if role != "object":
                    _because(reason, row, f"the row has no {role}")
                continue
            found = self._found.get((what, name))
            if found is None:
                found = self._found[what, name] = self._find(name, what)
            if isinstance(found, str):
                _because(reason, row, found)
            else:
                numbers[row] = found
        return numbers

    def _find(self, name: str, what: str) -> int | str:
        """The number of a name, or why nothing can be said of it."""
        names: Names = self.asking.kb.relations if what == "relation" else self.asking.kb.entities
        try:
            number = names.find(name, what)
        except UnknownNameError as error:
            return error.problem.rstrip(".")
        return number if self._learned[what][number] else f"the {what} {name!r} has no training fact"

    def _dates(self, texts: pl.DataFrame, role: str, missing: int, reason: list[str]) -> Ints:
        """Begins as the first instant that a date covers, ends as the last; a year that is not known is missing."""
        if role not in texts.columns:
            return np.full(len(texts), missing, np.int64)
        parsed = _read(texts[role])
        first, last = dates.place(parsed, self.asking.kb.granularity)
        for row in np.flatnonzero(parsed.state == State.UNREADABLE):
            _because(reason, int(row), f"unreadable date {texts[role][int(row)]!r}")
        return np.where(parsed.state == State.KNOWN, first if missing == spans.OPEN_BEGIN else last, missing)


def _read(texts: pl.Series) -> dates.Dates:
    """A column of dates; where nothing shows whether 1/2/1999 has the day first, it is not read."""
    (read,), decided = spellings.parse_together([texts])
    return spellings.parse(texts) if decided.assumed else read


def _because(reason: list[str], row: int, why: str) -> None:
    """The first reason stays."""
    reason[row] = reason[row] or why
