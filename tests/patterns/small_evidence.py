"""Tiny evidence for patterns of time: few entities, so that much meets; dates that are open, alike, or backwards."""

import numpy as np
from hypothesis import strategies as st
from tests.builders import Row, facts_of

from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.patterns.base import Evidence, TimeQueries, axis_of

ENTITIES, RELATIONS = 4, 2
STEPS = {Granularity.YEAR: (1, 12), Granularity.MONTH: (1, 40), Granularity.DAY: (1, 31, 365)}


@st.composite
def rows(draw: st.DrawFn, granularity: Granularity, most: int = 9) -> list[Row]:
    step = st.sampled_from(STEPS[granularity])
    found: list[Row] = []
    for _ in range(draw(st.integers(0, most))):
        s, o = draw(st.integers(0, ENTITIES - 1)), draw(st.integers(0, ENTITIES - 1))
        begin = 1990 + draw(st.integers(0, 12)) * draw(step)
        end = begin + draw(st.sampled_from((0, 0, 1, 2, 5, -1))) * draw(step)
        begin = draw(st.sampled_from((begin, begin, begin, spans.OPEN_BEGIN)))
        end = draw(st.sampled_from((end, end, end, spans.OPEN_END)))
        found.append((s, draw(st.integers(0, RELATIONS - 1)), o, begin, end))
    if draw(st.booleans()):  # a rhythm, with one beat left out
        start, period = 1990 + draw(st.integers(0, 5)), draw(st.integers(1, 4))
        beats = sorted(draw(st.sets(st.integers(0, 7), min_size=5)))
        found += [(0, 0, 1 + beat % 3, start + period * beat, start + period * beat) for beat in beats]
    return found


def evidence_of(given: list[Row], granularity: Granularity = Granularity.YEAR) -> Evidence:
    facts = facts_of(given)
    return Evidence(facts, ENTITIES, RELATIONS, 0, 0, granularity, *axis_of(facts, granularity))


@st.composite
def evidence(draw: st.DrawFn, granularity: Granularity | None = None, most: int = 9) -> Evidence:
    chosen = draw(st.sampled_from(list(STEPS))) if granularity is None else granularity
    return evidence_of(draw(rows(chosen, most)), chosen)


@st.composite
def queries(draw: st.DrawFn, of: Evidence, most: int = 3) -> TimeQueries:
    """Questions of facts of the evidence and others, on its axis or on axes of their own."""
    count = draw(st.integers(1, most))
    asked = []
    for _ in range(count):
        own = draw(st.integers(-1, len(of) - 1))
        if own >= 0:
            asked.append((int(of.facts.s[own]), int(of.facts.r[own]), int(of.facts.o[own]), own))
        else:
            entity, r = st.integers(0, ENTITIES - 1), draw(st.integers(0, RELATIONS - 1))
            asked.append((draw(st.just(0) | entity), r, draw(entity), -1))
    columns = np.array(asked).T
    if draw(st.booleans()):
        return TimeQueries(*columns)
    size = draw(st.integers(1, 8))
    near = st.lists(st.integers(1980, 2040), min_size=size, max_size=size, unique=True)
    axis = np.array([sorted(draw(near)) for _ in range(count)])
    return TimeQueries(*columns, axis, np.ones_like(axis))


def instants_of(asked: TimeQueries, of: Evidence, row: int) -> list[int]:
    axis = asked.instants(of)
    return list(axis[row if len(axis) > 1 else 0].tolist())
