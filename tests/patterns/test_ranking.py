"""The model that ranks by patterns: it learns, its parts sum to its scores, its state is all of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import facts_of
from tests.patterns.worlds import asked_of, evidences

from timeplex.datasets.synthetic import generate
from timeplex.kb import spans
from timeplex.kb.facts import TemporalKB
from timeplex.kb.split import split_randomly
from timeplex.patterns import questions as asking
from timeplex.patterns import ranking
from timeplex.patterns.base import PATTERNS, Evidence, LinkQueries, Pattern, register
from timeplex.patterns.loglinear import Pools, Weights
from timeplex.patterns.questions import Questions, forgiven
from timeplex.patterns.ranking import (
    EVENT_PATTERNS,
    LINK_PATTERNS,
    Course,
    LinkModel,
    feature_names,
    link_patterns,
)
from timeplex.patterns.trees import Trees
from timeplex.typing import Features


def hashed(queries: LinkQueries, entities: int) -> np.ndarray:
    """Scores that some trained model might give."""
    return np.sin(queries.x[:, None] * 7.0 + queries.r[:, None] * 3.0 + np.arange(entities))


def some_trees(features: int) -> Trees:
    """Two trees that split by two features."""
    node = np.array([[0], [features - 1]], np.int32)
    left, right = np.array([[-1], [-1]], np.int32), np.array([[-2], [-2]], np.int32)
    return Trees(node, np.array([[0.5], [-0.5]]), left, right, np.array([[0.3, -0.2], [-1.0, 0.7]]))


def model_of(evidence: Evidence, *, trees: bool, extra: bool, seed: int = 0) -> LinkModel:
    patterns = [PATTERNS[name](evidence) for name in LINK_PATTERNS]
    features, rng = len(feature_names(patterns)) + extra, np.random.default_rng(seed)
    weights = Weights(rng.normal(size=features), rng.normal(size=(2 * evidence.relations, features)))
    scores = (lambda queries: hashed(queries, evidence.entities)) if extra else None
    return LinkModel(patterns, weights, "span", scores, some_trees(features + 1) if trees else None)


@settings(max_examples=30)
@given(st.data(), st.booleans(), st.booleans())
def test_parts_sum_to_the_score(data: st.DataObject, trees: bool, extra: bool) -> None:
    evidence = data.draw(evidences())
    queries = data.draw(asked_of(evidence))
    model = model_of(evidence, trees=trees, extra=extra)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "AGAIN", 3)  # so that there are others
        scores = model.scores(queries)
        for candidate in range(evidence.entities):
            parts = model.parts(queries, np.full(len(queries), candidate))
            assert set(parts) == {*model.features, *(("trees",) if trees else ())}
            np.testing.assert_allclose(sum(parts.values()), scores[:, candidate], rtol=1e-4, atol=1e-3)


@settings(max_examples=30)
@given(st.data())
def test_trees_rank_the_best_again_and_the_others_stay_below_in_order(data: st.DataObject) -> None:
    evidence = data.draw(evidences())
    queries = data.draw(asked_of(evidence))
    model = model_of(evidence, trees=True, extra=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "AGAIN", 3)
        scores = model.scores(queries)
    linear = LinkModel(model.patterns, model.weights, "span", model.extra).scores(queries)
    for row, before in zip(scores, linear, strict=True):
        seen = [each for each in range(evidence.entities) if each in evidence.x]
        best = sorted(seen, key=lambda each: -before[each])[:3]
        if not best:
            continue
        others = np.setdiff1d(np.arange(evidence.entities), best)
        if len(others):
            assert row[others].max() < row[best].min()
            np.testing.assert_allclose(np.diff(row[others]), np.diff(before[others]), atol=1e-6)


def test_a_state_is_all_of_a_model() -> None:
    kb = split_randomly(generate(300, seed=1))
    evidence = Evidence.of(kb)
    model = model_of(evidence, trees=True, extra=False)
    arrays, names = model.state()
    again = LinkModel.from_state(arrays, names, evidence)
    queries = LinkQueries.of(kb.valid[:5], "object", evidence.relations)
    np.testing.assert_array_equal(again.scores(queries), model.scores(queries))
    assert again.features == model.features


def mean_reciprocal_rank(model: LinkModel, kb: TemporalKB) -> float:
    found = []
    for direction, gold in (("object", kb.test.o), ("subject", kb.test.s)):
        scores = model.scores(LinkQueries.of(kb.test, direction, len(kb.relations)))  # type: ignore[arg-type]
        rank = (scores >= scores[np.arange(len(gold)), gold][:, None]).sum(1)
        found.append((1 / rank).mean())
    return float(np.mean(found))


@pytest.fixture(scope="module")
def kb() -> TemporalKB:
    return split_randomly(generate(600))


@pytest.fixture(scope="module")
def course(kb: TemporalKB) -> Course:
    steps: list[tuple[int, int | None]] = []
    found = Course(kb, on_progress=lambda done, total: steps.append((done, total)))
    assert steps == sorted(steps)
    assert steps
    return found


def test_a_model_ranks_better_than_what_it_is_made_of(kb: TemporalKB, course: Course) -> None:
    model = course.model(trees=False)
    figures = {}
    for name in ("popular", "degree"):
        weights = Weights.zero(2 * len(kb.relations), len(model.features))
        weights.shared[model.features.index(name)] = 1
        figures[name] = mean_reciprocal_rank(LinkModel(model.patterns, weights), kb)
    assert mean_reciprocal_rank(model, kb) > 1.5 * max(figures.values())


def test_the_same_seed_gives_the_same_model(kb: TemporalKB, course: Course) -> None:
    again = Course(kb).model(trees=False)
    np.testing.assert_array_equal(again.weights.shared, course.model(trees=False).weights.shared)


def test_a_question_may_tell_only_when_it_begins(kb: TemporalKB) -> None:
    model = model_of(Evidence.of(kb), trees=False, extra=False)
    asks = LinkModel(model.patterns, model.weights, "begin")
    queries = LinkQueries.of(kb.test[:6], "object", len(kb.relations))
    open_end = LinkQueries(queries.x, queries.r, queries.begin, np.full(6, spans.OPEN_END))
    np.testing.assert_array_equal(asks.scores(queries), model.scores(open_end))


# --- pools ---------------------------------------------------------------------------------------------


def questions(n: int = 60) -> tuple[Questions, Features]:
    """One fact, (0, 0, 1), and answers 2 (known all the time), 3 (half of it); n − 1 is not seen."""
    facts = facts_of([(0, 0, 1, 1900, 1903)])
    known = facts_of([(0, 0, 1, 1900, 1903), (0, 0, 2, 1890, 1903), (0, 0, 3, 1902, 1909)])
    known = known + facts_of([(each, 0, each + 1, 1950, 1950) for each in range(3, n - 2)])
    every = Evidence(known, n, 1, 1890, 1950)
    features = np.arange(n, dtype=np.float32)[None, None] / n
    return Questions.of(facts, every, every, "span", 9, np.random.default_rng(0), in_order=True)[:1], features


def test_answers_known_to_hold_do_not_count_against_the_right_one() -> None:
    asked, _ = questions()
    counts = np.exp(asked.offsets(60))[0]
    assert counts[2] == 0
    assert counts[3] == pytest.approx(0.5)
    assert counts[59] == 0
    assert (counts[4:59] == 1).all()


@pytest.mark.parametrize("scored", [True, False])
def test_a_pool_stands_for_all_entities(scored: bool) -> None:
    """The expected sum over a pool is the sum over all entities, each counted as it counts."""
    asked, features = questions()
    score = features[:, 0].astype(np.float64) if scored else None
    rng = np.random.default_rng(0)
    counts = np.exp(asked.offsets(60))[0]
    counts[1] = 1
    totals = []
    for _ in range(400):
        pools = asked.pools(features, score, 10, 8, rng)
        assert pools.features[0, 0, 0] == features[0, 0, 1]
        totals.append((np.exp(pools.offset[0]) * np.exp(pools.features[0, :, 0])).sum())
    assert np.mean(totals) == pytest.approx((counts * np.exp(features[0, 0])).sum(), rel=0.01)


def test_a_pool_larger_than_all_entities_has_them_all_once() -> None:
    asked, features = questions(12)
    pools = asked.pools(features, features[:, 0].astype(np.float64), 100, 60, np.random.default_rng(0))
    counts = np.exp(asked.offsets(12))[0]
    counts[1] = 1
    assert pools.offset.shape == (1, 161)
    assert np.exp(pools.offset).sum() == pytest.approx(counts.sum())


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_known_answers_are_the_same_in_parts(data: st.DataObject) -> None:
    evidence = data.draw(evidences())
    queries = data.draw(asked_of(evidence))
    gold = np.zeros(len(queries), np.int64)
    whole = forgiven(queries, gold, evidence)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asking, "FORGIVEN", 2)
        for one, other in zip(whole, forgiven(queries, gold, evidence), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_kb_of_events_has_other_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    for end, patterns in ((1950, EVENT_PATTERNS), (1951, LINK_PATTERNS)):
        assert link_patterns(Evidence(facts_of([(0, 0, 1, 1950, end)]), 2, 1, 1950, 1951)) == patterns
    monkeypatch.setattr(ranking, "MOST_COMPANY", 0)
    assert link_patterns(Evidence(facts_of([(0, 0, 1, 1950, 1950)]), 2, 1, 1950, 1951)) == ("events",)


def test_not_more_questions_than_fit_in_memory(kb: TemporalKB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "MOST_QUESTIONS", 40)
    monkeypatch.setattr(ranking, "MOST_DEV_QUESTIONS", 30)
    course = Course(kb, patterns=["popularity"])
    assert len(course.dev) == 30
    assert course.dev_pools is not None
    assert len(course.dev_pools) == 30
    assert np.isfinite(course.model(trees=False).weights.shared).all()


def adjusted(right: list[float]) -> np.ndarray:
    """The weights after dev of which the right answers' first feature is higher by `right`, in turn; before: 1, 0."""
    features = np.random.default_rng(0).normal(size=(400, 6, 2)).astype(np.float32)
    features[:, 0, 0] += np.resize(right, 400)
    pools = Pools(features, np.zeros((400, 6), np.float32), np.zeros(400, np.int64))
    start, half = Weights(np.array([1.0, 0.0]), np.zeros((1, 2))), np.arange(400) % 2 == 0
    return ranking._adjusted(pools, start, np.full(2, 1e-3), 1e-2, np.ones(2, np.bool_), 100, half).of(0)


