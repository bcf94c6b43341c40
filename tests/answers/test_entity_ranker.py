"""Ranking against a literal version that knows nothing of rows, blocks or prefix sums."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.answers.random_runs import random_run
from tests.builders import facts_of

from timeplex.answers import rank as module
from timeplex.answers.rank import EntityQueries, EntityRanker
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts
from timeplex.kb.timeline import Timeline
from timeplex.models.scorer import Direction
from timeplex.training.experiment import Experiment
from timeplex.training.run import TrainedRun

DIRECTIONS = st.sampled_from(["subject", "object"])


def literal_score(run: TrainedRun, direction: Direction, s: int, r: int, o: int, begin: int, end: int) -> float:
    """The mean over the instants of the span, one by one, and every gadget at the begin."""
    instants = run.timeline.instants.tolist()
    inside = [place for place, instant in enumerate(instants) if begin <= instant <= end]
    inside = inside or [max(0, max((place for place, instant in enumerate(instants) if instant < begin), default=0))]
    one = [torch.tensor([number]) for number in (s, r, o)]
    if run.recipe.inverse and direction == "subject":
        asked = [torch.tensor([number]) for number in (o, r + len(run.kb.relations), s)]
    else:
        asked = one
    total = sum(float(run.model.score_at(*asked, torch.tensor([place]))) for place in inside) / len(inside)
    for gadget in run.gadgets.values():
        total += float(gadget.strength) * float(gadget.score_at(*one, torch.tensor([inside[0]])))
    return total


def literal(run: TrainedRun, known: Facts, direction: Direction, given: int, r: int, begin: int, end: int):  # type: ignore[no-untyped-def]
    """Every candidate with its score, its raw probability and whether it holds; best first."""
    seen = set(run.kb.train.s.tolist()) | set(run.kb.train.o.tolist())
    scores = {}
    for entity in sorted(seen):
        s, o = (given, entity) if direction == "object" else (entity, given)
        scores[entity] = literal_score(run, direction, s, r, o, begin, end)
    holds = set()
    for s, relation, o, first, last in known:
        if relation == r and given == (s if direction == "object" else o) and first <= end and last >= begin:
            holds.add(o if direction == "object" else s)
    rows = []
    for entity, score in scores.items():
        others = sum(math.exp(other - score) for e, other in scores.items() if e != entity and e not in holds)
        rows.append((entity, score, 1 / (1 + others), entity in holds))
    return sorted(rows, key=lambda row: -row[1])


@settings(max_examples=60)
@given(st.integers(0, 10**6), DIRECTIONS, st.integers(1, 9), st.booleans(), st.data())
def test_rank_is_what_the_formula_says(
    seed: int, direction: Direction, k: int, hide: bool, data: st.DataObject
) -> None:
    run = random_run(seed)
    note(str(run.recipe))
    low, high = int(run.timeline.instants[0]), int(run.timeline.instants[-1])
    begin, end = sorted(data.draw(st.tuples(st.integers(low, high), st.integers(low, high))))
    given_, r = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 1))
    questions = EntityQueries(direction, *(np.array([number]) for number in (given_, r, begin, end)))
    who = EntityRanker(run, run.kb.facts)
    found = who.rank(questions, k, hide_known=hide)
    everyone = literal(run, run.kb.facts, direction, given_, r, begin, end)
    expected = [row for row in everyone if not (hide and row[3])][:k]
    there = found.entity[0] >= 0
    assert there.sum() == len(expected)
    assert not there[len(expected) :].any()
    assert not found.holds[0][~there].any()
    by_entity = {row[0]: row for row in everyone}
    assert found.raw[0][there] == pytest.approx([by_entity[e][2] for e in found.entity[0][there]], rel=1e-3, abs=1e-6)
    assert found.holds[0][there].tolist() == [by_entity[e][3] for e in found.entity[0][there]]
    scores = [by_entity[e][1] for e in found.entity[0][there]]
    assert scores == pytest.approx([row[1] for row in expected], abs=1e-3)
    # Up to what all have alike, the scores are those of the formula.
    assert found.score[0][there] - found.score[0][0] == pytest.approx(
        np.array(scores) - scores[0] if scores else [], abs=1e-3
    )
    for entity, score, raw, _ in everyone:
        value, place = who.raw_of(questions, np.array([entity]))
        assert value == pytest.approx([raw], rel=1e-3, abs=1e-6)
        above = [row for row in everyone if row[1] > score + 1e-4 and not row[3] and row[0] != entity]
        near = [row for row in everyone if abs(row[1] - score) <= 1e-4 and row[0] != entity]
        assert 1 + len(above) <= place[0] <= 1 + len(above) + len(near)


@settings(max_examples=25)
@given(st.integers(0, 10**6), DIRECTIONS, st.booleans(), st.sampled_from([1, 100, 10**9]))
def test_many_are_as_one_by_one(seed: int, direction: Direction, hide: bool, size: int) -> None:
    run = random_run(seed)
    first, last = int(run.timeline.instants[0]), int(run.timeline.instants[-1])
    questions = EntityQueries.of(run.kb.valid + run.kb.train[:5], direction, first, last)
    who = EntityRanker(run, run.kb.train)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK_BYTES", size)
        together = who.rank(questions, 4, hide_known=hide)
    for row in range(len(questions)):
        alone = who.rank(questions.rows(slice(row, row + 1)), 4, hide_known=hide)
        assert alone.score[0] == pytest.approx(together.score[row], abs=1e-4)
        assert alone.raw[0] == pytest.approx(together.raw[row], abs=1e-4)
        clear = len(set(np.round(together.score[row], 3))) == 4
        assert not clear or alone.entity[0].tolist() == together.entity[row].tolist()


def test_questions_of_facts_close_open_ends() -> None:
    run = random_run(3)
    questions = EntityQueries.of(run.kb.train, "subject", 1991, 2000)
    assert questions.given.tolist() == run.kb.train.o.tolist()
    assert questions.begin.min() >= 1991
    assert questions.end.max() <= 2000
    assert len(questions) == len(run.kb.train)


def test_an_entity_without_training_facts_is_no_candidate() -> None:
    run = random_run(5)
    questions = EntityQueries("object", np.array([0]), np.array([0]), np.array([1995]), np.array([1997]))
    who = EntityRanker(run, run.kb.train)
    unseen = who.unseen.tolist()
    assert 6 in unseen
    found = who.rank(questions, 100)
    assert found.entity.shape == (1, 7)
    assert not set(unseen) & set(found.entity[0].tolist())
    assert who.raw_of(questions, np.array([6]))[0] == 0


def test_equal_scores_come_by_number() -> None:
    run = random_run(8)
    run.model.load_state_dict({name: torch.zeros_like(table) for name, table in run.model.state_dict().items()})
    run.gadgets and [gadget.strength.zero_() for gadget in run.gadgets.values()]
    questions = EntityQueries("object", np.array([0]), np.array([0]), np.array([1995]), np.array([1997]))
    found = EntityRanker(run, Facts.empty()).rank(questions, 6)
    there = found.entity[0][found.entity[0] >= 0].tolist()
    assert there == sorted(there)
    assert found.raw[0][0] == pytest.approx(1 / len(there))


def test_a_known_answer_far_above_takes_nothing_from_the_others() -> None:
    """Scores may be so far apart that exp of their difference is 0."""
    run = next(run for run in (random_run(seed) for seed in range(100)) if run.recipe.model == "timeplex-base")
    run.model.entity.mul_(300)  # type: ignore[operator, union-attr]
    questions = EntityQueries("object", np.array([0]), np.array([0]), np.array([1995]), np.array([1997]))
    best = EntityRanker(run, Facts.empty()).rank(questions, 3)
    assert best.score[0][0] - best.score[0][1] > 200
    for many in (1, 2):  # one of the three is open, or two
        known = facts_of((0, 0, o, 1990, 2010) for o in best.entity[0][:many].tolist())
        for k in (many, many + 1, 6):
            found = EntityRanker(run, known).rank(questions, k)
            assert found.raw[0][:many] == pytest.approx(1.0)
            assert (found.raw[0] <= 1).all()
            assert k == many or found.raw[0][many] == pytest.approx(1.0)


def test_all_known_leaves_the_known_sure() -> None:
    """With nobody else to be meant, a known answer has probability 1."""
    run = random_run(11)
    everyone = facts_of((0, 0, o, 1990, 2010) for o in range(7))
    questions = EntityQueries("object", np.array([0]), np.array([0]), np.array([1995]), np.array([1997]))
    found = EntityRanker(run, everyone).rank(questions, 7)
    assert found.raw[0][found.entity[0] >= 0] == pytest.approx(1.0)
    hidden = EntityRanker(run, everyone).rank(questions, 7, hide_known=True)
    assert (hidden.entity == -1).all()
    assert (hidden.raw == 0).all()


def test_what_is_kept_is_forgotten_when_a_table_changes() -> None:
    """Sums of time vectors and of weights are kept between questions, but only as long as they are true."""
    runs = (random_run(seed) for seed in range(100))
    run = next(run for run in runs if run.gadgets and run.recipe.model == "timeplex-base")
    run.model.entity.mul_(0.02)  # type: ignore[operator, union-attr]
    run.gadgets["recurrence"].strength.mul_(0.1)  # so that nobody has all the probability
    who = EntityRanker(run, Facts.empty())
    questions = EntityQueries("object", np.array([0]), np.array([0]), np.array([1995]), np.array([1999]))
    before = who.rank(questions, 6)
    assert before.raw[0].max() < 0.9
    assert who.rank(questions, 6).score.tolist() == before.score.tolist()
    run.model.time.mul_(3).add_(0.5)  # type: ignore[operator, union-attr]
    run.gadgets["pair"].weight.mul_(-3)  # type: ignore[operator, union-attr]
    after = who.rank(questions, 6)
    expected = literal(run, Facts.empty(), "object", 0, 0, 1995, 1999)[:6]
    assert after.raw[0] == pytest.approx([row[2] for row in expected], rel=1e-3)
    assert after.raw[0] != pytest.approx(before.raw[0], rel=1e-2)


def test_a_time_between_two_observed_instants_is_that_of_the_one_before() -> None:
    run = random_run(5)
    timeline = Timeline(np.array([1990, 1996, 2000]), Granularity.YEAR, "observed")
    placed = EntityRanker(replace(run, setup=_Placed(timeline, run.setup)), Facts.empty())  # type: ignore[arg-type]
    begin, end = np.array([1991, 1996, 1985, 1997, 1990]), np.array([1995, 1999, 1989, 2004, 2000])
    zeros = np.zeros(5, np.int64)
    first, last = placed.positions(EntityQueries("object", zeros, zeros, begin, end))
    assert (first.tolist(), last.tolist()) == ([0, 1, 0, 2, 0], [0, 1, 0, 2, 2])


@dataclass(frozen=True)
class _Placed:
    """A setup with another timeline."""

    timeline: Timeline
    setup: Experiment

    def __getattr__(self, name: str) -> object:
        return getattr(self.setup, name)


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 400), st.integers(1, 60))
def test_the_highest_are_those_of_a_sort(seed: int, k: int, length: int, distinct: int) -> None:
    rng = np.random.default_rng(seed)
    rows = torch.from_numpy(rng.integers(0, distinct, (3, length)).astype(np.float32))
    rows[rows == 0] = -torch.inf
    values, found = module._best(rows, min(k, length))
    assert values.tolist() == rows.sort(1, descending=True).values[:, : min(k, length)].tolist()
    assert rows.gather(1, found).tolist() == values.tolist()
    for row in range(3):
        assert len(set(found[row].tolist())) == found.shape[1]
        pairs = list(zip(values[row].tolist(), found[row].tolist(), strict=True))
        assert pairs == sorted(pairs, key=lambda pair: (-pair[0], pair[1]))


def test_known_answers_in_small_parts_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    run = random_run(4, count=40)
    facts, first, last = run.kb.train, int(run.timeline.instants[0]), int(run.timeline.instants[-1])
    both: tuple[Direction, ...] = ("subject", "object")
    for direction in both:
        questions = EntityQueries.of(facts, direction, first, last)
        whole = EntityRanker(run, facts).rank(questions, 5, hide_known=True)
        with monkeypatch.context() as patch:
            patch.setattr(module, "MOST_ANSWERS", 3)
            parts = list(EntityRanker(run, facts).known.by_parts(questions))
            assert len(parts) > 3
            found = EntityRanker(run, facts).rank(questions, 5, hide_known=True)
        assert np.array_equal(found.entity, whole.entity)
        np.testing.assert_allclose(found.raw, whole.raw, rtol=1e-5)
        query = np.concatenate([part.start + query for part, query, _, _ in parts])
        assert np.array_equal(query, EntityRanker(run, facts).known.of(questions)[0])
        assert np.array_equal(np.bincount(query, minlength=len(facts)), EntityRanker(run, facts).known.count(questions))
