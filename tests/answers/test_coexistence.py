"""A further answer where the KB has one already."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.answers import small_runs
from tests.builders import facts_of

from timeplex.answers.rank import Coexistence, EntityQueries, KnownAnswers, holding
from timeplex.kb import spans
from timeplex.kb.facts import Facts

SPAN = st.tuples(st.integers(-3, 9), st.integers(0, 5))


@given(rows=st.lists(st.tuples(st.integers(0, 2), SPAN, st.integers(-4, 16)), max_size=12))
def test_holding_counts_facts_of_the_same_question(rows: list[tuple[int, tuple[int, int], int]]) -> None:
    question = np.array([row[0] for row in rows], np.int64)
    begin = np.array([row[1][0] for row in rows], np.int64)
    end = begin + np.array([row[1][1] for row in rows], np.int64)
    at = np.array([row[2] for row in rows], np.int64)
    expected = [
        sum(question[g] == question[f] and begin[g] <= at[f] <= end[g] for g in range(len(rows)))
        for f in range(len(rows))
    ]
    assert holding(question, begin, end, at).tolist() == expected


def test_shares_and_factors_by_hand() -> None:
    # Relation 0: one head of country 9 after the other, and a year in which both are. Relation 1: members of country 9.
    rows = [(1, 0, 9, 1990, 1994), (2, 0, 9, 1994, 1998), (3, 1, 9, 1990, spans.OPEN_END), (4, 1, 9, 1991, 1999)]
    train = facts_of(rows)
    company = Coexistence(train, 3, 1990, 2000)
    half = 2 / 4
    assert company.share["subject"].tolist() == pytest.approx([half / 3, (2 + half) / 3, half])
    assert company.share["object"].tolist() == pytest.approx([0.0, 0.0, 0.0])
    ask = EntityQueries("subject", np.full(4, 9), np.array([0, 0, 1, 0]), *np.array([[1991, 1999, 2000, 1993]] * 2))
    factor = company.factor(ask, KnownAnswers(train))
    assert factor.tolist() == pytest.approx([half / 3, 1.0, (2 + half) / 3, half / 3])
    wide = EntityQueries("subject", np.array([9]), np.array([0]), np.array([1998]), np.array([2000]))
    assert company.factor(wide, KnownAnswers(train)).tolist() == [1.0]  # its middle is free


def test_no_facts_no_company_is_known() -> None:
    company = Coexistence(Facts.empty(), 2, 0, 0)
    assert company.share["object"].tolist() == [1.0, 1.0]


def test_new_answers_are_less_likely_where_one_is_known() -> None:
    trained = small_runs.trained("gadgets")
    train = trained.kb.train
    s, r = trained.kb.entities.many(train.s[:30]), trained.kb.relations.many(train.r[:30])
    at = [int(when) for when in np.clip(train.begin[:30], trained.run.timeline.instants[0], None)]
    questions = trained.asking.questions(subject=s, relation=r, at=at)
    found = trained.who.rank(questions, 5)
    plain = trained.calibration.rank(found.raw, questions.r, "object")
    factor = trained._company.factor(questions, trained.who.known)[:, None]
    assert (factor < 1).any()
    probability = trained.probability(questions, found.raw, found.holds)
    assert probability == pytest.approx(np.where(found.holds, plain, plain * factor))
