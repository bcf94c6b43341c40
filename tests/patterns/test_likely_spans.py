"""The spans that a question about a time may mean, against brute force and planted vacancies."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.builders import facts_of
from tests.patterns.small_evidence import ENTITIES, RELATIONS, evidence

from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.patterns import base
from timeplex.patterns.base import Evidence, LinkQueries, TimeQueries, axis_of
from timeplex.patterns.dating import DateModel, Fitted, Weights
from timeplex.patterns.likely_spans import MOST, RARE, LikelySpans


def some_model(of: Evidence, seed: int) -> DateModel:
    """Patterns with weights drawn by chance."""
    chance, fitted, weights = np.random.default_rng(seed), Fitted.of(of), {}
    for side in base.SIDES:
        count = len(fitted.names(side))
        own = chance.normal(size=(of.relations, count)) / 9
        weights[side] = Weights(chance.normal(size=count) / 4, own, np.ones(count))
    return DateModel(of, fitted, weights)


@settings(max_examples=60)
@given(data=st.data(), seed=st.integers(0, 2**31))
def test_spans_are_weighed_by_how_much_of_the_time_they_share(data: st.DataObject, seed: int) -> None:
    of = data.draw(evidence(Granularity.YEAR)).with_nobody()
    assume(len(of.axis) <= 60)  # `joint` looks at so many begins
    model = some_model(of, seed)
    likely = LikelySpans(model)
    x, r = data.draw(st.integers(0, ENTITIES - 1)), data.draw(st.integers(0, 2 * RELATIONS - 1))
    low = data.draw(st.integers(1985, 2015))
    high = low + data.draw(st.integers(0, 5))
    begin, end, share = likely.of(LinkQueries(*(np.array([each]) for each in (x, r, low, high))))
    nobody, relation = of.entities - 1, r % RELATIONS
    s, o = (x, nobody) if r < RELATIONS else (nobody, x)
    asked = TimeQueries(*(np.array([each]) for each in (s, relation, o)))
    begins = model.begins(asked)[0]
    ends = model.ends(asked, np.arange(len(of.axis))[None], np.ones((1, len(of.axis))))[0]
    weight = {}
    for at, first in enumerate(of.axis.tolist()):
        for until, last in enumerate(of.axis.tolist()):
            shared = len({*range(first, last + 1)} & {*range(low, high + 1)})
            if shared and low - first <= likely.longest[relation]:
                weight[first, last] = begins[at] * ends[at, until] * shared / (high - low + 1)
    told = [(int(b), int(e), float(w)) for b, e, w in zip(begin[0], end[0], share[0], strict=True) if w > 0]
    if not likely.lasts[relation] or not any(weight.values()):
        assert told == [(low, high, 1.0)]
        return
    found = {(b, e): w for b, e, w in told}
    best = sorted(weight.values(), reverse=True)[:MOST]
    expected = [each / sum(best) for each in best if each / sum(best) >= RARE]
    assert sorted(found.values(), reverse=True) == pytest.approx(expected, rel=1e-2, abs=1e-3)
    for span, each in found.items():
        assert weight[span] / sum(best) == pytest.approx(each, rel=1e-2, abs=1e-3)


def vacancy() -> Evidence:
    """Offices in which one follows another at once; in office 0 the third is missing, from 2010 to 2014."""
    rows = []
    for office in range(6):
        for nth in range(4):
            if (office, nth) != (0, 2):
                begin = 2000 + office + 5 * nth
                rows.append((6 + 4 * office + nth, 0, office, begin, begin + 4))
        rows.append((6 + 4 * office, 1, office, 1980 + office, 1980 + office))
    facts = facts_of(rows)
    return Evidence(facts, 30, 2, 0, 0, Granularity.YEAR, *axis_of(facts, Granularity.YEAR))


def test_a_vacancy_is_what_is_asked_about() -> None:
    of = vacancy()
    known = of.with_nobody()
    likely = LikelySpans(DateModel(known, Fitted.of(known), DateModel.fit(of).weights))
    at = np.array([2010, 2012, 2014])
    begin, end, share = likely.of(LinkQueries(np.zeros(3, int), np.full(3, 2), at, at))
    assert begin[:, 0].tolist() == [2010] * 3
    assert end[:, 0].tolist() == [2014] * 3
    assert (share[:, 0] > 0.5).all()
    assert (share.sum(1) <= 1 + 1e-9).all()


@pytest.mark.parametrize(
    ("r", "begin", "end"),
    [(3, 2012, 2012), (2, spans.OPEN_BEGIN, 2012), (2, 2012, spans.OPEN_END), (0, spans.OPEN_BEGIN, spans.OPEN_END)],
)
def test_events_and_open_times_are_asked_as_they_are(r: int, begin: int, end: int) -> None:
    """Relation 1 has events alone: one of 2012 is of 2012."""
    of = vacancy().with_nobody()
    asked = LinkQueries(*(np.array([each]) for each in (0, r, begin, end)))
    found = LikelySpans(some_model(of, 0)).of(asked)
    assert [column[0, 0] for column in found] == [begin, end, 1]
    assert not found[2][0, 1:].any()


def test_a_fact_does_not_fill_its_own_vacancy() -> None:
    """Asked with itself as `own`, a fact leaves its place free for the question."""
    of = vacancy()
    known = of.with_nobody()
    likely = LikelySpans(DateModel(known, Fitted.of(known), DateModel.fit(of).weights))
    row = int(np.flatnonzero((of.facts.o == 3) & (of.facts.begin == 2008))[0])
    asked = LinkQueries(*(np.array([each]) for each in (3, 2, 2010, 2010, row)))
    begin, end, _ = likely.of(asked)
    assert (begin[0, 0], end[0, 0]) == (2008, 2012)
