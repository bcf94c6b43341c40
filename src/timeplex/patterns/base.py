"""What a pattern is: something that a person sees in a table of dated facts, learned once and read by all that answer.

A pattern is fitted on facts, and says what it sees in *features*, rows of numbers that a learner weighs:

    years(queries, side)    a row over instants for the begin, or the end, of (s, r, o)
    candidates(queries)     a row over all entities for (x, r, ?, T)

A feature is 0 where the pattern has nothing to say, higher where it speaks for an answer; it is never NaN or infinite.
A fact is no evidence for itself: `own` names the fact of the evidence that a query was made of, or −1.

Both directions of a question are one: relation r + R asks for the subject of r, (x, r + R, ?) = (?, r, x).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from timeplex.kb import spans
from timeplex.kb.assemble import plausible_range
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, Index, TemporalKB
from timeplex.patterns.graph import Graph, graph
from timeplex.registry import register_in
from timeplex.typing import Bools, Features, Floats, Ints

Side = Literal["begin", "end"]
SIDES: tuple[Side, Side] = ("begin", "end")


MOST_INSTANTS = 1024
"""An axis of up to so many instants has them all; a longer one has `CELLS` cells of several instants each."""
CELLS = 512
TAIL = 0.02
"""The share of the earliest dates around which the axis has the dates that occur, and no others."""


def axis_of(facts: Facts, granularity: Granularity) -> tuple[Ints, Ints]:
    """The instants that a date is looked for among, in order, and how many instants each stands for: (axis,) each.

    All instants from where the dates become frequent to the last plausible one, and before and after that the dates
    that occur: a KB with one fact of the year 100 has no need for all years between. A long axis has cells, of which
    the first instant stands for all until a question is looked at more closely (`TimeQueries.axis`).
    """
    dates = np.sort(np.concatenate([facts.begin[facts.has_begin], facts.end[facts.has_end]]).astype(np.int64))
    if len(dates) == 0:
        return np.zeros(1, np.int64), np.ones(1, np.int64)
    low = int(dates[int(TAIL * len(dates))])
    high = min(int(dates[-1]), plausible_range(dates, np.ones(len(dates), np.int64), granularity)[1])
    low, high = min(low, high), max(low, high)
    count = high - low + 1
    step = 1 if count <= MOST_INSTANTS else -(-count // CELLS)
    outside = np.unique(dates[(dates < low) | (dates > high)])
    some = outside[:: -(-len(outside) // CELLS)] if len(outside) else outside
    cells = np.arange(low, high + 1, step)
    width = np.minimum(step, high + 1 - cells)
    before = some < low
    axis = np.concatenate([some[before], cells, some[~before]])
    return axis, np.concatenate([np.ones(before.sum(), np.int64), width, np.ones((~before).sum(), np.int64)])


class Rows(Index):
    """The 2n rows of an evidence by key; those of a key by date, so that the order of facts does not matter."""

    def __init__(self, keys: Ints, by_date: Ints) -> None:
        super().__init__(keys[by_date])
        self.order = by_date[self.order]

    @cached_property
    def place(self) -> Ints:
        """Where each row stands in `order`: (2n,)."""
        place = np.empty(len(self.order), np.int64)
        place[self.order] = np.arange(len(self.order))
        return place

    def others(self, keys: Ints, own: Ints, most: int) -> tuple[Ints, Ints]:
        """All pairs (position in `keys`, row that has this key and is not of the fact `own`), by position.

        Of a key with more than `most` such rows so many are taken, spread evenly over all.
        """
        start, stop = self.ranges(keys)
        size, facts = stop - start, len(self.order) // 2
        if facts == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        twice = np.sort(self.place[np.stack([own, own + facts])], axis=0)  # own = −1 is masked in the next line
        inside = (own >= 0) & (twice >= start) & (twice < stop)
        left = size - inside.sum(0)
        taken = np.minimum(left, most)
        position = np.repeat(np.arange(len(keys)), taken)
        nth = np.arange(len(position)) - np.repeat(np.cumsum(taken) - taken, taken)
        at = start[position] + nth * left[position] // np.maximum(taken[position], 1)
        for skipped, is_inside in zip(twice, inside, strict=True):
            at += is_inside[position] & (at >= skipped[position])
        return position, self.order[at]


@dataclass(frozen=True, eq=False)
class Evidence:
    """The facts that patterns are fitted on and read: columns, look-ups by entity, and the axis of instants.

    Every fact stands twice, from its subject and from its object: rows 0 … n − 1 are (s, r, o), rows n … 2n − 1 are
    (o, r + R, s). `own` of a query is a row of `facts`, 0 … n − 1.
    """

    facts: Facts
    entities: int
    relations: int
    first: int
    last: int
    granularity: Granularity = Granularity.YEAR
    axis: Ints = field(default_factory=lambda: np.zeros(1, np.int64))
    width: Ints = field(default_factory=lambda: np.ones(1, np.int64))

    def __post_init__(self) -> None:
        if len(self.width) != len(self.axis):
            object.__setattr__(self, "width", np.ones(len(self.axis), np.int64))

    @classmethod
    def of(cls, kb: TemporalKB, facts: Facts | None = None) -> "Evidence":
        """The training facts of a KB, or others of it, on the calendar of all its dates."""
        timeline = kb.timeline("calendar")
        first, last = (timeline.first, timeline.last) if len(timeline) else (0, 0)
        facts = kb.train if facts is None else facts
        cells = axis_of(facts, kb.granularity)
        return cls(facts, len(kb.entities), len(kb.relations), first, last, kb.granularity, *cells)

    def without(self, rows: Any) -> "Evidence":
        """The same with some facts really removed, given as a mask (n,)."""
        return replace(self, facts=self.facts[~rows])

    def only(self, counted: Bools | None) -> "Evidence":
        """The facts in `counted`, a mask (n,): what a pattern counts; all if None."""
        return self if counted is None else self.without(~counted)

    def with_nobody(self) -> "Evidence":
        """The same with one more entity, the last, without any fact: it stands for one that is not known."""
        return replace(self, entities=self.entities + 1)

    def __len__(self) -> int:
        return len(self.facts)

    @cached_property
    def x(self) -> Ints:
        """The entity that each of the 2n rows is seen from."""
        return np.concatenate([self.facts.s, self.facts.o]).astype(np.int64)

    @cached_property
    def r(self) -> Ints:
        """The directed relation of each of the 2n rows, 0 … 2R − 1."""
        return np.concatenate([self.facts.r, self.facts.r.astype(np.int64) + self.relations])

    @cached_property
    def y(self) -> Ints:
        """The entity on the other side of each of the 2n rows."""
        return np.concatenate([self.facts.o, self.facts.s]).astype(np.int64)

    @cached_property
    def begin(self) -> Ints:
        """The begin of each of the 2n rows, `spans.OPEN_BEGIN` where it is open."""
        return np.tile(self.facts.begin.astype(np.int64), 2)

    @cached_property
    def end(self) -> Ints:
        """The end of each of the 2n rows, `spans.OPEN_END` where it is open."""
        return np.tile(self.facts.end.astype(np.int64), 2)

    @cached_property
    def date(self) -> Ints:
        """The begin of each of the 2n rows, or its end where that is open; `spans.OPEN_END` if both are."""
        return np.where(self.begin != spans.OPEN_BEGIN, self.begin, self.end)

    @cached_property
    def graph(self) -> Graph:
        """The 2n rows as edges that compiled code can walk."""
        return graph(self.x, self.r, self.y, self.begin, self.end, self.entities, self.granularity)

    def answers(self, queries: "LinkQueries") -> Ints:
        """The entity that the own fact of each question has as its answer, −1 where there is no such fact: (n,)."""
        if not len(self):
            return np.full(len(queries), -1)
        row = np.maximum(queries.own, 0)
        gold = np.where(queries.r < self.relations, self.facts.o[row], self.facts.s[row])
        return np.where(queries.own >= 0, gold, -1)

    @cached_property
    def by_date(self) -> Ints:
        """The 2n rows by date and then by all else, so that their order does not depend on that of the facts."""
        return np.lexsort((self.y, self.x, self.r, self.end, self.begin))

    def rows_by(self, keys: Ints) -> Rows:
        """The 2n rows by keys (2n,) of any kind."""
        return Rows(keys, self.by_date)

    @cached_property
    def by_entity(self) -> Rows:
        """The 2n rows by x."""
        return self.rows_by(self.x)


@dataclass(frozen=True, eq=False)
class TimeQueries:
    """When did (s, r, o) begin and end? Arrays (n,); `own` is the fact of the evidence that it is, −1: none.

    axis   the instants that each query is asked about, in order, (n, instants); those of the evidence if it is None
    width  how many instants each stands for, likewise; 0: none, it only fills up the row
    """

    s: Ints
    r: Ints
    o: Ints
    own: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    axis: Ints | None = None
    width: Ints | None = None

    def __post_init__(self) -> None:
        for name in ("s", "r", "o", "own"):
            column = np.asarray(getattr(self, name), np.int64)
            object.__setattr__(self, name, np.full(len(self.s), -1) if name == "own" and not len(column) else column)

    @classmethod
    def of(cls, facts: Facts, own: Ints | None = None) -> "TimeQueries":
        """When did these facts hold, as if their dates were not known?"""
        s, r, o = (np.asarray(column, np.int64) for column in (facts.s, facts.r, facts.o))
        return cls(s, r, o, np.full(len(facts), -1) if own is None else own)

    def __len__(self) -> int:
        return len(self.s)

    def __getitem__(self, rows: Any) -> "TimeQueries":
        axis = None if self.axis is None else self.axis[rows]
        width = None if self.width is None else self.width[rows]
        return TimeQueries(self.s[rows], self.r[rows], self.o[rows], self.own[rows], axis, width)

    def instants(self, evidence: Evidence) -> Ints:
        """The instants that rows are over: (n, instants), or (1, instants) if they are the same for all."""
        return evidence.axis[None] if self.axis is None else self.axis

    def widths(self, evidence: Evidence) -> Ints:
        """How many instants each of them stands for, likewise."""
        return evidence.width[None] if self.width is None else self.width


@dataclass(frozen=True, eq=False)
class LinkQueries:
    """Who stands in (x, r, ?) at [begin, end]? Arrays (n,); r is directed, 0 … 2R − 1; ends may be open.

    own is the fact of the evidence that the question was made of, −1: none.
    """

    x: Ints
    r: Ints
    begin: Ints
    end: Ints
    own: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        for name in ("x", "r", "begin", "end", "own"):
            column = np.asarray(getattr(self, name), np.int64)
            object.__setattr__(self, name, np.full(len(self.x), -1) if name == "own" and not len(column) else column)

    @classmethod
    def of(cls, facts: Facts, direction: Literal["object", "subject"], relations: int) -> "LinkQueries":
        """What facts ask for if their object, or their subject, is hidden."""
        asks_object = direction == "object"
        x, r = (facts.s, facts.r) if asks_object else (facts.o, facts.r.astype(np.int64) + relations)
        return cls(*(np.asarray(column, np.int64) for column in (x, r, facts.begin, facts.end)))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, rows: Any) -> "LinkQueries":
        return LinkQueries(self.x[rows], self.r[rows], self.begin[rows], self.end[rows], self.own[rows])

    @property
    def date(self) -> Ints:
        """The begin of the span, or its end where that is open; `spans.OPEN_END` if both are: (n,)."""
        return np.where(self.begin != spans.OPEN_BEGIN, self.begin, self.end)


@dataclass(frozen=True, eq=False)
class Because:
    """What a fact contributes to the features of a pattern.

    row     a row of the evidence, 0 … 2n − 1; −1: no single fact, but all of the relation
    values  (features,)
    gap     instants from the fact's date to the instant in question, and to which of its ends
    holds   in how many of `cases` such facts lie just so far apart; four fifths of the gaps lie from `low` to `high`
    """

    row: int
    values: Floats
    gap: int = 0
    anchor: Side = "begin"
    holds: int = 0
    cases: int = 0
    low: int = 0
    high: int = 0


class Pattern:
    """A pattern, fitted on evidence; `year_features` and `candidate_features` name what it says.

    What is counted (densities, rates) is counted over the facts in `counted` alone, a mask (n,), all if None: so that
    the weights of features are learned on facts that took no part in them.
    """

    name: ClassVar[str]
    year_features: ClassVar[tuple[str, ...]] = ()
    candidate_features: ClassVar[tuple[str, ...]] = ()
    candidate_groups: ClassVar[tuple[str, ...]] = ()
    """What each of them belongs to, where one pattern says things of several kinds; ablations leave out one kind."""
    counts_own: ClassVar[bool] = False
    """Whether what is counted over all facts for `candidates` has a question's own fact, too: one case of very many."""

    def __init__(self, evidence: Evidence, counted: Bools | None = None) -> None:
        self.evidence = evidence

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """What speaks for each of `queries.instants` as begin or end: (n, year features, instants), float32."""
        raise NotImplementedError

    def because(self, query: TimeQueries, side: Side, at: int) -> "list[Because]":
        """What is behind the features of one question at a place of the axis; summed, they are the features there."""
        said = self.years(query, side)[0, :, at]
        return [Because(-1, said.astype(float))] if said.any() else []

    def points(self, queries: TimeQueries, side: Side) -> tuple[Ints, Ints, Floats]:
        """The instants that it points at, where a day more or less makes a difference: (query, instant, how much)."""
        return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)

    def candidates(self, queries: LinkQueries) -> Features:
        """What speaks for each entity as an answer: (n, candidate features, entities), float32."""
        raise NotImplementedError


PATTERNS: dict[str, type[Pattern]] = {}


def register(name: str) -> Callable[[type[Pattern]], type[Pattern]]:
    """A class decorator that makes a pattern known by its name."""
    return register_in(PATTERNS, name)
