"""Ranks: the paper's worked example, a literal oracle, and the laws of filters and ties."""

from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import placed_of
from torch import Tensor

from timeplex.errors import InputError
from timeplex.evaluation import ranking
from timeplex.evaluation.metrics import link_metrics
from timeplex.evaluation.protocol import FILTERS, Filter, Ties
from timeplex.evaluation.ranking import EntityScorer, PlacedFacts, Ranks, forgiven
from timeplex.models.base import Span
from timeplex.models.scorer import DIRECTIONS, Direction

ENTITIES = 5


class Fixed:
    """A scorer whose rows do not depend on the query: entity e has score scores[e]."""

    def __init__(self, scores: list[float]) -> None:
        self.scores = torch.tensor(scores)

    def objects(self, s: Tensor, r: Tensor, span: Span) -> Tensor:
        return self.scores.repeat(len(s), 1)

    def subjects(self, r: Tensor, o: Tensor, span: Span) -> Tensor:
        return self.scores.repeat(len(r), 1)


def rank(
    scorer: EntityScorer,
    queries: PlacedFacts,
    known: PlacedFacts,
    direction: Direction,
    *,
    entities: int,
    filters: Sequence[Filter] = ("per-instant",),
    ties: Ties = "realistic",
    last: torch.Tensor | None = None,
) -> dict[str, Ranks]:
    """Ranks with filters made of the same placed facts."""
    allowances = {name: forgiven(queries, known, direction, name) for name in filters}
    return ranking.rank(scorer, queries, allowances, direction, entities=entities, ties=ties, last=last)


def test_the_papers_worked_example() -> None:
    # Pierre, Paul, Alain, Claude stand above Jean, the gold; instants are years counted from 2000.
    pierre, paul, alain, claude, jean, assembly = range(6)
    known = [
        (assembly, 0, pierre, 2, 3),
        (assembly, 0, paul, 3, 8),
        (assembly, 0, alain, 8, 9),
        (assembly, 0, claude, 0, 3),
        (assembly, 0, jean, 0, 3),
    ]
    scorer = Fixed([5.0, 4.0, 3.0, 2.0, 1.0, 0.0])
    found = rank(scorer, placed_of(known[-1:]), placed_of(known), "object", entities=6, filters=FILTERS)
    assert {name: ranks.tolist() for name, ranks in found.items()} == {
        "none": [5.0],
        "ignore-time": [1.0],
        "exact-span": [4.0],  # only Claude has just this span
        "per-instant": [3.25],
    }


Fact = tuple[int, int, int, int, int]
FACT = st.tuples(
    st.integers(0, ENTITIES - 1),
    st.integers(0, 1),
    st.integers(0, ENTITIES - 1),
    st.integers(0, 5),
    st.integers(0, 3),
).map(lambda fact: (*fact[:4], fact[3] + fact[4]))
FACTS = st.lists(FACT, min_size=1, max_size=12)
MANY_FACTS = st.lists(FACT, min_size=8, max_size=30)
LAST = st.sets(st.integers(0, ENTITIES - 1), max_size=3)
SCORES = st.lists(st.integers(0, 3).map(float), min_size=ENTITIES, max_size=ENTITIES)


def literal_rank(query: Fact, known: list[Fact], scores: list[float], direction: str, by: str, ties: str) -> float:
    """As the paper describes it: a filtered rank at every instant, then the mean."""
    s, r, o, first, last = query
    gold = o if direction == "object" else s

    def holds(entity: int, instant: int) -> bool:
        fact = (s, r, entity) if direction == "object" else (entity, r, o)
        same = [each for each in known if each[:3] == fact]
        if by == "ignore-time":
            return bool(same)
        if by == "exact-span":
            return any(each[3:] == (first, last) for each in same)
        return by == "per-instant" and any(each[3] <= instant <= each[4] for each in same)

    ranks = []
    for instant in range(first, last + 1):
        others = [e for e in range(ENTITIES) if e != gold and not holds(e, instant)]
        above = sum(scores[e] > scores[gold] for e in others)
        tied = sum(scores[e] == scores[gold] for e in others)
        ranks.append(1 + above + {"realistic": 0.5, "pessimistic": 1, "optimistic": 0}[ties] * tied)
    return sum(ranks) / len(ranks)


