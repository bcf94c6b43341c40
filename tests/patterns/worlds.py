"""Small evidence with all that is awkward, and facts as a person would go through them, one by one."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from tests.builders import facts_of

from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.patterns.base import Evidence, LinkQueries

FIRST, LAST = 1900, 1960
NEAR = (1900, 1901, 1902, 1905, 1911, 1912, 1930, 1960)
"""Years whose gaps fall into all buckets."""
OPEN = (spans.OPEN_BEGIN, spans.OPEN_END)


class Edge(NamedTuple):
    """A fact as one of its entities sees it."""

    x: int
    r: int
    y: int
    begin: int
    end: int
    fact: int

    @property
    def date(self) -> int | None:
        return self.begin if self.begin not in OPEN else self.end if self.end not in OPEN else None


class Asked(NamedTuple):
    """One question; `own` is −1 or the number of a fact."""

    x: int
    r: int
    begin: int
    end: int
    own: int

    @property
    def date(self) -> int | None:
        return Edge(0, 0, 0, self.begin, self.end, 0).date


def edges(evidence: Evidence, without: int = -1) -> list[Edge]:
    """Every fact twice, from its subject and from its object."""
    found = []
    for fact, (s, r, o, begin, end) in enumerate(evidence.facts):
        if fact != without:
            found += [Edge(s, r, o, begin, end, fact), Edge(o, r + evidence.relations, s, begin, end, fact)]
    return found


@st.composite
def spans_near(draw: st.DrawFn) -> tuple[int, int]:
    begin, end = sorted((draw(st.sampled_from(NEAR)), draw(st.sampled_from(NEAR))))
    known = draw(st.sampled_from(("both", "both", "event", "begin", "end", "none")))
    return (
        begin if known in ("both", "begin", "event") else spans.OPEN_BEGIN,
        begin if known == "event" else end if known in ("both", "end") else spans.OPEN_END,
    )


@st.composite
def evidences(draw: st.DrawFn, most: int = 14) -> Evidence:
    """Up to six entities and three relations: everything meets everything."""
    entities, relations = draw(st.integers(2, 6)), draw(st.integers(1, 3))
    entity, relation = st.integers(0, entities - 1), st.integers(0, relations - 1)
    fact = st.tuples(entity, relation, entity, spans_near()).map(lambda parts: (*parts[:3], *parts[3]))
    facts = draw(st.lists(fact, max_size=most))
    return Evidence(facts_of(facts), entities, relations, FIRST, LAST, Granularity.YEAR)


@st.composite
def asked_of(draw: st.DrawFn, evidence: Evidence) -> LinkQueries:
    """Some new questions, and some that facts of the evidence are."""
    questions = []
    for _ in range(draw(st.integers(1, 3))):
        x, r = draw(st.integers(0, evidence.entities - 1)), draw(st.integers(0, 2 * evidence.relations - 1))
        questions.append((x, r, *draw(spans_near()), -1))
    for row in draw(st.lists(st.integers(0, 2 * len(evidence) - 1), max_size=3)) if len(evidence) else ():
        edge = edges(evidence)[row]
        questions.append((edge.x, edge.r, edge.begin, edge.end, edge.fact))
    return LinkQueries(*np.array(questions).T)


def each(queries: LinkQueries) -> Iterator[Asked]:
    columns = (queries.x, queries.r, queries.begin, queries.end, queries.own)
    for row in zip(*(column.tolist() for column in columns), strict=True):
        yield Asked(*row)


def bucket(date: int | None, other: int | None) -> int:
    """By the table of the docstring of `graph.BUCKETS`."""
    if date is None or other is None:
        return 11
    gap = date - other
    lasts = (-26, -11, -5, -2, -1, 0, 1, 4, 10, 25)
    return next((place for place, last in enumerate(lasts) if gap <= last), 10)
