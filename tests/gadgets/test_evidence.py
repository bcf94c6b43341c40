"""Each training fact at one time, and how it is found."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import Row, facts_of
from tests.gadgets import oracle

from timeplex.gadgets import GADGETS, Evidence
from timeplex.testing.gadgets import OPEN, Case, Sizes

ROWS: list[Row] = [
    (0, 0, 1, 1990, 1995),
    (0, 1, 1, *OPEN),
    (2, 0, 1, OPEN[0], 1997),
    (0, 0, 1, 1999, OPEN[1]),
    (1, 1, 2, *OPEN),
]


def evidence_of(rows: list[Row]) -> Evidence:
    return Evidence.of(facts_of(rows), 3, 2, np.array([1990, 1995, 1997, 2000]))


def test_a_fact_is_at_its_begin_or_else_at_its_end_and_without_a_date_nowhere() -> None:
    evidence = evidence_of(ROWS)
    assert len(evidence) == 3
    assert evidence.t.tolist() == [1990, 1997, 1999]
    assert evidence.rows.tolist() == [0, 2, 3]
    assert [evidence.s.tolist(), evidence.r.tolist(), evidence.o.tolist()] == [[0, 2, 0], [0, 0, 0], [1, 1, 1]]


def test_places_of_training_facts() -> None:
    assert evidence_of(ROWS).places(np.array([3, 4, 0, 1, 2, 3])).tolist() == [2, -1, 0, -1, 1, 2]
    assert evidence_of([]).places(np.array([], np.int64)).tolist() == []
    assert evidence_of(ROWS[1:2]).places(np.array([0])).tolist() == [-1]


def test_positions_on_the_timeline_are_calendar_instants() -> None:
    assert evidence_of(ROWS).when(torch.tensor([3, 0, 3])).tolist() == [2000, 1990, 2000]


def test_facts_of_triples_come_by_query() -> None:
    query, fact = evidence_of(ROWS).of_triples(np.array([2, 0, 1, 0]), np.array([0, 0, 0, 1]), np.array([1, 1, 1, 1]))
    assert query.tolist() == [0, 1, 1]
    assert fact.tolist() == [1, 0, 2]


def finds_what_is_there(examples: int) -> None:
    @settings(max_examples=examples)
    @given(facts=st.integers(0, 20), seed=st.integers(0, 2**31))
    def holds(facts: int, seed: int) -> None:
        case = Case(GADGETS["recurrence"], "paper", Sizes(facts=facts), seed)
        found, expected = case.gadget().evidence, oracle.dated(facts_of(case.rows))
        columns = (found.rows, found.s, found.r, found.o, found.t)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == [tuple(fact) for fact in expected]
        places = {fact.row: place for place, fact in enumerate(expected)}
        rows = np.arange(len(case.rows))
        assert found.places(rows).tolist() == [places.get(row, -1) for row in rows.tolist()]

    holds()


def test_evidence_is_what_the_oracle_counts() -> None:
    finds_what_is_there(30)


@pytest.mark.slow
def test_evidence_is_what_the_oracle_counts_on_many_kbs() -> None:
    finds_what_is_there(300)