def agrees_with_enumeration(
    facts: list[Fact], scores: list[float], direction: Direction, ties: Ties, last: set[int]
) -> None:
    """Entities in `last` come after all others, whatever their score."""
    behind = torch.tensor([entity in last for entity in range(ENTITIES)]) if last else None
    all_facts = placed_of(facts)
    found = rank(
        Fixed(scores), all_facts, all_facts, direction, entities=ENTITIES, filters=FILTERS, ties=ties, last=behind
    )
    scores = [-1.0 if entity in last else score for entity, score in enumerate(scores)]
    for by in FILTERS:
        expected = [literal_rank(query, facts, scores, direction, by, ties) for query in facts]
        np.testing.assert_allclose(found[by], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("ties", get_args(Ties))
@settings(max_examples=50)
@given(facts=FACTS, scores=SCORES, last=LAST)
def test_ranks_are_those_of_enumeration(facts, scores, direction, ties, last) -> None:  # type: ignore[no-untyped-def]
    agrees_with_enumeration(facts, scores, direction, ties, last)


@pytest.mark.slow
@settings(max_examples=1500)
@given(
    facts=MANY_FACTS,
    scores=SCORES,
    direction=st.sampled_from(DIRECTIONS),
    ties=st.sampled_from(get_args(Ties)),
    last=LAST,
)
def test_ranks_are_those_of_enumeration_on_many_kbs(facts, scores, direction, ties, last) -> None:  # type: ignore[no-untyped-def]
    agrees_with_enumeration(facts, scores, direction, ties, last)


@settings(max_examples=100)
@given(facts=FACTS, scores=SCORES)
def test_filters_nest(facts, scores) -> None:  # type: ignore[no-untyped-def]
    found = rank(Fixed(scores), placed_of(facts), placed_of(facts), "object", entities=ENTITIES, filters=FILTERS)
    assert (found["ignore-time"] <= found["per-instant"]).all()
    assert (found["per-instant"] <= found["exact-span"]).all()
    assert (found["exact-span"] <= found["none"]).all()


def test_a_constant_model_has_the_middle_rank() -> None:
    facts = placed_of([(0, 0, entity, 0, 0) for entity in range(ENTITIES)])
    found = rank(Fixed([1.0] * ENTITIES), facts, facts, "object", entities=ENTITIES, filters=["none"])["none"]
    assert found.tolist() == [(ENTITIES + 1) / 2] * ENTITIES


def test_whole_ranks_are_whole_numbers() -> None:
    """Thirds must add up: HITS@1 asks for a rank of exactly 1."""
    known = [(0, 0, 1, 0, 0), (0, 0, 1, 1, 1), (0, 0, 1, 2, 2), (0, 0, 2, 0, 2)]
    found = rank(Fixed([0.0, 3.0, 1.0]), placed_of(known[-1:]), placed_of(known), "object", entities=3)
    assert found["per-instant"].tolist() == [1.0]


def test_small_blocks_give_the_same(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    facts = placed_of([(0, 0, 1, 0, 2), (0, 0, 2, 1, 1), (3, 1, 4, 0, 0), (0, 0, 3, 2, 3)])
    scorer = Fixed([0.0, 1.0, 2.0, 3.0, 4.0])
    whole = rank(scorer, facts, facts, "object", entities=ENTITIES, filters=FILTERS)
    monkeypatch.setattr("timeplex.evaluation.ranking.CHUNK_BYTES", 1)
    parts = rank(scorer, facts, facts, "object", entities=ENTITIES, filters=FILTERS)
    assert all(np.array_equal(whole[name], parts[name]) for name in FILTERS)


def test_metrics_by_hand() -> None:
    metrics = link_metrics(np.array([1.0, 2.0, 4.0, 10.5]))
    assert metrics["mrr"] == pytest.approx((1 + 1 / 2 + 1 / 4 + 1 / 10.5) / 4)
    assert metrics["mr"] == 17.5 / 4
    assert (metrics["hits@1"], metrics["hits@3"], metrics["hits@10"]) == (0.25, 0.5, 0.75)
    assert link_metrics(np.empty(0))["mrr"] == 0


def test_entities_that_come_last() -> None:
    """Entity 4 scores best and is unseen: it stands behind all others, also as the gold."""
    facts = placed_of([(0, 0, 1, 0, 0), (0, 0, 4, 1, 1)])
    allowances = {"none": forgiven(facts, facts, "object", "none")}
    last = torch.tensor([False, False, False, False, True])
    scorer = Fixed([0.0, 3.0, 1.0, 2.0, 9.0])
    found = ranking.rank(scorer, facts, allowances, "object", entities=ENTITIES, last=last)["none"]
    assert found.tolist() == [1.0, 5.0]


@pytest.mark.parametrize(
    ("scores", "what"), [([0.0, float("nan"), 1.0, 2.0, 3.0], "NaN"), ([0.0, 1.0], r"shape \(1, 2\), not \(1, 5\)")]
)
def test_scores_that_mean_nothing_are_refused(scores, what) -> None:  # type: ignore[no-untyped-def]
    facts = placed_of([(0, 0, 1, 0, 0)])
    with pytest.raises(InputError, match=what):
        rank(Fixed(scores), facts, facts, "object", entities=ENTITIES)


def test_infinite_scores_are_ranked() -> None:
    facts = placed_of([(0, 0, 1, 0, 0)])
    scorer = Fixed([float("inf"), 1.0, -float("inf"), 2.0, 0.0])
    assert rank(scorer, facts, facts, "object", entities=ENTITIES)["per-instant"].tolist() == [3.0]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_ranks_with_very_many_known_answers_are_the_same(direction: Direction, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would not fit in memory is looked up for some queries at a time."""
    random = np.random.default_rng(0)
    first = random.integers(0, 9, 200)
    columns = random.integers(0, 6, 200), random.integers(0, 2, 200), random.integers(0, 6, 200)
    known = PlacedFacts(*columns, first, first + random.integers(0, 5, 200))
    scorer = Fixed(random.normal(size=6).tolist())
    expected = rank(scorer, known, known, direction, entities=6, filters=FILTERS)
    monkeypatch.setattr(ranking, "MOST_ANSWERS", 100)
    allowances = {name: ranking.allowance(known, known, direction, name) for name in FILTERS}
    assert {type(each) for each in allowances.values()} == {ranking.Forgiven, ranking.OnDemand}
    found = ranking.rank(scorer, known, allowances, direction, entities=6)
    for name in FILTERS:
        assert found[name].tolist() == expected[name].tolist()
