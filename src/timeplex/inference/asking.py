"""From what people write to numbers: names to entities and relations, dates to spans, single values to columns."""

import datetime
import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from timeplex.errors import InputError
from timeplex.kb import dates, spans, spellings
from timeplex.kb.dates import Ints, State
from timeplex.kb.facts import TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.spans import Bools
from timeplex.kb.timeline import Timeline
from timeplex.visible import quoted

Date = int | float | str | datetime.date | None
"""One side of a span; None (or an empty text) is open."""

At = Date | tuple[Date, Date]
"""A time that is asked for: a date, `2000..2003`, or a tuple (begin, end)."""


YEAR = re.compile("[+-]?[0-9]{1,4}")


class Asking:
    """The names and the time axis of a KB, as people refer to them."""

    def __init__(self, kb: TemporalKB, timeline: Timeline) -> None:
        self.kb, self.timeline = kb, timeline
        self._known_dates: dict[str, tuple[int, int]] = {}

    def entity(self, name: str) -> int:
        """The number of an entity, by id or label; see `Names.find`."""
        return self.kb.entities.find(name, "entity")

    def relation(self, name: str) -> int:
        """The number of a relation, by id or label."""
        return self.kb.relations.find(name, "relation")

    def entities(self, names: Sequence[str]) -> Ints:
        """Numbers of entities: (n,); all must have training facts."""
        return _learned(_each(self.kb.entities, names, "entity"), self.seen, self.kb.entities)

    def relations(self, names: Sequence[str]) -> Ints:
        """Numbers of relations: (n,); all must have training facts."""
        return _learned(_each(self.kb.relations, names, "relation"), self.used, self.kb.relations)

    @cached_property
    def seen(self) -> Bools:
        """Which entities have a training fact: (entities,)."""
        return self.kb.train.mentioned(len(self.kb.entities))

    @cached_property
    def used(self) -> Bools:
        """Which relations have a training fact: (relations,)."""
        used = np.zeros(len(self.kb.relations), np.bool_)
        used[self.kb.train.r] = True
        return used

    def spans(self, times: Sequence[At]) -> tuple[Ints, Ints]:
        """Spans of times: begins and ends in calendar instants, (n,) each."""
        each = {at: self.span(at) for at in dict.fromkeys(times)}  # a time that comes often is read once
        found = np.array([each[at] for at in times], np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def span(self, at: At) -> tuple[int, int]:
        """The calendar instants that a time covers, from its begin to its end, inside the timeline.

        A date that is coarser than the KB's covers all that lies in it; an open side runs to the edge. A date that
        covers nothing of the timeline is an error which says how far it reaches.
        """
        if isinstance(at, tuple):
            if len(at) != 2:
                raise InputError(f"{quoted(at)} is not a time.", "Give a date, or a tuple with begin and end.")
            begin, end = (_text(side) for side in at)
        else:
            text = _text(at)
            begin, separator, end = (part.strip() for part in text.partition(".."))
            if not separator:
                begin = end = text.strip()
                if not begin:
                    raise InputError(
                        "No time is given.", "Give a date such as 2000, or 2000..2003, or .. for any time."
                    )
        first, last = int(self.timeline.instants[0]), int(self.timeline.instants[-1])
        from_, to = first, last
        if begin:
            from_ = self._covered(begin)[0]
        if end:
            to = self._covered(end)[1]
        if from_ > to:
            raise InputError(f"{begin}..{end} ends before it begins.", "Give the earlier date first.")
        return max(from_, first), min(to, last)

    def span_text(self, begin: int, end: int) -> str:
        """`2000`, `2000–2003`, `2000–`, `–2003`; ends may be open, and `no dates` means that both are."""
        return span_texts([(begin, end)], self.kb.granularity)[0]

    def _covered(self, text: str) -> tuple[int, int]:
        """The first and the last instant of a written date."""
        if text in self._known_dates:
            return self._known_dates[text]
        is_year = YEAR.fullmatch(text)  # for which a column of one takes long
        parsed = (
            dates.on(int(text), 0, 0)
            if is_year
            else spellings.parse(pl.Series([text.encode(errors="replace").decode()]))
        )
        if parsed.state[0] != State.KNOWN:
            raise InputError(f"{quoted(text)} is not a date.", "Write it as 2000, 2000-05 or 2000-05-17.")
        first, last = (int(side[0]) for side in dates.place(parsed, self.kb.granularity))
        if last < self.timeline.instants[0] or first > self.timeline.instants[-1]:
            raise InputError(
                f"{text} is outside of the timeline, which runs from {self.timeline.text(0)} to "
                f"{self.timeline.text(-1)}.",
                "Nothing was learned of other times.",
            )
        self._known_dates[text] = first, last
        return first, last


def span_texts(some: Sequence[tuple[int, int]], granularity: dates.Granularity) -> list[str]:
    """`2000`, `2000–2003`, `2000–`, `–2003`, `no dates`."""
    ends = np.array(some, np.int64).reshape(-1, 2)
    is_open = np.stack(spans.is_open((ends[:, 0], ends[:, 1])), 1)
    written = dates.write(np.where(is_open, 0, ends).ravel(), granularity)
    texts = []
    for begin, end, (no_begin, no_end) in zip(written[::2], written[1::2], is_open.tolist(), strict=True):
        if no_begin and no_end:
            texts.append("no dates")
        elif begin == end and not no_begin and not no_end:
            texts.append(begin)
        else:
            texts.append(f"{'' if no_begin else begin}–{'' if no_end else end}")
    return texts


def columns(**given: Any) -> dict[str, list[Any]]:
    """Single values and sequences as columns of one length.

    A text, a number, a date or a tuple is a single value; lists, arrays and Series are sequences. A single value, or a
    sequence of one, goes with every row of the others.
    """
    lists = {name: list(value) if _is_column(value) else [value] for name, value in given.items()}
    lengths = {len(column) for column in lists.values()} - {1}
    if len(lengths) > 1:
        said = ", ".join(f"{name} {len(column)}" for name, column in lists.items())
        raise InputError(
            f"The columns have different lengths: {said}.", "Give single values, or columns of one length."
        )
    rows = lengths.pop() if lengths else 1
    return {name: column * rows if len(column) == 1 else column for name, column in lists.items()}


def _is_column(value: object) -> bool:
    """Whether a value stands for many."""
    return not isinstance(value, str | bytes | tuple) and hasattr(value, "__len__") and hasattr(value, "__iter__")


def _text(date: Date) -> str:
    """A date as it would be written; open is the empty text."""
    if date is None:
        return ""
    if isinstance(date, bool) or not isinstance(date, int | float | str | np.integer | np.floating | datetime.date):
        raise InputError(f"{quoted(date)} is not a date.", "Give a year, a text such as 2000-05, or a datetime.date.")
    return date.isoformat()[:10] if isinstance(date, datetime.date) else str(date).strip()


def _learned(numbers: Ints, seen: Bools, names: Names) -> Ints:
    """The numbers, if something was learned of each: an answer about the others would be noise."""
    strangers = numbers[~seen[numbers]]
    if len(strangers):
        name = names.label(int(strangers[0]))
        raise InputError(
            f"{quoted(name)} has no training fact, so that nothing was learned of it.",
            "Train again with facts about it.",
        )
    return numbers


def _each(names: Names, wanted: Sequence[str], what: str) -> Ints:
    """The number of each name; a name that comes often is looked up once."""
    numbers = {name: names.find(name, what) for name in dict.fromkeys(wanted)}
    return np.array([numbers[name] for name in wanted], np.int64)
