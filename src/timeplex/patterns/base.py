"""What a pattern is: something that a person sees in a table of dated facts, learned once and read by all that answer.

A pattern is fitted on facts, and says what it sees in *features*, rows of numbers that a learner weighs:

    years(queries, side)    a row over the instants of the axis for the begin, or the end, of (s, r, o)
    candidates(queries)     a row over all entities for (x, r, ?, T)

A feature is 0 where the pattern has nothing to say, higher where it speaks for an answer; it is never NaN or infinite.
A fact is no evidence for itself: `own` names the fact of the evidence that a query was made of, or −1.

Both directions of a question are one: relation r + R asks for the subject of r, (x, r + R, ?) = (?, r, x).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, Index, TemporalKB
from timeplex.patterns.graph import Graph, graph
from timeplex.registry import register_in
from timeplex.typing import Ints

Features = NDArray[np.float32]
"""Rows of numbers that a learner weighs."""

Side = Literal["begin", "end"]
SIDES: tuple[Side, Side] = ("begin", "end")


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

    @classmethod
    def of(cls, kb: TemporalKB, facts: Facts | None = None) -> "Evidence":
        """The training facts of a KB, or others of it, on the calendar of all its dates."""
        timeline = kb.timeline("calendar")
        first, last = (timeline.first, timeline.last) if len(timeline) else (0, 0)
        facts = kb.train if facts is None else facts
        return cls(facts, len(kb.entities), len(kb.relations), first, last, kb.granularity)

    def without(self, rows: Any) -> "Evidence":
        """The same with some facts really removed, given as a mask (n,)."""
        return Evidence(self.facts[~rows], self.entities, self.relations, self.first, self.last, self.granularity)

    def __len__(self) -> int:
        return len(self.facts)

    @property
    def instants(self) -> int:
        """How many instants the axis has: last − first + 1."""
        return self.last - self.first + 1

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
    def by_entity(self) -> Index:
        """The 2n rows by x."""
        return Index(self.x)


@dataclass(frozen=True, eq=False)
class TimeQueries:
    """When did (s, r, o) begin and end? Arrays (n,); `own` is the fact of the evidence that it is, −1: none."""

    s: Ints
    r: Ints
    o: Ints
    own: Ints = field(default_factory=lambda: np.empty(0, np.int64))

    def __post_init__(self) -> None:
        for name in ("s", "r", "o", "own"):
            column = np.asarray(getattr(self, name), np.int64)
            object.__setattr__(self, name, np.full(len(self.s), -1) if name == "own" and not len(column) else column)

    def __len__(self) -> int:
        return len(self.s)

    def __getitem__(self, rows: Any) -> "TimeQueries":
        return TimeQueries(self.s[rows], self.r[rows], self.o[rows], self.own[rows])


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


class Pattern:
    """A pattern; `fit` makes one of its evidence. `year_features` and `candidate_features` name what it says.

    A pattern that says nothing of years, or of candidates, leaves these names empty.
    """

    name: ClassVar[str]
    year_features: ClassVar[tuple[str, ...]] = ()
    candidate_features: ClassVar[tuple[str, ...]] = ()

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence

    def years(self, queries: TimeQueries, side: Side) -> Features:
        """What speaks for each instant as begin or end: (n, year features, instants), float32."""
        raise NotImplementedError

    def candidates(self, queries: LinkQueries) -> Features:
        """What speaks for each entity as an answer: (n, candidate features, entities), float32."""
        raise NotImplementedError


PATTERNS: dict[str, type[Pattern]] = {}


def register(name: str) -> Callable[[type[Pattern]], type[Pattern]]:
    """A class decorator that makes a pattern known by its name."""
    return register_in(PATTERNS, name)
