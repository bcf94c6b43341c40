"""Events of a pair, popularity and rules: a literal reading of the definitions, fact by fact, on tiny KBs."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import facts_of

from timeplex.kb import spans
from timeplex.kb.facts import Facts
from timeplex.patterns.base import Evidence, LinkQueries
from timeplex.patterns.events import GAPS, PRIOR, REACH, Events, has_events

ENTITIES, RELATIONS = 4, 2
FIRST, LAST = 0, 400
FEATURES = Events.candidate_features

Row = tuple[int, int, int, int]  # x, directed relation, y, date


@st.composite
def fact_lists(draw: st.DrawFn) -> Facts:
    """Few entities and dates, so that pairs and days come again; sometimes open dates, repeated facts and loops."""
    instants = st.sampled_from([0, 1, 2, 3, 5, 9, 40, 41, 100, 161, 399])
    rows = []
    for _ in range(draw(st.integers(0, 12))):
        begin = draw(instants)
        span = draw(st.sampled_from([(begin, begin), (begin, begin), (begin, begin + 1), (begin, spans.OPEN_END)]))
        if draw(st.integers(0, 9)) == 0:
            span = draw(st.sampled_from([(spans.OPEN_BEGIN, begin), (spans.OPEN_BEGIN, spans.OPEN_END)]))
        entity = st.integers(0, ENTITIES - 1)
        rows.append((draw(entity), draw(st.integers(0, RELATIONS - 1)), draw(entity), *span))
    return facts_of(rows + draw(st.lists(st.sampled_from(rows), max_size=2) if rows else st.just([])))


def evidence_of(facts: Facts) -> Evidence:
    return Evidence(facts, ENTITIES, RELATIONS, FIRST, LAST)


def rows_of(facts: Facts) -> list[Row]:
    """Every fact that counts, once, from both sides."""
    found: set[Row] = set()
    for s, r, o, begin, end in facts:
        date = begin if begin != spans.OPEN_BEGIN else end
        if s != o and date != spans.OPEN_END:
            found |= {(s, r, o, date), (o, r + RELATIONS, s, date)}
    return sorted(found)


def bucket(gap: int) -> tuple[int, int]:
    """(sign, how many of GAPS are exceeded)."""
    return (gap > 0) - (gap < 0), sum(abs(gap) > edge for edge in GAPS)


def confidence(rows: list[Row], r: int, other: int, gap: int) -> float:
    """hits / (cases + 5) of the rule (r, other, bucket of the gap)."""
    hits = cases = 0
    for x, t in {(x, t) for x, relation, _, t in rows if relation == r}:
        answers = {y for row_x, relation, y, date in rows if (row_x, relation, date) == (x, r, t)}
        for row_x, relation, y, date in rows:
            is_answer = relation == r and date == t
            if row_x == x and relation == other and not is_answer and bucket(date - t) == bucket(gap):
                cases += 1
                hits += y in answers
    return hits / (cases + PRIOR)


def kernel(scale: float, gap: int) -> float:
    return math.exp(-abs(gap) / scale)


def nearest(gaps: Iterator[int], axis: int) -> float:
    distances = [abs(gap) for gap in gaps]
    return max(0.0, math.log((1 + axis) / (1 + min(distances)))) if distances else 0.0


def slow(facts: Facts, x: int, r: int, t: int, c: int) -> dict[str, float]:
    """Every feature of one candidate, as the module defines it; t = OPEN_END: undated."""
    rows = rows_of(facts)
    if c == x:
        return {}
    pair = [(relation, date - t) for row_x, relation, y, date in rows if (row_x, y) == (x, c)]
    role = [date - t for _, relation, y, date in rows if y == c and relation == r]
    active = [date - t for _, _, y, date in rows if y == c]
    same = [gap for relation, gap in pair if relation == r]
    met = len(pair) > 0
    found = {
        "same ever": math.log1p(len(same)),
        "any ever": math.log1p(len(pair)),
        "role ever": math.log1p(len(role)),
        "active ever": math.log1p(len(active)),
    }
    asked = sum((row_x, relation) == (x, r) for row_x, relation, _, _ in rows)
    found["share"] = math.log1p(1000 * len(same) / asked) if asked else 0.0
    for name in () if met else ("role ever", "active ever"):
        found[f"stranger {name}"] = found[name]
    if t == spans.OPEN_END:
        return found
    every = [gap for _, gap in pair]
    for scale in (1.5, 7.0, 40.0):
        found[f"same {scale:g}"] = math.log1p(sum(kernel(scale, gap) for gap in same))
        found[f"any {scale:g}"] = math.log1p(sum(kernel(scale, gap) for gap in every))
        found[f"role {scale:g}"] = math.log1p(sum(kernel(scale, gap) for gap in role if abs(gap) <= REACH * scale))
        found[f"active {scale:g}"] = math.log1p(sum(kernel(scale, gap) for gap in active if abs(gap) <= REACH * scale))
    for name in () if met else ("role 7", "active 40"):
        found[f"stranger {name}"] = found[name]
    confidences = [confidence(rows, r, relation, gap) for relation, gap in pair]
    found["rule sum"] = math.log1p(1000 * (1 - math.prod(1 - each for each in confidences)))
    found["rule best"] = math.log1p(1000 * max(confidences, default=0.0))
    axis = LAST - FIRST + 1
    found["before"] = nearest((gap for gap in every if gap <= 0), axis)
    found["after"] = nearest((gap for gap in every if gap >= 0), axis)
    found["same before"] = nearest((gap for gap in same if gap <= 0), axis)
    found["same after"] = nearest((gap for gap in same if gap >= 0), axis)
    return found


def slow_rows(facts: Facts, queries: LinkQueries) -> np.ndarray:
    found = np.zeros((len(queries), len(FEATURES), ENTITIES))
    for q in range(len(queries)):
        for c in range(ENTITIES):
            said = slow(facts, int(queries.x[q]), int(queries.r[q]), int(queries.date[q]), c)
            found[q, :, c] = [said.get(name, 0.0) for name in FEATURES]
    return found


def all_questions(dates: list[int]) -> LinkQueries:
    asked = [(x, r, t) for x in range(ENTITIES) for r in range(2 * RELATIONS) for t in dates]
    x, r, t = (np.array(column) for column in zip(*asked, strict=True))
    return LinkQueries(x, r, np.where(t == spans.OPEN_END, spans.OPEN_BEGIN, t), t)


def close(one: np.ndarray, other: np.ndarray) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@settings(max_examples=60, deadline=None)
@given(fact_lists(), st.lists(st.sampled_from([0, 2, 4, 40, 250, 400, 900]), min_size=1, max_size=2))
def test_every_feature_is_its_definition(facts: Facts, dates: list[int]) -> None:
    queries = all_questions([*dates, spans.OPEN_END])
    found = Events(evidence_of(facts)).candidates(queries)
    assert found.shape == (len(queries), len(FEATURES), ENTITIES)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    close(found, slow_rows(facts, queries))


@settings(max_examples=60, deadline=None)
@given(fact_lists().filter(len))
def test_a_fact_is_no_evidence_for_itself(facts: Facts) -> None:
    everything = Events(evidence_of(facts))
    for direction in ("object", "subject"):
        asked = LinkQueries.of(facts, direction, RELATIONS)
        own = LinkQueries(asked.x, asked.r, asked.begin, asked.end, np.arange(len(facts)))
        found = everything.candidates(own)
        for q in range(len(facts)):
            without = Events(evidence_of(facts).without(np.arange(len(facts)) == q))
            close(found[q], without.candidates(asked[q : q + 1])[0])


@settings(max_examples=30, deadline=None)
@given(fact_lists(), st.randoms(use_true_random=False))
def test_the_order_of_facts_does_not_matter(facts: Facts, random: object) -> None:
    order = np.arange(len(facts))
    random.shuffle(order)  # type: ignore[attr-defined]
    queries = all_questions([2, 41])
    one, other = (Events(evidence_of(each)).candidates(queries) for each in (facts, facts[order]))
    np.testing.assert_array_equal(one, other)


def test_by_hand() -> None:
    """0 meets 1 on day 5; 0 and 1 had the same event three days before, and 2 had it with 1 on day 5, too."""
    facts = facts_of([(0, 0, 1, 2, 2), (2, 0, 1, 5, 5)])
    row = Events(evidence_of(facts)).candidates(LinkQueries([0], [0], [5], [5]))[0]  # type: ignore[arg-type]
    said = dict(zip(FEATURES, row[:, 1].tolist(), strict=True))
    assert said["same 1.5"] == pytest.approx(math.log1p(math.exp(-2)))
    assert said["before"] == pytest.approx(math.log(402 / 4))
    assert said["after"] == 0
    assert said["share"] == pytest.approx(math.log1p(1000))
    assert said["role 1.5"] == pytest.approx(math.log1p(1 + math.exp(-2)))
    assert said["rule best"] == 0  # no entity has two events, so that no rule has a case
    assert not row[:15, 2].any()  # 0 and 2 never met


def test_a_rule_by_hand() -> None:
    """Four pairs have relation 1 the day after relation 0; one more has relation 0 alone and is asked for 1."""
    pairs = [(2 * n, 2 * n + 1) for n in range(5)]
    rows = [(s, 0, o, 10 * s, 10 * s) for s, o in pairs] + [(s, 1, o, 10 * s + 1, 10 * s + 1) for s, o in pairs[:4]]
    evidence = Evidence(facts_of(rows), 10, 2, 0, 99)
    row = Events(evidence).candidates(LinkQueries([8], [1], [81], [81]))[0]  # type: ignore[arg-type]
    assert row[FEATURES.index("rule best"), 9] == pytest.approx(math.log1p(1000 * 4 / (4 + 5)))
    assert not row[FEATURES.index("rule best"), :9].any()


def test_no_facts_and_no_questions() -> None:
    empty = Events(evidence_of(Facts.empty()))
    assert not empty.candidates(all_questions([3, spans.OPEN_END])).any()
    none = np.empty(0, np.int64)
    assert empty.candidates(LinkQueries(none, none, none, none)).shape == (0, len(FEATURES), ENTITIES)


def test_rare_relations_have_no_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if their facts were not there, for rules; all else stays."""
    rows = [(0, 1, 1, 3, 3), (0, 1, 1, 4, 4), (0, 1, 2, 5, 5), (0, 0, 1, 4, 4), (2, 0, 0, 5, 5)]
    facts, queries = facts_of(rows), all_questions([4, 9])
    everything = Events(evidence_of(facts)).candidates(queries)
    monkeypatch.setattr("timeplex.patterns.events.MOST_RELATIONS", 1)
    found = Events(evidence_of(facts)).candidates(queries)
    frequent = Events(evidence_of(facts[:3])).candidates(queries)
    asked, said = queries.r % RELATIONS == 1, [name.startswith("rule") for name in FEATURES]
    np.testing.assert_array_equal(found[:, np.logical_not(said)], everything[:, np.logical_not(said)])
    np.testing.assert_array_equal(found[asked][:, said], frequent[asked][:, said])
    assert found[asked][:, said].any()
    assert not found[~asked][:, said].any()


@pytest.mark.parametrize(
    ("lasting", "open_ended", "undated", "events"),
    [(0, 0, 0, True), (1, 0, 0, True), (2, 0, 0, False), (0, 2, 0, False), (0, 0, 9, True)],
)
def test_which_kb_has_events(lasting: int, open_ended: int, undated: int, events: bool) -> None:
    """Facts that last, or that are not known to end, may be 5 %; undated facts do not count."""
    dated = [(5, 5)] * (20 - lasting - open_ended) + [(5, 6)] * lasting + [(5, spans.OPEN_END)] * open_ended
    rows = [(0, 0, 1, *span) for span in dated + [(spans.OPEN_BEGIN, spans.OPEN_END)] * undated]
    assert has_events(facts_of(rows)) == events


def test_no_dated_fact_no_events() -> None:
    assert not has_events(Facts.empty())
    assert not has_events(facts_of([(0, 0, 1, spans.OPEN_BEGIN, spans.OPEN_END)]))
