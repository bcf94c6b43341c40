"""Who comes together with whom: a literal reading of the definition, row by row, on tiny KBs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import facts_of
from tests.patterns.test_events import (
    ENTITIES,
    RELATIONS,
    all_questions,
    close,
    evidence_of,
    fact_lists,
    rows_of,
)

from timeplex.kb import spans
from timeplex.kb.facts import Facts
from timeplex.patterns.base import Evidence, LinkQueries
from timeplex.patterns.company import NEAR, Company
from timeplex.patterns.events import PRIOR
from timeplex.testing import check_pattern

FEATURES = Company.candidate_features


def share(facts: Facts, c: int, other: int) -> float:
    """p(c | other)."""
    rows = rows_of(facts)
    cases = [(z, t) for z, _, y, t in rows if y == other]
    hits = [any(z == x and y == c and abs(date - t) <= 1 for x, _, y, date in rows) for z, t in cases]
    return sum(hits) / (len(cases) + PRIOR) if c != other else 0.0


def said(shares: list[tuple[int, bool, float]]) -> list[float]:
    """Five features from (|Δ|, same relation, p) of what is within three instants."""
    kinds = [[p for gap, _, p in shares if gap <= near] for near in NEAR]
    kinds.append([p for gap, same, p in shares if same and gap <= NEAR[-1]])
    found = [1 - math.prod(1 - p for p in kind) for kind in kinds]
    found.append(max((p for gap, _, p in shares if gap <= 1), default=0.0))
    return [math.log1p(1000 * p) for p in found]


def slow(counted: Facts, facts: Facts, x: int, r: int, t: int, c: int) -> list[float]:
    """Every feature of one candidate; shares are counted on facts of their own."""
    if t == spans.OPEN_END or x == c:
        return [0.0] * len(FEATURES)
    rows = rows_of(facts)
    together = [(abs(d - t), q == r, share(counted, c, y)) for z, q, y, d in rows if z == x and y != c]
    alike = [(abs(d - t), q == r, share(counted, x, z)) for z, q, y, d in rows if y == c and z != x]
    return said(together) + said(alike)


@settings(max_examples=60, deadline=None)
@given(fact_lists(), st.lists(st.sampled_from([0, 2, 4, 40, 250]), min_size=1, max_size=2))
def test_every_feature_is_its_definition(facts: Facts, dates: list[int]) -> None:
    queries = all_questions([*dates, spans.OPEN_END])
    found = Company(evidence_of(facts)).candidates(queries)
    assert found.dtype == np.float32
    for q in range(len(queries)):
        asked = int(queries.x[q]), int(queries.r[q]), int(queries.date[q])
        close(found[q].T, np.array([slow(facts, facts, *asked, c) for c in range(ENTITIES)]))


@settings(max_examples=60, deadline=None)
@given(fact_lists().filter(len))
def test_a_fact_is_no_evidence_for_itself(facts: Facts) -> None:
    """It is not among the events that are looked at; shares have it as one case of many."""
    pattern = Company(evidence_of(facts))
    for direction in ("object", "subject"):
        asked = LinkQueries.of(facts, direction, RELATIONS)
        found = pattern.candidates(LinkQueries(asked.x, asked.r, asked.begin, asked.end, np.arange(len(facts))))
        for q in range(len(facts)):
            rest = facts[np.arange(len(facts)) != q]
            x, r, t = int(asked.x[q]), int(asked.r[q]), int(asked.date[q])
            close(found[q].T, np.array([slow(facts, rest, x, r, t, c) for c in range(ENTITIES)]))


def test_by_hand() -> None:
    """4 has met 0 and 1 on the same days, twice; today 5 meets 0, and so 1 may be there, too."""
    rows = [(4, 0, each, day, day) for day in (3, 9) for each in (0, 1)] + [(5, 0, 0, 20, 20)]
    evidence = Evidence(facts_of(rows), 6, 1, 0, 99)
    row = dict(zip(FEATURES, Company(evidence).candidates(LinkQueries([5], [0], [21], [21]))[0].T[1], strict=True))  # type: ignore[arg-type]
    assert row["with 0"] == 0
    assert row["with 1"] == row["with same"] == row["with best"] == pytest.approx(math.log1p(1000 * 2 / (3 + 5)))
    assert not any(row[name] for name in FEATURES if name.startswith("like"))


def test_very_many_events_of_a_day_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(4, 0, each, 3, 3) for each in (0, 1, 2)] + [(5, 0, 0, 3, 3)]
    evidence, asked = Evidence(facts_of(rows), 6, 1, 0, 99), LinkQueries([5], [0], [3], [3])  # type: ignore[arg-type]
    assert Company(evidence).candidates(asked)[:, :5].any()
    monkeypatch.setattr("timeplex.patterns.company.MOST", 2)
    assert not Company(evidence).candidates(asked)[:, :5].any()


def test_laws() -> None:
    assert all(result.passed for result in check_pattern(Company, examples=8))