def test_dev_moves_the_weights_only_if_one_half_helps_the_other() -> None:
    moved = adjusted([4.0, 4.0])
    assert moved[0] > 2
    assert abs(moved[1]) < 0.5
    np.testing.assert_array_equal(adjusted([4.0, -4.0]), [1, 0])  # what one half teaches is wrong in the other


def test_a_small_kb_is_asked_about_all_of_its_folds(kb: TemporalKB, monkeypatch: pytest.MonkeyPatch) -> None:
    def folds() -> int:
        steps: list[tuple[int, int]] = []
        Course(kb, patterns=["popularity"], on_progress=lambda done, total: steps.append((done, total)))
        assert {total for _, total in steps} == {len(steps) + 2}
        return len(steps)

    assert folds() == 8
    monkeypatch.setattr(ranking, "MOST_QUESTIONS", 40)
    assert folds() == 4


def test_questions_with_very_many_known_answers_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty facts of one question have sixty known answers each, and sixty more questions for subjects have one."""
    facts = facts_of([(0, 0, each, 1900, 1900) for each in range(1, 61)])
    every = Evidence(facts, 61, 1, 1900, 1900)

    def asked() -> Questions:
        return Questions.of(facts, every, every, "span", 1000, np.random.default_rng(0))

    assert len(asked()) == 120
    monkeypatch.setattr(asking, "MOST_ANSWERS", 600)
    few = asked()
    assert 5 < len(few) < 30
    assert len(few.answer) <= 600


def test_a_large_kb_affords_fewer_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = Evidence(facts_of([(0, 0, 1, 1900, 1900)] * 30), 2, 1, 1900, 1900)
    walking = [PATTERNS[name](evidence) for name in ("walks", "popularity")]
    monkeypatch.setattr(ranking, "MOST_STEPS", 100_000)
    assert ranking.affordable(walking[1:]) == 100_000 // (2 * 7)
    assert ranking.affordable(walking) == 100_000 // (2 * 13 + 16 * 60)


def test_patterns_from_outside_are_used_too() -> None:
    evidence = Evidence(facts_of([(0, 0, 1, 1900, 1905)]), 2, 1, 1900, 1905)
    before = ranking.link_patterns(evidence)
    try:
        register("mine")(type("Mine", (Pattern,), {"candidate_features": ("one",), "__module__": "elsewhere"}))
        assert ranking.link_patterns(evidence) == (*before, "mine")
    finally:
        PATTERNS.pop("mine", None)
