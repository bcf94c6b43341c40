"""Explanations: the parts sum to what is ranked by, and the facts behind them are those that count."""

import time
from itertools import pairwise
from math import log1p

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.answers.small_runs import trained
from tests.patterns.worlds import evidences

import timeplex
from timeplex import Learned, TemporalKB
from timeplex.answers.explain import begin_position, reasons_text
from timeplex.errors import InputError, UnknownNameError
from timeplex.kb.dates import Granularity
from timeplex.kb.timeline import Timeline
from timeplex.models.scorer import DIRECTIONS
from timeplex.patterns.base import Evidence, LinkQueries
from timeplex.patterns.rules import FLOOR, SHRINKAGE, Rules


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    """People who are born, live and work in one of six towns; nothing is said of where the last one works."""
    rows = []
    for person in range(120):
        town, year = f"town {person % 6}", 1900 + person % 40
        for relation, age in (("bornIn", 0), ("livesIn", 20), ("worksIn", 20)):
            if (person, relation) != (119, "worksIn"):
                rows.append((f"person {person:03}", relation, town, year + age, year + age + (10 if age else 0)))
    return timeplex.read(rows)


@pytest.fixture(scope="module")
def learned(kb: TemporalKB) -> Learned:
    return timeplex.learn(kb)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_parts_sum_to_differences_of_scores(direction: str) -> None:
    """Two answers to one question differ in their explanations as they do in their scores."""
    run = trained()
    kb = run.kb
    s, r, o, year, _ = next(iter(kb.test))
    names = kb.entities[s], kb.relations[r], kb.entities[o]
    asked = {"relation": names[1], "at": year}
    asked |= {"subject": names[0]} if direction == "object" else {"object": names[2]}
    scores = run.links.who.scores(run.asking.questions(**asked)).double().numpy()[0]  # type: ignore[arg-type]
    answers = [number for number in (3, 5, 8, 13) if number not in (s, o)]
    told = []
    for number in answers:
        answer = kb.entities[number]
        triple = (names[0], names[1], answer) if direction == "object" else (answer, names[1], names[2])
        found = run.explain(*triple, at=year, direction=direction)  # type: ignore[arg-type]
        assert sum(part.value for part in found.parts) == pytest.approx(found.score)
        assert "embeddings" in [part.name for part in found.parts]
        sizes = [abs(part.value) for part in found.parts]
        assert sizes == sorted(sizes, reverse=True)
        told.append(found.score)
    assert np.diff(told) == pytest.approx(np.diff(scores[answers]), abs=1e-3)


def test_the_facts_that_lead_to_an_answer_are_told(learned: Learned) -> None:
    found = learned.explain("person 119", "worksIn", "town 5", at=1959)
    assert {part.name: part.value for part in found.parts}["rules"] > 1
    told = [reason for reason in found.reasons if reason.part == "rules"]
    assert any("person 119 livesIn town 5" in fact for reason in told for fact in reason.facts)
    assert all(": such a path led to the right answer in " in reason.sentence for reason in told)
    assert 0.5 < (found.probability or 0) <= 1
    wrong = learned.explain("person 119", "worksIn", "town 2", at=1959)
    assert found.score > wrong.score + 1
    best = learned.rank(subject="person 119", relation="worksIn", at=1959, k=1).row(0, named=True)
    assert (best["entity"], best["probability"]) == ("town 5", pytest.approx(found.probability, rel=1e-3))


def test_what_is_stated_does_not_vouch_for_itself(learned: Learned) -> None:
    found = learned.explain("person 007", "bornIn", "town 1", at=1907)
    assert found.note.startswith("The KB states it: 1907. ")
    assert found.probability is None
    assert not any("person 007 bornIn" in fact for reason in found.reasons for fact in reason.facts)
    assert not any("person 007 bornIn" in reason.sentence for reason in found.reasons)


@given(evidences(), st.data())
@settings(max_examples=40, deadline=None)
def test_paths_are_those_that_rules_count(evidence: Evidence, data: st.DataObject) -> None:
    """The confidences of all paths to an answer, by their length, are what the features sum up."""
    rules = Rules(evidence)
    x, answer = (data.draw(st.integers(0, evidence.entities - 1)) for _ in range(2))
    r, date = data.draw(st.integers(0, 2 * evidence.relations - 1)), data.draw(st.integers(1990, 2010))
    asked = LinkQueries(*(np.array([each]) for each in (x, r, date, date)))
    features = rules.candidates(asked)[0, :, answer]
    best = [0.0, 0.0, 0.0]
    for rows, hits, cases in rules.paths(asked, answer, 10_000):
        assert len(rows) in (1, 2, 3)
        ends = [{int(evidence.facts.s[row]), int(evidence.facts.o[row])} for row in rows]
        assert x in ends[0]
        assert answer in ends[-1]
        assert all(one & two for one, two in pairwise(ends))
        best[len(rows) - 1] = max(best[len(rows) - 1], hits / (cases + SHRINKAGE))
    assert [log1p(each / FLOOR) if each else 0.0 for each in best] == pytest.approx(features[1::2].tolist(), abs=1e-4)


def test_what_cannot_be_explained(learned: Learned) -> None:
    with pytest.raises(UnknownNameError, match="unknown entity 'Nobody at all'"):
        learned.explain("Nobody at all", "bornIn", "town 1", at=1950)
    with pytest.raises(UnknownNameError, match="unknown relation"):
        learned.explain("person 007", "flewWith", "town 1", at=1950)
    with pytest.raises(InputError, match="is not a date"):
        learned.explain("person 007", "bornIn", "town 1", at="soon")
    with pytest.raises(InputError, match="outside of the timeline"):
        learned.explain("person 007", "bornIn", "town 1", at=9999)


def test_an_instant_that_was_not_observed_is_placed_as_in_the_evaluation() -> None:
    timeline = Timeline.of([1990, 1995], Granularity.YEAR, "observed")
    begins, ends = [1980, 1990, 1992, 1992, 1999], [1985, 1999, 1993, 1996, 1999]
    assert begin_position(timeline, begins, ends).tolist() == [0, 0, 0, 1, 1]


def test_sentences_are_quick() -> None:
    run, facts = trained(), trained().kb.train
    start = time.process_time()
    for s, r, o, _, _ in facts[:100]:
        reasons_text(run, s, r, o, 0)
    assert time.process_time() - start < 10  # some ms each; a busy machine, and coverage, take their share
