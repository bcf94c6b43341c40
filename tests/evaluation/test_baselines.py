"""Baselines: by hand, and against literal counting on random KBs."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders import placed_of

from timeplex.evaluation import baselines
from timeplex.evaluation.baselines import BASELINES, MostFrequent
from timeplex.kb import facts as facts_module
from timeplex.models.scorer import DIRECTIONS, Direction
from timeplex.typing import Ints

ENTITIES, RELATIONS, INSTANTS = 5, 2, 8
Fact = tuple[int, int, int, int, int]

FACTS = st.lists(
    st.tuples(
        st.integers(0, ENTITIES - 1),
        st.integers(0, RELATIONS - 1),
        st.integers(0, ENTITIES - 1),
        st.integers(0, INSTANTS - 1),
        st.integers(0, INSTANTS - 1),
    ).map(lambda fact: (*fact[:3], min(fact[3:]), max(fact[3:]))),
    min_size=1,
    max_size=12,
)


def literal_score(name: str, train: list[Fact], query: Fact, direction: Direction, entity: int) -> float:
    """What the class says in words, fact by fact."""
    r, first, last = query[1], *query[3:]
    answer, given = (2, 0) if direction == "object" else (0, 2)
    mine = [fact for fact in train if fact[1] == r and fact[answer] == entity]
    score = len(mine) / (1 + sum(fact[1] == r for fact in train))
    if name == "most frequent then":
        return score + sum(fact[3] <= last and fact[4] >= first for fact in mine)
    if name == "copy nearest":
        known = [fact for fact in mine if fact[given] == query[given]]
        apart = [max(fact[3] - last, first - fact[4], 0) for fact in known]
        return max([score, *(1 + 1 / (1 + gap) for gap in apart)])
    return score


@pytest.mark.parametrize("many", [0, 4])
@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("direction", DIRECTIONS)
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(train=FACTS, queries=FACTS)
def test_scores_are_those_of_counting(name, direction, many, monkeypatch, train, queries) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(baselines, "MANY", many)
    baseline = BASELINES[name](placed_of(train), ENTITIES, RELATIONS)
    s, r, o, span = placed_of(queries).tensors(torch.device("cpu"))
    rows = baseline.objects(s, r, span) if direction == "object" else baseline.subjects(r, o, span)
    expected = [[literal_score(name, train, query, direction, e) for e in range(ENTITIES)] for query in queries]
    np.testing.assert_allclose(rows.numpy(), expected, rtol=1e-6)


def test_a_relation_without_facts_has_no_favourite() -> None:
    baseline = MostFrequent(placed_of([(0, 0, 1, 0, 0)]), ENTITIES, RELATIONS)
    one = torch.ones(1, dtype=torch.long)
    assert baseline.objects(one, one, (one, one)).tolist() == [[0.0] * ENTITIES]


def test_the_nearest_comes_first() -> None:
    """The French Assembly: who was a member just before 2000 is named before who was it in 1950."""
    train = placed_of([(0, 0, 1, 0, 1), (0, 0, 2, 5, 6), (3, 0, 4, 7, 7), (3, 0, 4, 7, 7)])
    zero, seven = torch.zeros(1, dtype=torch.long), torch.tensor([7])
    row = BASELINES["copy nearest"](train, ENTITIES, 1).objects(zero, zero, (seven, seven))[0]
    assert row.argsort(descending=True).tolist()[:3] == [2, 1, 4]


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_small_blocks_give_the_same(name: str, direction: Direction, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    facts = placed_of([(*random.integers(0, 2, 3).tolist(), begin, begin + 2) for begin in range(40)])  # type: ignore[misc]
    expected = BASELINES[name](facts, ENTITIES, RELATIONS).scores(direction, facts)
    monkeypatch.setattr(baselines, "MOST_FACTS", 7)
    assert np.array_equal(BASELINES[name](facts, ENTITIES, RELATIONS).scores(direction, facts), expected)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_many_facts_of_a_relation_are_looked_at_once_for_all_queries(
    direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not once a query: with a million facts of one relation that took hours."""
    random = np.random.default_rng(2)
    begins = random.integers(0, 50, 300).tolist()
    facts = placed_of([(*random.integers(0, 2, 3).tolist(), begin, begin + 9) for begin in begins])  # type: ignore[misc]
    compared = []

    def expand(start: Ints, stop: Ints) -> tuple[Ints, Ints]:
        compared.append(int((stop - start).sum()))
        return facts_module.expand(start, stop)

    monkeypatch.setattr(baselines, "expand", expand)
    at_once = BASELINES["most frequent then"](facts, ENTITIES, RELATIONS).scores(direction, facts)
    assert sum(compared) < len(facts)
    monkeypatch.setattr(baselines, "MANY", 1000)
    one_by_one = BASELINES["most frequent then"](facts, ENTITIES, RELATIONS).scores(direction, facts)
    assert sum(compared) > 20 * len(facts)
    np.testing.assert_allclose(at_once, one_by_one, rtol=1e-5)
