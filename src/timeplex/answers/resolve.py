"""From what people write to numbers: names to entities and relations, dates to spans, single values to columns."""

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from timeplex.answers.rank import EntityQueries, KnownAnswers, Ranked
from timeplex.errors import InputError, UnknownNameError
from timeplex.kb import date_spellings, dates, spans
from timeplex.kb.dates import Granularity, State
from timeplex.kb.facts import Facts, TemporalKB, pair_key
from timeplex.kb.names import Names
from timeplex.kb.timeline import Timeline
from timeplex.models.scorer import Direction
from timeplex.text import quoted
from timeplex.typing import Bools, Floats, Ints

Date = int | float | str | datetime.date | None
"""One side of a span; None (or an empty text) is open."""

At = Date | tuple[Date, Date]
"""A time that is asked for: a date, `2000..2003`, or a tuple (begin, end)."""

ANY_TIME = ".."

TEXTS = dict.fromkeys(
    ("entity", "id", "known", "subject", "relation", "object", "begin", "end", "low", "high"), pl.String
)
"""Columns of texts, also where there is no row or no text."""

YEAR = re.compile("[+-]?[0-9]{1,4}")

REMEMBERED = 10_000
"""So many written dates are read once only: who is asked for months must not grow."""


class Resolver:
    """The names and the time axis of a KB, as people refer to them."""

    def __init__(self, kb: TemporalKB, timeline: Timeline, facts: Facts | None = None) -> None:
        """`facts`: those that something was learned from, the training facts if None."""
        self.kb, self.timeline = kb, timeline
        self._facts = kb.train if facts is None else facts
        self._known_dates: dict[str, tuple[int, int]] = {}

    def entity(self, name: str) -> int:
        """The number of an entity, by id or label; see `Names.find`."""
        return self.kb.entities.find(name, "entity", in_part=True)

    def relation(self, name: str) -> int:
        """The number of a relation, by id or label."""
        return self.kb.relations.find(name, "relation", in_part=True)

    def entities(self, names: Sequence[str]) -> Ints:
        """Numbers of entities: (n,); all must have training facts."""
        return _learned(_each(self.kb.entities, names, "entity"), self.seen, self.kb.entities)

    def relations(self, names: Sequence[str]) -> Ints:
        """Numbers of relations: (n,); all must have training facts."""
        return _learned(_each(self.kb.relations, names, "relation"), self.used, self.kb.relations)

    def triples(
        self, subject: str | Sequence[str], relation: str | Sequence[str], object: str | Sequence[str]
    ) -> tuple[Ints, Ints, Ints]:
        """Facts without their dates as numbers: (n,) each; every argument is a single value or a list."""
        table = columns(subject=subject, relation=relation, object=object)
        return self.entities(table["subject"]), self.relations(table["relation"]), self.entities(table["object"])

    def questions(
        self,
        *,
        relation: str | Sequence[str],
        at: At | Sequence[At] = ANY_TIME,
        subject: str | Sequence[str] | None = None,
        object: str | Sequence[str] | None = None,
    ) -> EntityQueries:
        """What `rank` is asked, as numbers."""
        if (subject is None) == (object is None):
            both = "Both a subject and an object are" if subject is not None else "Neither a subject nor an object is"
            raise InputError(f"{both} given.", "Give one of them: the other one is asked for.")
        direction: Direction = "object" if object is None else "subject"
        given = subject if object is None else object
        table = columns(given=given, relation=relation, at=at)
        r = self.relations(table["relation"])
        return EntityQueries(direction, self.entities(table["given"]), r, *self.spans(table["at"]))

    @cached_property
    def seen(self) -> Bools:
        """Which entities have a training fact: (entities,)."""
        return self._facts.mentioned(len(self.kb.entities))

    @cached_property
    def used(self) -> Bools:
        """Which relations have a training fact: (relations,)."""
        used = np.zeros(len(self.kb.relations), np.bool_)
        used[self._facts.r] = True
        return used

    def spans(self, times: Sequence[At]) -> tuple[Ints, Ints]:
        """Spans of times: begins and ends in calendar instants, (n,) each."""
        each = {at: self.span(at) for at in dict.fromkeys(times)}  # a time that comes often is read once
        found = np.array([each[at] for at in times], np.int64).reshape(-1, 2)
        return found[:, 0], found[:, 1]

    def span(self, at: At) -> tuple[int, int]:
        """The calendar instants that a time covers, from its begin to its end, inside the timeline.

        A date that is coarser than the KB's covers all that lies in it; an open side runs to the edge. A date that
        covers nothing of the timeline is an error which says how far it reaches, but not if it lies in the future: that
        is as far after the last instant as the timeline is long.
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
        first, last = self.timeline.first, self.timeline.last
        from_, to = first, last
        if begin:
            from_ = self._covered(begin)[0]
        if end:
            to = self._covered(end)[1]
        if end and from_ > to:
            raise InputError(f"{begin}..{end} ends before it begins.", "Give the earlier date first.")
        return max(from_, first), max(min(to, last), from_)

    def span_text(self, begin: int, end: int) -> str:
        """`2000`, `2000–2003`, `2000–`, `–2003`; ends may be open, and `no dates` means that both are."""
        return dates.write_spans([(begin, end)], self.kb.granularity)[0]

    def _covered(self, text: str) -> tuple[int, int]:
        """The first and the last instant of a written date."""
        if (known := self._known_dates.get(text)) is not None:
            return known
        is_year = YEAR.fullmatch(text)  # for which a column of one takes long
        parsed = (
            dates.on(int(text), 0, 0)
            if is_year
            else date_spellings.parse(pl.Series([text.encode(errors="replace").decode()]))
        )
        if parsed.state[0] != State.KNOWN:
            raise InputError(f"{quoted(text)} is not a date.", "Write it as 2000, 2000-05 or 2000-05-17.")
        first, last = (int(side[0]) for side in dates.place(parsed, self.kb.granularity))
        future = 2 * self.timeline.last - self.timeline.first
        if last < self.timeline.first or first > future:
            raise InputError(
                f"{text} is outside of the timeline, which runs from {self.timeline.text(0)} to "
                f"{self.timeline.text(-1)}.",
                "Nothing was learned of other times.",
            )
        if len(self._known_dates) >= REMEMBERED:
            self._known_dates.clear()
        self._known_dates[text] = first, last
        return first, last


def columns(**given: Any) -> dict[str, list[Any]]:
    """Single values and sequences as columns of one length.

    A text, a number, a date or a tuple is a single value; lists, arrays and Series are sequences. A single value, or a
    sequence of one, goes with every row of the others.
    """
    lists = {name: list(value) if is_column(value) else [value] for name, value in given.items()}
    lengths = {len(column) for column in lists.values()} - {1}
    if len(lengths) > 1:
        said = ", ".join(f"{name} {len(column)}" for name, column in lists.items())
        raise InputError(
            f"The columns have different lengths: {said}.", "Give single values, or columns of one length."
        )
    rows = lengths.pop() if lengths else 1
    return {name: column * rows if len(column) == 1 else column for name, column in lists.items()}


def is_column(value: object) -> bool:
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
    numbers = {name: names.find(name, what, in_part=True) for name in dict.fromkeys(wanted)}
    return np.array([numbers[name] for name in wanted], np.int64)


ELSEWHEN = " (another time)"


def known_answers(
    known: KnownAnswers, questions: EntityQueries, query: Ints, entity: Ints, granularity: Granularity
) -> list[str | None]:
    """For candidates of questions, (m,), the spans at which they are stated; None for those that are new.

    Those that meet the time of the question come alone: `2000–2003`; if there are none, the others are marked:
    `1995–1999 (another time)`.
    """
    texts: list[str | None] = [None] * len(query)
    asked, fact, meets = known.of(questions)
    stated, wanted = pair_key(asked, known.answers(questions.direction)[fact]), pair_key(query, entity)
    # Few of the facts that answer a question are about one of its best candidates.
    order = np.argsort(wanted)
    where = np.searchsorted(wanted, stated, sorter=order)
    there = np.flatnonzero(where < len(wanted))
    place = order[where[there]]
    same = wanted[place] == stated[there]
    place, fact, meets = place[same], fact[there][same], meets[there][same]
    # An answer that holds at the time is not said to hold at others.
    now = np.zeros(len(query), np.bool_)
    now[place[meets]] = True
    shown = meets | ~now[place]
    for row, text in spans_texts(known.facts, place[shown], fact[shown], granularity).items():
        texts[row] = text if now[row] else text + ELSEWHEN
    return texts


def rank_table(
    kb: TemporalKB, known: KnownAnswers, questions: EntityQueries, found: Ranked, probability: Floats
) -> pl.DataFrame:
    """Candidates with their probabilities, (n, k), as a table: see `Trained.rank`."""
    there = found.entity >= 0
    query, place = np.nonzero(there)
    entity = found.entity[there]
    return pl.DataFrame(
        {
            "query": query,
            "rank": place + 1,
            "entity": kb.entities.many_labels(entity),
            "id": kb.entities.many(entity),
            "probability": probability[there],
            "known": known_answers(known, questions, query, entity, kb.granularity),
        },
        schema_overrides=TEXTS,
    )


def known_spans(facts: Facts, s: Ints, r: Ints, o: Ints, granularity: Granularity) -> list[str | None]:
    """For each (s, r, o) the spans at which it is stated, None if it is not: (n,)."""
    query, fact = facts.of_triples(s, r, o)
    texts: list[str | None] = [None] * len(s)
    for row, text in spans_texts(facts, query, fact, granularity).items():
        texts[row] = text
    return texts


@dataclass(frozen=True, eq=False)
class SpanPrediction:
    """Predicted spans, (n,) each; begin, end, low and high are calendar instants.

    probability  that the span overlaps the true one
    low, high    the interval that holds the true begin in 80 % of all cases
    """

    begin: Ints
    end: Ints
    probability: Floats
    low: Ints
    high: Ints


def when_table(kb: TemporalKB, s: Ints, r: Ints, o: Ints, found: SpanPrediction) -> pl.DataFrame:
    """Predicted spans as a table: see `Trained.when`."""
    instants = np.concatenate([found.begin, found.end, found.low, found.high])
    written = np.array(dates.write(instants, kb.granularity)).reshape(4, len(s))  # in one go: it is quicker
    begin, end, low, high = written.tolist()
    return pl.DataFrame(
        {
            "subject": kb.entities.many_labels(s),
            "relation": kb.relations.many_labels(r),
            "object": kb.entities.many_labels(o),
            "begin": begin,
            "end": end,
            "probability": found.probability,
            "low": low,
            "high": high,
            "known": known_spans(kb.facts, s, r, o, kb.granularity),
        },
        schema_overrides=TEXTS,
    )


def spans_texts(facts: Facts, key: Ints, fact: Ints, granularity: Granularity) -> dict[int, str]:
    """The spans of the facts of each key in order, each once: `1990–1994, 2000–`; key and fact: (n,)."""
    begin, end = facts.begin[fact], facts.end[fact]
    order = np.lexsort((end, begin, key))
    spans = list(zip(begin[order].tolist(), end[order].tolist(), strict=True))
    distinct = list(dict.fromkeys(spans))
    written = dict(zip(distinct, dates.write_spans(distinct, granularity), strict=True))
    texts: dict[int, dict[str, None]] = {}
    for each, span in zip(key[order].tolist(), spans, strict=True):
        texts.setdefault(each, {})[written[span]] = None
    return {each: ", ".join(said) for each, said in texts.items()}


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

    def __init__(self, asking: Resolver) -> None:
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
    (read,), decided = date_spellings.parse_together([texts])
    return date_spellings.parse(texts) if decided.assumed else read


def _because(reason: list[str], row: int, why: str) -> None:
    """The first reason stays."""
    reason[row] = reason[row] or why
