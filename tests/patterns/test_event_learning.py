"""Learning who from events: train teaches all, by folds really out of sight; dev only weighs what has seen train."""

from dataclasses import replace

import numpy as np
import pytest
from tests.builders import facts_of, kb_of

from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.patterns import ranking, trees
from timeplex.patterns.base import LinkQueries
from timeplex.patterns.company import Company
from timeplex.patterns.events import Events
from timeplex.patterns.ranking import EVENT_PATTERNS, Course, LinkModel
from timeplex.patterns.trees import Trees, grow

pytest.importorskip("lightgbm")

ENTITIES, RELATIONS, DAYS = 30, 3, 120


def events(n: int, seed: int) -> list[tuple[int, int, int, int, int]]:
    """Distinct events: everyone has few others to meet, and meets one of them again a day or two later."""
    rng, found = np.random.default_rng(seed), set()
    while len(found) < n:
        x, r, t = int(rng.integers(ENTITIES)), int(rng.integers(RELATIONS)), int(rng.integers(DAYS))
        y = (x + 1 + int(rng.integers(3))) % ENTITIES
        found.add((x, r, y, t, t))
        later = min(t + int(rng.integers(1, 3)), DAYS - 1)
        found.add((x, (r + 1) % RELATIONS, y, later, later))
    return sorted(found)


def world(valid: Facts) -> TemporalKB:
    rows = events(900, 0)
    chosen = np.random.default_rng(1).permutation(len(rows))
    train, test = (facts_of([rows[each] for each in part]) for part in (chosen[:700], chosen[700:]))
    return kb_of({"train": train, "valid": valid, "test": test}, ENTITIES, RELATIONS, Granularity.DAY)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "ENOUGH_FOR_FOLDS", 100)
    monkeypatch.setattr(ranking, "MOST_QUESTIONS", 200)
    monkeypatch.setattr(ranking, "AGAIN", 8)
    monkeypatch.setattr(ranking, "FOLD_ROUNDS", 20)
    monkeypatch.setattr(trees, "LEAST_HESSIAN", 1.0)
    monkeypatch.setattr(trees, "SMALLEST_LEAF", 3)


DEV, OTHER_DEV = facts_of(events(60, 7)), facts_of(events(60, 8))


def guess(queries: LinkQueries) -> np.ndarray:  # type: ignore[type-arg]
    """Scores that hint at the right kind of answer."""
    return -(((np.arange(ENTITIES) - queries.x[:, None]) % ENTITIES) * 0.1).astype(np.float32)


def splits_by(model: LinkModel) -> set[int]:
    """The features that trees look at."""
    assert model.trees is not None
    return {int(each) for each in model.trees.feature[model.trees.left != model.trees.right]}


def test_folds_are_really_out_of_sight() -> None:
    course = Course(world(DEV), asks="begin")
    assert course.names == EVENT_PATTERNS
    assert len(course._of_folds) == ranking.EVENT_FOLDS_USED
    for evidence, questions in course._of_folds:
        there = set(zip(evidence.x, evidence.r, evidence.y, evidence.begin, strict=True))
        q = questions.queries
        assert len(questions)
        assert there.isdisjoint(zip(q.x, q.r, questions.gold, q.begin, strict=True))


def test_trees_see_what_the_evidence_without_the_fold_says(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[np.ndarray, ...]] = []  # type: ignore[type-arg]

    def grown(*args: np.ndarray | int) -> Trees:  # type: ignore[type-arg]
        shown.append(args[:3])  # type: ignore[arg-type]
        return grow(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(ranking, "grow", grown)
    course = Course(world(DEV), asks="begin")
    course.model()
    (features, start, right), number = shown[0], 0
    for evidence, questions in course._of_folds:
        model = LinkModel([Events(evidence), Company(evidence)], course.before, "begin")
        rows, r = model.rows(questions.queries), questions.queries.r
        linear = ranking.linear_scores(model.weights, rows, r)
        best = model.best(linear)
        offset = questions.offsets(ENTITIES)
        for q, gold in enumerate(questions.gold):
            if gold in best[q]:
                place = right[number]
                assert best[q, place] == gold
                np.testing.assert_array_equal(features[number, :, :-1], rows[q][:, best[q]].T)
                np.testing.assert_allclose(start[number], (linear + offset)[q, best[q]], rtol=1e-5)
                number += 1
    assert number == len(features) > 100
    assert np.isneginf(start).any()  # other known answers are no candidates


def test_dev_has_no_part_in_it() -> None:
    one, other = (Course(world(dev), asks="begin") for dev in (DEV, OTHER_DEV))
    assert one.dev_pools is None
    first, second = one.model(), other.model()
    np.testing.assert_array_equal(first.weights.shared, second.weights.shared)
    assert first.trees is not None
    assert second.trees is not None
    assert len(first.trees.feature)
    for name, array in first.trees.arrays().items():
        np.testing.assert_array_equal(array, second.trees.arrays()[name])


def test_of_few_events_dev_teaches() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranking, "ENOUGH_FOR_FOLDS", 10_000)
        one, other = (Course(world(dev), asks="begin").linear() for dev in (DEV, OTHER_DEV))
    assert not np.array_equal(one.weights.shared, other.weights.shared)


def test_dev_weighs_what_has_seen_train_and_nothing_else() -> None:
    course = Course(world(DEV), asks="begin", extra=guess)
    model = course.linear()
    np.testing.assert_array_equal(model.weights.shared[:-1], course.before.shared)
    np.testing.assert_array_equal(model.weights.corrections[:, :-1], course.before.corrections)
    assert np.abs(model.weights.shared[-1] + model.weights.corrections[:, -1]).max() > 0.01


def test_trees_of_folds_come_first_and_know_nothing_of_embeddings() -> None:
    kb = world(DEV)
    alone = Course(kb, asks="begin").model()
    course = Course(kb, asks="begin", extra=guess)
    both = course.model()
    assert alone.trees is not None
    assert both.trees is not None
    first = course._first_trees
    assert first is not None
    width = len(both.features)  # the extra scores are the last but one of what trees see
    assert width - 1 not in splits_by(replace(both, trees=first))
    assert len(both.trees.feature) > len(first.feature) == len(alone.trees.feature)
    queries = LinkQueries.of(kb.test[:20], "object", RELATIONS)
    rows = both.rows(queries)
    linear = ranking.linear_scores(both.weights, rows, queries.r)
    shown = both.tree_features(rows, linear, queries.r, both.best(linear))
    plain = linear - both.weights.of(queries.r)[:, -1:] * rows[:, -1]
    np.testing.assert_allclose(
        shown[:, :, -1],
        np.take_along_axis(plain, both.best(linear), 1) - plain.max(1, keepdims=True),
        atol=1e-4,
    )
